"""The services that all calls of a gateway share, and the context of one call."""

import logging
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate.hooks import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeAgent,
    BeforeModel,
    BeforeTool,
    CallEnd,
    Engine,
    Event,
    Outcome,
    SessionContext,
    SessionStart,
    Verdict,
)
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.merge import NO_VERDICT
from hookgate.hooks.policies.estimates import estimate_all
from hookgate.hooks.screening import HookScreen
from hookgate.hooks.settings import Layer
from hookgate.proxy.calls.pacing import CallSteps, LongSteps, LoopSlices
from hookgate.proxy.calls.tools import ToolSelection
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.errors import UPSTREAM_BROKE, UPSTREAM_FAILED, ApiError
from hookgate.proxy.keys.callers import Callers, load_named_keys, named_session
from hookgate.proxy.observe.content import CallObserver, open_transcripts
from hookgate.proxy.observe.logs import note_cause, note_session
from hookgate.proxy.observe.record import BlockedOutput, CallRecord, Receipts, denying_hooks
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.routes.dialects.generate_content import GenerateContent
from hookgate.proxy.routes.table import Route, with_gateway_credential
from hookgate.proxy.server.bodies import read_bytes, read_request
from hookgate.proxy.server.connection import Request
from hookgate.proxy.sessions.bypass import Bypasses
from hookgate.proxy.sessions.interactions import KnownInteractions
from hookgate.proxy.sessions.sessions import (
    SHIM_HEADER,
    LocalSessions,
    OpenSession,
    ReportedKind,
    Sessions,
    text_fingerprint,
)
from hookgate.proxy.upstream.client import NoAnswerError, UpstreamAnswer, Upstreams
from hookgate.proxy.upstream.fail_over import FailOver
from hookgate.translator.fields import (
    JsonObject,
    has_part,
    read_list,
    read_object,
    texts_of,
    write,
)
from hookgate.translator.request import requires_json
from hookgate.translator.strictjson import dumps, loads

if TYPE_CHECKING:  # it imports SQLAlchemy, which only an enabled audit needs
    from hookgate.proxy.audit import Audit
    from hookgate.proxy.keys.issued import Admission, IssuedKeys
    from hookgate.proxy.keys.scopes import IssuedKey

log = logging.getLogger("hookgate.gateway")

E = TypeVar("E", bound=Event)


_SESSION_EVENTS = (SessionStart.name, BeforeAgent.name, AfterAgent.name, BeforeTool.name, AfterTool.name)
"""Events that may stop a session until its next turn, so its turn must be known."""


