"""The locks that show which writers are running."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, text

from hookgate.proxy.audit.journal import FOLDER
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import FAILURES, Database

_SPACE = 0x68670000
"""The first key of writers' advisory locks; the second is the writer's number."""

REMOVED = "{path} was removed or replaced while the gateway runs; restart the gateway"
"""What is wrong, and what to do, if a file of the audit is not the one that was opened."""


class Locks(Protocol):
    """The locks of writers, each by its writer's number."""

    def acquire(self, number: int) -> bool:
        """Acquire a writer's lock. Returns False if it is held: here, or by the writer, which is running."""

    def check(self) -> None:
        """Check that the locks are still held. Raises a database error if they may be lost."""

    def release(self, number: int) -> None:
        """Release a lock."""

    def close(self) -> None:
        """Release all locks."""


class FileLocks:
    """The locks for a database file on this machine: a lock file for each writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}

    def acquire(self, number: int) -> bool:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._path(number), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._held[number] = file
        return True

    def check(self) -> None:
        """Check that the lock files exist: others would consider the writers dead. Raises StoreError."""
        for number, file in self._held.items():
            if file_identity(self._path(number)) != file_identity(file):
                raise StoreError(REMOVED.format(path=self._path(number)))

    def release(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)
        os.close(self._held.pop(number))

    def close(self) -> None:
        for number in list(self._held):
            self.release(number)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.lock"


class ServerLocks:
    """The locks for PostgreSQL: advisory locks of one connection, which end with it."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None
        self._held: set[int] = set()
        self._lost: set[int] = set()
        """Those of the held locks that were lost with a connection."""

    def acquire(self, number: int) -> bool:
        if number in self._held:  # the server would grant it again, and count
            return False
        if not self._try_lock(number):
            return False
        self._held.add(number)
        return True

    def check(self) -> None:
        """Acquire the locks again that were lost with a connection, at each check until it succeeds."""
        with contextlib.suppress(*FAILURES):
            self._query("SELECT true")
        for number in sorted(self._lost):
            if self._try_lock(number):
                self._lost.discard(number)

    def release(self, number: int) -> None:
        self._held.discard(number)
        if number in self._lost:
            self._lost.discard(number)
            return
        with contextlib.suppress(*FAILURES):  # the connection was lost, and its locks with it
            self._query("SELECT pg_advisory_unlock(:space, :number)", space=_SPACE, number=number)

    def close(self) -> None:
        self._drop()

    def _try_lock(self, number: int) -> bool:
        return self._query("SELECT pg_try_advisory_lock(:space, :number)", space=_SPACE, number=number)

    def _query(self, statement: str, **values: int) -> bool:
        """Run a statement. If that fails, the next one is run on a new connection."""
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            return bool(self._connection.execute(text(statement), values).scalar_one())
        except FAILURES:
            self._drop()
            raise

    def _drop(self) -> None:
        """Close the connection, which releases the locks."""
        self._lost = set(self._held)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def writer_locks(database: Database, state: Path) -> Locks:
    """Return the locks for a database; for a database file they are in the state folder."""
    return FileLocks(state / FOLDER) if database.is_file else ServerLocks(database)


def file_identity(file: Path | int) -> tuple[int, int] | None:
    """Return what identifies a file, or None if there is none at the path."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino
