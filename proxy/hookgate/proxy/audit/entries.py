"""What records say: their bodies, made of what is known of a call. Pure."""

import time
from dataclasses import dataclass
from uuid import uuid4

from hookgate.proxy.records import CallRecord, receipt_of
from hookgate.translator.fields import JsonObject

_IN_START = ("receipt", "request_id", "began", "route", "session", "model", "revision", "event")
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Columns:
    """What a call that has ended is found by."""

    session: str = ""
    key: str = ""
    model: str = ""
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record before it has its place in a chain. `at` is in milliseconds since 1970."""

    type: str
    id: str
    at: int
    body: JsonObject
    columns: Columns | None = None
    content: JsonObject | None = None


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def start_of(record: CallRecord, content: JsonObject | None = None) -> Entry:
    """A call that begins."""
    return Entry("start", record.id, now(), _start(receipt_of(record)), None, content)


def end_of(record: CallRecord, content: JsonObject | None = None) -> Entry:
    """A call that has ended."""
    receipt = receipt_of(record)
    columns = columns_of(_start(receipt), str(receipt["outcome"]))
    return Entry("end", record.id, now(), _end(record, receipt), columns, content)


def event_of(record: CallRecord, content: JsonObject | None = None) -> Entry:
    """An event that a shim told of: one record, with what a start and an end hold."""
    receipt = receipt_of(record)
    start = _start(receipt)
    body = {"event": record.event or "refused", **start, **_end(record, receipt)}
    columns = columns_of(start, str(receipt["outcome"]))
    return Entry("event", record.id, now(), body, columns, content)


def own_event(name: str, **about: object) -> Entry:
    """Something that is told of no call: of the records themselves, or of the policy."""
    return Entry("event", uuid4().hex, now(), {"event": name, **about})


def interrupted(call: str, start: JsonObject, writer: int) -> Entry:
    """The end of a call whose writer has died before it could tell."""
    columns = columns_of(start, "interrupted")
    return Entry("end", call, now(), {"outcome": "interrupted", "writer": writer}, columns)


def columns_of(start: JsonObject, outcome: str) -> Columns:
    """What a call with such a start, or an event, is found by."""
    session = start.get("session") or {}
    return Columns(session.get("id", ""), session.get("key", ""), start.get("model") or "", outcome)


def _start(receipt: JsonObject) -> JsonObject:
    return {
        "request_id": receipt["request_id"],
        "route": receipt["route"],
        "session": receipt["session"],
        "model": receipt["model"],
        "revision": receipt["revision"],
        "request_bytes": receipt["bytes"]["request"],
    }


def _end(record: CallRecord, receipt: JsonObject) -> JsonObject:
    kept = {name: value for name, value in receipt.items() if name not in (*_IN_START, "bytes")}
    reasons = {event: reason[:_LONGEST_REASON] for event, reason in record.reasons.items()}
    return {
        **kept,
        "answer_bytes": receipt["bytes"]["answer"],
        "client_gone": not (record.status or record.dropped),
        "reasons": reasons,
    }
