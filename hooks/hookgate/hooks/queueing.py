"""A bound on hooks that run at once, with a queue in which no session starves another."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairQueue:
    """At most `limit` turns at once. Sessions that wait are served in turn, each one's hooks in order."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def open(self) -> bool:
        """Whether a turn would begin at once."""
        return self._free > 0

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return sum(len(queue) for queue in self._waiting.values())

    @asynccontextmanager
    async def turn(self, session_id: str) -> AsyncIterator[None]:
        """One turn, as soon as there is room."""
        if self._free > 0:
            self._free -= 1
        else:
            await self._wait(session_id)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, session_id: str) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(session_id, deque()).append(ready)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self._pass_on()  # the turn came and is not wanted any more
            else:
                self._leave(session_id, ready)
            raise

    def _pass_on(self) -> None:
        """Give a turn that ended to the first of the session whose time it is; that session goes last."""
        while self._waiting:
            session_id, queue = self._waiting.popitem(last=False)
            ready = queue.popleft()
            if queue:
                self._waiting[session_id] = queue
            if not ready.done():
                ready.set_result(None)
                return
        self._free += 1

    def _leave(self, session_id: str, ready: asyncio.Future[None]) -> None:
        queue = self._waiting.get(session_id)
        if queue and ready in queue:
            queue.remove(ready)
            if not queue:
                del self._waiting[session_id]
