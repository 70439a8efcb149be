"""Storage of records: packing them into rows, and reading them back in order."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Dialect,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

from hookgate.proxy.audit.chain import ChainRecord, Columns, NewRecord
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import audit_content, audit_open, audit_records, audit_writers
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import MAX_RECORD_DEPTH, loads

# The preset dictionary for zlib, the most frequent text last. It must not change: stored bodies depend on it.
_DICTIONARY = (
    b'"builtin":"limits""builtin:tools""builtin:models""runtime""http""command""client_gone":true'
    b'"outcome":"interrupted""outcome":"refused""outcome":"stopped""outcome":"synthetic""outcome":"failed"'
    b'"outcome":"left""outcome":"denied","reasons":{"BeforeModel":"","status":403'
    b'"event":"BeforeToolSelection""event":"BeforeTool""event":"AfterTool""event":"BeforeAgent"'
    b'"findings":{"EMAIL":"mode":"observe","decisions":{"deny":1},"edits":["contents"],'
    b'"model":"gemini-2.5-pro","model":"gemini-2.5-flash","request_bytes":,"request_id":"","revision":"",'
    b'"route":{"kind":"forwarded","kind":"judged","path":"/v1beta/models/gemini-2.5-flash:streamGenerateContent'
    b'"path":"/v1beta/models/gemini-2.5-flash:generateContent"},'
    b'"session":{"client":"google-genai-sdk","id":"","key":"","team":""}}'
    b'{"answer_bytes":,"bypasses":0,"client_gone":false,"degraded":[],"hooks":['
    b'{"bytes":,"decisions":{"allow":1},"edits":[],"event":"BeforeModel","failures":0,"findings":{},'
    b'"hook":"","mode":"enforce","ms":0.,"runs":1,"type":"builtin:redact"},'
    b'{"bytes":,"decisions":{"allow":1},"edits":[],"event":"AfterModel","failures":0,"findings":{},'
    b'"hook":"","mode":"enforce","ms":0.,"runs":1,"type":"runtime"}],"outcome":"answered","reasons":{},'
    b'"status":200,"timings":{"before_ms":0.,"first_byte_ms":,"total_ms":,"upstream_ms":},'
    b'"upstream_requests":1,"usage":{"cached_tokens":0,"cost":null,"input_tokens":,"output_tokens":}}'
)
_RAW = -15  # deflate without a header: the checksum below covers every bit, zlib's own does not
_SMALL_BODY = 4096
# Compressors with the dictionary, which are copied for each body. A smaller window is faster to copy.
_SMALL_PACKER = zlib.compressobj(1, zlib.DEFLATED, -12, 5, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
_PACKER = zlib.compressobj(6, zlib.DEFLATED, _RAW, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
_CHECKSUM = 4


def pack(encoded: bytes) -> bytes:
    """Return an encoded JSON value in compressed form."""
    packer = (_SMALL_PACKER if len(encoded) <= _SMALL_BODY else _PACKER).copy()
    data = packer.compress(encoded) + packer.flush()
    return zlib.crc32(data).to_bytes(_CHECKSUM, "big") + data


def unpack(data: bytes) -> Any:
    """Return the value of packed data. Raises ValueError if the data was changed."""
    try:
        return loads(unpack_encoded(data), depth=MAX_RECORD_DEPTH)
    except BodyError as error:
        raise ValueError(f"it cannot be read: {error}") from None


def unpack_encoded(data: bytes) -> bytes:
    """Return the encoded JSON value of packed data. Raises ValueError if the data was changed."""
    checksum, packed = data[:_CHECKSUM], data[_CHECKSUM:]
    if zlib.crc32(packed).to_bytes(_CHECKSUM, "big") != checksum:
        raise ValueError("its stored data was changed")
    unpacker = zlib.decompressobj(_RAW, _DICTIONARY)
    try:
        encoded = unpacker.decompress(packed)
        return encoded if unpacker.eof else encoded + unpacker.flush()
    except zlib.error as error:
        raise ValueError(f"it cannot be read: {error}") from None


def record_body(data: bytes) -> JsonObject:
    """Return a record's body, or an empty object if it is damaged, which `verify` reports."""
    try:
        body: JsonObject = unpack(data)
    except ValueError:
        return {}
    return body


_STRAY = 60_000
"""Milliseconds by which records may be out of order: some wait before they are written."""


def position_bounds(connection: Connection) -> tuple[int, int] | None:
    """Return the positions of the first and the last record, or None if there are no records."""
    # Two queries in one: SQLite finds both values in the index only if they are queried separately.
    ends = (select(each(audit_records.c.position)).scalar_subquery() for each in (func.min, func.max))
    first, last = connection.execute(select(*ends)).one()
    return None if first is None or last is None else (first, last)