class RecordingEngine:
    """An engine that records its runs in the call record."""

    def __init__(self, engine: Engine, record: CallRecord, layer: Layer | None = None) -> None:
        """The engine runs only the hooks of `layer`, if given. The record gets the revision of the engine."""
        self._engine, self.record, self._layer = engine, record, layer
        record.revision = engine.revision

    def with_policy_hooks_only(self) -> "RecordingEngine":
        """Return the same engine with the hooks of policy files only."""
        return RecordingEngine(self._engine, self.record, "policy")

    def listens_to(self, *events: str) -> bool:
        """Return whether any hook is configured for one of the events."""
        return self._engine.listens_to(*events, layer=self._layer)

    def selects_by_key(self, event: str) -> bool:
        """Return whether the keys or the teams of callers decide which of the event's hooks run."""
        return not self._engine.conditions(event).isdisjoint({"key", "team"})

    def needs_session_events(self, open_session: OpenSession, reported: Collection[ReportedKind]) -> bool:
        """Return whether events of the session must be derived or checked for a call.

        `reported` contains the kinds of events that a shim reports.
        """
        return open_session.is_known or bool(reported) or self.listens_to(*_SESSION_EVENTS)

    def plan(self, event: Event, session: SessionContext) -> EventPlan:
        """Return the hooks that run for the event."""
        return self._engine.plan(event, session, self._layer)

    async def fire(
        self, event: E, session: SessionContext, size: int | None = None, plan: EventPlan | None = None
    ) -> Outcome[E]:
        """Run the event's hooks, or those of a plan for it.

        `size` is the size of the judged body in bytes, by default the request's.
        """
        outcome = await self._engine.fire(event, session, self._layer, plan)
        self.record.note_runs(event.name, outcome.runs, self.record.request_bytes if size is None else size)
        if outcome.verdict is not NO_VERDICT:
            self.record.note_verdict(event.name, outcome.verdict)
        return outcome

    def count_use(self, event: BeforeModel, session: SessionContext) -> None:
        """Let policies count what the current call uses, whose request was judged in an earlier call."""
        self._engine.count_use(self.plan(event, session), session)

    def note_blocked_tool(self, event: BeforeTool, outcome: Outcome[Any]) -> None:
        """Record the tool call of `event` if the outcome's hooks denied it or stopped the agent."""
        verdict = outcome.verdict
        if verdict.denied or verdict.stop:
            blocked = BlockedOutput(event.name, denying_hooks(outcome.runs), verdict.reason, event.tool_name)
            self.record.note_blocked(blocked, event.tool_input)

    def screens(self, plan: EventPlan, session: SessionContext) -> list[HookScreen]:
        """Return the screens for a streamed answer. Pass each to `record_screen` when the answer ends."""
        return self._engine.screens(plan, session)

    def record_screen(self, screen: HookScreen, session: SessionContext, size: int) -> None:
        """Record a screen's run at the end of an answer of `size` bytes."""
        run = screen.as_run()
        self._engine.report_runs(AfterModel.name, [run], session)
        self.record.note_runs(AfterModel.name, [run], size)
        if run.enforced_denial:
            reason = str((run.output_or_denial() or {}).get("reason") or "")
            self.record.note_verdict(AfterModel.name, Verdict("deny", reason=reason))


