"""How much a hook may answer: a fixed size, or more when its input is large."""

from hookgate.hooks.errors import HookError, HookUnavailableError

BASE = 1024 * 1024
"""Bytes that a hook may answer whatever its input."""

_PER_INPUT_BYTE = 8
"""A hook that gives its whole input back writes up to 6 bytes for one (an escape for each character), and 7
when it encodes that as JSON once more."""

_BLAMELESS_INPUT = 16 * 1024
"""Bytes of an input that cannot be why an answer is too long: it would have grown 64-fold."""


def output_limit(input_bytes: int, base: int = BASE) -> int:
    """Return how many bytes a hook may answer to an input of so many bytes."""
    return max(base, _PER_INPUT_BYTE * input_bytes)


def too_long(verb: str, limit: int, input_bytes: int) -> HookError:
    """Return the error of a hook that `verb` (printed, answered with) more than the limit.

    If its input was large as well, a client may have caused that: then it is a HookUnavailableError.
    """
    message = f"{verb} more than {limit} bytes"
    if input_bytes <= _BLAMELESS_INPUT:
        return HookError(message)
    return HookUnavailableError("long output", f"{message}, to an input of {input_bytes} bytes")
