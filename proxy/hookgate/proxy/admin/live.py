"""Live data for the panel: calls as they end, and the traffic of the last day."""

import asyncio
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from hookgate.proxy.admin.calls import receipt_row
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.receipts import Receipts
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

MAX_READERS = 32
MAX_WAITING = 16
"""Events that are queued for one reader."""
MAX_ROWS = 50
"""The latest calls that one event contains; the event also has the total number."""

TICK_SECONDS = 0.25
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
            self.send_away()

    def send_away(self) -> None:
        """Disconnect the reader."""
        self._away.set()

    async def next(self) -> bytes | None:
        """Return the next event, or None if the reader is disconnected."""
        if self._away.is_set():
            return None
        told, away = asyncio.ensure_future(self._queue.get()), asyncio.ensure_future(self._away.wait())
        try:
            await asyncio.wait((told, away), return_when=asyncio.FIRST_COMPLETED)
            return told.result() if told.done() and not self._away.is_set() else None
        finally:
            told.cancel()
            away.cancel()


class Live:
    """The readers of one gateway's panel."""

    def __init__(self, receipts: Receipts, hooks: Callable[[], object], tick: float = TICK_SECONDS) -> None:
        """Create the readers' hub. `hooks` returns the state of hooks as JSON; `tick` is in seconds."""
        self._receipts, self._hooks, self._tick = receipts, hooks, tick
        self._readers: set[Reader] = set()
        self._ended: deque[JsonObject] = deque(maxlen=MAX_ROWS)
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Add a reader while the block runs. Raises ApiError (429) if there are too many."""
        if len(self._readers) >= MAX_READERS:
            raise ApiError(429, f"{MAX_READERS} windows of the panel are already open; close one.")
        reader = Reader()
        self._readers.add(reader)
        if self._task is None:
            self._receipts.watchers.append(self._note)
            self._task = asyncio.get_running_loop().create_task(self._tell())
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._stop()

    def close(self) -> None:
        """Disconnect all readers."""
        for reader in self._readers:
            reader.send_away()

    def _stop(self) -> None:
        if self._task is not None:
            self._receipts.watchers.remove(self._note)
            self._task.cancel()
            self._task = None
            self._ended.clear()
            self._count = 0

    def _note(self, receipt: JsonObject) -> None:
        self._ended.append(receipt)
        self._count += 1

    async def _tell(self) -> None:
        known, quiet = dumps(self._hooks()), 0
        while True:
            await asyncio.sleep(self._tick)
            quiet += 1
            if self._count:
                rows = [receipt_row(receipt) for receipt in self._ended]
                self._put("calls", dumps({"count": self._count, "rows": rows}))
                self._ended.clear()
                self._count = quiet = 0
            if (hooks := dumps(self._hooks())) != known:
                known, quiet = hooks, 0
                self._put("hooks", hooks)
            if quiet >= _QUIET_TICKS:
                quiet = 0
                for reader in self._readers:
                    reader.put(b": still here\n\n")

    def _put(self, event: str, data: bytes) -> None:
        told = b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"
        for reader in self._readers:
            reader.put(told)


Span = Literal["hour", "day"]

_MINUTE = 60_000
_STEPS: dict[Span, int] = {"hour": 1, "day": 15}
_MINUTES: dict[Span, int] = {"hour": 60, "day": 24 * 60}
_OUTCOMES = ("answered", "denied", "stopped", "synthetic", "refused", "failed", "left", "interrupted")

# Each bound is 25% above the previous one, so reported times are exact to about 12%. The last is minutes.
_BOUNDS = tuple(0.5 * 1.25**step for step in range(60))


@dataclass(slots=True)
class Minute:
    """The calls that ended in one minute. `at` is its number since 1970."""

    at: int
    outcomes: dict[str, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """The number of calls that took up to each bound, by the bound's index."""
    tokens: int = 0
    bypasses: int = 0


class Traffic:
    """The traffic of the last day. `now` returns milliseconds since 1970."""

    def __init__(self, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.now = now
        self._minutes: deque[Minute] = deque(maxlen=_MINUTES["day"])
        self.since = now()
        """When counting began, in milliseconds since 1970."""

    def add(self, receipt: JsonObject) -> None:
        """Count a call that has ended."""
        at = self.now() // _MINUTE
        if not self._minutes or self._minutes[-1].at < at:  # a clock that is set back adds to the last one
            self._minutes.append(Minute(at))
        minute = self._minutes[-1]
        outcome = receipt["outcome"]
        minute.outcomes[outcome] = minute.outcomes.get(outcome, 0) + 1
        place = bisect_left(_BOUNDS, receipt["timings"]["total_ms"])
        minute.times[place] = minute.times.get(place, 0) + 1
        minute.tokens += receipt["usage"]["input_tokens"] + receipt["usage"]["output_tokens"]
        minute.bypasses += receipt["bypasses"]

    def series(self, span: Span) -> JsonObject:
        """Return the traffic of a span up to now, in steps of one or fifteen minutes, the oldest first."""
        step, now = _STEPS[span], self.now() // _MINUTE
        last = now // step
        first = last - _MINUTES[span] // step + 1
        steps: dict[int, list[Minute]] = {at: [] for at in range(first, last + 1)}
        for minute in self._minutes:
            if minute.at // step in steps:
                steps[minute.at // step].append(minute)
        return {
            "span": span,
            "step_ms": step * _MINUTE,
            "since": self.since,
            "steps": [{"at": at * step * _MINUTE, **_summed(minutes)} for at, minutes in steps.items()],
            "total": _summed([minute for minutes in steps.values() for minute in minutes]),
        }


def _summed(minutes: list[Minute]) -> JsonObject:
    outcomes = {name: sum(minute.outcomes.get(name, 0) for minute in minutes) for name in _OUTCOMES}
    times: dict[int, int] = {}
    for place, count in (item for minute in minutes for item in minute.times.items()):
        times[place] = times.get(place, 0) + count
    return {
        "calls": sum(outcomes.values()),
        "outcomes": outcomes,
        "tokens": sum(minute.tokens for minute in minutes),
        "bypasses": sum(minute.bypasses for minute in minutes),
        "p50_ms": _share(times.items(), 0.5),
        "p95_ms": _share(times.items(), 0.95),
    }


def _share(times: Iterable[tuple[int, int]], share: float) -> float | None:
    """Return the time that a share of the calls did not exceed, in milliseconds, or None without calls."""
    counted = sorted(times)
    wanted = share * sum(count for _, count in counted)
    for place, count in counted:
        wanted -= count
        if wanted <= 0:
            return round(_BOUNDS[min(place, len(_BOUNDS) - 1)], 1)
    return None
