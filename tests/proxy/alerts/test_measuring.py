"""Rules count what queries find, in their windows and groups, on both databases."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import entries_of, record_of
from support.gateway.databases import postgres
from support.gateway.indexed import BEGAN, PAUSE, Indexed, indexed_audit

from hookgate.hooks import SessionContext
from hookgate.proxy.alerts import measuring
from hookgate.proxy.alerts.measuring import Measured, Meter, limit_statements
from hookgate.proxy.alerts.rules import EvaluatedRule, read_alert_rules
from hookgate.proxy.audit.index.times import DAY, HOUR
from hookgate.proxy.config import AlertSettings
from hookgate.proxy.store.database import FAILURES

CALLS = 160
NOW = BEGAN + CALLS * PAUSE


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def audit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexed]:
    state = tmp_path_factory.mktemp("state")
    if request.param == "sqlite":
        with indexed_audit(state, CALLS) as audit:
            assert audit.index.update(60)
            yield audit
        return
    with postgres() as url, indexed_audit(state, CALLS, url) as audit:
        assert audit.index.update(60)
        yield audit


def rule_of(**settings: Any) -> EvaluatedRule:
    return read_alert_rules(AlertSettings.model_validate({"rules": [{"name": "r", **settings}]}))[0]


def counted(audit: Indexed, rule: EvaluatedRule, now: int) -> dict[tuple[str, ...], float]:
    """What a rule counts, without the index."""
    values: dict[tuple[str, ...], float] = {}
    for call in audit.facts.values():
        if rule.query_at(now).matches(call) and call.at <= now:
            group = tuple(call.names[field] for field in rule.groups)
            amount = {"calls": 1, "cost": call.cost, "tokens": call.input_tokens + call.output_tokens}
            values[group] = values.get(group, 0) + amount[rule.settings.count]
    return values


@pytest.mark.parametrize(
    "settings",
    [
        {"within": "7d"},
        {"within": "1d", "query": "outcome:guarded", "by": "team"},
        {"within": "1d", "query": "failing:*"},
        {"within": "12h", "query": "found:EMAIL", "by": "owner,model"},
        {"within": "1h", "by": "agent"},
        {"within": "month", "count": "cost", "by": "team"},
        {"within": "day", "count": "tokens", "query": "team:a,b"},
        {"within": "7d", "count": "cost", "query": "owner:nobody"},
    ],
    ids=str,
)
def test_a_rule_counts_what_its_query_finds_in_its_window(settings: dict[str, Any], audit: Indexed) -> None:
    rule = rule_of(**settings)
    measured = Meter(audit.index).measure(rule, NOW)
    expected = counted(audit, rule, NOW)
    assert measured.complete
    assert {each: value for each, value in measured.values.items() if value} == pytest.approx(
        {each: value for each, value in expected.items() if value}
    )
    assert expected or "nobody" in str(settings)


def test_of_many_groups_the_largest_are_counted(audit: Indexed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "MAX_GROUPS", 2)
    rule = rule_of(within="7d", by="team", count="cost")
    measured = Meter(audit.index).measure(rule, NOW)
    expected = sorted(counted(audit, rule, NOW).items(), key=lambda item: -item[1])[:2]
    assert not measured.complete
    assert measured.values == pytest.approx(dict(expected))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_client_is_new_for_a_key_once(database: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    state = tmp_path_factory.mktemp("state")
    if database == "sqlite":
        with indexed_audit(state, 0) as audit:
            check_new_clients(audit)
        return
    with postgres() as url, indexed_audit(state, 0, url) as audit:
        check_new_clients(audit)


def add_call(audit: Indexed, at: int, key: str, agent: str) -> None:
    session = SessionContext("s", client=agent, key=key)
    start, end = entries_of(record_of(at % 1_000_000, id=f"{at:032x}", session=session))
    audit.add(start._replace(at=at - 5), end._replace(at=at))


def test_groups_that_a_client_invents_do_not_hide_that_of_another(tmp_path: Path) -> None:
    base = 20_000 * DAY + 5 * HOUR
    with indexed_audit(tmp_path, 0) as audit:
        for number in range(400):
            add_call(audit, base + number, "eve", f"agent-{number % 200}")
        add_call(audit, base + 400, "ada", "curl")
        assert audit.index.update(60)
        measured = Meter(audit.index).measure(rule_of(by="key,agent", within="30m"), base + 1000)
    assert measured.values["ada", "curl"] == 1


def check_new_clients(audit: Indexed) -> None:
    rule = rule_of(by="key,agent", new=True, within="30m")
    base, call = 20_000 * DAY + 5 * HOUR, partial(add_call, audit)

    def new_at(at: int) -> set[tuple[str, ...]]:
        assert audit.index.update(60)
        found: Measured = Meter(audit.index).measure(rule, at)
        return set(found.values)

    minute = 60_000
    call(base, "ada", "gemini-cli")
    assert new_at(base + minute) == set(), "a new key is no new client"
    for after in (2 * DAY, 2 * DAY + 3 * HOUR, 2 * DAY + 3 * HOUR + 20 * minute):  # days, hours, minutes ago
        call(base + after, "ada", "gemini-cli")
        assert new_at(base + after + minute) == set()
    at = base + 2 * DAY + 4 * HOUR
    call(at, "ada", "curl")
    call(at + 1, "eve", "curl")
    assert new_at(at + minute) == {("ada", "curl")}
    call(at + 20 * minute, "ada", "curl")
    assert new_at(at + 25 * minute) == {("ada", "curl")}
    assert new_at(at + 31 * minute) == set(), "by then, it is known"
    call(at + 40 * minute, "eve", "gemini-cli")
    assert new_at(at + 41 * minute) == {("eve", "gemini-cli")}, "an agent that another key uses is new, too"


def test_what_is_new_is_looked_up_as_long_as_there_is_time(audit: Indexed) -> None:
    rule = rule_of(by="key,agent", new=True, within="1d")
    measured = Meter(audit.index).measure(rule, NOW, until=0)
    assert (measured.values, measured.complete) == ({}, False)


def test_a_statement_that_takes_too_long_ends_with_an_error(audit: Indexed) -> None:
    database = audit.database
    query = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i < 0"
        if database.is_file
        else "SELECT pg_sleep(60)"
    )
    database.engine.dispose()  # the limit is one of new connections
    limit_statements(database, 0.2)
    with pytest.raises(FAILURES), database.reading.begin() as connection:
        connection.exec_driver_sql(query)
    with database.reading.begin() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_a_rule_of_trouble_counts_no_calls() -> None:
    with pytest.raises(ValueError, match="trouble of a gateway has no query"):
        replace(rule_of(), query=None).query_at(NOW)
