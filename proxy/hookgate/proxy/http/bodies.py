"""Reading of request and response bodies: decompression with limits, and strict parsing."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterable, Iterator

from aiohttp import hdrs, web

from hookgate.proxy.errors import ApiError, body_refused
from hookgate.proxy.http.body_worker import SMALL_BODY, VALUE_BYTES
from hookgate.proxy.http.connection import Request
from hookgate.translator import BodyError, Frame, Framing, JsonArray, check_response
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import Bounds, loads, parse

CODINGS = ("identity", "gzip", "deflate")
"""The content codings that hookgate can decompress, and `identity`."""

PIECE = 1024 * 1024
"""The largest number of bytes that one step of decompression returns."""

_INPUT_SLICE = 64 * 1024  # bytes passed to zlib at once: it copies the input that it does not use

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


def inflate(data: bytes, coding: str, limit: int) -> bytes:
    """Decompress a body.

    Raises ApiError: 400 if the data is invalid or has more than one stream, 413 as soon as the output exceeds
    `limit` bytes.
    """
    if not data:
        return data
    stream = zlib.decompressobj(compression_window(data, coding))
    pieces: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(data), _INPUT_SLICE):
            if stream.eof:
                raise _invalid_body("data follows the end of the compressed stream")
            for piece in inflate_pieces(stream, data[start : start + _INPUT_SLICE]):
                size += len(piece)
                if size > limit:
                    raise body_too_large(limit)
                pieces.append(piece)
    except zlib.error:
        raise _invalid_body(f"it is not valid {coding} data") from None
    if not stream.eof:
        raise _invalid_body("the compressed stream is incomplete")
    if stream.unused_data:
        raise _invalid_body("data follows the end of the compressed stream")
    return b"".join(pieces)


def inflate_pieces(stream: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """Yield the output for the next input of a stream, at most `PIECE` bytes at a time."""
    while True:
        piece = stream.decompress(data, PIECE)
        data = stream.unconsumed_tail
        if piece:
            yield piece
        if stream.eof or (not data and len(piece) < PIECE):
            return


def body_too_large(limit: int) -> ApiError:
    """Return the error for a request body that is larger than `limits.body`."""
    return ApiError(413, f"The request body is too large: more than {limit} bytes.")


def compression_window(data: bytes, coding: str) -> int:
    """Return zlib's `wbits` for the format: some clients send `deflate` without the zlib header."""
    if coding == "gzip":
        return _GZIP
    return _ZLIB if data[0] & 0x0F == zlib.DEFLATED else _RAW


def _invalid_body(problem: str) -> ApiError:
    return ApiError(400, f"The request body cannot be read: {problem}", "BODY_REFUSED")


MAX_ANSWER = 64 * 1024 * 1024
"""The largest answer that is buffered for hooks, in bytes."""

# Characters other than CR and LF that end a line for some clients: VT, FF, FS, GS, RS, NEL, LS and PS.
_ODD_LINE_END = rb"[\v\f\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]"
# A line of a server-sent event; one without a name is a comment. In data, they occur in strings only.
_LINE = re.compile(rb"data:|(?:event|id|retry)?:(?!.*(?:" + _ODD_LINE_END + rb"))")


async def read_request(request: web.BaseRequest) -> JsonObject:
    """Return a request's body, which must be a JSON object. Serialize it again to forward it.

    If a key is repeated in one object, its last value is used. The memory that the body takes is reserved in
    the request's `memory_lease`. Raises ApiError: 400 if the body is invalid, 403 if there was not enough
    memory in time, 413 if it is too large, 415 for an unknown coding.
    """
    assert isinstance(request, Request)  # noqa: S101  # for mypy: all requests of the server are
    body_worker, memory = request.body_worker, request.memory_lease
    coding = content_coding(request)
    data = await _read(request, coding)
    if coding != "identity":
        limit = body_worker.limits.body
        await memory.acquire(limit)
        data = await body_worker.run(limit, inflate, data, coding, limit)
    request.record.request_bytes = len(data)
    memory.resize(len(data))
    try:
        parsed = await body_worker.run(len(data), parse, data, body_worker.bounds)
    except BodyError as error:
        raise body_refused(error, error.status) from None
    if not isinstance(parsed.value, dict):
        raise body_refused("it must be a JSON object")
    memory.resize(len(data) + VALUE_BYTES * parsed.count)
    return parsed.value


