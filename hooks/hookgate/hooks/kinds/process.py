"""One program from start to verdict: input in, output out, and nothing left behind.

The verdict comes from the clock or from the program's own end, never from a pipe closing: a grandchild may
hold the pipe for ever. Whatever ends the wait (the end, the time limit, a cancelled call), everything the
program started dies with it (see `escapees`) and every descriptor is closed.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hookgate.hooks.clock import OwnLimit, StallClock
from hookgate.hooks.errors import HookError, HookUnavailableError
from hookgate.hooks.exhaustion import is_exhaustion
from hookgate.hooks.kinds.descriptors import give_former_limit
from hookgate.hooks.kinds.escapees import end_with_kin, kill_group, started
from hookgate.hooks.kinds.marks import MARK, Kin
from hookgate.hooks.kinds.sizes import BASE, output_limit, too_long
from hookgate.hooks.output import Ended

MAX_STDOUT = BASE
MAX_STDERR = 64 * 1024
_READ_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: `timeout` in seconds, `max_stdout` in bytes, which a large input raises."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    timeout: float
    max_stdout: int = MAX_STDOUT


async def run_process(program: Program, stdin: bytes, clock: StallClock | None = None) -> Ended:
    """Run a program to its end, within its time.

    Its time is measured by `clock`. Raises HookError when it cannot start, exceeds its time, or prints more
    than it may. stderr beyond 64 KiB is dropped.
    """
    process = spawn(program)
    limit = output_limit(len(stdin), program.max_stdout)
    try:
        async with _Run(process, limit) as run:
            run.write(stdin)
            async with OwnLimit(clock or StallClock(), program.timeout):
                await run.over.wait()
            if run.exceeded:
                raise too_long("printed", limit, len(stdin))
            return run.ended()
    except TimeoutError:
        raise HookError(f"timed out after {program.timeout * 1000:g} ms") from None


def spawn(program: Program) -> subprocess.Popen[bytes]:
    """Start a program, in a session of its own, with pipes that never block. Raises HookError.

    Whoever spawns awaits `end_process` at last, however the program has ended.
    """
    kin = Kin()
    try:
        # vfork and exec take a millisecond whatever the heap, so this may block the loop; the argv comes
        # from settings files alone.
        process = subprocess.Popen(  # noqa: S603  # no client's words
            program.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**program.env, MARK: kin.mark},
            cwd=program.cwd,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise start_error("cannot be started", error) from None
    except ValueError as error:  # a null character in the command, or a "=" in a variable's name
        raise HookError(f"cannot be started: {error}") from None
    give_former_limit(process.pid)
    started(process, kin)
    for pipe in (process.stdin, process.stdout, process.stderr):
        os.set_blocking(_fd(pipe), False)
    return process


async def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that `spawn` gave, and everything it started; close its pipes.

    Takes a moment only when there is something to kill. Readers and writers of the pipes go first.
    """
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):  # what it did not read of its input
            pipe.close()  # type: ignore[union-attr]  # Popen types its pipes as optional IO
    await end_with_kin(process)


class _Run:
    """The pipes and the end of one process, on the running loop; leaving the context ends all of it."""

    def __init__(self, process: subprocess.Popen[bytes], max_stdout: int) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._max_stdout = max_stdout
        self._stdout, self._stderr = bytearray(), bytearray()
        self._unwritten = memoryview(b"")
        self._pidfd: int | None = None
        self.over = asyncio.Event()
        """Set when the program has ended, or has printed more than it may."""

    async def __aenter__(self) -> "_Run":
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(_fd(self._process.stdout), self._read_stdout)
            self._loop.add_reader(_fd(self._process.stderr), self._read_stderr)
            self._loop.add_reader(self._pidfd, self._on_exit)
        except OSError as error:
            await self.__aexit__()
            raise start_error("cannot be watched", error) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close_stdin()
        self._loop.remove_reader(_fd(self._process.stdout))
        self._loop.remove_reader(_fd(self._process.stderr))
        try:
            await end_process(self._process)
        finally:
            if self._process.returncode is not None:  # else _on_exit reaps it, when the kernel lets it die
                self._unwatch()

    def write(self, data: bytes) -> None:
        """Feed stdin as the program takes it; one that reads nothing loses nothing."""
        self._unwritten = memoryview(data)
        self._write_some()  # most inputs fit into the pipe: no turn of the loop then
        if self._unwritten:
            self._loop.add_writer(_fd(self._process.stdin), self._write_some)

    def _write_some(self) -> None:
        stdin = _fd(self._process.stdin)
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(stdin, self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:  # the program closed its stdin, which is its right
            self._unwritten = memoryview(b"")
        self._close_stdin()

    def _close_stdin(self) -> None:
        stdin = self._process.stdin
        if stdin and not stdin.closed:
            self._loop.remove_writer(stdin)
            stdin.close()

    def _read_stdout(self) -> None:
        self._read(self._process.stdout, self._stdout, self._max_stdout)
        if self.exceeded:
            self.over.set()

    @property
    def exceeded(self) -> bool:
        """Whether it has printed more than it may."""
        return len(self._stdout) > self._max_stdout

    def _read_stderr(self) -> None:
        self._read(self._process.stderr, self._stderr, MAX_STDERR)

    def _read(self, pipe: object, into: bytearray, limit: int) -> bool:
        """One read; False when there is nothing for now, or no more. What exceeds the limit is dropped."""
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
        kill_group(self._process)
        if self._process.stdout and not self._process.stdout.closed:
            self._drain()
        self._process.wait()
        self._unwatch()
        self.over.set()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _drain(self) -> None:
        """Read what is still in the pipes: what comes later is not the program's."""
        for pipe, into, limit in (
            (self._process.stdout, self._stdout, self._max_stdout),
            (self._process.stderr, self._stderr, MAX_STDERR),
        ):
            while len(into) <= limit and self._read(pipe, into, limit):
                pass

    def ended(self) -> Ended:
        return Ended(self._process.returncode, bytes(self._stdout), bytes(self._stderr[:MAX_STDERR]))


def start_error(what: str, error: OSError) -> HookError:
    """Return the failure of a program that the system did `what` to: not start it, or not let us watch it."""
    where = f" ({error.filename})" if error.filename else ""
    message = f"{what}: {error.strerror}{where}"
    return HookUnavailableError("no resources", message) if is_exhaustion(error) else HookError(message)


def _fd(pipe: object) -> int:
    return pipe.fileno()  # type: ignore[attr-defined,no-any-return]  # Popen types its pipes as optional IO
