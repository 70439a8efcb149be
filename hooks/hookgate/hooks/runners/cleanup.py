"""Ends all processes that a hook's program started, even those that left its group, session or parent."""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from uuid import uuid4

log = logging.getLogger("hookgate.hooks")

MARK_VARIABLE = "HOOKGATE_RUN"
"""The environment variable that contains a program's mark, which its descendants inherit."""

_STARTS_PER_SECOND = 100_000  # more than any machine manages
_MAX_SCANS = 10  # in case other programs start processes all the time
_READ_SIZE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A program and its descendants: their mark, and a monotonic time before the program's start."""

    mark: str = field(default_factory=lambda: uuid4().hex)
    begin: float = field(default_factory=time.monotonic)


def has_mark(pid: int, marks: Iterable[str]) -> bool:
    """Return whether a process was started with one of the marks. False for zombies and other users."""
    environ = read_proc(f"/proc/{pid}/environ")
    return any(f"{MARK_VARIABLE}={mark}".encode() in environ for mark in marks)


def marked_processes(leader: int, tree: ProcessTree) -> set[int]:
    """Return the processes that carry the mark of a program whose first process was `leader`, or may do so.

    An empty scan is conclusive only if no process was started during the scan: in a chain of forks, a process
    may exit before it is examined, and leave a child that was not listed.
    """
    for _ in range(_MAX_SCANS):
        last = _last_pid()
        if last == leader and not _pids_wrapped(leader, tree):
            return set()
        pids = {pid for pid in _newer_pids(leader, tree) if _may_have_mark(pid, tree.mark)}
        if pids or _last_pid() == last:
            return pids
    return set()


def _may_have_mark(pid: int, mark: str) -> bool:
    """Return whether a process carries a mark, or is just beginning to run another program.

    Its memory is then new, and has neither an environment nor arguments until the program is loaded. Zombies
    and kernel threads have no memory.
    """
    if read_proc(f"/proc/{pid}/environ") or read_proc(f"/proc/{pid}/cmdline"):
        return has_mark(pid, [mark])  # it may have been loaded since it was looked at
    return read_proc(f"/proc/{pid}/statm").split(maxsplit=1)[:1] not in ([], [b"0"])


def _newer_pids(leader: int, tree: ProcessTree) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return pids if _pids_wrapped(leader, tree) else [pid for pid in pids if pid > leader]


def _pids_wrapped(leader: int, tree: ProcessTree) -> bool:
    """Return whether process IDs, which are assigned in rising order, may have wrapped around.

    This takes a long run, for which the cost of examining all processes is acceptable.
    """
    return leader + (time.monotonic() - tree.begin) * _STARTS_PER_SECOND >= _pid_max()


def kill_marked(pid: int, tree: ProcessTree) -> None:
    """Kill a process that carries the mark, by a pidfd, since its ID may have been reused. Ignores errors."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if has_mark(pid, [tree.mark]):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)


def read_proc(path: str) -> bytes:
    """Return the content of a file in /proc, or b"" if its process has exited or is another user's."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, _READ_SIZE)
    except OSError:
        return b""
    finally:
        os.close(fd)


@cache
def _pid_max() -> int:
    return int(Path("/proc/sys/kernel/pid_max").read_text())


def _last_pid() -> int | None:
    """Return the process ID assigned last, or None if /proc/loadavg is not the kernel's own (lxcfs)."""
    return int(read_proc("/proc/loadavg").split()[-1]) if _loadavg_is_true() else None


@cache
def _loadavg_is_true() -> bool:
    return os.stat("/proc/loadavg").st_dev == os.stat("/proc").st_dev


_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h


