"""Persistent command hooks: programs kept alive, one line of JSON in and one line out for each event.

A process that could answer the wrong call is never asked again (see `worker`): the next call starts another.
"""

import asyncio
import contextlib
import os

from hookgate.hooks.clock import OwnLimit, StallClock
from hookgate.hooks.document import Document
from hookgate.hooks.errors import ExitCodeError, HookError, HookUnavailableError
from hookgate.hooks.kinds.command import command_program
from hookgate.hooks.kinds.process import Program, end_process, spawn, start_error
from hookgate.hooks.kinds.worker import UnreadError, Worker
from hookgate.hooks.output import Ended, Output, read_process
from hookgate.hooks.session import Session
from hookgate.hooks.settings import CommandConfig, Hook


class PersistentRunner:
    """A command hook with up to `workers` kept processes, started when they are needed.

    Callers beyond that wait in order, and the wait counts against the hook's time. Who has waited and runs
    out of time was not failed by the hook but by the number of the others.
    """

    def __init__(self, hook: Hook, config: CommandConfig) -> None:
        self._hook, self._program = hook, command_program(hook, config)
        self._turns = asyncio.Semaphore(config.workers)
        self._clock = StallClock()
        self._workers: list[Worker] = []
        self._closed = False

    async def run(self, event: str, session: Session, document: Document) -> Output | None:
        waits = self._turns.locked()
        try:
            async with OwnLimit(self._clock, self._hook.timeout), self._turns:
                ended = await self._ask(document.json)
        except TimeoutError:
            message = f"timed out after {self._hook.timeout * 1000:g} ms"
            if waits:
                raise HookUnavailableError("overload", f"{message}: all its workers were busy") from None
            raise HookError(message) from None
        try:
            return read_process(event, self._hook.name, ended)
        except ExitCodeError as error:  # a kept program answers with lines: that it ended is no warning of it
            raise HookError(str(error)) from None

    async def close(self) -> None:
        """End every process; none of them, and no descriptor, is left afterwards."""
        self._closed = True
        await asyncio.gather(*(worker.end() for worker in self._workers))

    async def _ask(self, document: bytes) -> Ended:
        if self._closed:
            raise HookUnavailableError("closed", "is closed")
        kept = next((worker for worker in self._workers if worker.is_ready()), None)
        if kept is not None:
            with contextlib.suppress(UnreadError):
                return await kept.ask(document)
        return await (await self._start()).ask(document)

    async def _start(self) -> Worker:
        if self._closed:
            raise HookUnavailableError("closed", "is closed")
        worker = await _started(self._program)
        self._workers = [worker, *(each for each in self._workers if not each.is_over())]
        return worker


async def _started(program: Program) -> Worker:
    """Start a process. Raises HookError, and leaves none, when that fails."""
    process = spawn(program)
    try:
        return Worker(process, os.pidfd_open(process.pid))
    except OSError as error:
        await end_process(process)
        raise start_error("cannot be watched", error) from None
