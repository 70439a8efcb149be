"""The Interactions API: creates interactions like other generated answers, and judges those that are read.

Whether an answer is streamed is in the body or in the query, which are therefore read first.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from aiohttp import web

from hookgate.hooks import AfterModel, BeforeModel, BeforeTool
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer import AnswerDelivery, AnswerPipeline
from hookgate.proxy.calls.context import CallContext, JudgedCall, OutgoingCall, RecordingEngine
from hookgate.proxy.calls.forward import forward_unread
from hookgate.proxy.calls.generation import GenerationCall, IncomingRequest
from hookgate.proxy.calls.outcomes import AskAgain, Ended
from hookgate.proxy.calls.reply import Reply, answering, end_call
from hookgate.proxy.calls.session_events import ToolCallEvents, engine_for_derived
from hookgate.proxy.calls.tools import ToolGate
from hookgate.proxy.errors import ApiError, request_refused
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.routes.dialects.interactions import Interactions, check_interaction
from hookgate.proxy.routes.table import Route, without_parameter
from hookgate.proxy.server.bodies import read_answer, read_whole, unreadable_answer, work_of
from hookgate.proxy.sessions.interactions import MAX_TURN_BYTES, id_in_path, interaction_name
from hookgate.proxy.upstream.client import UpstreamAnswer, to_upstream
from hookgate.translator import BodyError, join_events, show_request
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.interactions import InteractionEvents, first_event, has_ended, without_unfinished
from hookgate.translator.strictjson import dumps, encode_answer

if TYPE_CHECKING:
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
            outcome = await self._read(call, earlier, delivery)
            if isinstance(outcome, Ended):
                await end_call(context, reply, outcome)
        return await reply.finish()

    async def _read(
        self, call: JudgedCall, earlier: "StoredInteraction | None", delivery: AnswerDelivery
    ) -> Ended | AskAgain | None:
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
                outcome = await delivery.deliver(answer, pipeline)
            except (asyncio.CancelledError, ConnectionError):  # the client has left
                if uncounted is not None and delivery.usage == Usage():
                    self._count_for_this_call(call, delivery)
                raise
            finally:
                pipeline.close()
                if uncounted is not None and delivery.usage != Usage():
                    await self._count_use(call, uncounted, delivery)
            if succeeded and self._framing is not None and self._framing.is_skipping:
                return request_refused(_NO_EVENT)
            return outcome

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
        return AnswerPipeline(
            self._engine, outgoing, self._context.steps, gate, None, keep_answer=False, listener=listener
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


_MAX_EVENTS_BYTES = 8 * MAX_TURN_BYTES
"""Bytes of the events of an answer that are joined. An event has more bytes than its text."""

_UNKNOWN = (
    "{}: no interaction with this ID that was created with your key has passed this gateway's hooks. {}"
)
_CONTINUE = "Begin a new one; if it runs in the background, read its answer first."
_READ = "Check the ID and the key."


async def find_earlier(context: CallContext, id_: str, field: str = "") -> "StoredInteraction | None":
    """Return what is known of an interaction, whose session becomes that of a call that names none.

    `field` is the one that names an interaction to continue, whose turns must all have passed. Raises
    ApiError (403) if it is unknown and such interactions are refused, or if that cannot be read.
    """
    services = context.services
    found = await services.interactions.find(context.caller.key, interaction_name(context.route, id_))
    suffices = found is not None and (found.has_passed or not field)
    if services.config.routes.unknown_interactions == "refuse" and not suffices:
        message = _UNKNOWN.format(field or "interaction", _CONTINUE if field else _READ)
        raise ApiError(403, message, "INTERACTION_UNKNOWN")
    if found is not None:
        context.earlier_session = found.session
    return found


async def shown_earlier(context: CallContext, earlier: "StoredInteraction | None") -> JsonObject:
    """Return what hooks are shown of the interaction that a call continues. Raises ApiError (403)."""
    if earlier is None or not earlier.has_passed:
        return {"known": False}
    shown: JsonObject = {"known": True, "revision": earlier.revision}
    turns = await context.services.interactions.turns(earlier.key, earlier.name)
    return shown if turns is None else {**shown, "contents": turns}


class InteractionNotes(CallObserver):
    """Notes the interaction that a call creates, or reads, before the client receives its answer.

    It counts as passed only once its whole answer has passed the hooks.
    """

    __slots__ = (
        *("_answer", "_answer_size", "_context", "_continued", "_name", "_previous", "_read", "_request"),
    )

    def __init__(
        self,
        context: CallContext,
        *,
        continued: "StoredInteraction | None" = None,
        read_: "StoredInteraction | None" = None,
    ) -> None:
        """`continued` is the interaction that the new one continues, `read_` the one that is read instead."""
        self._context, self._continued, self._read = context, continued, read_
        self._name = None if read_ is None else read_.name
        self._previous: Any = None
        self._request: bytes | None = None
        self._answer: list[JsonObject] = []
        self._answer_size = 0

    def on_upstream_request(self, model: str, body: JsonObject, request: JsonObject) -> None:
        self._previous = read(body, "previousInteractionId")
        self._request = self._stored(read_list(request, "contents"))

    def begin_answer(self) -> None:
        self._answer, self._answer_size = [], 0
        if self._read is None:
            self._name = None

    async def on_response(self, response: JsonObject) -> None:
        """Note what a whole answer, or an event, shows. It has passed all hooks and is sent next."""
        interactions, key = self._context.services.interactions, self._context.caller.key
        if interactions.keeps_content and self._answer_size <= _MAX_EVENTS_BYTES:
            self._answer_size += len(dumps(read_list(response, "candidates")))
            self._answer.append(response)
        ended = has_ended(response)
        # The tokens of an interaction that is read are counted elsewhere, and only once.
        is_counted = ended and self._read is None and "usageMetadata" in response
        if self._name is None:
            await self._create(response, passed=ended, counted=is_counted)
        elif ended and not (self._read and self._read.passed):
            answer = self._stored_answer()
            await interactions.pass_answer(key, self._name, counted=is_counted, answer=answer)

    async def _create(self, response: JsonObject, *, passed: bool, counted: bool) -> None:
        from hookgate.proxy.store.interactions import StoredInteraction  # noqa: PLC0415  # see above

        context, previous = self._context, self._previous
        id_ = response.get("id") or read_object(response, "interaction").get("id")
        self._name = interaction_name(context.route, id_) if isinstance(id_, str) else None
        if self._name is None or context.record.session is None:
            return
        before = interaction_name(context.route, previous) if isinstance(previous, str) else None
        continued = self._continued
        continues_known = continued is not None and continued.name == before and continued.has_passed
        await context.services.interactions.keep(
            StoredInteraction(
                key=context.caller.key,
                name=self._name,
                session=context.record.session.session_id,
                revision=context.record.revision,
                previous=before,
                continues_known=previous is None or continues_known,
                passed=passed,
                counted=counted,
                request=self._request,
                answer=self._stored_answer() if passed else None,
            )
        )

    def _stored_answer(self) -> bytes | None:
        if self._answer_size > _MAX_EVENTS_BYTES:
            return None
        candidates = read_list(join_events(self._answer), "candidates") if self._answer else []
        return self._stored([content for each in candidates if (content := read_object(each, "content"))])

    def _stored(self, turns: list[Any]) -> bytes | None:
        """Return turns as they are stored, or None if they are not."""
        if not self._context.services.interactions.keeps_content:
            return None
        data = dumps(turns)
        return data if len(data) <= MAX_TURN_BYTES else None
