"""Batches: many requests in one body, each judged separately. Their answers are judged when they are read.

A batch is accepted or refused as a whole, because an agent reads its answers later: one denied request
refuses the batch, and the error contains its path.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from aiohttp import hdrs, web

from hookgate.hooks import AfterModel, AfterTool, BeforeModel, BeforeTool, SessionContext, Withheld
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer import redacted_error
from hookgate.proxy.calls.context import CallContext, JudgedCall, RecordingEngine
from hookgate.proxy.calls.outcomes import AskAgain, Ended, Replacement
from hookgate.proxy.calls.session_events import RequestEvents, ToolCallEvents, check_bypass
from hookgate.proxy.calls.tools import ToolGate
from hookgate.proxy.calls.verdicts import (
    before_model_or_refuse,
    before_tool_selection_or_refuse,
    ended_by,
    refuse_ended_call,
)
from hookgate.proxy.errors import ApiError, body_refused, policy_denied
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.routes.dialects.generate_content import check_model, check_references, with_model
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.bodies import (
    MAX_ANSWER,
    MAX_ERROR,
    checked_answer,
    read_answer,
    read_whole,
    work_of,
)
from hookgate.proxy.sessions.memory import tool_results
from hookgate.proxy.upstream.client import UpstreamAnswer, to_client, to_upstream
from hookgate.proxy.upstream.connection import UpstreamError
from hookgate.translator import (
    BatchBody,
    BatchState,
    BodyError,
    EditError,
    check_request,
    make_canonical,
    show_request,
    text_response,
)
from hookgate.translator.fields import JsonObject, read, read_list, read_object, write
from hookgate.translator.request import requires_json
from hookgate.translator.strictjson import dumps, encode_answer

IN_FILE = "Send a batch's requests in its body: hooks cannot judge requests in a file."
_ANSWERS_IN_FILE = "This batch's answers are in a file, where hooks cannot judge them."

_NO_PLACE = "A hook's edit cannot be sent in a batch: {}"
_EVENT = BeforeModel.name

BATCHED = frozenset({"batchGenerateContent", "getBatch", "listBatches"})
"""The judged verbs for batches."""


class Batches:
    """Processes the calls that create or read a batch."""

    def __init__(self, context: CallContext, engine: RecordingEngine) -> None:
        self._context, self._engine = context, engine

    async def run(self) -> web.StreamResponse:
        """Answer the request. Raises ApiError if it is refused or the upstream fails."""
        context, route = self._context, self._context.route
        call, open_session = await context.begin_judged_call({})
        open_session.refuse_if_stopped()
        data = None
        headers = to_upstream(context.request.headers, "identity")
        if route.verb == "batchGenerateContent":
            results = RequestEvents(self._engine, call, open_session, context.reported_kinds(open_session))
            route, data = await self._before(route, call, results)
            headers[hdrs.CONTENT_TYPE] = "application/json"
        try:
            async with context.send(route, headers, data) as answer:
                return await self._answer(answer, call)
        except UpstreamError as error:
            raise error.as_api_error() from None

    async def _answer(self, answer: UpstreamAnswer, call: JudgedCall) -> web.Response:
        succeeded = 200 <= answer.status < 300
        body = await read_whole(answer.chunks(), MAX_ANSWER if succeeded else MAX_ERROR)
        if succeeded and call.route.verb == "batchGenerateContent":
            # The upstream reports what a batch used when it has ended, in answers that may never be read.
            expected = self._context.record.expected_use()
            self._context.record.estimated_usage += Usage(expected.input_tokens, expected.output_tokens)
        for observer in self._context.observers:
            observer.on_upstream_bytes(body)
        if succeeded and body and self._engine.listens_to(AfterModel.name, BeforeTool.name):
            body = await self._after(body, call)
        elif not succeeded:
            body = await error_for_client(self._engine, call, body)
        for observer in self._context.observers:
            observer.on_client_bytes(body)
        return web.Response(status=answer.status, headers=to_client(answer.headers), body=body)

    # ---- the requests

    async def _before(self, route: Route, call: JudgedCall, results: RequestEvents) -> tuple[Route, bytes]:
        """Return the route and the body of the batch after its hooks. Raises ApiError if it is refused."""
        body = await self._context.read_body()
        for observer in self._context.observers:
            observer.on_request(body)
        steps = self._context.steps
        batch = await steps.run(_read, body)
        check_model(route, route.model, batch.batch, "batch")
        state = call.session.call_state
        state.requests = len(batch.requests)
        await self._context.expect_use(call.session, *(request for _, request in batch.requests))
        judged = partial(self._judge_item, call.session, results)
        models, items = await judge_items(batch.requests, judged, state.steps.pause)
        state.requires_json = False
        labels = await self._labels(route, batch, call.session)
        model = only_model(models, route.model)
        await self._context.name_model(model)
        try:
            named = [with_model(route, model, item) for item in items]
            body = await steps.run(batch.edited, named, labels)
        except EditError as error:
            raise policy_denied(_NO_PLACE.format(error), _EVENT) from None
        body = write(body, "batch", with_model(route, model, read_object(body, "batch")))
        for observer in self._context.observers:
            observer.on_upstream_request(model, body, body)
        return route.for_model(model), await steps.run(dumps, body)

    async def _judge_item(
        self, session: SessionContext, results: RequestEvents, item: JsonObject
    ) -> tuple[str, JsonObject]:
        """Return the model and one request of the batch after its hooks. Raises ApiError if it is refused."""
        context, engine = self._context, self._engine
        route = context.route
        with context.steps.judging(item):
            item = await check_item(context, route.model, item, item)
            if "tools" in results.reported:
                called = await context.steps.run(tool_results, read_list(item, "contents"))
                _allowed(await check_bypass(context, engine, results.call, results.open_session, called))
            item = _allowed(await results.judge_results(item))
            session.call_state.requires_json = requires_json(read_object(item, "generationConfig"))
            model, body = await before_model_or_refuse(engine, session, route.model, item, route.verb)
            return model, await before_tool_selection_or_refuse(engine, session, model, body, route.verb)

    async def _labels(self, route: Route, batch: BatchBody, session: SessionContext) -> JsonObject | None:
        """Return the batch's other strings after their hooks, or None if there are none."""
        labels = await self._context.steps.run(batch.labels)
        if not labels:
            return None
        try:
            judged = await before_model_or_refuse(self._engine, session, route.model, labels, route.verb)
        except ApiError as error:
            raise error.at("batch") from None
        return judged[1]

    # ---- the answers

    async def _after(self, data: bytes, call: JudgedCall) -> bytes:
        worker = self._context.request.body_worker
        work = work_of(data)
        body = await worker.run(work, read_answer, data, worker)

        state = await self._context.steps.run(BatchState, body)
        if state.in_file:
            raise policy_denied(_ANSWERS_IN_FILE, AfterModel.name)
        answers: list[JsonObject] = []
        for answer in state.answers:
            await call.session.call_state.steps.pause()
            answers.append(await self._judge_answer(call, checked_answer(answer)))
        texts = await self._judge_texts(call, state.texts())
        try:
            new = await self._context.steps.run(state.edited, answers, texts)
        except EditError as error:
            raise policy_denied(_NO_PLACE.format(error), AfterModel.name) from None
        return data if new is body else await worker.run(work, encode_answer, new)

    async def _judge_answer(self, call: JudgedCall, response: JsonObject) -> JsonObject:
        """Return an answer after its hooks, or the answer or the reason that replaces it."""
        outcome = await self._engine.fire(answer_event(call.route, response), call.session)
        judged = ended_by(outcome.verdict, AfterModel.name, call) or await self._judge_calls(
            call, outcome.event.body
        )
        if isinstance(judged, Replacement):
            return judged.answer
        if isinstance(judged, ApiError):
            return text_response(judged.message)
        assert not isinstance(judged, AskAgain)  # noqa: S101  # this gate does not retry
        return judged

    async def _judge_calls(self, call: JudgedCall, response: JsonObject) -> JsonObject | Ended | AskAgain:
        """Return an answer with the function calls that BeforeTool hooks allow; the others become texts.

        If a hook stops the agent, return what ends the answer.
        """
        if not self._engine.listens_to(BeforeTool.name):
            return response
        judges = [ToolCallEvents(self._engine, call, {})]
        return await ToolGate(judges, call.session.call_state, retries=False).judge(response)

    async def _judge_texts(self, call: JudgedCall, texts: JsonObject) -> JsonObject:
        """Return the strings beside the answers after their hooks. Raises ApiError if they are denied."""
        event = answer_event(call.route, texts)
        outcome = await self._engine.fire(event, call.session)
        refuse_ended_call(self._engine.record, outcome.verdict, event.name, call.route.verb)
        return outcome.event.body


