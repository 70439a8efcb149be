"""The states of alerts, and how they change: each fires once, and recovers once.

An alert recovers when its value has not been above the threshold for the length of the window, up to five
minutes, so that a value around the threshold causes no series of messages.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal

from hookgate.proxy.alerts.measuring import Measured, Subject
from hookgate.proxy.alerts.rules import EvaluatedRule, Level
from hookgate.proxy.config.values import window_seconds

CALM_MILLISECONDS = 300_000
"""The longest time for which a value is watched before its alert recovers."""

TROUBLE_MILLISECONDS = 600_000
"""How long trouble of a gateway counts that the gateway has not confirmed: it may have died."""

MAX_ALERTS = 100
"""The alerts of one rule and caller that fire at once. Clients may invent groups, such as sessions."""

TOLD_PER_HOUR = 60
"""How many alerts of one rule and caller are told of in an hour; others later, if they still fire."""

_CALLER = ("key", "owner", "team", "gateway")
"""The fields of groups whose names the operator chooses."""

_UNNAMED_KEY = re.compile(r"[0-9a-f]{24}")

_LONGEST_NAME = 100
"""Characters of a name in a message. Clients choose those of agents and sessions."""

State = Literal["firing", "resolved", "test"]


@dataclass(frozen=True, slots=True)
class AlertId:
    """What an alert is about: a rule, a group, and the percentage of the rule's threshold."""

    rule: str
    subject: Subject
    level: int


