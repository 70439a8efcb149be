"""The limit on open descriptors: raised for the program that owns the process, not for what hooks start.

The limit belongs to a whole process, so only the program that owns the process raises it. A child inherits
it, and programs that close every possible descriptor, or call select(2), were written for a small one. A
child therefore gets the former soft limit back, with one prlimit(2) right after its start, so before it is
given any input: to lower the limit around the start would fail exactly when many descriptors are open, and
code that runs in the child before exec would give up vfork.
"""

import contextlib
import resource
from collections.abc import Iterator
from dataclasses import dataclass

ENOUGH = 64 * 1024
"""Descriptors that the limit is raised to at most, unless more are asked for: containers may allow a billion,
and a child that closes them all in the first moment of its life would never come to an end."""


@dataclass(slots=True)
class _Limit:
    before: int | None = None
    """The soft limit that children get; None while it is not raised."""


_limit = _Limit()  # the kernel keeps one limit for the whole process; so does this


@contextlib.contextmanager
def raised_descriptor_limit(most: int = ENOUGH) -> Iterator[int]:
    """Raise the soft limit to the hard one, or to `most`, for as long as the block runs.

    Gives the limit in force.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reachable = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft == resource.RLIM_INFINITY or soft >= reachable:
        yield reachable if soft == resource.RLIM_INFINITY else soft
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
