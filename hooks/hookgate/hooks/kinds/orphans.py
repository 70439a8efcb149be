"""The orphans that this process may adopt, and the strangers among its children.

Adoption is a property of the whole process (a child subreaper, prctl(2)): for the program that owns it.
"""

import contextlib
import ctypes
import logging
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from hookgate.hooks.kinds.marks import MARK, Kin, carries, read

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h

log = logging.getLogger("hookgate.hooks")


@dataclass(slots=True)
class Household:
    """What this process has to know of its children to tell strangers among them."""

    living: dict[int, Kin] = field(default_factory=dict)
    """The programs that run, by the number of their first process, which is that of its session too."""
    own: Kin | None = None
    """The adopting process itself; None while it does not adopt."""
    own_children: frozenset[int] = frozenset()
    """Those from before the adoption."""
    given_up: set[int] = field(default_factory=set)
    """Strangers that did not die in time; nobody waits for them again."""

    def kill_strangers(self, own: Kin) -> set[int]:
        """Kill the children that are of no living program, and that this process did not start itself.

        Returns those to wait for and look again. Empty means that there is none left.
        """
        found = set()
        for pid in sorted(_children() - self.own_children, reverse=True):
            if self._strange(pid, own):  # the newest first: they may be about to start others
                self._kill(pid)
                found.add(pid)
        return found - self.given_up

    def _strange(self, pid: int, own: Kin) -> bool:
        try:
            session = os.getsid(pid)
        except ProcessLookupError:  # reaped meanwhile
            return False
        if session == os.getsid(0) or session in self.living:
            return False
        return not carries(pid, [own.mark, *(kin.mark for kin in self.living.values())])

    def _kill(self, pid: int) -> None:
        # Its number is its own until it is reaped, here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.given_up.discard(pid)


household = Household()  # the kernel keeps one set of children for the whole process; so does this


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process the parent of all that hooks leave behind.

    What it starts itself meanwhile inherits a mark of its own from os.environ. Of a child that it starts in a
    new session the exit status may be lost, and one started without the mark too is taken for an escapee.
    All hooks have to run on one thread.
    """
    if not os.path.exists(_children_file(os.getpid())):
        log.warning("A hook that clears its environment may leave processes: this kernel lists no children")
        yield
        return
    before, household.own = _is_subreaper(), Kin()
    household.own_children = frozenset(_children())
    os.environ[MARK] = household.own.mark
    _be_subreaper(True)
    try:
        yield
    finally:
        _be_subreaper(before)
        del os.environ[MARK]
        household.own = None


def _children() -> set[int]:
    """The children of this thread and of the main one, which orphans come to; zombies too."""
    found: set[int] = set()
    for thread in {os.getpid(), threading.get_native_id()}:
        found.update(map(int, read(_children_file(thread)).split()))
    return found


def _children_file(thread: int) -> str:
    return f"/proc/self/task/{thread}/children"


def _is_subreaper() -> bool:
    answer = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def _be_subreaper(yes: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)
