"""The record of one call, filled in while it runs. It holds nothing of what was said."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from hookgate.hooks import CallState, Run, Session, Verdict
from hookgate.hooks.settings import ADVISORY, Hook
from hookgate.proxy.errors import POLICY_DENIED, ApiError
from hookgate.proxy.records.asked import Asked
from hookgate.proxy.records.content import Content
from hookgate.proxy.records.tally import HookTally, type_of
from hookgate.proxy.records.usage import Usage
from hookgate.proxy.tracing.context import Trace

Outcome = Literal["answered", "denied", "stopped", "synthetic", "refused", "failed", "left", "interrupted"]
"""How a call ended: as the model answered; by hooks, which denied it, stopped the agent or answered
themselves; refused by hookgate; with an error of the upstream; with a client that had left; or dropped by a
gateway that stopped."""

Audited = Literal["", "due", "began", "late", "ended"]
"""How far the audit of a call is: it takes no part; nothing is written; its start is; its start could not be
written in time; all that there is to write was given to the writer."""

_ENDING = frozenset({"SessionStart", "BeforeAgent", "BeforeModel", "BeforeToolSelection", "AfterModel"})
"""Events whose denial ends a call; others deny a tool, or a turn's last words."""


def no_bytes() -> int:
    """What a call holds back whose answer nobody judges."""
    return 0


@dataclass(slots=True)
class CallRecord:
    """One request to the gateway, from its first byte to the end of its answer. Times are in seconds."""

    id: str = field(default_factory=lambda: uuid4().hex)
    request_id: str = ""
    began: float = field(default_factory=time.time)
    kind: str = ""
    """The kind of route."""
    route: str = ""
    """The path upstream."""
    event: str = ""
    """The event that a shim told of, for such a request."""
    session: Session | None = None
    """Who called, as far as it is known; without an id when it is no call of a session."""
    calls: list[CallState] = field(default_factory=list)
    """What policies keep of it; of a batch there are several."""
    model: str = ""
    revision: str = ""
    """The revision of the hooks' settings; empty for what no hook could judge."""
    streamed: bool = False
    """Whether the client asked for a stream."""
    holding: Callable[[], int] = no_bytes
    """How many bytes of its answer hooks hold back just now."""
    trace: Trace | None = None
    status: int = 0
    dropped: bool = False
    """Whether the gateway ended its connection when it stopped."""
    outcome: Outcome | None = None
    request_bytes: int = 0
    """Of the request's body."""
    answer_bytes: int = 0
    """Sent to the client, headers among them."""
    requests: list[Asked] = field(default_factory=list)
    """Requests to the upstream: none for a denied call, several where the model was asked again."""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    bypasses: int = 0
    """Tools that ran past the agent's shim, as this call shows."""
    before_seconds: float | None = None
    """Until the request went upstream."""
    first_seconds: float | None = None
    """Until the first byte of an answer went to the client."""
    seconds: float = 0.0
    degraded: tuple[str, ...] = ()
    """Hooks whose last run had failed when the call ended."""
    hooks: dict[tuple[str, Hook], HookTally] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why hooks denied or stopped something, by event; why hookgate itself gave an error, under `gateway`."""
    audited: Audited = ""
    content: Content | None = None
    """What was said, where the audit wants it."""
    _clock: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        """Since the call began."""
        return time.monotonic() - self._clock

    @property
    def began_at(self) -> float:
        """When the call began, on the monotonic clock."""
        return self._clock

    @property
    def asked(self) -> int:
        """How many requests went to the upstream."""
        return len(self.requests)

    @property
    def upstream_seconds(self) -> float:
        """Until the upstream's answer began; over all requests to it."""
        return sum(request.waited for request in self.requests)

    @property
    def waited_before_first(self) -> float:
        """Of that what passed before the answer to the client began."""
        first = self._clock + (self.first_seconds or 0.0)
        return sum(max(0.0, min(each.answered, first) - each.began) for each in self.requests)

    @contextmanager
    def asking(self) -> Iterator[Asked]:
        """A request to the upstream, which has to be told when its answer has begun."""
        asked = Asked(self.trace)
        self.requests.append(asked)
        try:
            yield asked
        finally:
            asked.end()

    def note_call(self, session: Session) -> None:
        """The call is made in this session; a batch makes several."""
        if not self.calls:
            self.session = session
        self.calls.append(session.call)

    def note_runs(self, event: str, runs: Iterable[Run], size: int) -> None:
        """Hooks have run for an event that showed so many bytes."""
        for run in runs:
            key = event, run.hook
            if key not in self.hooks:
                self.hooks[key] = HookTally(event, run.hook.name, type_of(run.hook), run.hook.config.mode)
            self.hooks[key].add(run, size)
            if self.content is not None:
                self.content.note_run(event, run)

    def note_verdict(self, event: str, verdict: Verdict) -> None:
        """What the hooks of an event decided together."""
        if verdict.reason and (verdict.stop or verdict.denied):
            self.reasons[event] = verdict.reason
        if verdict.stop and event not in ADVISORY:
            self.outcome = "stopped"
        elif verdict.synthetic:
            self.outcome = "synthetic"
        elif verdict.denied and event in _ENDING:
            self.outcome = "denied"

    def note_error(self, error: ApiError) -> None:
        """The client is told of an error. What a policy says has its reason already, under its event."""
        if error.reason != POLICY_DENIED:
            self.reasons["gateway"] = error.on_record

    def end(self, status: int, sent: int, *, dropped: bool = False) -> None:
        """The call has ended: with this status, 0 without a whole answer, and so many bytes.

        `dropped`: its connection was ended by the gateway.
        """
        self.status, self.answer_bytes, self.seconds = status, sent, self.elapsed()
        self.dropped = dropped and not status
        if self.outcome is None:
            unanswered: Outcome = "interrupted" if dropped else "left"
            self.outcome = unanswered if not status else "answered" if status < 400 else "refused"
