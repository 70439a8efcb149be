"""What hooks kept from an agent: tool calls that were blocked, and answers that were rejected."""

from collections.abc import Iterable
from dataclasses import dataclass

from hookgate.hooks import Run
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


def denying_hooks(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the names of the hooks that denied or stopped, in the order of their runs."""
    outputs = ((run.hook.name, run.applied_output() or {}) for run in runs)
    denied = (
        name
        for name, output in outputs
        if output.get("decision") == "deny" or output.get("continue") is False
    )
    return tuple(dict.fromkeys(denied))


def selecting_hooks(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the names of the BeforeToolSelection hooks that selected tools."""
    return tuple(dict.fromkeys(run.hook.name for run in runs if run.changes and not run.only_observes))
