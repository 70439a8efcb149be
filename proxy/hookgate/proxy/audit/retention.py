"""What is kept for how long: the oldest records go first, and what went is put on record in the chain."""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, func, select, text

from hookgate.proxy.audit.chain import iso
from hookgate.proxy.audit.entries import now
from hookgate.proxy.audit.packing import unpack
from hookgate.proxy.audit.places import first_since
from hookgate.proxy.store.models import AuditContent, AuditRecord
from hookgate.translator.fields import JsonObject

_AT_ONCE = 10_000
"""Records that are removed in one transaction, for which calls wait."""

_DAY = 24 * 3600 * 1000
_FREE = 0.95
"""Of the allowed size, how much is left when something had to go."""


@dataclass(slots=True)
class Removed:
    """What is missing from the begin on, by now."""

    count: int = 0
    last_at: int = 0
    tips: dict[str, list[Any]] = field(default_factory=dict)
    """The last record that was removed of each writer, by its number: place and hash."""
    gone: set[int] = field(default_factory=set)
    """Writers of which nothing is left, and nothing more will come."""
    more: bool = False
    """Whether something is left to be removed."""

    def take_over(self, event: JsonObject) -> None:
        """A record that is removed told of the records themselves: what it told is to be told again."""
        if event.get("event") == "retention":
            self.tips |= event["tips"]
            self.gone |= {number for low, high in event["gone"] for number in range(low, high + 1)}
        elif event.get("event") in ("closed", "recovered"):  # it stands behind all records of its writer
            self.gone.add(event["writer"])

    def told(self) -> JsonObject:
        """The body of the record of it."""
        tips = {number: tip for number, tip in self.tips.items() if int(number) not in self.gone}
        told: JsonObject = {"records": self.count, "until": iso(self.last_at), "tips": tips}
        return {**told, "gone": _ranges(sorted(self.gone))}


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Numbers as the first and the last of each that follow on each other."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


@dataclass(frozen=True, slots=True)
class Retention:
    """How long records are kept, and how many bytes of them; None for without bounds."""

    days: float | None = None
    size: int | None = None

    def remove(self, connection: Connection, is_file: bool) -> Removed | None:
        """Remove what is too old or too much; None when nothing is. `more` is left for the next time."""
        first, last = _bounds(connection)
        if first is None or last is None:
            return None
        until = max(self._too_old(connection, last), self._too_much(connection, is_file, first, last))
        if until <= first:
            return None
        end = min(until, first + _AT_ONCE)
        removed = _remove(connection, end, more=end < until)
        if is_file:
            # Each step of it frees a page: SQLAlchemy would take one alone, since it gives no rows.
            connection.connection.cursor().execute("PRAGMA incremental_vacuum(2000)").fetchall()
        return removed

    def _too_old(self, connection: Connection, last: int) -> int:
        """The first position that may stay by its age."""
        if self.days is None:
            return 0
        found = first_since(connection, now() - int(self.days * _DAY))
        return last + 1 if found is None else found

    def _too_much(self, connection: Connection, is_file: bool, first: int, last: int) -> int:
        """The first position that may stay by the size of all: an estimate, made again the next time."""
        if self.size is None:
            return 0
        used = used_bytes(connection, is_file)
        if used <= self.size:
            return 0
        return first + int((last - first) * (1 - _FREE * self.size / used))


def used_bytes(connection: Connection, is_file: bool) -> int:
    """How large the audit is, in bytes, without what is free again."""
    if is_file:
        pages, free, size = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)
    query = "SELECT pg_total_relation_size('audit_records') + pg_total_relation_size('audit_content')"
    return int(connection.execute(text(query)).scalar_one())


def _bounds(connection: Connection) -> tuple[int | None, int | None]:
    first = connection.execute(select(func.min(AuditRecord.position))).scalar()
    return first, connection.execute(select(func.max(AuditRecord.position))).scalar()


def _remove(connection: Connection, end: int, *, more: bool) -> Removed:
    removed = Removed(more=more)
    before = AuditRecord.position < end
    # Those without an outcome that are no starts: what writers tell of the records themselves.
    events = select(AuditRecord.body).where(
        before, AuditRecord.type == "event", AuditRecord.outcome.is_(None)
    )
    for body in connection.execute(events.order_by(AuditRecord.position)).scalars():
        removed.take_over(unpack(body))
    told = AuditRecord.writer, AuditRecord.seq, AuditRecord.at, AuditRecord.hash
    rows = connection.execute(delete(AuditRecord).where(before).returning(*told)).all()
    for row in sorted(rows, key=lambda row: row.seq):
        removed.tips[str(row.writer)] = [row.seq, row.hash.hex()]
    removed.count, removed.last_at = len(rows), max((row.at for row in rows), default=0)
    for writer in {row.writer for row in rows}:
        last = removed.tips[str(writer)][0]
        connection.execute(
            delete(AuditContent).where(AuditContent.writer == writer, AuditContent.seq <= last)
        )
    return removed
