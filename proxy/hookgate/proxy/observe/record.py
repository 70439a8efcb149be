"""The record of one call, filled in while the call runs.

It contains no content of the call, except what the audit or a trace keeps.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import partial
from operator import attrgetter
from secrets import token_hex
from typing import Self

from hookgate.hooks import CallEnd, CallState, Run, SessionContext, Verdict
from hookgate.hooks.session import UNREADABLE_MODEL, ExpectedUse, LimitUse
from hookgate.hooks.settings import ADVISORY, Hook
from hookgate.proxy.errors import POLICY_DENIED, UPSTREAM_FAILED, ApiError
from hookgate.proxy.observe.content import CallContent
from hookgate.proxy.observe.explaining import DECIDES
from hookgate.proxy.observe.hook_tally import HookTally, add_count, hook_type
from hookgate.proxy.observe.outcomes import CallOutcome
from hookgate.proxy.observe.trace_context import Trace, new_span
from hookgate.proxy.observe.usage import NO_USAGE, Usage
from hookgate.translator.fields import JsonObject

MAX_BLOCKED = 50
"""The maximum number of blocked outputs that a call's record lists. The others are only counted."""


_LONGEST_REASON = 300
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class BlockedOutput:
    """A tool call that the agent was not allowed to run, or an answer that it did not get."""

    event: str
    """The event whose hooks decided it. After AfterAgent, the model is asked for another answer."""
    hooks: tuple[str, ...]
    """The names of the hooks that decided it; empty if the gateway itself did."""
    reason: str
    tool: str = ""
    """The name of the tool; empty for an answer."""

    def as_json(self) -> JsonObject:
        """Return the fields for receipts and records, with long texts cut off."""
        fields = {"event": self.event, "hooks": list(self.hooks), "reason": self.reason[:_LONGEST_REASON]}
        return {**fields, "tool": self.tool[:_LONGEST_NAME]} if self.tool else fields


CALL_ID = re.compile(r"[0-9a-f]{32}")
"""Matches the ID of a call, which is also that of its receipt."""


class UpstreamAttempt:
    """One request to the upstream. Times are in seconds of the monotonic clock.

    `span` is its ID in the call's trace, or 0 without a trace. `status` is the answer's status, or 0 as long
    as there is no answer. `credential` and `location` name the gateway's credential with which it
    was sent, and `server` the host; they are empty if it was sent with the caller's.
    """

    __slots__ = (
        "_trace",
        "answered",
        "began",
        "credential",
        "ended",
        "location",
        "server",
        "span",
        "status",
    )

    def __init__(self, trace: Trace | None) -> None:
        self._trace = trace
        self.span = new_span() if trace else 0
        self.began = time.monotonic()
        self.answered = self.ended = 0.0
        self.status = 0
        self.credential = self.location = self.server = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Note that the answer has been read to its end or abandoned."""
        self.ended = time.monotonic()
        self.answered = self.answered or self.ended

    def note_credential(self, name: str, location: str, server: str) -> None:
        """Note which of the gateway's credentials the request is sent with, and where."""
        self.credential, self.location, self.server = name, location, server

    def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers to send, with the trace's headers if there is a trace."""
        return headers if self._trace is None else self._trace.outgoing(headers, self.span)

    def answer_began(self, status: int) -> None:
        """Note that the headers of the answer have arrived."""
        self.answered, self.status = time.monotonic(), status

    @property
    def waited(self) -> float:
        """Seconds until the answer began."""
        return self.answered - self.began if self.answered else 0.0


class AuditState(IntEnum):  # unlike Enum, it is hashed without a call of a Python function
    """How far the audit of a call has come: whether it may be sent upstream, and whether records follow."""

    UNKNOWN = auto()
    """The initial state: it is not known yet whether the call is audited."""
    NOT_AUDITED = auto()
    """It may be sent upstream."""
    PENDING = auto()
    """It may be sent once its start is on disk."""
    STARTED = auto()
    """Its start is on disk, so it may be sent upstream. Its end follows."""
    START_FAILED = auto()
    """Its start, or the event, could not be written in time. It is never sent, but its end follows."""
    DONE = auto()
    """No further records of it are written, but those that are queued."""


