"""The embedded upstream's answers on the wire: framing, and the records of what arrived."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from hookgate.proxy.embedded.requests import ApiError, Json
from hookgate.proxy.embedded.script import Pace

_JSON = "application/json; charset=UTF-8"
_RECORDS = 1000


@dataclass
class Recorded:
    """One request as it arrived, and how its answer ended.

    `finished`: the whole answer was handed to the connection. `aborted`: the client went away before that.
    Neither: the answer is under way, or the script cut it.
    """

    method: str
    path_qs: str
    headers: dict[str, str]  # names in lower case
    body: Any = None  # the parsed JSON; None when there is none
    finished: bool = False
    aborted: bool = False


RECORDED: web.AppKey[deque[Recorded]] = web.AppKey("recorded", deque)
_RECORD = web.RequestKey("record", Recorded)


# -- recording ---------------------------------------------------------------------------------------------


def no_records() -> deque[Recorded]:
    """Where an app's records go, the oldest first; no more than the last 1000."""
    return deque(maxlen=_RECORDS)


@web.middleware
async def record(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note each request, and whether its client left."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    noted = Recorded(request.method, request.path_qs, headers)
    request.app[RECORDED].append(noted)
    request[_RECORD] = noted
    try:
        return await handler(request)
    except (asyncio.CancelledError, ConnectionResetError):
        noted.aborted = True
        raise


@web.middleware
async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the body, and answer an ApiError in Google's shape."""
    try:
        request[_RECORD].body = _parsed(await request.read())
        return await handler(request)
    except ApiError as error:
        return await send(request, error.body(), error.status)


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def body_of(request: web.Request) -> Json:
    """The body of a request; ApiError 400 when it is no JSON object."""
    body = request[_RECORD].body
    if not isinstance(body, dict):
        raise ApiError(400, "Invalid JSON payload received. A JSON object is expected.")
    return body


# -- framing -----------------------------------------------------------------------------------------------


async def send(request: web.Request, body: Json, status: int = 200) -> web.StreamResponse:
    """One whole answer."""
    response = web.Response(body=orjson.dumps(body), status=status, headers={"Content-Type": _JSON})
    return await finish(request, response)


async def stream(request: web.Request, chunks: list[Json], pace: Pace) -> web.StreamResponse:
    """Events, one by one: as server-sent events where the request asks for them, else as a JSON array."""
    sse = request.query.get("alt") == "sse"
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream" if sse else _JSON})
    await response.prepare(request)
    for count, chunk in enumerate(chunks):
        if count == pace.cut_after:
            return cut(request, response)
        await asyncio.sleep(pace.chunk_delay_ms / 1000 if count else 0)
        await response.write(_event(chunk, count, sse))
    if pace.cut_after == len(chunks):
        return cut(request, response)
    if not sse:
        await response.write(b"]")
    return await finish(request, response)


def _event(chunk: Json, count: int, sse: bool) -> bytes:
    """One event as it stands on the wire; in a JSON array with what comes before it, never with its end."""
    line = orjson.dumps(chunk)
    if sse:
        return b"data: " + line + b"\r\n\r\n"
    return (b"\r\n,\r\n" if count else b"[") + line


def cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection after what was written so far, without the answer's end."""
    if request.transport is not None:
        request.transport.close()
    return response


async def finish(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Hand over the answer's end here, not after the handler, so that the record tells when it has left."""
    await response.prepare(request)
    await response.write_eof()
    request[_RECORD].finished = True
    return response