def first_since(connection: Connection, at: int) -> int | None:
    """Return the first position after all records that are older than `at`, or None if all are older.

    `at` is in milliseconds since 1970. Records up to a minute younger may come before that position.
    """
    bounds = position_bounds(connection)
    if bounds is None:
        return None
    low, highest = bounds
    high = highest + 1
    while low < high:
        middle = (low + high) // 2
        query = (
            select(audit_records.c.position, audit_records.c.at)
            .where(audit_records.c.position >= middle)
            .order_by(audit_records.c.position)
            .limit(1)
        )
        row = connection.execute(query).first()
        if row is None or row.at >= at:
            high = middle
        else:
            low = row.position + 1
    return None if low > highest else low


def after_time(connection: Connection, at: int) -> int | None:
    """Return a position after all records before `at`, or None if the last record may be one of them."""
    return first_since(connection, at + _STRAY)


def around_time(connection: Connection, at: int) -> int | None:
    """Return a position before all records of `at` or later, or None if there are no such records."""
    return first_since(connection, at - _STRAY)


class _Statements(NamedTuple):
    """The SQL of the statements in each transaction. Compiling it takes longer than running it."""

    insert_record: str
    insert_content: str
    insert_open: str
    delete_open: str


@cache
def _statements(dialect: str) -> _Statements:
    """Return the statements for the dialect `sqlite` or `postgresql`, with named parameters."""
    if dialect == "sqlite":
        compiler: Dialect = sqlite.dialect(paramstyle="named")
    else:
        compiler = make_url("postgresql+psycopg://").get_dialect()()
    columns = [column.name for column in audit_records.columns if column.name != "position"]
    insert_record = insert(audit_records).inline()
    return _Statements(
        str(insert_record.compile(dialect=compiler, column_keys=columns)),
        str(insert(audit_content).compile(dialect=compiler)),
        str(insert(audit_open).compile(dialect=compiler)),
        str(delete(audit_open).where(audit_open.c.id == bindparam("id")).compile(dialect=compiler)),
    )


def insert_records(connection: Connection, number: int, records: Sequence[NewRecord]) -> None:
    """Insert the records of a writer, and update the table of open calls."""
    statements = _statements(connection.dialect.name)
    connection.exec_driver_sql(statements.insert_record, [_row(number, each) for each in records])
    contents = [
        {"writer": number, "seq": each.record.seq, "data": pack(each.content)}
        for each in records
        if each.content is not None
    ]
    if contents:
        connection.exec_driver_sql(statements.insert_content, contents)
    began = {each.record.id for each in records if each.record.type == "start"}
    ended = {each.record.id for each in records if each.record.type == "end"}
    if opened := [{"id": bytes.fromhex(call), "writer": number} for call in began - ended]:
        connection.exec_driver_sql(statements.insert_open, opened)
    if closed := [{"id": bytes.fromhex(call)} for call in ended - began]:
        connection.exec_driver_sql(statements.delete_open, closed)


def _row(number: int, new: NewRecord) -> dict[str, object]:
    record, columns = new.record, new.columns
    session, key, model, outcome = columns or (None, None, None, None)
    return {
        "writer": number,
        "seq": record.seq,
        "at": record.at,
        "type": record.type,
        "id": bytes.fromhex(record.id),
        "session": session,
        "key": key,
        "model": model,
        "outcome": outcome,
        "body": pack(new.body),
        "previous": bytes.fromhex(record.previous),
        "hash": bytes.fromhex(new.hash),
        "content_sha256": bytes.fromhex(record.content_sha256) if record.content_sha256 else None,
    }


def note_ends(connection: Connection, records: Iterable[NewRecord]) -> None:
    """Mark the writers that have ended, by the records that say so."""
    for new in records:
        name = new.record.body["event"] if new.is_about_audit else None
        if name in ("closed", "recovered"):
            number = new.record.body["writer"]
            connection.execute(
                update(audit_writers).where(audit_writers.c.number == number).values(ended=name)
            )


