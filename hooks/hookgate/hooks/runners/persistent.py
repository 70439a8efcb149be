"""Persistent command hooks: processes that stay alive and answer each line of JSON with another."""

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
import termios
from functools import partial
from weakref import WeakValueDictionary

from hookgate.hooks.clock import Deadline, StallClock, TimeLimit
from hookgate.hooks.errors import (
    ExitCodeError,
    HookError,
    HookTimeoutError,
    HookUnavailableError,
    InvalidOutputError,
)
from hookgate.hooks.events.base import Document
from hookgate.hooks.fair_queue import FairQueue
from hookgate.hooks.output import DENY_EXIT_CODE, Output, ProcessResult, read_process
from hookgate.hooks.runners.cleanup import kill_group
from hookgate.hooks.runners.command import command_program
from hookgate.hooks.runners.process import (
    MAX_STDERR,
    Program,
    end_process,
    output_limit,
    spawn,
    start_error,
    too_long,
)
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import CommandConfig, Hook

GRACE = 1.0
"""The time in seconds that a process has to exit after its stdin is closed."""

LINE_BY_LINE = (
    "because it is persistent, it must print and flush one line for each line that it reads, and not wait "
    "for the end of its input"
)
"""The remedy for a persistent program that does not answer."""

_READ_SIZE = 64 * 1024
_PIPE_SIZE = 1024 * 1024  # the default maximum capacity of a pipe, so that one read empties it


class UnreadError(Exception):
    """A process exited after earlier calls without reading this call, which can thus be retried."""


