"""Runs the hooks of one call, records their runs, and converts verdicts to what the client receives.

What it receives has a form that real clients display and do not retry: an error status for a user's turn, and
text where an error would make the client prompt the model again or retry.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate.hooks import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeAgent,
    BeforeModel,
    BeforeTool,
    BeforeToolSelection,
    Engine,
    Event,
    Outcome,
    SessionContext,
    SessionStart,
    Verdict,
)
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.merge import NO_VERDICT
from hookgate.hooks.policies.estimates import estimate_use
from hookgate.hooks.screening import HookScreen
from hookgate.hooks.session import CallState, ExpectedUse
from hookgate.hooks.settings import Layer
from hookgate.proxy.approvals.requests import AskedCall
from hookgate.proxy.calls.endings import Ended, Replacement
from hookgate.proxy.errors import policy_denied
from hookgate.proxy.observe.hook_tally import asking_hooks, denying_hooks
from hookgate.proxy.observe.record import BlockedOutput, CallRecord
from hookgate.proxy.routes.table import Route
from hookgate.proxy.sessions.sessions import OpenSession, ReportedKind
from hookgate.translator import synthetic_response, text_response
from hookgate.translator.fields import JsonObject, has_part, read_list, read_object
from hookgate.translator.known_turns import NO_TURNS, RequestTurns
from hookgate.translator.request import requires_json
from hookgate.translator.response import is_json_answer, is_whole

if TYPE_CHECKING:  # it imports SQLAlchemy, which only approvals need
    from hookgate.proxy.approvals.asking import ApprovalAnswer, Approvals

DENIED = "A hook denied this call without giving a reason."
STOPPED = "A hook stopped the agent without giving a reason."
NO_REASON = "a hook denied it"
"""The reason that the model is told if a hook gives none."""
NOT_JSON = "A hook returned a synthetic answer that is not JSON, but this call requires JSON."

_NO_ANSWER = "A hook returned a synthetic answer, which is not possible for {}."

_SESSION_EVENTS = (SessionStart.name, BeforeAgent.name, AfterAgent.name, BeforeTool.name, AfterTool.name)
"""Events that may stop a session until its next turn, so its turn must be known."""

E = TypeVar("E", bound=Event)


def create_call_state(
    route: Route, body: JsonObject, *, generates: bool = False, turns: RequestTurns = NO_TURNS
) -> CallState:
    """Return the state of a call that begins, whose request, if it has only one, is `body`.

    If it generates content, what the request is expected to use is estimated. `turns` are those of it whose
    JSON is canonical.
    """
    return CallState(
        operation=route.verb,
        apis=frozenset({route.api}),
        own_model=route.own_model,
        requires_json=requires_json(read_object(body, "generationConfig")),
        expected=estimate_use(body, turns=turns) if generates else ExpectedUse(),
        turns=turns,
    )


@dataclass(frozen=True, slots=True)
class Judge:
    """The hooks that judge one call, in its session, with one engine. Their runs go to the call's record."""

    engine: Engine
    record: CallRecord
    session: SessionContext
    layer: Layer | None = None
    """The layer whose hooks run; None for those of all layers."""
    tool_turn: bool = False
    """Whether the last turn is a tool's result. If so, a denial is a text: clients retry after an error."""
    approvals: "Approvals | None" = None
    """Asks people about tool calls if hooks decide `ask`. Without it, such a call passes."""

    @classmethod
    def of_call(
        cls,
        engine: Engine,
        record: CallRecord,
        session: SessionContext,
        body: JsonObject,
        approvals: "Approvals | None" = None,
    ) -> "Judge":
        """Return the judge of a call whose request, if it has only one, is `body`."""
        contents = read_list(body, "contents")
        tool_turn = bool(contents) and has_part(contents[-1], "functionResponse")
        return cls(engine, record, session, tool_turn=tool_turn, approvals=approvals)

    @property
    def requires_json(self) -> bool:
        """Whether the client requires JSON. If so, a denial is an error: clients retry after other text."""
        return self.session.call_state.requires_json

    def of_derived(self, kind: ReportedKind, reported: Collection[ReportedKind]) -> "Judge":
        """Return the judge of derived events of a kind; `reported` contains the kinds that a shim reports.

        If a shim reports such events, only the hooks of policy files run on derived ones. They still run
        because any client can claim to be a shim.
        """
        return replace(self, layer="policy") if kind in reported else self

    # ---- which hooks run

    def listens_to(self, *events: str) -> bool:
        """Return whether any hook is configured for one of the events."""
        return self.engine.listens_to(*events, layer=self.layer)

    def enforces(self, event: str) -> bool:
        """Return whether any hook for the event does more than observe."""
        return self.engine.enforces(event, self.layer)

    def needs_session_events(self, open_session: OpenSession, reported: Collection[ReportedKind]) -> bool:
        """Return whether events of the session must be derived or checked.

        `reported` contains the kinds of events that a shim reports.
        """
        return open_session.is_known or bool(reported) or self.listens_to(*_SESSION_EVENTS)

    def plan(self, event: Event) -> EventPlan:
        """Return the hooks that run for the event."""
        return self.engine.plan(event, self.session, self.layer)

    def fingerprint(self, event: Event) -> str:
        """Return a digest of what decides which hooks run for such an event, whatever its tool is."""
        digest = self.engine.fingerprint(event, self.session)
        return f"{self.layer}-{digest}" if self.layer else digest

    # ---- running them

    async def fire(self, event: E, size: int | None = None, plan: EventPlan | None = None) -> Outcome[E]:
        """Run the event's hooks, or those of a plan for it.

        `size` is the size of the judged body in bytes, by default the request's.
        """
        outcome = await self.engine.fire(event, self.session, self.layer, plan)
        self.record.note_runs(event.name, outcome.runs, self.record.request_bytes if size is None else size)
        if outcome.verdict is not NO_VERDICT:
            self.record.note_verdict(event.name, outcome.verdict)
            if isinstance(outcome.event, BeforeTool):
                self._note_blocked_tool(outcome.event, outcome)
        return outcome

    def _note_blocked_tool(self, event: BeforeTool, outcome: Outcome[Any]) -> None:
        """Record the tool call of `event` if the outcome's hooks denied it or stopped the agent."""
        verdict = outcome.verdict
        if verdict.denied or verdict.stop:
            blocked = BlockedOutput(event.name, denying_hooks(outcome.runs), verdict.reason, event.tool_name)
            self.record.note_blocked(blocked, event.tool_input)

    def leaves_to_people(self, verdict: Verdict) -> bool:
        """Return whether people decide about a tool call with this verdict of its hooks."""
        return self.approvals is not None and verdict.decision == "ask" and not verdict.stop

    async def ask_people(
        self, outcomes: Sequence[Outcome[BeforeTool]], *, may_wait: bool = False, together: bool = True
    ) -> list[Verdict]:
        """Return the verdicts of people on tool calls of an answer that hooks leave to them.

        With `together`, all of them pass or none does. If `may_wait`, it may take as long as the
        configuration says, for all tool calls of this call together. A tool call that is not approved is
        denied.
        """
        assert self.approvals is not None  # noqa: S101  # for the type checker
        asked = [self._asked_call(each) for each in outcomes]
        until = self.record.start_waiting(self.approvals.hold) if may_wait else None
        answers = await self.approvals.answer(asked, until, together=together)
        return [self._verdict_of_people(*each) for each in zip(outcomes, asked, answers, strict=True)]

    def _asked_call(self, outcome: Outcome[BeforeTool]) -> AskedCall:
        event, session = outcome.event, self.session
        return AskedCall(
            key=session.key,
            session=session.session_id,
            call=self.record.id,
            team=session.team,
            agent=session.client,
            tool=event.tool_name,
            arguments=event.tool_input,
            hooks=asking_hooks(outcome.runs),
            why=outcome.verdict.reason,
        )

    def _verdict_of_people(
        self, outcome: Outcome[BeforeTool], asked: AskedCall, answer: "ApprovalAnswer"
    ) -> Verdict:
        """Record what people have decided about a tool call, and return it as a verdict."""
        event, verdict = outcome.event, outcome.verdict
        self.record.note_approval(answer.for_receipt())
        if answer.passes:
            return replace(verdict, decision="allow", reason="")
        denied = replace(verdict, decision="deny", reason=answer.reason)
        self.record.note_verdict(event.name, denied)
        blocked = BlockedOutput(event.name, asked.hooks, answer.reason, event.tool_name)
        self.record.note_blocked(blocked, event.tool_input)
        return denied

    async def select_tools_or_raise(self, model: str, body: JsonObject) -> JsonObject:
        """Return a request with the tools that BeforeToolSelection hooks select.

        Raises ApiError if a hook ends the call, because the answers of its method contain no model's text.
        """
        outcome = await self.fire(BeforeToolSelection(model, body))
        self.raise_if_ended(outcome.verdict, outcome.event.name)
        selected: JsonObject = await self.session.call_state.steps.run(outcome.verdict.apply_selection, body)
        return selected

    def count_use(self, model: str) -> None:
        """Let policies count what the current call uses, once that is known.

        An earlier call judged its request.
        """
        self.engine.count_use(self.plan(BeforeModel(model, {})), self.session)

    def screens(self, plan: EventPlan) -> list[HookScreen]:
        """Return the screens for a streamed answer, or an error. Pass each to `record_screen` at its end."""
        return self.engine.screens(plan, self.session)

    def record_screen(self, screen: HookScreen, size: int) -> None:
        """Record a screen's run at the end of an answer of `size` bytes."""
        run = screen.as_run()
        self.engine.report_runs(AfterModel.name, [run], self.session)
        self.record.note_runs(AfterModel.name, [run], size)
        if run.enforced_denial:
            reason = str((run.output_or_denial() or {}).get("reason") or "")
            self.record.note_verdict(AfterModel.name, Verdict("deny", reason=reason))

    # ---- what they decided

    def ended_by(self, verdict: Verdict, event: str) -> Ended | None:
        """Return what the client receives instead of the model's answer, or None if the call continues."""
        if verdict is NO_VERDICT:
            return None
        if verdict.stop:
            reason = verdict.reason or STOPPED
            return policy_denied(reason, event) if self.requires_json else Replacement(text_response(reason))
        if verdict.synthetic:
            answer, is_complete = synthetic_response(verdict.llm_response), is_whole(verdict.llm_response)
            if self.requires_json and not is_complete and not is_json_answer(answer):
                return policy_denied(NOT_JSON, event)
            return Replacement(answer, is_complete)
        if verdict.denied:
            reason = verdict.reason or DENIED
            as_text = self.tool_turn and not self.requires_json
            return Replacement(text_response(reason)) if as_text else policy_denied(reason, event)
        return None

    def raise_if_ended(self, verdict: Verdict, event: str) -> None:
        """Raise ApiError if a verdict ends a call of a method whose answers contain no model's text."""
        if verdict.stop:
            raise policy_denied(verdict.reason or STOPPED, event)
        if verdict.synthetic:
            reason = _NO_ANSWER.format(self.session.call_state.operation)
            self.record.outcome, self.record.reasons[event] = "denied", reason
            raise policy_denied(reason, event)
        if verdict.denied:
            raise policy_denied(verdict.reason or DENIED, event)

    def end_with(self, verdict: Verdict) -> Ended | None:
        """Note a verdict of the gateway itself, and return what it ends the call with."""
        self.record.note_verdict(BeforeModel.name, verdict)
        return self.ended_by(verdict, BeforeModel.name)
