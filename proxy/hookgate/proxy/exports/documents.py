"""Records as they are sent: a line as of `hookgate audit export`, or an event of OCSF."""

from collections.abc import Callable
from typing import NamedTuple

import orjson

from hookgate.proxy.audit.chain import NO_HASH, ChainRecord, canonical_json, now
from hookgate.proxy.audit.content_removal import CONTENT_REMOVED
from hookgate.proxy.audit.jsonl import document_line
from hookgate.proxy.config import ExportSettings
from hookgate.proxy.exports.ocsf import ocsf_event
from hookgate.proxy.exports.records import REGISTRATION, ChainWriter, StoredEntry
from hookgate.proxy.observe.outcomes import INCIDENTS


class SentDocument(NamedTuple):
    """A record to send. `at` is in milliseconds since 1970; `encoded` is JSON in one line."""

    writer: str
    seq: int
    id: str
    at: int
    type: str
    host: str
    is_incident: bool
    encoded: bytes

    @property
    def name(self) -> str:
        """What identifies the record, also when it is sent again."""
        return f"{self.writer}-{self.seq}"


Encode = Callable[[StoredEntry], bytes | None]
"""Encodes a record; returns None for one that is not sent in this form."""


def documents_of(entries: list[StoredEntry], encode: Encode) -> list[SentDocument]:
    """Return the documents of records, in their order."""
    return [
        SentDocument(
            entry.writer.name,
            entry.seq,
            entry.id,
            entry.at,
            entry.type,
            entry.writer.host or "unknown",
            entry.outcome in INCIDENTS,
            encoded,
        )
        for entry in entries
        if (encoded := encode(entry)) is not None
    ]


def probe_document(export: str, host: str, encode: Encode) -> SentDocument:
    """Return a document that is not of the audit, to try whether a receiver accepts any."""
    body = canonical_json({"event": "export_test", "export": export})
    writer, at = ChainWriter(0, b"", ended=False, name="test", host=host, document=b"{}"), now()
    entry = StoredEntry(writer, at, at, "event", "0" * 32, NO_HASH, NO_HASH, None, "", body)
    [document] = documents_of([entry], encode)
    return document


def audit_line(entry: StoredEntry) -> bytes:
    """Return the line that `hookgate audit export` prints for a record, without the end of the line."""
    if entry.type == REGISTRATION:
        return document_line(orjson.loads(entry.body), entry.hash)
    place = entry.writer.name, entry.seq, entry.at, entry.type, entry.id, entry.previous
    document = ChainRecord(*place, {}, entry.content_sha256).document()
    content = None if entry.content is None else orjson.Fragment(entry.content)
    return document_line({**document, "body": orjson.Fragment(entry.body)}, entry.hash, content)


_BY_WRITER = {"retention": "tips", CONTENT_REMOVED: "records"}
"""The fields with numbers of writers as keys, in records of the audit about itself."""


def _searchable(entry: StoredEntry) -> StoredEntry:
    """Return a record for an index, with the content, and what is listed by writer, as one string each.

    An index keeps one type for each key, and refuses the documents in which it has another one. It also has a
    limit of keys. Clients choose keys in the content, such as those of a tool's arguments; numbers of writers
    are without end.
    """
    content = None if entry.content is None else canonical_json(entry.content.decode())
    return entry._replace(content=content, body=_searchable_body(entry))


def _searchable_body(entry: StoredEntry) -> bytes:
    """Return a body with what is listed by writer as a string, under the name `by_writer`."""
    if entry.type != "event" or entry.outcome:
        return entry.body
    body = orjson.loads(entry.body)
    field = _BY_WRITER.get(body.get("event"))
    if field is None or field not in body:
        return entry.body
    by_writer = canonical_json(body.pop(field)).decode()
    return canonical_json({**body, "by_writer": by_writer})


def encoder_of(settings: ExportSettings) -> Encode:
    """Return the function that encodes records for an export."""
    encode = ocsf_event if settings.format == "ocsf" else audit_line
    return encode if settings.destination.kind != "elastic" else lambda entry: encode(_searchable(entry))
