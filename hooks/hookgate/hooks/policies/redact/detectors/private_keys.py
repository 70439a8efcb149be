"""Private keys: where they end, however tools print their lines."""

import re

from hookgate.hooks.policies.redact.detectors.detector import Detector

_BLANK = r"(?: |\+|%20|&nbsp;|&#32;|\\{1,4}u0020)"
_NAME = rf"(?:{_BLANK}[A-Z0-9]{{2,12}}){{0,3}}{_BLANK}PRIVATE{_BLANK}KEY(?:{_BLANK}BLOCK)?-----"

_BEGIN = f"-----BEGIN{_NAME}"
_BEGIN_SSH2 = r"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
_BEGIN_PUTTY = r"Private-Lines:[ ]\d{1,4}"

_END = re.compile(f"-----END{_NAME}".encode())
_LONGEST_END = 120
_DASHES = b"-----"

# A run may contain escapes of the three characters of base64 that are not letters or digits.
_IN_RUN = (
    rb"(?:[A-Za-z0-9+/=]|\\{1,4}/|%2[BbFf]|%3[Dd]|\\{1,4}u00(?:2[BbFf]|3[Dd])"
    rb"|&#(?:x2[BbFf]|x3[Dd]|4[37]|61);)"
)
_RUN = re.compile(rb"(?<![A-Za-z0-9+/=])%s{16,}+" % _IN_RUN)
_REST_OF_RUN = re.compile(rb"%s*+" % _IN_RUN)
# A run may be short if there are only line ends before it, escaped or not, and lines that are even shorter.
_SHORT_LINE = rb"(?:\s|\\{1,4}[nrt])+[A-Za-z0-9+/=]{1,15}(?=[\r\n]|\\{1,4}[nr])"
_LINE_ENDS = re.compile(rb"(?:%s)*(?:\s|\\{1,4}[nrt])*\\{0,4}" % _SHORT_LINE)
_HEADERS = 400
"""The maximum number of bytes from the BEGIN line to the first run, for headers such as `Proc-Type`."""
_BETWEEN = 200
"""The maximum number of bytes between two runs, or between the last run and the END line."""
_RUN_LENGTH = 32


class KeyExtent:
    """Finds the end of a private key. Implements Extent."""

    def __init__(self, head: bytes, begin: str) -> None:
        """`begin` is a pattern of what precedes the key's lines, and `head` are its first characters."""
        self.head = head
        self._begin = re.compile(begin.encode())

    def end(self, data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
        """Implement Extent.end; `begin` is the end of the BEGIN line, or 0 inside a key."""
        return _end_of_key(data, begin, end, final=final)

    def first_open(self, data: bytes, start: int) -> int | None:
        at = data.find(self.head, start)
        while at >= 0:
            position = at + len(self.head)
            if match := self._begin.match(data, at):
                position, decided = _end_of_key(data, match.end(), len(data), final=False)
                if not decided:
                    return at
            at = data.find(self.head, position)
        return None


def _end_of_key(data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
    last, max_gap = begin, _HEADERS
    if begin == 0:  # inside a key, and perhaps inside a run, of which any number of characters may be left
        rest = _REST_OF_RUN.match(data, 0, end)
        last, max_gap = rest.end() if rest else 0, _BETWEEN
        if last == end and not final:
            return last, False
    while run := _next_run(data, last, max_gap, end):
        is_key = _is_key_data(data, last, run)
        if run.end() == end and not final:
            return run.end() if is_key else last, False
        if not is_key:
            break
        last, max_gap = run.end(), _BETWEEN
    dashes = data.find(_DASHES, last, min(last + max_gap, end))
    if dashes < 0:
        return last, final or end >= last + max_gap + _RUN_LENGTH
    if 0 < last == begin:  # the next BEGIN or END line follows the BEGIN line immediately
        return last, True
    while data[dashes + len(_DASHES) : dashes + len(_DASHES) + 1] == b"-":  # added by diff or grep
        dashes += 1
    if closing := _END.match(data, dashes, end):
        return closing.end(), True
    return last, final or end - dashes >= _LONGEST_END


def _next_run(data: bytes, last: int, max_gap: int, end: int) -> "re.Match[bytes] | None":
    """Return the next run that belongs to the key, or that may continue after the text. Stops at `-----`."""
    window = min(last + max_gap, end)
    dashes = data.find(_DASHES, last, window)
    window = window if dashes < 0 else dashes
    at = last
    while start := _RUN.search(data, at, min(window + _RUN_LENGTH, end)):
        run = _RUN.match(data, start.start(), end)
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


PRIVATE_KEYS = tuple(
    Detector("PRIVATE_KEY", begin, group="credentials", extent=KeyExtent(head, begin), note=note)
    for begin, head, note in (
        (_BEGIN, b"-----BEGIN", "PEM, OpenSSH, PGP"),
        (_BEGIN_SSH2, b"---- BEGIN SSH2", "SSH2"),
        (_BEGIN_PUTTY, b"Private-Lines:", "PuTTY"),
    )
)
