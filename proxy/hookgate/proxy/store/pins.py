"""Pinned tools in the database."""

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping

from sqlalchemy import Connection, delete, func, select, text

from hookgate.proxy.store.database import ANSWER_SECONDS, Database
from hookgate.proxy.store.execution import DatabaseThreads
from hookgate.proxy.store.models import pinned_tools

_LOCK = 0x686F6F6B70696E73
"""The key of the lock under which gateways change the tools of a server: `hookpins` in ASCII."""

_MAX_NAMES = 500
"""If more tools are asked for, all are read. A request may declare any number of tools; few are stored."""

_MAX_CACHED = 4000
"""The number of documents that are cached. It is larger than the number of tools that can be stored."""


class SqlPins:
    """Pinned tools that all gateways with the same database share.

    Their documents are cached, and read again if their hash has changed, so a change applies everywhere at
    once.
    """

    def __init__(self, database: Database) -> None:
        self._subject, self._is_file = f"the pinned tools in {database.name}", database.is_file
        self._reading, self._writing = database.reading, database.writing
        row = database.insert(pinned_tools)
        self._replace = row.on_conflict_do_update(
            index_elements=["name"], set_={"sha256": row.excluded.sha256, "document": row.excluded.document}
        )
        self._threads = DatabaseThreads(self._subject, "hookgate-pins", database.threads)
        self._lock = threading.Lock()
        self._cached: dict[str, tuple[bytes, bytes]] = {}

    async def read(self, names: Collection[str] | None = None) -> Mapping[str, bytes]:
        """Return the tools with these names that are stored; by default all tools. Raises StoreError."""
        if names is not None and not names:
            return {}
        return await self._threads.run(self._read, names)

    async def count(self) -> int:
        """Return the number of tools. Raises StoreError."""
        return await self._threads.run(self._count)

    async def change(
        self,
        names: Collection[str],
        change: Callable[[Mapping[str, bytes], int], Mapping[str, bytes | None]],
    ) -> None:
        """Change tools atomically. Raises StoreError, and the exceptions of `change`.

        `change` takes the tools with these names, and the number of all tools. It returns the tools to store,
        and None for those to remove.
        """
        await self._threads.run(self._change, names, change)

    def close(self) -> None:
        """Wait for the threads."""
        self._threads.close()

    def _read(self, names: Collection[str] | None) -> dict[str, bytes]:
        with self._reading.begin() as connection:
            return self._documents(connection, names)

    def _count(self) -> int:
        with self._reading.begin() as connection:
            return _number_of_tools(connection)

    def _change(
        self,
        names: Collection[str],
        change: Callable[[Mapping[str, bytes], int], Mapping[str, bytes | None]],
    ) -> None:
        with self._writing.begin() as connection:
            if not self._is_file:  # a file is locked since the transaction has begun
                connection.execute(text(f"SET LOCAL lock_timeout = {int(ANSWER_SECONDS * 1000)}"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
            changed = change(self._documents(connection, names), _number_of_tools(connection))
            for name, document in changed.items():
                if document is None:
                    connection.execute(delete(pinned_tools).where(pinned_tools.c.name == name))
                else:
                    connection.execute(self._replace, _row(name, document))

    def _documents(self, connection: Connection, names: Collection[str] | None) -> dict[str, bytes]:
        columns = pinned_tools.c
        hashes = _select(connection, columns.sha256, names)
        with self._lock:
            known = {name: self._cached.get(name) for name in hashes}
        current = {
            name: cached[1]
            for name, cached in known.items()
            if cached is not None and cached[0] == hashes[name]
        }
        if missing := hashes.keys() - current.keys():
            read = _select(connection, columns.document, missing)
            current |= read
            with self._lock:
                if len(self._cached) + len(read) > _MAX_CACHED:
                    self._cached.clear()
                # Each is cached with its own hash: it may have been changed since the hashes were read.
                self._cached |= {name: (_hash(document), document) for name, document in read.items()}
        return current


def _select(connection: Connection, column: object, names: Collection[str] | None) -> dict[str, bytes]:
    query = select(pinned_tools.c.name, column)  # type: ignore[call-overload]  # a column of bytes
    if names is not None and len(names) <= _MAX_NAMES:
        query = query.where(pinned_tools.c.name.in_(names))
    rows = connection.execute(query).all()
    return {name: bytes(value) for name, value in rows if names is None or name in names}


def _number_of_tools(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(pinned_tools)).scalar_one())


def _row(name: str, document: bytes) -> dict[str, object]:
    return {"name": name, "sha256": _hash(document), "document": document}


def _hash(document: bytes) -> bytes:
    return hashlib.sha256(document).digest()
