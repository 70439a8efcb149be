"""Runs a program: starts it, feeds its input, reads its output, and ends everything that it started."""

import asyncio
import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hookgate.hooks.clock import StallAwareTimeout, StallClock
from hookgate.hooks.errors import HookError, HookTimeoutError, HookUnavailableError, is_exhaustion
from hookgate.hooks.output import ProcessResult
from hookgate.hooks.runners.cleanup import (
    MARK_VARIABLE,
    ProcessTree,
    end_process_tree,
    kill_group,
    track_process,
)

MAX_DESCRIPTORS = 64 * 1024
"""The default maximum to which the limit of file descriptors is raised. Containers may allow a billion, and
a child that closes all of them when it starts would take forever."""


@dataclass(slots=True)
class _Limit:
    before: int | None = None
    """The soft limit for children, or None while the limit is not raised."""


_limit = _Limit()  # global, since the kernel has one limit for the whole process


@contextlib.contextmanager
def raised_descriptor_limit(limit: int = MAX_DESCRIPTORS) -> Iterator[int]:
    """Raise the soft limit of file descriptors to at most `limit` within the context. Yields the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reachable = limit if hard == resource.RLIM_INFINITY else min(hard, limit)
    if soft == resource.RLIM_INFINITY or soft >= reachable:
        yield reachable if soft == resource.RLIM_INFINITY else soft
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    _limit.before = soft
    try:
        yield reachable
    finally:
        _limit.before = None
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def restore_descriptor_limit(pid: int) -> None:
    """Restore the original soft limit in a child that was just started."""
    if _limit.before is None:
        return
    # This fails if the program has already changed its user or its hard limit.
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_limit.before, hard))


MIN_OUTPUT_LIMIT = 1024 * 1024
"""The minimum of the limit on the size of an output, in bytes."""

_PER_INPUT_BYTE = 8
"""The growth of the limit with the size of the input. A hook that returns its whole input writes up to 6
bytes per byte if it escapes each character, and 7 if it encodes that as JSON again."""

_SMALL_INPUT = 16 * 1024
"""The size of an input, in bytes, that cannot explain a long output: it would have grown 64-fold."""


def output_limit(input_bytes: int, minimum: int = MIN_OUTPUT_LIMIT) -> int:
    """Return the maximum size of an output, in bytes, for an input of this size."""
    return max(minimum, _PER_INPUT_BYTE * input_bytes)


def too_long(verb: str, limit: int, input_bytes: int) -> HookError:
    """Return the error for an output that exceeds the limit. `verb` is "printed" or "answered with".

    If the input is large, a client may have caused the error, so it is a HookUnavailableError.
    """
    message = f"{verb} more than {limit} bytes"
    if input_bytes <= _SMALL_INPUT:
        return HookError(message, "long output")
    return HookUnavailableError("long output", f"{message}, to an input of {input_bytes} bytes")


MAX_STDOUT = MIN_OUTPUT_LIMIT
MAX_STDERR = 64 * 1024
_READ_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. `timeout` is in seconds; `max_stdout` is in bytes, and a large input raises it."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    timeout: float
    max_stdout: int = MAX_STDOUT


async def finish_process(
    process: subprocess.Popen[bytes], program: Program, stdin: bytes, clock: StallClock | None = None
) -> ProcessResult:
    """Wait for a program that `spawn` has started, within its timeout, which `clock` measures.

    Raises HookError if it times out or prints too much. stderr is truncated to 64 KiB.
    """
    limit = output_limit(len(stdin), program.max_stdout)
    try:
        async with _Communication(process, limit) as communication:
            communication.write(stdin)
            async with StallAwareTimeout(clock or StallClock(), program.timeout):
                await communication.done.wait()
            if communication.exceeded:
                raise too_long("printed", limit, len(stdin))
            return communication.result()
    except TimeoutError:
        raise HookTimeoutError(program.timeout) from None


def spawn(program: Program) -> subprocess.Popen[bytes]:
    """Start a program in a new session, with non-blocking pipes. Raises HookError if that fails.

    The caller must await `end_process` afterwards, even if the program has exited.
    """
    tree = ProcessTree()
    try:
        # vfork and exec take about a millisecond, regardless of the heap size, so this may block the loop.
        process = subprocess.Popen(  # noqa: S603  # the arguments come from settings files, not from clients
            program.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**program.env, MARK_VARIABLE: tree.mark},
            cwd=program.cwd,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise start_error("cannot be started", error) from None
    except ValueError as error:  # a null character in the command, or "=" in a variable's name
        raise HookError(f"cannot be started: {error}", "not started") from None
    restore_descriptor_limit(process.pid)
    track_process(process, tree)
    for pipe in (process.stdin, process.stdout, process.stderr):
        os.set_blocking(_fd(pipe), False)
    return process


async def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that `spawn` started, with everything that it started, and close its pipes.

    The caller must remove readers and writers of the pipes from the event loop first.
    """
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):  # raised for unread input
            pipe.close()  # type: ignore[union-attr]  # Popen types its pipes as optional IO
    await end_process_tree(process)


