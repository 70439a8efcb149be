"""How each hook has fared so far: for the list of hooks, for metrics, for a gateway that is degraded."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hookgate.hooks.running import Run
from hookgate.hooks.settings import Hook

Key = tuple[str, str, str]
"""Event, name and what runs: the same hook before and after a reload."""


def key_of(hook: Hook) -> Key:
    return hook.event, hook.name, hook.runs


@dataclass
class Status:
    """One hook's record. `seconds` is the time of its last run; a failure is degraded until it runs well."""

    runs: int = 0
    failures: int = 0
    denials: int = 0
    seconds: float = 0.0
    error: str = ""
    said: str = ""

    @property
    def degraded(self) -> bool:
        return bool(self.error)


@dataclass
class Health:
    """The records of all hooks; it outlives reloads of their settings."""

    hooks: dict[Key, Status] = field(default_factory=dict)
    off: dict[Key, Status] = field(default_factory=dict)
    """Of hooks that are switched off: a failure of theirs degrades nothing."""

    def record(self, runs: Iterable[Run]) -> None:
        for run in runs:
            key = key_of(run.hook)  # of a call that began before the switch, the hook may be off
            status = (self.off if key in self.off else self.hooks).setdefault(key, Status())
            output = run.output or {}
            status.runs += 1
            status.failures += bool(run.error)
            status.denials += output.get("decision") == "deny" or output.get("continue") is False
            status.seconds, status.error, status.said = run.seconds, run.error, _shortly(run)

    def of(self, hook: Hook) -> Status:
        """The hook's record; an empty one when it never ran."""
        return self.all().get(key_of(hook), Status())

    def all(self) -> dict[Key, Status]:
        """Every record that is kept."""
        return self.off | self.hooks

    def keep(self, hooks: Iterable[Hook], off: Iterable[Hook] = ()) -> None:
        """Forget the hooks that are no more, neither on nor `off`, so that reloads do not pile up records."""
        known = self.all()
        keys = {key_of(hook) for hook in hooks}
        resting = {key_of(hook) for hook in off} - keys
        self.hooks = {key: status for key, status in known.items() if key in keys}
        self.off = {key: status for key, status in known.items() if key in resting}

    @property
    def degraded(self) -> list[str]:
        """The names of the hooks whose last run failed."""
        return [name for (_, name, _), status in self.hooks.items() if status.degraded]


def _shortly(run: Run) -> str:
    """What a run came to, without a word of what was said in the call."""
    output = run.output or {}
    specific = output.get("hookSpecificOutput") or {}
    told = [str(output["decision"])] if output.get("decision") else []
    told += ["stop"] if output.get("continue") is False else []
    told += [f"edits {', '.join(sorted(run.edit))}"] if run.edit else []
    told += ["answers for the model"] if specific.get("llm_response") and not run.edit else []
    told += ["adds context"] if specific.get("additionalContext") else []
    return "; ".join(told) or "nothing to say"
