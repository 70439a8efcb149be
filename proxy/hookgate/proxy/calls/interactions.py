"""The Interactions API: creates interactions like other generated answers, and judges those that are read.

Whether an answer is streamed is in the body or in the query, which are therefore read first.
"""

import asyncio
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from aiohttp import web

from hookgate.hooks import AfterModel, Engine
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer_delivery import AnswerDelivery
from hookgate.proxy.calls.answer_pipeline import AnswerPipeline
from hookgate.proxy.calls.answer_reading import read_answer, read_whole, unreadable_answer
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import Ended, Instead
from hookgate.proxy.calls.forward import forward_unjudged
from hookgate.proxy.calls.generation import GenerationCall
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.reply import Reply
from hookgate.proxy.calls.request import JudgedRequest
from hookgate.proxy.errors import ApiError, request_refused
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.observe.usage import Usage, read_usage
from hookgate.proxy.routes.dialects.interactions import Interactions, check_interaction
from hookgate.proxy.routes.table import Route, without_parameter
from hookgate.proxy.server.bodies import work_of
from hookgate.proxy.sessions.interactions import MAX_TURN_BYTES, id_in_path, interaction_name
from hookgate.proxy.upstream.client import UpstreamAnswer, to_upstream
from hookgate.translator import BodyError, join_events, show_request
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.interactions import InteractionEvents, first_event, has_ended, without_unfinished
from hookgate.translator.strictjson import dumps, encode_answer

if TYPE_CHECKING:
    from hookgate.proxy.store.interactions import StoredInteraction

_NO_EVENT = "last_event_id: the stream of this interaction has no such event; read it from the beginning."
_MAX_EVENTS_BYTES = 8 * MAX_TURN_BYTES
"""Bytes of the events of an answer that are joined. An event has more bytes than its text."""

_UNKNOWN = (
    "{}: no interaction with this ID that was created with your key has passed this gateway's hooks. {}"
)
_BEGIN_ANOTHER = "Begin a new one; if it runs in the background, read its answer first."
_CHECK_ID = "Check the ID and the key."


async def call_interactions(call: Call, engine: Engine) -> web.StreamResponse:
    """Answer a request of the Interactions API. Raises ApiError if it is refused or the upstream fails."""
    if call.route.verb == "createInteraction":
        return await (await _creation(call, engine)).run()
    return await InteractionReading(call, engine).run()


async def forward_interaction(call: Call) -> web.StreamResponse:
    """Forward a request about an interaction that no hook judges. A deleted one is forgotten.

    Raises ApiError if it is refused, as for an interaction that is not known to be the caller's.
    """
    services, id_ = call.services, id_in_path(call.route)
    if services.config.routes.unknown_interactions == "refuse":
        await find_earlier(call, id_)

    async def forget(status: int) -> None:
        if 200 <= status < 300:
            await services.interactions.forget(call.caller.key, interaction_name(call.route, id_))

    return await forward_unjudged(call, forget if call.route.verb == "deleteInteraction" else None)


async def find_earlier(call: Call, id_: str, field: str = "") -> "StoredInteraction | None":
    """Return what is known of an interaction that a call continues or reads.

    `field` is the one that names an interaction to continue, whose turns must all have passed. Raises
    ApiError (403) if it is unknown and such interactions are refused, or if that cannot be read.
    """
    services = call.services
    found = await services.interactions.find(call.caller.key, interaction_name(call.route, id_))
    suffices = found is not None and (found.has_passed or not field)
    if services.config.routes.unknown_interactions == "refuse" and not suffices:
        message = _UNKNOWN.format(field or "interaction", _BEGIN_ANOTHER if field else _CHECK_ID)
        raise ApiError(403, message, "INTERACTION_UNKNOWN")
    return found


async def _creation(call: Call, engine: Engine) -> GenerationCall:
    """Read the request, and return the call that creates the interaction. Raises ApiError."""
    body = await call.read_body()
    check_interaction(body, call.services.config.routes.unhooked)
    shown = None
    if (previous := read(body, "previousInteractionId")) is not None:
        call.earlier_interaction = await find_earlier(call, previous, "previous_interaction_id")
        shown = await shown_earlier(call, call.earlier_interaction)
    if call.services.interactions.are_kept and body.get("store") is not False:
        call.observers.append(InteractionNotes(call, continued=call.earlier_interaction))
    call.record.in_background = body.get("background") is True
    ends_turn = not call.record.in_background or body.get("stream") is True
    adapter = Interactions(shown)
    return GenerationCall(call, engine, body, adapter, ends_turn=ends_turn)


