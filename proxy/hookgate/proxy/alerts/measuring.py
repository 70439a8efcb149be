"""What rules count, from the index of the audit. All statements are bounded in time."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, event, select

from hookgate.proxy.alerts.rules import EvaluatedRule
from hookgate.proxy.audit.index.building import CallIndex
from hookgate.proxy.audit.index.reporting import Report, Reports
from hookgate.proxy.audit.index.times import DAY, HOUR
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import CALLER_FIELDS, audit_calls, audit_names, call_sums, session_sums

MAX_GROUPS = 1000
"""The groups of a rule that are looked at, those with most first. Clients may invent some to hide others."""

STATEMENT_SECONDS = 3.0
"""How long one statement may take; a rule whose statement takes longer keeps its state."""

_CHECKED_STEPS = 10_000
"""Steps of SQLite between two looks at the clock."""

_MAX_KNOWN = 10_000

Subject = tuple[str, ...]
"""The names of a group; empty if a rule counts all calls together."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rule has counted by group. If it is not `complete`, there were more groups."""

    values: Mapping[Subject, float]
    complete: bool = True


class Meter:
    """Counts for rules. Every method may raise database errors."""

    def __init__(self, index: CallIndex) -> None:
        self._index, self._reports = index, Reports(index)
        self._known: set[tuple[Subject, Subject]] = set()
        limit_statements(index.database, STATEMENT_SECONDS)

    def backlog(self) -> int:
        """Return about how many records are not indexed yet."""
        return self._index.backlog()

    def measure(self, rule: EvaluatedRule, now: int, until: float = math.inf) -> Measured:
        """Return what a rule counts in the window that ends now, in milliseconds since 1970.

        Groups that cannot be looked up `until` then, on the monotonic clock, are left out.
        """
        query = rule.query_at(now)
        report = self._reports.report(query, rule.groups or ("outcome",), MAX_GROUPS)
        if not rule.groups:
            return Measured({(): _amount(report, report.total, rule.settings.count)})
        width = len(rule.groups)
        values = {
            tuple(map(str, row[:width])): _amount(report, row[width:], rule.settings.count)
            for row in report.rows
        }
        measured = Measured(values, report.groups <= len(report.rows))
        return self._new(rule, measured, query.since or 0, until) if rule.settings.new else measured

    def _new(self, rule: EvaluatedRule, measured: Measured, since: int, until: float) -> Measured:
        """Return the groups that are new, as far as there is time to look them up."""
        found: dict[Subject, float] = {}
        for subject, value in measured.values.items():
            if time.monotonic() > until:
                return Measured(found, complete=False)
            if self._is_new(rule, subject, since):
                found[subject] = value
        return Measured(found, measured.complete)

    def _is_new(self, rule: EvaluatedRule, subject: Subject, since: int) -> bool:
        """Return whether a group is new, although calls are known of the group without its last name."""
        if (rule.groups, subject) in self._known:
            return False
        with self._index.database.reading.begin() as connection:
            if _was_known(connection, rule.groups, subject, since):
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known.add((rule.groups, subject))
                return False
            return _was_known(connection, rule.groups[:-1], subject[:-1], since)


def _amount(report: Report, values: Sequence[Any], count: str) -> float:
    amounts = dict(zip(report.columns, values, strict=True))
    return float(amounts["input_tokens"] + amounts["output_tokens"] if count == "tokens" else amounts[count])


def _was_known(connection: Connection, fields: Sequence[str], names: Subject, before: int) -> bool:
    """Return whether calls with these names have ended before a time.

    Whole days and hours are looked up in the sums, so that only the calls of an hour are read one by one.
    """
    numbers: dict[str, int] = {}
    for field, name in zip(fields, names, strict=True):
        query = select(audit_names.c.number).where(audit_names.c.field == field, audit_names.c.name == name)
        found = connection.execute(query).scalar() if name else 0
        if found is None:
            return False
        numbers[field] = found
    tables = session_sums if {*fields} - {*CALLER_FIELDS} else call_sums
    day, hour = before // DAY, before // HOUR

    def of_group(columns: Any) -> list[ColumnElement[bool]]:
        return [columns[field] == number for field, number in numbers.items()]

    days, hours, calls = tables.days.c, tables.hours.c, audit_calls.c
    sources = (
        select(days.calls).where(days.period < day, *of_group(days)),
        select(hours.calls).where(hours.period >= day * 24, hours.period < hour, *of_group(hours)),
        select(calls.at).where(calls.at >= hour * HOUR, calls.at < before, *of_group(calls)),
    )
    return any(connection.execute(query.limit(1)).first() is not None for query in sources)


def limit_statements(database: Database, seconds: float) -> None:
    """Have statements on new connections to a database end with an error after so many seconds."""
    if not database.is_file:

        def limit_server(connection: Any, _: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SET statement_timeout = {int(seconds * 1000)}")
            connection.commit()

        event.listen(database.engine, "connect", limit_server)
        return
    until = [0.0]

    def begin(*_: Any) -> None:
        until[0] = time.monotonic() + seconds

    def limit_file(connection: Any, _: Any) -> None:
        connection.set_progress_handler(lambda: time.monotonic() > until[0], _CHECKED_STEPS)

    event.listen(database.engine, "connect", limit_file)
    event.listen(database.engine, "before_cursor_execute", begin)
