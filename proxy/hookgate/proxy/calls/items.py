"""Calls with several requests, which hooks judge one by one: they may edit or deny, but not answer them.

These are token counts, embeddings, decisions, requests that write cached contents, and those that create
batches. Their answers contain no model's text, except those about batches: see `batches.py`.

A call is sent or denied as a whole: if a hook denies, stops or answers one request, the client receives a 403
that contains its path.
"""

import asyncio
from collections.abc import Sequence

from aiohttp import web

from hookgate.hooks import AfterTool, BeforeModel, Engine
from hookgate.proxy.calls.batches import judge_batch
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import Ended, Replacement
from hookgate.proxy.calls.exchange import exchange_whole
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.session_events import ConversationEvents, check_bypass
from hookgate.proxy.errors import ApiError, body_refused, policy_denied
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.usage import NO_USAGE, Usage
from hookgate.proxy.routes.dialects.generate_content import (
    check_model,
    check_references,
    named_model,
    with_model,
)
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.bodies import work_of
from hookgate.proxy.sessions.memory import tool_results
from hookgate.translator import CACHES, BodyError, EditError, Inputs, check_request, read_inputs
from hookgate.translator.fields import JsonObject, TooLargeError, read, read_list, read_object, write
from hookgate.translator.inputs import RequestItem, offers_tools
from hookgate.translator.request import requires_json
from hookgate.translator.streaming.joining import read_frame
from hookgate.translator.strictjson import dumps

_FREE = frozenset({"countTokens", "computeTokens"})
"""Methods that use no tokens."""
_CONVERSATIONS = CACHES | _FREE
_EMBEDDED_IN = {"batchEmbedContents": "requests", "createEmbedding": "input"}
GENERATION_BATCH = "batchGenerateContent"
"""The method that creates a batch of requests that generate content."""
_REQUESTS_IN_FILE = "Send a batch's requests in its body: hooks cannot judge requests in a file."
_NO_PLACE = "A hook's edit cannot be sent with {}: {}"


class ItemsCall:
    """Processes one call whose body contains requests."""

    def __init__(self, call: Call, engine: Engine) -> None:
        self._call, self._engine = call, engine
        self._judge: Judge
        self._events: ConversationEvents | None = None
        """Judges the tool results in a batch's requests."""

    async def run(self) -> web.StreamResponse:
        """Answer the request. Raises ApiError if it is refused or the upstream fails."""
        call, route = self._call, self._call.route
        body = await call.read_body()
        for observer in call.observers:
            observer.on_request(body)
        inputs = await call.steps.run(_read, route, body)
        _check_number(inputs, route, call.services.config.limits.inputs)
        if inputs.requests:
            await call.name_model(named_model(route, inputs.requests[0].holder))
        # Counted and cached contents have the session of their conversation. The others share one.
        first = inputs.requests[0].request if inputs.requests and route.verb in _CONVERSATIONS else {}
        self._judge, open_session = await call.begin(self._engine, first)
        open_session.raise_if_stopped()
        creates_batch = route.verb == GENERATION_BATCH
        if creates_batch:
            self._events = ConversationEvents(self._judge, open_session, call.reported_kinds(open_session))
        model, payload = await self._judge_items(inputs)
        handle_answer = self._judge_new_batch if creates_batch else self._count_use
        was_left = False
        try:
            return await exchange_whole(call, self._judge, route.for_model(model), payload, handle_answer)
        except (asyncio.CancelledError, ConnectionError):  # the client has left
            was_left = True
            raise
        finally:
            self._count_unseen(was_left=was_left)

    # ---- the requests

    async def _judge_items(self, inputs: Inputs) -> tuple[str, bytes]:
        """Return the model and the body to send, after the hooks. Raises ApiError if the call is refused."""
        call, route, session = self._call, self._call.route, self._judge.session
        session.call_state.requests = len(inputs.counted)
        if route.verb not in _FREE:
            await call.expect_use(session, *inputs.counted, generates=route.verb == GENERATION_BATCH)
        models: set[str] = set()
        requests: list[JsonObject] = []
        for item in inputs.requests:
            await call.steps.pause()
            try:
                with call.steps.judging(item.request):
                    model, request = await self._check_and_judge(item)
            except ApiError as error:
                raise error.at(item.path) from None
            requests.append(request)
            if not item.is_label:
                models.add(model)
        model = _only(models)
        await call.name_model(model)
        try:
            body = await call.steps.run(_edited, inputs, requests, route, model)
        except EditError as error:
            raise policy_denied(_NO_PLACE.format(route.verb, error), BeforeModel.name) from None
        for observer in call.observers:
            observer.on_upstream_request(model, body, body)
        return model, await call.steps.run(dumps, body)

    async def _check_and_judge(self, item: RequestItem) -> tuple[str, JsonObject]:
        """Return the model and one request after checks and its hooks. Raises ApiError if it is refused."""
        call, judge, route = self._call, self._judge, self._call.route
        model = named_model(route, item.holder)
        check_model(route, model, item.holder)
        try:
            request = await call.steps.run(check_request, item.request)
        except BodyError as error:
            raise body_refused(error) from None
        await call.steps.run(check_references, request, call.services.config)
        if self._events is not None and not item.is_label:
            request = await self._judge_results(request, self._events)
        return await judge_item(judge, item, model, request)

    async def _judge_results(self, request: JsonObject, events: ConversationEvents) -> JsonObject:
        """Return a request with its tool results after AfterTool hooks. Raises ApiError if they refuse it."""
        if "tools" in events.reported:
            results = await self._call.steps.run(tool_results, read_list(request, "contents"))
            if ended := await check_bypass(self._call, self._judge, events.open_session, results):
                raise _refusal(ended)
        judged = await events.judge_results(request)
        if isinstance(judged, Ended):
            raise _refusal(judged)
        return judged

    # ---- the answer

    async def _judge_new_batch(self, body: bytes) -> bytes:
        """Return a batch that was created, after AfterModel hooks, and count what it is expected to use.

        The upstream reports what it used when it has ended, in answers that may never be read.
        """
        self._count_expected()
        return await judge_batch(self._call, self._judge, body)

    async def _count_use(self, body: bytes) -> bytes:
        """Count the tokens that an answer reports, and an estimate of what it does not report.

        Returns the answer, which contains no model's text.
        """
        call, record = self._call, self._call.record
        meter = AnswerMeter(note_model=record.note_answered_by)
        await call.steps.run_for(work_of(body), meter.note_whole, body)
        record.usage += meter.usage
        if call.route.verb == "createCachedContent":
            self._note_cache(body)
        record.estimated_usage += meter.unreported(record.expected_use())
        return body

    def _count_unseen(self, *, was_left: bool) -> None:
        """Count what the call is expected to use, if its answer was not seen and may not be an error.

        The upstream may have accepted the request of a client that has left: what it has created can be read.
        """
        record = self._call.record
        status = record.attempts[-1].status if record.attempts else None
        if record.counted_usage == NO_USAGE and ((status == 0 and was_left) or status in range(200, 300)):
            self._count_expected()

    def _count_expected(self) -> None:
        expected = self._call.record.expected_use()
        self._call.record.estimated_usage += Usage(expected.input_tokens, expected.output_tokens)

    def _note_cache(self, body: bytes) -> None:
        """Note the tokens of cached contents that were created."""
        cache = read_frame(body)
        tokens = read(read_object(cache, "usageMetadata"), "totalTokenCount")
        if isinstance(name := cache.get("name"), str) and type(tokens) is int:
            self._call.services.note_cached(name, tokens)


