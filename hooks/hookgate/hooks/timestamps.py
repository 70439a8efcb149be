"""The text of times, as in the inputs of hooks, logs and records."""

import time
from datetime import UTC, datetime
from functools import lru_cache


def utc_text(at: float | None = None, precision: str = "milliseconds") -> str:
    """Return a time in the format of `timestamp`: `2026-05-04T10:00:00.000Z`.

    `at` is in seconds since 1970; by default it is the current time.
    """
    at = time.time() if at is None else at
    if precision != "milliseconds":
        return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision).replace("+00:00", "Z")
    minute, microsecond = divmod(round(at * 1_000_000), 60_000_000)
    second, millisecond = divmod(microsecond // 1000, 1000)
    return f"{_utc_minute(minute)}:{second:02}.{millisecond:03}Z"


@lru_cache(maxsize=8)  # a call writes the time about four times, and stored records are read in order of time
def _utc_minute(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60, UTC).isoformat(timespec="minutes").removesuffix("+00:00")
