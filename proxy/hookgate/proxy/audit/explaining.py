"""Explains in a few words why a recorded call ended as it did: the hooks that decided it, and the reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hookgate.translator.fields import JsonObject, read_object

_DECIDES = {"denied": ("deny", "stop"), "stopped": ("stop",), "synthetic": ("answer",)}
"""The decisions that lead to an outcome."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The hooks that decided an outcome, and the reason; both are empty for a call without incidents."""

    hooks: tuple[str, ...] = ()
    reason: str = ""


def explain_outcome(body: JsonObject) -> Explanation:
    """Return why a call ended as it did, from the body of its end record or from its receipt."""
    outcome = str(body.get("outcome") or "")
    blocked = _objects(body.get("blocked"))
    if outcome == "blocked":
        hooks = dict.fromkeys(str(hook) for each in blocked for hook in _items(each.get("hooks")))
        return Explanation(tuple(hooks), describe_blocked(blocked[0]) if blocked else "")
    decisions = _DECIDES.get(outcome, ())
    deciding = [hook for hook in _objects(body.get("hooks")) if _decided(hook, decisions)]
    reasons = read_object(body, "reasons")
    events = [*(str(hook.get("event")) for hook in deciding), "gateway", *reasons]
    reason = next((str(reasons[event]) for event in events if reasons.get(event)), "")
    return Explanation(tuple(dict.fromkeys(str(hook.get("hook")) for hook in deciding)), reason)


def describe_blocked(blocked: JsonObject) -> str:
    """Return a line about a blocked output: the tool, or the answer, and the reason."""
    what = f"tool {blocked['tool']}" if blocked.get("tool") else "answer"
    return f"{what}: {blocked.get('reason') or 'no reason was given'}"


def outcome_lines(body: JsonObject) -> Iterator[str]:
    """Yield the lines that introduce a call to a reader.

    They contain its outcome, the hooks that decided it, the reason, what was blocked, and the effects of all
    hooks.
    """
    why, status = explain_outcome(body), body.get("status")
    yield f"outcome: {body.get('outcome') or 'in progress'}{f', with status {status}' if status else ''}"
    if why.hooks:
        yield f"hooks:   {', '.join(why.hooks)}"
    if why.reason and not body.get("blocked"):
        yield f"reason:  {why.reason}"
    for each in _objects(body.get("blocked")):
        deciding = ", ".join(str(hook) for hook in _items(each.get("hooks"))) or "the gateway"
        yield f"blocked: {describe_blocked(each)} ({each.get('event')}, by {deciding})"
    listed, count = len(_objects(body.get("blocked"))), body.get("blocked_count")
    if isinstance(count, int) and count > listed:
        yield f"         and {count - listed} more"
    if effects := "; ".join(_effects_of_hooks(body)):
        yield f"effects: {effects}"


def _effects_of_hooks(body: JsonObject) -> Iterator[str]:
    """Yield what each hook edited and found, and how often it failed; hooks without effects are omitted."""
    for hook in _objects(body.get("hooks")):
        edited = "would have edited" if hook.get("mode") == "observe" else "edited"
        edits = ", ".join(map(str, _items(hook.get("edits"))))
        findings = ", ".join(f"{kind} {count}" for kind, count in read_object(hook, "findings").items())
        effects = [f"{edited} {edits}"] if edits else []
        effects += [f"found {findings}"] if findings else []
        effects += (
            [f"failed in {hook['failures']} of {hook.get('runs')} runs"] if hook.get("failures") else []
        )
        if effects:
            yield f"{hook.get('hook')} ({hook.get('event')}) {' and '.join(effects)}"


def _decided(hook: JsonObject, decisions: tuple[str, ...]) -> bool:
    made = read_object(hook, "decisions")
    return hook.get("mode") != "observe" and any(made.get(each) for each in decisions)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: Any) -> list[JsonObject]:
    return [each for each in _items(value) if isinstance(each, dict)]
