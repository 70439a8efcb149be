"""Whether a writer lives: it holds a lock that its system takes back when it dies."""

import fcntl
import os
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, text

from hookgate.proxy.store.database import Database

_SPACE = 0x68670000
"""Advisory locks of writers have two numbers: this one, and the writer's."""


class Locks(Protocol):
    """The locks of writers, each by its writer's number."""

    def take(self, number: int) -> bool:
        """Take a writer's lock, for good; False when it is held: that writer lives."""

    def check(self) -> None:
        """Raises what a database raises when locks that were taken may be lost."""

    def free(self, number: int) -> None:
        """Give one back."""

    def close(self) -> None:
        """Give all back."""


class FileLocks:
    """For a file of this machine's: a lock file for each writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}

    def take(self, number: int) -> bool:
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
        """A file's lock is not lost."""

    def free(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)
        os.close(self._held.pop(number))

    def close(self) -> None:
        for number in list(self._held):
            self.free(number)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.lock"


class ServerLocks:
    """For PostgreSQL: advisory locks of one connection, which are gone with it."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None
        self._held: set[int] = set()

    def take(self, number: int) -> bool:
        self._held.add(number)
        if not self._ask("SELECT pg_try_advisory_lock(:space, :number)", number):
            self._held.discard(number)
            return False
        return True

    def check(self) -> None:
        """Take again what a cut connection has lost, if nobody was faster."""
        try:
            self._connected().execute(text("SELECT 1"))
        except Exception:
            self._drop()
            held, self._held = self._held, set()
            for number in held:
                self.take(number)

    def free(self, number: int) -> None:
        self._held.discard(number)
        self._ask("SELECT pg_advisory_unlock(:space, :number)", number)

    def close(self) -> None:
        self._drop()

    def _ask(self, statement: str, number: int) -> bool:
        return bool(
            self._connected().execute(text(statement), {"space": _SPACE, "number": number}).scalar_one()
        )

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def locks_of(database: Database, state: Path) -> Locks:
    """The locks for a database; of a file they are in the state folder."""
    return FileLocks(state / "audit-writers") if database.is_file else ServerLocks(database)
