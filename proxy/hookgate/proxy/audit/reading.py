"""Queries of the audit's records: the latest calls, those that the index has found, one call, new calls."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.stored import (
    StoredRecord,
    read_records,
    record_body,
    records_with_content,
)
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import audit_open, audit_records
from hookgate.translator.fields import JsonObject


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that has ended, or an event. `start` is the body of its start; None if retention removed it."""

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
class BegunCall:
    """A call that has not ended yet. `body` is the body of its start."""

    id: str
    at: int
    body: JsonObject


@dataclass(frozen=True, slots=True)
class CallDetail:
    """The records of one call with their contents. An event has only an `end`."""

    start: StoredRecord | None
    end: StoredRecord | None


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of policy or keys, or of the settings in use. `at` is in milliseconds since 1970."""

    id: str
    at: int
    body: JsonObject


CHANGES = ("change", "policy")
"""The events that are changes: those that an operator made, and those of the settings that a gateway uses."""

_PAGE = 500
_PAGE_WITH_CONTENT = 10
_ID_DIGITS = 32


class AuditReader:
    """Reads the audit's database. Every method may raise database errors."""

    def __init__(self, database: Database) -> None:
        self._engine = database.reading
        self._in_transactions = database.engine  # which the cursor of a server needs

    def calls(self, limit: int = 50, before: int | None = None) -> list[EndedCall]:
        """Return the latest calls, the newest first; or those whose records are before a position."""
        query = _ended() if before is None else _ended().where(audit_records.c.position < before)
        with self._engine.begin() as connection:
            rows = connection.execute(query.order_by(audit_records.c.position.desc()).limit(limit)).all()
            return _with_starts(connection, rows)

    def at_positions(self, positions: Sequence[int]) -> list[EndedCall]:
        """Return the calls whose ends are at these positions, in this order, without those that are gone."""
        with self._engine.begin() as connection:
            rows = connection.execute(_ended().where(audit_records.c.position.in_(positions))).all()
            found = {call.position: call for call in _with_starts(connection, rows)}
        return [found[each] for each in positions if each in found]

    def changes_at(self, positions: Sequence[int]) -> list[RecordedChange]:
        """Return the changes of policy and keys at these positions, in this order."""
        columns = (audit_records.c[name] for name in ("position", "id", "at", "body"))
        query = select(*columns).where(audit_records.c.position.in_(positions))
        with self._engine.begin() as connection:
            found = {
                row.position: RecordedChange(row.id.hex(), row.at, record_body(row.body))
                for row in connection.execute(query)
            }
        return [found[each] for each in positions if each in found]

    def records_of(self, ends: Sequence[int]) -> Iterator[StoredRecord]:
        """Yield the records of the calls whose ends are at these positions, in the order of all records."""
        columns = audit_records.c
        positions: list[int] = []
        for first in range(0, len(ends), _PAGE):
            ids = select(columns.id).where(columns.position.in_(ends[first : first + _PAGE]))
            with self._engine.begin() as connection:
                positions += connection.execute(select(columns.position).where(columns.id.in_(ids))).scalars()
        positions = sorted(set(positions))
        for first in range(0, len(positions), _PAGE_WITH_CONTENT):
            page = records_with_content().where(
                columns.position.in_(positions[first : first + _PAGE_WITH_CONTENT])
            )
            with self._engine.begin() as connection:
                found = read_records(connection, page.order_by(columns.position))
            yield from found

    def running(self, limit: int = 100) -> list[BegunCall]:
        """Return calls without an end, in no particular order.

        They belong to gateways that are running, or that have died and are not recovered yet.
        """
        with self._engine.begin() as connection:
            query = (
                select(audit_records.c.id, audit_records.c.at, audit_records.c.body)
                .where(audit_records.c.id.in_(select(audit_open.c.id)), audit_records.c.type == "start")
                .limit(limit)
            )
            return [
                BegunCall(row.id.hex(), row.at, record_body(row.body)) for row in connection.execute(query)
            ]

    def ids(self, prefix: str, limit: int) -> list[str]:
        """Return the IDs of calls, events and changes that begin with these digits, at most `limit`.

        The digits are hexadecimal. Records that the audit keeps about itself, such as that of a writer's end,
        have random IDs that nobody knows, and do not count.
        """
        first, last = (bytes.fromhex(prefix.ljust(_ID_DIGITS, fill)) for fill in "0f")
        columns = audit_records.c.id, audit_records.c.type, audit_records.c.outcome, audit_records.c.body
        query = select(*columns).where(audit_records.c.id.between(first, last)).order_by(audit_records.c.id)
        found: list[str] = []
        with self._in_transactions.begin() as connection:
            for row in connection.execute(query.execution_options(yield_per=_PAGE)):
                if _is_of_the_audit_itself(row):
                    continue
                if (each := row.id.hex()) not in found[-1:]:
                    found.append(each)
                if len(found) == limit:
                    break
        return found

    def whole_id(self, text: str) -> str | None:
        """Return the ID of the only record whose ID is this text or begins with it, or None.

        Raises ValueError if the text is neither an ID nor the beginning of one, or that of several ones.
        """
        return only_id(text, self.ids(check_id(text), _MAX_MATCHES + 1))

    def call(self, receipt: str) -> CallDetail | None:
        """Return a call or event by its receipt's ID, or None. Raises ValueError if the ID is not hex."""
        with self._engine.begin() as connection:
            query = records_with_content().where(audit_records.c.id == bytes.fromhex(receipt))
            records = read_records(connection, query)
        if not records:
            return None
        start = next((stored for stored in records if stored.record.type == "start"), None)
        return CallDetail(start, next((stored for stored in records if stored.record.type != "start"), None))