class GatewayServices:
    """What all calls of one gateway share, such as the upstreams, the sessions and the audit."""

    def __init__(  # noqa: PLR0913  # the parts of a gateway that calls use
        self,
        upstreams: Upstreams,
        config: Config,
        *,
        audit: "Audit | None" = None,
        sessions: Sessions | None = None,
        issued_keys: "IssuedKeys | None" = None,
        interactions: KnownInteractions | None = None,
    ) -> None:
        """Calls are recorded in `audit`, if given. Without `sessions`, sessions are kept in memory.

        Without `issued_keys`, no keys of the gateway are accepted. Without `interactions`, earlier
        interactions are unknown.

        Raises KeysError if the keys cannot be read, ConfigError if the price table is invalid.
        """
        self.upstreams, self.config, self.audit = upstreams, config, audit
        self.sessions = sessions or LocalSessions()
        self.interactions = interactions or KnownInteractions()
        self.receipts = Receipts()
        self.bypasses = Bypasses()
        refuses = config.clients.unknown_keys == "refuse"
        self.issued_keys = issued_keys
        self.callers = Callers(
            load_named_keys(config.keys), refuses_unknown=refuses, issues=issued_keys is not None
        )
        self.prices = read_prices(config.prices.file)
        self.slices = LoopSlices()
        self.long_steps = LongSteps()
        self.transcripts = open_transcripts(config.transcripts, find_sources(config.hooks).state)

    def settle_usage(self, record: CallRecord, *, continues: bool = False) -> None:
        """Report to policies what a call has used since the last report, and add its price to the cost.

        `continues` says that the call has not ended.
        """
        counted = record.counted_usage
        used, record.settled_usage = counted - record.settled_usage, counted
        cost = None
        if self.prices:
            tokens = used.input_tokens, used.output_tokens, used.cached_tokens
            cost = self.prices.cost(record.model, *tokens)
            record.cost = cost if cost is None or record.cost is None else record.cost + cost
        end = CallEnd(record.model, used.input_tokens, used.output_tokens, cost, continues)
        callbacks = [callback for state in record.call_states for callback in state.at_end]
        _notify([*callbacks, *record.at_use], end)

    def settle(self, record: CallRecord) -> None:
        """Settle a call that has ended: compute its cost, notify policies, and keep its receipt."""
        self.settle_usage(record, continues=record.continues_in_background)
        if record.at_end is not None:
            used = record.counted_usage
            end = CallEnd(record.model, used.input_tokens, used.output_tokens, record.cost)
            _notify([record.at_end], end)
        key = record.session.key if record.session else ""
        if key and record.was_answered_by_model:
            self.sessions.accept(key)
        receipt = self.receipts.add(record, self.sessions.keys.shares(key)[0])
        if self.audit is not None:
            self.audit.settle(record, receipt)

    async def receipt_for(self, receipt: str, key: str) -> JsonObject | None:
        """Return a receipt of a key, or None. It may be one of another gateway with the same audit."""
        found = self.receipts.receipt_for(receipt, key)
        if found is None and self.audit is not None:
            return await self.audit.receipt_for(receipt, key)
        return found

    def note_error(self, record: CallRecord, error: ApiError) -> None:
        """Record and log an error that ends a call, whether or not it can still be sent to the client."""
        record.note_error(error)
        note_cause(error.cause)
        if isinstance(error, NoAnswerError):
            log.warning("no answer from %s: %s", error.origin, error.why)
        elif error.reason in UPSTREAM_FAILED:
            log.warning("the upstream's answer failed: %s", error.audit_text)

    def note_upstream_failure(self, record: CallRecord, failure: str) -> None:
        """Record and log that the upstream failed in an answer whose status was a success."""
        record.outcome = "failed"
        record.reasons["gateway"] = f"{UPSTREAM_BROKE}: {failure}"
        note_cause(UPSTREAM_BROKE)
        log.warning("the upstream failed during its answer: %s", failure)

    async def record_start(self, record: CallRecord) -> None:
        """Record the start of a call before it is sent upstream. Raises ApiError if that fails."""
        if not record.start_recorded:
            if self.audit is not None:
                await self.audit.record_start(record)
            record.before_seconds = record.elapsed()
            record.start_recorded = True

    async def record_event(self, record: CallRecord) -> None:
        """Record a shim's event before it is answered. Raises ApiError if that fails."""
        if self.audit is not None:
            await self.audit.record_event(record, 200)


def _notify(callbacks: Iterable[Callable[[CallEnd], None]], end: CallEnd) -> None:
    """Call the callbacks for the end of a call, each even if another one fails."""
    for callback in callbacks:
        try:
            callback(end)
        except Exception:  # the call is still put on record
            log.exception("a policy failed at the end of a call; please report this")


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """The facts about one model call that outlive its parsed body. A batch contains several calls."""

    route: Route
    session: SessionContext
    named: bool
    """Whether the client names its session. If not, its ID is derived from the conversation."""
    adapter: DialectAdapter
    tool_turn: bool
    """Whether the last turn is a tool's result. If so, a denial is a text: clients retry after an error."""

    @property
    def requires_json(self) -> bool:
        """Whether the client requires JSON. If so, a denial is an error: clients retry after other text."""
        return self.session.call_state.requires_json


def call_in_session(
    session: SessionContext, route: Route, body: JsonObject, adapter: DialectAdapter, *, named: bool
) -> JudgedCall:
    """Return the facts of the call with `body` in a session that the client names, or that is derived."""
    contents = read_list(body, "contents")
    session.call_state.operation = route.verb
    session.call_state.requires_json = requires_json(read_object(body, "generationConfig"))
    return JudgedCall(
        route=route,
        session=session,
        named=named,
        adapter=adapter,
        tool_turn=bool(contents) and has_part(contents[-1], "functionResponse"),
    )


