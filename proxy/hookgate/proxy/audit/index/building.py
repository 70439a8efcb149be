"""Makes the index of calls from the audit's records, in steps, each of which is one transaction.

Any process may take the next step: a gateway after it has written records, and a command before it reads.
The index itself says how far it has come. It contains nothing that is not in the records, so it can be
removed, and is then made again.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import randbits
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, case, delete, func, insert, or_, select, text, update

from hookgate.proxy.audit.chain import now
from hookgate.proxy.audit.index.facts import CallFacts, HookFacts, facts_of
from hookgate.proxy.audit.index.names import NameNumbers
from hookgate.proxy.audit.index.times import HOUR
from hookgate.proxy.audit.reading import CHANGES
from hookgate.proxy.audit.stored import position_bounds, record_body
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import Database, open_audit_index
from hookgate.proxy.store.models import (
    CALLER_FIELDS,
    INDEX_TABLES,
    INDEXED_FIELDS,
    SumTables,
    audit_call_marks,
    audit_calls,
    audit_index,
    audit_names,
    audit_records,
    call_sums,
    finding_sums,
    hook_sums,
    session_sums,
)
from hookgate.translator.fields import JsonObject

VERSION = 3
"""The version of the index. Raise it when other facts are indexed: an older index is then made again."""

_STEP = 400
"""Records that are looked at in one step, half of which are ends of calls."""

_AT_ONCE = 8
"""Ends that are read at once, in less than a millisecond. Letting others run takes as long as reading one."""

_REMOVED = 2000
"""Calls that are removed in one step, after retention has removed their records."""

_LATE = 600_000
"""Milliseconds for which a position without a record is looked up again.

The writers of a server take positions when they write records, and may commit these in another order.
"""

_MAX_GAPS = 100

CHANGE = ("change", "change")
"""The mark of changes to policy and keys, which are no calls."""

_LOCK = 0x686F6F6B66696E64
"""The key of the advisory lock under which a server's index is written."""

_NEWER = "the audit's index was made by a newer version of hookgate; use that version to search"

_BUCKET = 1.25
_SHORTEST = 0.01


def bucket_of(milliseconds: float) -> int:
    """Return the bucket of a time; each one's bound is a quarter above the one before."""
    return max(0, math.ceil(math.log(max(milliseconds, _SHORTEST) / _SHORTEST, _BUCKET)))


def bucket_bound(bucket: int) -> float:
    """Return the longest time of a bucket in milliseconds."""
    return _SHORTEST * _BUCKET**bucket


def _new_removals() -> int:
    """Return a value of `removals` that no process has seen before."""
    return randbits(62)


