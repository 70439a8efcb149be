"""Masks the gateway's credential in what the upstream answers."""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from typing import Any

from multidict import CIMultiDict

_IN_JSON, _IN_URL = re.compile(rb"u00[2-7][0-9A-Fa-f]"), re.compile(rb"%[2-7][0-9A-Fa-f]")
"""Escaped characters. Patterns that begin with a text are found ten times as fast."""

_LONGEST_ESCAPE = 9


class KeyMask:
    """Masks a key in texts and in streams of bytes, without changing their length.

    The key is found as it is, with characters escaped as in JSON or in URLs, and within base64, as in the
    header `Authorization` of basic authentication.
    """

    def __init__(self, key: str) -> None:
        import re2  # type: ignore[import-untyped]  # noqa: PLC0415  # no stubs; few gateways need it

        self._key = key.encode()
        self._literals = [self._key, *_base64_forms(self._key)]
        self._escaped = re2.compile("".join(map(_spellings, key)).encode())
        self._partial = re2.compile(_partial_pattern(key).encode())

    def text(self, text: str) -> str:
        """Return the text with the key masked."""
        return self.data(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def data(self, data: bytes) -> bytes:
        """Return the bytes with the key masked."""
        for literal in self._literals:
            if literal in data:
                data = data.replace(literal, b"*" * len(literal))
        return self._escaped.sub(_stars, data) if self._has_escapes(data) else data

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

    def _partial_key_size(self, data: bytes) -> int:
        """Return the length of the longest end of the data that is a beginning of the key."""
        size = max(_partial_size(data, literal) for literal in self._literals)
        end = data[-_LONGEST_ESCAPE * len(self._key) :]
        found = self._partial.search(end)
        return max(size, len(end) - found.start()) if found else size


def _stars(found: Any) -> bytes:
    return b"*" * len(found[0])


def _spellings(character: str) -> str:
    """Return a pattern of a character: as it is, percent-encoded, or escaped as in JSON, perhaps twice."""
    digits = f"{ord(character):02x}"
    high, low = digits[0], digits[1]
    slash = r"|\\{1,4}/" if character == "/" else ""
    return rf"(?:{re.escape(character)}|%{high}(?i:{low})|\\{{1,4}}u00{high}(?i:{low}){slash})"


def _partial_pattern(key: str) -> str:
    """Return a pattern of the beginnings of a key at the end of data, where an escape may be incomplete."""
    pattern = ""
    for character in reversed(key):
        high = f"{ord(character):02x}"[0]
        cut = rf"%{high}?|\\{{1,4}}(?:u(?:0(?:0{high}?)?)?)?"
        pattern = f"(?:{_spellings(character)}{pattern and f'{pattern}?'}|{cut})"
    return rf"{pattern}\z"


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
