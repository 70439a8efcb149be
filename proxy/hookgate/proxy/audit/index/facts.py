"""What the index knows of a call, from the bodies of its records or from its receipt."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hookgate.proxy.observe.explaining import explain_outcome, items, objects
from hookgate.translator.fields import JsonObject, read_object

_LONGEST_NAME = 400
"""Characters of a name or text in the index. PostgreSQL refuses index entries of more than 2704 bytes."""

_MAX_MARKS = 100
"""The maximum number of marks of one call."""

_LARGEST = 2**53
"""The largest number in the index: sums of many of them fit into the columns of a database."""


@dataclass(frozen=True, slots=True)
class HookFacts:
    """What one hook did at one event of a call."""

    hook: str
    event: str
    observes: bool
    runs: int
    denials: int
    """Runs that denied or stopped; in observe mode, that would have."""
    edited: bool
    failures: int
    duration: float
    """Milliseconds of all runs."""
    findings: dict[str, int]
    causes: tuple[str, ...]
    """The causes of its failures."""
    answered: bool
    """Whether it answered or asked the user instead of letting the call pass."""

    @property
    def has_effect(self) -> bool:
        """Whether it did more than to let the call pass."""
        return bool(self.denials or self.edited or self.failures or self.findings or self.answered)


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known of a call that has ended. `names` are texts by field, and empty if unknown."""

    at: int
    names: dict[str, str]
    marks: frozenset[tuple[str, str]]
    """Pairs of a field and a name: `hook` and `event`, `failing` (a hook), `cause`, `found`, `tool`."""
    hooks: tuple[HookFacts, ...]
    input_tokens: int
    output_tokens: int
    cost: float
    duration: float

    @property
    def edited(self) -> bool:
        """Whether a hook has edited the call."""
        return any(hook.edited and not hook.observes for hook in self.hooks)

    @property
    def amounts(self) -> dict[str, float]:
        """The numbers by which calls are compared and sorted."""
        tokens = self.input_tokens + self.output_tokens
        return {"time": self.at, "cost": self.cost, "tokens": tokens, "duration": self.duration}


def facts_of(at: int, body: JsonObject) -> CallFacts:
    """Return the facts of a call that ended at `at`, in milliseconds since 1970.

    `body` contains the fields of its end and its start, or of its receipt. What cannot be read counts as
    unknown, because one record must not keep others from being found.
    """
    session, usage = read_object(body, "session"), read_object(body, "usage")
    owner = session.get("key")
    names = {
        "key": body.get("issued_key") or owner,
        "owner": owner,
        "team": session.get("team"),
        "session": session.get("id"),
        "model": body.get("answered_by") or body.get("model"),
        "asked": body.get("model"),
        "agent": session.get("client"),
        "outcome": body.get("outcome"),
        "reason": explain_outcome(body).reason,
    }
    hooks = tuple(_hook(each) for each in objects(body.get("hooks")))
    return CallFacts(
        at,
        {field: clean_name(name) for field, name in names.items()},
        frozenset(tuple(dict.fromkeys(_marks(body, hooks)))[:_MAX_MARKS]),
        hooks,
        int(_number(usage.get("input_tokens"))),
        int(_number(usage.get("output_tokens"))),
        _number(usage.get("cost")),
        _number(read_object(body, "timings").get("total_ms")),
    )


def _hook(body: JsonObject) -> HookFacts:
    decisions = read_object(body, "decisions")
    findings = {
        clean_name(kind): int(_number(count)) for kind, count in read_object(body, "findings").items()
    }
    return HookFacts(
        clean_name(body.get("hook")),
        clean_name(body.get("event")),
        body.get("mode") == "observe",
        int(_number(body.get("runs"))),
        int(_number(decisions.get("deny")) + _number(decisions.get("stop"))),
        bool(items(body.get("edits"))),
        int(_number(body.get("failures"))),
        _number(body.get("ms")),
        {kind: count for kind, count in findings.items() if kind and count},
        tuple(filter(None, map(clean_name, read_object(body, "causes")))),
        bool(_number(decisions.get("answer")) or _number(decisions.get("ask"))),
    )


def _marks(body: JsonObject, hooks: tuple[HookFacts, ...]) -> Iterator[tuple[str, str]]:
    if event := clean_name(body.get("event")):
        yield "event", event
    for hook in hooks:
        if hook.has_effect:
            yield "hook", hook.hook
            yield "event", hook.event
        if hook.failures:
            yield "failing", hook.hook
            yield from (("cause", each) for each in hook.causes)
    for blocked in objects(body.get("blocked")):
        if tool := clean_name(blocked.get("tool")):
            yield "tool", tool
        for name in items(blocked.get("hooks")):
            yield "hook", clean_name(name)
    for hook in hooks:  # last, because hooks may report any number of kinds
        for kind in hook.findings:
            yield "found", kind


def clean_name(value: Any) -> str:
    """Return a text of a record as the index stores it: short, and one that every database can store."""
    if not isinstance(value, str):
        return ""
    cut = value[:_LONGEST_NAME]
    if cut.isascii() and "\0" not in cut:
        return cut
    return cut.replace("\0", "").encode(errors="replace").decode()


def _number(value: Any) -> float:
    """Return a number of a record, or 0 if it is none; never more than the index can add up."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    bounded = min(max(value, 0), _LARGEST)
    return bounded if math.isfinite(bounded) else 0