async def error_for_client(engine: RecordingEngine, call: JudgedCall, data: bytes) -> bytes:
    """Return an upstream error as redacted as an answer. Raises ApiError if it is denied or unreadable."""
    plan = engine.plan(AfterModel(SharedValue({}), {}, call.route.model), call.session)
    try:
        return await redacted_error(engine, plan, call, data)
    except Withheld as withheld:
        raise policy_denied(str(withheld), AfterModel.name) from None


T = TypeVar("T")


def _allowed(judged: T | Ended) -> T:
    """Return what hooks have judged. Raises ApiError if they have ended the call: a batch has one answer."""
    if isinstance(judged, Replacement):
        raise policy_denied(judged.text, AfterTool.name)
    if isinstance(judged, ApiError):
        raise judged
    return judged


async def check_item(context: CallContext, model: str, holder: JsonObject, request: JsonObject) -> JsonObject:
    """Return a request, made canonical, for its hooks. `holder` in the body may name its model.

    Raises ApiError if it names another model than `model`, could be read in two ways, or refers to what hooks
    cannot judge.
    """
    check_model(context.route, model, holder)
    try:
        request = await context.steps.run(check_request, request)
    except BodyError as error:
        raise body_refused(error) from None
    await context.steps.run(check_references, request, context.services.config)
    return request


