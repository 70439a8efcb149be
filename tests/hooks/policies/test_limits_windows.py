"""The calendar windows of the policy `limits`, at their edges."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.counters import LimitRule, MemoryCounters, Period, counts_of, window_at

TICK = timedelta(microseconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("span", "instant", "begins", "ends"),
    [
        pytest.param("minute", "2026-01-01T00:00:00", "2026-01-01", "2026-01-01T00:01", id="minute, first"),
        pytest.param(
            "minute", "2026-12-31T23:59:59.999999", "2026-12-31T23:59", "2027-01-01", id="minute, last"
        ),
        pytest.param("day", "2026-03-01T00:00:00", "2026-03-01", "2026-03-02", id="day, first instant"),
        pytest.param(
            "day", "2028-02-28T23:59:59.999999", "2028-02-28", "2028-02-29", id="day before a leap day"
        ),
        pytest.param("day", "2028-02-29T12:00:00", "2028-02-29", "2028-03-01", id="leap day"),
        pytest.param("day", "2026-12-31T12:00:00", "2026-12-31", "2027-01-01", id="last of a year"),
        pytest.param("month", "2026-01-31T23:59:59", "2026-01-01", "2026-02-01", id="month of 31 days"),
        pytest.param("month", "2026-02-28T23:59:59", "2026-02-01", "2026-03-01", id="february"),
        pytest.param(
            "month", "2028-02-29T23:59:59", "2028-02-01", "2028-03-01", id="february with a leap day"
        ),
        pytest.param("month", "2100-02-28T23:59:59", "2100-02-01", "2100-03-01", id="century without one"),
        pytest.param("month", "2026-12-31T23:59:59", "2026-12-01", "2027-01-01", id="december"),
    ],
)
def test_a_window_is_the_calendar_s(span: Period, instant: str, begins: str, ends: str) -> None:
    window = window_at(span, at(instant))
    assert (window.begins, window.ends) == (at(begins), at(ends))


async def test_counts_whose_windows_have_ended_are_removed_first() -> None:
    """Including a window that ends just now; if none has ended, the least recently used count."""
    now = at("2026-05-01T12:00:00")
    counters = MemoryCounters(lambda: now, kept=2)
    await counters.add("used first", 1, now + TICK)
    await counters.add("ended", 1, now)
    await counters.add("third", 1, now + TICK)
    assert await counters.read(["used first", "ended", "third"]) == {"used first": 1, "third": 1}
    await counters.add("used first", 2, now + TICK)
    await counters.add("fourth", 1, now + TICK)
    assert await counters.read(["used first", "third", "fourth"]) == {"used first": 3, "fourth": 1}


def test_a_day_is_utc_s_whatever_the_clock_s_zone() -> None:
    east = timezone(timedelta(hours=14))
    window = window_at("day", datetime(2026, 5, 1, 9, tzinfo=east))
    assert (window.begins, window.ends) == (at("2026-04-30"), at("2026-05-01"))


@given(
    instant=st.floats(86_400, 2e11).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    span=st.sampled_from(["minute", "day", "month"]),
)
def test_windows_hold_their_instants_and_follow_on_each_other(instant: datetime, span: Period) -> None:
    window = window_at(span, instant)
    assert window.begins <= instant < window.ends
    assert window_at(span, window.begins) == window_at(span, window.ends - TICK) == window
    assert window_at(span, window.ends).begins == window.ends


@pytest.mark.parametrize(
    ("per", "whose"), [("key", '"k",'), ("session", '"k","s",'), ("team", '"t",'), ("everyone", "")]
)
def test_counts_of_an_earlier_version_are_continued(per: str, whose: str) -> None:
    """The store contains these keys of counts."""
    about = {"per": per, "window": "day", "requests": 1, "name": "n", "models": ["*-pro"]}
    session = SessionContext("s", key="k", team="t")
    [count] = counts_of([LimitRule.model_validate(about)], session, at("2026-01-02T03:04:05"))
    expected = f'["requests","{per}",{whose}"day","2026-01-02T00:00:00+00:00","n","7dbe404da665f63d"]'
    assert count.key == expected
