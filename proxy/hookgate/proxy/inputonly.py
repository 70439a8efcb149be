"""Calls that carry text and are answered in numbers: BeforeModel judges what they carry, no hook the answer.

Nothing is generated, so there is no place for an answer of a hook's own: whoever denies, stops or answers in
the model's place refuses the call with 403.
"""

from dataclasses import replace

import aiohttp
from aiohttp import hdrs, web

from hookgate.hooks import BeforeModel, Verdict
from hookgate.proxy.batches import IN_FILE
from hookgate.proxy.bodies import read_request, read_whole
from hookgate.proxy.call import DENIED, STOPPED, Call, call_of, last_texts
from hookgate.proxy.caller import named_session
from hookgate.proxy.envelopes import Bare
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.headers import to_client, to_upstream
from hookgate.proxy.house import House
from hookgate.proxy.logs import note_session
from hookgate.proxy.naming import check_model, model_of, with_model
from hookgate.proxy.protocol import Request
from hookgate.proxy.records import Firing, UsageMeter
from hookgate.proxy.references import check_references
from hookgate.proxy.routes import Route
from hookgate.proxy.sessions import fingerprint
from hookgate.proxy.upstream import UpstreamError
from hookgate.proxy.workshop import SMALL
from hookgate.translator import BodyError, EditError, Inputs, check_request, read_inputs
from hookgate.translator.fields import JsonObject, read, read_object, write
from hookgate.translator.inputs import Carried
from hookgate.translator.strictjson import dumps

_SPOKEN = "A hook answers in the model's place; {} takes no such answer."
_NO_PLACE = "A hook edits what {} has no place for: {}"
_SEVERAL = "Hooks send this call to several models: {}."


class InputOnly:
    """Carries one token count or embedding."""

    def __init__(self, firing: Firing, house: House) -> None:
        self._firing, self._house, self._record = firing, house, firing.record

    async def run(self, request: Request, route: Route) -> web.StreamResponse:
        """Answer the request. Raises ApiError."""
        body = await read_request(request)
        do, size = request.workshop.do, self._record.request_bytes
        inputs = await do(size, _read, route, body)
        model, edited = await self._judge(request, route, inputs)
        route = route.for_model(model)
        self._record.model = model
        payload = await do(size, dumps, edited)
        await self._house.begin(self._record)
        headers = {**to_upstream(request.headers, "identity"), hdrs.CONTENT_TYPE: "application/json"}
        try:
            with self._record.asking() as asked:
                sent = asked.headers(headers)
                sending = self._house.upstreams.open(hdrs.METH_POST, route, sent, payload, decompress=True)
                async with sending as answer:
                    asked.begun(answer.status)
                    return await self._answer(answer)
        except UpstreamError as error:
            raise error.as_api_error() from None

    async def _answer(self, answer: aiohttp.ClientResponse) -> web.Response:
        body = await read_whole(answer.content.iter_any())
        meter = UsageMeter()
        meter.feed(body)
        self._record.usage += meter.usage()
        return web.Response(status=answer.status, headers=to_client(answer.headers), body=body)

    async def _judge(self, request: Request, route: Route, inputs: Inputs) -> tuple[str, JsonObject]:
        """The model and the body as hooks leave them. Raises ApiError."""
        models: set[str] = set()
        requests: list[JsonObject] = []
        for carried in inputs.requests:
            try:
                model, new = await self._one(request, route, carried)
            except ApiError as error:
                raise _placed(error, carried.path) from None
            models.add(model)
            requests.append(new)
        if len(models) > 1:
            raise policy_denied(_SEVERAL.format(", ".join(sorted(models))), BeforeModel.name)
        try:
            model = models.pop()
            size = self._record.request_bytes
            return model, await request.workshop.do(size, _edited, inputs, requests, route, model)
        except EditError as error:
            raise policy_denied(_NO_PLACE.format(route.verb, error), BeforeModel.name) from None

    async def _one(self, request: Request, route: Route, carried: Carried) -> tuple[str, JsonObject]:
        """The model and one request of the body after its hooks. Raises ApiError."""
        do, size = request.workshop.do, self._record.request_bytes
        model = model_of(route, carried.holder)
        check_model(route, model, carried.holder)
        try:
            await do(size, check_request, carried.request)
        except BodyError as error:
            raise _refused(error) from None
        await do(size, check_references, carried.request, self._house.config.routes)
        call = await do(size, self._call, request, route, carried.request)
        self._record.note_call(call.session)
        note_session(call.session.session_id)
        if size > SMALL:
            call.session.call.aside = request.workshop.aside
        stopped = self._house.sessions.of(call.session).stopped
        if stopped is not None:
            raise policy_denied(stopped, BeforeModel.name)
        outcome = await self._firing.fire(BeforeModel(model, carried.request), call.session)
        self._end_if_refused(outcome.verdict, route)
        return outcome.event.model, outcome.event.body

    def _call(self, request: Request, route: Route, body: JsonObject) -> Call:
        caller = self._house.callers.of(route, request.headers)
        # An agent counts its conversation; texts that are embedded are none, and share one session.
        counted = body if route.verb in ("countTokens", "computeTokens") else {}
        call = call_of(caller, route, counted, Bare(), named_session(route, request.headers, ""))
        session = call.session
        if not call.named:
            said = [fingerprint(text) for text in last_texts(counted)]
            session = self._house.sessions.linked(session, said)
        return replace(call, session=self._house.transcripts.located(session))

    def _end_if_refused(self, verdict: Verdict, route: Route) -> None:
        """Raises ApiError for every verdict but that the call goes on."""
        reason = ""
        if verdict.stop:
            reason = verdict.reason or STOPPED
        elif verdict.synthetic:
            reason = _SPOKEN.format(route.verb)
            self._record.outcome, self._record.reasons[BeforeModel.name] = "denied", reason
        elif verdict.denied:
            reason = verdict.reason or DENIED
        if reason:
            raise policy_denied(reason, BeforeModel.name)


def _read(route: Route, body: JsonObject) -> Inputs:
    """What the body carries. Raises ApiError."""
    source = read_object(read_object(body, "batch"), "inputConfig")
    if read(source, "fileName") is not None:
        raise policy_denied(IN_FILE, BeforeModel.name)
    try:
        inputs = read_inputs(route.verb, body)
    except BodyError as error:
        raise _refused(error) from None
    if route.model:
        check_model(route, route.model, body)
        check_model(route, route.model, read_object(body, "batch"), "batch")
    if not inputs.requests:
        raise ApiError(400, "hookgate refuses the request body: it carries no request", "BODY_REFUSED")
    return inputs


def _edited(inputs: Inputs, requests: list[JsonObject], route: Route, model: str) -> JsonObject:
    """The body after hooks, naming the model that they chose wherever it names one. Raises EditError."""
    body = with_model(route, model, inputs.edited(requests, lambda obj: with_model(route, model, obj)))
    batch = read_object(body, "batch")
    named = with_model(route, model, batch)
    return body if named is batch else write(body, "batch", named)


def _placed(error: ApiError, path: str) -> ApiError:
    """The error with the place of its request."""
    message = f"{path}: {error.message}" if path else error.message
    return ApiError(error.code, message, error.reason, **error.metadata)


def _refused(error: BodyError) -> ApiError:
    return ApiError(error.status, f"hookgate refuses the request body: {error}", "BODY_REFUSED")
