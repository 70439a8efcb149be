"""What exports read of the audit: the records of each writer in the order of its chain.

Not the order of positions: the writers of a server commit in another one, so a position does not say that all
records before it are there. Within a chain each record follows the one before it, and none can appear later.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson
from sqlalchemy import Connection, Row, func, or_, select

from hookgate.proxy.audit.stored import chain_tip, records_with_content, unpack_encoded
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import audit_records, audit_writers
from hookgate.translator.fields import JsonObject

_PAGE = 500
"""Records in a batch."""

_FETCHED = 50
"""Records that are fetched at once: with content, each may take megabytes."""


REGISTRATION = "writer"
"""The type of the entry that stands for the registration of a writer, and has the number 0."""


class ChainWriter(NamedTuple):
    """A writer. `hash` is that of its registration, an encoded `document`; `host` is where it runs."""

    number: int
    hash: bytes
    ended: bool
    name: str
    host: str
    document: bytes


class StoredEntry(NamedTuple):
    """A record as it is stored, with body and content as encoded JSON. `at` is in milliseconds since 1970."""

    writer: ChainWriter
    seq: int
    at: int
    type: str
    id: str
    previous: str
    hash: str
    content_sha256: str | None
    outcome: str
    body: bytes
    content: bytes | None = None


class Unsent(NamedTuple):
    """The first record of a writer that is not sent: its position, and when it was written."""

    position: int
    at: int


class WriterRecords:
    """Reads the records of writers. Every method may raise database errors."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def writers(self, numbers: Iterable[int] = (), since: int = 0) -> dict[int, ChainWriter]:
        """Return the writers that have not ended, those with these numbers, and all from a number on."""
        column = audit_writers.c.number
        query = select(audit_writers).where(
            or_(audit_writers.c.ended == "", column.in_(tuple(numbers)), column >= since)
        )
        with self._database.reading.begin() as connection:
            return {row.number: _writer(row) for row in connection.execute(query)}

    def tips(self) -> dict[int, int]:
        """Return the number of the last record of each writer that has any."""
        query = select(audit_records.c.writer, func.max(audit_records.c.seq)).group_by(audit_records.c.writer)
        with self._database.reading.begin() as connection:
            return {number: seq for number, seq in connection.execute(query)}  # noqa: C416  # rows, for mypy

    def batch(
        self, writer: ChainWriter, after: int, size: int, *, content: bool
    ) -> tuple[list[StoredEntry], bool]:
        """Return the next records of a writer, up to `size` bytes or one, and whether there may be more.

        Before the first record is the registration of the writer, without which a chain cannot be verified.
        """
        entries: list[StoredEntry] = []
        used = 0
        # A transaction, because the records are fetched bit by bit.
        with self._database.engine.execution_options(begin_statement="BEGIN").begin() as connection:
            for entry in _following(connection, writer, after, content=content):
                used += len(entry.body) + len(entry.content or b"")
                if entries and used > size:
                    return entries, True
                entries.append(entry)
        return entries, len(entries) >= _PAGE

    def lag(self, positions: Iterable[tuple[int, int]]) -> tuple[int, int | None]:
        """Return how many records follow these positions, and when the oldest of them was written.

        The positions are pairs of a writer's number and the number of its last record that was sent.
        """
        count, oldest = 0, None
        with self._database.reading.begin() as connection:
            for number, seq in positions:
                tip = chain_tip(connection, number)
                if tip is None or tip[0] <= seq:
                    continue
                count += tip[0] - seq
                unsent = first_unsent(connection, number, seq)
                if unsent is not None:
                    oldest = unsent.at if oldest is None else min(oldest, unsent.at)
        return count, oldest


def first_unsent(connection: Connection, number: int, seq: int) -> Unsent | None:
    """Return the first record of a writer after the one with the number `seq`, or None if there is none."""
    query = (
        select(audit_records.c.position, audit_records.c.at)
        .where(audit_records.c.writer == number, audit_records.c.seq > seq)
        .order_by(audit_records.c.seq)
        .limit(1)
    )
    row = connection.execute(query).first()
    return Unsent(row.position, row.at) if row else None


def writers_after(connection: Connection, number: int) -> list[int]:
    """Return the numbers of the writers that were registered after the one with this number."""
    query = select(audit_writers.c.number).where(audit_writers.c.number > number)
    return list(connection.execute(query).scalars())


def _following(
    connection: Connection, writer: ChainWriter, after: int, *, content: bool
) -> Iterator[StoredEntry]:
    query = records_with_content() if content else select(*audit_records.columns)
    query = query.where(audit_records.c.writer == writer.number, audit_records.c.seq > after)
    query = query.order_by(audit_records.c.seq).limit(_PAGE).execution_options(yield_per=_FETCHED)
    for row in connection.execute(query):
        if row.seq == 1:
            yield _registration(writer, row.at)
        packed = row.data if content else None
        yield StoredEntry(
            writer,
            row.seq,
            row.at,
            row.type,
            row.id.hex(),
            row.previous.hex(),
            row.hash.hex(),
            row.content_sha256.hex() if row.content_sha256 is not None else None,
            row.outcome or "",
            _unpacked(row.body),
            None if packed is None else _unpacked(packed),
        )


def _registration(writer: ChainWriter, at: int) -> StoredEntry:
    """Return the entry for the registration of a writer whose first record was written at a time."""
    own_hash, no_call = writer.hash.hex(), "0" * 32
    return StoredEntry(writer, 0, at, REGISTRATION, no_call, "", own_hash, None, "", writer.document)


def _unpacked(packed: bytes) -> bytes:
    """Return the encoded value, or an empty object if it is damaged, which `audit verify` reports."""
    try:
        return unpack_encoded(packed)
    except ValueError:
        return b"{}"


def _writer(row: Row[tuple[object, ...]]) -> ChainWriter:
    try:
        document: JsonObject = orjson.loads(row.document)
    except ValueError:
        document = {}
    name, host = str(document.get("writer", "")), str(document.get("host", ""))
    return ChainWriter(row.number, row.hash, bool(row.ended), name, host, row.document)
