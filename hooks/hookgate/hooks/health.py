"""Health records of hooks: for the list of hooks, for metrics, and for the degraded state of a gateway."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hookgate.hooks.running import Run
from hookgate.hooks.settings import Hook

NOTHING = "nothing to say"
"""The summary of a run without any output."""

Key = tuple[str, str, str]
"""The key of a hook's record: its event, name and target."""


@dataclass
class Status:
    """One hook's record.

    `seconds`, `error` and `summary` are those of the last run: its duration, its error message if it failed,
    and a summary of its output.
    """

    runs: int = 0
    failures: int = 0
    denials: int = 0
    seconds: float = 0.0
    error: str = ""
    summary: str = ""

    @property
    def degraded(self) -> bool:
        """Whether the last run failed."""
        return bool(self.error)


@dataclass
class Health:
    """The records of all hooks. They survive reloads of the settings."""

    hooks: dict[Key, Status] = field(default_factory=dict)
    off: dict[Key, Status] = field(default_factory=dict)
    """The records of hooks that are switched off. Their failures do not make a gateway degraded."""

    def record(self, runs: Iterable[Run]) -> None:
        """Add runs to the records."""
        for run in runs:
            key = run.hook.key  # the hook may have been switched off since the call began
            status = (self.off if key in self.off else self.hooks).setdefault(key, Status())
            status.runs += 1
            status.seconds = run.seconds
            if run.output is None and run.failure is None:
                status.error, status.summary = "", NOTHING
                continue
            output = run.output or {}
            status.failures += run.failure is not None
            status.denials += output.get("decision") == "deny" or output.get("continue") is False
            status.error, status.summary = run.error, _summarize(run)

    def status_for(self, hook: Hook) -> Status:
        """Return the hook's record, or an empty one if the hook never ran."""
        return self.all().get(hook.key, Status())

    def all(self) -> dict[Key, Status]:
        """Return all records, those of switched-off hooks included."""
        return self.off | self.hooks

    def retain(self, hooks: Iterable[Hook], off: Iterable[Hook] = ()) -> None:
        """Discard the records of all hooks other than `hooks`, which are on, and `off`."""
        records = self.all()
        on_keys = {hook.key for hook in hooks}
        off_keys = {hook.key for hook in off} - on_keys
        self.hooks = {key: status for key, status in records.items() if key in on_keys}
        self.off = {key: status for key, status in records.items() if key in off_keys}

    @property
    def degraded(self) -> list[str]:
        """The names of the hooks whose last run failed."""
        return [name for (_, name, _), status in self.hooks.items() if status.degraded]


def _summarize(run: Run) -> str:
    """Summarize a run's output, without any content of the call."""
    output = run.output or {}
    specific = output.get("hookSpecificOutput") or {}
    effects = [str(output["decision"])] if output.get("decision") else []
    effects += ["stop"] if output.get("continue") is False else []
    effects += [f"edits {', '.join(sorted(run.edit))}"] if run.edit else []
    effects += ["answers for the model"] if specific.get("llm_response") and not run.edit else []
    effects += ["adds context"] if specific.get("additionalContext") else []
    return "; ".join(effects) or NOTHING
