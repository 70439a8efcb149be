"""Retention: the oldest records are removed first, and the removal itself is recorded in the chain."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, select, text

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.chain import now
from hookgate.proxy.audit.content_removal import Place, remove_content
from hookgate.proxy.audit.ranges import ranges_of
from hookgate.proxy.audit.stored import first_since, position_bounds, record_body
from hookgate.proxy.store.models import audit_content, audit_records
from hookgate.translator.fields import JsonObject

_BATCH = 500
"""Records that are removed in one transaction: calls wait for it."""

_SHRINK_PAGES = 100
"""Pages, of 4 KB, that a removal returns to the file system: calls wait for it."""

_DAY = 24 * 3600 * 1000
_FREE = 0.95
"""The share of the allowed size that is left after a removal."""

_SAMPLE = 10_000
"""The number of records of a PostgreSQL database whose size is measured; of fewer, all are."""

_RECORD_BYTES = 100
"""What a record takes in PostgreSQL besides its row: entries of indexes, and its share of a page's header."""

_CONTENT_BYTES = 80
"""What a record's content takes besides the packed content."""

_SAMPLED_BYTES = """
SELECT coalesce(sum(pg_column_size(r.*) + :record + coalesce(pg_column_size(c.data) + :content, 0)), 0)
FROM generate_series(CAST(:first AS bigint), :last, :step) AS sampled (position)
JOIN audit_records r USING (position)
LEFT JOIN audit_content c ON (c.writer, c.seq) = (r.writer, r.seq)
"""


@dataclass(slots=True)
class Removed:
    """What retention has removed so far, from the start of the chains on."""

    count: int = 0
    last_at: int = 0
    tips: dict[str, list[Any]] = field(default_factory=dict)
    """The last removed record of each writer, by the writer's number: sequence number and hash."""
    gone: set[int] = field(default_factory=set)
    """Writers that have ended and have no records left."""
    next_until: int = 0
    """The position before which there is more to remove; 0 if there is none."""

    def take_over(self, event: JsonObject) -> None:
        """Keep what a removed record contains about writers, so that it is recorded again."""
        if event.get("event") == "retention":
            self.tips |= event["tips"]
            self.gone |= {number for low, high in event["gone"] for number in range(low, high + 1)}
        elif event.get("event") in ("closed", "recovered"):  # it follows all records of its writer
            self.gone.add(event["writer"])

    def record_body(self) -> JsonObject:
        """Return the body of the record about the removal."""
        tips = {number: tip for number, tip in self.tips.items() if int(number) not in self.gone}
        body: JsonObject = {"records": self.count, "until": utc_text(self.last_at / 1000), "tips": tips}
        return {**body, "gone": ranges_of(sorted(self.gone))}


FirstNeeded = Callable[[Connection], int | None]
"""Returns the position of the first record that must be kept, whatever the limits are, or None."""


