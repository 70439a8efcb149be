"""Sums of calls from the index: calls, denials, edits, tokens and cost by any of their names, hour or day.

Whole hours are read from tables of sums, and the calls of the first and the last hour one by one. A query
with words for which there are no sums, such as `duration`, reads all calls of its time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Table,
    case,
    func,
    literal,
    or_,
    select,
    true,
    union_all,
)

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.index.building import CallIndex, bucket_bound
from hookgate.proxy.audit.index.query import GROUP_FIELDS, NAMES, Names, Query
from hookgate.proxy.audit.index.searching import FoundSession, Term, find_terms, range_conditions
from hookgate.proxy.audit.index.times import DAY, HOUR, QUARTER
from hookgate.proxy.observe.outcomes import GUARDED
from hookgate.proxy.store.models import (
    CALLER_FIELDS,
    SumTables,
    audit_calls,
    audit_names,
    call_sums,
    finding_sums,
    hook_sums,
    session_sums,
)
from hookgate.translator.fields import JsonObject

_OUTCOMES = (*GUARDED, "failed")
_SUMMED = ("edited", "input_tokens", "output_tokens", "cost")
CALL_COLUMNS = ("calls", *_OUTCOMES, *_SUMMED)
_FOUND = ("calls", "findings")
FINDING_COLUMNS = ("events", "findings")
_RUNS = ("calls", "runs", "denials", "would_deny", "edits", "would_edit", "failures")
HOOK_COLUMNS = ("events", *_RUNS[1:], "median_ms", "p95_ms")
"""Sums of findings and hooks count a call once for each of its events, and therefore have no `calls`."""

_OF_FINDINGS = ("found", "hook", "event", "key", "owner", "team", "model", "agent")
_OF_HOOKS = ("hook", "event", "team")
_TIMES = ("hour", "day")

_NAMES_AT_ONCE = 500

_PARTS_OF_SESSIONS = 2000
"""The maximum number of groups of the calls of some sessions."""

_FEW_CALLS = 50_000
"""Calls of names for which their index is read rather than all calls of the time."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report. Each row has the names of its group, and then the values of `columns`."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    total: tuple[Any, ...]
    """The values of `columns` for all groups, also those that are not listed."""
    groups: int
    """The number of all groups."""
    since: int | None
    """The beginning of the time that it covers, in milliseconds since 1970; None if there are no calls."""
    until: int | None
    """The end of this time; None for now."""


def report_fields(report: Report) -> JsonObject:
    """Return a report as JSON: each row and the total are objects."""
    names = (*report.by, *report.columns)
    return {
        "by": list(report.by),
        "since": None if report.since is None else utc_text(report.since / 1000),
        "until": None if report.until is None else utc_text(report.until / 1000),
        "groups": report.groups,
        "rows": [dict(zip(names, row, strict=True)) for row in report.rows],
        "total": dict(zip(report.columns, report.total, strict=True)),
    }


@dataclass(frozen=True, slots=True)
class _SumSource:
    """A source of sums. Its numbers of time are those of a `unit` of milliseconds since 1970."""

    table: FromClause
    unit: int
    time: ColumnElement[int]
    conditions: list[ColumnElement[bool]]


_Groups = dict[tuple[Any, ...], list[float]]


class Reports:
    """Makes reports from an index. Every method may raise database errors, and ValueError for a query."""

    def __init__(self, index: CallIndex) -> None:
        self._database = index.database

    def report(self, query: Query, by: Sequence[str], limit: int) -> Report:
        """Return the sums of the calls of a query by one or several of `GROUP_FIELDS`.

        The groups with most calls come first, or with most of what the query is sorted by; hours and days are
        in order, and if there are more than `limit`, the last ones are listed.
        """
        _check(query, by)
        with self._database.reading.begin() as connection:
            first = connection.execute(select(func.min(audit_calls.c.at))).scalar()
            query = replace(query, since=first if query.since is None else max(query.since, first or 0))
            terms = None if first is None else find_terms(connection, query)
            columns: tuple[str, ...]
            if "found" in by:
                query, columns = _in_whole_hours(query), FINDING_COLUMNS
                sums = _Sums(query, by, _FOUND, [*_table_sources(finding_sums, query, by)])
            elif {"hook", "event"} & {*by}:
                query, columns = _in_whole_hours(query), HOOK_COLUMNS
                sums = _Sums(query, (*by, "bucket"), _RUNS, [*_table_sources(hook_sums, query, by)])
            else:
                columns = CALL_COLUMNS
                sums = _Sums(query, by, columns, [*_call_sources(query, by)])
            if terms is None:
                found = _Found([], [0] * len(columns), 0)
            elif {*_TIMES, "bucket"} & {*sums.by}:
                found = _from_all_groups(sums, sums.read(connection, terms), by, columns, limit)
            else:
                found = sums.read_largest(connection, terms, limit)
            rows = _named(connection, found.groups, by)
        return Report(tuple(by), columns, rows, tuple(found.total), found.count, query.since, query.until)

    def sessions(
        self, sessions: Iterable[FoundSession]
    ) -> Iterator[tuple[FoundSession, JsonObject, tuple[float, ...]]]:
        """Yield the sums of sessions in parts: a session, team, client and model of calls, and sums.

        The sums are those of calls, of denied ones, tokens and cost.
        """
        wanted = {*sessions}
        if not wanted:
            return
        names = Names(NAMES["session"], whole=tuple(dict.fromkeys(each.session for each in wanted)))
        by = ("session", "owner", "team", "agent", "model")
        for row in self.report(Query({"session": names}), by, _PARTS_OF_SESSIONS).rows:
            session, owner, team, client, model = row[: len(by)]
            sums = dict(zip(CALL_COLUMNS, row[len(by) :], strict=True))
            if (each := FoundSession(session, owner)) in wanted:
                amounts = (
                    sums["calls"],
                    sum(sums[outcome] for outcome in GUARDED),
                    sums["input_tokens"] + sums["output_tokens"],
                    sums["cost"],
                )
                yield each, {"team": team, "client": client, "model": model}, amounts


