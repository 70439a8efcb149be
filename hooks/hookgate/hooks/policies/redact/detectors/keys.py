"""Private keys over several lines, whatever tools print before, behind and between them.

A key is known by its BEGIN line. From there on it goes as far as runs of base64 follow one another closely:
what stands between two of them (line ends in any form, numbers, names of files and services, quotes, signs
of a diff) does not matter, only how much it is. An END line close to the last run belongs to the key.
"""

import re

_BLANK = r"(?: |\+|%20|&nbsp;|&#32;|\\{1,4}u0020)"
_NAME = rf"(?:{_BLANK}[A-Z0-9]{{2,12}}){{0,3}}{_BLANK}PRIVATE{_BLANK}KEY(?:{_BLANK}BLOCK)?-----"

BEGIN = f"-----BEGIN{_NAME}"
"""In RE2's syntax: the line that a key begins with."""

_BEGIN = re.compile(BEGIN.encode())
_END = re.compile(f"-----END{_NAME}".encode())
_LONGEST_END = 120
_DASHES = b"-----"
_BEGINS = b"-----BEGIN"

# A run may hold escapes of the three characters of base64 that are no letters or digits.
_RUN = re.compile(
    rb"(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/=]|\\{1,4}/|%2[BbFf]|%3[Dd]|\\{1,4}u00(?:2[BbFf]|3[Dd])"
    rb"|&#(?:x2[BbFf]|x3[Dd]|4[37]|61);){16,}+"
)
# A run may be short where nothing but line ends, as they are or as strings write them, stands before it.
_LINE_ENDS = re.compile(rb"(?:\s|\\{1,4}[nrt])*\\{0,4}")
_HEADERS = 400
"""Bytes between the BEGIN line and the first run: `Proc-Type`, `Version`, and what precedes each line."""
_BETWEEN = 200
"""Bytes between two runs, or between the last run and the END line with a short line in between."""
_RUN_LENGTH = 32


class KeyExtent:
    """How far a private key goes. An Extent."""

    def end(self, data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
        """As an Extent's; `begin` is where the BEGIN line ends, or any place inside of a key."""
        return _end_of_key(data, begin, end, final=final)

    def first_open(self, data: bytes, start: int) -> int | None:
        at = data.find(_BEGINS, start)
        while at >= 0:
            behind = at + len(_BEGINS)
            if match := _BEGIN.match(data, at):
                behind, decided = _end_of_key(data, match.end(), len(data), final=False)
                if not decided:
                    return at
            at = data.find(_BEGINS, behind)
        return None


def _end_of_key(data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
    last, reach = begin, _HEADERS
    while run := _next_run(data, last, reach, end):
        is_key = _is_key_data(data, last, run)
        if run.end() == end and not final:
            return run.end() if is_key else last, False
        if not is_key:
            break
        last, reach = run.end(), _BETWEEN
    dashes = data.find(_DASHES, last, min(last + reach, end))
    if dashes < 0:
        return last, final or end >= last + reach + _RUN_LENGTH
    if last == begin:  # another line of the kind follows, and nothing between them
        return last, True
    while data[dashes + len(_DASHES) : dashes + len(_DASHES) + 1] == b"-":  # of a diff, or of grep
        dashes += 1
    if closing := _END.match(data, dashes, end):
        return closing.end(), True
    return last, final or end - dashes >= _LONGEST_END


def _next_run(data: bytes, last: int, reach: int, end: int) -> "re.Match[bytes] | None":
    """The next run that belongs to the key, or goes on where the text ends; none behind five dashes."""
    window = min(last + reach, end)
    dashes = data.find(_DASHES, last, window)
    window = window if dashes < 0 else dashes
    at = last
    while begun := _RUN.search(data, at, min(window + _RUN_LENGTH, end)):
        run = _RUN.match(data, begun.start(), end)
        if run is None or run.start() >= window:
            return None
        if run.end() == end or _is_key_data(data, last, run):
            return run
        at = run.end()
    return None


def _is_key_data(data: bytes, last: int, run: "re.Match[bytes]") -> bool:
    if _LINE_ENDS.fullmatch(data, last, run.start()):
        return True
    text = run[0]
    return len(text) >= _RUN_LENGTH and text != text.lower() and text != text.upper()
