"""The routes of the mock upstream: the Gemini API, Vertex and Code Assist, with the same answers."""

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from aiohttp import web

from hookgate.proxy.errors import describe_os_error
from hookgate.proxy.mock_upstream import answers, requests
from hookgate.proxy.mock_upstream.answers import ModelCall
from hookgate.proxy.mock_upstream.chat import chat_answer, chat_stream, openai_embeddings, read_chat
from hookgate.proxy.mock_upstream.interactions import (
    interaction_answer,
    interaction_begun,
    interaction_stream,
    read_interaction,
)
from hookgate.proxy.mock_upstream.requests import (
    EmbeddedApiError,
    Json,
    canonical_request,
    check_parts,
    validated_request,
)
from hookgate.proxy.mock_upstream.responses import read_response_request, response_answer, response_stream
from hookgate.proxy.mock_upstream.script import Pace, Player, Script
from hookgate.proxy.mock_upstream.wire import (
    RECORDED,
    Files,
    RecordedRequest,
    abort_stream,
    finish,
    no_records,
    parse_request_body,
    record,
    refuse,
    send,
    stream,
    stream_events,
)

_MODELS = ("gemini-3.1-pro-preview", "gemini-3.8-flash", "gemini-3.5-flash-lite", "gemini-embedding-001")
_METHODS = ("generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents")
_DIMENSIONS = 768
_MAX_DIMENSIONS = 3072
_GEMINI = "/{version:v1|v1beta|v1alpha}"
_MODEL = "{model:[^/:]+}"
_VERTEX_PLACE = "/{version:v1|v1beta1}/projects/{project:[^/]+}/locations/{location:[^/]+}"
_VERTEX = (
    "/{version:v1|v1beta1}/publishers/google/models/",
    f"{_VERTEX_PLACE}/publishers/google/models/",
    f"{_VERTEX_PLACE}/endpoints/",
)
_CODE_ASSIST = "/v1internal"

Wrap = Callable[[Json], Json]
"""A function that puts an answer, or an event of one, in its envelope."""

_PLAYER = web.AppKey("player", Player)
_FILES = web.AppKey("files", Files)
_INTERACTIONS: web.AppKey[OrderedDict[str, Json]] = web.AppKey("interactions", OrderedDict)
_PENDING: web.AppKey[set[str]] = web.AppKey("pending interactions", set)
"""Interactions in the background that have not been read. The first answer is that they are in progress."""
_MAX_INTERACTIONS = 1000


def make_app(script: Script | None = None) -> web.Application:
    """Return the app of the mock upstream. `app[RECORDED]` has the last 1000 requests, the oldest first.

    Run it with handler_cancellation=True, so that it notices when clients disconnect.
    """
    # No size limit: the gateway refuses bodies that are too large, and this server is for loopback.
    app = web.Application(middlewares=[record, refuse], client_max_size=0)
    app[RECORDED] = no_records()
    app[_PLAYER] = Player(script or Script(rules=[]))
    app[_FILES] = Files()
    app.router.add_post(f"{_GEMINI}/models/{_MODEL}{_method(_METHODS)}", _call_model)
    for place in _VERTEX:
        app.router.add_post(f"{place}{_MODEL}{_method(_METHODS[:4])}", _call_model)
    app[_INTERACTIONS], app[_PENDING] = OrderedDict(), set()
    app.router.add_post(_GEMINI + "/interactions", _create_interaction)
    app.router.add_get(_GEMINI + "/interactions/{id:[^/]+}", _get_interaction)
    app.router.add_post(_GEMINI + "/interactions/{id:[^/]+}/cancel", _cancel_interaction)
    app.router.add_delete(_GEMINI + "/interactions/{id:[^/]+}", _delete_interaction)
    for place in (_GEMINI + "/openai", f"{_VERTEX_PLACE}/endpoints/openapi"):
        app.router.add_post(place + "/chat/completions", _create_chat_completion)
        app.router.add_post(place + "/responses", _create_response)
        app.router.add_post(place + "/embeddings", _create_openai_embeddings)
    app.router.add_get(_GEMINI + "/openai/models", _list_openai_models)
    app.router.add_get(_GEMINI + "/models", _list_models)
    app.router.add_get(_GEMINI + "/models/" + _MODEL, _get_model)
    _add_files(app.router)
    _add_code_assist(app.router)
    app.router.add_route("*", "/{rest:.*}", _not_found)
    return app


def _method(names: Iterable[str]) -> str:
    return f":{{method:{'|'.join(names)}}}"


def _add_files(router: web.UrlDispatcher) -> None:
    file = _GEMINI + "/{file:files/[a-z0-9]+}"
    router.add_post(f"/upload{_GEMINI}/files", _upload)
    router.add_get(_GEMINI + "/files", _list_files)
    router.add_get(file, _get_file)
    router.add_get(file + ":download", _download)
    router.add_delete(file, _delete_file)


