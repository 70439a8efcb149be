"""`hookgate` commands as processes of their own that need not import anything first.

To import a gateway takes more than half a second, to run most commands a few milliseconds. So one process
imports it for all tests of a worker (support/forking.py), and each command is a fork of that. It finds the
same as one started by `python -m hookgate.proxy`: arguments, environment, folder, descriptors. What a start
itself does is seen by tests that start the interpreter anew, with `program.COMMAND`.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_OF_THE_INTERPRETER = ("PYTHON", "LANG", "LC_")
"""Variables that an interpreter reads when it starts, and never again."""


def can_run(environment: Mapping[str, str]) -> bool:
    """Whether a fork would find what a new interpreter does."""
    return all(
        os.environ.get(name) == environment.get(name)
        for name in {*os.environ, *environment}
        if name.startswith(_OF_THE_INTERPRETER)
    )


@dataclass
class WarmProcess:
    """A running command, to its user the same as an `asyncio.subprocess.Process`."""

    pid: int
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    exit: asyncio.Task[int]
    """Ends with the command, and gives its exit code."""

    @property
    def returncode(self) -> int | None:
        return self.exit.result() if self.exit.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self.exit)

    async def communicate(self, given: bytes = b"") -> tuple[bytes, bytes]:
        """Write all of its stdin, then read all of its output; gives what it printed on stdout and stderr."""
        out, err, _, _ = await asyncio.gather(
            self.stdout.read(), self.stderr.read(), self._feed(given), self.wait()
        )
        return out, err

    async def _feed(self, given: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended without reading
            self.stdin.write(given)
            await self.stdin.drain()
        self.stdin.close()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def start(
    words: tuple[str, ...],
    environment: Mapping[str, str],
    folder: Path | None,
    descriptors: tuple[int, int] | None = None,
) -> WarmProcess:
    """Start a command; its stdin, stdout and stderr are pipes.

    `descriptors` are its soft and hard limit of open descriptors, by default those of this process.
    """
    given, stdin = os.pipe()
    stdout, out = os.pipe()
    stderr, err = os.pipe()
    reported, tells = socket.socketpair()
    asked = {
        "words": words,
        "environment": dict(environment),
        "folder": str(folder or Path.cwd()),
        "descriptors": descriptors,
    }
    socket.send_fds(_forker(), [json.dumps(asked).encode()], [given, out, err, tells.fileno()])
    for descriptor in (given, out, err):
        os.close(descriptor)
    tells.close()
    exited, asking = await asyncio.open_unix_connection(sock=reported)
    pid = int(await exited.readline() or b"0")
    assert pid, "what forks commands has ended"
    pipes = await _writing(stdin), await _reading(stdout), await _reading(stderr)
    return WarmProcess(pid, *pipes, asyncio.create_task(_exit_code(exited, asking)))


async def _exit_code(exited: asyncio.StreamReader, asking: asyncio.StreamWriter) -> int:
    try:
        return int(await exited.readline())
    finally:
        asking.close()


async def _reading(descriptor: int) -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader


async def _writing(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


@functools.cache
def _forker() -> socket.socket:
    """The socket of the process that forks, which ends when this one does."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = Path(__file__).with_name("forking.py").read_text()  # run so, it leaves sys.path as `-m` does
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(its.fileno())],
        pass_fds=[its.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt of the test run is this process's to handle
    )
    its.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