_PREFIX = re.compile(r"[0-9a-f]{4,32}")

_MAX_MATCHES = 5
"""The maximum number of IDs to name if several begin with the same digits."""


def check_id(text: str) -> str:
    """Return a text that is an ID or the beginning of one. Raises ValueError for others."""
    if not _PREFIX.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a receipt ID: use the 32 hexadecimal digits of the header x-hookgate-receipt, "
            "or at least the first 4 of them"
        )
    return text


def only_id(text: str, ids: Sequence[str]) -> str | None:
    """Return the only ID of those that begin with a text, or None without one. Raises ValueError."""
    if len(ids) > 1:
        listed = ", ".join(ids[:_MAX_MATCHES]) + (", …" if len(ids) > _MAX_MATCHES else "")
        raise ValueError(f"several calls have IDs that begin with {text}: {listed}; use more digits")
    return ids[0] if ids else None


def _is_of_the_audit_itself(row: Any) -> bool:
    """Return whether a record is neither of a call or event nor of a change."""
    if row.type != "event" or row.outcome is not None:
        return False
    return record_body(row.body).get("event") not in CHANGES


_LATE_COMMITS = 1000
"""The number of positions before the last one at which a record may still appear.

The writers of a server take positions when they write records, and may commit these in another order.
"""


class NewCalls:
    """The calls that end from now on, including those whose records are committed late."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine
        with self._engine.begin() as connection:
            self._first = _last_position(connection) - _LATE_COMMITS
            self._known = self._ended(connection)

    def read(self) -> list[EndedCall]:
        """Return the calls that have ended since the last time, in the order of their records."""
        with self._engine.begin() as connection:
            last = _last_position(connection)
            ended = self._ended(connection)
            new = sorted(ended - self._known)
            rows: list[Any] = []
            for start in range(0, len(new), _PAGE):
                query = _ended().where(audit_records.c.position.in_(new[start : start + _PAGE]))
                rows += connection.execute(query.order_by(audit_records.c.position))
            self._first = last - _LATE_COMMITS
            self._known = {position for position in ended if position > self._first}
            return _with_starts(connection, rows)

    def _ended(self, connection: Connection) -> set[int]:
        query = select(audit_records.c.position).where(
            audit_records.c.outcome.is_not(None), audit_records.c.position > self._first
        )
        return set(connection.execute(query).scalars())


def _last_position(connection: Connection) -> int:
    return connection.execute(select(func.max(audit_records.c.position))).scalar() or 0


def receipt_of(detail: CallDetail) -> JsonObject | None:
    """Return the receipt of a call that has ended, from its records, or None if it has not ended.

    The call of a gateway that died has a receipt without the fields that are known at the end of a call.
    """
    if detail.end is None:
        return None
    first, end = (detail.start or detail.end).record, dict(detail.end.record.body)
    facts = {**first.body, **end}
    sizes = {"request": facts.pop("request_bytes", None), "answer": facts.pop("answer_bytes", None)}
    for name in ("client_gone", "decided_by", "found", "reasons", "writer"):
        facts.pop(name, None)
    return {"receipt": first.id, "began": utc_text(first.at / 1000), **facts, "bytes": sizes}


def _ended() -> Any:
    return select(*audit_records.columns).where(audit_records.c.outcome.is_not(None))


def _with_starts(connection: Connection, rows: Sequence[Any]) -> list[EndedCall]:
    ids = [row.id for row in rows if row.type == "end"]
    query = select(audit_records.c.id, audit_records.c.body).where(
        audit_records.c.id.in_(ids), audit_records.c.type == "start"
    )
    starts = {row.id: record_body(row.body) for row in connection.execute(query)} if ids else {}
    return [
        EndedCall(
            row.position,
            row.id.hex(),
            row.at,
            row.type,
            row.session or "",
            row.key or "",
            row.model or "",
            row.outcome,
            record_body(row.body),
            starts.get(row.id),
        )
        for row in rows
    ]
