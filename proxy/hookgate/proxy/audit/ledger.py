"""The chain of one writer in the database, and the lock that shows that the writer is running."""

import contextlib
import fcntl
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, insert, select, text, update

from hookgate.proxy.audit.chain import (
    NO_HASH,
    Entry,
    NewRecord,
    audit_entry,
    canonical_json,
    chain_hash,
    new_record,
    now,
    registration,
)
from hookgate.proxy.audit.content_removal import content_removed
from hookgate.proxy.audit.heads import Head, HeadsFile
from hookgate.proxy.audit.journal import FOLDER, Journal
from hookgate.proxy.audit.jsonl import Lines
from hookgate.proxy.audit.retention import Removed, Retention
from hookgate.proxy.audit.stored import chain_tip, insert_records, note_ends
from hookgate.proxy.errors import StoreError, describe_os_error
from hookgate.proxy.store.database import FAILURES, Database, open_audit, reason
from hookgate.proxy.store.models import audit_writers
from hookgate.translator.fields import JsonObject

_SPACE = 0x68670000
"""The first key of writers' advisory locks; the second is the writer's number."""


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
            if _identity(self._path(number)) != _identity(file):
                raise StoreError(_REMOVED.format(path=self._path(number)))

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


_REGISTERING = 0x686F6F6B61756474
"""The key of the advisory lock under which writers are registered in PostgreSQL."""

_IN_USE = (
    "the audit {name} cannot be written: another process holds the lock of writer {number}, but the "
    "database has no such writer; stop gateways that were started before the database was replaced"
)


_REMOVED = "{path} was removed or replaced while the gateway runs; restart the gateway"


