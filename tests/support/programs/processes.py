"""Processes, zombies and open descriptors that programs leave behind, as Linux reports them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hookgate.hooks.runners.process import ProcessResult, Program, finish_process, spawn

MARK_VARIABLE = "HOOKGATE_TEST_MARK"
"""A variable that programs of a test inherit, so that none of their descendants can hide."""


async def run_process(program: Program, stdin: bytes) -> ProcessResult:
    """Run a program to its end."""
    return await finish_process(spawn(program), program, stdin)


def marked(mark: str) -> set[int]:
    """The living processes whose environment holds the mark."""
    return {pid for pid in _processes() if f"{MARK_VARIABLE}={mark}\0".encode() in _read(pid, "environ")}


def children() -> set[int]:
    """The children of this process, zombies too."""
    me = str(os.getpid()).encode()
    return {pid for pid in _processes() if _read(pid, "stat").rpartition(b")")[2].split()[1:2] == [me]}


def descriptors() -> dict[str, str]:
    """The open descriptors of this process and what they are."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # the one that listed the folder
            continue
    return found


def is_watched(folder: Path) -> bool:
    """Whether the system tells this process of changes in a folder."""
    number = f" ino:{folder.stat().st_ino:x} ".encode()
    infos = [_read("self", f"fdinfo/{each}") for each in descriptors()]
    return any(
        line.startswith(b"inotify ") and number in line for info in infos for line in info.splitlines()
    )


async def eventually(happened: Callable[[], bool], within: float = 30) -> None:
    """Wait for what only another process can bring about."""
    deadline = time.monotonic() + within
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.002)


@asynccontextmanager
async def nothing_left_behind(mark: str) -> AsyncIterator[None]:
    """Whatever ran within has ended, been reaped, and left no descriptor, a moment after."""
    children_before, descriptors_before = children(), descriptors()
    yield
    await eventually(lambda: not marked(mark))
    await eventually(lambda: children() <= children_before)
    # What earlier tests had open may be closed meanwhile, when its garbage is collected.
    await eventually(lambda: descriptors().items() <= descriptors_before.items())


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int | str, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended meanwhile, or belongs to somebody else
        return b""
