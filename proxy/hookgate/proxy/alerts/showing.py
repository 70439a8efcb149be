"""The alerts as operators see them: each rule with its state, what fires, and whom it has told."""

import time
from collections.abc import Iterator

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.alerts.rules import EvaluatedRule
from hookgate.proxy.alerts.states import Firing, Message
from hookgate.proxy.alerts.table import AlertTable, LastAttempt
from hookgate.translator.fields import JsonObject

LONGEST_SILENCE = 90 * 24 * 3600
"""Seconds for which a rule may be silent."""


def show_alerts(rules: list[EvaluatedRule], table: AlertTable) -> Iterator[JsonObject]:
    """Yield an object for each rule, and for each other rule of which an alert fires. Raises StoreError."""
    firing: dict[str, list[Firing]] = {rule.name: [] for rule in rules}
    for each in table.firing():
        firing.setdefault(each.id.rule, []).append(each)
    attempts, silences = table.attempts(), table.silences(time.time_ns() // 1_000_000)
    by_name = {rule.name: rule for rule in rules}
    for name, found in firing.items():
        rule, silence = by_name.get(name), silences.get(name)
        groups = rule.groups if rule else ()
        receivers = rule.receivers if rule else ()
        yield {
            "rule": name,
            "state": "firing" if found else "ok",
            "severity": rule.settings.severity if rule else None,
            "since": _time(min((each.since for each in found), default=None)),
            "alerts": [_alert(each, groups) for each in found],
            "silenced_until": _time(silence.until) if silence else None,
            "silenced_by": silence.by if silence else None,
            "receivers": [_receiver(each, attempts.get((name, each))) for each in receivers],
        }


def _alert(firing: Firing, groups: tuple[str, ...]) -> JsonObject:
    names = firing.id.subject
    matches = len(names) == len(groups)  # not if the rule has changed meanwhile
    return {
        "group": dict(zip(groups, names, strict=True)) if matches else dict(enumerate(names)),
        "percent": firing.id.level,
        "value": firing.value,
        "since": _time(firing.since),
        "told": firing.told is not None,
    }


def _receiver(name: str, attempt: LastAttempt | None) -> JsonObject:
    if attempt is None:
        return {"name": name, "last": None, "result": None, "error": ""}
    result = "waiting" if attempt.waiting else "failed" if attempt.delivered is None else "delivered"
    at = attempt.created if attempt.delivered is None else attempt.delivered
    return {"name": name, "last": _time(at), "result": result, "error": attempt.error}


def _time(at: int | None) -> str | None:
    return None if at is None else utc_text(at / 1000, "seconds")


def test_messages(receiver: str) -> list[Message]:
    """Return what a receiver is told in a test: that an alert fires, and that it is over."""
    now = time.time_ns() // 1_000_000
    fires = Message(
        alert=f"test-{now}",
        state="test",
        rule="test",
        severity="info",
        group={},
        count="calls",
        value=0,
        threshold=0,
        level=100,
        within="5m",
        query="",
        since=now,
        at=now,
        receivers=(receiver,),
    )
    return [fires, fires.resolved(0.0, now)]
