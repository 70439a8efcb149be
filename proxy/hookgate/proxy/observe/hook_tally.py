"""The totals of a hook's runs in a call, and what runs say of the hooks that decided."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hookgate.hooks import Run
from hookgate.hooks.settings import BuiltinConfig, Hook

MAX_FOUND = 20
"""The maximum number of findings of a hook that a call's record lists. The others are only counted."""

_LONGEST_PLACE = 240


@dataclass(slots=True)
class HookTally:
    """The totals of all runs of one hook for one event of a call."""

    event: str
    hook: str
    type: str
    """The kind of hook, or `builtin:` and the policy's name."""
    mode: str
    runs: int = 0
    bytes: int = 0
    """The total size of the bodies that it saw, as received; the request's for events without one."""
    seconds: float = 0.0
    failures: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    """How often runs failed for which cause, such as `timeout`: see `HookError.cause`."""
    denials: int = 0
    """Runs in which the hook itself denied; denials by `on_error` are counted in `decisions` only."""
    began: float = 0.0
    """When its first run began, on the monotonic clock; 0 if there was none."""
    ended: float = 0.0
    decisions: dict[str, int] = field(default_factory=dict)
    """Its decisions, in observe mode those it would have made: allow, ask, deny, stop, answer."""
    edits: set[str] = field(default_factory=set)
    """The fields that it changed, or in observe mode would have changed."""
    findings: dict[str, int] = field(default_factory=dict)
    """A policy's findings, by kind."""
    found: list[dict[str, str]] = field(default_factory=list)
    """The first of these findings, each with its `kind`, `source`, `place` and `hash`."""
    redacted: bool = False
    """Whether it has marked the answer as redacted."""

    def add(self, run: Run, size: int) -> None:
        """Add a run on a body of `size` bytes."""
        self.runs += 1
        self.bytes += size
        self.seconds += run.seconds
        self.began = self.began or run.began
        self.ended = max(self.ended, run.began + run.seconds)
        if run.failure is not None:
            self.failures += 1
            add_count(self.causes, run.failure.cause)
        if run.output is None and run.failure is None:  # most runs have nothing to add
            add_count(self.decisions, "allow")
            return
        specific = (run.output or {}).get("hookSpecificOutput") or {}
        self.edits |= run.changes.keys()
        decision = _decision(run)
        add_count(self.decisions, decision)
        self.denials += decision in ("deny", "stop") and run.failure is None
        self.redacted |= specific.get("redacted") is True and not run.only_observes
        findings = specific.get("findings")
        for kind, count in findings.items() if isinstance(findings, dict) else ():
            if type(count) is int and count > 0:  # hooks may return anything under this key
                add_count(self.findings, kind, count)
        self._note_found(specific.get("found"))

    def _note_found(self, found: object) -> None:
        """Add findings. Hooks may return anything as such."""
        for each in found if isinstance(found, list) and self.findings else ():
            if len(self.found) == MAX_FOUND:
                return
            if isinstance(each, dict):
                texts = ((name, each.get(name)) for name in ("kind", "source", "place", "hash"))
                self.found.append({n: text[:_LONGEST_PLACE] for n, text in texts if isinstance(text, str)})


def add_count(counts: dict[str, int], name: str, count: int = 1) -> None:
    counts[name] = counts.get(name, 0) + count


def _decision(run: Run) -> str:
    output = run.output_or_denial() or {}
    if output.get("continue") is False:
        return "stop"
    if (
        run.hook.event == "BeforeModel"
        and (output.get("hookSpecificOutput") or {}).get("llm_response") is not None
    ):
        return "answer"
    return str(output.get("decision") or "allow")


def hook_type(hook: Hook) -> str:
    """Return the type of a hook; for a builtin hook with the name of its policy."""
    config = hook.config
    return f"builtin:{config.builtin}" if isinstance(config, BuiltinConfig) else config.type


def denying_hooks(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the names of the hooks that denied or stopped, in the order of their runs."""
    outputs = ((run.hook.name, run.applied_output() or {}) for run in runs)
    denied = (
        name
        for name, output in outputs
        if output.get("decision") == "deny" or output.get("continue") is False
    )
    return tuple(dict.fromkeys(denied))


def asking_hooks(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the names of the hooks that decided `ask`, in the order of their runs."""
    outputs = ((run.hook.name, run.applied_output() or {}) for run in runs)
    return tuple(dict.fromkeys(name for name, output in outputs if output.get("decision") == "ask"))


def selecting_hooks(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the names of the BeforeToolSelection hooks that selected tools."""
    return tuple(dict.fromkeys(run.hook.name for run in runs if run.changes and not run.only_observes))
