"""How far exports have come: the durable position with each writer, and which process sends.

One process at a time sends the records of an export, of all writers. It holds the export until a time that it
extends while it sends; when it is gone, another process takes over then. A position moves only after the
receiver has accepted the records, so that after a failure some are sent twice, and none is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from hookgate.proxy.audit.chain import now
from hookgate.proxy.exports.documents import SentDocument
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.leases import Lease
from hookgate.proxy.store.models import export_positions, export_refusals, exports

HOLD_SECONDS = 20.0
"""Seconds for which a process holds an export: longer than a delivery may take."""


class ExportLostError(Exception):
    """Raised if another process holds the export, because this one was too slow."""


@dataclass(slots=True)
class WriterPosition:
    """The position with one writer: the last of its records that was sent or set aside."""

    number: int
    hash: bytes
    seq: int


class ExportPositions:
    """The positions of one export. Every method may raise database errors."""

    def __init__(self, database: Database, export: str, holder: str) -> None:
        """`holder` names this process."""
        self._database, self._export = database, export
        first = {"begun": 0, "error": "", "error_at": 0, "missed": 0}
        self._lease = Lease(database, exports, export, holder, HOLD_SECONDS, first)

    def hold(self) -> bool:
        """Hold the export for `HOLD_SECONDS` from now on. Returns False if another process holds it."""
        return self._lease.take(HOLD_SECONDS)

    def release(self) -> None:
        """Let another process send at once."""
        self._lease.release()

    def has_begun(self) -> bool:
        """Return whether the export has positions."""
        with self._database.reading.begin() as connection:
            return bool(connection.execute(select(exports.c.begun).where(self._is_own)).scalar())

    def begin(self, positions: Iterable[WriterPosition]) -> None:
        """Set the first positions."""
        with self._change() as connection:
            self._add(connection, positions)
            connection.execute(update(exports).where(self._is_own).values(begun=1))

    def load(self) -> tuple[dict[int, WriterPosition], WriterPosition | None]:
        """Return the positions with writers that are not finished, by their numbers, and the last one."""
        columns = export_positions.c
        query = select(columns.writer, columns.hash, columns.seq, columns.done)
        query = query.where(columns.export == self._export)
        with self._database.reading.begin() as connection:
            open_rows = connection.execute(query.where(columns.done == 0)).all()
            last = connection.execute(query.order_by(columns.writer.desc()).limit(1)).first()
        positions = {row.writer: WriterPosition(row.writer, row.hash, row.seq) for row in open_rows}
        return positions, last and WriterPosition(last.writer, last.hash, last.seq)

    def add(self, positions: Iterable[WriterPosition]) -> None:
        """Add positions with new writers."""
        with self._change() as connection:
            self._add(connection, positions)

    def retain(self, known: Iterable[tuple[int, bytes]]) -> None:
        """Remove the positions with other writers than these: numbers with hashes of registrations."""
        kept = dict(known)
        columns = export_positions.c
        with self._change() as connection:
            rows = connection.execute(
                select(columns.writer, columns.hash).where(columns.export == self._export)
            )
            for number in [row.writer for row in rows if kept.get(row.writer) != row.hash]:
                connection.execute(
                    delete(export_positions).where(columns.export == self._export, columns.writer == number)
                )

    def advance(self, number: int, seq: int, refused: Sequence[tuple[SentDocument, str]] = ()) -> None:
        """Move on to a record of a writer. Documents that were refused are noted with the reasons.

        Raises ExportLostError if another process holds the export.
        """
        with self._change() as connection:
            connection.execute(self._update(number).values(seq=seq))
            for document, why in refused:
                row = {
                    "export": self._export,
                    "writer": document.writer,
                    "seq": document.seq,
                    "id": bytes.fromhex(document.id),
                    "at": now(),
                    "reason": why,
                }
                connection.execute(
                    self._database.insert(export_refusals).values(row).on_conflict_do_nothing()
                )

    def mark_done(self, number: int, *, done: bool) -> None:
        """Note whether all records of a writer were sent and it has ended."""
        with self._change() as connection:
            connection.execute(self._update(number).values(done=int(done)))

    def note_error(self, error: str) -> None:
        """Keep the last error; an empty text once the receiver accepts records."""
        with self._database.engine.begin() as connection:
            connection.execute(
                update(exports).where(self._is_own).values(error=error, error_at=now() if error else 0)
            )

    def note_missed(self, count: int) -> None:
        """Count records that were removed before they were sent."""
        with self._database.engine.begin() as connection:
            connection.execute(update(exports).where(self._is_own).values(missed=exports.c.missed + count))

    @property
    def _is_own(self) -> ColumnElement[bool]:
        return exports.c.name == self._export

    def _update(self, number: int) -> Any:
        columns = export_positions.c
        return update(export_positions).where(columns.export == self._export, columns.writer == number)

    def _add(self, connection: Connection, positions: Iterable[WriterPosition]) -> None:
        rows = [
            {"export": self._export, "writer": each.number, "hash": each.hash, "seq": each.seq, "done": 0}
            for each in positions
        ]
        if rows:
            connection.execute(insert(export_positions), rows)

    @contextmanager
    def _change(self) -> Iterator[Connection]:
        """Open a transaction in which no other process can take over. Raises ExportLostError if one has."""
        with self._database.engine.begin() as connection:
            if not self._lease.keep(connection):
                raise ExportLostError
            yield connection
