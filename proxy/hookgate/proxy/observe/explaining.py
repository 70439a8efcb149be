"""Why a call ended as it did: the hooks that decided, and the reason, from a record's body or a receipt."""

from dataclasses import dataclass
from typing import Any

from hookgate.translator.fields import JsonObject, read_object

DECIDES = {"denied": ("deny", "stop"), "stopped": ("stop",), "synthetic": ("answer",)}
"""The decisions that lead to an outcome."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The hooks that decided an outcome, and the reason; both are empty for a call without incidents."""

    hooks: tuple[str, ...] = ()
    reason: str = ""


def explain_outcome(body: JsonObject) -> Explanation:
    """Return why a call ended as it did, from the body of its end record or from its receipt."""
    outcome = str(body.get("outcome") or "")
    blocked = objects(body.get("blocked"))
    if outcome == "blocked":
        hooks = dict.fromkeys(str(hook) for each in blocked for hook in items(each.get("hooks")))
        return Explanation(tuple(hooks), describe_blocked(blocked[0]) if blocked else "")
    decisions = DECIDES.get(outcome, ())
    deciding = [hook for hook in objects(body.get("hooks")) if _has_decided(hook, decisions)]
    reasons = read_object(body, "reasons")
    events = [*(str(hook.get("event")) for hook in deciding), "gateway", *reasons]
    reason = next((str(reasons[event]) for event in events if reasons.get(event)), "")
    return Explanation(tuple(dict.fromkeys(str(hook.get("hook")) for hook in deciding)), reason)


def describe_blocked(blocked: JsonObject) -> str:
    """Return a line about a blocked output: the tool, or the answer, and the reason."""
    what = f"tool {blocked['tool']}" if blocked.get("tool") else "answer"
    return f"{what}: {blocked.get('reason') or 'no reason was given'}"


def _has_decided(hook: JsonObject, decisions: tuple[str, ...]) -> bool:
    made = read_object(hook, "decisions")
    return hook.get("mode") != "observe" and any(made.get(each) for each in decisions)


def items(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[JsonObject]:
    """Return the objects in a value that should be a list of objects."""
    return [each for each in items(value) if isinstance(each, dict)]
