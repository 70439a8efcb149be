"""The panel's lists of calls and sessions, from the audit or from the latest receipts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hookgate.hooks.session import utc_text
from hookgate.proxy.admin.content import hook_changes, shorten
from hookgate.proxy.audit.reading import PARTIAL, AuditReader, CallDetail, EndedCall, RecordFilter
from hookgate.proxy.observe.record import Receipts
from hookgate.translator.fields import JsonObject


def receipt_row(receipt: JsonObject) -> JsonObject:
    """Return a row of the list for a receipt. `at` is when the call ended, in milliseconds since 1970."""
    ended = parse_timestamp(receipt["began"]) + int(receipt["timings"]["total_ms"])
    return _call_row(receipt["receipt"], ended, receipt)


def record_row(call: str, at: int, start: JsonObject | None, body: JsonObject) -> JsonObject:
    """Return a row of the list for audit records. An event's `body` includes the fields of a start."""
    return _call_row(call, at, {**(start or {}), **body})


def receipt_facts(
    call: str, began: str | None, start: JsonObject | None, end: JsonObject | None
) -> JsonObject:
    """Return a receipt made from audit records; a call in progress has neither outcome nor timings."""
    both = {**(start or {}), **(end or {})}
    sizes = {"request": both.pop("request_bytes", None), "answer": both.pop("answer_bytes", None)}
    both.pop("writer", None)
    return {"receipt": call, "began": began, "bytes": sizes, **both}


