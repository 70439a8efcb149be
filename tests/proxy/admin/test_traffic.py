"""Counts over time, with a fake clock."""

import pytest

from hookgate.proxy.observe.metrics import Traffic
from hookgate.translator.fields import JsonObject

MINUTE = 60_000
START = 1_000_000 * MINUTE


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


def receipt(outcome: str = "answered", ms: float = 10.0, bypasses: int = 0) -> JsonObject:
    return {
        "outcome": outcome,
        "timings": {"total_ms": ms},
        "usage": {"input_tokens": 2, "output_tokens": 3},
        "bypasses": bypasses,
    }


def test_a_call_is_counted_in_its_minute_for_an_hour() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    traffic.add(receipt())
    clock.now += 59 * MINUTE
    traffic.add(receipt("denied", bypasses=2))
    hour = traffic.series("hour")
    assert (hour["steps"][0]["calls"], hour["steps"][-1]["outcomes"]["denied"]) == (1, 1)
    assert (hour["total"]["calls"], hour["total"]["tokens"], hour["total"]["bypasses"]) == (2, 10, 2)
    clock.now += MINUTE
    assert traffic.series("hour")["total"]["calls"] == 1
    assert traffic.series("day")["total"]["calls"] == 2


def test_a_day_is_kept_and_no_more() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    for _ in range(2000):
        traffic.add(receipt())
        clock.now += MINUTE
    assert traffic.series("day")["total"]["calls"] <= 24 * 60


@pytest.mark.parametrize("ms", [0.01, 0.7, 12.0, 850.0, 60_000.0])
def test_a_time_is_right_to_a_fourth(ms: float) -> None:
    traffic = Traffic(Clock())
    for _ in range(10):
        traffic.add(receipt(ms=ms))
    reported = traffic.series("hour")["total"]["p95_ms"]
    assert max(ms, 0.4) <= reported <= max(ms * 1.25 + 0.1, 0.5)


def test_the_median_is_not_moved_by_a_few_slow_ones() -> None:
    traffic = Traffic(Clock())
    for ms in [5.0] * 95 + [9000.0] * 5:
        traffic.add(receipt(ms=ms))
    total = traffic.series("hour")["total"]
    assert total["p50_ms"] < 10
    traffic.add(receipt(ms=9000.0))
    assert traffic.series("hour")["total"]["p95_ms"] > 8000


def test_a_clock_that_is_set_back_loses_no_call() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    traffic.add(receipt())
    clock.now -= 10 * MINUTE
    traffic.add(receipt())
    clock.now += 10 * MINUTE
    assert traffic.series("hour")["total"]["calls"] == 2
