"""The Interactions API: creates interactions like other generated answers, and judges those that are read.

Whether an answer is streamed is in the body, which is therefore read first.
"""

from dataclasses import replace
from urllib.parse import parse_qsl

from aiohttp import web

from hookgate.hooks import AfterModel, BeforeModel, BeforeTool
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.call.answer import AnswerPipeline
from hookgate.proxy.call.context import CallContext, JudgedCall, OutgoingCall, RecordingEngine
from hookgate.proxy.call.derived_events import ToolCallEvents, engine_for_derived
from hookgate.proxy.call.generation import GenerationCall
from hookgate.proxy.call.passthrough import forward_unread
from hookgate.proxy.call.tool_gate import ToolGate
from hookgate.proxy.call.verdicts import ReplacementAnswer
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.http.bodies import read_answer, read_request, read_whole
from hookgate.proxy.http.client import UpstreamAnswer
from hookgate.proxy.http.upstream_connection import UpstreamError
from hookgate.proxy.routing.envelopes import Interactions, check_interaction
from hookgate.proxy.routing.headers import to_client, to_upstream
from hookgate.proxy.routing.table import Route
from hookgate.translator import show_request
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

_RESUMED = (
    "stream: hooks cannot judge a stream that is resumed; read the interaction without stream=true, or set "
    'routes.unhooked = ["interactions"] in hookgate.toml to forward it unjudged.'
)


class InteractionCalls:
    """Processes one call of the Interactions API."""

    def __init__(self, context: CallContext, engine: RecordingEngine) -> None:
        self._context, self._engine, self._record = context, engine, context.record

    async def run(self) -> web.StreamResponse:
        """Answer the request. Raises ApiError if it is refused or the upstream fails."""
        context = self._context
        if context.route.verb == "createInteraction":
            return await self._create()
        if _streams(context.route):
            if "interactions" not in context.services.config.routes.unhooked:
                raise ApiError(403, _RESUMED, "ROUTE_NOT_ALLOWED")
            return await forward_unread(context)
        return await self._read()

    # ---- create

    async def _create(self) -> web.StreamResponse:
        context = self._context
        body = await read_request(context.request)
        check_interaction(body, context.services.config.routes.unhooked)
        if body.get("stream") is True:  # any other value than true and false is refused later
            context.route = replace(context.route, verb="streamInteraction")
            self._record.streamed = True
            if self._record.content is not None:
                self._record.content.route = context.route
        return await GenerationCall(context, self._engine, body).run()

    # ---- read, cancel

    async def _read(self) -> web.StreamResponse:
        """Answer with an interaction that exists, after AfterModel and BeforeTool hooks."""
        context = self._context
        call, known = await context.begin_judged_call({}, Interactions())
        if known.state.stopped is not None:
            raise policy_denied(known.state.stopped, BeforeModel.name)
        headers = to_upstream(context.request.headers, "identity")
        try:
            # A body to cancel an interaction would be undocumented, and no hook would see it.
            body = b"" if context.request.method == "POST" else None
            async with context.send(context.route, headers, body) as answer:
                data = await read_whole(answer.chunks())
        except UpstreamError as error:
            raise error.as_api_error() from None
        for observer in context.observers:
            observer.see_upstream_bytes(data)
        if data:
            data = await self._judged(answer, data, call)
        for observer in context.observers:
            observer.see_client_bytes(data)
        return web.Response(status=answer.status, headers=to_client(answer.headers), body=data)

    async def _judged(self, answer: UpstreamAnswer, data: bytes, call: JudgedCall) -> bytes:
        """Return an answer after its hooks. Raises ApiError if a hook denies it."""
        worker = self._context.request.body_worker
        succeeded = 200 <= answer.status < 300
        body = await worker.run(len(data), read_answer, data, worker.bounds) if succeeded else {}
        model = _model_in(body)
        self._record.model = model
        plan = self._engine.plan(AfterModel(SharedValue({}), {}, model), call.session)
        shown = SharedValue(show_request(model, {})) if plan.groups else None
        outgoing = OutgoingCall(call, self._context.route, model, b"", plan, shown, None, (), "", {})
        gate = None
        if self._engine.listens_to(BeforeTool.name):
            of_tools = engine_for_derived(self._engine, "tools", outgoing.reported)
            gate = ToolGate([ToolCallEvents(of_tools, call, {})], retries=False)
        pipeline = AnswerPipeline(self._engine, outgoing, worker, gate, None, keep_answer=False)
        try:
            if not succeeded:
                return await pipeline.redact_error(data)
            return await pipeline.judge_whole(data) if pipeline.needs_parsing else data
        except ReplacementAnswer as replacement:
            return dumps(call.envelope.answer(replacement.answer))
        finally:
            pipeline.close()


def _streams(route: Route) -> bool:
    """Return whether the query asks for a stream."""
    wanted = dict(parse_qsl(route.query, keep_blank_values=True)).get("stream", "false")
    return wanted.lower() != "false"


def _model_in(body: JsonObject) -> str:
    """Return the model of an interaction, or the agent in its place."""
    named = body.get("model") or body.get("agent")
    return named.removeprefix("models/") if isinstance(named, str) else ""
