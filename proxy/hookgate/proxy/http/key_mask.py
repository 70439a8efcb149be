"""Masks the gateway's credential in what the upstream answers."""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator

from multidict import CIMultiDict

_ESCAPE = rb"(?:\\{1,4}u00|%)"
"""The beginning of an escaped character: percent-encoded, or in JSON, which may be in strings of JSON."""

_LONGEST_ESCAPE = 9
_OPEN_ESCAPE = re.compile(rb"(?:\\{1,4}(?:u0{0,2}[0-9A-Fa-f]?)?|%[0-9A-Fa-f]?)\Z")
"""An escape of which the end may follow."""


class KeyMask:
    """Masks a key in texts and in streams of bytes, without changing their length.

    The key is found as it is, with characters escaped as in JSON or in URLs, and within base64, as in the
    header `Authorization` of basic authentication.
    """

    def __init__(self, key: str) -> None:
        data = key.encode()
        self._literals = [data, *_base64_forms(data)]
        self._characters = [re.compile(_spellings(byte)) for byte in data]
        self._spelled = re.compile(b"".join(each.pattern for each in self._characters))
        codes = b"|".join(sorted({b"%02x" % byte for byte in data}))
        self._escaped = re.compile(_ESCAPE + b"(?i:" + codes + rb")|\\/")
        self._begins = re.compile(rb"[\\%" + re.escape(data[:1]) + b"]")
        self._longest = _LONGEST_ESCAPE * len(data)

    def text(self, text: str) -> str:
        """Return the text with the key masked."""
        return self.data(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def data(self, data: bytes) -> bytes:
        """Return the bytes with the key masked."""
        for literal in self._literals:
            data = data.replace(literal, b"*" * len(literal))
        if self._escaped.search(data):
            data = self._spelled.sub(lambda found: b"*" * len(found[0]), data)
        return data

    def headers(self, headers: CIMultiDict[str]) -> CIMultiDict[str]:
        """Return the headers of an answer with the key masked; usually the same object."""
        masked = CIMultiDict((name, self.text(value)) for name, value in headers.items())
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

    def _partial_key_size(self, data: bytes) -> int:
        """Return the length of the longest end of the data that is a beginning of the key."""
        sizes = [_partial_size(data, literal) for literal in self._literals]
        end = data[-self._longest :]
        if b"\\" in end or b"%" in end:
            begins = (found.start() for found in self._begins.finditer(end))
            sizes += [len(end) - at for at in begins if self._may_begin_key(end, at)][:1]
        return max(sizes)

    def _may_begin_key(self, data: bytes, at: int) -> bool:
        """Return whether the data from here to its end is a beginning of the key in any spelling."""
        for character in self._characters:
            found = character.match(data, at)
            if found is None:
                return at == len(data) or _OPEN_ESCAPE.match(data, at) is not None
            at = found.end()
        return False


def _spellings(byte: int) -> bytes:
    """Return a pattern for one character of the key."""
    escaped = _ESCAPE + b"(?i:%02x)" % byte
    slashes = rb"|\\{1,4}/" if byte == ord("/") else b""
    return b"(?:" + re.escape(bytes([byte])) + b"|" + escaped + slashes + b")"


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
