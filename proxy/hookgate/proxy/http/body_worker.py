"""Processing of large bodies: outside the event loop, one step at a time, in bounded memory."""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.errors import ApiError
from hookgate.translator.strictjson import Bounds

SMALL_BODY = 256 * 1024
"""Bytes up to which a body is processed in the event loop: a thread would cost more than it saves."""

VALUE_BYTES = 128
"""The estimated memory of a parsed value in bytes, in addition to its text."""

_PAUSE = 0.005  # seconds that the thread pauses after a step that took longer: the event loop gets the GIL

P = ParamSpec("P")
R = TypeVar("R")


class BodyWorker:
    """A thread that processes large bodies, and the account of the memory that all bodies hold.

    There is one thread, because more would only take the GIL from the event loop more often.
    """

    def __init__(self, limits: LimitSettings) -> None:
        self.limits = limits
        self.bounds = Bounds(limits.text, limits.values)
        self._thread = ThreadPoolExecutor(1, "hookgate-bodies")
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def contended(self) -> bool:
        """Whether a body waits for memory that others hold."""
        return bool(self._waiting)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that bodies hold now."""
        return self._held

    async def run(self, size: int, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a step for a body of `size` bytes and return its result. Large bodies use the thread.

        Steps must be pure, and must not hold the GIL for more than a few milliseconds at a time.
        """
        if size <= SMALL_BODY:
            return step(*args, **kwargs)

        def run_step() -> R:
            started, gc_enabled = time.monotonic(), gc.isenabled()
            gc.disable()  # steps create no cycles, and a collection would stop all threads
            try:
                return step(*args, **kwargs)
            finally:
                if gc_enabled:
                    gc.enable()
                time.sleep(_PAUSE if time.monotonic() - started > _PAUSE else 0)

        return await asyncio.get_running_loop().run_in_executor(self._thread, run_step)

    async def run_in_thread(self, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a step in the thread whatever the size, and return its result."""
        return await self.run(SMALL_BODY + 1, step, *args, **kwargs)

    @property
    def fair_seconds(self) -> float:
        """The seconds that a body may take to arrive while others wait."""
        return self.limits.body_timeout / 2

    async def admit(self, size: int) -> None:
        """Wait until `size` more bytes may be held; first come, first served.

        Raises ApiError (403) if that takes longer than `limits.body_timeout`.
        """
        if self._waiting or not self._fits(size):
            await self._wait(size)
        else:
            self._held += size

    def _fits(self, size: int) -> bool:
        return self._held + size <= self.limits.memory or not self._held

    async def _wait(self, size: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                await turn
        except TimeoutError:
            self._give_up(size, turn)
            raise ApiError(403, _BUSY, "BODIES_BUSY") from None
        except asyncio.CancelledError:
            self._give_up(size, turn)
            raise

    def _give_up(self, size: int, turn: "asyncio.Future[None]") -> None:
        if turn.done() and not turn.cancelled():
            self.change(-size)  # it was admitted at the same moment
        else:
            self._waiting = deque(entry for entry in self._waiting if entry[1] is not turn)
            self.change(0)

    def change(self, by: int) -> None:
        """Add to the bytes that bodies hold, and admit the waiting bodies that now fit."""
        self._held += by
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._held += size
                turn.set_result(None)


class MemoryLease:
    """The memory reserved for one body, from its first byte to the end of its call."""

    def __init__(self, body_worker: BodyWorker) -> None:
        self._body_worker = body_worker
        self.size = 0

    async def acquire(self, size: int) -> None:
        """Release the reserved memory and wait for `size` bytes. Raises ApiError (403) if it takes too long.

        Nothing is kept while waiting, or leases could wait for one another forever.
        """
        self.release()
        await self._body_worker.admit(size)
        self.size = size

    def resize(self, size: int) -> None:
        """Set the number of bytes held, without waiting, whether there is room for them or not."""
        change, self.size = size - self.size, size
        self._body_worker.change(change)

    def release(self) -> None:
        """Release the memory: the call has ended."""
        self.resize(0)


_BUSY = (
    "hookgate already handles as many large requests as it has memory for, and none of them ended in time; "
    "try again later, or ask the operator to raise limits.memory."
)


_PER_ITERATION = 4
"""Requests that start in one iteration of the event loop. Each takes half a millisecond until it waits."""


class Pacer:
    """Lets a few tasks continue in each iteration of the event loop, first come, first served."""

    def __init__(self) -> None:
        self._left = _PER_ITERATION
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._renewal: asyncio.Handle | None = None

    async def turn(self) -> None:
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
