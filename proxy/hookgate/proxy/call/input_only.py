"""Calls that carry text and are answered in numbers: BeforeModel judges what they carry, no hook the answer.

Nothing is generated, so there is no place for an answer of a hook's own: whoever denies, stops or answers in
the model's place refuses the call with 403.
"""

import aiohttp
from aiohttp import hdrs, web

from hookgate.hooks import BeforeModel, Verdict
from hookgate.proxy.call.batches import IN_FILE
from hookgate.proxy.call.context import CallContext, RecordedEngine
from hookgate.proxy.call.verdicts import DENIED, STOPPED
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.http.bodies import read_request, read_whole
from hookgate.proxy.http.client import UpstreamError, to_client, to_upstream
from hookgate.proxy.observe.usage import UsageMeter
from hookgate.proxy.routing.envelopes import check_model, check_references, named_model, with_model
from hookgate.proxy.routing.table import Route
from hookgate.translator import BodyError, EditError, Inputs, check_request, read_inputs
from hookgate.translator.fields import JsonObject, read, read_object, write
from hookgate.translator.inputs import Carried
from hookgate.translator.strictjson import dumps

_SPOKEN = "A hook answers in the model's place; {} takes no such answer."
_NO_PLACE = "A hook edits what {} has no place for: {}"
_SEVERAL = "Hooks send this call to several models: {}."


class InputOnlyCalls:
    """Carries one token count or embedding."""

    def __init__(self, context: CallContext, engine: RecordedEngine) -> None:
        self._context, self._engine, self._record = context, engine, context.record

    async def run(self) -> web.StreamResponse:
        """Answer the request. Raises ApiError."""
        context, route = self._context, self._context.route
        body = await read_request(context.request)
        inputs = await context.work(_read, route, body)
        model, edited = await self._judge(route, inputs)
        self._record.model = model
        payload = await context.work(dumps, edited)
        headers = to_upstream(context.request.headers, "identity") | {hdrs.CONTENT_TYPE: "application/json"}
        try:
            async with context.send(route.for_model(model), headers, payload) as answer:
                return await self._answer(answer)
        except UpstreamError as error:
            raise error.as_api_error() from None

    async def _answer(self, answer: aiohttp.ClientResponse) -> web.Response:
        body = await read_whole(answer.content.iter_any())
        meter = UsageMeter()
        meter.feed(body)
        self._record.usage += meter.usage()
        return web.Response(status=answer.status, headers=to_client(answer.headers), body=body)

    async def _judge(self, route: Route, inputs: Inputs) -> tuple[str, JsonObject]:
        """Return the model and the body as hooks leave them. Raises ApiError."""
        models: set[str] = set()
        requests: list[JsonObject] = []
        for carried in inputs.requests:
            try:
                model, new = await self._one(route, carried)
            except ApiError as error:
                raise _placed(error, carried.path) from None
            models.add(model)
            requests.append(new)
        if len(models) > 1:
            raise policy_denied(_SEVERAL.format(", ".join(sorted(models))), BeforeModel.name)
        try:
            model = models.pop()
            return model, await self._context.work(_edited, inputs, requests, route, model)
        except EditError as error:
            raise policy_denied(_NO_PLACE.format(route.verb, error), BeforeModel.name) from None

    async def _one(self, route: Route, carried: Carried) -> tuple[str, JsonObject]:
        """Return the model and one request of the body after its hooks. Raises ApiError."""
        context = self._context
        model = named_model(route, carried.holder)
        check_model(route, model, carried.holder)
        try:
            await context.work(check_request, carried.request)
        except BodyError as error:
            raise _refused(error) from None
        await context.work(check_references, carried.request, context.services.config.routes)
        # An agent counts its conversation. Texts that are embedded are none, and share one session.
        counted = carried.request if route.verb in ("countTokens", "computeTokens") else {}
        call = await context.judged_call(counted)
        stopped = context.services.sessions.state_for(call.session).stopped
        if stopped is not None:
            raise policy_denied(stopped, BeforeModel.name)
        outcome = await self._engine.fire(BeforeModel(model, carried.request), call.session)
        self._end_if_refused(outcome.verdict, route)
        return outcome.event.model, outcome.event.body

    def _end_if_refused(self, verdict: Verdict, route: Route) -> None:
        """Raise ApiError unless the verdict lets the call go on."""
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