async def judge_items(
    items: Iterable[tuple[str, T]],
    judge: Callable[[T], Awaitable[tuple[str, JsonObject]]],
    pause: Callable[[], Awaitable[None]],
) -> tuple[set[str], list[JsonObject]]:
    """Return the models and the requests that `judge` returns for the items. Each item comes with its path.

    `pause` is awaited between items. Raises ApiError with the path of the item that is refused.
    """
    models: set[str] = set()
    requests: list[JsonObject] = []
    for path, item in items:
        await pause()
        try:
            model, request = await judge(item)
        except ApiError as error:
            raise error.at(path) from None
        models.add(model)
        requests.append(request)
    return models, requests


def answer_event(route: Route, response: JsonObject) -> AfterModel:
    """Return the event of one answer. Only the answer names the model if the batch is read later."""
    version = read(response, "modelVersion")
    model = route.model or (version if isinstance(version, str) else "")
    return AfterModel(SharedValue(show_request(model, {})), response, model)


def only_model(models: set[str], default: str) -> str:
    """Return the model that hooks chose for all requests, or `default` if there is none. Raises ApiError."""
    if len(models) > 1:
        names = ", ".join(sorted(models))
        raise policy_denied(f"Hooks chose more than one model for this call: {names}.", BeforeModel.name)
    return next(iter(models), default)


def _read(body: JsonObject) -> BatchBody:
    """Return the batch in a body. Raises ApiError if the body is invalid or refers to a file."""
    try:
        batch = BatchBody(make_canonical(body))
    except BodyError as error:
        raise body_refused(error) from None
    if batch.in_file:
        raise policy_denied(IN_FILE, _EVENT)
    return batch
