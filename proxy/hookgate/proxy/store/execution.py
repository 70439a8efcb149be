"""How a database is used: by the calling thread, or by threads with a deadline for the event loop."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection

from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import ANSWER_SECONDS, FAILURES, Database, reason

T = TypeVar("T")

_NO_ANSWER = f"the database has not answered for {ANSWER_SECONDS:g} seconds"


@contextmanager
def failures_as_store_error(subject: str) -> Iterator[None]:
    """Raise StoreError for a failure of the database in the block. `subject` says what cannot be used."""
    try:
        yield
    except FAILURES as error:
        raise _unusable(subject, reason(error)) from None


def _unusable(subject: str, why: str) -> StoreError:
    return StoreError(f"{subject} cannot be used: {why}")


class DatabaseThreads:
    """Threads that use a database, and the deadline within which it must answer."""

    def __init__(self, subject: str, name: str, count: int) -> None:
        """Create the threads. Their names begin with `name`; `count` is their number, as `Database.threads`.

        Errors say that `subject`, such as `the store of limits`, cannot be used.
        """
        self._subject = subject
        self._threads = ThreadPoolExecutor(count, name)

    async def run(self, step: Callable[..., T], *values: object) -> T:
        """Return the result of a step that uses the database, called with the values in one of the threads.

        Raises StoreError if the database fails, or if there is no result within ANSWER_SECONDS: the step may
        still be executed then. Other exceptions of the step are raised as they are.
        """
        with failures_as_store_error(self._subject):
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await asyncio.get_running_loop().run_in_executor(self._threads, step, *values)
            except TimeoutError:
                raise _unusable(self._subject, _NO_ANSWER) from None

    def run_later(self, step: Callable[[], object]) -> None:
        """Call a step soon, which handles failures itself. There is no deadline."""
        self._threads.submit(step)

    def close(self) -> None:
        """Wait for the steps that were passed on. Blocks."""
        self._threads.shutdown()


class StoredTable:
    """A table whose rows are read and written by the calling thread, in short transactions.

    Every method raises StoreError if the database cannot be used.
    """

    def __init__(self, database: Database, content: str) -> None:
        """`content` says in messages what the table contains, such as `keys`."""
        self._database, self._subject = database, f"the {content} in {database.name}"
        self._reading = database.reading

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _select(self, query: Any) -> list[Mapping[str, Any]]:
        with failures_as_store_error(self._subject), self._reading.begin() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def _write(self, statement: Any, rows: list[dict[str, Any]] | None = None) -> bool:
        """Run a statement, for each of the rows if there are any. Returns whether it has changed anything."""
        with self._transaction() as connection:
            return bool(connection.execute(statement, rows).rowcount)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with failures_as_store_error(self._subject), self._database.engine.begin() as connection:
            yield connection
