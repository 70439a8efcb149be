"""Applies another policy to recorded calls, in their order and at their times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from hookgate.hooks import CallEnd, CallState, Configuration, Engine
from hookgate.hooks.events.reading import read_event
from hookgate.hooks.policies import BUILTINS
from hookgate.hooks.policies.counters import MemoryCounters
from hookgate.hooks.policies.estimates import estimate_all, priced_model
from hookgate.hooks.policies.limits import limits_policy
from hookgate.hooks.policy_environment import AccessTokens
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.runs import TrustCheck
from hookgate.proxy.calls.answer_pipeline import AnswerPipeline, AskAgainRules
from hookgate.proxy.calls.batches import BATCH_READS, answer_event
from hookgate.proxy.calls.endings import AskAgain, Ended
from hookgate.proxy.calls.event_service import apply_outcome
from hookgate.proxy.calls.items import GENERATION_BATCH, judge_item
from hookgate.proxy.calls.judge import Judge, create_call_state
from hookgate.proxy.calls.pacing import CallSteps, LongSteps, LoopSlices
from hookgate.proxy.calls.request import JudgedRequest, judge_request
from hookgate.proxy.config import LimitSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.usage import Prices, Usage
from hookgate.proxy.replay.recordings import RecordedEnd, RecordedStart
from hookgate.proxy.replay.report import ReplayReport
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.routes.dialects.generate_content import (
    GenerateContent,
    decode_request_body,
    named_model,
)
from hookgate.proxy.server.bodies import BodyWorker
from hookgate.proxy.sessions.memory import Result
from hookgate.proxy.sessions.sessions import LocalSessions, OpenSession
from hookgate.translator import BodyError, read_inputs
from hookgate.translator.batches import BatchState
from hookgate.translator.inputs import ITEM_METHODS
from hookgate.translator.strictjson import dumps

_GENERATE = ("generateContent", "streamGenerateContent")


_MAX_COUNTS = 1_000_000
"""The maximum number of counts of limits to keep. A gateway keeps them in its database."""


class ReplayClock:
    """The time of the recording."""

    def __init__(self) -> None:
        self.now = datetime.fromtimestamp(0, UTC)

    def __call__(self) -> datetime:
        """Return the time of the record that is being replayed."""
        return self.now


def replaying_engine(
    configuration: Configuration,
    clock: ReplayClock,
    prices: Prices | None,
    *,
    trust_check: TrustCheck = lambda hook: None,
    access_tokens: AccessTokens | None = None,
) -> Engine:
    """Return an engine whose limits count in memory, at the times of the recording.

    Policies that call Google's services use `access_tokens`. Raises SettingsError for a hook that can never
    run.
    """
    runners = make_runners(
        configuration.hooks(),
        trust_check=trust_check,
        http_targets=configuration.http_targets,
        builtins={**BUILTINS, "limits": partial(limits_policy, clock=clock)},
        counters=MemoryCounters(clock, _MAX_COUNTS),
        prices=prices,
        access_tokens=access_tokens,
    )
    return Engine(configuration, runners, trust_check=trust_check)


@dataclass(slots=True)
class _OpenCall:
    """A call whose start has been replayed."""

    record: CallRecord
    judge: Judge | None = None
    """What judges its answer; None if hooks did not let the request pass."""
    request: JudgedRequest | None = None
    """The request, if the call generates content."""


class Replay:
    """Replays the records of an export. Pass it all starts, ends and events in their order.

    A start runs the hooks of a request, and an end those of the answer, so that limits count calls that
    overlapped as they did then.
    """

    def __init__(self, engine: Engine, clock: ReplayClock, prices: Prices | None) -> None:
        self._engine, self._clock, self._prices = engine, clock, prices
        self._sessions = LocalSessions()
        self._steps = CallSteps(BodyWorker(LimitSettings()), LongSteps(), LoopSlices(), ("", ""))
        self._open: dict[str, _OpenCall] = {}

    async def compare(self, recorded: RecordedStart | RecordedEnd, report: ReplayReport) -> None:
        """Replay one record, and add what changes to the report.

        Raises ValueError if an event cannot be read.
        """
        if isinstance(recorded, RecordedStart):
            await self.begin(recorded)
        elif recorded.outcome == "refused" and not recorded.hooks:
            await self.end(recorded)
            report.refused += 1
        elif (recorded.event and recorded.request is None) or (now := await self.end(recorded)) is None:
            report.without_content += 1
        else:
            report.add(recorded, now)

    async def begin(self, start: RecordedStart) -> None:
        """Run the hooks of a call's request, if the audit stored it."""
        if not start.stored:
            return
        self._clock.now = start.at
        record = CallRecord(id=start.id, model=start.model, kind="judged", session=start.session)
        record.revision = self._engine.revision
        opened = self._open[start.id] = _OpenCall(record)
        verb = start.route.verb
        try:
            open_session = await self._sessions.open(start.session)
            if open_session.state.refusal is not None and verb not in _GENERATE:
                return  # it was refused without running hooks
            if verb in ITEM_METHODS:
                opened.judge = await self._judge_items(record, start)
            elif verb in BATCH_READS:
                opened.judge = self._judge_of(record, start, create_call_state(start.route, {}))
            else:
                await self._judge_request(opened, start, open_session)
        except (ApiError, BodyError):
            return  # hooks have ended it, and the record has the outcome

    async def end(self, was: RecordedEnd) -> CallRecord | None:
        """Run the hooks of an answer or event. Returns the new record; None for a call without content.

        Raises ValueError if an event cannot be read.
        """
        self._clock.now = was.at
        if was.event:
            return await self._event(was)
        opened = self._open.pop(was.id, None)
        if opened is None:
            return None
        record, judge = opened.record, opened.judge
        was_sent = judge is not None and record.outcome is None
        try:
            if judge is not None and was_sent:
                await self._judge_answers(judge, opened.request, was)
        except ApiError:
            pass  # the record has the outcome
        self._end(record, was.usage if was_sent else Usage())
        return record

    def _end(self, record: CallRecord, used: Usage) -> None:
        """Tell the policies that a call has ended, with its recorded usage."""
        model, cost = record.model, None
        if self._prices is not None:
            priced = priced_model(self._prices, model, record.answered_by)
            cost = self._prices.cost(priced, used.input_tokens, used.output_tokens, used.cached_tokens)
        end = CallEnd(model, used.input_tokens, used.output_tokens, cost, record.answered_by)
        for callback in record.call_state.at_use if record.call_state else ():
            callback(end)
        record.end(200, 0)

    async def _event(self, was: RecordedEnd) -> CallRecord:
        session = replace(was.session, call_state=CallState(), notes=self._sessions)
        record = CallRecord(id=was.id, kind="event", session=session, event=was.event)
        judge = Judge(self._engine, record, session)
        record.revision = self._engine.revision
        record.note_session(session)
        outcome = await judge.fire(read_event(was.event, was.request or {}))
        await apply_outcome(self._sessions, session, outcome, deliver=False)
        record.end(200, 0)
        return record

    def _judge_of(self, record: CallRecord, start: RecordedStart, call_state: CallState) -> Judge:
        """Return the judge of a call whose requests, if any, are judged one by one."""
        session = replace(start.session, call_state=call_state, notes=self._sessions)
        record.note_session(session)
        return Judge(self._engine, record, session)

    async def _judge_request(
        self, opened: _OpenCall, start: RecordedStart, open_session: OpenSession
    ) -> None:
        """Run the hooks of a request that generates content."""
        adapter, client_body = ADAPTERS[start.route.dialect](), start.request or {}
        model, body = decode_request_body(adapter, start.route, client_body)
        state = create_call_state(start.route, body, generates=True)
        session = replace(open_session.session, call_state=state, notes=self._sessions)
        opened.record.note_session(session)
        judge = Judge.of_call(self._engine, opened.record, session, body)
        reported = frozenset(open_session.state.reported_kinds(""))
        judged = await judge_request(
            judge,
            open_session,
            reported,
            model,
            body,
            adapter.other_fields(client_body),
            _ignore_results,
            streamed=False,
        )
        if isinstance(judged, Ended):
            return
        opened.judge, opened.request = judge, judged[0]
        judge.record.note_model(judged[0].model)

    async def _judge_items(self, record: CallRecord, start: RecordedStart) -> Judge:
        """Run the hooks of the requests in a body. Raises ApiError if they refuse it."""
        verb, inputs = start.route.verb, read_inputs(start.route.verb, start.request or {})
        state = create_call_state(start.route, {})
        state.requests = len(inputs.counted)
        if verb == GENERATION_BATCH or start.route.group == "embed":
            state.expected = estimate_all(inputs.counted, generates=verb == GENERATION_BATCH)
        judge = self._judge_of(record, start, state)
        for item in inputs.requests:
            await judge_item(judge, item, named_model(start.route, item.holder), item.request)
        return judge

    async def _judge_answers(self, judge: Judge, request: JudgedRequest | None, was: RecordedEnd) -> None:
        if request is None:
            is_batch = judge.session.call_state.operation in BATCH_READS | {GENERATION_BATCH}
            model = was.start.route.model if was.start else ""
            for answer in was.answers if is_batch and was.is_answered else ():
                state = BatchState(answer)
                for response in (*state.answers, state.rest()):
                    await judge.fire(answer_event(model, response))
            return
        answer_rejected = False
        for number, answer in enumerate(was.answers, 1):
            pipeline = AnswerPipeline(
                judge,
                request,
                GenerateContent(),
                self._steps,
                ends_turn=True,
                # The record has an answer for each time that the model was asked.
                ask_again_rules=AskAgainRules(number < len(was.answers), True, answer_rejected),
            )
            meter = AnswerMeter(note_model=judge.record.note_answered_by)
            outcome = await pipeline.judge_whole(dumps(answer), meter)
            pipeline.close()
            if not isinstance(outcome, AskAgain):
                return
            answer_rejected = answer_rejected or outcome.answer_rejected


async def _ignore_results(_: Sequence[Result]) -> None:
    """Accept results of tools that ran without a shim's report: it is not part of a policy."""
