"""Applies another policy to recorded calls, in their order and at their times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hookgate.hooks import (
    AfterAgent,
    AfterModel,
    BeforeTool,
    CallEnd,
    CallState,
    Engine,
)
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.events.reading import read_event
from hookgate.hooks.policies.estimates import estimate_all
from hookgate.proxy.calls.answer import visible_text_of
from hookgate.proxy.calls.batches import BATCHED, answer_event
from hookgate.proxy.calls.context import JudgedCall, RecordingEngine, call_in_session
from hookgate.proxy.calls.events import apply_outcome
from hookgate.proxy.calls.outcomes import AskAgain, Ended
from hookgate.proxy.calls.session_events import (
    ToolCallEvents,
    TurnEndEvents,
    engine_for_derived,
    run_session_events,
)
from hookgate.proxy.calls.tools import AllowedTools, ToolCallJudge, ToolGate, ToolSelection
from hookgate.proxy.calls.verdicts import (
    before_model_or_refuse,
    before_tool_selection,
    before_tool_selection_or_refuse,
    ended_by,
    fire_before_model,
)
from hookgate.proxy.cli.replay.recordings import CallStart, RecordedCall
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.usage import Prices, Usage
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.routes.dialects.generate_content import decode_request_body, named_model
from hookgate.proxy.sessions.memory import Result, prompt_of
from hookgate.proxy.sessions.sessions import LocalSessions, OpenSession, ReportedKind
from hookgate.translator import BodyError, declared_descriptions, make_canonical, read_inputs, show_request
from hookgate.translator.batches import BatchBody, BatchState
from hookgate.translator.fields import JsonObject, read_list
from hookgate.translator.inputs import INPUTS, caches_tools

_GENERATE = ("generateContent", "streamGenerateContent")


class ReplayClock:
    """The time of the recording."""

    def __init__(self) -> None:
        self.now = datetime.fromtimestamp(0, UTC)

    def __call__(self) -> datetime:
        """Return the time of the record that is being replayed."""
        return self.now


@dataclass(slots=True)
class _OpenCall:
    """A call whose start has been replayed."""

    engine: RecordingEngine
    is_forwarded: bool = False
    """Whether hooks let the request pass, so that the model is asked."""
    call: JudgedCall | None = None
    """The call whose answer hooks judge; None if there is none."""
    model: str = ""
    shown: SharedValue | None = None
    selection: ToolSelection | None = None
    reported: frozenset[ReportedKind] = field(default_factory=frozenset)
    prompt: str = ""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """The descriptions of the request's tools, by name."""


