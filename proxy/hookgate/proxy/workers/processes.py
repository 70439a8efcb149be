"""The processes of workers: started, watched, restarted after they ended unexpectedly, and stopped."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from hookgate.hooks.runners.cleanup import MARK_VARIABLE, ProcessTree, end_process_tree, track_process
from hookgate.proxy.workers.sockets import ConnectionCounts, WorkerSockets, counts_file

log = logging.getLogger("hookgate")

_BACKLOG = 16
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 30.0
"""Seconds before a worker that ended soon after its start is restarted. They double with each time."""

_ABORT_SECONDS = 10.0

_LONG_ENOUGH = 30.0
"""Seconds after which a worker that has ended is restarted at once."""


class WorkerStartError(ValueError):
    """Raised if a worker ends before it has accepted clients for the first time."""


@dataclass(slots=True, eq=False)
class SupervisedWorker:
    """One of several workers. `path` is that of the socket on which it answers its supervisor."""

    number: int
    path: Path
    process: subprocess.Popen[bytes] | None = None
    was_ready: bool = False
    """Whether it has accepted clients since the supervisor started."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it accepts clients."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it has no process."""


class WorkerProcesses:
    """The processes of all workers, which share the listening sockets of clients."""

    def __init__(self, count: int, listeners: list[socket.socket], folder: Path) -> None:
        """Create the places of workers. `folder` is a private folder for their sockets."""
        self._listeners = listeners
        self.workers = [SupervisedWorker(number, folder / f"{number}.sock") for number in range(1, count + 1)]
        self._admin = {worker: _listening(worker.path) for worker in self.workers}
        self._counts_file = counts_file(count)
        self._counts = ConnectionCounts(self._counts_file, count)
        self._tasks: dict[SupervisedWorker, asyncio.Task[None]] = {}
        self._stopping = False

    async def start(self) -> None:
        """Start all workers, the first one alone. Returns when all are ready. Raises WorkerStartError.

        The first one creates tables and files, and ends if the settings cannot be used.
        """
        await self._start(self.workers[:1])
        await self._start(self.workers[1:])

    def signal(self, number: int) -> None:
        """Send a signal to all workers."""
        for worker in self.workers:
            if worker.process is not None:
                worker.process.send_signal(number)

    def request_reload(self) -> None:
        """Let all workers reload their settings. Those that are starting read them anyway."""
        for worker in self.workers:
            if worker.process is not None and worker.ready.is_set():
                worker.process.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """Let all workers finish their calls, and return when they have ended."""
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        self.signal(signal.SIGTERM)
        await self._until_ended(None)

    async def abort(self) -> None:
        """Let all workers drop their calls, and return when they have ended, but soon."""
        self.signal(signal.SIGINT)  # a second SIGTERM would be lost if the first one is still pending
        await self._until_ended(_ABORT_SECONDS)

    def close(self) -> None:
        """Kill what is still running."""
        self._stopping = True
        self.signal(signal.SIGKILL)
        for task in self._tasks.values():
            task.cancel()
        for listener in (*self._listeners, *self._admin.values()):
            listener.close()
        os.close(self._counts_file)

    async def _start(self, workers: list[SupervisedWorker]) -> None:
        for worker in workers:
            self._tasks[worker] = asyncio.create_task(self._keep_running(worker))
        tasks = [self._tasks[worker] for worker in workers]
        ready = asyncio.ensure_future(_all_ready(workers))
        await asyncio.wait((ready, *tasks), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            raise WorkerStartError("a worker cannot be started; see the messages above")

    async def _until_ended(self, seconds: float | None) -> None:
        """Wait for all processes to end. Workers that wait to be restarted have none."""
        for worker, task in self._tasks.items():
            if worker.process is None:
                task.cancel()
        await asyncio.wait(self._tasks.values(), timeout=seconds)

    async def _keep_running(self, worker: SupervisedWorker) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                why = _describe(await self._run(worker))
            except OSError as error:  # no memory, no descriptor, or too many processes
                why = f"it cannot be started: {error.strerror or error}"
            if self._stopping or not worker.was_ready:
                if not self._stopping:
                    log.error("worker %d has not accepted clients (%s)", worker.number, why)
                return
            log.error("worker %d ended unexpectedly (%s); it is restarted", worker.number, why)
            if time.monotonic() - began >= _LONG_ENOUGH:
                pause = _FIRST_PAUSE
                continue
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)

    async def _run(self, worker: SupervisedWorker) -> int:
        """Run a worker to its end, and return its exit code, or the negative number of a signal."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                admin = self._admin[worker]
                sockets = WorkerSockets(worker.number, self._listeners, admin, theirs, self._counts_file)
                self._counts.set_absent(worker.number)
                worker.process, tree = _spawn(sockets)
            ours.setblocking(False)
            track_process(worker.process, tree)
            worker.ended.clear()
            readiness = asyncio.create_task(_note_ready(worker, ours))
            try:
                return await _ended(worker.process)
            finally:
                readiness.cancel()
                worker.ready.clear()
                worker.ended.set()
                self._counts.set_absent(worker.number)
                process, worker.process = worker.process, None
                await end_process_tree(process)  # the programs of hooks that it has left


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(_BACKLOG)
    return listener


def _spawn(sockets: WorkerSockets) -> tuple["subprocess.Popen[bytes]", ProcessTree]:
    """Start a worker with the arguments of this process, in a session of its own.

    An interrupt on a terminal is sent to the supervisor alone, which tells the workers.
    """
    tree = ProcessTree()
    process = subprocess.Popen(  # noqa: S603  # the command of this process
        # With -P, no module of the current folder is imported: an agent may be able to write there.
        [sys.executable, "-P", "-m", "hookgate.proxy", *sys.argv[1:]],
        env={**os.environ, **sockets.environment(), MARK_VARIABLE: tree.mark},
        pass_fds=sockets.descriptors(),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    return process, tree


async def _all_ready(workers: list[SupervisedWorker]) -> None:
    for worker in workers:
        await worker.ready.wait()


async def _note_ready(worker: SupervisedWorker, lifeline: socket.socket) -> None:
    if await asyncio.get_running_loop().sock_recv(lifeline, 1):
        worker.was_ready = True
        worker.ready.set()


async def _ended(process: "subprocess.Popen[bytes]") -> int:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return process.wait()


def _describe(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