class _Communication:
    """Communicates with a process on the running loop, and ends the process when the context is left."""

    def __init__(self, process: subprocess.Popen[bytes], max_stdout: int) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._max_stdout = max_stdout
        self._stdout, self._stderr = bytearray(), bytearray()
        self._unwritten = memoryview(b"")
        self._pidfd: int | None = None
        self.done = asyncio.Event()
        """Set when the program has exited, or has printed too much."""

    async def __aenter__(self) -> "_Communication":
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
            if self._process.returncode is not None:  # otherwise _on_exit reaps it once it has died
                self._unwatch()

    def write(self, data: bytes) -> None:
        """Write to stdin as fast as the program reads. A program need not read its input."""
        self._unwritten = memoryview(data)
        self._write_some()  # most inputs fit into the pipe, so this usually writes everything
        if self._unwritten:
            self._loop.add_writer(_fd(self._process.stdin), self._write_some)

    def _write_some(self) -> None:
        stdin = _fd(self._process.stdin)
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(stdin, self._unwritten) :]
        except BlockingIOError:
            return
        except OSError:  # the program has closed its stdin, which is not an error
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
            self.done.set()

    @property
    def exceeded(self) -> bool:
        """Whether the program has printed too much."""
        return len(self._stdout) > self._max_stdout

    def _read_stderr(self) -> None:
        self._read(self._process.stderr, self._stderr, MAX_STDERR)

    def _read(self, pipe: object, into: bytearray, limit: int) -> bool:
        """Read once, drop what exceeds the limit, and return False if there was nothing to read."""
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
        # The group is killed first: its number cannot be reused until its leader is reaped.
        kill_group(self._process)
        if self._process.stdout and not self._process.stdout.closed:
            self._drain()
        self._process.wait()
        self._unwatch()
        self.done.set()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _drain(self) -> None:
        """Read the remaining data from the pipes. Data that is written later is not from the program."""
        for pipe, into, limit in (
            (self._process.stdout, self._stdout, self._max_stdout),
            (self._process.stderr, self._stderr, MAX_STDERR),
        ):
            while len(into) <= limit and self._read(pipe, into, limit):
                pass

    def result(self) -> ProcessResult:
        return ProcessResult(self._process.returncode, bytes(self._stdout), bytes(self._stderr[:MAX_STDERR]))


def start_error(what: str, error: OSError) -> HookError:
    """Return the failure for a program that cannot be started or watched. `what` begins the message."""
    where = f" ({error.filename})" if error.filename else ""
    message = f"{what}: {error.strerror}{where}"
    return (
        HookUnavailableError("no resources", message)
        if is_exhaustion(error)
        else HookError(message, "not started")
    )


def _fd(pipe: object) -> int:
    return pipe.fileno()  # type: ignore[attr-defined,no-any-return]  # Popen types its pipes as optional IO