@dataclass(frozen=True, slots=True)
class _Found:
    """The groups that are listed, each with its sums; the sums of all groups, and their number."""

    groups: list[tuple[tuple[Any, ...], list[float]]]
    total: list[float]
    count: int


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of `columns` from several sources, by groups."""

    query: Query
    by: Sequence[str]
    columns: Sequence[str]
    sources: Sequence[_SumSource]

    def read(self, connection: Connection, terms: Sequence[Term]) -> _Groups:
        """Return the sums of all groups, with names of hours and days."""
        groups: _Groups = {}
        outcomes = _numbers_of_outcomes(connection)
        place = next((place for place, each in enumerate(self.by) if each in _TIMES), None)
        for source in self.sources:
            for row in connection.execute(self._select(source, terms, outcomes)):
                group, values = list(row[: len(self.by)]), row[len(self.by) :]
                if place is not None:
                    group[place] = _time_name(group[place] * source.unit, self.by[place], self.query.zone)
                known = groups.setdefault(tuple(group), [0] * len(values))
                for at, value in enumerate(values):
                    known[at] += _number(value)
        return groups

    def read_largest(self, connection: Connection, terms: Sequence[Term], limit: int) -> _Found:
        """Return the largest groups and the total, which the database sums up."""
        if not self.sources:
            return _Found([], [0] * len(self.columns), 0)
        outcomes = _numbers_of_outcomes(connection)
        # Summed up once over all sources, and the total from these sums: windows would take twice the time.
        every = union_all(*(self._rows(source, terms) for source in self.sources)).subquery()
        groups = [every.c[f"group_{place}"] for place in range(len(self.by))]
        amounts = _amounts(every, self.columns, outcomes)
        sums = [each.label(f"sum_{place}") for place, each in enumerate(amounts)]
        found = select(*groups, *sums).group_by(*groups).cte("found")
        of_groups, of_sums = list(found.c)[: len(groups)], list(found.c)[len(groups) :]
        total = select(func.count(), *(func.sum(each).label(f"all_{each.name}") for each in of_sums))
        over_all = total.select_from(found).cte("total")
        ranks = [of_sums[place] for place in _ranks(self.columns, self.query.sort)]
        order = (sum(ranks[1:], ranks[0]).desc(), *of_groups)
        rows = connection.execute(
            select(*found.c, *over_all.c).join_from(found, over_all, true()).order_by(*order).limit(limit)
        ).all()
        if not rows:
            return _Found([], [0] * len(self.columns), 0)
        first, last = len(groups), len(groups) + len(sums)
        listed = [(tuple(row[:first]), [_number(value) for value in row[first:last]]) for row in rows]
        return _Found(listed, [_number(value) for value in rows[0][last + 1 :]], rows[0][last])

    def _select(self, source: _SumSource, terms: Sequence[Term], outcomes: Mapping[str, int]) -> Any:
        groups, sums = self._groups(source), _amounts(source.table, self.columns, outcomes)
        return select(*groups, *sums).where(*_conditions(source, terms)).group_by(*groups)

    def _rows(self, source: _SumSource, terms: Sequence[Term]) -> Any:
        """Return what to sum up of a source, in the same columns for every source."""
        column = source.table.c
        amounts = ("findings",) if self.columns is _FOUND else ("outcome", *_SUMMED)
        calls = column.calls if "calls" in column else literal(1).label("calls")
        summed = [calls, *(column[each] for each in amounts)]
        return select(*self._groups(source), *summed).where(*_conditions(source, terms))

    def _groups(self, source: _SumSource) -> list[Any]:
        groups = [source.time if each in _TIMES else source.table.c[each] for each in self.by]
        return [each.label(f"group_{place}") for place, each in enumerate(groups)]


def _number(value: Any) -> float:
    """Return a sum as a number: a server returns those of integers as decimals."""
    return value if isinstance(value, float) else int(value or 0)


def _from_all_groups(
    sums: _Sums, groups: _Groups, by: Sequence[str], columns: Sequence[str], limit: int
) -> _Found:
    """Return the groups to list: the last hours or days, or the largest groups."""
    if columns is HOOK_COLUMNS:
        total = _with_times(groups, len(by), total=True).get((), [0] * len(columns))
        groups = _with_times(groups, len(by))
    else:
        total = [sum(values) for values in zip(*groups.values(), strict=True)] or [0] * len(columns)
    if by[0] in _TIMES:
        return _Found(sorted(groups.items(), key=lambda item: item[0])[-limit:], total, len(groups))
    ranks = _ranks(columns, sums.query.sort)
    ranked = sorted(groups.items(), key=lambda item: (-sum(item[1][each] for each in ranks), item[0]))
    return _Found(ranked[:limit], total, len(groups))


def _ranks(columns: Sequence[str], sort: str) -> list[int]:
    """Return the places of the columns whose sum ranks the groups."""
    if sort == "tokens" and "input_tokens" in columns:
        return [columns.index(each) for each in ("input_tokens", "output_tokens")]
    return [columns.index(sort) if sort in columns else 0]


def _check(query: Query, by: Sequence[str]) -> None:
    """Check that there are sums for a report. Raises ValueError."""
    if not by or len(set(by)) != len(by) or not set(by) <= {*GROUP_FIELDS}:
        raise ValueError(f"by: must be one or several of {', '.join(GROUP_FIELDS)}, separated by commas")
    if {"hour", "day"} <= {*by}:
        raise ValueError("by: hour and day cannot be given together; use one of them")
    about = "found" if "found" in by else next((each for each in by if each in ("hook", "event")), None)
    if about is None:
        return
    fields = _OF_FINDINGS if about == "found" else _OF_HOOKS
    for each in (*by, *query.names):
        if each not in (*fields, *_TIMES):
            remedy = (
                "" if about == "found" or each not in _OF_FINDINGS else "; with found among the groups it can"
            )
            raise ValueError(
                f"by: a report by {about} cannot tell {each} apart, only {', '.join(fields)}{remedy}"
            )
    if query.amounts:
        name = next(iter(query.amounts))
        raise ValueError(f"{name}: a report by {about} has no {name} of single calls; leave it out")


def _call_sources(query: Query, by: Sequence[str]) -> Iterator[_SumSource]:
    """Yield from where to read the sums of calls: tables of sums, and what is not whole hours one by one."""
    if query.since is None:
        return
    with_session = "session" in by or "session" in query.names
    fields = ("session", *CALLER_FIELDS) if with_session else CALLER_FIELDS
    has_sums = {*query.names} <= {*fields} and not query.amounts
    first, last = _next(query.since, HOUR), None if query.until is None else query.until // HOUR * HOUR
    if not has_sums or (last is not None and last <= first) or ("day" in by and _splits_hours(query.zone)):
        yield _calls_source(query, by)
        return
    tables = session_sums if with_session else call_sums
    yield from _table_sources(tables, replace(query, since=first, until=last), by)
    if query.since < first:
        yield _calls_source(replace(query, until=first), by)
    if last is not None and query.until is not None and last < query.until:
        yield _calls_source(replace(query, since=last), by)


def _table_sources(tables: SumTables, query: Query, by: Sequence[str]) -> Iterator[_SumSource]:
    """Yield the sources of a query whose time is in whole hours: whole days, and the hours around them."""
    first, last = query.since, query.until
    if first is None:
        return
    first_day, last_day = _next(first, DAY), None if last is None else last // DAY * DAY
    in_days = not {"hour", "day"} & {*by} or ("hour" not in by and query.zone is UTC)
    if not in_days or (last_day is not None and last_day <= first_day):
        yield _table_source(tables.hours, HOUR, first, last)
        return
    yield _table_source(tables.hours, HOUR, first, first_day)
    yield _table_source(tables.days, DAY, first_day, last_day)
    if last_day is not None:
        yield _table_source(tables.hours, HOUR, last_day, last)


def _next(at: int, unit: int) -> int:
    """Return the first multiple of a unit that is not before a time."""
    return -(-at // unit) * unit


def _table_source(table: Table, unit: int, first: int, last: int | None) -> _SumSource:
    period = table.c.period
    conditions = [period >= first // unit, *([] if last is None else [period < last // unit])]
    return _SumSource(table, unit, period, conditions)


def _calls_source(query: Query, by: Sequence[str]) -> _SumSource:
    conditions = range_conditions(query)
    if "session" in by:  # as in the table of sums
        conditions.append(audit_calls.c.session != 0)
    return _SumSource(audit_calls, QUARTER, audit_calls.c.at // QUARTER, conditions)


def _splits_hours(zone: tzinfo | None) -> bool:
    """Return whether days of the zone begin within an hour of UTC."""
    offset = datetime.now(UTC).astimezone(zone).utcoffset()
    return offset is not None and offset.total_seconds() % 3600 != 0


def _in_whole_hours(query: Query) -> Query:
    """Return the query with its time extended to whole hours."""
    since = None if query.since is None else query.since // HOUR * HOUR
    return replace(query, since=since, until=None if query.until is None else _next(query.until, HOUR))


def _amounts(source: FromClause, columns: Sequence[str], outcomes: Mapping[str, int]) -> list[Any]:
    """Return the sums of `columns` to select from a source."""
    column = source.c
    if columns is _FOUND:
        return [func.sum(column[each]) for each in _FOUND]
    if columns is _RUNS:
        return _run_amounts(source)
    one = column.calls if "calls" in column else 1
    return [
        func.sum(one),
        *(func.sum(case((column.outcome == outcomes.get(each, -1), one), else_=0)) for each in _OUTCOMES),
        *(func.sum(column[each]) for each in _SUMMED),
    ]


def _run_amounts(source: FromClause) -> list[Any]:
    column = source.c

    def by_mode(amount: Any, observes: int) -> Any:
        return func.sum(case((column.observes == observes, amount), else_=0))

    return [
        *(func.sum(column[each]) for each in ("calls", "runs")),
        *(by_mode(column[each], observes) for each in ("denials", "edits") for observes in (0, 1)),
        func.sum(column.failures),
    ]


def _numbers_of_outcomes(connection: Connection) -> dict[str, int]:
    rows = connection.execute(
        select(audit_names.c.name, audit_names.c.number).where(audit_names.c.field == "outcome")
    )
    return {row.name: row.number for row in rows}


def _conditions(source: _SumSource, terms: Sequence[Term]) -> list[ColumnElement[bool]]:
    return [*source.conditions, *(_of_term(source, term) for term in terms)]


def _of_term(source: _SumSource, term: Term) -> ColumnElement[bool]:
    if source.table is audit_calls:
        return term.condition(indexed=term.calls <= _FEW_CALLS)
    return or_(*(term.any_of(source.table.c[each]) for each in term.fields))


def _time_name(at: int, unit: str, zone: tzinfo | None) -> str:
    when = datetime.fromtimestamp((at - at % HOUR if unit == "hour" else at) / 1000, UTC).astimezone(zone)
    return f"{when:%Y-%m-%d %H:%M}" if unit == "hour" else f"{when:%Y-%m-%d}"


def _with_times(groups: _Groups, fields: int, *, total: bool = False) -> _Groups:
    """Return groups without their last part, the bucket of a time, but with the median and p95 of times."""
    found: dict[tuple[Any, ...], tuple[list[float], dict[int, float]]] = {}
    for group, values in groups.items():
        sums, buckets = found.setdefault(() if total else group[:fields], ([0] * len(values), {}))
        for place, value in enumerate(values):
            sums[place] += value
        buckets[group[-1]] = buckets.get(group[-1], 0) + values[0]
    return {
        group: [*sums, _share(buckets, 0.5), _share(buckets, 0.95)]
        for group, (sums, buckets) in found.items()
    }


def _share(buckets: Mapping[int, float], share: float) -> float:
    """Return the time that a share of the calls did not exceed, in milliseconds, exact to a quarter."""
    wanted = share * sum(buckets.values())
    for bucket in sorted(buckets):
        wanted -= buckets[bucket]
        if wanted <= 0:
            return round(bucket_bound(bucket), 2)
    return 0


def _named(connection: Connection, ranked: Iterable[Any], by: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return rows with names for the numbers of the groups."""
    rows = list(ranked)
    named = [place for place, each in enumerate(by) if each not in _TIMES]
    numbers = sorted({group[place] for group, _ in rows for place in named})
    names = {0: ""}
    for some in _pages(numbers):
        query = select(audit_names.c.number, audit_names.c.name).where(audit_names.c.number.in_(some))
        names |= {row.number: row.name for row in connection.execute(query)}
    return [
        (*(names.get(each, "") if place in named else each for place, each in enumerate(group)), *values)
        for group, values in rows
    ]


def _pages(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _NAMES_AT_ONCE):
        yield numbers[start : start + _NAMES_AT_ONCE]
