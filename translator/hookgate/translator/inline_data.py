"""Takes base64 data of images and files out of a JSON text before parsing, and puts it back into the value.

Such a string may be tens of megabytes long, and a parser would block the interpreter while it copies it. If
it is taken out, it is copied once, and the rest is small. The strings are recognized by the API's name
`data`, as in inlineData. Hooks do not inspect them as text.
"""

import re
import secrets
import string
from dataclasses import dataclass
from typing import Any

from hookgate.translator.fields import TooLargeError
from hookgate.translator.text_files import may_be_text

LONG = 256 * 1024
"""The length in bytes from which base64 strings are always extracted. Strings of half this length may be."""

_BLOCK = LONG // 2
_BASE64 = (string.ascii_letters + string.digits + "+/=-_").encode()
_NAMED_DATA = re.compile(rb'"data"[ \t\r\n]{0,16}:[ \t\r\n]{0,16}"\Z')
_NAME = 64  # bytes before a run in which its name stands


@dataclass(frozen=True, slots=True)
class Lifted:
    """A text in which long base64 strings are replaced with unguessable names."""

    text: bytes
    strings: dict[str, str]

    def put_back(self, value: Any, most_text: int) -> Any:
        """Put the strings back into the parsed value, in place, and return it.

        Raises TooLargeError if the text, with files among the strings that may be text, has more than
        `most_text` bytes.
        """
        if not self.strings:
            return value
        if isinstance(value, str):
            return self.strings.get(value, value)
        size = len(self.text)
        level = [value]
        while level:
            below: list[Any] = []
            for holder in level:
                items = holder.items() if isinstance(holder, dict) else enumerate(holder)
                for key, item in items:
                    if isinstance(item, dict | list):
                        below.append(item)
                    elif isinstance(item, str) and (data := self.strings.get(item)):
                        holder[key] = data
                        size += _text_size(data, holder)
                if size > most_text:
                    raise TooLargeError("", f"the body has more than {most_text} bytes with files of text")
            level = below
        return value


def _text_size(data: str, blob: Any) -> int:
    """Return the bytes of text in the base64 `data` of an object: none if it is not text."""
    types = (each for each in blob.values() if isinstance(each, str)) if isinstance(blob, dict) else ()
    return len(data) * 3 // 4 if may_be_text(data, types) else 0


def lift(data: bytes) -> Lifted:
    """Take the long base64 strings named `data` out of a JSON text. A malformed text stays malformed.

    The time is linear in the size of the text.
    """
    view = memoryview(data)
    prefix = f"lifted_{secrets.token_hex(16)}_"
    strings: dict[str, str] = {}
    pieces: list[bytes] = []
    done = 0
    for begin, end in _runs(data):
        name = f"{prefix}{len(strings)}"
        strings[name] = str(view[begin:end], "ascii")
        pieces += (data[done:begin], name.encode())
        done = end
    return Lifted(b"".join([*pieces, data[done:]]), strings) if pieces else Lifted(data, {})


def _runs(data: bytes) -> list[tuple[int, int]]:
    """Return the offsets of long `data` strings that consist of base64 only, without their quotes.

    The text before the name need not be parsed: if the quotes around a run were not those of one string, the
    text would be invalid JSON both with the run and without it.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at + _BLOCK <= len(data):
        if not _is_base64(data[at : at + _BLOCK]):
            at += _BLOCK
            continue
        begin = data.rfind(b'"', max(at - _BLOCK, 0), at) + 1
        end = at + _BLOCK
        while end < len(data) and _is_base64(data[end : end + _BLOCK]):
            end += _BLOCK
        close = data.find(b'"', end, end + _BLOCK)
        if _stands_alone(data, begin, at, end, close):
            found.append((begin, close))
        at = -(-end // _BLOCK) * _BLOCK
    return found


def _stands_alone(data: bytes, begin: int, at: int, end: int, close: int) -> bool:
    """Return whether the run is a whole `data` string. From `at` to `end` it is known to be base64."""
    if close < 0 or not _NAMED_DATA.search(data[max(begin - _NAME, 0) : begin]):
        return False
    return _is_base64(data[begin:at] + data[end:close])


def _is_base64(block: bytes) -> bool:
    return not block.translate(None, _BASE64)