class Worker:
    """A process with its pipes, on the running loop."""

    def __init__(self, process: subprocess.Popen[bytes], pidfd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._process, self._pidfd = process, pidfd
        self._stdin, self._stdout, self._stderr = _descriptors(process)
        self._stdout_data, self._stderr_data = bytearray(), bytearray()
        self._limit = 0  # the maximum size of the call's answer, in bytes
        self._unwritten, self._written = memoryview(b""), 0
        self._served = False
        self._unread = False
        """Whether it has exited without reading anything of its last call."""
        self._answered = asyncio.Event()
        self._retired = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self.idle = False
        """Whether it waits for a call, and has completely handled the last one."""
        self._loop.add_reader(self._stdout, self._on_stdout)
        self._loop.add_reader(self._stderr, self._on_stderr)
        self._loop.add_reader(self._pidfd, self._on_exit)

    def is_ready(self) -> bool:
        """Return whether it can take a call. Reads the pipe, since the loop may not have done so yet."""
        if self.idle:
            self._on_stdout()
        return self.idle

    def is_over(self) -> bool:
        """Return whether it has ended completely."""
        return self._ending is not None and self._ending.done()

    async def ask(self, document: bytes) -> ProcessResult:
        """Return the answer to one call, as the result of a program that ran for this call only.

        Raises HookError if there is no valid answer, UnreadError if the process exited without reading the
        call.
        """
        self._on_stderr()
        self._stderr_data.clear()  # text of an earlier call, perhaps of another session
        self._answered.clear()
        self.idle = False
        self._unwritten, self._written = memoryview(document + b"\n"), 0
        self._limit = output_limit(len(document))
        try:
            self._write()
            await self._answered.wait()
            if self._served and self._unread:
                raise UnreadError
            exit_code = self._process.returncode
            if len(self._stdout_data.partition(b"\n")[0]) > self._limit and exit_code != DENY_EXIT_CODE:
                raise too_long("printed", self._limit, len(document))
            result = _call_result(bytes(self._stdout_data), exit_code, bytes(self._stderr_data))
            self._stdout_data.clear()
            self.idle = self._served = not self._unwritten and exit_code is None
            return result
        finally:
            if not self.idle:
                self.retire()  # not awaited, so that the call's result is not delayed

    def retire(self) -> "asyncio.Task[None]":
        """Take the process out of service. The task kills it with everything that it started."""
        self.idle = False
        if self._ending is None:
            self._close_stdin()
            for descriptor in (self._stdout, self._stderr, self._pidfd):
                self._loop.remove_reader(descriptor)
            os.close(self._pidfd)
            self._answered.set()
            self._retired.set()
            self._ending = self._loop.create_task(end_process(self._process))
        return self._ending

    async def end(self) -> None:
        """Close the input, give the process time to exit, and then kill the remaining processes."""
        self._close_stdin()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._retired.wait()
        finally:
            ending = self.retire()
        await ending

    def _close_stdin(self) -> None:
        stdin = self._process.stdin
        if stdin and not stdin.closed:  # the number of a closed descriptor may have been reused
            self._loop.remove_writer(self._stdin)
            stdin.close()

    # ---- callbacks of the event loop

    def _write(self) -> None:
        try:
            while self._unwritten:
                written = os.write(self._stdin, self._unwritten)
                self._unwritten, self._written = self._unwritten[written:], self._written + written
        except BlockingIOError:
            self._loop.add_writer(self._stdin, self._write)
            return
        except OSError:  # it has closed its stdin; its exit or a timeout ends the call
            pass
        self._loop.remove_writer(self._stdin)

    def _on_stdout(self) -> None:
        chunk = _read(self._stdout, _READ_SIZE)
        if chunk is None:
            return
        if self.idle:  # it printed without a call, or closed its stdout
            self.retire()
        elif not chunk:
            self._loop.remove_reader(self._stdout)
        else:
            self._stdout_data += chunk
            if b"\n" in chunk or len(self._stdout_data) > self._limit:
                self._answered.set()

    def _on_stderr(self, size: int = _READ_SIZE) -> None:
        chunk = _read(self._stderr, size)
        if chunk == b"":
            self._loop.remove_reader(self._stderr)
        self._stderr_data += chunk or b""
        del self._stderr_data[:-MAX_STDERR]

    def _on_exit(self) -> None:
        # The group is killed first: its number cannot be reused until its leader is reaped.
        kill_group(self._process)
        self._process.wait()
        stdin = self._process.stdin
        self._unread = stdin is not None and not stdin.closed and _unread_bytes(self._stdin) >= self._written
        self._stdout_data += _read(self._stdout, _PIPE_SIZE) or b""
        self._on_stderr(_PIPE_SIZE)
        self.retire()


def _call_result(stdout: bytes, exit_code: int | None, stderr: bytes) -> ProcessResult:
    """Return the result of a call: exit code 2, or else a line, or else the exit code.

    Raises HookError if there are several lines or there is no answer; HookUnavailableError if the runner was
    closed.
    """
    line, newline, more = stdout.partition(b"\n")
    if exit_code == DENY_EXIT_CODE:
        return ProcessResult(exit_code, stdout, stderr)
    if more:
        raise InvalidOutputError(
            "printed more than one line for an event; answer each event with one line of JSON"
        )
    if newline:
        return ProcessResult(0, line, b"")
    if exit_code is None:
        raise HookUnavailableError("closed", "is closed")
    if exit_code == 0:
        raise HookError(
            "exited without an answer; answer each line of input with one line of JSON", "no answer"
        )
    return ProcessResult(exit_code, stdout, stderr)


def _descriptors(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the file descriptors of stdin, stdout and stderr."""
    return [pipe.fileno() for pipe in (process.stdin, process.stdout, process.stderr) if pipe]


def _read(descriptor: int, size: int) -> bytes | None:
    """Read up to `size` bytes. Returns b"" at the end of the file, or None if nothing is available yet."""
    try:
        return os.read(descriptor, size)
    except BlockingIOError:
        return None


def _unread_bytes(pipe: int) -> int:
    """Return the number of unread bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


class WorkerPool:
    """Passes documents to up to `workers` processes, which are started on demand and stay alive.

    Further callers take turns, and the wait counts towards the program's timeout. If a caller that has waited
    times out, the reason is overload, which is not the hook's fault.

    A process that was asked finishes even if its caller has left: to kill it, and start another one, would
    cost the other callers more.
    """

    def __init__(
        self, program: Program, workers: int, *, per_key: int = sys.maxsize, setup: bytes = b""
    ) -> None:
        """Create a pool without processes.

        Args:
            program: The program of each process.
            workers: The maximum number of processes.
            per_key: The maximum number of processes that serve callers with the same API key.
            setup: A line that each process answers with a line before its first call; none if it is empty.
        """
        self._program, self._setup = program, setup
        self._queue = FairQueue(workers)
        self._per_key = per_key
        self._of_key: WeakValueDictionary[str, FairQueue] = WeakValueDictionary()
        self._clock = StallClock()
        self._workers: list[Worker] = []
        self._serving: set[asyncio.Task[ProcessResult]] = set()
        self._closed = False
        self.has_answered = False
        """Whether any process has answered a call in time."""

    async def ask(self, session: SessionContext, document: bytes) -> ProcessResult:
        """Return a process's answer when it is the caller's turn.

        Raises HookError, such as HookTimeoutError if there is no answer in time.
        """
        own = self._of_key.setdefault(session.key, FairQueue(self._per_key))
        must_wait = self._queue.free == 0 or own.free == 0
        try:
            return await self._serve(session, own, document)
        except TimeoutError:
            message = f"timed out after {self._program.timeout * 1000:g} ms"
            if must_wait:
                raise HookUnavailableError("overload", f"{message}: all its workers were busy") from None
            raise HookTimeoutError(self._program.timeout) from None

    async def close(self) -> None:
        """End all processes, and close their file descriptors."""
        self._closed = True
        await asyncio.gather(*(worker.end() for worker in self._workers))
        if self._serving:  # for callers that have left
            await asyncio.wait(self._serving)

    async def _serve(self, session: SessionContext, own: FairQueue, document: bytes) -> ProcessResult:
        """Return a process's answer when it is the caller's turn, also among those with its key, in `own`.

        Raises TimeoutError, or HookError.
        """
        deadline = Deadline(self._clock, self._program.timeout)
        with contextlib.ExitStack() as held:  # until the process has answered, even if the caller has left
            waiting = held.enter_context(contextlib.ExitStack())
            waiting.callback(deadline.close)
            async with TimeLimit(deadline):
                await own.acquire(session.session_id)
                held.callback(own.release)
                await self._queue.acquire(session.session_id, session.key)
                held.callback(self._queue.release)
            waiting.pop_all()
            serving = asyncio.get_running_loop().create_task(self._ask_in_time(document, deadline))
            serving.add_done_callback(partial(self._end_serving, held.pop_all()))
        self._serving.add(serving)
        await asyncio.wait([serving])  # which is not cancelled with its caller
        return serving.result()

    def _end_serving(self, held: contextlib.ExitStack, serving: "asyncio.Task[ProcessResult]") -> None:
        self._serving.discard(serving)
        held.close()
        if not serving.cancelled():
            serving.exception()  # asyncio would log an exception that nobody retrieves

    async def _ask_in_time(self, document: bytes, deadline: Deadline) -> ProcessResult:
        try:
            async with TimeLimit(deadline):
                result = await self._ask(document)
        finally:
            deadline.close()
        self.has_answered = True
        return result

    async def _ask(self, document: bytes) -> ProcessResult:
        if self._closed:
            raise HookUnavailableError("closed", "is closed")
        ready = next((worker for worker in self._workers if worker.is_ready()), None)
        if ready is not None:
            with contextlib.suppress(UnreadError):
                return await ready.ask(document)
        worker = await self._start()
        if self._setup:
            await worker.ask(self._setup)
        return await worker.ask(document)

    async def _start(self) -> Worker:
        if self._closed:
            raise HookUnavailableError("closed", "is closed")
        worker = await _start_worker(self._program)
        self._workers = [worker, *(old for old in self._workers if not old.is_over())]
        return worker


class PersistentRunner:
    """Runs a command hook with processes that stay alive."""

    def __init__(self, hook: Hook, config: CommandConfig) -> None:
        self._name = hook.name
        self._pool = WorkerPool(command_program(hook, config), config.workers)

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        try:
            result = await self._pool.ask(session, document.json)
        except HookTimeoutError as error:
            raise (
                error if self._pool.has_answered else HookError(f"{error}; {LINE_BY_LINE}", error.cause)
            ) from None
        try:
            return read_process(event, self._name, result)
        except ExitCodeError as error:  # a persistent program must not exit, so this is not just a warning
            raise HookError(str(error), error.cause) from None

    async def close(self) -> None:
        """End all processes, and close their file descriptors."""
        await self._pool.close()


async def _start_worker(program: Program) -> Worker:
    """Start a process. Raises HookError if it cannot be started."""
    process = spawn(program)
    try:
        return Worker(process, os.pidfd_open(process.pid))
    except OSError as error:
        await end_process(process)
        raise start_error("cannot be watched", error) from None
