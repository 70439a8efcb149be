"""What is asked of the audit: pages of calls, one call, what has come since. Each in milliseconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from hookgate.proxy.audit.packing import body_of
from hookgate.proxy.audit.places import around
from hookgate.proxy.audit.stored import Stored, names, records_with_content, stored
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import AuditOpen, AuditRecord
from hookgate.translator.fields import JsonObject


@dataclass(frozen=True, slots=True)
class Filter:
    """Which calls; an empty text stands for any. Times are of their ends, in milliseconds since 1970."""

    session: str = ""
    key: str = ""
    model: str = ""
    outcome: str = ""
    since: int | None = None
    until: int | None = None

    def wanted(self) -> list[tuple[Any, str]]:
        """Columns and values, the one first that leaves fewest calls, as far as that can be known."""
        common = self.outcome == "answered"
        pairs = [
            (AuditRecord.session, self.session),
            *([] if common else [(AuditRecord.outcome, self.outcome)]),
            (AuditRecord.key, self.key),
            (AuditRecord.model, self.model),
            *([(AuditRecord.outcome, self.outcome)] if common else []),
        ]
        return [(column, value) for column, value in pairs if value]


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that has ended, or an event. `start` is the body of its start; None where retention took it."""

    position: int
    id: str
    at: int
    type: str
    session: str
    key: str
    model: str
    outcome: str
    body: JsonObject
    start: JsonObject | None


@dataclass(frozen=True, slots=True)
class Began:
    """A call that has not ended yet; `body` is that of its start."""

    id: str
    at: int
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Detail:
    """All that there is of one call: each record with its content. An event has an `end` alone."""

    start: Stored | None
    end: Stored | None


class Reading:
    """Reads a database of the audit. Every method raises what a database raises."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine

    def calls(self, wanted: Filter, limit: int = 50, before: int | None = None) -> list[Ended]:
        """The newest first; the next page is `before` the position of the last one."""
        with self._engine.begin() as connection:
            conditions = _conditions(connection, wanted)
            if conditions is None:
                return []
            if before is not None:
                conditions.append(AuditRecord.position < before)
            query = _ended().where(*conditions).order_by(AuditRecord.position.desc()).limit(limit)
            return _with_starts(connection, connection.execute(query).all())

    def after(self, position: int, limit: int = 50) -> list[Ended]:
        """Those that ended after the one at this position, the oldest first."""
        with self._engine.begin() as connection:
            query = _ended().where(AuditRecord.position > position).order_by(AuditRecord.position)
            return _with_starts(connection, connection.execute(query.limit(limit)).all())

    def last(self) -> int:
        """The newest position; 0 without any."""
        with self._engine.begin() as connection:
            return connection.execute(select(func.max(AuditRecord.position))).scalar() or 0

    def running(self, limit: int = 100) -> list[Began]:
        """Calls without an end, in no order: of gateways that run, or have died and nobody noticed yet."""
        with self._engine.begin() as connection:
            query = (
                select(AuditRecord.id, AuditRecord.at, AuditRecord.body)
                .where(AuditRecord.id.in_(select(AuditOpen.id)), AuditRecord.type == "start")
                .limit(limit)
            )
            return [Began(row.id.hex(), row.at, body_of(row.body)) for row in connection.execute(query)]

    def call(self, receipt: str) -> Detail | None:
        """One call or event by its receipt's id; None when it is not there. Raises ValueError for no id."""
        with self._engine.begin() as connection:
            query = records_with_content().where(AuditRecord.id == bytes.fromhex(receipt))
            known = names(connection)
            found = [stored(row, known) for row in connection.execute(query)]
        if not found:
            return None
        start = next((each for each in found if each.record.type == "start"), None)
        return Detail(start, next((each for each in found if each.record.type != "start"), None))


def _ended() -> Any:
    return select(*AuditRecord.__table__.columns).where(AuditRecord.outcome.is_not(None))


def _conditions(connection: Connection, wanted: Filter) -> list[ColumnElement[bool]] | None:
    """None when no record is as young as is wanted."""
    pairs = wanted.wanted()
    conditions = [column == value for column, value in pairs[:1]]
    # The other columns are wrapped, or SQLite could take the index of one that leaves a million calls.
    conditions += [func.coalesce(column, "") == value for column, value in pairs[1:]]
    if wanted.since is not None:
        first = around(connection, wanted.since)
        if first is None:
            return None
        conditions += [AuditRecord.position >= first, AuditRecord.at >= wanted.since]
    if wanted.until is not None:
        conditions.append(AuditRecord.at < wanted.until)
    return conditions


def _with_starts(connection: Connection, rows: Sequence[Any]) -> list[Ended]:
    ids = [row.id for row in rows if row.type == "end"]
    query = select(AuditRecord.id, AuditRecord.body).where(
        AuditRecord.id.in_(ids), AuditRecord.type == "start"
    )
    starts = {row.id: body_of(row.body) for row in connection.execute(query)} if ids else {}
    return [
        Ended(
            row.position,
            row.id.hex(),
            row.at,
            row.type,
            row.session or "",
            row.key or "",
            row.model or "",
            row.outcome,
            body_of(row.body),
            starts.get(row.id),
        )
        for row in rows
    ]
