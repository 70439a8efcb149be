"""Images and files in base64, taken out of a JSON text before it is parsed and put back into the value.

They are tens of megabytes in one string. A parser would hold the interpreter for as long as it copies them;
taken out, each is copied once, and what is left to parse is small. They are known by the name `data` that
the API has for them (as in inlineData): no hook is shown them as text.
"""

import re
import secrets
import string
from dataclasses import dataclass
from typing import Any

LONG = 256 * 1024
"""Bytes from which a run of base64 is taken out in any case; one half as long may be."""

_BLOCK = LONG // 2
_BASE64 = (string.ascii_letters + string.digits + "+/=-_").encode()
_NAMED_DATA = re.compile(rb'"data"[ \t\r\n]{0,16}:[ \t\r\n]{0,16}"\Z')
_NAME = 64  # bytes before a run in which its name stands


@dataclass(frozen=True, slots=True)
class Lifted:
    """A text without its long base64 strings, each of which a name that nobody can guess stands for."""

    text: bytes
    strings: dict[str, str]

    def put_back(self, value: Any) -> Any:
        """The value that the text was parsed to, with the strings in it. Changes it in place."""
        if not self.strings:
            return value
        if isinstance(value, str):
            return self.strings.get(value, value)
        level = [value]
        while level:
            below: list[Any] = []
            for holder in level:
                items = holder.items() if isinstance(holder, dict) else enumerate(holder)
                for key, item in items:
                    if isinstance(item, dict | list):
                        below.append(item)
                    elif isinstance(item, str) and item in self.strings:
                        holder[key] = self.strings[item]
            level = below
        return value


def lift(data: bytes) -> Lifted:
    """Take the long base64 strings named `data` out of a JSON text. What is malformed stays so.

    Each byte is looked at a few times at most, a block at a time.
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
    """Where long `data` of base64 and nothing else begins and ends, without its quotes.

    A run between two quotes reads the same whatever stands before its name: were these not the quotes of one
    string, the text would be no JSON with it or without it.
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
    """Whether the run is all of a string with that name; from `at` to `end` it is known to be base64."""
    if close < 0 or not _NAMED_DATA.search(data[max(begin - _NAME, 0) : begin]):
        return False
    return _is_base64(data[begin:at] + data[end:close])


def _is_base64(block: bytes) -> bool:
    return not block.translate(None, _BASE64)
