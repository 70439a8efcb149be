"""Times in queries: moments such as `2026-05-04T10:00Z`, `90m` or `yesterday 22:00`, and ranges of them."""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

HOUR = 3_600_000
"""Milliseconds of an hour."""

DAY = 24 * HOUR

QUARTER = HOUR // 4
"""Milliseconds of a quarter of an hour: the offset of every time zone in use is a multiple of it."""

EXAMPLES = "2026-05-04, 2026-05-04T10:00Z, 'yesterday 22:00', 22:00, 90m, 12h or 7d"

_NO_RANGE = "{!r} is not a range; write a day, or two times, such as 'yesterday 22:00 to 06:00'"

_AGE = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def zone_named(name: str) -> tzinfo:
    """Return a time zone such as `Europe/Berlin` or `UTC`. Raises ValueError for an unknown name."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone; write a name such as Europe/Berlin, or UTC") from None


def moment(text: str, zone: tzinfo | None, at: datetime) -> int:
    """Return the moment that a text means, in milliseconds since 1970. Raises ValueError.

    Args:
        text: A date, a time, both, an age such as `12h`, or `today`, `yesterday` or a day of the last week.
        zone: The zone of times that name none; None for that of this machine.
        at: The current time, with a zone.
    """
    if text == "now":
        return _milliseconds(at)
    if (age := _AGE.fullmatch(text)) is not None:
        return _milliseconds(at - timedelta(**{_UNITS[age[2]]: int(age[1])}))
    return _milliseconds(_local(*_day_and_clock(text, zone, at), zone))


def time_range(text: str, zone: tzinfo | None, at: datetime) -> tuple[int, int]:
    """Return the beginning and the end of a range: a day, or two moments with `to` between them.

    An end without a day is on the day of the beginning, or on the next one if it would be before it. Raises
    ValueError.
    """
    first, separator, last = (part.strip() for part in text.partition(" to "))
    if not separator:
        try:
            day, clock = _day_and_clock(first, zone, at)
        except ValueError:
            raise ValueError(_NO_RANGE.format(text)) from None
        if clock is not None:
            raise ValueError(_NO_RANGE.format(text))
        return _milliseconds(_local(day, None, zone)), _milliseconds(
            _local(day + timedelta(days=1), None, zone)
        )
    begin = moment(first, zone, at)
    if (clock := _clock(last)) is not None:
        day = datetime.fromtimestamp(begin / 1000, UTC).astimezone(zone).replace(tzinfo=None)
        end = _milliseconds(_local(day, clock, zone))
        if end <= begin:
            end = _milliseconds(_local(day + timedelta(days=1), clock, zone))
        return begin, end
    end = moment(last, zone, at)
    if end <= begin:
        raise ValueError(f"{text!r} ends before it begins; exchange the times")
    return begin, end


def _day_and_clock(text: str, zone: tzinfo | None, at: datetime) -> tuple[datetime, time | None]:
    """Return the day, and the time of the day if there is one. With a zone in the text, both have it."""
    today = at.astimezone(zone).replace(tzinfo=None)
    word, _, rest = text.partition(" ")
    if (clock := _clock(text)) is not None:
        return today, clock
    if (day := _named_day(word.lower(), today)) is not None:
        if not rest:
            return day, None
        if (clock := _clock(rest.strip())) is not None:
            return day, clock
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write one such as {EXAMPLES}") from None
    return given, None if len(text) == len("2026-05-04") else given.timetz()


def _named_day(word: str, today: datetime) -> datetime | None:
    if word in ("today", "yesterday"):
        return today - timedelta(days=word == "yesterday")
    if word in _DAYS:
        return today - timedelta(days=(today.weekday() - _DAYS.index(word)) % 7)
    return None


def _clock(text: str) -> time | None:
    found = _CLOCK.fullmatch(text)
    return None if found is None else time(int(found[1]), int(found[2]))


def _local(day: datetime, clock: time | None, zone: tzinfo | None) -> datetime:
    """Return the time of a day, or its beginning, in the zone unless it has one of its own."""
    whole = datetime.combine(day.date(), clock or time())
    if whole.tzinfo is not None:
        return whole
    return whole.astimezone() if zone is None else whole.replace(tzinfo=zone)


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)
