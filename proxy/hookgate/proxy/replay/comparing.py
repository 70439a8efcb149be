"""What another policy decides otherwise, rule by rule. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hookgate.proxy.records import CallRecord
from hookgate.proxy.records.receipts import receipt_of
from hookgate.proxy.replay.recorded import Recorded
from hookgate.translator.fields import JsonObject, read_object

SAMPLES = 5
"""Receipts that are named for each change."""

Rule = tuple[str, str]
"""An event and the name of a hook for it."""


@dataclass(slots=True)
class Change:
    """Calls in which a rule says something else than it did, or a call ends otherwise."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, receipt: str) -> None:
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(receipt)


@dataclass(slots=True)
class Report:
    """What came of all recorded calls."""

    replayed: int = 0
    unchanged: int = 0
    without_content: int = 0
    """Calls that cannot be replayed, since the audit kept nothing of what was said."""
    refused: int = 0
    """Calls that hookgate refused before any hook: there is nothing to decide otherwise."""
    failed: Counter[str] = field(default_factory=Counter)
    """Runs of hooks that failed, by hook."""
    rules: dict[Rule, dict[str, Change]] = field(default_factory=dict)
    """By rule, and by what changes: `was → now`."""
    outcomes: dict[str, Change] = field(default_factory=dict)
    """How calls end otherwise."""

    def add(self, was: Recorded, now: CallRecord) -> None:
        """Compare one call with what it would be now."""
        self.replayed += 1
        before, after = _said(was.hooks), _said(receipt_of(now)["hooks"])
        changed = False
        ends_earlier = now.outcome != "answered"  # then what follows from that is no change of its own
        for rule in sorted(after.keys() if ends_earlier else before.keys() | after.keys()):
            old, new = before.get(rule, "did not run"), after.get(rule, "does not run")
            if old != new and {old, new} - {"did not run", "does not run", "allow"}:
                self.rules.setdefault(rule, {}).setdefault(f"{old} → {new}", Change()).add(was.id)
                changed = True
        if not was.event and was.outcome in _JUDGED and was.outcome != now.outcome:
            self.outcomes.setdefault(f"{was.outcome} → {now.outcome}", Change()).add(was.id)
            changed = True
        self.unchanged += not changed
        for tally in now.hooks.values():
            self.failed[tally.hook] += bool(tally.failures)

    def as_json(self) -> JsonObject:
        """The report for programs."""
        return {
            "replayed": self.replayed,
            "unchanged": self.unchanged,
            "without_content": self.without_content,
            "refused": self.refused,
            "failed": {hook: count for hook, count in self.failed.items() if count},
            "outcomes": _listed(self.outcomes),
            "rules": [
                {"event": event, "hook": hook, "changes": _listed(changes)}
                for (event, hook), changes in self.rules.items()
            ],
        }


_JUDGED = frozenset({"answered", "denied", "stopped", "synthetic"})
"""Outcomes that hooks have a say in."""


def _listed(changes: dict[str, Change]) -> list[JsonObject]:
    return [
        {"change": what, "calls": change.count, "receipts": change.samples}
        for what, change in sorted(changes.items(), key=lambda each: -each[1].count)
    ]


def _said(hooks: Iterable[JsonObject]) -> dict[Rule, str]:
    """What each rule said of a call, in a few words."""
    return {(str(hook.get("event")), str(hook.get("hook"))): _words(hook) for hook in hooks}


def _words(hook: JsonObject) -> str:
    decisions = read_object(hook, "decisions")
    said = next((each for each in ("stop", "deny", "answer", "ask") if decisions.get(each)), "allow")
    if hook.get("failures"):
        said = f"{said}, failed"
    findings = ", ".join(f"{kind} {count}" for kind, count in sorted(read_object(hook, "findings").items()))
    if hook.get("edits"):
        said = "edit" if said == "allow" else f"{said}, edit"
    return f"{said} ({findings})" if findings else said
