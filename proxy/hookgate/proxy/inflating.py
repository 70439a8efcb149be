"""Compressed bodies, undone piece by piece: no more is inflated than is taken."""

import zlib
from collections.abc import Iterator

from hookgate.proxy.errors import ApiError

CODINGS = ("identity", "gzip", "deflate")
"""The codings of a request's body that are taken."""

PIECE = 1024 * 1024
"""Bytes that are inflated in one go."""

_FED = 64 * 1024  # bytes that zlib is given in one go: it copies what it leaves

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


def inflate(data: bytes, coding: str, limit: int) -> bytes:
    """The body behind a coding. Raises ApiError: 400 for broken data, or more than one stream of it; 413
    as soon as more than `limit` bytes have come out.
    """
    if not data:
        return data
    stream = zlib.decompressobj(_window(data, coding))
    pieces: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(data), _FED):
            if stream.eof:
                raise _broken("something follows its end")
            for piece in _inflated(stream, data[start : start + _FED]):
                size += len(piece)
                if size > limit:
                    raise body_too_large(limit)
                pieces.append(piece)
    except zlib.error:
        raise _broken(f"it is not {coding}") from None
    if not stream.eof:
        raise _broken("it ends too early")
    if stream.unused_data:
        raise _broken("something follows its end")
    return b"".join(pieces)


def _inflated(stream: "zlib._Decompress", fed: bytes) -> Iterator[bytes]:
    """What comes out for some more of the data, piece by piece."""
    while True:
        piece = stream.decompress(fed, PIECE)
        fed = stream.unconsumed_tail
        if piece:
            yield piece
        if stream.eof or (not fed and len(piece) < PIECE):
            return


def body_too_large(limit: int) -> ApiError:
    """The error for a body beyond limits.body."""
    return ApiError(413, f"The request body is too large: more than {limit} bytes.")


def _window(data: bytes, coding: str) -> int:
    """zlib's name for the format; some clients send `deflate` without the header that it should have."""
    if coding == "gzip":
        return _GZIP
    return _ZLIB if data[0] & 0x0F == zlib.DEFLATED else _RAW


def _broken(why: str) -> ApiError:
    return ApiError(400, f"The request body cannot be read: {why}", "BODY_REFUSED")
