"""Errors that say that this machine or process has run out of something."""

import errno
import socket

_EXHAUSTED = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ENOSPC,  # of a disk, and of the watches of epoll
        errno.EADDRNOTAVAIL,
        errno.E2BIG,
    }
)
_UNRESOLVED = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, socket.EAI_SYSTEM})
"""What name resolution answers when it has no descriptor or memory: it does not tell these apart."""
_NO_THREAD = "can't start new thread"


def is_exhaustion(error: BaseException) -> bool:
    """Return whether the error says that this machine or process has run out of something.

    That is descriptors, processes, threads, ports or memory. The error that caused `error` counts as well.
    """
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, socket.gaierror):
            found = each.errno in _UNRESOLVED
        elif isinstance(each, OSError):
            found = each.errno in _EXHAUSTED
        else:  # CPython has no type of its own for a thread that cannot be started
            found = isinstance(each, MemoryError) or (
                isinstance(each, RuntimeError) and str(each) == _NO_THREAD
            )
        if found:
            return True
        each = each.__cause__ or each.__context__
    return False
