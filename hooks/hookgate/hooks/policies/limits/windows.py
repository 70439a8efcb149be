"""Calendar windows in UTC: the minute, the day or the month that an instant is in. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

Span = Literal["minute", "day", "month"]

Clock = Callable[[], datetime]
"""Tells what time it is, with a time zone."""


@dataclass(frozen=True, slots=True)
class Window:
    """From `begins`, which is in it, to `ends`, which is in the next one."""

    begins: datetime
    ends: datetime


def window_at(span: Span, instant: datetime) -> Window:
    """The window that an instant is in. The instant has to have a time zone, of whatever offset."""
    minute = instant.astimezone(UTC).replace(second=0, microsecond=0)
    day = minute.replace(hour=0, minute=0)
    month = day.replace(day=1)
    match span:
        case "minute":
            return Window(minute, minute + timedelta(minutes=1))
        case "day":
            return Window(day, day + timedelta(days=1))
        case "month":
            return Window(month, (month + timedelta(days=31)).replace(day=1))
