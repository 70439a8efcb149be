"""How the processor time of a step grows with its input."""

import time
from collections.abc import Callable

SHORT, LONG = 2_000, 16_000


def grows_in_proportion(cost: Callable[[int], object]) -> bool:
    """Whether 8 times the length costs about 8 times the processor time. A quadratic search takes 64 times.

    The best of several runs counts, as other programs disturb a measurement, and never make it shorter.
    """
    short = long = float("inf")
    for _ in range(5):
        short, long = min(short, seconds(cost, SHORT)), min(long, seconds(cost, LONG))
        if long < 24 * max(short, 0.000_1):
            return True
    return False


def seconds(cost: Callable[[int], object], length: int) -> float:
    """The processor time of a step for an input of a length."""
    before = time.thread_time()
    cost(length)
    return time.thread_time() - before
