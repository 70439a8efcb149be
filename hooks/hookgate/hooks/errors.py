"""What can go wrong with hooks: a settings file that cannot be used, a hook that failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a settings file: the file, the line where it is known, and text with a remedy."""

    path: Path
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = [str(part) for part in (self.path, self.line, self.column) if part is not None]
        return f"{':'.join(place)}: {self.message}"


class SettingsError(ValueError):
    """Settings that cannot be used; the text names file, place and remedy of each problem, one a line."""

    def __init__(self, problems: str | Sequence[Problem]) -> None:
        self.problems = () if isinstance(problems, str) else tuple(problems)
        super().__init__(problems if isinstance(problems, str) else "\n".join(map(str, self.problems)))


class HookError(Exception):
    """A hook failed: the hook contract's "a signal, a missing program, a timeout".

    What happens to the call next is the hook's `on_error`, never this exception's business.
    """


class ExitCodeError(HookError):
    """A hook's program ended with a code other than 0 and 2, which the contract's documents call a warning.

    The hook's `on_exit_code` decides what happens to the call.
    """


Cause = Literal["no resources", "overload", "deadline", "long output", "closed", "internal error"]
"""Why a hook could not run or answer, where the reason lies outside of the hook:

no resources    no descriptor, process, thread, port or memory was left
overload        too many other calls were waiting for hooks
deadline        the whole time of the event was over
long output     the output was too long, and so was the input that it was made of
closed          the gateway was closing the hook
internal error  hookgate itself failed
"""


class HookUnavailableError(HookError):
    """A hook could not run or answer for a reason outside of it.

    A client can cause such a failure, so the call is denied whatever the hook's `on_error` says.
    """

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause: Cause = cause
