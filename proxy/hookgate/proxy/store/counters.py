"""Counters in the database. Each operation is a short transaction in a thread: it never blocks the loop."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, delete, select
from sqlalchemy.exc import DBAPIError

from hookgate.proxy.store.database import FAILURES, Database, reason
from hookgate.proxy.store.execution import DatabaseThreads
from hookgate.proxy.store.models import counters

log = logging.getLogger("hookgate.store")

T = TypeVar("T")

MAX_OWED = 10_000
"""Amounts that are queued while the database cannot be written."""

_SWEEP_SECONDS = 600.0
_KEPT_SECONDS = 3600
"""Seconds for which a counter is kept after it has expired, because the clocks of several gateways differ."""

_ENDED_BY_SERVER = "57P01"
"""The SQLSTATE of a connection that the server ends, for example because it restarts."""


def _was_rolled_back(error: DBAPIError) -> bool:
    """Return whether the server reported that it closed the connection, so that nothing was added.

    If a connection breaks without this message, the amount may have been added, and a retry could count it
    twice.
    """
    return getattr(error.orig, "sqlstate", None) == _ENDED_BY_SERVER


class SqlCounters:
    """Counters that all gateways with the same database share."""

    def __init__(self, database: Database) -> None:
        self._name = database.name
        self._engine = database.engine
        if not database.is_file:  # one statement is one transaction and one round trip
            self._engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
        row = database.insert(counters)
        total = {"total": counters.c.total + row.excluded.total}
        self._add = row.on_conflict_do_update(index_elements=["key"], set_=total).returning(counters.c.total)
        self._begin = database.insert(counters).on_conflict_do_nothing()
        self._threads = DatabaseThreads("the store of limits", "hookgate-store", database.threads)
        self._lock = threading.Lock()
        self._owed: dict[str, tuple[float, int]] = {}
        self._sweep_at = 0.0

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        """Add an amount and return the new total. Raises StoreError."""
        return await self._run(
            lambda connection: self._added(connection, key, amount, int(expires.timestamp()))
        )

    async def begin(self, key: str, total: float, expires: datetime) -> float:
        """Set a counter that does not exist yet, and return the total of the one that exists then.

        Raises StoreError.
        """
        row = {"key": key, "total": total, "expires": int(expires.timestamp())}

        def step(connection: Connection) -> float:
            connection.execute(self._begin, row)
            return float(
                connection.execute(select(counters.c.total).where(counters.c.key == key)).scalar_one()
            )

        return await self._run(step)

    async def read(self, keys: Iterable[str]) -> Mapping[str, float]:
        """Return the totals of the counters that exist. Raises StoreError."""
        wanted = list(keys)
        if not wanted:
            return {}
        query = select(counters.c.key, counters.c.total).where(counters.c.key.in_(wanted))
        return await self._run(lambda connection: {row.key: row.total for row in connection.execute(query)})

    def add_later(self, key: str, amount: float, expires: datetime) -> None:
        """Add an amount soon. As long as that fails, all other operations fail too."""
        self._owe({key: (amount, int(expires.timestamp()))})
        self._threads.run_later(self._pay_quietly)

    def close(self) -> None:
        """Write the queued amounts. Those that cannot be written are lost, which is logged."""
        self._threads.close()
        self._pay_quietly()
        if self._owed:
            log.error(
                "the store %s could not be written; the amounts of %d counters are lost",
                self._name,
                len(self._owed),
            )

    async def _run(self, step: Callable[[Connection], T]) -> T:
        return await self._threads.run(self._work, step)

    def _work(self, step: Callable[[Connection], T]) -> T:
        """Run a step, and repeat it on a new connection if the server closed the first one."""
        try:
            return self._work_once(step)
        except DBAPIError as error:
            if not _was_rolled_back(error):
                raise
            return self._work_once(step)

    def _work_once(self, step: Callable[[Connection], T]) -> T:
        with self._engine.connect() as connection:
            self._pay(connection)
            with connection.begin():
                return step(connection)

    def _added(self, connection: Connection, key: str, amount: float, expires: int) -> float:
        self._sweep(connection)
        row = {"key": key, "total": amount, "expires": expires}
        return float(connection.execute(self._add, row).scalar_one())

    # ---- queued amounts

    def _owe(self, amounts: Mapping[str, tuple[float, int]]) -> None:
        with self._lock:
            for key, (amount, expires) in amounts.items():
                before, _ = self._owed.get(key, (0.0, 0))
                self._owed[key] = before + amount, expires
            lost = max(0, len(self._owed) - MAX_OWED)
            for key in list(self._owed)[:lost]:
                del self._owed[key]
        if lost:
            log.error("more counters wait to be written than are kept; the amounts of %d are lost", lost)

    def _pay(self, connection: Connection) -> None:
        """Add the queued amounts, each in its own transaction: locking several rows could cause deadlocks."""
        with self._lock:
            owed, self._owed = self._owed, {}
        try:
            for key in list(owed):
                amount, expires = owed[key]
                with connection.begin():
                    self._added(connection, key, amount, expires)
                del owed[key]
        finally:
            self._owe(owed)

    def _pay_quietly(self) -> None:
        try:
            with self._engine.connect() as connection:
                self._pay(connection)
        except FAILURES as error:
            log.warning(
                "the store %s cannot be written; usage is kept in memory until it can: %s",
                self._name,
                reason(error),
            )

    # ---- expired counters

    def _sweep(self, connection: Connection) -> None:
        """Remove expired counters every few minutes."""
        if time.monotonic() < self._sweep_at:
            return
        self._sweep_at = time.monotonic() + _SWEEP_SECONDS
        connection.execute(delete(counters).where(counters.c.expires < time.time() - _KEPT_SECONDS))
