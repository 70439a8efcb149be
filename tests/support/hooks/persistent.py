"""Persistent hooks for tests: Python programs, and checks of which processes are alive."""

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

from support.hooks.kinds import hook_of, running
from support.programs.processes import MARK_VARIABLE, marked

from hookgate.hooks.runners import Runner
from hookgate.hooks.settings import CommandConfig

Starting = Callable[..., AbstractAsyncContextManager[Runner]]

mark = uuid4().hex
"""What the environment of every program carries."""

PROLOGUE = """
import json, os, signal, sys, time
def events():
    for line in sys.stdin:
        yield json.loads(line)
def answer(**fields):
    print(json.dumps({"decision": "allow", **fields}), flush=True)
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.002)
"""

ECHO = "for event in events(): answer(reason=str(event['n']))"

SLOW_ONCE = """
for event in events():
    if not os.path.exists("begun"):
        open("begun", "w").close()
        wait_for("late")
    answer(reason=event["n"])
"""


def start(
    folder: Path, body: str = "", command: str | list[str] | None = None, **more: Any
) -> AbstractAsyncContextManager[Runner]:
    """A hook in Python, or what `command` says, in a project folder."""
    argv = command or [sys.executable, "-S", "-c", PROLOGUE + body]
    env = {MARK_VARIABLE: mark, **more.pop("env", {})}
    config = CommandConfig(type="command", command=argv, persistent=True, env=env, **more)
    return running(hook_of(config, folder))


async def reason(call: Awaitable[Any]) -> str:
    return str((await call)["reason"])


def alive() -> set[int]:
    """The programs that run, and all that they started."""
    return marked(mark)


def dead(pid: int) -> None:
    """Wait for the end of a child without letting the loop see it."""
    with contextlib.suppress(ChildProcessError):  # it has ended so fast that the loop has seen it
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
