"""Words for people: counts of things, and what the system says is wrong."""

import os
import socket


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`; `many` where an s at the end does not make it."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def why(error: OSError) -> str:
    """What the system says, without its number and without an address or a path."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)
