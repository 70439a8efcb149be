"""The chain of one writer in the database."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

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
from hookgate.proxy.audit.journal import Journal
from hookgate.proxy.audit.jsonl import Lines
from hookgate.proxy.audit.locks import REMOVED, Locks, file_identity, writer_locks
from hookgate.proxy.audit.retention import Removed, Retention
from hookgate.proxy.audit.stored import chain_tip, insert_records, note_ends
from hookgate.proxy.errors import StoreError, describe_os_error
from hookgate.proxy.store.database import FAILURES, Database, open_audit, reason
from hookgate.proxy.store.models import audit_writers
from hookgate.translator.fields import JsonObject

_REGISTERING = 0x686F6F6B61756474
"""The key of the advisory lock under which writers are registered in PostgreSQL."""

_IN_USE = (
    "the audit {name} cannot be written: another process holds the lock of writer {number}, but the "
    "database has no such writer; stop gateways that were started before the database was replaced"
)


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
            self._file = file_identity(self._path)
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
        records = self._begin_attempt(entries)
        if self._journal is None:
            with self._transaction() as connection:
                self._insert(connection, records)
        else:
            self._journal.append(records)
            self._unsaved += records
        self._advance(records)
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
        self._advance(tried)
        return tried

    def check(self, *, writes: bool) -> None:
        """Check that the writer's lock is held and its files exist and, if `writes` is true, are writable."""
        self._locks.check()
        if self._database.is_file and file_identity(self._path) != self._file:
            raise StoreError(REMOVED.format(path=self._path))
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
            records = self._begin_attempt(entries) if entries else []
            if records:
                insert_records(connection, self.number, records)
        if records:
            self._advance(records)

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

    def _advance(self, records: Sequence[NewRecord]) -> None:
        """Move on to the records of an attempt, which have been written."""
        self._attempt = []
        self._seq, self._tip = records[-1].record.seq, records[-1].hash
        if self._sink is not None:
            self._sink(records)

    def _begin_attempt(self, entries: Sequence[Entry]) -> list[NewRecord]:
        """Return the next records of the chain, and remember that it was tried to write them."""
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
