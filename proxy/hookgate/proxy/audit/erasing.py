"""The records of one key: found, read with their contents, and left without these."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from hookgate.proxy.audit.chain import Entry
from hookgate.proxy.audit.content_removal import CONTENT_REMOVED, Place, content_removed, remove_content
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.stored import (
    StoredRecord,
    position_bounds,
    read_records,
    record_body,
    records_with_content,
)
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import audit_content, audit_open, audit_records

_WINDOW = 5000
"""Positions that are searched in one transaction."""

_BATCH = 500
"""Records whose content is removed in one transaction: calls wait for it."""


class FoundRecord(NamedTuple):
    """A record of a key. Its ID is that of its call."""

    id: bytes
    place: Place
    has_content: bool


def records_of_key(
    database: Database, key: str, progress: Callable[[int], None]
) -> Iterator[list[FoundRecord]]:
    """Yield the records of the calls with a key, by its name, in portions.

    `progress` is called with the number of records that were looked at since its last call.
    """
    with database.reading.begin() as connection:
        bounds = position_bounds(connection)
        open_calls = _open_calls(connection, key)
    if open_calls:
        with database.reading.begin() as connection:
            yield _found(connection, open_calls)
    first, last = bounds or (1, 0)
    for begin in range(first, last + 1, _WINDOW):
        position = audit_records.c.position
        of_key = select(audit_records.c.id).where(
            position.between(begin, begin + _WINDOW - 1),
            audit_records.c.outcome.is_not(None),
            audit_records.c.key == key,
        )
        with database.reading.begin() as connection:
            found = _found(connection, list(connection.execute(of_key).scalars()))
        if found:
            yield found
        progress(min(_WINDOW, last + 1 - begin))


def _open_calls(connection: Connection, key: str) -> list[bytes]:
    """Return the IDs of the calls of a key that have not ended: only the bodies of their starts name it."""
    query = select(audit_records.c.id, audit_records.c.body).where(
        audit_records.c.id.in_(select(audit_open.c.id)), audit_records.c.type == "start"
    )
    return [
        row.id
        for row in connection.execute(query)
        if (record_body(row.body).get("session") or {}).get("key") == key
    ]


def _found(connection: Connection, calls: Sequence[bytes]) -> list[FoundRecord]:
    if not calls:
        return []
    at = audit_records.c.writer, audit_records.c.seq
    query = (
        select(audit_records.c.id, *at, audit_content.c.seq.is_not(None).label("has_content"))
        .outerjoin(audit_content, (audit_content.c.writer == at[0]) & (audit_content.c.seq == at[1]))
        .where(audit_records.c.id.in_(calls))
    )
    return [FoundRecord(row.id, (row.writer, row.seq), row.has_content) for row in connection.execute(query)]


def whole_records(database: Database, found: Sequence[FoundRecord]) -> list[StoredRecord]:
    """Return these records with their contents, in the order in which they were written."""
    ids = {each.id for each in found}
    with database.reading.begin() as connection:
        query = records_with_content().where(audit_records.c.id.in_(ids)).order_by(audit_records.c.position)
        return read_records(connection, query)


def erase_content(ledger: Ledger, places: Sequence[Place]) -> Iterator[int]:
    """Remove the content of these records in portions, and record that. Yields how many of each had any.

    Raises database errors, and StoreError.
    """
    removed: list[Place] = []

    def step(connection: Connection) -> list[Entry]:
        removed[:] = remove_content(connection, batch)
        return [content_removed(removed, "erasure")] if removed else []

    for start in range(0, len(places), _BATCH):
        batch = places[start : start + _BATCH]
        ledger.write_about(step)
        yield len(removed)


def removals_of_content(connection: Connection, since: int) -> list[StoredRecord]:
    """Return the records about removals of content at a time, in milliseconds since 1970, or later."""
    query = records_with_content().where(
        audit_records.c.type == "event", audit_records.c.outcome.is_(None), audit_records.c.at >= since
    )
    found = read_records(connection, query.order_by(audit_records.c.position))
    return [stored for stored in found if stored.record.body.get("event") == CONTENT_REMOVED]