def nothing_needed(_: Connection) -> None:
    """Return None, because the limits alone decide."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits in days and in bytes for the records that are kept; None means no limit.

    `content_days` is the limit for the content of records, which is removed without them.
    """

    days: float | None = None
    size: int | None = None
    first_needed: FirstNeeded = nothing_needed
    content_days: float | None = None

    def remove(self, connection: Connection, is_file: bool, until: int = 0) -> Removed | None:
        """Remove records beyond the limits, at most `_BATCH` at once. Returns None if there are none.

        `until` is the `next_until` of a removal that this one continues, or 0. A file with free space becomes
        smaller, by at most `_SHRINK_PAGES` pages.
        """
        removed = self._remove_excess(connection, is_file, until)
        if is_file:
            _shrink(connection)
        return removed

    def remove_content(self, connection: Connection, begin: int) -> tuple[list[Place], int, bool]:
        """Remove old content of the records from the position `begin` on, of at most `_BATCH` positions.

        Returns the records that had any, where to begin the next time, and whether there is more to look at.
        """
        bounds = position_bounds(connection)
        if self.content_days is None or bounds is None:
            return [], begin, False
        until = self._first_recent_position(connection, bounds[1], self.content_days)
        begin = max(begin, bounds[0])
        end = min(until, begin + _BATCH)
        if end <= begin:
            return [], begin, False
        query = select(audit_records.c.writer, audit_records.c.seq).where(
            audit_records.c.position >= begin,
            audit_records.c.position < end,
            audit_records.c.content_sha256.is_not(None),
        )
        places = [(row.writer, row.seq) for row in connection.execute(query)]
        return remove_content(connection, places) if places else [], end, end < until

    def _remove_excess(self, connection: Connection, is_file: bool, until: int) -> Removed | None:
        bounds = position_bounds(connection)
        if bounds is None:
            return None
        first, last = bounds
        until = until or max(
            self._first_recent_position(connection, last, self.days),
            self._first_fitting_position(connection, is_file, first, last),
        )
        if until > first and (needed := self.first_needed(connection)) is not None:
            until = min(until, needed)
        if until <= first:
            return None
        end = min(until, first + _BATCH)
        return _remove(connection, end, until if end < until else 0)

    def _first_recent_position(self, connection: Connection, last: int, days: float | None) -> int:
        """Return the first position whose record is at most so many days old."""
        if days is None:
            return 0
        position = first_since(connection, now() - int(days * _DAY))
        return last + 1 if position is None else position

    def _first_fitting_position(self, connection: Connection, is_file: bool, first: int, last: int) -> int:
        """Return the first position that the size limit allows to keep.

        This is an estimate, which the next run refines.
        """
        if self.size is None:
            return 0
        used = used_bytes(connection, is_file, first, last)
        if used <= self.size:
            return 0
        return first + int((last - first) * (1 - _FREE * self.size / used))


def used_bytes(connection: Connection, is_file: bool, first: int, last: int) -> int:
    """Return the size of the audit in bytes, without free space, from its first and its last position.

    For PostgreSQL it is an estimate: the size of its tables falls only when space is returned to the system.
    """
    if is_file:
        pages, free, size = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)
    step = (last - first) // _SAMPLE | 1  # odd, because starts and ends often alternate
    values = {"first": first, "last": last, "step": step, "record": _RECORD_BYTES, "content": _CONTENT_BYTES}
    return step * int(connection.execute(text(_SAMPLED_BYTES), values).scalar_one())


def _shrink(connection: Connection) -> None:
    """Shorten the file of the database by its free pages, at most `_SHRINK_PAGES` at once."""
    free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    cursor = connection.connection.cursor()
    for _ in range(min(free, _SHRINK_PAGES)):
        # It frees a page with each step. Of a statement without columns, sqlite3 takes only the first step.
        cursor.execute("PRAGMA incremental_vacuum(1)")


def _remove(connection: Connection, end: int, next_until: int) -> Removed:
    removed = Removed(next_until=next_until)
    before = audit_records.c.position < end
    # Events without an outcome are about the records themselves.
    events = select(audit_records.c.body).where(
        before, audit_records.c.type == "event", audit_records.c.outcome.is_(None)
    )
    for body in connection.execute(events.order_by(audit_records.c.position)).scalars():
        removed.take_over(record_body(body))
    columns = audit_records.c.writer, audit_records.c.seq, audit_records.c.at, audit_records.c.hash
    rows = connection.execute(delete(audit_records).where(before).returning(*columns)).all()
    for row in sorted(rows, key=lambda row: row.seq):
        removed.tips[str(row.writer)] = [row.seq, row.hash.hex()]
    removed.count, removed.last_at = len(rows), max((row.at for row in rows), default=0)
    for writer in {row.writer for row in rows}:
        last = removed.tips[str(writer)][0]
        connection.execute(
            delete(audit_content).where(audit_content.c.writer == writer, audit_content.c.seq <= last)
        )
    return removed