class CallContext:
    """The context of one request until its answer ends."""

    def __init__(
        self,
        request: Request,
        record: CallRecord,
        route: Route,
        services: GatewayServices,
        issued: "IssuedKey | None" = None,
    ) -> None:
        """`issued` is the key of the request, if it is one that a gateway has issued.

        Raises ApiError if the session name is invalid.
        """
        self.request, self.record, self.route, self.services = request, record, route, services
        self.caller = services.callers.caller_for(route, request.headers, issued)
        self.named_session = named_session(route, request.headers)
        """The session name in the path or header; empty if there is none."""
        self.earlier_session = ""
        """The session of the interaction that the call continues or reads; empty if it is unknown."""
        self.observers: list[CallObserver] = []
        """Observers of the call's content. Usually empty."""
        self._admission: Admission | None = None
        self.steps = CallSteps(
            request.body_worker,
            services.long_steps,
            services.slices,
            self.caller.key,
            self.named_session or request.id,
        )
        """Runs the steps of this call."""

    def reported_kinds(self, open_session: OpenSession) -> Collection[ReportedKind]:
        """Return the kinds of events that a shim has sent so far, or claims to report in this call."""
        if not self.services.config.shims.believed:
            return ()
        return open_session.state.reported_kinds(self.request.headers.get(SHIM_HEADER, ""))

    async def admit(self) -> None:
        """Check whether the caller may make this call. Raises ApiError (403) if not."""
        services, issued = self.services, self.caller.issued
        if issued is None or services.issued_keys is None:
            services.callers.admit(self.route, self.request.headers)
            return
        route = with_gateway_credential(self.route, issued.team)
        refusal = services.upstreams.refusal(route)
        self._admission = await services.issued_keys.admit(issued, self.route, refusal)
        if self._admission is not None:
            self.record.at_use, self.record.at_end = self._admission.at_use, self._admission.end
        self.route = route

    async def name_model(self, model: str) -> None:
        """Record the model that the request names, or the one that a hook has chosen instead.

        Raises ApiError (403) if the caller's issued key may not be used for it.
        """
        self.record.model = model
        if self._admission is not None:
            await self._admission.name_model(model)

    def begin_streaming(self) -> None:
        """Note that the answer is streamed, because the body of the request says so."""
        self.route = self.route.as_stream()
        self.record.streamed = True
        if self.record.content is not None:
            self.record.content.route = self.route

    async def check_key_again(self) -> None:
        """Check the caller's issued key again after its body has arrived. Raises ApiError (403)."""
        if self._admission is not None:
            await self._admission.check_again()

    async def check_key_limits(self, model: str) -> None:
        """Check the limits of the caller's issued key for the next turn of a Live session.

        What the turn is expected to use is held. Raises ApiError (403).
        """
        if self._admission is not None:
            await self._admission.check_limits(model, self.record.expected_use())

    async def key_withdrawn(self) -> None:
        """Wait until the caller's issued key is no longer valid."""
        keys, issued = self.services.issued_keys, self.caller.issued
        if keys is not None and issued is not None:
            await keys.withdrawn(issued)

    async def read_body(self) -> JsonObject:
        """Return the request's body, a JSON object, and record its size. Raises ApiError."""
        body = await read_request(self.request)
        self._record_size()
        return body

    async def read_data(self) -> bytes:
        """Return the bytes of the request's body, and record their number. Raises ApiError (403, 413)."""
        data = await read_bytes(self.request)
        self._record_size()
        return data

    def _record_size(self) -> None:
        self.record.request_bytes, self.steps.work = self.request.body_size, self.request.body_work

    async def expect_use(
        self, session: SessionContext, *requests: JsonObject, generates: bool = True
    ) -> None:
        """Estimate what a call with these requests will use. Limits hold that until the call has ended."""
        session.call_state.expected = await self.steps.run(estimate_all, requests, generates)

    async def begin_judged_call(
        self, body: JsonObject, adapter: DialectAdapter | None = None, session_in_body: str = ""
    ) -> tuple[JudgedCall, OpenSession]:
        """Find the session of a model call, and begin to record the call. Returns its facts and its session.

        A call without a session name belongs to the session that a shim announced, or else to that of its
        conversation. `session_in_body` is the name in its body, which is used if neither path nor header has
        one. Raises ApiError if sessions cannot be read.
        """
        call, open_session = await self._find_session(body, adapter or GenerateContent(), session_in_body)
        self._queue_start(call.session)
        return call, open_session

    async def _find_session(
        self, body: JsonObject, adapter: DialectAdapter, session_in_body: str
    ) -> tuple[JudgedCall, OpenSession]:
        call, texts = await self.steps.run(self._describe, body, adapter, session_in_body)
        open_session = await self.services.sessions.open(call.session, texts)
        session = open_session.session
        if self.services.transcripts is not None:
            session = self.services.transcripts.located(session)
        session.call_state.steps = self.steps
        return replace(call, session=session), open_session

    def _describe(
        self, body: JsonObject, adapter: DialectAdapter, session_in_body: str
    ) -> tuple[JudgedCall, list[str] | None]:
        """Return the facts of a model call, and the fingerprints of its last turn if it names no session.

        The session of a call without a name is that of the interaction that it continues, or else derived
        from the conversation.
        """
        contents, caller = read_list(body, "contents"), self.caller
        name = self.named_session or session_in_body
        session = caller.in_session(name or self.earlier_session or caller.conversation_id(contents))
        call = call_in_session(session, self.route, body, adapter, named=bool(name))
        if name:
            return call, None
        last = contents[-1] if contents else None
        # Inputs are checked one by one later, so it may be anything.
        return call, [text_fingerprint(text) for text in texts_of(last)] if isinstance(last, dict) else []

    def _queue_start(self, session: SessionContext) -> None:
        """Note the session of a model call, and begin to write the start of the call to the audit."""
        if not self.record.call_states:
            note_session(session.session_id)
        self.record.note_call(session)
        if self.services.audit is not None:
            self.services.audit.queue_start(self.record)

    @asynccontextmanager
    async def send(
        self,
        route: Route,
        headers: Mapping[str, str],
        data: bytes | AsyncIterable[bytes] | None = None,
        *,
        decompress: bool = True,
    ) -> AsyncIterator[UpstreamAnswer]:
        """Send the request upstream and yield the answer before its body is read.

        Raises ApiError if there is no answer, and before sending if the start of the call cannot be recorded
        or the caller's key is no longer valid. Raises UpstreamError if reading the answer fails.
        """
        if self._admission is not None:
            await self._admission.hold(self.record.expected_use())
        await self.services.record_start(self.record)
        await self.check_key_again()
        upstreams, method = self.services.upstreams, self.request.method
        if route.credential_team is not None:
            attempts = FailOver(upstreams, self.record, method, route, self.steps.run, decompress=decompress)
            async with attempts.final_answer(headers, data) as answer:
                yield answer
            return
        with self.record.attempt() as attempt:
            async with upstreams.open(attempt, method, route, headers, data, decompress=decompress) as answer:
                yield answer


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """A call to send upstream. The parsed body is discarded to save memory."""

    call: JudgedCall
    route: Route
    model: str
    payload: bytes
    after_model_plan: EventPlan
    """The AfterModel hooks that run for the answer."""
    llm_request: SharedValue
    """The request as shown to AfterModel hooks; empty if none of them is shown it."""
    allowed: ToolSelection | None
    """The tools that the answer may call; None if no hook selected any."""
    reported: Collection[ReportedKind]
    """The kinds of events that a shim reports. Derived ones of these kinds run hooks of policy files only."""
    prompt: str
    """The text of the user's turn to answer; empty if no hook needs it."""
    descriptions: Mapping[str, str]
    """The descriptions of the request's tools, by name; empty if no hook needs them."""

    def with_turns(self, turns: list[JsonObject]) -> "OutgoingCall":
        """Return a copy of the call with `turns` appended to its conversation."""
        sent = loads(self.payload)
        model, body = self.call.adapter.decode_request(self.route, sent)
        body = write(body, "contents", [*read_list(body, "contents"), *turns])
        return replace(self, payload=dumps(self.call.adapter.encode_request(sent, model, body)))