async def shown_earlier(call: Call, earlier: "StoredInteraction | None") -> JsonObject:
    """Return what hooks are shown of the interaction that a call continues. Raises ApiError (403)."""
    if earlier is None or not earlier.has_passed:
        return {"known": False}
    shown: JsonObject = {"known": True, "revision": earlier.revision}
    turns = await call.services.interactions.turns(earlier.key, earlier.name)
    return shown if turns is None else {**shown, "contents": turns}


class InteractionReading:
    """Answers with an interaction that exists, after AfterModel and BeforeTool hooks.

    A stream is always read from its beginning, even if the client resumes it: a text that was cut in two can
    only be judged as a whole. The client receives the events after the last one that it has received.
    """

    def __init__(self, call: Call, engine: Engine) -> None:
        """Read the query. Raises ApiError if it is invalid."""
        self._call, self._engine, self._record = call, engine, call.record
        self._route, after = _resumed_from(call.route)
        self._framing = None if after is None else InteractionEvents(after)
        if self._framing is not None:
            call.record.streamed = True
            if call.record.content is not None:
                call.record.content.route = replace(call.route, verb="streamInteraction")
        self._adapter = Interactions()

    async def run(self) -> web.StreamResponse:
        """Answer the request; denials and upstream errors are answers, too."""
        call = self._call
        reply = Reply(call, self._framing, self._adapter)
        async with reply.answering():
            call.earlier_interaction = await find_earlier(call, id_in_path(call.route))
            judge, open_session = await call.begin(self._engine, {})
            open_session.raise_if_stopped()
            delivery = AnswerDelivery(call, reply, counts_usage=False)
            instead = await self._deliver(judge, delivery)
            if isinstance(instead, Ended):
                await reply.end(instead)
        return await reply.finish()

    async def _deliver(self, judge: Judge, delivery: AnswerDelivery) -> Instead | None:
        headers = to_upstream(self._call.request.headers, "identity")
        # A body to cancel an interaction would be undocumented, and no hook would see it.
        payload = b"" if self._call.request.method == "POST" else None
        async with delivery.ask_upstream(self._route, headers, payload) as answer:
            succeeded = 200 <= answer.status < 300
            named = await self._begin(answer, judge) if succeeded else {}
            self._record.note_model(_model_in(named))
            pipeline, earlier = self._pipeline(judge), self._call.earlier_interaction
            # One that goes on may report what it has used until now. A stream reports all at its end.
            goes_on = self._framing is None and named.get("status") == "in_progress"
            counts = not goes_on and (earlier is None or not earlier.counted)
            try:
                instead = await delivery.deliver(answer, pipeline)
            except (asyncio.CancelledError, ConnectionError):  # the client has left
                if counts and delivery.usage == Usage():
                    self._count_for_this_call(judge, delivery)
                raise
            finally:
                pipeline.close()
                if counts and delivery.usage != Usage():
                    await self._count_use(judge, delivery)
            if instead is None and succeeded and self._framing is not None and self._framing.is_skipping:
                return request_refused(_NO_EVENT)
            return instead

    async def _begin(self, answer: UpstreamAnswer, judge: Judge) -> JsonObject:
        """Return the interaction of an answer, which names the model that decides what hooks run for it.

        The answer is read, and can be read again.
        """
        if self._framing is None:
            return await self._begin_whole(answer, judge)
        try:
            data, event = await first_event(answer.read)
        except BodyError as error:
            raise unreadable_answer(str(error)) from None
        answer.put_back(data)
        named = read_object(event, "interaction")
        if not _model_in(named) and "error" not in event:
            raise unreadable_answer("the stream does not begin with the model of the interaction")
        return named

    async def _begin_whole(self, answer: UpstreamAnswer, judge: Judge) -> JsonObject:
        """Return an interaction. If hooks judge it, remove steps that may be cut off."""
        data = await read_whole(answer.chunks(), memory=self._call.answer_memory)
        steps = self._call.steps
        body = await steps.run_for(work_of(data), read_answer, data, steps.worker) if data else {}
        judged = bool(_plan(judge, _model_in(body)).groups)
        finished = without_unfinished(body) if judged else body
        answer.put_back(data if finished is body else encode_answer(finished))
        return body

    def _pipeline(self, judge: Judge) -> AnswerPipeline:
        model, earlier = self._record.model, self._call.earlier_interaction
        observers = [] if earlier is None else [InteractionNotes(self._call, existing=earlier)]
        request = JudgedRequest(model, _plan(judge, model), SharedValue(show_request(model, {})))
        return AnswerPipeline(judge, request, self._adapter, self._call.steps, observers=observers)

    async def _count_use(self, judge: Judge, delivery: AnswerDelivery) -> None:
        """Count the tokens of an interaction for this call, unless another one has."""
        known, route, earlier = (
            self._call.services.interactions,
            self._call.route,
            self._call.earlier_interaction,
        )
        if earlier is None:
            is_first = known.count_unknown(interaction_name(route, id_in_path(route)))
        else:
            is_first = await known.count(earlier.key, earlier.name)
        if is_first:
            self._count_for_this_call(judge, delivery)

    def _count_for_this_call(self, judge: Judge, delivery: AnswerDelivery) -> None:
        """Count the tokens of the answer for this call. If it does not report them, its text counts."""
        judge.count_use(self._record.model)
        delivery.count_usage()
        if (earlier := self._call.earlier_interaction) is not None:
            self._record.counted_ahead = Usage(earlier.estimated_input, earlier.estimated_output)


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


