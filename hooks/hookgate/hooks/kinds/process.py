"""One program from start to verdict: input in, output out, and nothing left behind.

The verdict comes from the clock or from the program's own end, never from a pipe closing: a grandchild may
hold the pipe for ever. Whatever ends the wait (the end, the time limit, a cancelled call), the whole
process group dies with it and every descriptor is closed.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hookgate.hooks.errors import HookError
from hookgate.hooks.output import Ended

MAX_STDOUT = 1024 * 1024
MAX_STDERR = 64 * 1024
_READ_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: `timeout` in seconds, `max_stdout` in bytes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    timeout: float
    max_stdout: int = MAX_STDOUT


async def run_process(program: Program, stdin: bytes) -> Ended:
    """Run a program to its end, within its time.

    Raises HookError when it cannot start, exceeds its time, or prints more than it may. stderr beyond
    64 KiB is dropped.
    """
    try:
        # vfork and exec take a millisecond whatever the heap, so this may block the loop; the argv comes
        # from settings files alone.
        process = subprocess.Popen(  # noqa: ASYNC220, S603  # a millisecond, and no client's words
            program.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=program.env,
            cwd=program.cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise HookError(f"cannot be started: {error.strerror} ({error.filename})") from None
    except ValueError as error:  # a null character in the command, or a "=" in a variable's name
        raise HookError(f"cannot be started: {error}") from None
    with _Run(process, program.max_stdout) as run:
        run.write(stdin)
        try:
            async with asyncio.timeout(program.timeout):
                await run.over.wait()
        except TimeoutError:
            raise HookError(f"timed out after {program.timeout * 1000:g} ms") from None
        return run.ended()


class _Run:
    """The pipes and the end of one process, on the running loop; leaving the context ends all of it."""

    def __init__(self, process: subprocess.Popen[bytes], max_stdout: int) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._max_stdout = max_stdout
        self._stdout, self._stderr = bytearray(), bytearray()
        self._unwritten = memoryview(b"")
        self._pidfd = _pidfd(process)
        self.over = asyncio.Event()
        """Set when the program has ended, or has printed more than it may."""

    def __enter__(self) -> "_Run":
        process = self._process
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(_fd(pipe), False)
        self._loop.add_reader(_fd(process.stdout), self._read_stdout)
        self._loop.add_reader(_fd(process.stderr), self._read_stderr)
        self._loop.add_reader(self._pidfd, self._on_exit)
        return self

    def __exit__(self, *_: object) -> None:
        self._kill_group()
        for pipe, remove in (
            (self._process.stdin, self._loop.remove_writer),
            (self._process.stdout, self._loop.remove_reader),
            (self._process.stderr, self._loop.remove_reader),
        ):
            self._close(pipe, remove)
        # A killed program that is not reaped yet is reaped by _on_exit, a moment from now.

    def write(self, data: bytes) -> None:
        """Feed stdin as the program takes it; one that reads nothing loses nothing."""
        self._unwritten = memoryview(data)
        self._loop.add_writer(_fd(self._process.stdin), self._write_some)

    def _write_some(self) -> None:
        stdin = _fd(self._process.stdin)
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(stdin, self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:  # the program closed its stdin, which is its right
            pass
        self._close(self._process.stdin, self._loop.remove_writer)

    def _read_stdout(self) -> None:
        self._read(self._process.stdout, self._stdout, self._max_stdout)
        if len(self._stdout) > self._max_stdout:
            self.over.set()

    def _read_stderr(self) -> None:
        self._read(self._process.stderr, self._stderr, MAX_STDERR)

    def _read(self, pipe: object, into: bytearray, limit: int) -> bool:
        """One read; False when there is nothing more for now. What exceeds the limit is dropped."""
        try:
            chunk = os.read(_fd(pipe), _READ_SIZE)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(_fd(pipe))
            return False
        into += chunk[: max(limit + 1 - len(into), 0)]
        return True

    def _on_exit(self) -> None:
        # The group goes first: until the leader is reaped, its number cannot belong to another group.
        self._kill_group()
        self._process.wait()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.over.set()

    def _kill_group(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def ended(self) -> Ended:
        for pipe, into, limit in (
            (self._process.stdout, self._stdout, self._max_stdout),
            (self._process.stderr, self._stderr, MAX_STDERR),
        ):
            while len(into) <= limit and self._read(pipe, into, limit):
                pass
        if len(self._stdout) > self._max_stdout:
            raise HookError(f"printed more than {self._max_stdout} bytes")
        return Ended(self._process.returncode, bytes(self._stdout), bytes(self._stderr[:MAX_STDERR]))

    @staticmethod
    def _close(pipe: object, remove: Callable[[int], bool]) -> None:
        if pipe is not None and not pipe.closed:  # type: ignore[attr-defined]  # Popen types its pipes as optional IO
            remove(_fd(pipe))
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[attr-defined]  # as above


def _pidfd(process: subprocess.Popen[bytes]) -> int:
    """A descriptor that tells the program's end. Raises HookError, and leaves no program, without one."""
    try:
        return os.pidfd_open(process.pid)
    except OSError as error:
        with process:  # closes its pipes and waits for its end
            os.killpg(process.pid, signal.SIGKILL)
        raise HookError(f"cannot be watched: {error.strerror}") from None


def _fd(pipe: object) -> int:
    return pipe.fileno()  # type: ignore[attr-defined,no-any-return]  # Popen types its pipes as optional IO
