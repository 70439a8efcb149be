"""Bodies read from either side, refused when a hook and the other side could read them differently."""

import re
from collections.abc import AsyncIterator

from aiohttp import ClientResponse, hdrs, web

from hookgate.proxy.errors import ApiError
from hookgate.translator import BodyError, Frame, Framing, JsonArray, check_request
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

_CODINGS = ("identity", "gzip", "deflate")  # what aiohttp undoes, within the size limit
_FIELD = re.compile(rb"(?:data|event|id|retry)?:")  # of a server-sent event; none is a comment


async def read_request(request: web.BaseRequest) -> JsonObject:
    """A generate request's body. Raises ApiError: 400 (what is wrong, and where), 413 or 415."""
    coding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ["identity"])).lower()
    if coding not in _CODINGS:
        raise ApiError(415, f"The Content-Encoding {coding!r} is not supported; send gzip or none.")
    try:
        return check_request(loads(await request.read()))
    except BodyError as error:
        raise ApiError(error.status, f"hookgate refuses the request body: {error}", "BODY_REFUSED") from None
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, f"The request body is too large. {error.text}") from None
    except web.RequestPayloadError as error:
        raise ApiError(400, f"The request body cannot be read: {error}", "BODY_REFUSED") from None


async def read_frames(answer: ClientResponse, framing: Framing) -> AsyncIterator[Frame]:
    """The events of a streamed answer, as they come. Raises ApiError (502) for anything beside them."""
    try:
        async for chunk in answer.content.iter_any():
            for frame in framing.feed(chunk):
                yield _checked(framing, frame)
        for frame in framing.finish():
            yield _checked(framing, frame)
    except BodyError as error:
        raise _unreadable(str(error)) from None


def _checked(framing: Framing, frame: Frame) -> Frame:
    if not _only_framing(framing, frame):
        raise _unreadable("the stream holds something beside its events")
    return frame


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


def _unreadable(why: str) -> ApiError:
    return ApiError(502, f"The upstream's answer cannot be judged: {why}", "UPSTREAM_UNREADABLE")
