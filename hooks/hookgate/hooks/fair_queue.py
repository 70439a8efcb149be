"""A queue in which API keys take turns, and the sessions of each key."""

import asyncio
from collections import OrderedDict

_Sessions = OrderedDict[str, OrderedDict[asyncio.Future[None], None]]
"""The waiting runs of each session, in order. Leaving takes constant time: thousands may do so at once."""


class FairQueue:
    """A queue that lets at most `limit` runs proceed at once.

    Waiting API keys are served round-robin, and so are the sessions of each key; the runs of a session are
    served in order. Round-robin by session alone would be unfair, since a client may open many sessions.
    """

    def __init__(self, limit: int) -> None:
        self.free = limit
        """The number of free slots."""
        self.waiting = 0
        """The number of waiting runs."""
        self._waiting: OrderedDict[str, _Sessions] = OrderedDict()

    async def acquire(self, session_id: str, key: str = "") -> None:
        """Wait for a free slot and take it. Pass it on with `release`."""
        if self.free > 0:
            self.free -= 1
        else:
            await self._wait(session_id, key)

    async def _wait(self, session_id: str, key: str) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, OrderedDict()).setdefault(session_id, OrderedDict())[ready] = None
        self.waiting += 1
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self.release()  # the slot was assigned, but is no longer wanted
            else:
                self._leave(session_id, key, ready)
            raise

    def release(self) -> None:
        """Pass a slot to the next key and session, which then move to the end of their queues."""
        while self._waiting:
            key, sessions = self._waiting.popitem(last=False)
            session_id, queue = sessions.popitem(last=False)
            ready, _ = queue.popitem(last=False)
            self.waiting -= 1
            if queue:
                sessions[session_id] = queue
            if sessions:
                self._waiting[key] = sessions
            if not ready.done():
                ready.set_result(None)
                return
        self.free += 1

    def _leave(self, session_id: str, key: str, ready: asyncio.Future[None]) -> None:
        sessions = self._waiting.get(key, OrderedDict())
        queue = sessions.get(session_id)
        if queue and ready in queue:
            del queue[ready]
            self.waiting -= 1
            if not queue:
                del sessions[session_id]
            if not sessions:
                del self._waiting[key]
