"""How records hold together: each names the hash of the one before it. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson

from hookgate.translator.fields import JsonObject

VERSION = 1


def canonical(value: Any) -> bytes:
    """The one way to write a JSON value: fields in order of their names, nothing between them."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer beyond 64 bits, or half of a surrogate pair, which UTF-8 cannot tell
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return text.encode(errors="replace")


def chained(previous: str, document: Mapping[str, Any]) -> str:
    """The hash of a document behind the one whose hash is `previous`, as 64 hex digits."""
    return sha256(previous.encode() + canonical(document)).hexdigest()


def content_hash(content: JsonObject) -> str:
    """What a record tells of its content."""
    return sha256(canonical(content)).hexdigest()


def iso(at: int) -> str:
    """Milliseconds since 1970 as they stand in documents: `2026-05-04T10:00:00.000Z`."""
    told = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    return told.replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Record:
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
        """What is hashed."""
        return {
            "v": VERSION,
            "writer": self.writer,
            "seq": self.seq,
            "at": iso(self.at),
            "type": self.type,
            "id": self.id,
            "previous": self.previous,
            "body": self.body,
            "content_sha256": self.content_sha256,
        }

    def hash(self) -> str:
        """Its own hash."""
        return chained(self.previous, self.document())


def registration(  # noqa: PLR0913, PLR0917  # its fields
    writer: str, number: int, previous: str, host: str, pid: int, at: int
) -> JsonObject:
    """The document with which a writer begins. `previous` is the hash of the registration before its own."""
    return {
        "v": VERSION,
        "type": "writer",
        "writer": writer,
        "number": number,
        "host": host,
        "pid": pid,
        "at": iso(at),
        "previous": previous,
    }
