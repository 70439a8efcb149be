"""A bound on hooks that run at once, with a queue in which no key and no session starves another."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_Sessions = OrderedDict[str, deque[asyncio.Future[None]]]
"""What waits, by session."""


class FairQueue:
    """At most `limit` turns at once. Keys that wait are served in turn, and so are the sessions of each key.

    A session's hooks are served in order. A client may open any number of sessions, so sessions alone would
    not be fair.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: OrderedDict[str, _Sessions] = OrderedDict()

    @property
    def open(self) -> bool:
        """Whether a turn would begin at once."""
        return self._free > 0

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return sum(len(queue) for sessions in self._waiting.values() for queue in sessions.values())

    @asynccontextmanager
    async def turn(self, session_id: str, key: str = "") -> AsyncIterator[None]:
        """One turn, as soon as there is room, for a session of a caller's `key`."""
        if self._free > 0:
            self._free -= 1
        else:
            await self._wait(session_id, key)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, session_id: str, key: str) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, OrderedDict()).setdefault(session_id, deque()).append(ready)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self._pass_on()  # the turn came and is not wanted any more
            else:
                self._leave(session_id, key, ready)
            raise

    def _pass_on(self) -> None:
        """Give a turn that ended to the key and the session whose time it is; both go last then."""
        while self._waiting:
            key, sessions = self._waiting.popitem(last=False)
            session_id, queue = sessions.popitem(last=False)
            ready = queue.popleft()
            if queue:
                sessions[session_id] = queue
            if sessions:
                self._waiting[key] = sessions
            if not ready.done():
                ready.set_result(None)
                return
        self._free += 1

    def _leave(self, session_id: str, key: str, ready: asyncio.Future[None]) -> None:
        sessions = self._waiting.get(key, OrderedDict())
        queue = sessions.get(session_id)
        if queue and ready in queue:
            queue.remove(ready)
            if not queue:
                del sessions[session_id]
            if not sessions:
                del self._waiting[key]
