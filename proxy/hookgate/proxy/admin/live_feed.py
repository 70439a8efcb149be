"""Live data for the panel: how many calls have ended, and changes of hooks."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.receipts import Receipts
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

MAX_READERS = 32
MAX_WAITING = 16
"""Events that are queued for one reader."""
TICK_SECONDS = 0.25
"""Seconds between events. Calls that ended since the last tick are announced at the next one.

Pages read their calls after each event. A record may come to the database 0.2 seconds after its call's end.
"""
_QUIET_TICKS = 40
"""Ticks without events after which a comment is sent, so that closed connections are noticed."""


class Reader:
    """A browser that receives live events."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self._away = asyncio.Event()

    def put(self, data: bytes) -> None:
        """Queue an event. A reader whose queue is full is disconnected."""
        try:
            self._queue.put_nowait(data)
        except asyncio.QueueFull:
            self.disconnect()

    def disconnect(self) -> None:
        """Disconnect the reader."""
        self._away.set()

    async def next(self) -> bytes | None:
        """Return the next event, or None if the reader is disconnected."""
        if self._away.is_set():
            return None
        queued, away = asyncio.ensure_future(self._queue.get()), asyncio.ensure_future(self._away.wait())
        try:
            await asyncio.wait((queued, away), return_when=asyncio.FIRST_COMPLETED)
            return queued.result() if queued.done() and not self._away.is_set() else None
        finally:
            queued.cancel()
            away.cancel()


class LiveFeed:
    """The readers of one gateway's panel."""

    def __init__(self, receipts: Receipts, hooks: Callable[[], object], tick: float = TICK_SECONDS) -> None:
        """Create the readers' hub. `hooks` returns the state of hooks as JSON; `tick` is in seconds."""
        self._receipts, self._hooks, self._tick = receipts, hooks, tick
        self._readers: set[Reader] = set()
        self._ended = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Add a reader while the block runs. Raises ApiError (429) if there are too many."""
        if len(self._readers) >= MAX_READERS:
            raise ApiError(429, f"{MAX_READERS} windows of the panel are already open; close one of them.")
        reader = Reader()
        self._readers.add(reader)
        if self._task is None:
            self._receipts.watchers.append(self._note)
            self._task = asyncio.get_running_loop().create_task(self._broadcast())
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._stop()

    def close(self) -> None:
        """Disconnect all readers."""
        for reader in self._readers:
            reader.disconnect()

    def _stop(self) -> None:
        if self._task is not None:
            self._receipts.watchers.remove(self._note)
            self._task.cancel()
            self._task = None
            self._ended = 0

    def _note(self, _: JsonObject) -> None:
        self._ended += 1

    async def _broadcast(self) -> None:
        known, quiet = dumps(self._hooks()), 0
        due = 0
        while True:
            await asyncio.sleep(self._tick)
            quiet += 1
            if due:
                quiet = 0
                self._put("calls", dumps({"count": due}))
            due, self._ended = self._ended, 0
            if (hooks := dumps(self._hooks())) != known:
                known, quiet = hooks, 0
                self._put("hooks", hooks)
            if quiet >= _QUIET_TICKS:
                quiet = 0
                for reader in self._readers:
                    reader.put(b": still here\n\n")

    def _put(self, event: str, data: bytes) -> None:
        message = b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"
        for reader in self._readers:
            reader.put(message)
