"""What others than the sender see of exports: how far they have come, and what retention must keep."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import Connection, func, literal, select

from hookgate.proxy.exports.records import first_unsent, writers_after
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.leases import clock
from hookgate.proxy.store.models import export_positions, export_refusals, exports


class RefusedRecord(NamedTuple):
    """A record that the receiver has refused. `at` is in milliseconds since 1970."""

    writer: str
    seq: int
    id: str
    at: int
    reason: str


class ExportState(NamedTuple):
    """How far an export has come. `error_at` is in milliseconds since 1970."""

    is_held: bool
    """Whether a gateway is sending."""
    error: str
    error_at: int
    missed: int
    """The number of records that retention removed before they were sent."""
    refused: int
    last: int
    """The number of the last writer with which it has a position."""
    positions: tuple[tuple[int, int], ...]
    """The writers that are not finished, each with the number of its last record that was sent."""

    def unfinished(self, connection: Connection) -> Iterator[tuple[int, int]]:
        """Yield the positions, and those before the first record of each writer that is new in the audit."""
        yield from self.positions
        yield from ((number, 0) for number in writers_after(connection, self.last))


class ExportStates:
    """Reads the states of exports. Every method may raise database errors."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self, name: str) -> ExportState | None:
        """Return the state of an export, or None if no gateway has used it yet."""
        columns = export_positions.c
        with self._database.reading.begin() as connection:
            row = connection.execute(
                select(exports).where(exports.c.name == name, exports.c.begun == 1)
            ).first()
            if row is None:
                return None
            held = connection.execute(select(literal(row.until) > clock(self._database))).scalar()
            query = select(columns.writer, columns.seq).where(columns.export == name, columns.done == 0)
            positions = tuple(
                (each.writer, each.seq) for each in connection.execute(query.order_by("writer"))
            )
            last = connection.execute(select(func.max(columns.writer)).where(columns.export == name)).scalar()
            count = select(func.count()).where(export_refusals.c.export == name)
            refused = connection.execute(count).scalar_one()
        return ExportState(bool(held), row.error, row.error_at, row.missed, refused, last or 0, positions)

    def refusals(self, name: str) -> list[RefusedRecord]:
        """Return the records that the receiver of an export has refused, the oldest first."""
        columns = export_refusals.c
        query = select(columns.writer, columns.seq, columns.id, columns.at, columns.reason)
        query = query.where(columns.export == name).order_by(columns.at, columns.writer, columns.seq)
        with self._database.reading.begin() as connection:
            return [
                RefusedRecord(row.writer, row.seq, row.id.hex(), row.at, row.reason)
                for row in connection.execute(query)
            ]

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def first_needed(self, names: Iterable[str], audit: Connection) -> int | None:
        """Return the position of the first record that one of these exports has not sent, or None."""
        needed: list[int] = []
        for name in names:
            state = self.state(name)
            for number, seq in state.unfinished(audit) if state else ():
                unsent = first_unsent(audit, number, seq)
                needed += [unsent.position] if unsent else []
        return min(needed, default=None)
