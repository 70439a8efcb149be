"""Calls that send text, and whose answers contain none: hooks judge the text, and answers are not judged.

These are token counts, embeddings, and requests that write cached contents, which may also declare tools.

A synthetic answer is not possible, so a call that a hook denies, stops or answers is refused with 403.
"""

from functools import partial

from aiohttp import hdrs, web

from hookgate.hooks import BeforeModel, SessionContext
from hookgate.proxy.calls.batches import IN_FILE, check_item, error_for_client, judge_items, only_model
from hookgate.proxy.calls.context import CallContext, JudgedCall, RecordingEngine
from hookgate.proxy.calls.verdicts import before_model_or_refuse, before_tool_selection_or_refuse
from hookgate.proxy.errors import body_refused, policy_denied
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.routes.dialects.generate_content import (
    check_model,
    named_model,
    with_model,
)
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.bodies import MAX_ERROR, read_whole
from hookgate.proxy.upstream.client import UpstreamAnswer, to_client, to_upstream
from hookgate.proxy.upstream.connection import UpstreamError
from hookgate.translator import CACHES, BodyError, EditError, Inputs, read_inputs
from hookgate.translator.fields import JsonObject, TooLargeError, read, read_object, write
from hookgate.translator.inputs import Carried, caches_tools
from hookgate.translator.strictjson import dumps

_CONVERSATIONS = CACHES | {"countTokens", "computeTokens"}
_EMBEDDED_IN = {"batchEmbedContents": "requests", "createEmbedding": "input"}
_NO_PLACE = "A hook's edit cannot be sent with {}: {}"


class InputOnlyCalls:
    """Processes one token count, embedding, or request that writes cached contents."""

    def __init__(self, context: CallContext, engine: RecordingEngine) -> None:
        self._context, self._engine, self._record = context, engine, context.record

    async def run(self) -> web.StreamResponse:
        """Answer the request. Raises ApiError if it is refused or the upstream fails."""
        context, route = self._context, self._context.route
        body = await context.read_body()
        for observer in context.observers:
            observer.on_request(body)
        inputs = await context.steps.run(_read, route, body)
        _check_number(inputs, route, context.services.config.limits.inputs)
        if inputs.requests:
            await context.name_model(named_model(route, inputs.requests[0].holder))
        # Counted and cached contents have the session of their conversation. Embeddings share one.
        first = inputs.requests[0].request if inputs.requests and route.verb in _CONVERSATIONS else {}
        call, open_session = await context.begin_judged_call(first)
        open_session.refuse_if_stopped()
        model, edited = await self._judge(route, inputs, call.session)
        await context.name_model(model)
        for observer in context.observers:
            observer.on_upstream_request(model, edited, edited)
        payload = await context.steps.run(dumps, edited)
        headers = to_upstream(context.request.headers, "identity") | {hdrs.CONTENT_TYPE: "application/json"}
        try:
            async with context.send(route.for_model(model), headers, payload) as answer:
                return await self._answer(answer, call)
        except UpstreamError as error:
            raise error.as_api_error() from None

    async def _answer(self, answer: UpstreamAnswer, call: JudgedCall) -> web.Response:
        if not 200 <= answer.status < 300:
            error = await read_whole(answer.chunks(), MAX_ERROR)
            body = await error_for_client(self._engine, call, error)
            return web.Response(status=answer.status, headers=to_client(answer.headers), body=body)
        body = await read_whole(answer.chunks())
        meter = AnswerMeter()
        meter.feed(body)
        meter.finish()
        self._record.usage += meter.usage
        self._record.estimated_usage += meter.unreported(self._record.expected_use())
        return web.Response(status=answer.status, headers=to_client(answer.headers), body=body)

    async def _judge(self, route: Route, inputs: Inputs, session: SessionContext) -> tuple[str, JsonObject]:
        """Return the model and the body after their hooks. Raises ApiError if the call is refused."""
        if not inputs.requests:
            return only_model(set(), ""), await self._context.steps.run(_edited, inputs, [], route, "")
        state = session.call_state
        state.requests = len(inputs.requests)
        if route.group == "embed":
            shown = (carried.request for carried in inputs.requests)
            await self._context.expect_use(session, *shown, generates=False)
        items = ((carried.path, carried) for carried in inputs.requests)
        models, requests = await judge_items(items, partial(self._one, session), state.steps.pause)
        model = only_model(models, "")
        try:
            return model, await self._context.steps.run(_edited, inputs, requests, route, model)
        except EditError as error:
            raise policy_denied(_NO_PLACE.format(route.verb, error), BeforeModel.name) from None

    async def _one(self, session: SessionContext, carried: Carried) -> tuple[str, JsonObject]:
        """Return the model and one request of the body after its hooks. Raises ApiError if it is refused."""
        context, engine, route = self._context, self._engine, self._context.route
        model = named_model(route, carried.holder)
        with context.steps.judging(carried.request):
            request = await check_item(context, model, carried.holder, carried.request)
            model, request = await before_model_or_refuse(engine, session, model, request, route.verb)
            if caches_tools(route.verb, request):
                request = await before_tool_selection_or_refuse(engine, session, model, request, route.verb)
        return model, request


def _read(route: Route, body: JsonObject) -> Inputs:
    """Return the inputs in the body. Raises ApiError if the body is invalid or refers to a file."""
    source = read_object(read_object(body, "batch"), "inputConfig")
    if read(source, "fileName") is not None:
        raise policy_denied(IN_FILE, BeforeModel.name)
    try:
        inputs = read_inputs(route.verb, body)
    except BodyError as error:
        raise body_refused(error) from None
    if route.model:
        check_model(route, route.model, body)
        check_model(route, route.model, read_object(body, "batch"), "batch")
    if not inputs.requests and route.verb != "updateCachedContent":
        raise body_refused("it contains no request")
    return inputs


def _check_number(inputs: Inputs, route: Route, most: int) -> None:
    """Check the number of texts in a request for embeddings. Raises ApiError (413)."""
    if route.verb in _EMBEDDED_IN and len(inputs.requests) > most:
        remedy = "send fewer at once, or ask the operator to raise limits.inputs"
        raise body_refused(
            TooLargeError(_EMBEDDED_IN[route.verb], f"it has more than {most} texts; {remedy}")
        )


def _edited(inputs: Inputs, requests: list[JsonObject], route: Route, model: str) -> JsonObject:
    """Return the body after its hooks, with the chosen model. Raises EditError if an edit cannot be sent."""
    body = with_model(route, model, inputs.edited(requests, lambda obj: with_model(route, model, obj)))
    batch = read_object(body, "batch")
    named = with_model(route, model, batch)
    return body if named is batch else write(body, "batch", named)
