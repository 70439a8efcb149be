"""How calls share the event loop and the GIL: few of them begin at once, and long ones take turns."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from hookgate.hooks.fair_queue import FairQueue
from hookgate.hooks.session import Steps
from hookgate.proxy.calls.answer_reading import stream_slices
from hookgate.proxy.server.bodies import SMALL_BODY, BodyWorker, is_large
from hookgate.proxy.server.shared_threads import QueueKey, run_holding
from hookgate.translator.fields import JsonObject

R = TypeVar("R")

_PER_ITERATION = 4
"""Requests that start in one iteration of the event loop. Each runs for half a millisecond at first."""


class Pacer:
    """Lets a few tasks continue in each iteration of the event loop, first come, first served."""

    def __init__(self) -> None:
        self._left = _PER_ITERATION
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._renewal: asyncio.Handle | None = None

    async def wait_turn(self) -> None:
        """Wait for this task's turn. Returns at once unless many tasks have started in this iteration."""
        loop = asyncio.get_running_loop()
        if self._renewal is None:
            self._renewal = loop.call_soon(self._renew)
        if self._left and not self._waiting:
            self._left -= 1
            return
        future = loop.create_future()
        self._waiting.append(future)
        await future

    def _renew(self) -> None:
        self._renewal, self._left = None, _PER_ITERATION
        while self._waiting and self._left:
            future = self._waiting.popleft()
            if not future.done():  # the task may have been cancelled
                future.set_result(None)
                self._left -= 1
        if self._waiting:
            self._renewal = asyncio.get_running_loop().call_soon(self._renew)


SLICE = 0.001
"""Seconds for which a call with many items runs before other calls do."""


class LoopSlices:
    """Shares the event loop among calls with many items, such as the inputs of an embedding.

    In each iteration of the loop, at most one of them gets a slice. Callers take turns, and so do the
    sessions of each. So however many items they have, any other call waits for one slice per iteration.
    """

    def __init__(self) -> None:
        self._queue = FairQueue(0)
        self._next: asyncio.Handle | None = None

    async def wait_turn(self, queue_key: QueueKey) -> None:
        """Wait until a call may run for another slice."""
        key, session_id = queue_key
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._pass_on)
        await self._queue.acquire(session_id, key)

    def _pass_on(self) -> None:
        self._next = None
        if self._queue.waiting:
            self._queue.release()
            self._next = asyncio.get_running_loop().call_soon(self._pass_on)


_LONG_STEP = 0.1
"""Seconds after which a step no longer keeps the steps of other callers waiting."""

_LONG_THREADS = 2


class LongSteps:
    """Runs long steps of calls in threads of their own, one after another. Callers take turns.

    The event loop gets its share of the GIL: it would be one of seven if six threads ran. A step that takes
    longer than `_LONG_STEP` goes on beside the next one, which is another caller's: of each key, one step
    runs at a time, and two of all keys.
    """

    def __init__(self) -> None:
        self._of_key: WeakValueDictionary[str, FairQueue] = WeakValueDictionary()
        self._queue = FairQueue(1)  # of one step of each key
        self._free = asyncio.Semaphore(_LONG_THREADS)
        self._threads = ThreadPoolExecutor(_LONG_THREADS, "hookgate-long-steps")

    async def run(self, queue_key: QueueKey, step: Callable[..., R], /, *args: Any) -> R:
        """Call a pure function in a thread when it is the caller's turn, and return its result."""
        key, session_id = queue_key
        own = self._of_key.setdefault(key, FairQueue(1))
        with ExitStack() as held:  # until the step has ended, which may be after its call has left
            await own.acquire(session_id)
            held.callback(own.release)
            await self._queue.acquire("", key)
            begins = held.enter_context(ExitStack())
            begins.callback(self._queue.release)
            await self._free.acquire()
            held.callback(self._free.release)
            held.callback(asyncio.get_running_loop().call_later(_LONG_STEP, begins.close).cancel)
            return await run_holding(held, self._threads, partial(copy_context().run, step, *args))


class CallSteps(Steps):
    """Runs the steps of one call: at once, in the thread for large bodies, or in turn with other callers."""

    def __init__(
        self, worker: BodyWorker, long_steps: LongSteps, slices: LoopSlices, queue_key: QueueKey
    ) -> None:
        """The session in `queue_key` tells apart what the caller does at once."""
        self.work = 0
        """The work of what is judged now, in bytes (see SMALL_BODY): the request, or a part of the answer."""
        self.worker, self._long_steps, self._slices, self._queue_key = worker, long_steps, slices, queue_key
        self._slice_ends = time.perf_counter() + SLICE

    @property
    def is_large(self) -> bool:  # type: ignore[override]  # it follows `work`
        return self.work > SMALL_BODY

    def note_size(self, size: int) -> None:
        self.work = max(self.work, size)

    async def run(self, step: Callable[..., R], /, *args: Any) -> R:
        if self.work <= SMALL_BODY:
            return step(*args)
        return await self.worker.run_in_thread(self._queue_key, self.work, step, *args)

    async def run_for(self, work: int, step: Callable[..., R], /, *args: Any) -> R:
        """Return the result of a step for something else than what is judged now, with this work."""
        if work <= SMALL_BODY:
            return step(*args)
        return await self.worker.run_in_thread(self._queue_key, work, step, *args)

    async def run_long(self, step: Callable[..., R], /, *args: Any) -> R:
        return await self._long_steps.run(self._queue_key, step, *args)

    async def pause(self) -> None:
        if time.perf_counter() >= self._slice_ends:
            await self._slices.wait_turn(self._queue_key)
            self._slice_ends = time.perf_counter() + SLICE

    async def run_in_slices(self, step: Callable[[bytes], None], chunk: bytes) -> None:
        """Call a step with each slice of a part of an answer, and let other calls run in between."""
        slices = stream_slices(chunk)
        for each in slices:
            if len(slices) > 1:
                await self.pause()
            step(each)

    @contextmanager
    def judging(self, part: JsonObject) -> Iterator[None]:
        work = self.work
        if work > SMALL_BODY and not is_large(part):
            self.work = 0
        try:
            yield
        finally:
            self.work = max(self.work, work)  # something larger may have begun meanwhile
