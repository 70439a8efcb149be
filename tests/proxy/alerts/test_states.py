"""An alert fires once and recovers once, whatever its value does."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hookgate.proxy.alerts.measuring import Measured
from hookgate.proxy.alerts.rules import EvaluatedRule, read_alert_rules
from hookgate.proxy.alerts.states import (
    CALM_MILLISECONDS,
    MAX_ALERTS,
    TOLD_PER_HOUR,
    TROUBLE_MILLISECONDS,
    AlertChanges,
    AlertId,
    Caller,
    Firing,
    Message,
    Room,
    advance,
    caller_of,
    describe,
)
from hookgate.proxy.config import AlertSettings

STEP = 5000


def rules_of(*rules: dict[str, object]) -> list[EvaluatedRule]:
    receivers = [{"name": "ops", "url": "http://x/", "secret": "s"}]
    return read_alert_rules(AlertSettings.model_validate({"rules": rules, "receivers": receivers}))


DENIALS = rules_of({"name": "denials", "over": 10, "within": "1m", "by": "team"})
BUDGET = rules_of(
    {
        "name": "budget",
        "count": "cost",
        "over": 50,
        "at": [80, 100],
        "within": "month",
        "severity": "critical",
    }
)
TROUBLE = rules_of({"name": "audit", "trouble": "audit"})


class Told:
    """Alerts over time, as the database keeps them, and what was told."""

    def __init__(self, rules: Sequence[EvaluatedRule]) -> None:
        self.rules, self.now = rules, 1_000_000
        self.firing: dict[AlertId, Firing] = {}
        self.messages: list[Message] = []
        self.told_of: list[Caller] = []

    def measure(
        self,
        values: dict[tuple[str, ...], float] | None,
        *,
        complete: bool = True,
        silent: bool = False,
        room: int = 60,
        after: int = STEP,
    ) -> AlertChanges:
        self.now += after
        names = [rule.name for rule in self.rules]
        measured = {} if values is None else {names[0]: Measured(values, complete)}
        changes = advance(
            self.firing.values(),
            self.rules,
            measured,
            self.now,
            silenced=names if silent else (),
            room=Room(dict.fromkeys(names, room), self.told_of),
        )
        self.firing |= {each.id: each for each in changes.stored}
        for id_ in changes.ended:
            del self.firing[id_]
        self.messages += changes.messages
        return changes

    @property
    def states(self) -> list[tuple[str, str]]:
        return [(each.state, each.group.get("team", str(each.level))) for each in self.messages]


_VALUES = st.dictionaries(st.sampled_from([("a",), ("b",)]), st.integers(0, 20).map(float))
_STEPS = st.lists(
    st.tuples(
        st.none() | _VALUES, st.booleans(), st.booleans(), st.sampled_from([0, 1, 60]), st.integers(1, 40)
    ),
    max_size=40,
)


@given(_STEPS)
def test_each_alert_that_is_told_is_over_once_before_it_is_told_again(
    steps: list[tuple[dict[tuple[str, ...], float] | None, bool, bool, int, int]],
) -> None:
    told = Told(DENIALS)
    for values, complete, silent, room, seconds in steps:
        told.measure(values, complete=complete, silent=silent, room=room, after=seconds * 1000)
    for _ in range(3):  # nothing is denied any more
        told.measure({}, after=CALM_MILLISECONDS)
    assert told.firing == {}
    for team in ("a", "b"):
        mine = [each for each in told.messages if each.group["team"] == team]
        assert [each.state for each in mine] == ["firing", "resolved"] * (len(mine) // 2)
        for fires, over in zip(mine[::2], mine[1::2], strict=True):
            assert (fires.alert, fires.since) == (over.alert, over.since)
            assert over.at - fires.at >= 60_000
        assert len({each.alert for each in mine}) == len(mine) // 2


def test_a_value_around_the_threshold_causes_no_series_of_messages() -> None:
    told = Told(DENIALS)
    for _ in range(30):
        told.measure({("a",): 11})
        told.measure({("a",): 10})
    assert told.states == [("firing", "a")]
    told.measure({("a",): 3})
    told.measure({("a",): 3}, after=60_000)
    assert told.states == [("firing", "a"), ("resolved", "a")]
    assert told.messages[1].value == 3


def test_nothing_is_stored_as_long_as_nothing_changes() -> None:
    told = Told(DENIALS)
    told.measure({("a",): 11})
    changes = told.measure({("a",): 11})
    assert (changes.stored, changes.ended, changes.messages) == ([], [], [])


def test_a_budget_alerts_at_each_of_its_percentages() -> None:
    told = Told(BUDGET)
    told.measure({(): 40.0})
    assert told.states == []  # exactly 80 percent is not more
    told.measure({(): 41.0})
    told.measure({(): 51.0})
    assert told.states == [("firing", "80"), ("firing", "100")]
    assert [(each.severity, each.threshold) for each in told.messages] == [("warning", 40), ("critical", 50)]
    told.measure({(): 0.5})  # a new month
    told.measure({(): 0.5}, after=CALM_MILLISECONDS)
    assert sorted(told.states[2:]) == [("resolved", "100"), ("resolved", "80")]


def test_what_fires_during_a_silence_is_told_when_it_ends() -> None:
    told = Told(DENIALS)
    told.measure({("a",): 11}, silent=True)
    assert told.states == []
    assert told.firing
    told.measure({("a",): 12})
    assert told.states == [("firing", "a")]
    told.measure({}, silent=True)
    told.measure({}, silent=True, after=60_000)
    assert told.states == [("firing", "a"), ("resolved", "a")], (
        "who was told of an alert is told that it is over"
    )


def test_what_was_never_told_is_not_told_to_be_over() -> None:
    told = Told(DENIALS)
    told.measure({("a",): 11}, silent=True)
    told.measure({})
    told.measure({}, after=60_000)
    assert (told.firing, told.states) == ({}, [])


def test_a_rule_that_cannot_be_measured_keeps_its_alerts() -> None:
    told = Told(DENIALS)
    told.measure({("a",): 11})
    for _ in range(3):
        told.measure(None, after=CALM_MILLISECONDS)
        told.measure({("b",): 1}, complete=False, after=CALM_MILLISECONDS)  # a may be among the other groups
    assert told.states == [("firing", "a")]


def test_no_more_is_told_than_there_is_room_for() -> None:
    told = Told(DENIALS)
    many = {(f"team-{number}",): 11.0 for number in range(5)}
    told.measure(many, room=2)
    assert len(told.messages) == 2
    told.measure(many, room=0)
    assert len(told.messages) == 2
    told.measure(many, room=60)
    assert len(told.messages) == 5


def test_clients_that_invent_groups_cannot_fill_the_database() -> None:
    told = Told(rules_of({"name": "denials", "over": 10, "within": "1m", "by": "agent"}))
    for round_ in range(5):
        told.measure({(f"{round_}-{number}",): 11.0 for number in range(100)}, complete=False)
    assert len(told.firing) == MAX_ALERTS
    told.measure({})
    told.measure({}, after=60_000)
    assert told.firing == {}


def test_a_caller_that_invents_groups_silences_no_other() -> None:
    told = Told(rules_of({"name": "denials", "over": 10, "within": "1m", "by": "team,agent"}))
    invented = {("loud", f"agent {number}"): 11.0 for number in range(200)}
    told.measure(invented, room=500)
    assert len(told.messages) == TOLD_PER_HOUR
    told.told_of = [caller_of(each.rule, each.group) for each in told.messages]
    told.measure({**invented, ("web", "curl"): 11.0}, room=500)
    assert [each.group for each in told.messages[TOLD_PER_HOUR:]] == [{"team": "web", "agent": "curl"}]


def test_keys_without_a_name_are_one_caller() -> None:
    """A client can send any number of them."""
    told = Told(rules_of({"name": "denials", "over": 10, "within": "1m", "by": "key"}))
    told.measure({**{(f"{number:024x}",): 11.0 for number in range(200)}, ("alice",): 11.0}, room=500)
    names = [each.group["key"] for each in told.messages]
    assert (len(names), names[-1]) == (TOLD_PER_HOUR + 1, "alice")


def test_an_alert_whose_rule_was_removed_is_over_after_a_while() -> None:
    """Not at once: while gateways are updated, another one may still have the rule."""
    told = Told(DENIALS)
    told.measure({("a",): 11})
    told.rules = BUDGET
    told.measure({(): 0})
    assert told.states == [("firing", "a")]
    told.measure({(): 0}, after=CALM_MILLISECONDS)
    assert told.states == [("firing", "a"), ("resolved", "a")]


def test_trouble_counts_until_its_gateway_has_not_confirmed_it_for_a_while() -> None:
    told = Told(TROUBLE)
    id_ = AlertId("audit", ("gateway-1",), 100)
    firing = Firing(id_, told.now, 1.0, calm=told.now)
    firing = replace(firing, told=describe(TROUBLE[0], TROUBLE[0].levels[0], firing, told.now))
    told.firing = {id_: firing}
    told.measure(None, after=TROUBLE_MILLISECONDS - 1)
    assert told.messages == []
    told.measure(None, after=1)
    assert [each.state for each in told.messages] == ["resolved"]