def _identity(file: Path | int) -> tuple[int, int] | None:
    """Return what identifies a file, or None if there is none at the path."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


Sink = Callable[[Sequence[NewRecord]], None]


class Ledger:
    """Writes a chain. Only one thread at a time may use it.

    Every method may raise database errors, and StoreError for its journal.
    """

    def __init__(
        self,
        database: Database,
        locks: Locks,
        sink: Sink | None = None,
        heads: HeadsFile | None = None,
        journals: Path | None = None,
    ) -> None:
        """Create a ledger. `sink` is called with written records and must not block; `heads` saves heads.

        If `journals`, the state folder, is given, records of calls are in a journal until `save`.
        """
        self._database, self._locks, self._sink, self._heads = database, locks, sink, heads
        self._journals = journals
        self._journal: Journal | None = None
        self._unsaved: list[NewRecord] = []
        self._save_failed = False
        self._attempt: list[NewRecord] = []
        self._removing_until = self._contents_from = 0
        self.writer = secrets.token_hex(8)
        self.number = 0
        self._seq, self._tip, self._registration = 0, NO_HASH, NO_HASH
        self._open_connection: Connection | None = None
        self._file: tuple[int, int] | None = None  # the identity of the database file

    def register(self) -> JsonObject:
        """Register the writer, which begins the chain, and return the registration.

        Raises StoreError if another process holds the lock of its number.
        """
        with self._transaction() as connection:
            if not self._database.is_file:
                connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _REGISTERING})
            query = (
                select(audit_writers.c.number, audit_writers.c.hash)
                .order_by(audit_writers.c.number.desc())
                .limit(1)
            )
            last = connection.execute(query).first()
            self.number = last.number + 1 if last else 1
            previous = last.hash.hex() if last else NO_HASH
            document = registration(
                self.writer, self.number, previous, socket.gethostname(), os.getpid(), now()
            )
            self._tip = self._registration = chain_hash(previous, document)
            # Before others can see the writer and consider it dead.
            if not self._locks.acquire(self.number):
                raise StoreError(_IN_USE.format(name=self._database.name, number=self.number))
            row = {
                "number": self.number,
                "document": canonical_json(document),
                "hash": bytes.fromhex(self._tip),
                "ended": "",
            }
            connection.execute(insert(audit_writers), row)
        if self._journals is not None:
            self._journal = Journal(self._journals, self.writer)
        if self._database.is_file:
            self._file = _identity(self._path)
        self.save_head()
        return document

    @property
    def unsaved(self) -> int:
        """The number of records that are in the journal, but not in the database."""
        return len(self._unsaved)

    def save_head(self) -> None:
        """Save the head of the chain outside of the database; cheap if it has not changed."""
        self.save()
        if self._heads is not None:
            first = min(1, self._seq)
            self._heads.save(self.writer, Head(self.number, self._registration, first, self._seq, self._tip))

    def write(self, entries: Sequence[Entry]) -> list[NewRecord]:
        """Write entries to disk, and return them as records."""
        records = self._next_records(entries)
        if self._journal is None:
            with self._transaction() as connection:
                self._insert(connection, records)
        else:
            self._journal.append(records)
            self._unsaved += records
        self._advance()
        return records

    def save(self) -> None:
        """Move the records of the journal to the database."""
        if self._journal is None or not self._unsaved:
            return
        with self._transaction() as connection:
            # A transaction that failed may have been committed nevertheless.
            seq, _ = (self._save_failed and chain_tip(connection, self.number)) or (0, "")
            self._save_failed = True
            self._insert(connection, [new for new in self._unsaved if new.record.seq > seq])
        self._save_failed, self._unsaved = False, []
        self._journal.clear()

    def adopt_committed_attempt(self) -> list[NewRecord]:
        """Continue after the records of the last `write` if they were committed although it failed.

        This happens when the connection breaks during the commit.
        Returns these records, or an empty list if they were not written.
        """
        tried = self._attempt
        if not tried:
            return []
        with self._transaction() as connection:
            tip = chain_tip(connection, self.number)
        if tip != (tried[-1].record.seq, tried[-1].hash):
            self._attempt = []
            return []
        self._advance()
        return tried

    def check(self, *, writes: bool) -> None:
        """Check that the writer's lock is held and its files exist and, if `writes` is true, are writable."""
        self._locks.check()
        if self._database.is_file and _identity(self._path) != self._file:
            raise StoreError(_REMOVED.format(path=self._path))
        if self._journal is not None:
            self._journal.check()
        if not writes:
            return
        with self._transaction() as connection:
            connection.execute(
                update(audit_writers).where(audit_writers.c.number == self.number).values(ended="")
            )

    @property
    def _path(self) -> Path:
        return Path(self._database.engine.url.database or "")

    def retain(self, retention: Retention) -> bool:
        """Apply retention, and record what was removed. Returns True if there is more to remove."""
        more_records, more_contents = self._retain_records(retention), self._retain_contents(retention)
        return more_records or more_contents

    def _retain_records(self, retention: Retention) -> bool:
        removed: Removed | None = None

        def step(connection: Connection) -> list[Entry]:
            nonlocal removed
            removed = retention.remove(connection, self._database.is_file, self._removing_until)
            return [] if removed is None else [audit_entry("retention", **removed.record_body())]

        self.write_about(step)
        self._removing_until = removed.next_until if removed else 0
        return bool(self._removing_until)

    def _retain_contents(self, retention: Retention) -> bool:
        begin, more = self._contents_from, False

        def step(connection: Connection) -> list[Entry]:
            nonlocal begin, more
            places, begin, more = retention.remove_content(connection, begin)
            return [content_removed(places, "retention")] if places else []

        if retention.content_days is not None:
            self.write_about(step)
        self._contents_from = begin
        return more

    def write_about(self, step: Callable[[Connection], Sequence[Entry]]) -> None:
        """Run a step on the database, and write the entries that it returns in the same transaction."""
        self.save()
        self.adopt_committed_attempt()  # of an earlier step
        with self._transaction() as connection:
            entries = step(connection)
            if entries:
                insert_records(connection, self.number, self._next_records(entries))
        if entries:
            self._advance()

    def close(self) -> None:
        """Close the chain and release its lock."""
        self.write([audit_entry("closed", writer=self.number, count=self._seq + 1)])
        self.save_head()
        if self._journal is not None:
            self._journal.close()
        self._locks.release(self.number)
        if self._open_connection is not None:
            self._open_connection.close()
            self._open_connection = None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Open a transaction. For a file the connection is kept open, because opening one is slow."""
        if not self._database.is_file:  # the pool checks connections to a server before use
            with self._database.engine.begin() as connection:
                yield connection
            return
        kept = self._open_connection or self._database.engine.connect()
        self._open_connection = None
        try:
            with kept.begin():
                yield kept
            self._open_connection = kept
        finally:
            if self._open_connection is None:
                kept.close()

    def _insert(self, connection: Connection, records: Sequence[NewRecord]) -> None:
        if records:
            insert_records(connection, self.number, records)
            note_ends(connection, records)

    def _advance(self) -> None:
        """Move on to the records of the last attempt, which have been written."""
        records, self._attempt = self._attempt, []
        self._seq, self._tip = records[-1].record.seq, records[-1].hash
        if self._sink is not None:
            self._sink(records)

    def _next_records(self, entries: Sequence[Entry]) -> list[NewRecord]:
        """Create the next records of the chain, and remember them as the current attempt."""
        records: list[NewRecord] = []
        tip = self._tip
        for seq, entry in enumerate(entries, self._seq + 1):
            records.append(new_record(self.writer, seq, tip, entry))
            tip = records[-1].hash
        self._attempt = records
        return records


@contextmanager
def open_ledger(
    url: str | None, state: Path, jsonl: str | None, deadline: float
) -> Iterator[tuple[Ledger, Database]]:
    """Open the audit and register a chain in it while the block runs. The block closes the chain.

    Records are also written to `jsonl`, a path or `-` for stdout, if it is given. Its last lines may take
    `deadline` seconds after the block. Raises StoreError or OSError if the audit cannot be written.
    """
    with ExitStack() as stack:
        database = open_audit(url, state, writes=True)
        stack.callback(database.close)
        locks = writer_locks(database, state)
        stack.callback(locks.close)
        lines = _open_lines(jsonl) if jsonl is not None else None
        if lines is not None:
            stack.callback(lines.close, deadline)
        journals = state if database.is_file else None
        ledger = Ledger(database, locks, lines.add if lines else None, HeadsFile(state), journals)
        try:
            document = ledger.register()
        except FAILURES as error:
            raise StoreError(f"the audit {database.name} cannot be written: {reason(error)}") from None
        if lines is not None:
            lines.begin(document)
        yield ledger, database


def _open_lines(target: str) -> Lines:
    try:
        return Lines(target)
    except OSError as error:
        remedy = "check the path and its permissions"
        raise StoreError(
            f"audit.jsonl: {target}: cannot be written: {describe_os_error(error)}; {remedy}"
        ) from None
