"""Bodies read from either side, refused when a hook and the other side could read them differently."""

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from itertools import takewhile

from aiohttp import hdrs, web

from hookgate.proxy.errors import ApiError
from hookgate.proxy.inflating import CODINGS, body_too_large, inflate
from hookgate.proxy.protocol import Request
from hookgate.proxy.workshop import SMALL, VALUE
from hookgate.translator import BodyError, Frame, Framing, JsonArray, check_response
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import Bounds, parse

MAX_ANSWER = 64 * 1024 * 1024
"""The largest answer that is held whole for hooks, in bytes."""

_SLICE = 64 * 1024  # bytes of a stream that are taken apart in one go
_FIELD = re.compile(rb"(?:data|event|id|retry)?:")  # of a server-sent event; none is a comment


async def read_request(request: web.BaseRequest) -> JsonObject:
    """A request's body, an object. Raises ApiError: 400 (what is wrong, and where), 403, 413 or 415.

    The request holds room in its workshop from then on, where a large body is worked on.
    """
    assert isinstance(request, Request)  # noqa: S101  # for the types: all of ours are
    workshop, room = request.workshop, request.room
    coding = content_coding(request)
    data = await _read(request, coding)
    if coding != "identity":
        limit = workshop.limits.body
        await room.take(limit)
        data = await workshop.do(limit, inflate, data, coding, limit)
    request.record.request_bytes = len(data)
    room.resize(len(data))
    try:
        parsed = await workshop.do(len(data), parse, data, workshop.bounds)
    except BodyError as error:
        raise ApiError(error.status, f"hookgate refuses the request body: {error}", "BODY_REFUSED") from None
    if not isinstance(parsed.value, dict):
        raise ApiError(400, "hookgate refuses the request body: it has to be a JSON object", "BODY_REFUSED")
    room.resize(len(data) + VALUE * parsed.count)
    return parsed.value


def content_coding(request: web.BaseRequest) -> str:
    """The coding of a request's body. Raises ApiError (415) for one that is not taken."""
    coding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ["identity"])).lower()
    if coding not in CODINGS:
        raise ApiError(415, f"The Content-Encoding {coding!r} is not supported; send gzip or none.")
    return coding


async def _read(request: Request, coding: str) -> bytes:
    """The bytes of the body as they came. What its head does not tell is taken for small until it is not."""
    workshop, room = request.workshop, request.room
    limit, length = workshop.limits.body, request.content_length
    if (length or 0) > limit:
        raise body_too_large(limit)
    await room.take(SMALL if length is None else length)
    began = asyncio.get_running_loop().time()
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > limit:
                raise body_too_large(limit)
            if len(body) > room.size:
                await room.take(limit)
            if workshop.contended and asyncio.get_running_loop().time() - began > workshop.fair_seconds:
                raise ApiError(400, "The request body came too slowly while others waited.", "BODY_REFUSED")
    except web.RequestPayloadError as error:
        raise ApiError(400, f"The request body cannot be read: {error}", "BODY_REFUSED") from None
    return await workshop.do(len(body), bytes, body)


async def read_whole(chunks: AsyncIterable[bytes]) -> bytes:
    """An answer that is no stream. Raises ApiError (502) for one that is too large to be held."""
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > MAX_ANSWER:
            raise too_large()
    return bytes(data)


async def read_frames(chunks: AsyncIterable[bytes], framing: Framing) -> AsyncIterator[list[Frame]]:
    """The events of a streamed answer, those together that have come since the last were taken.

    Raises ApiError (502) for anything beside them.
    """
    try:
        async for chunk in chunks:
            for start in range(0, len(chunk), _SLICE):
                if start:  # so many events may be in a chunk that others have to get their turn
                    await asyncio.sleep(0)
                for frames in _in_order(framing, framing.feed(chunk[start : start + _SLICE])):
                    yield frames
        for frames in _in_order(framing, framing.finish()):
            yield frames
    except BodyError as error:
        raise _unreadable(str(error)) from None


def _in_order(framing: Framing, frames: list[Frame]) -> Iterator[list[Frame]]:
    """The frames together, up to one that is not what it should be. Then raises ApiError."""
    good = list(takewhile(lambda frame: _only_framing(framing, frame), frames))
    if good:
        yield good
    if len(good) < len(frames):
        raise _unreadable("the stream holds something beside its events")


def _only_framing(framing: Framing, frame: Frame) -> bool:
    """Whether all of a frame but its data is framing: some clients read what stands beside it, too."""
    if isinstance(framing, JsonArray):
        return not frame.raw.removesuffix(frame.data).strip(b" \t\r\n[,]")
    return all(_FIELD.match(line) for line in frame.raw.splitlines() if line)


def read_answer(data: bytes, bounds: Bounds) -> JsonObject:
    """A GenerateContentResponse, whole or one event. Raises ApiError (502): unread is unjudged."""
    try:
        body = parse(data, bounds).value
    except BodyError as error:
        raise _unreadable(str(error)) from None
    if not isinstance(body, dict):
        raise _unreadable("it is not a JSON object")
    return body


def checked_answer(body: JsonObject) -> JsonObject:
    """The response in an answer, if hooks can be shown it. Raises ApiError (502)."""
    try:
        return check_response(body)
    except BodyError as error:
        raise _unreadable(str(error)) from None


def too_large() -> ApiError:
    """The error for an answer that cannot be held."""
    return _unreadable(f"it is larger than {MAX_ANSWER} bytes")


def _unreadable(why: str) -> ApiError:
    return ApiError(502, f"The upstream's answer cannot be judged: {why}", "UPSTREAM_UNREADABLE")