@dataclass(slots=True)
class _Progress:
    """How far the index has come. `gaps` are pairs of first and last positions, and when they were found."""

    position: int = 0
    gaps: list[tuple[int, int, int]] | None = None
    removals: int = field(default_factory=_new_removals)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step has done: records that it looked at, and whether more remain. None if another took it."""

    records: int
    more: bool


class CallIndex:
    """The index of the calls in an audit. Every method may raise database errors."""

    def __init__(self, records: Database, index: Database) -> None:
        """Create the index of `records` in `index`, which is the same database on a server."""
        self._records, self.database = records, index
        self._names = NameNumbers(index)
        self._adding: dict[Table, Any] = {}  # the statements that add to sums: making one takes a millisecond

    def update(self, within: float) -> bool:
        """Take steps for up to `within` seconds. Returns whether all records of now are indexed."""
        until = time.monotonic() + within
        while self.is_behind():
            step = self.step()
            if time.monotonic() > until:
                return not self.is_behind()
            if step is None:
                time.sleep(0.02)
        return True

    def backlog(self) -> int:
        """Return about how many records are not indexed yet."""
        with self._records.reading.begin() as connection:
            bounds = position_bounds(connection)
        if bounds is None:
            return 0
        with self.database.reading.begin() as connection:
            progress = _progress(connection)
        return max(0, bounds[1] - max(progress.position, bounds[0] - 1))

    def is_behind(self) -> bool:
        """Return whether there is anything to do. Takes two short reads."""
        with self._records.reading.begin() as connection:
            bounds = position_bounds(connection)
        with self.database.reading.begin() as connection:
            progress = _progress(connection)
            first = connection.execute(select(func.min(audit_calls.c.position))).scalar()
        low, high = bounds or (0, 0)
        return progress.position != high or (first is not None and first < low)

    def step(self) -> Step | None:
        """Index the next records, and remove the calls of removed ones."""
        with self.database.engine.begin() as connection:
            if not self.database.is_file:
                query = text("SELECT pg_try_advisory_xact_lock(:number)")
                if not connection.execute(query, {"number": _LOCK}).scalar():
                    return None
            with self._records.reading.begin() as reading, self._names.forgetting_failures():
                return self._step(connection, reading)

    def clear(self) -> None:
        """Remove the whole index; the next steps make it again."""
        with self.database.engine.begin() as connection:
            _clear(connection)
            _save(connection, _Progress())

    def _step(self, connection: Connection, reading: Connection) -> Step:
        bounds = position_bounds(reading)
        progress = _progress(connection)
        # Made of other records than those that are there now.
        if bounds is None or not 0 <= progress.position <= bounds[1]:
            _clear(connection)
            progress = _Progress()
            if bounds is None:
                return Step(0, more=False)
        removed = self._remove(connection, reading, bounds[0], progress)
        rows = self._next_rows(reading, progress)
        ended = _ended([row for row in rows if row.outcome is not None])
        changes = [
            (row.position, row.at)
            for row in rows
            if row.outcome is None and row.body is not None and record_body(row.body).get("event") in CHANGES
        ]
        self._add(connection, ended, changes, progress.removals)
        if rows:
            progress.position = max(progress.position, rows[-1].position)
        _save(connection, progress)
        return Step(len(rows), more=len(rows) >= _STEP or removed == _REMOVED)

    def _next_rows(self, reading: Connection, progress: _Progress) -> list[Any]:
        """Return the next records, those that were committed late first. Only ends have a body."""
        query = select(
            audit_records.c.position,
            audit_records.c.at,
            audit_records.c.id,
            audit_records.c.type,
            *(audit_records.c[name] for name in ("session", "key", "model", "outcome")),
            case((_is_indexed(), audit_records.c.body)).label("body"),
        ).order_by(audit_records.c.position)
        late: list[Any] = []
        if not self._records.is_file:
            for first, last, _ in progress.gaps or ():
                late += reading.execute(query.where(audit_records.c.position.between(first, last)))
        after = audit_records.c.position > progress.position
        rows = [*reading.execute(query.where(after).limit(_STEP))]
        if not self._records.is_file:
            progress.gaps = _gaps(progress, late, rows)
        return [*late, *rows]

    def _add(
        self,
        connection: Connection,
        ended: Sequence[tuple[int, CallFacts]],
        changes: Sequence[tuple[int, int]],
        removals: int,
    ) -> None:
        if not ended and not changes:
            return
        used: dict[tuple[str, str], tuple[int, int]] = {}
        for _, call in ended:
            hour = call.at // HOUR
            for each in {*call.names.items(), *call.marks, *_hook_names(call)}:
                count, last = used.get(each, (0, 0))
                used[each] = count + 1, max(last, hour)
        if changes:
            used[CHANGE] = len(changes), changes[-1][1] // HOUR
        numbers = self._names.note(connection, used, removals)
        if ended:
            rows = [_row(position, call, numbers) for position, call in ended]
            connection.execute(insert(audit_calls), rows)
        marks = [
            {"position": position, "name": numbers[mark], "at": call.at}
            for position, call in ended
            for mark in sorted(call.marks)
        ]
        marks += [{"position": position, "name": numbers[CHANGE], "at": at} for position, at in changes]
        if marks:
            connection.execute(insert(audit_call_marks), marks)
        for tables, sums in _sums(ended, numbers):
            self._add_sums(connection, tables.hours, sums)
            self._add_sums(connection, tables.days, _by_day(sums))

    def _add_sums(self, connection: Connection, table: Table, sums: Mapping[Any, Any]) -> None:
        if not sums:
            return
        if table not in self._adding:
            self._adding[table] = self._statement_adding_to(table)
        names = [*table.primary_key.columns.keys(), *_amounts(table)]
        # In order, so that a table in the order of its key is written in places that are near each other.
        rows = [dict(zip(names, (*key, *sums[key]), strict=True)) for key in sorted(sums)]
        connection.execute(self._adding[table], rows)

    def _statement_adding_to(self, table: Table) -> Any:
        statement = self.database.insert(table)
        return statement.on_conflict_do_update(
            index_elements=table.primary_key.columns.keys(),
            set_={name: table.c[name] + statement.excluded[name] for name in _amounts(table)},
        )

    def _remove(self, connection: Connection, reading: Connection, first: int, progress: _Progress) -> int:
        """Remove calls before the position of the first record, and what nobody needs any more."""
        query = select(audit_calls.c.position).where(audit_calls.c.position < first)
        gone = list(connection.execute(query.order_by(audit_calls.c.position).limit(_REMOVED)).scalars())
        if not gone:
            return 0
        for table in (audit_calls, audit_call_marks):
            connection.execute(delete(table).where(table.c.position <= gone[-1]))
        if len(gone) == _REMOVED:
            return _REMOVED
        at = reading.execute(select(audit_records.c.at).where(audit_records.c.position == first)).scalar_one()
        hour = at // HOUR - 1  # records may be a minute older than ones before them
        for tables in (call_sums, session_sums, finding_sums, hook_sums):
            connection.execute(delete(tables.hours).where(tables.hours.c.period < hour))
            connection.execute(delete(tables.days).where(tables.days.c.period < hour // 24))
        if connection.execute(delete(audit_names).where(audit_names.c.used < hour)).rowcount:
            progress.removals = _new_removals()
        return len(gone)


@contextmanager
def open_index(records: Database, url: str | None, state: Path) -> Iterator[CallIndex]:
    """Open the index of an audit's records while the block runs. Raises StoreError."""
    database = open_audit_index(url, state)
    try:
        yield CallIndex(records, database)
    finally:
        database.close()


