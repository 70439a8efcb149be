"""Hooks that fail in every possible way, with the outcome that docs/failing.md describes."""

import asyncio
import errno
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import aiohttp
from support.gateway.loopback import runs
from support.places import DOCS

from hookgate.hooks.runners import process

Json = dict[str, Any]

COLUMNS = {"policy": 0, "explicit": 1, "project": 2, "user": 2, "system": 2, "extensions": 2}
WRITTEN = {"allow": 3, "deny": 4}


def documented() -> dict[str, list[str]]:
    """The table of docs/failing.md: what failed, and what becomes of the call by column."""
    page = (DOCS / "failing.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|") and line.count("|") == 7]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]
    return {first: rest for first, *rest in cells}


def documented_causes() -> set[str]:
    """The causes in docs/failing.md, without the number that some of them end with."""
    page = (DOCS / "failing.md").read_text()
    return {
        re.sub(r" \d+$", "", each)
        for each in re.findall(r"^\| `([^`]+)`[^|]* \| [^|]+ \|$", page, re.MULTILINE)
    }


def is_denied(row: str, layer: str, on_error: str | None) -> bool:
    """Whether the table says so."""
    column = COLUMNS[layer] if on_error is None else WRITTEN[on_error]
    reported = documented()[row][column]
    assert reported in ("denied", "passes")
    return reported == "denied"


@dataclass(frozen=True)
class Failure:
    """One way to fail: the row of the table, the hook, and what must be wrong while it runs."""

    row: str
    hook: Callable[[Path], Json]
    meanwhile: Callable[[], AbstractContextManager[Any]] = nullcontext
    limits: Json = field(default_factory=dict)
    """Of `hooksConfig`."""
    after_load: Callable[[Path], None] = lambda folder: None
    input_bytes: int = 0
    """How long the request must be at least."""


EXIT = "exit code other than 0 or 2"
START = "program or script missing, or not executable"
SIGNAL = "program was killed by a signal"
TIMEOUT = "timeout of the hook"
EXCEPTION = "exception in a runtime hook"
UNREADABLE = "output or edit that cannot be read"
MISPLACED = "a decision with other text beside it, or under a wrong key"
LONG = "output too long, input of at most 16 KiB"
WORKER = "persistent program ended or broke the protocol"
HTTP = "HTTP service refused the connection, failed, or answered with an error"
NO_RESOURCES = "no resources: no descriptor, process, thread, port or memory left"
OVERLOAD = "overload: not started in time, or no free worker"
DEADLINE = "deadline of the event"
LONG_INPUT = "output too long, input over 16 KiB"
CLOSED = "hook closed by the gateway"
INTERNAL = "internal error of hookgate"
UNTRUSTED = "hook not trusted"
BUILTIN = "builtin policy or rules in Rego failed"


def command(line: str, **more: Any) -> Callable[[Path], Json]:
    return lambda _: {"type": "command", "command": line, **more}


def script(mode: int) -> Callable[[Path], Json]:
    """A hook whose program can be started as long as nothing happens to it."""

    def make(folder: Path) -> Json:
        path = folder / "guard.sh"
        path.write_text("#!/bin/sh\nexit 2\n")
        path.chmod(mode)
        return {"type": "command", "command": [str(path)]}

    return make


def action(act: Callable[..., Any], **more: Any) -> Callable[[Path], Json]:
    hook = runs(act, **more)
    return lambda _: hook


async def hang(_: Any) -> None:
    await asyncio.Event().wait()


def raising(error: BaseException) -> Callable[[Any], NoReturn]:
    def act(_: Any) -> NoReturn:
        raise error

    return act


async def cancels(_: Any) -> None:
    raise asyncio.CancelledError


def spawning(number: int) -> Callable[[], AbstractContextManager[Any]]:
    """No program can be started, for a reason of the system's."""
    error = OSError(number, os.strerror(number))
    return lambda: mock.patch.object(process.subprocess, "Popen", side_effect=error)


def watching() -> AbstractContextManager[Any]:
    """Programs are started, and there is no descriptor left to see their end."""
    return mock.patch.object(os, "pidfd_open", side_effect=OSError(errno.EMFILE, os.strerror(errno.EMFILE)))


@contextmanager
def without_threads() -> Iterator[None]:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("hookgate-hook"):
            raise RuntimeError("can't start new thread")
        begin(thread)

    with mock.patch.object(threading.Thread, "start", start):
        yield


