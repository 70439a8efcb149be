"""The chain of one writer in the database: each batch of entries is one transaction."""

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, delete, insert, select, text, update

from hookgate.proxy.audit.chain import Record, canonical, chained, content_hash, registration
from hookgate.proxy.audit.entries import Columns, Entry, now, own_event
from hookgate.proxy.audit.living import Locks
from hookgate.proxy.audit.packing import pack
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import AuditContent, AuditOpen, AuditRecord, AuditWriter
from hookgate.translator.fields import JsonObject

_REGISTERING = 0x686F6F6B61756474
"""The number of the lock under which a server's gateways register their writers."""

_NO_HASH = "0" * 64


Sink = Callable[[Sequence[Record], Sequence[Entry]], None]


class Ledger:
    """Writes a chain. One thread at a time may use it; every step raises what a database raises."""

    def __init__(self, database: Database, locks: Locks, sink: Sink | None = None) -> None:
        """`sink` is given what was written, and must be quick."""
        self._database, self._locks, self._sink = database, locks, sink
        self._tried: tuple[list[Record], Sequence[Entry]] | None = None
        self.writer = secrets.token_hex(8)
        self.number = 0
        self._seq, self._tip = 0, _NO_HASH
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
            self._tip = chained(previous, document)
            self._locks.take(self.number)  # before anyone can see it, and take it for dead
            row = {
                "number": self.number,
                "document": canonical(document),
                "hash": bytes.fromhex(self._tip),
                "ended": "",
            }
            connection.execute(insert(AuditWriter), row)
        return document

    def write(self, entries: Sequence[Entry]) -> list[Record]:
        """Add entries; gives them as records, which are on disk then."""
        records = self._tries(entries)
        with self._transaction() as connection:
            self._insert(connection, records, entries)
            self._note_open(connection, entries)
            self._note_ends(connection, entries)
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
            self._insert(connection, self._tries(entries), entries)
        self._advance()
        return removed.more

    def close(self) -> None:
        """End the chain in good order."""
        self.write([own_event("closed", writer=self.number, count=self._seq + 1)])
        self._locks.free(self.number)
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction. Of a file the connection is kept: to have one for each took half the time of a call."""
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

    def _insert(self, connection: Connection, records: Sequence[Record], entries: Sequence[Entry]) -> None:
        hashes = [record.previous for record in records[1:]] + [records[-1].hash()]
        rows = [
            self._row(record, entry.columns, bytes.fromhex(own))
            for record, entry, own in zip(records, entries, hashes, strict=True)
        ]
        connection.execute(insert(AuditRecord), rows)
        contents = [
            {"writer": self.number, "seq": record.seq, "data": pack(entry.content)}
            for record, entry in zip(records, entries, strict=True)
            if entry.content is not None
        ]
        if contents:
            connection.execute(insert(AuditContent), contents)

    def _row(self, record: Record, columns: Columns | None, own_hash: bytes) -> dict[str, object]:
        found_by = columns or Columns()
        return {
            "writer": self.number,
            "seq": record.seq,
            "at": record.at,
            "type": record.type,
            "id": bytes.fromhex(record.id),
            "session": found_by.session if columns else None,
            "key": found_by.key if columns else None,
            "model": found_by.model if columns else None,
            "outcome": found_by.outcome if columns else None,
            "body": pack(record.body),
            "previous": bytes.fromhex(record.previous),
            "hash": own_hash,
            "content_sha256": bytes.fromhex(record.content_sha256) if record.content_sha256 else None,
        }

    def _note_open(self, connection: Connection, entries: Iterable[Entry]) -> None:
        """Calls that began here and did not end, and those that ended."""
        began: dict[str, None] = {}
        ended: list[bytes] = []
        for entry in entries:
            if entry.type == "start":
                began[entry.id] = None
            elif entry.type == "end" and entry.id in began:
                del began[entry.id]
            elif entry.type == "end":
                ended.append(bytes.fromhex(entry.id))
        if began:
            rows = [{"id": bytes.fromhex(each), "writer": self.number} for each in began]
            connection.execute(insert(AuditOpen), rows)
        for some in range(0, len(ended), 500):
            connection.execute(delete(AuditOpen).where(AuditOpen.id.in_(ended[some : some + 500])))

    def _note_ends(self, connection: Connection, entries: Iterable[Entry]) -> None:
        """Writers of which nothing more will come."""
        for entry in entries:
            name = entry.body.get("event") if entry.type == "event" and entry.columns is None else None
            if name in ("closed", "recovered"):
                number = entry.body["writer"]
                connection.execute(update(AuditWriter).where(AuditWriter.number == number).values(ended=name))


def tip_of(connection: Connection, writer: int) -> tuple[int, str] | None:
    """The last record of a writer: its place and its hash; None of one that has none."""
    query = (
        select(AuditRecord.seq, AuditRecord.hash)
        .where(AuditRecord.writer == writer)
        .order_by(AuditRecord.position.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return (row.seq, row.hash.hex()) if row else None
