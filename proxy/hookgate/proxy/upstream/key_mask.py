"""Masks the gateway's credential in what the upstream answers."""

import re
from base64 import b64encode
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator

from multidict import CIMultiDict

_CODE = rb"([4-7][0-9A-Fa-f]|3[0-9Dd]|2[BDEFbdef])"
"""The code of a character that a key may contain."""

_ESCAPE = re.compile(rb"(?:\\{1,4}u00|%)" + _CODE + rb"|\\{1,4}(?=/)")
"""An escaped character, percent-encoded or as in JSON, which may be in a string of JSON."""

_IN_JSON, _IN_URL = re.compile(b"u00" + _CODE), re.compile(b"%" + _CODE)
"""Escaped characters. Patterns that begin with a text are found ten times as fast."""

_OPEN_ESCAPE = re.compile(rb"(?:\\{1,4}(?:u0{0,2}[2-7]?)?|%[2-7]?)\Z")
"""An escape of which the end may follow."""

_LONGEST_ESCAPE = 9


class KeyMask:
    """Masks a key in texts and in streams of bytes, without changing their length.

    The key is found as it is, with characters escaped as in JSON or in URLs, and within base64, as in the
    header `Authorization` of basic authentication.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._literals = [self._key, *_base64_forms(self._key)]

    def text(self, text: str) -> str:
        """Return the text with the key masked."""
        return self.data(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def data(self, data: bytes) -> bytes:
        """Return the bytes with the key masked."""
        for literal in self._literals:
            if literal in data:
                data = data.replace(literal, b"*" * len(literal))
        return self._without_escaped_key(data) if self._has_escapes(data) else data

    def headers(self, headers: CIMultiDict[str]) -> CIMultiDict[str]:
        """Return the headers of an answer with the key masked, in names as well; usually the same object."""
        masked = CIMultiDict((self.text(name), self.text(value)) for name, value in headers.items())
        return headers if masked == headers else masked

    async def stream(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the bytes of a stream with the key masked, even where two chunks share it.

        If a chunk ends with what may be the beginning of the key, that end is held back until the next chunk.
        """
        held = b""
        async for chunk in chunks:
            data = self.data(held + chunk)
            size = len(data) - self._partial_key_size(data)
            held = data[size:]
            if size:
                yield data[:size]
        if held:
            yield held

    def _has_escapes(self, data: bytes) -> bool:
        if _IN_JSON.search(data) or _IN_URL.search(data):
            return True
        return rb"\/" in data and b"/" in self._key

    def _without_escaped_key(self, data: bytes) -> bytes:
        unescaped = _Unescaped(data)
        begin = unescaped.data.find(self._key)
        pieces: list[bytes] = []
        done = 0
        while begin >= 0:
            end = begin + len(self._key)
            start, stop = unescaped.place(begin), unescaped.place(end)
            pieces += (data[done:start], b"*" * (stop - start))
            done = stop
            begin = unescaped.data.find(self._key, end)
        return b"".join([*pieces, data[done:]]) if pieces else data

    def _partial_key_size(self, data: bytes) -> int:
        """Return the length of the longest end of the data that is a beginning of the key."""
        size = max(_partial_size(data, literal) for literal in self._literals)
        end = data[-_LONGEST_ESCAPE * len(self._key) :]
        open_escape = _OPEN_ESCAPE.search(end, max(0, len(end) - _LONGEST_ESCAPE))
        if open_escape is None and not self._has_escapes(end):
            return size
        unescaped = _Unescaped(end[: open_escape.start()] if open_escape else end)
        partial = _partial_size(unescaped.data, self._key)
        return max(size, len(end) - unescaped.place(len(unescaped.data) - partial))


class _Unescaped:
    """Bytes without escapes of characters that a key may contain."""

    def __init__(self, data: bytes) -> None:
        plain = bytearray()
        self._places: list[int] = []  # of the characters that were escaped
        self._saved = [0]  # bytes that are missing before the first of these places, up to the next one, ...
        done = 0
        for found in _ESCAPE.finditer(data):
            plain += data[done : found.start()]
            done = found.end()
            self._places.append(len(plain))
            plain += bytes([int(found[1], 16)]) if found[1] else b""
            self._saved.append(done - len(plain))
        self.data = bytes(plain + data[done:])

    def place(self, at: int) -> int:
        """Return where a byte of `data` begins in the original bytes."""
        return at + self._saved[bisect_left(self._places, at)]


def _base64_forms(data: bytes) -> Iterator[bytes]:
    """Yield the base64 of the data in a text, without the digits that depend on the text around it."""
    for before in range(3):
        digits = b64encode(b"\0" * before + data)
        form = digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield form
        if (other := form.translate(bytes.maketrans(b"+/", b"-_"))) != form:
            yield other


def _partial_size(data: bytes, literal: bytes) -> int:
    """Return the length of the longest end of the data that is a beginning of the literal."""
    start = data.find(literal[:1], max(0, len(data) - len(literal) + 1))
    while start >= 0 and not literal.startswith(data[start:]):
        start = data.find(literal[:1], start + 1)
    return len(data) - start if start >= 0 else 0