def connecting(error: OSError) -> Callable[[], AbstractContextManager[Any]]:
    """No connection to port 1 can be made."""
    key: Any = mock.Mock(ssl=True, host="127.0.0.1", port=1)
    connect = aiohttp.TCPConnector.connect

    async def failing(connector: aiohttp.TCPConnector, request: Any, **more: Any) -> Any:
        if request.url.port == 1:
            raise aiohttp.ClientConnectorError(key, error) from error
        return await connect(connector, request, **more)

    return lambda: mock.patch.object(aiohttp.TCPConnector, "connect", failing)


def refused(_: Path) -> Json:
    with socket.socket() as free:  # a port that nobody listens to any more
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"type": "http", "url": f"http://127.0.0.1:{port}/"}


def nobody_home(_: Path) -> Json:
    return {"type": "http", "url": "http://127.0.0.1:1/"}


BROKEN_FIELDS = mock.patch("hookgate.hooks.runs.make_document", side_effect=KeyError("nobody expected this"))
LARGE = 20_000
EXHAUSTED = OSError(errno.EMFILE, os.strerror(errno.EMFILE))

FAILURES = {
    "exits with 1": Failure(EXIT, command("exit 1")),
    "exits with 3": Failure(EXIT, command("echo oops >&2; exit 3")),
    "missing": Failure(START, script(0o755), after_load=lambda folder: (folder / "guard.sh").unlink()),
    "missing in the shell": Failure(START, command("no-such-program-anywhere")),
    "not executable": Failure(START, script(0o755), after_load=lambda f: (f / "guard.sh").chmod(0o644)),
    "killed": Failure(SIGNAL, command("kill -9 $$")),
    "killed within the shell": Failure(SIGNAL, command("sh -c 'kill -9 $$'; exit $?")),
    "hangs": Failure(TIMEOUT, command("sleep 30", timeout=30)),
    "hangs in the loop": Failure(TIMEOUT, action(hang, timeout=30)),
    "raises": Failure(EXCEPTION, action(raising(ValueError("no")))),
    "raises in the loop": Failure(EXCEPTION, action(cancels)),
    "gives a list": Failure(UNREADABLE, action(lambda _: ["no"])),
    "prints the wrong type": Failure(UNREADABLE, command("""echo '{"decision": 5}'""")),
    "prints too much": Failure(LONG, command("head -c 1100000 /dev/zero")),
    "prints too much of much": Failure(LONG_INPUT, command("head -c 1100000 /dev/zero"), input_bytes=LARGE),
    "worker ends": Failure(WORKER, command("read line; exit 0", persistent=True)),
    "worker exits with 1": Failure(WORKER, command("read line; exit 1", persistent=True)),
    "worker prints two lines": Failure(
        WORKER, command(r"read line; env printf '\n\n'; sleep 9", persistent=True)
    ),
    "service refuses": Failure(HTTP, refused),
    "no descriptor for a program": Failure(NO_RESOURCES, command("exit 2"), spawning(errno.EMFILE)),
    "no process": Failure(NO_RESOURCES, command("exit 2"), spawning(errno.EAGAIN)),
    "no memory for a program": Failure(NO_RESOURCES, command("exit 2"), spawning(errno.ENOMEM)),
    "no descriptor to watch": Failure(NO_RESOURCES, command("exit 2"), watching),
    "no process for a worker": Failure(NO_RESOURCES, command("cat", persistent=True), spawning(errno.EAGAIN)),
    "no thread": Failure(NO_RESOURCES, action(lambda _: {"decision": "deny"}), without_threads),
    "no descriptor in the hook": Failure(NO_RESOURCES, action(raising(EXHAUSTED))),
    "no memory in the hook": Failure(NO_RESOURCES, action(raising(MemoryError()))),
    "no descriptor to connect": Failure(NO_RESOURCES, nobody_home, connecting(EXHAUSTED)),
    "no name resolved": Failure(
        NO_RESOURCES, nobody_home, connecting(socket.gaierror(socket.EAI_AGAIN, "try again"))
    ),
    "event too long": Failure(DEADLINE, action(hang), limits={"deadline": 30}),
    "hookgate fails": Failure(INTERNAL, action(lambda _: {"decision": "deny"}), lambda: BROKEN_FIELDS),
}
"""By a name: what one hook can do alone."""