def parse_timestamp(text: str) -> int:
    """Convert a time in ISO 8601 format to milliseconds since 1970."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _call_row(call: str, at: int, facts: JsonObject) -> JsonObject:
    session, usage = facts.get("session") or {}, facts.get("usage") or {}
    return {
        "id": call,
        "at": at,
        "session": session.get("id", ""),
        "client": session.get("client", ""),
        "key": session.get("key", ""),
        "team": session.get("team", ""),
        "model": facts.get("model") or "",
        "kind": (facts.get("route") or {}).get("kind", ""),
        "path": (facts.get("route") or {}).get("path", ""),
        "event": facts.get("event", ""),
        "outcome": facts.get("outcome") or "",
        "status": facts.get("status"),
        "ms": (facts.get("timings") or {}).get("total_ms"),
        "input_tokens": usage.get("input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "cost": usage.get("cost"),
        "bypasses": facts.get("bypasses", 0),
        "degraded": facts.get("degraded") or [],
        "hooks": [
            {name: hook[name] for name in ("event", "hook", "mode", "decisions", "edits", "failures")}
            for hook in facts.get("hooks") or ()
        ],
    }


@dataclass(frozen=True, slots=True)
class CallPage:
    """A page of calls, the latest first. `older` selects the next page; it is empty on the last one."""

    rows: list[JsonObject]
    older: str = ""


class Calls(Protocol):
    """Calls that have ended. Both methods may block, so they should be called in a thread."""

    source: str
    """Where the calls come from: `audit` or `memory`."""

    def page(self, wanted: RecordFilter, limit: int, before: str) -> CallPage:
        """Return a page of the list. `before` is the `older` of another page, or empty for the first page."""

    def call(self, receipt: str) -> JsonObject | None:
        """Return a dict with `facts` and `content`, or None if no call has this receipt ID."""


class ReceivedCalls:
    """The latest calls, from their receipts."""

    source = "memory"

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts

    def page(self, wanted: RecordFilter, limit: int, before: str) -> CallPage:
        rows: list[JsonObject] = []
        for receipt in self._receipts.latest(before):
            row = receipt_row(receipt)
            if not _wants(wanted, row):
                continue
            if len(rows) == limit:
                return CallPage(rows, str(rows[-1]["id"]))
            rows.append(row)
        return CallPage(rows)

    def call(self, receipt: str) -> JsonObject | None:
        found = self._receipts.receipt_for(receipt)
        return None if found is None else {"facts": found, "content": None}


FILTERS = ("session", "key", "model", "outcome")
"""The first fields of a filter, which rows have as well."""


def _wants(wanted: RecordFilter, row: JsonObject) -> bool:
    given = {name: text for name in FILTERS if (text := getattr(wanted, name))}
    return all(
        text.lower() in row[name].lower() if wanted.partial and name in PARTIAL else text == row[name]
        for name, text in given.items()
    )


LOOKED_AT = 500
"""The number of calls from which a page of sessions is made."""


def sessions_page(calls: Calls, before: str) -> JsonObject:
    """Return the sessions of the latest calls before a position, the one with the latest call first."""
    page = calls.page(RecordFilter(), LOOKED_AT, before)
    found: dict[tuple[str, str], JsonObject] = {}
    for row in page.rows:
        if row["session"]:
            _add(found.setdefault((row["key"], row["session"]), _empty(row)), row)
    return {"sessions": list(found.values()), "older": page.older, "source": calls.source}


def _empty(row: JsonObject) -> JsonObject:
    who = {name: row[name] for name in ("session", "client", "key", "team")}
    return {**who, "last": row["at"], "first": row["at"], "calls": 0, "events": 0, "denied": 0, "models": []}


def _add(session: JsonObject, row: JsonObject) -> None:
    session["first"] = min(session["first"], row["at"])
    session["events" if row["kind"] == "event" else "calls"] += 1
    session["denied"] += row["outcome"] in ("denied", "stopped", "blocked")
    if row["model"] and row["model"] not in session["models"]:
        session["models"].append(row["model"])


class AuditedCalls:
    """All calls in the audit. A call that has just ended has a receipt before its record is written."""

    source = "audit"

    def __init__(self, reading: AuditReader, receipts: Receipts) -> None:
        self._reading, self._receipts = reading, receipts

    def page(self, wanted: RecordFilter, limit: int, before: str) -> CallPage:
        found = self._reading.calls(wanted, limit + 1, int(before) if before else None)
        older = str(found[limit - 1].position) if len(found) > limit else ""
        return CallPage([_row(each) for each in found[:limit]], older)

    def call(self, receipt: str) -> JsonObject | None:
        detail = self._reading.call(receipt)
        if detail is not None and detail.end is not None:
            return {"facts": _facts(receipt, detail), "content": _content(detail)}
        kept = self._receipts.receipt_for(receipt)
        if kept is not None:
            return {"facts": kept, "content": None}
        return None if detail is None else {"facts": _facts(receipt, detail), "content": _content(detail)}


def _row(ended: EndedCall) -> JsonObject:
    return record_row(ended.id, ended.at, ended.start, ended.body)


def _facts(receipt: str, detail: CallDetail) -> JsonObject:
    start, end = detail.start, detail.end
    first = start or end
    began = utc_text(first.record.at / 1000) if first else None
    facts = receipt_facts(
        receipt, began, start.record.body if start else None, end.record.body if end else None
    )
    records = {"start": start, "end": end}
    facts["records"] = {
        name: {"writer": each.record.writer, "seq": each.record.seq, "hash": each.hash}
        for name, each in records.items()
        if each is not None
    }
    return facts


def _content(detail: CallDetail) -> JsonObject | None:
    """Return the stored content of a call with the changes by hooks, or None if no content is stored."""
    start = detail.start.content if detail.start else None
    end = detail.end.content if detail.end else None
    if start is None and end is None:
        return None
    body = detail.start.record.body if detail.start else {}
    content = {"request": None, "sent": None, "answer": None, "given": None, **(start or {}), **(end or {})}
    streamed = ":stream" in str((body.get("route") or {}).get("path", ""))
    changes = hook_changes(content, str(body.get("model") or ""), streamed=streamed)
    content.pop("edits", None)
    shortened: JsonObject = shorten({**content, "changes": changes})
    return shortened