@dataclass(slots=True)
class ChildProcesses:
    """The children of this process, and the data that identifies orphans of ended programs among them."""

    running: dict[int, ProcessTree] = field(default_factory=dict)
    """The running programs, by the ID of their first process, which is also their session ID."""
    own: ProcessTree | None = None
    """The mark of this process while it adopts orphans, otherwise None."""
    own_children: frozenset[int] = frozenset()
    """The children that existed before this process began to adopt orphans."""
    given_up: set[int] = field(default_factory=set)
    """Orphans that did not die in time, and that are not waited for again."""

    def kill_orphans(self, own: ProcessTree) -> set[int]:
        """Kill the children that neither belong to a running program nor were started by this process.

        Returns those that may still be alive, so that the caller should try again.
        """
        orphans = set()
        for pid in sorted(_children() - self.own_children, reverse=True):
            if self._is_orphan(pid, own):  # the newest first: they may be about to start others
                self._kill(pid)
                orphans.add(pid)
        return orphans - self.given_up

    def _is_orphan(self, pid: int, own: ProcessTree) -> bool:
        try:
            session = os.getsid(pid)
        except ProcessLookupError:  # already reaped
            return False
        if session == os.getsid(0) or session in self.running:
            return False
        return not has_mark(pid, [own.mark, *(tree.mark for tree in self.running.values())])

    def _kill(self, pid: int) -> None:
        # The ID cannot be reused before the process is reaped, which happens here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.given_up.discard(pid)


child_processes = ChildProcesses()  # global, since the kernel has one set of children for the whole process


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process the parent of all processes that hooks leave behind, for the length of the context.

    Children that this process starts itself inherit a mark from os.environ. The exit status of a child in a
    new session may be lost, and a child in a new session without the mark is killed. All hooks must run on
    one thread.
    """
    if not os.path.exists(_children_file(os.getpid())):
        log.warning(
            "processes of a hook that clears its environment may survive: this kernel does not list children"
        )
        yield
        return
    before, child_processes.own = _is_subreaper(), ProcessTree()
    child_processes.own_children = frozenset(_children())
    os.environ[MARK_VARIABLE] = child_processes.own.mark
    _set_subreaper(True)
    try:
        yield
    finally:
        _set_subreaper(before)
        del os.environ[MARK_VARIABLE]
        child_processes.own = None


def _children() -> set[int]:
    """Return the children of this thread and of the main thread, which adopts orphans, including zombies."""
    pids: set[int] = set()
    for thread in {os.getpid(), threading.get_native_id()}:
        pids.update(map(int, read_proc(_children_file(thread)).split()))
    return pids


def _children_file(thread: int) -> str:
    return f"/proc/self/task/{thread}/children"


def _is_subreaper() -> bool:
    value = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0)
    return bool(value.value)


def _set_subreaper(enabled: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)


_PATIENCE, _PAUSE = 1.0, 0.001  # seconds: for all processes to die, and between two scans


def track_process(process: subprocess.Popen[bytes], tree: ProcessTree) -> None:
    """Register a program that was started in a new session with `tree.mark` in its environment."""
    child_processes.running[process.pid] = tree


async def end_process_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a registered program, if it is still running, and all of its descendants, and reap them.

    Processes that do not die within a second are logged. If the caller is cancelled, CancelledError is raised
    after the clean-up. A second call does nothing.
    """
    kill_group(process)
    tree = child_processes.running.pop(process.pid, None)
    if tree is None:
        return
    cancelled: asyncio.CancelledError | None = None
    deadline = time.monotonic() + _PATIENCE
    while remaining := _kill_remaining(process, tree):
        if time.monotonic() > deadline:
            _give_up(remaining)
            break
        try:
            await asyncio.sleep(_PAUSE)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its process group, whose ID cannot be reused before the program is reaped."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _kill_remaining(process: subprocess.Popen[bytes], tree: ProcessTree) -> set[int]:
    """Scan once for the remaining processes of a program, kill them, and return them."""
    if process.poll() is None:  # its children become orphans when it exits, so they are found afterwards
        return {process.pid}
    if child_processes.own:
        return child_processes.kill_orphans(child_processes.own)
    pids = marked_processes(process.pid, tree)
    for pid in pids:
        kill_marked(pid, tree)
    return pids


def _give_up(remaining: set[int]) -> None:
    if child_processes.own:
        child_processes.given_up |= remaining
    log.warning("A hook's processes cannot be ended: %s", ", ".join(map(str, sorted(remaining))))
