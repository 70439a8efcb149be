"""All runs of one hook for one event of a call, as they stand in the call's record."""

from collections import Counter
from dataclasses import dataclass, field

from hookgate.hooks import Run
from hookgate.hooks.errors import ExitCodeError, HookError, HookUnavailableError
from hookgate.hooks.settings import BuiltinConfig, Hook


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
    causes: Counter[str] = field(default_factory=Counter)
    """Why runs failed: `error`, `exit code`, or the cause that lies outside of the hook."""
    denials: int = 0
    """Runs that said so themselves; what `on_error` made of a failure is among the decisions alone."""
    began: float = 0.0
    """When its first run did, on the monotonic clock; 0 when it was never asked."""
    ended: float = 0.0
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
        if run.failure is not None:
            self.failures += 1
            self.causes[_cause(run.failure)] += 1
        self.edits |= run.edit.keys()
        decision = _decision(run)
        self.decisions[decision] += 1
        self.denials += decision in ("deny", "stop") and not run.error
        self.began = self.began or run.began
        self.ended = max(self.ended, run.began + run.seconds)
        self.findings.update(
            {str(kind): int(count) for kind, count in (specific.get("findings") or {}).items()}
        )


def _cause(failure: HookError) -> str:
    match failure:
        case HookUnavailableError():
            return failure.cause
        case ExitCodeError():
            return "exit code"
        case _:
            return "error"


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


def type_of(hook: Hook) -> str:
    """The kind of a hook, with the name of a builtin one's policy."""
    config = hook.config
    return f"builtin:{config.builtin}" if isinstance(config, BuiltinConfig) else config.type
