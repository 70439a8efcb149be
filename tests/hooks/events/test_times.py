"""The texts of times."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks.timestamps import utc_text


@given(st.floats(min_value=0, max_value=4_000_000_000))
def test_times_are_written_with_milliseconds_as_by_the_standard_library(at: float) -> None:
    expected = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    assert utc_text(at) == expected.replace("+00:00", "Z")


def test_times_may_be_less_precise() -> None:
    assert utc_text(1.5, "seconds") == "1970-01-01T00:00:01Z"