@dataclass(frozen=True, slots=True)
class Message:
    """What receivers are told. It has nothing of the content of calls. Times are milliseconds since 1970."""

    alert: str
    """The ID of the alert, which is the same when it fires and when it recovers."""
    state: State
    rule: str
    severity: str
    group: Mapping[str, str]
    count: str
    value: float
    threshold: float
    level: int
    within: str
    query: str
    since: int
    at: int
    receivers: tuple[str, ...]

    def resolved(self, value: float, at: int) -> "Message":
        """Return the message that the alert is over."""
        return replace(self, state="resolved", value=value, at=at)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Message":
        stored = json.loads(text)
        values = {each.name: stored[each.name] for each in fields(cls)}  # a newer version may store more
        return cls(**{**values, "receivers": tuple(values["receivers"])})


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that is firing. `told` is the message that said so; None as long as nobody was told."""

    id: AlertId
    since: int
    value: float
    calm: int | None = None
    told: Message | None = None


@dataclass(frozen=True, slots=True)
class AlertChanges:
    """What changes: alerts to store, alerts that are over, and what receivers are told, in order."""

    stored: list[Firing]
    ended: list[AlertId]
    messages: list[Message]


Caller = tuple[str, tuple[str, ...]]
"""A rule, and the names in a group that no client can invent."""


def caller_of(rule: str, group: Mapping[str, str]) -> Caller:
    """Return the caller of a group: those that it has invented share what may be told of them.

    Keys without a name are one caller: anybody can send another one.
    """
    names = (group[field][:_LONGEST_NAME] for field in _CALLER if field in group)
    return rule, tuple("" if _UNNAMED_KEY.fullmatch(name) else name for name in names)


class Room:
    """How many more alerts may be told of. A caller that invents groups uses up only its own part."""

    def __init__(self, by_rule: Mapping[str, int], told: Iterable[Caller] = ()) -> None:
        """`by_rule` is what there is room for at the receivers; `told` are the callers of the last hour."""
        self._by_rule, self._told = dict(by_rule), Counter(told)

    def take(self, caller: Caller) -> bool:
        """Return whether one more alert of a caller may be told of, which then counts."""
        rule, _ = caller
        if self._by_rule.get(rule, 0) < 1 or self._told[caller] >= TOLD_PER_HOUR:
            return False
        self._by_rule[rule] -= 1
        self._told[caller] += 1
        return True


def advance(  # noqa: PLR0913  # all that a change depends on
    current: Iterable[Firing],
    rules: Iterable[EvaluatedRule],
    measured: Mapping[str, Measured],
    now: int,
    *,
    silenced: Collection[str] = (),
    room: Room,
) -> AlertChanges:
    """Return how the alerts change.

    Args:
        current: The alerts that are firing.
        rules: The rules.
        measured: What rules have counted, by their names. Alerts of a rule without it stay as they are.
        now: The time in milliseconds since 1970.
        silenced: The names of rules of which nobody is told that they fire. When a silence ends, it is made
            up for if the alert still fires. That an alert is over is told if its beginning was.
        room: How many more alerts may be told of.
    """
    known = {each.id: each for each in current}
    changes = AlertChanges([], [], [])
    by_name = {rule.name: rule for rule in rules}
    over: set[AlertId] = set()
    for name, rule in by_name.items():
        used = Counter(_caller(rule, id_.subject) for id_ in known if id_.rule == name)
        for subject, level, value in _over(rule, measured.get(name)):
            id_, caller = AlertId(name, subject, level.percent), _caller(rule, subject)
            over.add(id_)
            if id_ not in known:
                used[caller] += 1
                if used[caller] > MAX_ALERTS:
                    continue
            before = known.get(id_) or Firing(id_, now, value)
            after = replace(before, value=value, calm=None)
            if before.told is None and name not in silenced and room.take(caller):
                after = replace(after, told=describe(rule, level, after, now))
                changes.messages.append(after.told)  # type: ignore[arg-type]  # it was made in the line above
            if after != known.get(id_):
                changes.stored.append(after)
    for id_, firing in known.items():
        if id_ not in over:
            _calm_down(firing, by_name.get(id_.rule), measured.get(id_.rule), now, changes)
    return changes


def _caller(rule: EvaluatedRule, subject: Subject) -> Caller:
    return caller_of(rule.name, dict(zip(rule.groups, subject, strict=False)))  # a rule may have changed


def _over(rule: EvaluatedRule, measured: Measured | None) -> Iterable[tuple[Subject, Level, float]]:
    """Yield the groups of a rule that are above a threshold."""
    for subject, value in (measured.values if measured else {}).items():
        for level in rule.levels:
            if value > level.threshold:
                yield subject, level, value


def _calm_down(
    firing: Firing, rule: EvaluatedRule | None, measured: Measured | None, now: int, changes: AlertChanges
) -> None:
    """Note that an alert is not above its threshold, and end it if that was so for long enough."""
    if rule is not None and rule.query is None:  # the gateway itself ends it, unless it has died
        if now - (firing.calm or 0) >= TROUBLE_MILLISECONDS:
            _end(firing, now, changes)
        return
    value = 0.0
    if rule is not None:  # an alert whose rule was removed is over as well
        if measured is None or (firing.id.subject not in measured.values and not measured.complete):
            return
        value = measured.values.get(firing.id.subject, 0.0)
    needed = CALM_MILLISECONDS
    if rule is not None:
        needed = min(needed, window_seconds(rule.settings.within) * 1000)
    calm = now if firing.calm is None else firing.calm
    if now - calm >= needed:
        _end(replace(firing, value=value), now, changes)
    elif firing.calm is None or firing.value != value:
        changes.stored.append(replace(firing, calm=calm, value=value))


def _end(firing: Firing, now: int, changes: AlertChanges) -> None:
    changes.ended.append(firing.id)
    if firing.told is not None:
        changes.messages.append(firing.told.resolved(firing.value, now))


def describe(rule: EvaluatedRule, level: Level, firing: Firing, now: int) -> Message:
    """Return the message that an alert is firing."""
    settings = rule.settings
    return Message(
        _digest(firing),
        "firing",
        rule.name,
        level.severity,
        {field: name[:_LONGEST_NAME] for field, name in zip(rule.groups, firing.id.subject, strict=True)},
        "trouble" if settings.trouble else settings.count,
        firing.value,
        level.threshold,
        level.percent,
        "" if settings.trouble else settings.within,
        settings.query,
        firing.since,
        now,
        rule.receivers,
    )


def _digest(firing: Firing) -> str:
    about = [firing.id.rule, *firing.id.subject, firing.id.level, firing.since]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]
