"""Batches: many requests in one body, judged one by one; their answers judged whenever they are looked at.

A batch is taken or refused as a whole, since an agent reads its answers later and elsewhere: one denied
request refuses it, and names which.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp import hdrs, web

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection
from hookgate.hooks.document import Encoded
from hookgate.proxy.bodies import checked_answer, read_answer, read_request, read_whole
from hookgate.proxy.call import Answered, Call, call_of, told
from hookgate.proxy.caller import named_session
from hookgate.proxy.envelopes import Bare
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.headers import to_client, to_upstream
from hookgate.proxy.house import House
from hookgate.proxy.logs import note_session
from hookgate.proxy.naming import check_model, with_model
from hookgate.proxy.protocol import Request
from hookgate.proxy.records import Firing
from hookgate.proxy.references import check_references
from hookgate.proxy.routes import Route
from hookgate.proxy.selection import before_model, before_tool_selection
from hookgate.proxy.upstream import UpstreamError
from hookgate.proxy.workshop import SMALL, Workshop
from hookgate.translator import (
    BatchBody,
    BodyError,
    EditError,
    check_canonical,
    check_request,
    show_request,
    text_response,
)
from hookgate.translator.fields import JsonObject, read, read_object, write
from hookgate.translator.strictjson import dumps

_SPOKEN = "A hook answers in the model's place; a batch cannot take such an answer: {}"
IN_FILE = "hookgate takes a batch's requests in its body alone: hooks cannot judge those in a file."
_ANSWERSIN_FILE = "This batch's answers are in a file, where no hook can judge them."

_EVENT = BeforeModel.name

BATCHED = frozenset({"batchGenerateContent", "getBatch", "listBatches"})
"""The judged routes that are about batches."""

Change = Callable[[JsonObject], Awaitable[JsonObject]]


class Batches:
    """Carries the calls that make a batch or look at one."""

    def __init__(self, firing: Firing, house: House) -> None:
        self._firing, self._house, self._upstream = firing, house, house.upstreams
        self._sessions, self._config, self._callers = house.sessions, house.config, house.callers

    async def run(self, request: Request, route: Route) -> web.StreamResponse:
        """Answer the request. Raises ApiError."""
        call = self._call(request, route, {})
        self._firing.record.note_call(call.session)
        note_session(call.session.session_id)
        stopped = self._sessions.of(call.session).stopped
        if stopped is not None:
            raise policy_denied(stopped, BeforeModel.name)
        data = None
        headers = to_upstream(request.headers, "identity")
        if route.verb == "batchGenerateContent":
            route, data = await self._before(request, route)
            headers[hdrs.CONTENT_TYPE] = "application/json"
        await self._house.begin(self._firing.record)
        try:
            with self._firing.record.asking() as asked:
                sent = asked.headers(headers)
                async with self._upstream.open(request.method, route, sent, data, decompress=True) as answer:
                    asked.begun(answer.status)
                    return await self._answer(answer, call, request.workshop)
        except UpstreamError as error:
            raise error.as_api_error() from None

    async def _answer(self, answer: aiohttp.ClientResponse, call: Call, workshop: Workshop) -> web.Response:
        body = await read_whole(answer.content.iter_any())
        if 200 <= answer.status < 300 and body and self._firing.listens_to(AfterModel.name):
            body = await self._after(body, call, workshop)
        return web.Response(status=answer.status, headers=to_client(answer.headers), body=body)

    def _call(self, request: Request, route: Route, body: JsonObject) -> Call:
        caller = self._callers.of(route, request.headers)
        return call_of(caller, route, body, Bare(), named_session(route, request.headers, ""))

    # ---- the requests

    async def _before(self, request: Request, route: Route) -> tuple[Route, bytes]:
        body = await read_request(request)
        do, size = request.workshop.do, request.record.request_bytes
        batch = await do(size, _read, body)
        check_model(route, route.model, batch.batch, "batch")
        models: set[str] = set()
        items = []
        for path, item in batch.requests:
            try:
                model, inner = await self._one(request, route, item)
            except ApiError as error:
                raise _named(error, path) from None
            models.add(model)
            items.append(inner)
        labels = await self._labels(request, route, batch)
        if len(models) > 1:
            raise ApiError(403, f"Hooks send this batch to several models: {', '.join(sorted(models))}.")
        model = next(iter(models), route.model)
        try:
            named = [with_model(route, model, item) for item in items]
            body = await do(size, batch.edited, named, labels)
        except EditError as error:
            raise policy_denied(f"A hook edits what a batch has no place for: {error}", _EVENT) from None
        body = write(body, "batch", with_model(route, model, read_object(body, "batch")))
        return route.for_model(model), await do(size, dumps, body)

    async def _one(self, request: Request, route: Route, item: JsonObject) -> tuple[str, JsonObject]:
        """One request of the batch after its hooks."""
        check_model(route, route.model, item)
        do, size = request.workshop.do, request.record.request_bytes
        try:
            await do(size, check_request, item)
        except BodyError as error:
            raise _refused(error) from None
        await do(size, check_references, item, self._config.routes)
        call = await self._noted_call(request, route, item)
        try:
            model, body = await before_model(self._firing, call, route.model, item)
            body, _ = await before_tool_selection(self._firing, call, model, body)
        except Answered as answered:
            said = _SPOKEN.format(dumps(answered.answer).decode())
            raise policy_denied(said, BeforeToolSelection.name) from None
        return model, body

    async def _noted_call(self, request: Request, route: Route, item: JsonObject) -> Call:
        """The call of one request of the batch, put on record."""
        size = request.record.request_bytes
        call = await request.workshop.do(size, self._call, request, route, item)
        self._firing.record.note_call(call.session)
        if size > SMALL:
            call.session.call.aside = request.workshop.aside
        return call

    async def _labels(self, request: Request, route: Route, batch: BatchBody) -> JsonObject | None:
        """What hooks make of the strings beside the requests; None when there are none."""
        labels = await request.workshop.do(request.record.request_bytes, batch.labels)
        if not labels:
            return None
        try:
            call = await self._noted_call(request, route, labels)
            return (await before_model(self._firing, call, route.model, labels))[1]
        except Answered as answered:
            raise policy_denied(_SPOKEN.format(dumps(answered.answer).decode()), _EVENT) from None
        except ApiError as error:
            raise _named(error, "batch") from None

    # ---- the answers

    async def _after(self, data: bytes, call: Call, workshop: Workshop) -> bytes:
        body = await workshop.do(len(data), read_answer, data, workshop.bounds)

        async def judged(response: JsonObject) -> JsonObject:
            event = AfterModel(Encoded(show_request(call.route.model, {})), response, call.route.model)
            outcome = await self._firing.fire(event, call.session)
            what = told(outcome.verdict, AfterModel.name, call)
            if what is None:
                return outcome.event.body
            return text_response(what.message) if isinstance(what, ApiError) else what

        new = await _with_responses(body, judged)
        return data if new is body else await workshop.do(len(data), dumps, new)


async def _with_responses(value: Any, change: Change) -> Any:
    """The document with each inlined response changed; what holds none is the very object."""
    if isinstance(value, list):
        items = [await _with_responses(item, change) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not isinstance(value, dict):
        return value
    if read(value, "responsesFile") is not None:
        raise ApiError(403, _ANSWERSIN_FILE, "POLICY_DENIED")
    new: JsonObject = {}
    for key, item in value.items():
        holds_answer = key == "response" and isinstance(item, dict) and "candidates" in item
        new[key] = await (change(checked_answer(item)) if holds_answer else _with_responses(item, change))
    return value if all(new[key] is item for key, item in value.items()) else new


def _read(body: JsonObject) -> BatchBody:
    """The batch that a body makes. Raises ApiError."""
    try:
        check_canonical(body)
        batch = BatchBody(body)
    except BodyError as error:
        raise _refused(error) from None
    if batch.in_file:
        raise policy_denied(IN_FILE, _EVENT)
    return batch


def _refused(error: BodyError) -> ApiError:
    return ApiError(error.status, f"hookgate refuses the request body: {error}", "BODY_REFUSED")


def _named(error: ApiError, path: str) -> ApiError:
    return ApiError(error.code, f"{path}: {error.message}", error.reason, **error.metadata)
