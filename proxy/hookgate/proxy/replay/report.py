"""What would change if other hooks had judged recorded calls."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hookgate.proxy.observe.explaining import explain_outcome
from hookgate.proxy.observe.outcomes import JUDGED
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.replay.recordings import RecordedEnd
from hookgate.translator.fields import JsonObject, read_object

SAMPLES = 5
"""The number of receipts that the report names for each change."""

Rule = tuple[str, str]
"""An event and the name of one of its hooks."""


@dataclass(slots=True)
class ReplayChange:
    """A change in a rule's decision or in the outcome, with the number of calls and sample receipt IDs.

    `reasons` are the first reasons of the decisions: of the new one, or else of the old one.
    """

    count: int = 0
    samples: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, receipt: str, reason: str = "") -> None:
        """Add a call."""
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(receipt)
        if reason and reason not in self.reasons and len(self.reasons) < SAMPLES:
            self.reasons.append(reason)


@dataclass(slots=True)
class ReplayReport:
    """The result of replaying all recorded calls."""

    replayed: int = 0
    unchanged: int = 0
    without_content: int = 0
    """Calls that cannot be replayed, because the audit did not store their content."""
    refused: int = 0
    """Calls that hookgate refused before any hook ran, so that no policy can change their outcome."""
    cannot_say: ReplayChange = field(default_factory=ReplayChange)
    """Calls whose hooks saw more than the audit stored, so that their decisions cannot be compared."""
    failed: Counter[str] = field(default_factory=Counter)
    """The number of calls in which a hook failed, by hook."""
    rules: dict[Rule, dict[str, ReplayChange]] = field(default_factory=dict)
    """The changes of decisions by rule, as `old → new`."""
    outcomes: dict[str, ReplayChange] = field(default_factory=dict)
    """The changes of outcomes, as `old → new`."""

    def add(self, was: RecordedEnd, now: CallRecord) -> None:
        """Compare one recorded call with its replay."""
        self.replayed += 1
        receipt = make_receipt(now)
        hooks = receipt["hooks"]
        before, after = decisions_by_rule(was.hooks), decisions_by_rule(hooks)
        unsure = was.masked and any(map(_reads_content, (*was.hooks, *hooks)))
        changed = False
        ends_earlier = now.outcome not in _WITH_ANSWER  # later hooks do not run then, which is not a change
        for rule in sorted(after.keys() if ends_earlier else before.keys() | after.keys()):
            old, new = before.get(rule, "did not run"), after.get(rule, "does not run")
            if unsure and not _is_stricter(new, old):
                continue
            if old != new and {old, new} - {"did not run", "does not run", "allow"}:
                reasons = now.reasons if _refuses(new) else was.reasons if _refuses(old) else {}
                change = self.rules.setdefault(rule, {}).setdefault(f"{old} → {new}", ReplayChange())
                change.add(was.id, reasons.get(rule[0], ""))
                changed = True
        may_say = not unsure or _is_stricter(str(now.outcome), was.outcome)
        if may_say and not was.event and was.outcome in JUDGED and was.outcome != now.outcome:
            reason = explain_outcome({**receipt, "reasons": now.reasons}).reason
            change = self.outcomes.setdefault(f"{was.outcome} → {now.outcome}", ReplayChange())
            change.add(was.id, reason or was.reason)
            changed = True
        if unsure and not changed:
            self.cannot_say.add(was.id)
        else:
            self.unchanged += not changed
        for tally in now.hooks.values():
            self.failed[tally.hook] += bool(tally.failures)

    def as_json(self) -> JsonObject:
        """Return the report as a JSON object."""
        return {
            "replayed": self.replayed,
            "unchanged": self.unchanged,
            "without_content": self.without_content,
            "refused": self.refused,
            "cannot_say": {"calls": self.cannot_say.count, "receipts": self.cannot_say.samples},
            "failed": {hook: count for hook, count in self.failed.items() if count},
            "outcomes": _listed(self.outcomes),
            "rules": [
                {"event": event, "hook": hook, "changes": _listed(changes)}
                for (event, hook), changes in self.rules.items()
            ],
        }


_WITH_ANSWER = ("answered", "blocked")
"""Outcomes of calls whose answer from the model has passed all hooks."""


_WITHOUT_CONTENT = frozenset({"builtin:models", "builtin:limits"})
"""The types of hooks that do not read what a call says."""

_STRICTEST_LAST = (
    *("allow", "answered", "edit", "ask", "answer", "blocked", "synthetic", "deny", "denied", "stop"),
    "stopped",
)
"""The words for decisions and outcomes."""


def _reads_content(hook: JsonObject) -> bool:
    return hook.get("type") not in _WITHOUT_CONTENT


def _is_stricter(new: str, old: str) -> bool:
    """Return whether a decision or outcome in words is stricter than another one."""

    def strictness(text: str) -> int:
        words = re.findall("[a-z]+", text)
        return max((_STRICTEST_LAST.index(word) for word in words if word in _STRICTEST_LAST), default=0)

    return strictness(new) > strictness(old)


def _refuses(decision: str) -> bool:
    """Return whether a decision in words is one that has a reason."""
    return decision.startswith(("deny", "stop", "ask"))


def _listed(changes: dict[str, ReplayChange]) -> list[JsonObject]:
    return [
        {"change": what, "calls": change.count, "receipts": change.samples, "reasons": change.reasons}
        for what, change in sorted(changes.items(), key=lambda each: -each[1].count)
    ]


def decisions_by_rule(hooks: Iterable[JsonObject]) -> dict[Rule, str]:
    """Return a short description of what each rule did in a call."""
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
