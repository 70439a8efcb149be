"""Reports are the sums of the calls that a query describes, whichever tables they are read from."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.gateway.databases import postgres
from support.gateway.indexed import BEGAN, PAUSE, Indexed, indexed_audit

from hookgate.proxy.audit.index.facts import CallFacts
from hookgate.proxy.audit.index.query import Query, parse_query
from hookgate.proxy.audit.index.reporting import CALL_COLUMNS, Report, report_fields

CALLS = 300  # three and a half days
HOUR = 3_600_000
NOW = datetime.fromtimestamp((BEGAN + CALLS * PAUSE) / 1000, UTC)
ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu"]


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


def group_of(call: CallFacts, by: str, query: Query) -> str:
    when = datetime.fromtimestamp(call.at / 1000, UTC)
    if by == "day":
        return f"{when.astimezone(query.zone):%Y-%m-%d}"
    if by == "hour":
        return f"{when.replace(minute=0).astimezone(query.zone):%Y-%m-%d %H:%M}"
    return call.names[by]


def sums_without_index(audit: Indexed, query: Query, by: list[str]) -> dict[tuple[str, ...], list[float]]:
    """The sums of a report, made without the index."""
    sums: dict[tuple[str, ...], list[float]] = {}
    for call in audit.facts.values():
        if not query.matches(call) or ("session" in by and not call.names["session"]):
            continue
        known = sums.setdefault(tuple(group_of(call, each, query) for each in by), [0] * len(CALL_COLUMNS))
        ended = [call.names["outcome"] == each for each in ("denied", "stopped", "blocked", "failed")]
        used = [call.edited, call.input_tokens, call.output_tokens, call.cost]
        for place, value in enumerate([1, *ended, *used]):
            known[place] += value
    return sums


def rows_of(report: Report) -> dict[tuple[str, ...], list[float]]:
    count = len(report.by)
    return {tuple(row[:count]): list(row[count:]) for row in report.rows}


@given(
    st.lists(
        st.sampled_from(["key", "owner", "team", "model", "asked", "agent", "outcome", "session"]),
        max_size=2,
        unique=True,
    ),
    st.sampled_from([None, "hour", "day"]),
    st.sampled_from(["", "team:b", "model:flash", "session:s00*", "duration:>20s", "found:EMAIL", "key:x"]),
    st.integers(-2, CALLS + 2),
    st.integers(-2, CALLS + 2) | st.none(),
    st.sampled_from(ZONES),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_report_has_the_sums_of_the_calls_of_its_query(  # noqa: PLR0917  # what a report depends on
    audit: Indexed, names: list[str], time: str | None, words: str, since: int, until: int | None, zone: str
) -> None:
    by = [*([time] if time else []), *names] or ["team"]
    times = {"since": at_call(since), "zone": zone} | ({} if until is None else {"until": at_call(until)})
    query = parse_query([words], times, at=NOW)
    expected = sums_without_index(audit, query, by)
    report = audit.reports.report(query, by, 10_000)
    assert rows_of(report) == expected
    assert report.groups == len(expected)
    total = [sum(values) for values in zip(*expected.values(), strict=True)] or [0] * len(CALL_COLUMNS)
    assert list(report.total) == pytest.approx(total)


def at_call(number: int) -> str:
    return datetime.fromtimestamp((BEGAN + number * PAUSE) / 1000, UTC).isoformat()


def test_a_report_by_hook_has_their_runs_decisions_and_times(audit: Indexed) -> None:
    report = report_fields(audit.reports.report(parse_query([]), ["hook"], 10))
    for row in report["rows"]:
        own = [hook for call in audit.facts.values() for hook in call.hooks if hook.hook == row["hook"]]
        enforced = [hook for hook in own if not hook.observes]
        observed = [hook for hook in own if hook.observes]
        assert row["events"] == row["runs"] == len(own)
        assert (row["denials"], row["would_deny"]) == tuple(
            sum(hook.denials for hook in hooks) for hooks in (enforced, observed)
        )
        assert (row["edits"], row["would_edit"]) == tuple(
            sum(hook.edited for hook in hooks) for hooks in (enforced, observed)
        )
        times = sorted(hook.duration for hook in own)
        for name, share in (("median_ms", 0.5), ("p95_ms", 0.95)):
            exact = times[math.ceil(share * len(times)) - 1]
            assert exact <= row[name] <= exact * 1.26
    assert {row["hook"] for row in report["rows"]} == {"secrets", "tone"}


def test_a_report_by_finding_says_by_whom_and_bound_for_which_model(audit: Indexed) -> None:
    query = parse_query(["team:b since:2026-05-02T06:20Z until:2026-05-04T01:20Z"], at=NOW)
    report = audit.reports.report(query, ["found", "owner", "model"], 100)
    expected: dict[tuple[str, ...], list[float]] = {}
    for call in audit.facts.values():
        # Whole hours, and therefore some minutes more.
        if call.names["team"] != "b" or not BEGAN + 8 * HOUR <= call.at < BEGAN + 52 * HOUR:
            continue
        for hook in call.hooks:
            for kind, count in hook.findings.items():
                known = expected.setdefault((kind, call.names["owner"], call.names["model"]), [0, 0])
                known[0] += 1
                known[1] += count
    assert rows_of(report) == expected
    assert expected
    assert (report.since, report.until) == (BEGAN + 8 * HOUR, BEGAN + 52 * HOUR)


def test_the_largest_groups_come_first_and_the_last_hours_are_listed(audit: Indexed) -> None:
    report = audit.reports.report(parse_query(["sort:cost"]), ["session"], 5)
    costs = [row[-1] for row in report.rows]
    assert costs == sorted(costs, reverse=True)
    assert (len(costs), report.groups) == (5, CALLS // 4)
    hours = audit.reports.report(parse_query([]), ["hour"], 3)
    every = audit.reports.report(parse_query([]), ["hour"], 1000)
    assert hours.rows == every.rows[-3:]


@pytest.mark.parametrize(
    ("by", "words", "message"),
    [
        ("tem", "", "by: must be one or several of key, owner, team"),
        ("team,team", "", "by: must be one or several of"),
        ("", "", "by: must be one or several of"),
        ("hour,day", "", "by: hour and day cannot be given together"),
        ("hook", "owner:ada", "by: a report by hook cannot tell owner apart"),
        ("hook,session", "", "by: a report by hook cannot tell session apart"),
        ("found", "outcome:denied", "by: a report by found cannot tell outcome apart"),
        ("hook", "cost:>1", "cost: a report by hook has no cost of single calls"),
    ],
)
def test_what_has_no_sums_is_refused(by: str, words: str, message: str, audit: Indexed) -> None:
    with pytest.raises(ValueError, match=message):
        audit.reports.report(parse_query([words]), by.split(","), 10)


def test_without_calls_a_report_is_empty(tmp_path: Path) -> None:
    with indexed_audit(tmp_path, 0) as audit:
        for by in ("team", "hook", "found", "day"):
            report: Any = audit.reports.report(parse_query([], zone=ZoneInfo("UTC")), [by], 10)
            assert (report.rows, sum(report.total), report.since) == ([], 0, None)