def chain_tip(connection: Connection, writer_number: int) -> tuple[int, str] | None:
    """Return the sequence number and the hash of a writer's last record, or None if it has none."""
    query = (
        select(audit_records.c.seq, audit_records.c.hash)
        .where(audit_records.c.writer == writer_number)
        .order_by(audit_records.c.seq.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return (row.seq, row.hash.hex()) if row else None


_PAGE = 2000
"""Records that are read in one transaction: a long one would block checkpoints of the write-ahead log."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with its position, columns and content. `hash` is the stored hash, in hex."""

    position: int
    record: ChainRecord
    hash: str
    columns: Columns | None
    content: JsonObject | None = None
    damaged: str = ""
    """The reason why the record cannot be read, or an empty string."""


class Registration(NamedTuple):
    """The registration of a writer."""

    number: int
    document: JsonObject
    hash: str
    """The stored hash, in hex."""
    ended: str
    """How the writer ended: `closed`, `recovered`, or an empty string."""


def registrations(connection: Connection) -> list[Registration]:
    """Return the registrations of all writers, in order."""
    rows = connection.execute(select(audit_writers).order_by(audit_writers.c.number))
    return [
        Registration(row["number"], _document(row["document"]), row["hash"].hex(), row["ended"])
        for row in rows.mappings()
    ]


def _writer_names(connection: Connection, numbers: set[int]) -> dict[int, str]:
    """Return the names of these writers by their numbers."""
    query = select(audit_writers.c.number, audit_writers.c.document)
    rows = connection.execute(query.where(audit_writers.c.number.in_(numbers)))
    return {row.number: str(_document(row.document).get("writer", "")) for row in rows}


def records_with_content() -> Select[Any]:
    """Return the query for records with their contents."""
    same = and_(audit_content.c.writer == audit_records.c.writer, audit_content.c.seq == audit_records.c.seq)
    return select(*audit_records.columns, audit_content.c.data).outerjoin(audit_content, same)


Begin = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction."""


@contextmanager
def whole_view(database: Database) -> Iterator[Begin]:
    """Yield a function that begins transactions. Each sees every record up to the last one that it sees.

    Records of a file are committed in the order of their positions, so later transactions see more of them.
    Those of a server are not: there, all transactions of the block are one, and see the same records.
    """
    if database.is_file:
        yield database.engine.begin
        return
    engine = database.engine.execution_options(isolation_level="REPEATABLE READ")
    with engine.begin() as connection:
        yield lambda: nullcontext(connection)


class RecordRow(NamedTuple):
    """A record as it is stored: hashes and the ID in bytes, the body and the content packed."""

    position: int
    writer: int
    seq: int
    at: int
    """Milliseconds since 1970."""
    type: str
    id: bytes
    session: str | None
    key: str | None
    model: str | None
    outcome: str | None
    """None for a record without columns."""
    body: bytes
    previous: bytes
    hash: bytes
    content_sha256: bytes | None
    content: bytes | None

    @property
    def columns(self) -> Columns | None:
        """The columns by which a call is found."""
        if self.outcome is None:
            return None
        return Columns(self.session or "", self.key or "", self.model or "", self.outcome)


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows of records, with the names of their writers by number."""

    rows: list[RecordRow]
    writers: Mapping[int, str]


def walk_rows(begin: Begin, first: int = 0, end: int | None = None) -> Iterator[RowPage]:
    """Yield the rows from a position on and before `end`, in pages with a transaction for each."""
    while True:
        with begin() as connection:
            query = records_with_content().where(audit_records.c.position >= first)
            if end is not None:
                query = query.where(audit_records.c.position < end)
            page = _read_rows(connection, query.order_by(audit_records.c.position).limit(_PAGE))
        if not page.rows:
            return
        yield page
        first = page.rows[-1].position + 1


def walk_records(begin: Begin, first: int = 0, end: int | None = None) -> Iterator[list[StoredRecord]]:
    """Yield the records from a position on and before `end`, in pages with a transaction for each."""
    for page in walk_rows(begin, first, end):
        yield [_stored_record(row, page.writers) for row in page.rows]


def read_records(connection: Connection, query: Select[Any]) -> list[StoredRecord]:
    """Return the records that a query of `records_with_content` finds."""
    page = _read_rows(connection, query)
    return [_stored_record(row, page.writers) for row in page.rows]


def _read_rows(connection: Connection, query: Select[Any]) -> RowPage:
    rows = list(map(RecordRow._make, connection.execute(query).all()))
    return RowPage(rows, _writer_names(connection, {row.writer for row in rows}))


def _stored_record(row: RecordRow, names: Mapping[int, str]) -> StoredRecord:
    """Return the record in a row. `names` are those of writers, by their numbers."""
    damaged = ""
    body: JsonObject = {}
    content: JsonObject | None = None
    try:
        body = unpack(row.body)
        content = unpack(row.content) if row.content is not None else None
    except ValueError as error:
        damaged = str(error)
    record = ChainRecord(
        names.get(row.writer, ""),
        row.seq,
        row.at,
        row.type,
        row.id.hex(),
        row.previous.hex(),
        body,
        row.content_sha256.hex() if row.content_sha256 is not None else None,
    )
    return StoredRecord(row.position, record, row.hash.hex(), row.columns, content, damaged)


def _document(data: bytes) -> JsonObject:
    try:
        document: JsonObject = loads(data)
    except ValueError:
        return {}
    return document
