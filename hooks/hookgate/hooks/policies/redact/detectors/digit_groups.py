"""Numbers that are written in groups of digits."""

import re
from collections.abc import Callable

BLANK = "[ \u00a0\u202f]"
"""A pattern in RE2's syntax: a blank, including non-breaking ones."""

DIGITS = r"\d{1,17}"
"""A pattern in RE2's syntax: a group of digits.

Repeats of that length are searched as if they were unlimited, which is faster. Checks decide the length.
"""

GROUP = re.compile(r"\d+")


def number_in(text: str, is_number: Callable[[str], bool]) -> tuple[int, int] | None:
    """Return the begin and end of the number that begins a text, or None.

    Other groups of digits may follow it. Of several numbers, it is the longest one.
    """
    ends = [group.end() for group in GROUP.finditer(text)]
    for end in reversed(ends):
        if is_number(text[:end]):
            return 0, end
    return None
