"""Records that wait to be written, in their order: calls put them in, one thread takes them in batches."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hookgate.proxy.audit.entries import Entry

MAX_WAITING = 20_000
"""Records that wait to be written; a call that comes then is refused."""

_AT_ONCE = 1000
_PATIENCE = 0.01
"""Seconds that records nobody waits for may wait for others: each transaction has its price."""


@dataclass(slots=True, eq=False)
class Waiting:
    """Records that belong together, on their way."""

    entries: tuple[Entry, ...]
    done: Callable[[], None] | None = None
    """What to call, in the writing thread, when they are on disk."""
    since: float = field(default_factory=time.monotonic)
    taken: bool = False
    withdrawn: bool = False
    patient: bool = False
    """Nobody waits for it: it may wait for others."""


class Queue:
    """Records on their way. `batch` is what is being written, and is kept until it is."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._waiting: deque[Waiting] = deque()
        self._count = 0
        self._closing: float | None = None
        self._look = self._hurry = False
        self.batch: list[Waiting] = []

    @property
    def count(self) -> int:
        """Records that wait, among them those that are being written."""
        with self._news:
            return self._count

    @property
    def lag_seconds(self) -> float:
        """How long the oldest of them has been waiting."""
        with self._news:
            oldest = self.batch[0] if self.batch else self._waiting[0] if self._waiting else None
            return time.monotonic() - oldest.since if oldest else 0.0

    @property
    def _urgent(self) -> bool:
        """Whether somebody waits, or nothing more comes."""
        return self._hurry or self._closing is not None or len(self._waiting) > _AT_ONCE

    # ---- for calls

    def put(self, waiting: Waiting, *, bounded: bool) -> bool:
        """Add records. False when they are `bounded` and there is no room."""
        with self._news:
            if bounded and self._count + len(waiting.entries) > MAX_WAITING:
                return False
            self._waiting.append(waiting)
            self._count += len(waiting.entries)
            self._hurry = self._hurry or not waiting.patient
            self._news.notify_all()
        return True

    def withdraw(self, waiting: Waiting) -> bool:
        """Do not write what is not being written yet; whether that is so."""
        with self._news:
            waiting.withdrawn = not waiting.taken
            return waiting.withdrawn

    def look(self) -> None:
        """Have `take` return although there may be nothing."""
        with self._news:
            self._look = True
            self._news.notify_all()

    def close(self, until: float) -> None:
        """Nothing more comes; what is there may take until then, on the monotonic clock."""
        with self._news:
            self._closing = until
            self._news.notify_all()

    # ---- for the thread that writes

    @property
    def closing(self) -> float | None:
        """Until when what is left may be written; None while more may come."""
        return self._closing

    def take(self, within: float) -> bool:
        """Fill an empty batch, with nothing after so many seconds without news; whether a look is wanted."""
        with self._news:
            if not self.batch:
                self._news.wait_for(lambda: self._waiting or self._closing is not None or self._look, within)
            if not self.batch and self._waiting and not self._urgent:
                self._news.wait_for(lambda: self._urgent, _PATIENCE)
            room = 0 if self.batch else _AT_ONCE
            while self._waiting and room > 0:
                waiting = self._waiting.popleft()
                if waiting.withdrawn:
                    self._count -= len(waiting.entries)
                    continue
                waiting.taken = True
                self.batch.append(waiting)
                room -= len(waiting.entries)
            look, self._look = self._look, False
            self._hurry = any(not waiting.patient for waiting in self._waiting)
        return look

    def written(self) -> list[Waiting]:
        """The batch is on disk; gives it away."""
        with self._news:
            batch, self.batch = self.batch, []
            self._count -= sum(len(each.entries) for each in batch)
        return batch

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than until nothing more comes."""
        with self._news:
            self._news.wait_for(lambda: self._closing is not None, seconds)