def content_coding(request: web.BaseRequest) -> str:
    """Return the content coding of a request's body. Raises ApiError (415) if it is not supported."""
    coding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ["identity"])).lower()
    if coding not in CODINGS:
        raise ApiError(415, f"The Content-Encoding {coding!r} is not supported; use gzip, deflate or none.")
    return coding


async def _read(request: Request, coding: str) -> bytes:
    """Return the body's bytes, still encoded. A body of unknown length is assumed to be small at first."""
    body_worker, memory = request.body_worker, request.memory_lease
    limit, length = body_worker.limits.body, request.content_length
    if (length or 0) > limit:
        raise body_too_large(limit)
    await memory.acquire(SMALL_BODY if length is None else length)
    started = asyncio.get_running_loop().time()
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > limit:
                raise body_too_large(limit)
            if len(body) > memory.size:
                await memory.acquire(limit)
            if (
                body_worker.contended
                and asyncio.get_running_loop().time() - started > body_worker.fair_seconds
            ):
                message = "The request body arrived too slowly while other requests waited for memory."
                raise ApiError(400, message, "BODY_REFUSED")
    except web.RequestPayloadError as error:
        raise ApiError(400, f"The request body cannot be read: {error}", "BODY_REFUSED") from None
    return await body_worker.run(len(body), bytes, body)


async def read_whole(chunks: AsyncIterable[bytes]) -> bytes:
    """Return the body of an answer that is not streamed. Raises ApiError (502) if it is too large."""
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > MAX_ANSWER:
            raise too_large()
    return bytes(data)


SLICE = 64 * 1024
"""The maximum number of bytes of a stream to process at once, so that other tasks can run in between."""


def read_frames(chunk: bytes | None, framing: Framing) -> Iterator[Frame]:
    """Yield the events that a chunk of a streamed answer completes, or the last one if `chunk` is None.

    Raises ApiError (502) at the first data that is not part of an event.
    """
    try:
        frames = framing.finish() if chunk is None else framing.feed(chunk)
    except BodyError as error:
        raise _unreadable(str(error)) from None
    for frame in frames:
        if not _is_valid(framing, frame):
            raise _unreadable(_OUTSIDE)
        yield frame


_OUTSIDE = "the stream contains data outside its events"


def _is_valid(framing: Framing, frame: Frame) -> bool:
    """Return whether a frame has no data outside its event, which some clients would read."""
    if isinstance(framing, JsonArray):
        return not frame.raw.removesuffix(frame.data).strip(b" \t\r\n[,]")
    raw = frame.raw
    if len(raw) == len(frame.data) + 10 and raw.startswith(b"data: ") and raw.endswith(b"\r\n\r\n"):
        return True  # a single line of data, as in nearly all events
    return all(map(_LINE.match, filter(None, raw.splitlines())))


def read_answer(data: bytes, bounds: Bounds) -> JsonObject:
    """Parse an answer, or one event of a stream. Raises ApiError (502) if it is invalid."""
    try:
        body = loads(data, bounds)
    except BodyError as error:
        raise _unreadable(str(error)) from None
    if not isinstance(body, dict):
        raise _unreadable("it is not a JSON object")
    return body


def checked_answer(body: JsonObject) -> JsonObject:
    """Return the response in an answer. Raises ApiError (502) if it cannot be shown to hooks."""
    try:
        return check_response(body)
    except BodyError as error:
        raise _unreadable(str(error)) from None


def too_large() -> ApiError:
    """Return the error for an answer that is too large to be buffered."""
    return _unreadable(f"it is larger than {MAX_ANSWER} bytes")


def _unreadable(problem: str) -> ApiError:
    return ApiError(502, f"The upstream's answer cannot be judged: {problem}", "UPSTREAM_UNREADABLE")
