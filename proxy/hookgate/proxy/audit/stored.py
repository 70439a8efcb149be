"""Records as they come out of the database."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, select

from hookgate.proxy.audit.chain import Record
from hookgate.proxy.audit.entries import Columns
from hookgate.proxy.audit.packing import unpack
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import AuditContent, AuditRecord, AuditWriter
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

_PAGE = 2000
"""Records that are read in one transaction: a long one would keep the write-ahead log from being emptied."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record and what stands beside it. `hash` is the stored one, in hex."""

    position: int
    record: Record
    hash: str
    columns: Columns | None
    content: JsonObject | None = None
    damaged: str = ""
    """What of it cannot be read; empty for one that can."""


def registrations(connection: Connection) -> list[tuple[int, JsonObject, str, str]]:
    """Every writer in order: number, registration, its stored hash, and how it ended."""
    rows = connection.execute(select(AuditWriter).order_by(AuditWriter.number))
    return [(row.number, _document(row.document), row.hash.hex(), row.ended) for row in rows.mappings()]


def names(connection: Connection) -> dict[int, str]:
    """The writers by their numbers."""
    return {number: str(document.get("writer", "")) for number, document, _, _ in registrations(connection)}


def records_with_content() -> Select[Any]:
    """The query for records, each with its content."""
    same = and_(AuditContent.writer == AuditRecord.writer, AuditContent.seq == AuditRecord.seq)
    return select(*AuditRecord.__table__.columns, AuditContent.data).outerjoin(AuditContent, same)


def walk(database: Database, first: int = 0) -> Iterator[list[Stored]]:
    """All records from a position on, in order, by pages. Those that are added meanwhile too."""
    while True:
        with database.engine.begin() as connection:
            query = records_with_content().where(AuditRecord.position >= first)
            rows = connection.execute(query.order_by(AuditRecord.position).limit(_PAGE)).all()
            known = names(connection)
        if not rows:
            return
        yield [stored(row, known) for row in rows]
        first = rows[-1].position + 1


def stored(row: Row[Any], known: Mapping[int, str]) -> Stored:
    """A row as a record; `known` are the writers by their numbers."""
    damaged = ""
    body: JsonObject = {}
    content: JsonObject | None = None
    try:
        body = unpack(row.body)
        content = unpack(row.data) if row.data is not None else None
    except ValueError as error:
        damaged = str(error)
    writer = known.get(row.writer, "")
    record = Record(
        writer,
        row.seq,
        row.at,
        row.type,
        row.id.hex(),
        row.previous.hex(),
        body,
        row.content_sha256.hex() if row.content_sha256 is not None else None,
    )
    columns = Columns(row.session or "", row.key or "", row.model or "", row.outcome)
    return Stored(
        row.position, record, row.hash.hex(), columns if row.outcome is not None else None, content, damaged
    )


def _document(data: bytes) -> JsonObject:
    try:
        document: JsonObject = loads(data)
    except ValueError:
        return {}
    return document
