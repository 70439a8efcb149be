"""Bodies read from either side, refused when a hook and the other side could read them differently."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterator
from itertools import takewhile

from aiohttp import hdrs, web

from hookgate.proxy.errors import ApiError
from hookgate.translator import BodyError, Frame, Framing, JsonArray, check_response
from hookgate.translator.fields import JsonObject, read
from hookgate.translator.strictjson import loads

MAX_ANSWER = 64 * 1024 * 1024
"""The largest answer that is held whole for hooks, in bytes."""

_CODINGS = ("identity", "gzip", "deflate")  # what aiohttp undoes, within the size limit
_FIELD = re.compile(rb"(?:data|event|id|retry)?:")  # of a server-sent event; none is a comment


async def read_request(request: web.BaseRequest) -> JsonObject:
    """A request's body, an object. Raises ApiError: 400 (what is wrong, and where), 413 or 415."""
    coding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ["identity"])).lower()
    if coding not in _CODINGS:
        raise ApiError(415, f"The Content-Encoding {coding!r} is not supported; send gzip or none.")
    try:
        body = loads(await request.read())
    except BodyError as error:
        raise ApiError(error.status, f"hookgate refuses the request body: {error}", "BODY_REFUSED") from None
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, f"The request body is too large. {error.text}") from None
    except web.RequestPayloadError as error:
        raise ApiError(400, f"The request body cannot be read: {error}", "BODY_REFUSED") from None
    if not isinstance(body, dict):
        raise ApiError(400, "hookgate refuses the request body: it has to be a JSON object", "BODY_REFUSED")
    return body


def check_cache(body: JsonObject, unhooked: Collection[str]) -> None:
    """Refuse a request that goes on from cached contents, which no hook has seen. Raises ApiError."""
    if read(body, "cachedContent") is not None and "caches" not in unhooked:
        raise ApiError(
            403,
            "cachedContent: no hook has seen what is cached; send the contents themselves, "
            'or set routes.unhooked = ["caches"] in hookgate.toml to let it through unjudged.',
            "ROUTE_NOT_ALLOWED",
        )


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
            for frames in _in_order(framing, framing.feed(chunk)):
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


def read_answer(data: bytes) -> JsonObject:
    """A GenerateContentResponse, whole or one event. Raises ApiError (502): unread is unjudged."""
    try:
        body = loads(data)
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
