"""What a batch of records changes in the tables."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, insert, select, update

from hookgate.proxy.audit.chain import Record
from hookgate.proxy.audit.entries import Columns, Entry
from hookgate.proxy.audit.packing import pack
from hookgate.proxy.store.models import AuditContent, AuditOpen, AuditRecord, AuditWriter


def insert_records(
    connection: Connection, number: int, records: Sequence[Record], entries: Sequence[Entry]
) -> None:
    hashes = [record.previous for record in records[1:]] + [records[-1].hash()]
    rows = [
        _row(number, record, entry.columns, bytes.fromhex(own))
        for record, entry, own in zip(records, entries, hashes, strict=True)
    ]
    connection.execute(insert(AuditRecord), rows)
    contents = [
        {"writer": number, "seq": record.seq, "data": pack(entry.content)}
        for record, entry in zip(records, entries, strict=True)
        if entry.content is not None
    ]
    if contents:
        connection.execute(insert(AuditContent), contents)


def _row(number: int, record: Record, columns: Columns | None, own_hash: bytes) -> dict[str, object]:
    found_by = columns or Columns()
    return {
        "writer": number,
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


def note_open(connection: Connection, number: int, entries: Iterable[Entry]) -> None:
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
        rows = [{"id": bytes.fromhex(each), "writer": number} for each in began]
        connection.execute(insert(AuditOpen), rows)
    for some in range(0, len(ended), 500):
        connection.execute(delete(AuditOpen).where(AuditOpen.id.in_(ended[some : some + 500])))


def note_ends(connection: Connection, entries: Iterable[Entry]) -> None:
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
