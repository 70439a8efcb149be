"""What can go wrong with hooks: a settings file that cannot be used, a hook that failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


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
    """A hook failed: the hook contract's "any other code, a signal, a missing program, a timeout".

    What happens to the call next is the hook's `on_error`, never this exception's business.
    """
