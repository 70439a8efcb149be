"""The limit on open descriptors: raised for the program that owns the process, not for what hooks start.

The limit belongs to a whole process, so only the program that owns the process raises it. A child inherits
it, and programs that close every possible descriptor, or call select(2), were written for a small one. A
child therefore gets the former soft limit back, with one prlimit(2) right after its start: to lower the limit
around the start would fail exactly when many descriptors are open, and code that runs in the child before
exec would give up vfork.
"""

import contextlib
import resource
from collections.abc import Iterator
from dataclasses import dataclass

CEILING = 1024 * 1024
"""Descriptors that the limit is raised to at most: containers may allow a billion, which nobody needs, and
which a child sees for the first moment of its life."""


@dataclass(slots=True)
class _Limit:
    before: int | None = None
    """The soft limit that children get; None while it is not raised."""


_limit = _Limit()  # the kernel keeps one limit for the whole process; so does this


@contextlib.contextmanager
def raised_descriptor_limit() -> Iterator[int]:
    """Raise the soft limit to the hard one, for as long as the block runs; gives the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reachable = CEILING if hard == resource.RLIM_INFINITY else min(hard, CEILING)
    if soft == resource.RLIM_INFINITY or soft >= reachable:
        yield CEILING if soft == resource.RLIM_INFINITY else soft
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    _limit.before = soft
    try:
        yield reachable
    finally:
        _limit.before = None
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def give_former_limit(pid: int) -> None:
    """Give a child that was just started the soft limit from before it was raised."""
    if _limit.before is None:
        return
    # A program that has changed its user already, or its hard limit, is left alone.
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_limit.before, hard))
