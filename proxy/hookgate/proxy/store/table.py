"""A table whose rows are read and written in transactions of one statement, which may block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import FAILURES, Database, reason


class StoredTable:
    """A table of a database. Every method raises StoreError if the database cannot be used."""

    def __init__(self, database: Database, content: str) -> None:
        """`content` says in messages what the table contains, such as `keys`."""
        self._database, self._content = database, content
        self._reading = database.reading

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _select(self, query: Any) -> list[Mapping[str, Any]]:
        with self._failures(), self._reading.begin() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def _write(self, statement: Any, rows: list[dict[str, Any]] | None = None) -> bool:
        """Run a statement, for each of the rows if there are any. Returns whether it has changed anything."""
        with self._transaction() as connection:
            return bool(connection.execute(statement, rows).rowcount)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._failures(), self._database.engine.begin() as connection:
            yield connection

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            problem = f"the {self._content} in {self._database.name} cannot be used: {reason(error)}"
            raise StoreError(problem) from None
