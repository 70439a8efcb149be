"""What has passed lately, minute by minute, for the charts: counts and times, nothing of any call."""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from hookgate.translator.fields import JsonObject

Span = Literal["hour", "day"]

_MINUTE = 60_000
_STEPS: dict[Span, int] = {"hour": 1, "day": 15}
_MINUTES: dict[Span, int] = {"hour": 60, "day": 24 * 60}
_OUTCOMES = ("answered", "denied", "stopped", "synthetic", "refused", "failed", "left", "interrupted")

# Each bound is a fourth above the one before: a told time is right to about an eighth. The last is minutes.
_BOUNDS = tuple(0.5 * 1.25**step for step in range(60))


@dataclass(slots=True)
class Minute:
    """The calls that ended in one minute. `at` is its number since 1970."""

    at: int
    outcomes: dict[str, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """How many calls took up to each bound, by the bound's place."""
    tokens: int = 0
    bypasses: int = 0


class Traffic:
    """The last day. `now` gives milliseconds since 1970."""

    def __init__(self, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.now = now
        self._minutes: deque[Minute] = deque(maxlen=_MINUTES["day"])
        self.since = now()
        """From when on calls were counted, in milliseconds since 1970."""

    def add(self, receipt: JsonObject) -> None:
        """A call has ended."""
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
        """The span up to now, in steps of one or fifteen minutes, the oldest first."""
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
    """The time that this share of calls took at most, in milliseconds; None without calls."""
    counted = sorted(times)
    wanted = share * sum(count for _, count in counted)
    for place, count in counted:
        wanted -= count
        if wanted <= 0:
            return round(_BOUNDS[min(place, len(_BOUNDS) - 1)], 1)
    return None