def _add_code_assist(router: web.UrlDispatcher) -> None:
    router.add_post(_CODE_ASSIST + _method(_METHODS[:3]), _call_wrapped_model)
    router.add_post(_CODE_ASSIST + _method(requests.POSTS), _post_code_assist)
    router.add_get(_CODE_ASSIST + "{rest:[:/].*}", _get_code_assist)


async def _not_found(request: web.Request) -> web.StreamResponse:
    raise EmbeddedApiError(404, f"There is no {request.method} {request.path}.")


async def _list_models(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    size = _whole_number(request, "pageSize", 50) or 50
    start = _whole_number(request, "pageToken", 0)
    page: Json = {"models": [_described(model) for model in _MODELS[start : start + size]]}
    if start + size < len(_MODELS):
        page["nextPageToken"] = str(start + size)
    return await send(request, page)


def _whole_number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name) or str(default)
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise EmbeddedApiError(400, f"Invalid value at '{name}': {text!r}.")
    return int(text)


async def _get_model(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    return await send(request, _described(request.match_info["model"]))


def _described(model: str) -> Json:
    return {
        "name": f"models/{model}",
        "version": "embedded",
        "displayName": model,
        "description": "The mock upstream: deterministic, not a model.",
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": list(_METHODS),
    }


async def _upload(request: web.Request) -> web.StreamResponse:
    return await finish(request, await request.app[_FILES].upload(request))


async def _list_files(request: web.Request) -> web.StreamResponse:
    return await send(request, request.app[_FILES].listed())


async def _get_file(request: web.Request) -> web.StreamResponse:
    return await send(request, request.app[_FILES].described(request.match_info["file"]))


async def _download(request: web.Request) -> web.StreamResponse:
    return await finish(request, web.Response(body=request.app[_FILES].content(request.match_info["file"])))


async def _delete_file(request: web.Request) -> web.StreamResponse:
    return await send(request, request.app[_FILES].delete(request.match_info["file"]))


async def _call_model(request: web.Request) -> web.StreamResponse:
    """Answer a call of one of _METHODS, whose model is in the path."""
    _require_key(request)
    model = request.match_info["model"]
    _fail_on_demand(model)
    return await _call(request, model, parse_request_body(request), lambda answer: answer)


async def _call_wrapped_model(request: web.Request) -> web.StreamResponse:
    """Answer a call in Code Assist's envelope, which names the model. countTokens is answered without one."""
    _require_key(request)
    model, body = requests.open_envelope(parse_request_body(request))
    _fail_on_demand(model)
    return await _call(request, model, body, requests.wrap_answer)


async def _post_code_assist(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    return await send(request, requests.POSTS[request.match_info["method"]])


async def _get_code_assist(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    answer = requests.GETS.get(request.match_info["rest"])
    return await (_not_found(request) if answer is None else send(request, answer))


def _fail_on_demand(model: str) -> None:
    if wanted := re.fullmatch(r"error-([45][0-9][0-9])", model):
        raise EmbeddedApiError(int(wanted[1]), f"The model {model} always answers with this error.")


async def _call(request: web.Request, model: str, body: Json, wrap: Wrap) -> web.StreamResponse:
    method = request.match_info["method"]
    if method in ("generateContent", "streamGenerateContent"):
        return await _generate(
            request, ModelCall(model, method == "streamGenerateContent", validated_request(body)), wrap
        )
    return await send(request, _measured(method, body))


def _require_key(request: web.Request) -> None:
    headers = request.headers
    if not (headers.get("x-goog-api-key") or request.query.get("key") or headers.get("Authorization")):
        raise EmbeddedApiError(403, "Method doesn't allow unregistered callers. Please use an API key.")


def _measured(method: str, body: Json) -> Json:
    """Return the answer of countTokens, embedContent or batchEmbedContents."""
    request = canonical_request(body)
    if method == "countTokens":
        tokens = answers.prompt_tokens(validated_request(request.get("generateContentRequest") or request))
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}
    if method == "embedContent":
        return {"embedding": _embedded(request)}
    if not request.get("requests"):
        raise EmbeddedApiError(400, "* BatchEmbedContentsRequest.requests: requests is not specified")
    return {"embeddings": [_embedded(one) for one in request["requests"]]}


def _embedded(request: Json) -> Json:
    content = request.get("content", {})
    check_parts(content, "content")
    wanted = request | request.get("embedContentConfig", {})
    dimensions = wanted.get("outputDimensionality", _DIMENSIONS)
    if not isinstance(dimensions, int) or not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise EmbeddedApiError(400, f"Invalid value at 'outputDimensionality': {dimensions!r}.")
    return answers.embedding(content, dimensions)


async def _generate(request: web.Request, call: ModelCall, wrap: Wrap) -> web.StreamResponse:
    call, responses, pace = await _responses(request, call)
    chunks = [wrap(chunk) for chunk in responses]
    if call.stream:
        return await stream(request, chunks, pace)
    if pace.cut_after == 0:
        return abort_stream(request, web.Response())
    return await send(request, chunks[0])


async def _create_chat_completion(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    body = parse_request_body(request)
    call = read_chat(body)
    call, responses, pace = await _responses(request, call)
    if call.stream:
        with_usage = (body.get("stream_options") or {}).get("include_usage") is True
        return await stream_events(request, chat_stream(responses, call, with_usage=with_usage), pace)
    return await send(request, chat_answer(responses, call))


async def _create_response(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    body = parse_request_body(request)
    call = read_response_request(body)
    call, responses, pace = await _responses(request, call)
    answer = response_answer(responses, call, body)
    if call.stream:
        return await stream_events(request, response_stream(responses, answer), pace)
    return await send(request, answer)


async def _responses(request: web.Request, call: ModelCall) -> tuple[ModelCall, list[Json], Pace]:
    """Return a call with the model that answers, its responses of generateContent, and their pace."""
    _fail_on_demand(call.model)
    answer = request.app[_PLAYER].pick(call.scene)
    pace = answer or Pace()
    await asyncio.sleep(pace.delay_ms / 1000)
    if answer and answer.error:
        raise EmbeddedApiError(answer.error.status, answer.error.message)
    if answer and answer.model:
        call = replace(call, model=answer.model)
    return call, answers.respond(call, answer), pace


async def _create_openai_embeddings(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    return await send(request, openai_embeddings(parse_request_body(request), _DIMENSIONS))


async def _list_openai_models(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    models = [{"id": f"models/{model}", "object": "model", "owned_by": "google"} for model in _MODELS]
    return await send(request, {"object": "list", "data": models})


async def _create_interaction(request: web.Request) -> web.StreamResponse:
    _require_key(request)
    body = parse_request_body(request)
    call = read_interaction(body)
    call, responses, pace = await _responses(request, call)
    made = interaction_answer(responses, call)
    if body.get("store") is not False:
        kept = request.app[_INTERACTIONS]
        kept[made["id"]] = made
        while len(kept) > _MAX_INTERACTIONS:
            request.app[_PENDING].discard(kept.popitem(last=False)[0])
    if body.get("background") is True and not call.stream:
        request.app[_PENDING].add(made["id"])
        return await send(request, interaction_begun(made))
    if call.stream:
        return await stream_events(request, interaction_stream(made), pace)
    return await send(request, made)


def _kept_interaction(request: web.Request) -> str:
    _require_key(request)
    name = request.match_info["id"]
    if name not in request.app[_INTERACTIONS]:
        raise EmbeddedApiError(404, f"There is no interaction {name}.")
    return name


async def _get_interaction(request: web.Request) -> web.StreamResponse:
    name, pending = _kept_interaction(request), request.app[_PENDING]
    kept = request.app[_INTERACTIONS][name]
    is_pending = name in pending
    pending.discard(name)
    if request.query.get("stream") == "true":
        events = interaction_stream(kept, request.query.get("last_event_id", ""))
        return await stream_events(request, events, Pace())
    return await send(request, interaction_begun(kept) if is_pending else kept)


async def _cancel_interaction(request: web.Request) -> web.StreamResponse:
    name, kept = _kept_interaction(request), request.app[_INTERACTIONS]
    if name in request.app[_PENDING]:
        request.app[_PENDING].discard(name)
        kept[name] = interaction_begun(kept[name], "cancelled")
    return await send(request, kept[name])


async def _delete_interaction(request: web.Request) -> web.StreamResponse:
    name = _kept_interaction(request)
    del request.app[_INTERACTIONS][name]
    request.app[_PENDING].discard(name)
    return await send(request, {})


@dataclass(frozen=True, slots=True)
class MockUpstream:
    """A running mock upstream: its URL, and the requests that it received."""

    url: str
    recorded: deque[RecordedRequest]


async def _listen(site: web.TCPSite, address: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise OSError(
            f"cannot listen on {address}: {describe_os_error(error)}; choose another address with --listen"
        ) from None


@asynccontextmanager
async def run_mock_upstream(
    script: Script | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[MockUpstream]:
    """Serve the mock upstream while the block runs. Port 0 selects a free port. Raises OSError."""
    app = make_app(script)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await _listen(web.TCPSite(runner, host, port), f"{host}:{port}")
        bound_host, bound_port = runner.addresses[0][:2]
        yield MockUpstream(f"http://{bound_host}:{bound_port}", app[RECORDED])
    finally:
        await runner.cleanup()