class Replay:
    """Replays the records of an export. Pass it all starts, ends and events in their order.

    A start runs the hooks of a request, and an end those of the answer, so that limits count calls that
    overlapped as they did then.
    """

    def __init__(self, engine: Engine, clock: ReplayClock, prices: Prices | None) -> None:
        self._engine, self._clock, self._prices = engine, clock, prices
        self._sessions = LocalSessions()
        self._open: dict[str, _OpenCall] = {}

    async def begin(self, start: CallStart) -> None:
        """Run the hooks of a call's request, if the audit stored it."""
        if not start.stored:
            return
        self._clock.now = start.at
        session = replace(start.session, call_state=CallState())
        record = CallRecord(id=start.id, model=start.model, kind="judged", session=session)
        opened = self._open[start.id] = _OpenCall(RecordingEngine(self._engine, record))
        try:
            open_session = await self._sessions.open(session)
            if open_session.state.refusal is not None and start.route.verb not in _GENERATE:
                return  # it was refused without running hooks
            if start.route.verb in INPUTS:
                await self._inputs(opened.engine, start)
            elif start.route.verb in BATCHED:
                await self._batch(opened, start)
            elif await self._generate(opened, start, open_session):
                return
            opened.is_forwarded = opened.engine.record.outcome is None
        except (ApiError, BodyError):
            return  # hooks have ended it, and the record has the outcome

    async def end(self, was: RecordedCall) -> CallRecord | None:
        """Run the hooks of an answer or event. Returns the new record; None for a call without content.

        Raises ValueError if an event cannot be read.
        """
        self._clock.now = was.at
        if was.event:
            return await self._event(was)
        opened = self._open.pop(was.id, None)
        if opened is None:
            return None
        record = opened.engine.record
        try:
            if opened.is_forwarded and opened.call is not None and opened.call.route.verb in BATCHED:
                if was.is_answered:
                    await self._batch_answers(opened, opened.call, was.answers)
            elif opened.is_forwarded and opened.call is not None:
                await self._answers(opened, opened.call, was.answers)
        except ApiError:
            pass  # the record has the outcome
        self._end(record, was.usage if opened.is_forwarded else Usage())
        return record

    def _end(self, record: CallRecord, used: Usage) -> None:
        """Tell the policies that a call has ended, with its recorded usage."""
        model, cost = record.model, None
        if self._prices is not None:
            cost = self._prices.cost(model, used.input_tokens, used.output_tokens, used.cached_tokens)
        end = CallEnd(model, used.input_tokens, used.output_tokens, cost)
        for callback in (callback for state in record.call_states for callback in state.at_end):
            callback(end)
        record.end(200, 0)

    async def _event(self, was: RecordedCall) -> CallRecord:
        session = replace(was.session, call_state=CallState())
        record = CallRecord(id=was.id, kind="event", session=session, event=was.event)
        engine = RecordingEngine(self._engine, record)
        record.note_call(session)
        outcome = await engine.fire(read_event(was.event, was.request or {}), session)
        if isinstance(outcome.event, BeforeTool):
            engine.note_blocked_tool(outcome.event, outcome)
        await apply_outcome(self._sessions, session, outcome, deliver=False)
        record.end(200, 0)
        return record

    # ---- requests

    async def _generate(self, opened: _OpenCall, start: CallStart, open_session: OpenSession) -> Ended | None:
        """Run the hooks of a request. Returns what ends the call, if they do."""
        engine, adapter = opened.engine, ADAPTERS[start.route.dialect]()
        client_body = start.request or {}
        model, body = decode_request_body(adapter, start.route, client_body)
        call = call_in_session(open_session.session, start.route, body, adapter, named=True)
        engine.record.note_call(call.session)
        call.session.call_state.expected = estimate_all([body])
        contents = read_list(body, "contents")
        opened.reported = frozenset(open_session.state.reported_kinds(""))
        if engine.needs_session_events(open_session, opened.reported):
            judged = await run_session_events(
                engine, call, open_session, body, opened.reported, _ignore_results
            )
            if isinstance(judged, Ended):
                return judged
            body = judged
        after = await fire_before_model(engine, call, model, body, client_body)
        if isinstance(after, Ended):
            return after
        model = after[0].model
        selected = await before_tool_selection(engine, call, model, after[0].body)
        if isinstance(selected, Ended):
            return selected
        body, opened.selection = selected
        engine.record.model = opened.model = model
        opened.shown = SharedValue(show_request(model, body))
        opened.prompt, opened.call = prompt_of(contents), call
        opened.descriptions = declared_descriptions(body)
        return None

    async def _inputs(self, engine: RecordingEngine, start: CallStart) -> None:
        verb, inputs = start.route.verb, read_inputs(start.route.verb, start.request or {}).requests
        session = self._new_call(engine, start, {}).session
        session.call_state.requests = len(inputs)
        if start.route.group == "embed":
            session.call_state.expected = estimate_all([each.request for each in inputs], generates=False)
        for carried in inputs:
            model = named_model(start.route, carried.holder)
            model, request = await before_model_or_refuse(engine, session, model, carried.request, verb)
            if caches_tools(verb, request):
                await before_tool_selection_or_refuse(engine, session, model, request, verb)

    async def _batch(self, opened: _OpenCall, start: CallStart) -> None:
        engine, route = opened.engine, start.route
        call = self._new_call(engine, start, {})
        if route.verb == "batchGenerateContent":
            batch, session = BatchBody(make_canonical(start.request or {})), call.session
            session.call_state.requests = len(batch.requests)
            session.call_state.expected = estimate_all([item for _, item in batch.requests])
            for _, item in batch.requests:
                model, body = await before_model_or_refuse(engine, session, route.model, item, route.verb)
                await before_tool_selection_or_refuse(engine, session, model, body, route.verb)
            if labels := batch.labels():
                await before_model_or_refuse(engine, session, route.model, labels, route.verb)
        opened.call = call

    @staticmethod
    def _new_call(engine: RecordingEngine, start: CallStart, body: JsonObject) -> JudgedCall:
        session = replace(start.session, call_state=CallState())
        engine.record.note_call(session)
        return call_in_session(session, start.route, body, ADAPTERS[start.route.dialect](), named=True)

    # ---- answers

    async def _answers(self, opened: _OpenCall, call: JudgedCall, answers: Sequence[JsonObject]) -> None:
        answer_rejected = False
        for number, answer in enumerate(answers, 1):
            outcome = await self._answer(
                opened, call, answer, answer_rejected=answer_rejected, more=number < len(answers)
            )
            if not isinstance(outcome, AskAgain):
                return
            answer_rejected = answer_rejected or outcome.answer_rejected

    async def _answer(
        self, opened: _OpenCall, call: JudgedCall, answer: JsonObject, *, answer_rejected: bool, more: bool
    ) -> Ended | AskAgain | None:
        """Judge one answer. Returns AskAgain if it is rejected and `more` answers follow.

        `answer_rejected`: a hook has rejected an earlier final answer.
        """
        engine, session = opened.engine, call.session
        body = answer
        if opened.shown is not None and engine.listens_to(AfterModel.name):
            outcome = await engine.fire(AfterModel(opened.shown, body, opened.model), session)
            if ended := ended_by(outcome.verdict, AfterModel.name, call):
                return ended
            body = outcome.event.body
        judges: list[ToolCallJudge] = []
        if opened.selection is not None:
            judges.append(AllowedTools(opened.selection, engine.record, retries=True))
        of_tools = engine_for_derived(engine, "tools", opened.reported)
        if of_tools.listens_to(BeforeTool.name):
            judges.append(ToolCallEvents(of_tools, call, opened.descriptions))
        gate = ToolGate(judges, session.call_state, retries=more)
        judged = await gate.judge(body)
        if isinstance(judged, Ended | AskAgain):
            return judged
        of_turns = engine_for_derived(engine, "turns", opened.reported)
        if call.requires_json or gate.agent_has_call or not of_turns.listens_to(AfterAgent.name):
            return None
        events = TurnEndEvents(of_turns, call, opened.prompt, answer_rejected, more)
        return await events.turn_ended(visible_text_of([judged]))

    async def _batch_answers(
        self, opened: _OpenCall, call: JudgedCall, answers: Sequence[JsonObject]
    ) -> None:
        for answer in answers:
            state = BatchState(answer)
            for response in (*state.answers, state.texts()):
                await opened.engine.fire(answer_event(call.route, response), call.session)


async def _ignore_results(_: Sequence[Result]) -> None:
    """Accept results of tools that ran without a shim's report: it is not part of a policy."""
