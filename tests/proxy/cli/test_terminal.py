"""What commands show on a terminal while they work."""

import pytest

from hookgate.proxy.cli.terminal import describe_progress


@pytest.mark.parametrize(
    ("done", "total", "seconds", "line"),
    [
        (0, 1000, 3.0, "verifying: 0 %"),
        (250, 1000, 0.0, "verifying: 25 %"),
        (250, 1000, 0.5, "verifying: 25 %, 500 records/s, 0:00:02 left"),
        (50_000, 10_000_000, 10, "verifying: 0 %, 5,000 records/s, 0:33:10 left"),
        (1200, 1000, 1, "verifying: 100 %, 1,000 records/s, 0:00:00 left"),
    ],
)
def test_a_line_says_how_far_how_fast_and_how_long_it_takes(
    done: int, total: int, seconds: float, line: str
) -> None:
    """Records that are written meanwhile do not make it more than all."""
    assert describe_progress("verifying", done, total, "records", seconds) == line
