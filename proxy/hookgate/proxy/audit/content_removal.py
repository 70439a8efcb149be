"""Removal of the content of records, after which the chain still verifies.

A record contains the hash of its content, which is stored apart from it. A removal adds a record that names
the records without content, in the same transaction, so that `verify` can tell it from any other loss.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, tuple_

from hookgate.proxy.audit.chain import Entry, audit_entry
from hookgate.proxy.audit.ranges import ranges_of
from hookgate.proxy.store.models import audit_content

CONTENT_REMOVED = "content_removed"
"""The event of a removal of content."""

Place = tuple[int, int]
"""The number of a record's writer, and its own number in the writer's chain."""


def remove_content(connection: Connection, places: Sequence[Place]) -> list[Place]:
    """Remove the content of these records, and return those that had any."""
    if connection.dialect.name == "sqlite":  # overwrite it in the file
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    at = audit_content.c.writer, audit_content.c.seq
    rows = connection.execute(delete(audit_content).where(tuple_(*at).in_(places)).returning(*at))
    return [(row.writer, row.seq) for row in rows]


def content_removed(places: Sequence[Place], why: str) -> Entry:
    """Return the entry about a removal of content, by which `verify` knows these records."""
    by_writer: dict[int, list[int]] = {}
    for writer, seq in sorted(places):
        by_writer.setdefault(writer, []).append(seq)
    ranges = {str(writer): ranges_of(numbers) for writer, numbers in by_writer.items()}
    return audit_entry(CONTENT_REMOVED, why=why, count=len(places), records=ranges)
