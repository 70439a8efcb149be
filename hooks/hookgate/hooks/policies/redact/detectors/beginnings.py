"""Where a secret may begin: at a word's beginning, and right behind an escape that only looks like a word.

In `\\nAKIA…`, as JSON writes a line end, the letter before the key belongs to the escape.
"""

import re

WORD = r"\W"
"""What stands before a word, for `Detector.after`."""

WORD_END = r"(?:\b|_{1,3}\b)"
"""The end of a word, also of one that Markdown emphasises: `_word_`."""

_ESCAPE = (
    r"\\[nrtbfv0]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}"  # as strings of JSON and of languages have them
    r"|%(?:25)?[0-9A-Fa-f]{2}"  # in addresses and forms, once or twice
    r"|\[[0-9;]{0,12}[mK]"  # the end of a terminal's sequence for colours, however its start is written
)
BEGINS_ESCAPE = frozenset(b"\\%[_")
LONGEST_ESCAPE = 15

ESCAPE = f"(?:{_ESCAPE})"
EMPHASIS = r"(?:^|\W)_{1,3}"
LEAD = f"{ESCAPE}|{EMPHASIS}"
"""In RE2's syntax: what a secret may follow as if it were a boundary."""

_AT = re.compile(_ESCAPE.encode())
_SIGN = re.compile(rb"[\\%\[]")
_EMPHASIS = re.compile(rb"\W?(_{1,3})")
_BEHIND = re.compile(rb"(?:%s|(?:^|\W)_{1,3})\Z" % _ESCAPE.encode())


def ends_of_leads(data: bytes, at: int) -> list[int]:
    """Where secrets may begin behind what stands at `at`, if that is an escape or emphasis."""
    ends = [] if (escape := _AT.match(data, at)) is None else [escape.end()]
    if emphasis := _EMPHASIS.match(data, at):
        ends += range(emphasis.end(), emphasis.start(1), -1)
    return ends


def follows_lead(data: bytes, at: int) -> bool:
    """Whether an escape or emphasis ends right before `at`."""
    return _BEHIND.search(data[max(at - LONGEST_ESCAPE, 0) : at]) is not None


def start_of_escape(data: bytes, start: int, at: int) -> int:
    """Where the escape begins, at `start` or later, that `at` stands in the middle of; else `at` itself."""
    begin = max(start, at - LONGEST_ESCAPE)
    while sign := _SIGN.search(data, begin, at):
        begin = sign.start()
        if (escape := _AT.match(data, begin)) and escape.end() > at:
            return begin
        begin += 1
    return at
