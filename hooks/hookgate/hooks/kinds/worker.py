"""Workers: a worker is one kept process, which answers call after call with a line of JSON for each.

A process has at most one call at a time, so the next line it prints is that call's answer. One that could
answer the wrong call is killed with its group: one that prints unasked, is too late, or is left in the
middle of a call.
"""

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
import termios

from hookgate.hooks.errors import HookError, HookUnavailableError
from hookgate.hooks.kinds.escapees import kill_group
from hookgate.hooks.kinds.process import MAX_STDERR, end_process
from hookgate.hooks.kinds.sizes import output_limit, too_long
from hookgate.hooks.output import DENIES, Ended

GRACE = 1.0
"""Seconds that a process has to end by itself once its stdin is closed."""

_READ_SIZE = 64 * 1024
_PIPE_SIZE = 1024 * 1024  # what a pipe holds at most, unless root allows more: one read empties it


class UnreadError(Exception):
    """A process that had served before ended, and read nothing of a call: it was about to end anyway."""


class Worker:
    """One process with its pipes, on the running loop."""

    def __init__(self, process: subprocess.Popen[bytes], pidfd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._process, self._pidfd = process, pidfd
        self._stdin, self._stdout, self._stderr = _descriptors(process)
        self._printed, self._complaint = bytearray(), bytearray()
        self._limit = 0  # of the call's answer, in bytes
        self._unwritten, self._written = memoryview(b""), 0
        self._served = False
        self._unread = False
        """Whether it has ended without reading anything of its last call."""
        self._decided = asyncio.Event()
        self._over = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self.idle = False
        """Whether it waits for a call, and owes nothing to the last one."""
        self._loop.add_reader(self._stdout, self._on_stdout)
        self._loop.add_reader(self._stderr, self._on_stderr)
        self._loop.add_reader(self._pidfd, self._on_exit)

    def is_ready(self) -> bool:
        """Whether it can take a call. Looks into the pipe, since the loop may not have done so yet."""
        if self.idle:
            self._on_stdout()
        return self.idle

    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self._ending is not None and self._ending.done()

    async def ask(self, document: bytes) -> Ended:
        """The answer to one call, as what a program that ran for this call alone printed.

        Raises HookError and UnreadError.
        """
        self._on_stderr()
        self._complaint.clear()  # of an earlier call, perhaps of another session
        self._decided.clear()
        self.idle = False
        self._unwritten, self._written = memoryview(document + b"\n"), 0
        self._limit = output_limit(len(document))
        try:
            self._write()
            await self._decided.wait()
            if self._served and self._unread:
                raise UnreadError
            if len(self._printed.partition(b"\n")[0]) > self._limit and self._process.returncode != DENIES:
                raise too_long("printed", self._limit, len(document))
            ended = _ended(bytes(self._printed), self._process.returncode, bytes(self._complaint))
            self._printed.clear()
            self.idle = self._served = not self._unwritten and self._process.returncode is None
            return ended
        finally:
            if not self.idle:
                self.retire()  # not awaited: what decided the call must not wait for it, nor time out

    def retire(self) -> "asyncio.Task[None]":
        """Take it out of service; the task kills it and all it started."""
        self.idle = False
        if self._ending is None:
            self._close_stdin()
            for descriptor in (self._stdout, self._stderr, self._pidfd):
                self._loop.remove_reader(descriptor)
            os.close(self._pidfd)
            self._decided.set()
            self._over.set()
            self._ending = self._loop.create_task(end_process(self._process))
        return self._ending

    async def end(self) -> None:
        """Let it end by itself at the end of its input, within the grace; then kill it."""
        self._close_stdin()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._over.wait()
        finally:
            ending = self.retire()
        await ending

    def _close_stdin(self) -> None:
        stdin = self._process.stdin
        if stdin and not stdin.closed:  # else its number may be another's
            self._loop.remove_writer(self._stdin)
            stdin.close()

    # ---- what the loop sees

    def _write(self) -> None:
        try:
            while self._unwritten:
                written = os.write(self._stdin, self._unwritten)
                self._unwritten, self._written = self._unwritten[written:], self._written + written
        except BlockingIOError:
            self._loop.add_writer(self._stdin, self._write)
            return
        except OSError:  # it closed its stdin; its end, or the clock, decides the call
            pass
        self._loop.remove_writer(self._stdin)

    def _on_stdout(self) -> None:
        chunk = _read(self._stdout, _READ_SIZE)
        if chunk is None:
            return
        if self.idle:  # it printed unasked, or will never print again
            self.retire()
        elif not chunk:
            self._loop.remove_reader(self._stdout)
        else:
            self._printed += chunk
            if b"\n" in chunk or len(self._printed) > self._limit:
                self._decided.set()

    def _on_stderr(self, size: int = _READ_SIZE) -> None:
        chunk = _read(self._stderr, size)
        if chunk == b"":
            self._loop.remove_reader(self._stderr)
        self._complaint += chunk or b""
        del self._complaint[:-MAX_STDERR]

    def _on_exit(self) -> None:
        # The group goes first: until the leader is reaped, its number cannot belong to another group.
        kill_group(self._process)
        self._process.wait()
        stdin = self._process.stdin
        self._unread = stdin is not None and not stdin.closed and _waiting(self._stdin) >= self._written
        self._printed += _read(self._stdout, _PIPE_SIZE) or b""
        self._on_stderr(_PIPE_SIZE)
        self.retire()


def _ended(printed: bytes, exit_code: int | None, complaint: bytes) -> Ended:
    """What decides a call: the exit code 2, else a line, else how the process ended. Raises HookError.

    Without a line and without an exit code the runner was closed meanwhile.
    """
    line, newline, more = printed.partition(b"\n")
    if exit_code == DENIES:
        return Ended(exit_code, printed, complaint)
    if more:
        raise HookError("printed more than one line for one event; let it answer each with one line of JSON")
    if newline:
        return Ended(0, line, b"")
    if exit_code is None:
        raise HookUnavailableError("closed", "is closed")
    if exit_code == 0:
        raise HookError("ended without an answer; let it answer each line it reads with one line of JSON")
    return Ended(exit_code, printed, complaint)


def _descriptors(process: subprocess.Popen[bytes]) -> list[int]:
    """Those of stdin, stdout and stderr."""
    return [pipe.fileno() for pipe in (process.stdin, process.stdout, process.stderr) if pipe]


def _read(descriptor: int, size: int) -> bytes | None:
    """What there is to read, up to `size` bytes; empty at the end, None when there is nothing yet."""
    try:
        return os.read(descriptor, size)
    except BlockingIOError:
        return None


def _waiting(pipe: int) -> int:
    """The bytes in a pipe that nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
