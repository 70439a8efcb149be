"""Where large bodies are worked on: beside the event loop, one step at a time, in bounded memory."""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from hookgate.proxy.config import Limits
from hookgate.proxy.errors import ApiError
from hookgate.translator.strictjson import Bounds

SMALL = 256 * 1024
"""Bytes up to which a body is worked on in the event loop: a thread would cost more than it saves."""

VALUE = 128
"""Bytes of memory that a parsed value is taken for, beside its text."""

_BREATH = 0.005  # seconds that the interpreter is left to the event loop after a step as long as that

P = ParamSpec("P")
R = TypeVar("R")


class Workshop:
    """One thread for the steps of large bodies, and the account of what all bodies hold.

    One thread, because more of them would only take the interpreter from the event loop more often.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.bounds = Bounds(limits.text, limits.values)
        self._thread = ThreadPoolExecutor(1, "hookgate-bodies")
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def contended(self) -> bool:
        """Whether a body waits for others to end."""
        return bool(self._waiting)

    @property
    def held(self) -> int:
        """Bytes that bodies hold just now."""
        return self._held

    async def do(self, size: int, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of a step of a body of `size` bytes: in the thread if it is large, else at once.

        Steps must be pure, and hold the interpreter for a few milliseconds at a time only.
        """
        if size <= SMALL:
            return step(*args, **kwargs)

        def politely() -> R:
            began, collects = time.monotonic(), gc.isenabled()
            gc.disable()  # what is made here holds no cycles; looking for some would stop everything
            try:
                return step(*args, **kwargs)
            finally:
                if collects:
                    gc.enable()
                time.sleep(_BREATH if time.monotonic() - began > _BREATH else 0)

        return await asyncio.get_running_loop().run_in_executor(self._thread, politely)

    async def aside(self, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of a step, done in the thread: for what hooks are shown of a large body."""
        return await self.do(SMALL + 1, step, *args, **kwargs)

    @property
    def fair_seconds(self) -> float:
        """How long a body may take to arrive while others wait."""
        return self.limits.body_timeout / 2

    async def admit(self, size: int) -> None:
        """Wait until so many bytes more may be held; first come, first served.

        Raises ApiError (403) when they may not in time.
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
            self.change(-size)  # its turn came at the same moment
        else:
            self._waiting = deque(each for each in self._waiting if each[1] is not turn)
            self.change(0)

    def change(self, by: int) -> None:
        """Take down that bodies hold more, or less; those that wait and fit get their turn."""
        self._held += by
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._held += size
                turn.set_result(None)


class Room:
    """What one body may hold, from the first byte read to the end of its call."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.size = 0

    async def take(self, size: int) -> None:
        """Give back what it has and wait for another size. Raises ApiError (403) when that takes too long.

        Nobody waits for more while keeping something, or all could wait for one another.
        """
        self.leave()
        await self._workshop.admit(size)
        self.size = size

    def resize(self, size: int) -> None:
        """It holds another number of bytes by now, whether there was room for them or not."""
        change, self.size = size - self.size, size
        self._workshop.change(change)

    def leave(self) -> None:
        """The call has ended."""
        self.resize(0)


_BUSY = (
    "hookgate works on as many large requests as it has memory for, and none of them ended in time; "
    "send this one later, or have limits.memory raised."
)
