"""The Interactions API: creates interactions like other generated answers, and judges those that are read.

Whether an answer is streamed is in the body or in the query, which are therefore read first.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from aiohttp import web

from hookgate.hooks import AfterModel, BeforeModel, BeforeTool
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer import AnswerPipeline
from hookgate.proxy.calls.context import CallContext, JudgedCall, OutgoingCall, RecordingEngine
from hookgate.proxy.calls.delivery import AnswerDelivery, Reply, answering
from hookgate.proxy.calls.forward import forward_unread
from hookgate.proxy.calls.generation import GenerationCall, IncomingRequest
from hookgate.proxy.calls.interaction_notes import InteractionNotes, find_earlier, shown_earlier
from hookgate.proxy.calls.session_events import ToolCallEvents, engine_for_derived
from hookgate.proxy.calls.tools import ToolGate
from hookgate.proxy.errors import request_refused
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.routes.dialects.interactions import Interactions, check_interaction
from hookgate.proxy.routes.table import Route, without_parameter
from hookgate.proxy.server.bodies import read_answer, read_whole, unreadable_answer, work_of
from hookgate.proxy.sessions.interactions import id_in_path, interaction_name
from hookgate.proxy.upstream.client import UpstreamAnswer, to_upstream
from hookgate.translator import BodyError, show_request
from hookgate.translator.fields import JsonObject, read, read_object
from hookgate.translator.interactions import InteractionEvents, first_event, without_unfinished
from hookgate.translator.strictjson import encode_answer

if TYPE_CHECKING:  # it imports SQLAlchemy, which only calls of the Interactions API need
    from hookgate.proxy.store.interactions import StoredInteraction


async def call_interactions(context: CallContext, engine: RecordingEngine) -> web.StreamResponse:
    """Answer a request of the Interactions API. Raises ApiError if it is refused or the upstream fails."""
    if context.route.verb == "createInteraction":
        return await _create(context, engine)
    return await InteractionReading(context, engine).run()


async def delete_interaction(context: CallContext) -> web.StreamResponse:
    """Forward the deletion of an interaction, and forget it. Raises ApiError if it is refused."""
    services, id_ = context.services, id_in_path(context.route)
    if services.config.routes.unknown_interactions == "refuse":
        await find_earlier(context, id_)

    async def forget(status: int) -> None:
        if 200 <= status < 300:
            await services.interactions.forget(context.caller.key, interaction_name(context.route, id_))

    return await forward_unread(context, forget)


async def _create(context: CallContext, engine: RecordingEngine) -> web.StreamResponse:
    body = await context.read_body()
    check_interaction(body, context.services.config.routes.unhooked)
    earlier, shown = None, None
    if (previous := read(body, "previousInteractionId")) is not None:
        earlier = await find_earlier(context, previous, "previous_interaction_id")
        shown = await shown_earlier(context, earlier)
    listener = None
    if context.services.interactions.are_kept and body.get("store") is not False:
        notes = InteractionNotes(context, continued=earlier)
        context.observers.append(notes)
        listener = notes.on_response
    if body.get("stream") is True:  # any other value than true and false is refused later
        context.begin_streaming()
    context.record.in_background = body.get("background") is True
    ends_turn = not context.record.in_background or context.route.streamed
    incoming = IncomingRequest(body, Interactions(shown), listener, ends_turn)
    return await GenerationCall(context, engine, incoming).run()


class InteractionReading:
    """Answers with an interaction that exists, after AfterModel and BeforeTool hooks.

    A stream is always read from its beginning, even if the client resumes it: a text that was cut in two can
    only be judged as a whole. The client receives the events after the last one that it has received.
    """

    def __init__(self, context: CallContext, engine: RecordingEngine) -> None:
        """Read the query. Raises ApiError if it is invalid."""
        self._context, self._engine, self._record = context, engine, context.record
        self._route, after = _resumed_from(context.route)
        self._framing = None if after is None else InteractionEvents(after)
        if self._framing is not None:
            context.record.streamed = True
            if context.record.content is not None:
                context.record.content.route = replace(context.route, verb="streamInteraction")
        self._adapter = Interactions()

    async def run(self) -> web.StreamResponse:
        """Answer the request; denials and upstream errors are answers, too."""
        context = self._context
        reply = Reply(context.request, self._framing, self._adapter, context.observers)
        async with answering(context, reply):
            earlier = await find_earlier(context, id_in_path(context.route))
            call, open_session = await context.begin_judged_call({}, self._adapter)
            open_session.refuse_if_stopped()
            delivery = AnswerDelivery(context, reply)
            delivery.counts_usage = False
            await self._read(call, earlier, delivery)
        return await reply.finish()

    async def _read(
        self, call: JudgedCall, earlier: "StoredInteraction | None", delivery: AnswerDelivery
    ) -> None:
        headers = to_upstream(self._context.request.headers, "identity")
        # A body to cancel an interaction would be undocumented, and no hook would see it.
        payload = b"" if self._context.request.method == "POST" else None
        async with delivery.ask_upstream(self._route, headers, payload) as answer:
            succeeded = 200 <= answer.status < 300
            named = await self._begin(answer, call) if succeeded else {}
            self._record.model = _model_in(named)
            pipeline = self._pipeline(call, earlier)
            uncounted = None if earlier is None or earlier.counted else earlier
            try:
                await delivery.deliver(answer, pipeline)
            except (asyncio.CancelledError, ConnectionError):  # the client has left
                if uncounted is not None and delivery.usage == Usage():
                    self._count_for_this_call(call, delivery)
                raise
            finally:
                pipeline.close()
                if uncounted is not None and delivery.usage != Usage():
                    await self._count_use(call, uncounted, delivery)
            if succeeded and self._framing is not None and self._framing.is_skipping:
                raise request_refused(_NO_EVENT)

    async def _count_use(
        self, call: JudgedCall, earlier: "StoredInteraction", delivery: AnswerDelivery
    ) -> None:
        """Count the tokens of an interaction for this call, unless another one has."""
        if await self._context.services.interactions.count(earlier.key, earlier.name):
            self._count_for_this_call(call, delivery)

    def _count_for_this_call(self, call: JudgedCall, delivery: AnswerDelivery) -> None:
        """Count the tokens of the answer for this call. If it does not report them, its text counts."""
        self._engine.count_use(BeforeModel(self._record.model, {}), call.session)
        delivery.counts_usage = True

    async def _begin(self, answer: UpstreamAnswer, call: JudgedCall) -> JsonObject:
        """Return the interaction of an answer, which names the model that decides what hooks run for it.

        The answer is read, and can be read again.
        """
        if self._framing is None:
            return await self._begin_whole(answer, call)
        try:
            data, event = await first_event(answer.read)
        except BodyError as error:
            raise unreadable_answer(str(error)) from None
        answer.unread(data)
        named = read_object(event, "interaction")
        if not _model_in(named) and "error" not in event:
            raise unreadable_answer("the stream does not begin with the model of the interaction")
        return named

    async def _begin_whole(self, answer: UpstreamAnswer, call: JudgedCall) -> JsonObject:
        """Return an interaction. If hooks judge it, remove steps that may be cut off."""
        data = await read_whole(answer.chunks())
        worker = self._context.request.body_worker
        body = await worker.run(work_of(data), read_answer, data, worker) if data else {}
        judged = bool(self._plan(call, _model_in(body)).groups)
        finished = without_unfinished(body) if judged else body
        answer.unread(data if finished is body else encode_answer(finished))
        return body

    def _plan(self, call: JudgedCall, model: str) -> EventPlan:
        return self._engine.plan(AfterModel(SharedValue({}), {}, model), call.session)

    def _pipeline(self, call: JudgedCall, earlier: "StoredInteraction | None") -> AnswerPipeline:
        model = self._record.model
        outgoing = OutgoingCall(
            call=call,
            route=self._route,
            model=model,
            payload=b"",
            after_model_plan=self._plan(call, model),
            llm_request=SharedValue(show_request(model, {})),
            allowed=None,
            reported=(),
            prompt="",
            descriptions={},
        )
        gate, listener = None, None
        if self._engine.listens_to(BeforeTool.name):
            of_tools = engine_for_derived(self._engine, "tools", outgoing.reported)
            judges = [ToolCallEvents(of_tools, call, {})]
            gate = ToolGate(judges, call.session.call_state, retries=False)
        if earlier is not None:
            listener = InteractionNotes(self._context, read_=earlier).on_response
        worker = self._context.request.body_worker
        return AnswerPipeline(
            self._engine, outgoing, worker, gate, None, keep_answer=False, listener=listener
        )


_NO_EVENT = "last_event_id: the stream of this interaction has no such event; read it from the beginning."


def _resumed_from(route: Route) -> tuple[Route, str | None]:
    """Return the route to read from, and the event after which a stream is resumed; None if it is not one.

    The event is empty if the stream is read from its beginning, as it always is upstream.
    """
    parameters = dict(parse_qsl(route.query, keep_blank_values=True))
    wanted = parameters.get("stream", "false").lower()
    if wanted not in ("true", "false"):
        raise request_refused("The query parameter 'stream' must be true or false.")
    if wanted == "false":
        return route, None
    query = without_parameter(without_parameter(route.query, "stream"), "last_event_id")
    streamed = f"{query}&stream=true" if query else "stream=true"
    return replace(route, query=streamed), parameters.get("last_event_id", "")


def _model_in(interaction: JsonObject) -> str:
    """Return the model of an interaction, or the agent in its place; empty if neither is named."""
    named = interaction.get("model") or interaction.get("agent")
    return named.removeprefix("models/") if isinstance(named, str) else ""
