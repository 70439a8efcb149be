"""The chain of one writer in the database: each batch of entries is one transaction."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, insert, select, text, update

from hookgate.proxy.audit.chain import Record, canonical, chained, content_hash, registration
from hookgate.proxy.audit.entries import Entry, now, own_event
from hookgate.proxy.audit.heads import Head, HeadsFile
from hookgate.proxy.audit.living import Locks
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.audit.rows import insert_records, note_ends, note_open, tip_of
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import AuditWriter
from hookgate.translator.fields import JsonObject

_REGISTERING = 0x686F6F6B61756474
"""The number of the lock under which a server's gateways register their writers."""

_NO_HASH = "0" * 64


Sink = Callable[[Sequence[Record], Sequence[Entry]], None]


class Ledger:
    """Writes a chain. One thread at a time may use it; every step raises what a database raises."""

    def __init__(
        self, database: Database, locks: Locks, sink: Sink | None = None, heads: HeadsFile | None = None
    ) -> None:
        """`sink` is given what was written, and must be quick. `heads` keeps how far the chain has come."""
        self._database, self._locks, self._sink, self._heads = database, locks, sink, heads
        self._tried: tuple[list[Record], Sequence[Entry]] | None = None
        self.writer = secrets.token_hex(8)
        self.number = 0
        self._seq, self._tip, self._registration = 0, _NO_HASH, _NO_HASH
        self._kept: Connection | None = None

    def register(self) -> JsonObject:
        """Begin the chain; gives its registration."""
        with self._transaction() as connection:
            if not self._database.is_file:
                connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _REGISTERING})
            query = select(AuditWriter.number, AuditWriter.hash).order_by(AuditWriter.number.desc()).limit(1)
            last = connection.execute(query).first()
            self.number = last.number + 1 if last else 1
            previous = last.hash.hex() if last else _NO_HASH
            document = registration(
                self.writer, self.number, previous, socket.gethostname(), os.getpid(), now()
            )
            self._tip = self._registration = chained(previous, document)
            self._locks.take(self.number)  # before anyone can see it, and take it for dead
            row = {
                "number": self.number,
                "document": canonical(document),
                "hash": bytes.fromhex(self._tip),
                "ended": "",
            }
            connection.execute(insert(AuditWriter), row)
        self.keep_head()
        return document

    def keep_head(self) -> None:
        """Note outside of the database how far the chain has come; cheap if that is known already."""
        if self._heads is not None:
            first = min(1, self._seq)
            self._heads.keep(self.writer, Head(self.number, self._registration, first, self._seq, self._tip))

    def write(self, entries: Sequence[Entry]) -> list[Record]:
        """Add entries; gives them as records, which are on disk then."""
        records = self._tries(entries)
        with self._transaction() as connection:
            insert_records(connection, self.number, records, entries)
            note_open(connection, self.number, entries)
            note_ends(connection, entries)
        self._advance()
        return records

    def written_after_all(self) -> list[Record] | None:
        """What a `write` that raised has written nevertheless: a connection may break after the commit."""
        if self._tried is None:
            return None
        tried, _ = self._tried
        with self._transaction() as connection:
            tip = tip_of(connection, self.number)
        if tip is None or tip[0] != tried[-1].seq or tip[1] != tried[-1].hash():
            self._tried = None
            return None
        self._advance()
        return tried

    def check(self, *, writes: bool) -> None:
        """See that the writer's lock is held, and if it `writes` that something can be written."""
        self._locks.check()
        if not writes:
            return
        with self._transaction() as connection:
            connection.execute(update(AuditWriter).where(AuditWriter.number == self.number).values(ended=""))

    def retain(self, retention: Retention) -> bool:
        """Remove what is too old or too much, and put on record what that was; whether there is more."""
        with self._transaction() as connection:
            removed = retention.remove(connection, self._database.is_file)
            if removed is None:
                return False
            entries = [own_event("retention", **removed.told())]
            insert_records(connection, self.number, self._tries(entries), entries)
        self._advance()
        return removed.more

    def close(self) -> None:
        """End the chain in good order."""
        self.write([own_event("closed", writer=self.number, count=self._seq + 1)])
        self.keep_head()
        self._locks.free(self.number)
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction. Of a file the connection is kept: one for each is half of what a call costs."""
        if not self._database.is_file:  # where it may break, and is looked at before it is used
            with self._database.engine.begin() as connection:
                yield connection
            return
        kept = self._kept or self._database.engine.connect()
        self._kept = None
        try:
            with kept.begin():
                yield kept
            self._kept = kept
        finally:
            if self._kept is None:
                kept.close()

    def _advance(self) -> None:
        """What was tried is written."""
        if self._tried is not None:
            records, entries = self._tried
            self._tried = None
            self._seq, self._tip = records[-1].seq, records[-1].hash()
            if self._sink is not None:
                self._sink(records, entries)

    def _tries(self, entries: Sequence[Entry]) -> list[Record]:
        """The next records of the chain."""
        records: list[Record] = []
        tip = self._tip
        for seq, entry in enumerate(entries, self._seq + 1):
            content = content_hash(entry.content) if entry.content is not None else None
            record = Record(self.writer, seq, entry.at, entry.type, entry.id, tip, entry.body, content)
            tip = record.hash()
            records.append(record)
        self._tried = records, entries
        return records
