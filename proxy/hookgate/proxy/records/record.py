"""The record of one call, filled in while it runs. It holds nothing of what was said."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from hookgate.hooks import CallState, Run, Session, Verdict
from hookgate.hooks.running import ADVISORY
from hookgate.hooks.settings import BuiltinConfig, Hook
from hookgate.proxy.records.usage import Usage

Outcome = Literal["answered", "denied", "stopped", "synthetic", "refused", "failed", "left"]
"""How a call ended: as the model answered; by hooks, which denied it, stopped the agent or answered
themselves; refused by hookgate; with an error of the upstream; or with a client that had left."""

_ENDING = frozenset({"SessionStart", "BeforeAgent", "BeforeModel", "BeforeToolSelection", "AfterModel"})
"""Events whose denial ends a call; others deny a tool, or a turn's last words."""


@dataclass(slots=True)
class HookTally:
    """All runs of one hook for one event of a call."""

    event: str
    hook: str
    type: str
    """The kind of hook, or `builtin:` and the policy's name."""
    mode: str
    runs: int = 0
    bytes: int = 0
    """Of the bodies that it was shown, as they came."""
    seconds: float = 0.0
    failures: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    """What it said, or in observe mode would have said: allow, ask, deny, stop, answer."""
    edits: set[str] = field(default_factory=set)
    """The fields that it changed, or would have changed."""
    findings: Counter[str] = field(default_factory=Counter)
    """What a policy found, by kind."""

    def add(self, run: Run, size: int) -> None:
        """One more run, on a body of so many bytes."""
        output = run.output or {}
        specific = output.get("hookSpecificOutput") or {}
        self.runs += 1
        self.bytes += size
        self.seconds += run.seconds
        self.failures += bool(run.error)
        self.edits |= run.edit.keys()
        self.decisions[_decision(run)] += 1
        self.findings.update(
            {str(kind): int(count) for kind, count in (specific.get("findings") or {}).items()}
        )


def _decision(run: Run) -> str:
    said = run.said() or {}
    if said.get("continue") is False:
        return "stop"
    if (
        run.hook.event == "BeforeModel"
        and (said.get("hookSpecificOutput") or {}).get("llm_response") is not None
    ):
        return "answer"
    return str(said.get("decision") or "allow")


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
    status: int = 0
    outcome: Outcome | None = None
    request_bytes: int = 0
    """Of the request's body."""
    answer_bytes: int = 0
    """Sent to the client, headers among them."""
    asked: int = 0
    """Requests to the upstream: none for a denied one, several where the model was asked again."""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    bypasses: int = 0
    """Tools that ran past the agent's shim, as this call shows."""
    before_seconds: float | None = None
    """Until the request went upstream."""
    upstream_seconds: float = 0.0
    """Until the upstream's answer began; over all requests to it."""
    first_seconds: float | None = None
    """Until the first byte of an answer went to the client."""
    seconds: float = 0.0
    degraded: tuple[str, ...] = ()
    """Hooks whose last run had failed when the call ended."""
    hooks: dict[tuple[str, Hook], HookTally] = field(default_factory=dict)
    _clock: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        """Since the call began."""
        return time.monotonic() - self._clock

    @contextmanager
    def asking(self) -> Iterator[Callable[[], None]]:
        """A request to the upstream; what this gives is to be called when its answer has begun."""
        self.asked += 1
        began = time.monotonic()
        waiting = True

        def begun() -> None:
            nonlocal waiting
            waiting = False
            self.upstream_seconds += time.monotonic() - began

        try:
            yield begun
        finally:
            if waiting:
                begun()

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

    def note_verdict(self, event: str, verdict: Verdict) -> None:
        """What the hooks of an event decided together."""
        if verdict.stop and event not in ADVISORY:
            self.outcome = "stopped"
        elif verdict.synthetic:
            self.outcome = "synthetic"
        elif verdict.denied and event in _ENDING:
            self.outcome = "denied"

    def end(self, status: int, sent: int) -> None:
        """The call has ended: with this status, 0 for a client that left, and so many bytes."""
        self.status, self.answer_bytes, self.seconds = status, sent, self.elapsed()
        if self.outcome is None:
            self.outcome = "left" if not status else "answered" if status < 400 else "refused"


def type_of(hook: Hook) -> str:
    """The kind of a hook, with the name of a builtin one's policy."""
    config = hook.config
    return f"builtin:{config.builtin}" if isinstance(config, BuiltinConfig) else config.type
