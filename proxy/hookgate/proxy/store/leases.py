"""Leases: which of several processes does something that only one of them may do at a time.

A process takes a lease for some seconds, and again before these are over. If it dies, another one takes it
then.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from sqlalchemy import ColumnElement, Connection, Table, func, literal, or_, update

from hookgate.proxy.store.database import Database


class Lease:
    """A lease of one holder. Every method may raise database errors."""

    def __init__(  # noqa: PLR0913, PLR0917  # where the row is, and whose lease it is
        self,
        database: Database,
        table: Table,
        name: str,
        holder: str,
        longest: float,
        first: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Create a lease that is not taken yet.

        Args:
            database: Where the table is.
            table: A table with the columns `name`, `holder` and `until`, in seconds since 1970.
            name: The name of the lease, which identifies its row.
            holder: The name of this process.
            longest: The most seconds for which it is taken at once.
            first: The other columns of a new row.
        """
        self._database, self._table, self._name = database, table, name
        self._holder, self._longest = holder, longest
        self._new = {**first, "name": name, "holder": "", "until": 0}

    def take(self, seconds: float) -> bool:
        """Hold the lease for so many seconds from now on. Returns False if another process holds it."""
        current, columns = clock(self._database), self._table.c
        # A time that is too far away was set before a clock was set back.
        is_over = or_(columns.until < current, columns.until > current + literal(2 * self._longest))
        free = or_(columns.holder == self._holder, is_over)
        values = {"holder": self._holder, "until": current + literal(seconds)}
        with self._database.engine.begin() as connection:
            row = self._database.insert(self._table).values(self._new)
            connection.execute(row.on_conflict_do_nothing())
            taken = update(self._table).where(self._is_own, free).values(values)
            return connection.execute(taken).rowcount == 1

    def release(self) -> None:
        """Let another process take the lease at once."""
        held = update(self._table).where(self._is_own, self._table.c.holder == self._holder)
        with self._database.engine.begin() as connection:
            connection.execute(held.values(holder="", until=0))

    def keep(self, connection: Connection) -> bool:
        """Let no other process take the lease before the end of a transaction. Returns False if one has."""
        # It changes nothing, but locks the row in a server.
        held = update(self._table).where(self._is_own, self._table.c.holder == self._holder)
        return connection.execute(held.values(holder=self._holder)).rowcount == 1

    @property
    def _is_own(self) -> ColumnElement[bool]:
        return self._table.c.name == self._name


def clock(database: Database) -> ColumnElement[float]:
    """Return the time in seconds since 1970, of the server if there is one: the clocks of machines differ."""
    if database.is_file:
        return literal(time.time())
    return cast("ColumnElement[float]", func.extract("epoch", func.clock_timestamp()))
