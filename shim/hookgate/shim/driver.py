"""Runs the steps of a session, with a background event loop for their I/O."""

import asyncio
import inspect
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from hookgate.shim.command.gateway import event_input
from hookgate.shim.conversation import Ask, Conversation, Fire, Step
from hookgate.shim.decisions import Decision, Question
from hookgate.shim.transports import Transport

T = TypeVar("T")


class Host:
    """An event loop in a background thread.

    It starts on first use, and again on first use in a forked process. It ends with `stop`, or when the host
    is garbage-collected.
    """

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        """Run `close` in the loop before it ends. `close` must not keep a reference to the host."""
        self._close = close
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._finalizer: weakref.finalize[..., Host] | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the background loop."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the background loop and block until it has a result."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the caller was interrupted; if the coroutine itself failed, this does nothing
            raise

    def stop(self) -> None:
        """Cancel what still runs, and end the loop and its thread. A later call starts a new loop."""
        with self._lock:
            finalizer, self._loop, self._finalizer = self._finalizer, None, None
        if finalizer is not None:
            finalizer()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                thread = threading.Thread(
                    target=_run_loop, args=(self._loop, self._close), name="hookgate-shim", daemon=True
                )
                thread.start()
                self._finalizer = weakref.finalize(self, _stop_loop, self._loop, thread, self._process)
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop, close: Callable[[], Awaitable[None]]) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_shut_down(close))
    finally:
        loop.close()


async def _shut_down(close: Callable[[], Awaitable[None]]) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await close()
    await asyncio.sleep(0)  # lets closed connections run their callbacks


def _stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    if process != os.getpid():  # after a fork the thread exists only in the parent
        return
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join()


Asker = Callable[[Question], bool | Awaitable[bool]]
"""A function that asks the user whether a tool may run."""

Context = Literal["returned", "delivered"]
"""Who passes to the model what hooks add at the start of a session or turn: the caller or the gateway."""

_ADDS_CONTEXT = frozenset({"SessionStart", "BeforeAgent"})


@dataclass(frozen=True, slots=True)
class Driver:
    """Runs a session's steps: it fires their events and asks their questions."""

    transport: Transport
    host: Host
    conversation: Conversation
    cwd: str
    context: Context
    asker: Asker | None

    async def run(self, step: Step[T]) -> T:
        """Run a step without blocking the calling event loop, and return its result."""
        answer: Any = None
        while True:
            try:
                request = step.send(answer)
            except StopIteration as end:
                return cast("T", end.value)
            match request:
                case Fire():
                    answer = await asyncio.wrap_future(self.host.submit(self._event_decision(request)))
                case Ask(question):
                    permission = self.asker and self.asker(question)
                    answer = await permission if inspect.isawaitable(permission) else permission

    def wait(self, step: Step[T]) -> T:
        """Run a step, blocking the calling thread, and return its result."""
        answer: Any = None
        while True:
            try:
                request = step.send(answer)
            except StopIteration as end:
                return cast("T", end.value)
            match request:
                case Fire():
                    answer = self.host.wait(self._event_decision(request))
                case Ask(question):
                    permission = self.asker and self.asker(question)
                    answer = (
                        self.host.wait(_await(permission)) if inspect.isawaitable(permission) else permission
                    )

    def _event_decision(self, fire: Fire) -> Coroutine[Any, Any, Decision]:
        common = event_input(fire.event, self.conversation.session_id, self.cwd)
        document = {**common, **fire.fields}
        deliver = self.context == "delivered" and fire.event in _ADDS_CONTEXT
        return self.transport.fire(fire.event, document, deliver=deliver)


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable
