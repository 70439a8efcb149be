"""Ranges of numbers, as the audit records them: pairs of the first and the last of consecutive numbers."""

from bisect import bisect_right
from collections.abc import Iterable


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return sorted numbers as ranges."""
    ranges: list[list[int]] = []
    for number in numbers:
        add_number(ranges, number)
    return ranges


def add_number(ranges: list[list[int]], number: int) -> None:
    """Add a number to ranges that contain smaller ones."""
    if ranges and ranges[-1][1] == number - 1:
        ranges[-1][1] = number
    else:
        ranges.append([number, number])


def numbers_outside(ranges: Iterable[list[int]], others: Iterable[list[int]]) -> list[int]:
    """Return the numbers in `ranges` that are in none of the `others`, which may be in any order."""
    merged: list[list[int]] = []
    for first, last in sorted(others):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    begins = [first for first, _ in merged]
    outside = []
    for first, last in ranges:
        for number in range(first, last + 1):
            at = bisect_right(begins, number) - 1
            if at < 0 or merged[at][1] < number:
                outside.append(number)
    return outside
