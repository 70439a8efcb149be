"""Records as they are sent: a line as of `hookgate audit export`, or an event of OCSF."""

from collections.abc import Callable
from typing import NamedTuple

import orjson

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.chain import NO_HASH, VERSION, canonical_json, now
from hookgate.proxy.exports.ocsf import ocsf_event
from hookgate.proxy.exports.records import REGISTRATION, ChainWriter, StoredEntry
from hookgate.proxy.observe.outcomes import INCIDENTS
from hookgate.translator.fields import JsonObject


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
        return canonical_json({**orjson.loads(entry.body), "hash": entry.hash})
    document: JsonObject = {
        "v": VERSION,
        "writer": entry.writer.name,
        "seq": entry.seq,
        "at": utc_text(entry.at / 1000),
        "type": entry.type,
        "id": entry.id,
        "previous": entry.previous,
        "body": orjson.Fragment(entry.body),
        "content_sha256": entry.content_sha256,
        "hash": entry.hash,
    }
    if entry.content is not None:
        document["content"] = orjson.Fragment(entry.content)
    return canonical_json(document)


FORMATS: dict[str, Encode] = {"hookgate": audit_line, "ocsf": ocsf_event}
"""The functions that encode a record, by the setting `format`."""
