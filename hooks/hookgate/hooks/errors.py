"""Errors of the hook engine: unusable settings, failed hooks, exhausted resources."""

import errno
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic_core import ErrorDetails, ValidationError


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a settings file: the file, the position if known, and a message that names the remedy."""

    path: Path
    message: str
    line: int | None = None
    column: int | None = None
    breaks_hook: bool = False
    """Whether the problem prevents the hook from working."""

    def __str__(self) -> str:
        location = [str(part) for part in (self.path, self.line, self.column) if part is not None]
        return f"{':'.join(location)}: {self.message}"


class SettingsError(ValueError):
    """The settings are unusable. The message has one line per problem: file, position and remedy."""

    def __init__(self, problems: str | Sequence[Problem]) -> None:
        self.problems = () if isinstance(problems, str) else tuple(problems)
        super().__init__(problems if isinstance(problems, str) else "\n".join(map(str, self.problems)))


_OBJECT, _LIST, _SWITCH = "must be an object", "must be a list", "must be true or false"
_NUMBER, _WHOLE = "must be a number, without quotes", "must be a whole number, without quotes"

_MISTAKES: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not known; remove it",
    "value_error": "{error}",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "string_type": "must be a string",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "float_type": _NUMBER,
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing": "must be a whole number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}


def describe_mistake(mistake: ErrorDetails, own: Mapping[str, str] = MappingProxyType({})) -> str:
    """Describe an invalid value by pydantic's type of error; the texts in `own` replace the usual ones.

    pydantic's own messages are written for programmers. Errors of a type that has no text here are raised by
    hookgate's validators, and keep their messages.
    """
    kind = mistake["type"]
    text = own.get(kind) or _MISTAKES.get(kind)
    if not text:
        return mistake["msg"]  # not formatted: it may contain braces from the value
    context = mistake.get("ctx", {}).items()
    return text.format_map({name: _shown_bound(value) for name, value in context})


def first_mistake(error: ValidationError, whole: str) -> str:
    """Return the place of the first mistake that pydantic found, and its description.

    Args:
        error: The error.
        whole: The place of a mistake that is not in a field, such as "the file".
    """
    mistake = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, mistake['loc'])) or whole}: {describe_mistake(mistake)}"


def _shown_bound(bound: Any) -> Any:
    """Return a bound that is a float without decimals as an integer, and any other value unchanged."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


class HookError(Exception):
    """A hook failed: for example it was killed by a signal, its program is missing, or it timed out.

    The hook's `on_error` decides what happens to the call. `cause` says in a few words why it failed, such as
    `timeout`: it is on record, while the message may contain what the hook has printed.
    """

    def __init__(self, message: str = "", cause: str = "error") -> None:
        super().__init__(message)
        self.cause = cause


class HookTimeoutError(HookError):
    """A hook did not answer within its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"timed out after {seconds * 1000:g} ms", "timeout")


class InvalidOutputError(HookError):
    """A hook's output is not valid."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "invalid output")


class ExitCodeError(HookError):
    """A hook's program exited with a code other than 0 or 2. Gemini CLI documents this as a warning.

    The hook's `on_exit_code` decides what happens to the call.
    """


class UnreadDecisionError(InvalidOutputError):
    """A hook's program exited with code 0 and wrote a decision to a place where it is not read.

    This is only a warning unless the hook fails closed.
    """


Cause = Literal["no resources", "overload", "deadline", "long output", "closed", "internal error"]
"""The cause of a failure that is not the hook's fault:

no resources    no file descriptor, process, thread, port or memory was left
overload        too many other calls were waiting for hooks
deadline        the event's deadline had passed
long output     the output was too long, and the input so large that a client may have caused it
closed          the gateway was closing the hook
internal error  hookgate itself failed
"""


class HookUnavailableError(HookError):
    """A hook could not run or answer for a reason outside the hook.

    A client can cause such a failure, so the call is denied regardless of the hook's `on_error`.
    """

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message, cause)


_EXHAUSTED = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ENOSPC,  # a full disk, or no epoll watches left
        errno.EADDRNOTAVAIL,
        errno.E2BIG,
    }
)
_UNRESOLVED = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, socket.EAI_SYSTEM})
"""Errors of name resolution that may mean that no file descriptor or memory was left."""
_NO_THREAD = "can't start new thread"


def is_exhaustion(error: BaseException) -> bool:
    """Return whether the error means that this machine or process has run out of a resource.

    Resources are file descriptors, processes, threads, ports and memory. The chain of causes is searched too.
    """
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, socket.gaierror):
            exhausted = current.errno in _UNRESOLVED
        elif isinstance(current, OSError):
            exhausted = current.errno in _EXHAUSTED
        else:  # CPython has no exception type for a thread that cannot be started
            exhausted = isinstance(current, MemoryError) or (
                isinstance(current, RuntimeError) and str(current) == _NO_THREAD
            )
        if exhausted:
            return True
        current = current.__cause__ or current.__context__
    return False