def _is_indexed() -> ColumnElement[bool]:
    """Return the condition for records whose bodies are indexed: ends, events and changes."""
    return or_(audit_records.c.outcome.is_not(None), audit_records.c.type == "event")


def _progress(connection: Connection) -> _Progress:
    """Return how far the index has come. Raises StoreError if a newer version has made it."""
    row = connection.execute(select(audit_index).order_by(audit_index.c.version.desc()).limit(1)).first()
    if row is None:
        return _Progress()
    if row.version > VERSION:
        raise StoreError(_NEWER)
    if row.version < VERSION:
        return _Progress(-1)
    return _Progress(row.position, [(*each,) for each in json.loads(row.gaps)], row.removals)


def _save(connection: Connection, progress: _Progress) -> None:
    values = {
        "position": progress.position,
        "gaps": json.dumps(progress.gaps or []),
        "removals": progress.removals,
    }
    changed = connection.execute(update(audit_index).where(audit_index.c.version == VERSION).values(values))
    if not changed.rowcount:
        connection.execute(insert(audit_index), {"version": VERSION, **values})


def _clear(connection: Connection) -> None:
    for table in INDEX_TABLES:
        connection.execute(delete(table))


def _gaps(progress: _Progress, late: Sequence[Any], rows: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Return the gaps before the last of the rows, without those that are filled or too old."""
    since = now()
    found = {row.position for row in late}
    gaps = [
        (first, last, seen)
        for gap in progress.gaps or ()
        if since - gap[2] < _LATE
        for first, last, seen in _without(gap, found)
    ]
    previous = progress.position or (rows[0].position - 1 if rows else 0)
    for row in rows:
        if row.position > previous + 1 and since - row.at < _LATE:
            gaps.append((previous + 1, row.position - 1, since))
        previous = row.position
    return gaps[-_MAX_GAPS:]


def _without(gap: tuple[int, int, int], found: Iterable[int]) -> Iterable[tuple[int, int, int]]:
    """Return what is left of a gap without the positions that were found."""
    first, last, seen = gap
    for position in sorted(each for each in found if first <= each <= last):
        if position > first:
            yield first, position - 1, seen
        first = position + 1
    if first <= last:
        yield first, last, seen


def _ended(rows: Sequence[Any]) -> list[tuple[int, CallFacts]]:
    """Return positions and facts of calls that have ended."""
    found = []
    for number, row in enumerate(rows):
        if number % _AT_ONCE == 0:
            time.sleep(0)  # a gateway's calls need the interpreter
        # The columns are what is left of a record whose body is damaged.
        kept: JsonObject = {"session": {"id": row.session, "key": row.key}, "model": row.model}
        body = {**kept, **record_body(row.body), "outcome": row.outcome}
        found.append((row.position, facts_of(row.at, body)))
    return found


def _hook_names(call: CallFacts) -> Iterable[tuple[str, str]]:
    """Yield the names of all hooks that ran, which are in sums even if they had no effect."""
    for hook in call.hooks:
        yield "hook", hook.hook
        yield "event", hook.event


def _row(position: int, call: CallFacts, numbers: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    return {
        "position": position,
        "at": call.at,
        **{field: numbers[field, call.names[field]] for field in INDEXED_FIELDS},
        "edited": int(call.edited),
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "cost": call.cost,
        "duration": call.duration,
    }


def _amounts(table: Table) -> list[str]:
    """Return the names of the columns that are added up."""
    return [column.name for column in table.columns if not column.primary_key]


_SumRows = dict[tuple[int, ...], list[float]]


def _sums(
    ended: Sequence[tuple[int, CallFacts]], numbers: Mapping[tuple[str, str], int]
) -> list[tuple[SumTables, _SumRows]]:
    """Return what calls add to the sums by hour, by the keys of their rows."""
    calls: _SumRows = {}
    sessions: _SumRows = {}
    findings: _SumRows = {}
    hooks: _SumRows = {}
    for _, call in ended:
        hour = call.at // HOUR
        named = {field: numbers[field, name] for field, name in call.names.items()}
        caller = [named[field] for field in CALLER_FIELDS]
        amounts = [1, int(call.edited), call.input_tokens, call.output_tokens, call.cost]
        _add(calls, (hour, *caller), amounts)
        if named["session"]:
            _add(sessions, (hour, named["session"], *caller), amounts)
        who = [named[field] for field in ("key", "owner", "team", "model", "agent")]
        for hook in call.hooks:
            own = numbers["hook", hook.hook], numbers["event", hook.event]
            for kind, count in hook.findings.items():
                if (number := numbers.get(("found", kind))) is not None:
                    _add(findings, (hour, number, *own, *who), [1, count])
            key = (hour, *own, named["team"], int(hook.observes), bucket_of(hook.duration))
            _add(hooks, key, _run_amounts(hook))
    return [(call_sums, calls), (session_sums, sessions), (finding_sums, findings), (hook_sums, hooks)]


def _by_day(sums: _SumRows) -> _SumRows:
    """Return the same sums by day."""
    days: _SumRows = {}
    for (hour, *rest), amounts in sums.items():
        _add(days, (hour // 24, *rest), amounts)
    return days


def _run_amounts(hook: HookFacts) -> list[float]:
    return [1, hook.runs, hook.denials, int(hook.edited), hook.failures, hook.duration]


def _add(sums: _SumRows, key: tuple[int, ...], amounts: list[float]) -> None:
    known = sums.get(key)
    if known is None:
        sums[key] = amounts.copy()
    else:
        for place, amount in enumerate(amounts):
            known[place] += amount