_NEXT_STATES: Mapping[AuditState, frozenset[AuditState]] = {
    AuditState.UNKNOWN: frozenset({AuditState.NOT_AUDITED, AuditState.PENDING}),
    AuditState.NOT_AUDITED: frozenset(),
    AuditState.PENDING: frozenset({AuditState.STARTED, AuditState.START_FAILED, AuditState.DONE}),
    AuditState.STARTED: frozenset({AuditState.DONE}),
    AuditState.START_FAILED: frozenset({AuditState.DONE}),
    AuditState.DONE: frozenset({AuditState.START_FAILED}),  # a shim's event that could not be written
}

_SENDABLE = frozenset({AuditState.NOT_AUDITED, AuditState.STARTED})


_ENDING = frozenset({"SessionStart", "BeforeAgent", "BeforeModel", "BeforeToolSelection", "AfterModel"})
"""Events whose denial ends a call. Denials of other events concern a tool, or the end of a turn."""


def no_bytes() -> int:
    """Return 0, the bytes held back of an answer that no hook judges."""
    return 0


@dataclass(slots=True)
class CallRecord:
    """The log of one request to the gateway: what is known of it, its answer and its hooks.

    Times are in seconds.
    """

    id: str = field(default_factory=partial(token_hex, 16))
    request_id: str = ""
    began: float = field(default_factory=time.time)
    kind: str = ""
    """The kind of route."""
    route: str = ""
    """The path upstream."""
    event: str = ""
    """The event that a shim sent, if the request is one."""
    session: SessionContext | None = None
    """The caller and its session, if known. The session has no ID if the call does not belong to one."""
    issued_key: str = ""
    """The ID of the caller's key, if a gateway has issued it."""
    at_end: Callable[[CallEnd], None] | None = None
    """Called when the call has ended, with all that it has used."""
    at_use: list[Callable[[CallEnd], None]] = field(default_factory=list)
    """Called with what the call has used since they were last called: at its end, or after each turn."""
    key_limits: Mapping[object, LimitUse] = field(default_factory=dict)
    """How much is used of the limits of the caller's key, if a gateway has issued it."""
    in_background: bool = False
    """Whether the model goes on after the answer, in which case a later call reports what was used."""
    expected_in_background: Usage = NO_USAGE
    """What the model is expected to use after the call: it counts for limits, as no call may ever read it."""
    counted_ahead: Usage = NO_USAGE
    """What has counted for limits of the tokens that this call reports: an estimate, when the model began."""
    call_state: CallState | None = None
    """The state that policies keep about the call, once its session is known."""
    model: str = ""
    """The model that was asked: the client's choice, or that of a hook."""
    answered_by: str = ""
    """The model that has answered, as the latest answer names it; empty if that is unknown."""
    revision: str = ""
    """The revision of the hooks' settings; empty if hooks do not apply to the route."""
    streamed: bool = False
    """Whether the client asked for a stream."""
    held_bytes: Callable[[], int] = no_bytes
    """Returns how many bytes of the answer are currently held back for hooks."""
    trace: Trace | None = None
    status: int = 0
    dropped: bool = False
    """Whether the gateway ended its connection when it stopped."""
    outcome: CallOutcome | None = None
    request_bytes: int = 0
    """The size of the request's body."""
    answer_bytes: int = 0
    """The bytes sent to the client, including headers."""
    attempts: list[UpstreamAttempt] = field(default_factory=list)
    """Requests to the upstream: none if the call ended earlier, several if the model was called again, or if
    another credential was tried."""
    usage: Usage = NO_USAGE
    """The tokens that the upstream has reported."""
    estimated_usage: Usage = NO_USAGE
    """An estimate of the tokens that were used and not reported, for example because the client left."""
    settled_usage: Usage = NO_USAGE
    """The part of both that policies have counted while the call was running."""
    cost: float | None = None
    priority: bool = False
    """Whether the call is of the service tier `priority`: as the answer says, or else as the request asks."""
    upload: JsonObject | None = None
    """What was uploaded: its type, whether hooks judged it, and the position and number of its bytes."""
    live: dict[str, int] = field(default_factory=dict)
    """The bytes of audio in a Live session that hooks could not judge themselves, by their direction."""
    bypasses: int = 0
    """Results in this call of tools that ran without a BeforeTool event."""
    before_seconds: float | None = None
    """The time until the request was sent upstream."""
    first_seconds: float | None = None
    """The time until the headers of the answer were sent to the client."""
    seconds: float = 0.0
    degraded: tuple[str, ...] = ()
    """Hooks whose last run had failed when the call ended."""
    not_applied: tuple[str, ...] = ()
    """What hooks have decided and the agent, or the gateway, that asks for decisions cannot apply."""
    hooks: dict[tuple[str, Hook], HookTally] = field(default_factory=dict)
    refused_path: str = ""
    """The path of a request that was refused before it counted as a call; parts may be masked."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The reasons for denials and stops, by event; under `gateway`, the reason for an error of hookgate."""
    blocked: list[BlockedOutput] = field(default_factory=list)
    """What hooks kept from the agent, at most MAX_BLOCKED entries."""
    blocked_count: int = 0
    """The number of outputs that hooks kept from the agent."""
    approvals: list[JsonObject] = field(default_factory=list)
    """What people have decided about tool calls for which hooks asked, at most MAX_BLOCKED entries."""
    approvals_until: float | None = None
    """Until when the call waits for people to decide, on the monotonic clock; None if it has not waited."""
    audit_state: AuditState = AuditState.UNKNOWN
    content: CallContent | None = None
    """The content of the call, if the audit stores it."""
    _clock: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        """Return the time since the call began."""
        return time.monotonic() - self._clock

    @property
    def counted_usage(self) -> Usage:
        """The tokens that count for limits and prices: those that were reported, and the estimate."""
        return self.usage + self.estimated_usage

    @property
    def was_rerouted(self) -> bool:
        """Whether another model has answered than the one that was asked, or than is known to be asked."""
        return self.answered_by not in ("", self.model)

    def expected_use(self) -> ExpectedUse:
        """Return what all calls of the request are expected to use."""
        return ExpectedUse() if self.call_state is None else self.call_state.expected

    @property
    def began_monotonic(self) -> float:
        """When the call began, on the monotonic clock."""
        return self._clock

    @property
    def upstream_requests(self) -> int:
        """The number of requests to the upstream."""
        return len(self.attempts)

    @property
    def was_answered_by_model(self) -> bool:
        """Whether the model answered a judged call, which requires a valid key."""
        return self.kind == "judged" and any(200 <= each.status < 300 for each in self.attempts)

    @property
    def upstream_seconds(self) -> float:
        """The time until the upstream's answer began, summed over all requests to it."""
        seconds: float = sum(map(attrgetter("waited"), self.attempts))
        return seconds

    @property
    def waited_before_first(self) -> float:
        """The part of `upstream_seconds` that passed before the answer to the client began."""
        first = self._clock + (self.first_seconds or 0.0)
        return sum(max(0.0, min(request.answered, first) - request.began) for request in self.attempts)

    def attempt(self) -> UpstreamAttempt:
        """Register one upstream request, and return it for the upstream client. It ends as a context manager.

        Raises RuntimeError unless the start of the call is on disk, or the call is not audited.
        """
        if self.audit_state not in _SENDABLE:
            raise RuntimeError("a call must not be sent upstream before its start is recorded")
        attempt = UpstreamAttempt(self.trace)
        self.attempts.append(attempt)
        return attempt

    def note_model(self, model: str) -> None:
        """Note the model that the call is for; also for the conditions of hooks, once it has a session."""
        self.model = model
        if (state := self.call_state) is not None:
            state.model = model

    def note_sending(self) -> None:
        """Note that the request is about to be sent upstream, after all that came before."""
        if self.before_seconds is None:
            self.before_seconds = self.elapsed()

    def advance_audit(self, state: AuditState) -> None:
        """Note how far the audit has come. Raises RuntimeError if the state cannot follow the current one."""
        if state not in _NEXT_STATES[self.audit_state]:
            raise RuntimeError(f"a call's audit cannot become {state.name} after {self.audit_state.name}")
        self.audit_state = state

    def note_session(self, session: SessionContext) -> None:
        """Note that a call belongs to this session."""
        self.session, self.call_state = session, session.call_state

    def nearest_limit(self) -> LimitUse | None:
        """Return the limit of which most is used, if that is so much that the caller is warned."""
        own = self.call_state.limits if self.call_state is not None else {}
        uses = [use for use in (*own.values(), *self.key_limits.values()) if use.share >= _NEAR]
        return max(uses, key=lambda use: use.share, default=None)

    def note_answered_by(self, model: str) -> None:
        """Note the model that an answer of the upstream names as its own."""
        if model != UNREADABLE_MODEL:
            self.answered_by = model
        if self.call_state is not None:
            self.call_state.answered_by = model

    def note_runs(self, event: str, runs: Iterable[Run], size: int) -> None:
        """Add the runs of hooks for an event whose body has `size` bytes."""
        for run in runs:
            tally = self.hooks.get((event, run.hook))
            if tally is None:
                tally = HookTally(event, run.hook.name, hook_type(run.hook), run.hook.config.mode)
                self.hooks[event, run.hook] = tally
            tally.add(run, size)
            if self.content is not None:
                self.content.note_run(event, run)

    def note_verdict(self, event: str, verdict: Verdict) -> None:
        """Add the combined verdict of an event's hooks."""
        if verdict.reason and (verdict.stop or verdict.denied):
            self.reasons[event] = verdict.reason
        if verdict.stop and event not in ADVISORY:
            self.outcome = "stopped"
        elif verdict.synthetic:
            self.outcome = "synthetic"
        elif verdict.denied and event in _ENDING:
            self.outcome = "denied"

    def note_blocked(self, blocked: BlockedOutput, arguments: JsonObject | None = None) -> None:
        """Add an output that hooks kept from the agent, with the arguments if it is a tool call."""
        self.blocked_count += 1
        if self.blocked_count <= MAX_BLOCKED:
            self.blocked.append(blocked)
            if self.content is not None:
                self.content.note_blocked(blocked.tool, arguments)

    def start_waiting(self, seconds: float) -> float | None:
        """Return until when the call waits for people: so many seconds after this was first called.

        It is a time on the monotonic clock, or None for a call that does not wait.
        """
        if seconds and self.approvals_until is None:
            self.approvals_until = time.monotonic() + seconds
        return self.approvals_until

    def note_approval(self, approval: JsonObject) -> None:
        """Add what people have decided about a tool call, or that they were asked."""
        if len(self.approvals) < MAX_BLOCKED:
            self.approvals.append(approval)

    def note_error(self, error: ApiError) -> None:
        """Add an error that ends the call. The reasons of denials are already recorded by event."""
        if error.reason != POLICY_DENIED:
            self.reasons["gateway"] = error.audit_text
        if error.reason in UPSTREAM_FAILED:
            self.outcome = "failed"

    def end(self, status: int, sent: int, *, dropped: bool = False) -> None:
        """Note the end of the call: its status, or 0 without a complete answer, and the bytes sent.

        `dropped` says whether the gateway ended its connection.
        """
        self.status, self.answer_bytes, self.seconds = status, sent, self.elapsed()
        self.dropped = dropped and not status
        if self.outcome is None:
            unanswered: CallOutcome = "interrupted" if dropped else "left"
            answered: CallOutcome = "blocked" if self.blocked_count else "answered"
            self.outcome = unanswered if not status else answered if status < 400 else "refused"

    def deciding_hooks(self) -> list[str]:
        """Return the names of the hooks that decided the outcome, or that blocked tool calls or answers."""
        if self.outcome == "blocked":
            return list(dict.fromkeys(hook for each in self.blocked for hook in each.hooks))
        decisions = DECIDES.get(self.outcome or "", ())
        enforced = (tally for tally in self.hooks.values() if tally.mode != "observe")
        return list(
            dict.fromkeys(tally.hook for tally in enforced if any(map(tally.decisions.get, decisions)))
        )

    def found_kinds(self) -> dict[str, int]:
        """Return what all hooks have found, by kind."""
        found: dict[str, int] = {}
        for tally in self.hooks.values():
            for kind, count in tally.findings.items():
                add_count(found, kind, count)
        return found


BUDGET_HEADER = "x-hookgate-budget"
"""The header that warns a caller of whose limit most is used."""

_NEAR = 0.8
"""The share of a limit from which on callers are warned."""
