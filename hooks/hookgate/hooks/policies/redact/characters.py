"""Places in UTF-8 bytes: characters, and the context of a place."""

import re

from hookgate.hooks.policies.redact.detectors.detector import start_of_lead

_SURROGATE_HEAD = b"\xed"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def searchable(data: bytes) -> bytes:
    """Return the data with lone surrogates, which RE2 does not read as characters, replaced with U+FFFD."""
    return _SURROGATE.sub("\ufffd".encode(), data) if _SURROGATE_HEAD in data else data


def previous_character(data: bytes, at: int) -> int:
    """Return where the character before `at` begins, or 0 at the beginning."""
    at -= 1
    while at > 0 and data[at] & 0xC0 == 0x80:
        at -= 1
    return max(at, 0)


def next_character(data: bytes, at: int) -> int:
    """Return where the character at `at` ends."""
    first = data[at]
    return at + (1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4)


def start_of_context(data: bytes, at: int) -> int:
    """Return the start of what stands before `at` and matters there: an escape, emphasis, or a character."""
    return min(start_of_lead(data, at), previous_character(data, at)) if at else 0
