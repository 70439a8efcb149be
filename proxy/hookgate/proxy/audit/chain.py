"""The records of the audit and their chaining: each record contains the hash of the previous one."""

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import uuid4

import orjson

from hookgate.hooks.timestamps import utc_text
from hookgate.translator.fields import JsonObject


class AuditError(Exception):
    """Raised if a record cannot be written in time. The message gives the reason.

    `under_way` says that writing has begun, so that the record may still be written.
    """

    def __init__(self, message: str, *, under_way: bool = False) -> None:
        super().__init__(message)
        self.under_way = under_way


VERSION = 1

NO_HASH = "0" * 64
"""What stands for the previous hash in the first registration."""


def canonical_json(value: Any) -> bytes:
    """Return the canonical encoding of a JSON value: sorted keys, no whitespace."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer of more than 64 bits, or a lone surrogate, which UTF-8 cannot encode
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return text.encode(errors="replace")


def chain_hash(previous: str, document: Mapping[str, Any]) -> str:
    """Return the hash of a document that follows the one with the hash `previous`, as 64 hex digits."""
    return sha256(previous.encode() + canonical_json(document)).hexdigest()


def content_hash(content: JsonObject) -> str:
    """Return the hash of a record's content, which the record contains."""
    return sha256(canonical_json(content)).hexdigest()


class ChainRecord(NamedTuple):
    """One record in its chain. Hashes are 64 hex digits; `at` is in milliseconds since 1970."""

    writer: str
    seq: int
    at: int
    type: str
    id: str
    previous: str
    body: JsonObject
    content_sha256: str | None = None

    def document(self) -> JsonObject:
        """Return the part of the record that is hashed."""
        return {
            "v": VERSION,
            "writer": self.writer,
            "seq": self.seq,
            "at": utc_text(self.at / 1000),
            "type": self.type,
            "id": self.id,
            "previous": self.previous,
            "body": self.body,
            "content_sha256": self.content_sha256,
        }

    def hash(self) -> str:
        """Return the record's hash."""
        return chain_hash(self.previous, self.document())


def registration(  # noqa: PLR0913, PLR0917  # the fields of a registration
    writer: str, number: int, previous: str, host: str, pid: int, at: int
) -> JsonObject:
    """Return the document that registers a writer. `previous` is the hash of the previous registration."""
    return {
        "v": VERSION,
        "type": "writer",
        "writer": writer,
        "number": number,
        "host": host,
        "pid": pid,
        "at": utc_text(at / 1000),
        "previous": previous,
    }


class Columns(NamedTuple):
    """The columns by which a call that has ended is found."""

    session: str = ""
    key: str = ""
    model: str = ""
    outcome: str = ""


class Entry(NamedTuple):
    """A record that is not part of a chain yet. `at` is in milliseconds since 1970."""

    type: str
    id: str
    at: int
    body: JsonObject
    columns: Columns | None = None
    content: JsonObject | None = None


class NewRecord(NamedTuple):
    """A record to write, with its encoded parts."""

    record: ChainRecord
    document: JsonObject
    """The hashed part of the record, with the body already encoded."""
    hash: str
    columns: Columns | None
    body: bytes
    content: bytes | None

    @property
    def is_about_audit(self) -> bool:
        """Whether the record does not belong to a call: see `audit_entry`."""
        return self.record.type == "event" and self.columns is None


def new_record(writer: str, seq: int, previous: str, entry: Entry) -> NewRecord:
    """Return the record for an entry that follows the record with the hash `previous`."""
    body = canonical_json(entry.body)
    content = canonical_json(entry.content) if entry.content is not None else None
    content_sha256 = sha256(content).hexdigest() if content is not None else None
    record = ChainRecord(writer, seq, entry.at, entry.type, entry.id, previous, entry.body, content_sha256)
    document = {**record.document(), "body": orjson.Fragment(body)}
    return NewRecord(record, document, chain_hash(previous, document), entry.columns, body, content)


def now() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def audit_entry(name: str, **about: object) -> Entry:
    """Return an entry that does not belong to a call, such as a change of policy."""
    return Entry("event", uuid4().hex, now(), {"event": name, **about})


WHOSE = ("session", "issued_key", "model")
"""The fields of a start that an end repeats: key, team, client and session, and the model that was asked."""


def interrupted_entry(call: str, start: JsonObject, writer_number: int) -> Entry:
    """Return the entry for the end of a call whose writer died before the call ended."""
    columns = entry_columns(start, "interrupted")
    whose = {name: start[name] for name in WHOSE if name in start}
    body = {**whose, "outcome": "interrupted", "writer": writer_number}
    return Entry("end", call, now(), body, columns)


def entry_columns(start: JsonObject, outcome: str) -> Columns:
    """Return the columns for a call with such fields of its start and end, or for an event."""
    session = start.get("session") or {}
    model = start.get("answered_by") or start.get("model") or ""
    return Columns(session.get("id", ""), session.get("key", ""), model, outcome)