def _plan(judge: Judge, model: str) -> EventPlan:
    """Return the AfterModel hooks that run for an interaction of the model."""
    return judge.plan(AfterModel(SharedValue({}), {}, model))


def _model_in(interaction: JsonObject) -> str:
    """Return the model of an interaction, or the agent in its place; empty if neither is named."""
    named = interaction.get("model") or interaction.get("agent")
    return named.removeprefix("models/") if isinstance(named, str) else ""


class InteractionNotes(CallObserver):
    """Notes the interaction that a call creates, or reads, before the client receives its answer.

    It counts as passed only once its whole answer has passed the hooks.
    """

    __slots__ = (
        "_answer",
        "_answer_size",
        "_call",
        "_continued",
        "_existing",
        "_name",
        "_previous",
        "_request",
    )

    def __init__(
        self,
        call: Call,
        *,
        continued: "StoredInteraction | None" = None,
        existing: "StoredInteraction | None" = None,
    ) -> None:
        """`continued` is the interaction that the new one continues, `existing` one that is only read."""
        self._call, self._continued, self._existing = call, continued, existing
        self._name = None if existing is None else existing.name
        self._previous: Any = None
        self._request: bytes | None = None
        self._answer: list[JsonObject] = []
        self._answer_size = 0

    @property
    def wants_parts(self) -> bool:
        return True

    def on_upstream_request(self, model: str, body: JsonObject, request: JsonObject) -> None:
        self._previous = read(body, "previousInteractionId")
        self._request = self._stored(read_list(request, "contents"))

    def begin_answer(self) -> None:
        self._answer, self._answer_size = [], 0
        if self._existing is None:
            self._name = None

    async def on_part(self, response: JsonObject) -> None:
        interactions, key = self._call.services.interactions, self._call.caller.key
        if interactions.keeps_content and self._answer_size <= _MAX_EVENTS_BYTES:
            self._answer_size += len(dumps(read_list(response, "candidates")))
            self._answer.append(response)
        ended = has_ended(response)
        # The tokens of an interaction that is read are counted elsewhere, and only once.
        is_counted = ended and self._existing is None and "usageMetadata" in response
        if self._name is None:
            await self._create(response, passed=ended, counted=is_counted)
        elif ended and not (self._existing and self._existing.passed):
            answer, tokens = self._stored_answer(), _tokens_in(response)
            await interactions.pass_answer(key, self._name, counted=is_counted, tokens=tokens, answer=answer)

    async def _create(self, response: JsonObject, *, passed: bool, counted: bool) -> None:
        from hookgate.proxy.store.interactions import StoredInteraction  # noqa: PLC0415  # SQLAlchemy

        call, previous = self._call, self._previous
        expected, reported = call.record.expected_use(), read_usage(read_object(response, "usageMetadata"))
        ahead = Usage()
        if call.record.in_background:
            ahead = reported if reported != Usage() else Usage(expected.input_tokens, expected.output_tokens)
        id_ = response.get("id") or read_object(response, "interaction").get("id")
        self._name = interaction_name(call.route, id_) if isinstance(id_, str) else None
        if self._name is None or call.record.session is None:
            return
        before = interaction_name(call.route, previous) if isinstance(previous, str) else None
        continued = self._continued
        continues_known = continued is not None and continued.name == before and continued.has_passed
        await call.services.interactions.keep(
            StoredInteraction(
                key=call.caller.key,
                name=self._name,
                session=call.record.session.session_id,
                revision=call.record.revision,
                previous=before,
                continues_known=previous is None or continues_known,
                passed=passed,
                counted=counted,
                tokens=_tokens_in(response) or sum(astuple(expected)),
                estimated_input=ahead.input_tokens,
                estimated_output=ahead.output_tokens,
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
        if not self._call.services.interactions.keeps_content:
            return None
        data = dumps(turns)
        return data if len(data) <= MAX_TURN_BYTES else None


def _tokens_in(response: JsonObject) -> int:
    """Return the tokens of a conversation as an answer reports them; 0 if it does not."""
    used = read_usage(read_object(response, "usageMetadata"))
    return used.input_tokens + used.output_tokens
