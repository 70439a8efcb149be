"""The embedded upstream on the wire: routes, what it refuses, framing, recording.

What it answers is decided in answers.py, by the rules of script.py.
"""

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from hookgate.proxy.embedded import answers
from hookgate.proxy.embedded.answers import Call
from hookgate.proxy.embedded.requests import ApiError, Json, canonical, check_parts, checked
from hookgate.proxy.embedded.script import Pace, Player, Script

_MODELS = ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-embedding-001")
_METHODS = ("generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents")
_JSON = "application/json; charset=UTF-8"
_DIMENSIONS = 768
_MAX_DIMENSIONS = 3072
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
_PLAYER = web.AppKey("player", Player)
_RECORD = web.RequestKey("record", Recorded)


# -- routes ------------------------------------------------------------------------------------------------


def make_app(script: Script | None = None) -> web.Application:
    """The embedded upstream. Run it with handler_cancellation=True: that is how it notices lost clients.

    app[RECORDED] holds the last 1000 requests, the oldest first.
    """
    # No size limit: a body that is too large is the gateway's to refuse, and this server is loopback's.
    app = web.Application(middlewares=[_record, _refuse], client_max_size=0)
    app[RECORDED] = deque(maxlen=_RECORDS)
    app[_PLAYER] = Player(script or Script(rules=[]))
    version = "/{version:v1|v1beta|v1alpha}"
    app.router.add_get(version + "/models", _list_models)
    app.router.add_get(version + "/models/{model:[^/:]+}", _get_model)
    app.router.add_post(f"{version}/models/{{model:[^/:]+}}:{{method:{'|'.join(_METHODS)}}}", _call_model)
    app.router.add_route("*", "/{rest:.*}", _not_found)
    return app


@web.middleware
async def _record(request: web.Request, handler: Handler) -> web.StreamResponse:
    headers = {name.lower(): value for name, value in request.headers.items()}
    record = Recorded(request.method, request.path_qs, headers)
    request.app[RECORDED].append(record)
    request[_RECORD] = record
    try:
        return await handler(request)
    except (asyncio.CancelledError, ConnectionResetError):
        record.aborted = True
        raise


@web.middleware
async def _refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        request[_RECORD].body = _parsed(await request.read())
        return await handler(request)
    except ApiError as error:
        return await _send(request, error.body(), error.status)


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


async def _not_found(request: web.Request) -> web.StreamResponse:
    raise ApiError(404, f"There is no {request.method} {request.path}.")


async def _list_models(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    size = _whole_number(request, "pageSize", 50) or 50
    start = _whole_number(request, "pageToken", 0)
    page: Json = {"models": [_described(model) for model in _MODELS[start : start + size]]}
    if start + size < len(_MODELS):
        page["nextPageToken"] = str(start + size)
    return await _send(request, page)


def _whole_number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name) or str(default)
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ApiError(400, f"Invalid value at '{name}': {text!r}.")
    return int(text)


async def _get_model(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    return await _send(request, _described(request.match_info["model"]))


def _described(model: str) -> Json:
    return {
        "name": f"models/{model}",
        "version": "embedded",
        "displayName": model,
        "description": "The embedded upstream: a deterministic stand-in, not a model.",
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": list(_METHODS),
    }


async def _call_model(request: web.Request) -> web.StreamResponse:
    """A call of one of _METHODS: key, error on demand, body, answer."""
    _require_key(request)
    model, method = request.match_info["model"], request.match_info["method"]
    if wanted := re.fullmatch(r"error-([45][0-9][0-9])", model):
        raise ApiError(int(wanted[1]), f"The model {model} was asked for, which always answers this error.")
    body = request[_RECORD].body
    if not isinstance(body, dict):
        raise ApiError(400, "Invalid JSON payload received. A JSON object is expected.")
    if method in ("generateContent", "streamGenerateContent"):
        return await _generate(request, Call(model, method == "streamGenerateContent", checked(body)))
    return await _send(request, _measured(method, body))


def _require_key(request: web.Request) -> None:
    headers = request.headers
    if not (headers.get("x-goog-api-key") or request.query.get("key") or headers.get("Authorization")):
        raise ApiError(403, "Method doesn't allow unregistered callers. Please use an API key.")


def _measured(method: str, body: Json) -> Json:
    """The answer of countTokens, embedContent and batchEmbedContents."""
    request = canonical(body)
    if method == "countTokens":
        tokens = answers.prompt_tokens(checked(request.get("generateContentRequest") or request))
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}
    if method == "embedContent":
        return {"embedding": _embedded(request)}
    if not request.get("requests"):
        raise ApiError(400, "* BatchEmbedContentsRequest.requests: requests is not specified")
    return {"embeddings": [_embedded(one) for one in request["requests"]]}


def _embedded(request: Json) -> Json:
    content = request.get("content", {})
    check_parts(content, "content")
    wanted = request | request.get("embedContentConfig", {})
    dimensions = wanted.get("outputDimensionality", _DIMENSIONS)
    if not isinstance(dimensions, int) or not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise ApiError(400, f"Invalid value at 'outputDimensionality': {dimensions!r}.")
    return answers.embedding(content, dimensions)


async def _generate(request: web.Request, call: Call) -> web.StreamResponse:
    answer = request.app[_PLAYER].pick(call.scene)
    pace = answer or Pace()
    await asyncio.sleep(pace.delay_ms / 1000)
    if answer and answer.error:
        raise ApiError(answer.error.status, answer.error.message)
    chunks = answers.respond(call, answer)
    if call.stream:
        return await _stream(request, chunks, pace)
    if pace.cut_after == 0:
        return _cut(request, web.Response())
    return await _send(request, chunks[0])


# -- framing -----------------------------------------------------------------------------------------------


async def _send(request: web.Request, body: Json, status: int = 200) -> web.StreamResponse:
    response = web.Response(body=orjson.dumps(body), status=status, headers={"Content-Type": _JSON})
    return await _finish(request, response)


async def _stream(request: web.Request, chunks: list[Json], pace: Pace) -> web.StreamResponse:
    sse = request.query.get("alt") == "sse"
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream" if sse else _JSON})
    await response.prepare(request)
    for count, chunk in enumerate(chunks):
        if count == pace.cut_after:
            return _cut(request, response)
        await asyncio.sleep(pace.chunk_delay_ms / 1000 if count else 0)
        await response.write(_event(chunk, count, sse))
    if pace.cut_after == len(chunks):
        return _cut(request, response)
    if not sse:
        await response.write(b"]")
    return await _finish(request, response)


def _event(chunk: Json, count: int, sse: bool) -> bytes:
    """One event as it stands on the wire; in a JSON array with what comes before it, never with its end."""
    line = orjson.dumps(chunk)
    if sse:
        return b"data: " + line + b"\r\n\r\n"
    return (b"\r\n,\r\n" if count else b"[") + line


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection after what was written so far, without the answer's end."""
    if request.transport is not None:
        request.transport.close()
    return response


async def _finish(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Hand over the answer's end here, not after the handler, so that the record tells when it has left."""
    await response.prepare(request)
    await response.write_eof()
    request[_RECORD].finished = True
    return response
