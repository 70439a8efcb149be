"""The mark that a program and all it starts carry in their environment, and who carries it."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from uuid import uuid4

MARK = "HOOKGATE_RUN"
"""The environment variable that holds the mark."""

_STARTS_PER_SECOND = 100_000  # more than a machine manages
_LOOKS = 10  # where others start processes all the time
_READ_SIZE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kin:
    """A program and all it starts: their mark, and a monotonic time before the start."""

    mark: str = field(default_factory=lambda: uuid4().hex)
    begin: float = field(default_factory=time.monotonic)


def carries(pid: int, marks: Iterable[str]) -> bool:
    """Whether a process began with one of the marks. A zombie, and another user's, carries none."""
    environ = read(f"/proc/{pid}/environ")
    return any(f"{MARK}={mark}".encode() in environ for mark in marks)


def carriers(leader: int, kin: Kin) -> set[int]:
    """The processes that carry the mark of a program whose first process was the leader.

    A look that finds none is sure when no process was started meanwhile: one of a chain of forks may end
    before its turn, and leave a child that was not there to be listed.
    """
    for _ in range(_LOOKS):
        last = _last_pid()
        if last == leader and not _began_anew(leader, kin):
            return set()
        found = {pid for pid in _younger(leader, kin) if carries(pid, [kin.mark])}
        if found or _last_pid() == last:
            return found
    return set()


def _younger(leader: int, kin: Kin) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return pids if _began_anew(leader, kin) else [pid for pid in pids if pid > leader]


def _began_anew(leader: int, kin: Kin) -> bool:
    """Whether numbers, which are given in rising order, may have begun anew since the program's start.

    That takes time: to look at all processes is for programs that ran long, and those can afford it.
    """
    return leader + (time.monotonic() - kin.begin) * _STARTS_PER_SECOND >= _pid_max()


def kill_carrier(pid: int, kin: Kin) -> None:
    """Kill by a descriptor: the number may be another's by now. Without one, the next look tries."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if carries(pid, [kin.mark]):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)


def read(path: str) -> bytes:
    """A file of /proc; empty when its process has ended meanwhile, or is another user's."""
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
    """The number given last; None where /proc/loadavg is not the kernel's own (lxcfs)."""
    return int(read("/proc/loadavg").split()[-1]) if _loadavg_is_true() else None


@cache
def _loadavg_is_true() -> bool:
    return os.stat("/proc/loadavg").st_dev == os.stat("/proc").st_dev