async def judge_item(
    judge: Judge, item: RequestItem, model: str, request: JsonObject
) -> tuple[str, JsonObject]:
    """Return the model and the request of an item after its hooks. Raises ApiError if they refuse it."""
    state = judge.session.call_state
    state.requires_json = requires_json(read_object(request, "generationConfig"))
    state.model = model
    try:
        before = await judge.fire(BeforeModel(model, request))
        judge.raise_if_ended(before.verdict, BeforeModel.name)
        model, request = before.event.model, before.event.body
        if offers_tools(state.operation, request) and not item.is_label:
            request = await judge.select_tools_or_raise(model, request)
    finally:
        state.requires_json = False
    return model, request


def _refusal(ended: Ended) -> ApiError:
    """Return the error for a call whose hooks have ended it at a tool result."""
    return policy_denied(ended.text, AfterTool.name) if isinstance(ended, Replacement) else ended


def _only(models: set[str]) -> str:
    """Return the model that hooks chose for all requests; empty if there is no request. Raises ApiError."""
    if len(models) > 1:
        names = ", ".join(sorted(models))
        raise policy_denied(f"Hooks chose more than one model for this call: {names}.", BeforeModel.name)
    return next(iter(models), "")


def _read(route: Route, body: JsonObject) -> Inputs:
    """Return the requests in the body. Raises ApiError if the body is invalid or refers to a file."""
    source = read_object(read_object(body, "batch"), "inputConfig")
    if read(source, "fileName") is not None:
        raise policy_denied(_REQUESTS_IN_FILE, BeforeModel.name)
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


def _edited(inputs: Inputs, requests: Sequence[JsonObject], route: Route, model: str) -> JsonObject:
    """Return the body after its hooks, with the chosen model. Raises EditError if an edit cannot be sent."""
    body = with_model(route, model, inputs.edited(requests, lambda obj: with_model(route, model, obj)))
    batch = read_object(body, "batch")
    named = with_model(route, model, batch)
    return body if named is batch else write(body, "batch", named)
