"""Masks the gateway's credential in what the upstream answers."""

from collections.abc import AsyncIterator

from multidict import CIMultiDict


class KeyMask:
    """Masks a key in texts and in streams of bytes, without changing their length."""

    def __init__(self, key: str) -> None:
        self._text, self._bytes = key, key.encode()

    def text(self, text: str) -> str:
        """Return the text with the key masked."""
        return text.replace(self._text, "*" * len(self._text))

    def data(self, data: bytes) -> bytes:
        """Return the bytes with the key masked."""
        return data.replace(self._bytes, b"*" * len(self._bytes))

    def headers(self, headers: CIMultiDict[str]) -> CIMultiDict[str]:
        """Return the headers of an answer with the key masked; usually the same object."""
        if not any(self._text in value for value in headers.values()):
            return headers
        return CIMultiDict((name, self.text(value)) for name, value in headers.items())

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
        start = data.find(self._bytes[:1], max(0, len(data) - len(self._bytes) + 1))
        while start >= 0 and not self._bytes.startswith(data[start:]):
            start = data.find(self._bytes[:1], start + 1)
        return len(data) - start if start >= 0 else 0
