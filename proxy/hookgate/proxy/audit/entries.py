"""What the audit records of a call: entries for its start and its end, made from the call's record."""

from hookgate.proxy.audit import chain
from hookgate.proxy.audit.chain import WHOSE, Entry, entry_columns
from hookgate.proxy.observe.receipts import session_fields
from hookgate.proxy.observe.record import CallRecord
from hookgate.translator.fields import JsonObject

MASKED = "masked"
"""The key of stored content that says that hooks saw more than is stored."""

_NOT_IN_END = frozenset(
    {
        "receipt",
        "request_id",
        "began",
        "route",
        "session",
        "model",
        "issued_key",
        "revision",
        "event",
        "bytes",
    }
)
"""The fields of a receipt that are in a start or in its record, and therefore not in an end."""

_MAX_REASON = 300


def start_entry(record: CallRecord, content: JsonObject | None = None) -> Entry:
    """Return the entry for the start of a call."""
    return Entry("start", record.id, chain.now(), _start(record), None, content)


def end_entry(
    record: CallRecord, receipt: JsonObject, start: JsonObject, content: JsonObject | None = None
) -> Entry:
    """Return the entry for the end of a call with this receipt, whose recorded start is `start`.

    It says whose call it was, so that a line of it stands alone, and contains the other fields of the start
    that have changed since.
    """
    final = _start(record)
    kept = {name: value for name, value in final.items() if name in WHOSE or value != start[name]}
    body = {**_end(record, receipt), **kept}
    return Entry(
        "end", record.id, chain.now(), body, entry_columns({**final, **body}, str(record.outcome)), content
    )


def event_entry(record: CallRecord, receipt: JsonObject, content: JsonObject | None = None) -> Entry:
    """Return the entry for a shim's event: one record, with the fields of a start and an end."""
    start = _start(record)
    body = {"event": record.event or "refused", **start, **_end(record, receipt)}
    columns = entry_columns(start, str(record.outcome))
    return Entry("event", record.id, chain.now(), body, columns, content)


def _start(record: CallRecord) -> JsonObject:
    return {
        "request_id": record.request_id,
        "route": {"kind": record.kind, "path": record.route},
        "session": session_fields(record.session) if record.session else None,
        **({"issued_key": record.issued_key} if record.issued_key else {}),
        "model": record.model or None,
        "revision": record.revision or None,
        "request_bytes": record.request_bytes,
    }


def _end(record: CallRecord, receipt: JsonObject) -> JsonObject:
    deciding, found = record.deciding_hooks(), record.found_kinds()
    return {
        **{name: value for name, value in receipt.items() if name not in _NOT_IN_END},
        **({"decided_by": deciding} if deciding else {}),
        **({"found": found} if found else {}),
        "answer_bytes": record.answer_bytes,
        "client_gone": not (record.status or record.dropped),
        "reasons": {event: reason[:_MAX_REASON] for event, reason in record.reasons.items()},
    }
