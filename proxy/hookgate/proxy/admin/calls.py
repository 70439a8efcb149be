"""The panel's calls and sessions, from the audit or from the latest receipts."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.admin.call_content import shown_content
from hookgate.proxy.audit.index.building import CallIndex
from hookgate.proxy.audit.index.facts import facts_of
from hookgate.proxy.audit.index.query import Query
from hookgate.proxy.audit.index.reporting import Report, Reports
from hookgate.proxy.audit.index.searching import CallSearch, FoundPlace, parse_place
from hookgate.proxy.audit.listing import found_kinds, found_pages
from hookgate.proxy.audit.reading import (
    AuditReader,
    CallDetail,
    EndedCall,
    RecordedChange,
    check_id,
    only_id,
)
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.explaining import describe_blocked, explain_outcome, objects
from hookgate.proxy.observe.outcomes import GUARDED
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.record import CALL_ID
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
    for name in ("decided_by", "found", "writer"):
        both.pop(name, None)
    return {"receipt": call, "began": began, "bytes": sizes, **both}


def refused_requests(receipts: Receipts) -> list[JsonObject]:
    """Return the latest requests that were refused before they counted as calls; the audit has none."""
    return [
        {"id": receipt["receipt"], "status": receipt["status"], **receipt["refused"]}
        for receipt in receipts.latest()
        if "refused" in receipt
    ]


def parse_timestamp(text: str) -> int:
    """Convert a time in ISO 8601 format to milliseconds since 1970."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _call_row(call: str, at: int, facts: JsonObject) -> JsonObject:
    session, usage = facts.get("session") or {}, facts.get("usage") or {}
    why = explain_outcome(facts)
    return {
        "id": call,
        "at": at,
        "session": session.get("id", ""),
        "client": session.get("client", ""),
        "key": session.get("key", ""),
        "team": session.get("team", ""),
        "model": facts.get("answered_by") or facts.get("model") or "",
        "asked": facts.get("model") or "",
        "kind": (facts.get("route") or {}).get("kind", ""),
        "path": (facts.get("route") or {}).get("path", ""),
        "event": facts.get("event", ""),
        "outcome": facts.get("outcome") or "",
        "decided_by": list(why.hooks),
        "reason": why.reason,
        "blocked": [describe_blocked(each) for each in objects(facts.get("blocked"))],
        "found": found_kinds(facts),
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
    """A page of calls or sessions. `older` selects the next page; it is empty on the last one."""

    rows: list[JsonObject]
    older: str = ""


class Calls(Protocol):
    """Calls that have ended. Its methods may block, so they should be called in a thread."""

    source: str
    """Where the calls come from: `audit` or `memory`."""

    def page(self, query: Query, limit: int, before: str) -> CallPage:
        """Return a page of the calls of a query. `before` is the `older` of another page, or empty.

        Raises ApiError (400) if this source makes no such `older`, or has no such order.
        """

    def pages(self, query: Query) -> Iterator[list[EndedCall]]:
        """Return all calls of a query, page by page. Raises ApiError (400) without an audit."""

    def report(self, query: Query, by: Sequence[str], limit: int) -> Report:
        """Return the sums of the calls of a query. Raises ApiError (400) if there are none."""

    def sessions(self, query: Query, before: str) -> CallPage:
        """Return a page of the sessions of a query's calls, the one with the latest call first."""

    def changes(self, since: int | None, limit: int) -> list[RecordedChange]:
        """Return the latest changes to policy and keys. Raises ApiError (400) without an audit."""

    def whole_id(self, text: str) -> str | None:
        """Return the ID that is this text or begins with it, or None. Raises ValueError."""

    def call(self, receipt: str) -> JsonObject | None:
        """Return a dict with `facts` and `content`, or None if no call has this receipt ID."""

    def records(self, receipt: str) -> CallDetail | None:
        """Return the records of a call, or None if there are none. Raises ApiError (400) without an audit."""


def _not_a_page() -> ApiError:
    return ApiError(400, "before: must be the `older` value of a page")


_NEEDS_AUDIT = "This needs the audit: without it there are only the latest calls. Set audit.enabled to true."

_SESSIONS = 50
"""The number of sessions on a page."""


class ReceivedCalls:
    """The latest calls, from their receipts."""

    source = "memory"

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts

    def page(self, query: Query, limit: int, before: str) -> CallPage:
        if query.sort != "time" or query.ascending:
            raise ApiError(400, _NEEDS_AUDIT)
        if before and not CALL_ID.fullmatch(before):
            raise _not_a_page()
        rows: list[JsonObject] = []
        for receipt in self._receipts.latest(before):
            row = receipt_row(receipt)
            if not query.matches(facts_of(row["at"], receipt)):
                continue
            if len(rows) == limit:
                return CallPage(rows, str(rows[-1]["id"]))
            rows.append(row)
        return CallPage(rows)

    def pages(self, query: Query) -> Iterator[list[EndedCall]]:
        raise ApiError(400, _NEEDS_AUDIT)

    def report(self, query: Query, by: Sequence[str], limit: int) -> Report:
        raise ApiError(400, _NEEDS_AUDIT)

    def changes(self, since: int | None, limit: int) -> list[RecordedChange]:
        raise ApiError(400, _NEEDS_AUDIT)

    def sessions(self, query: Query, before: str) -> CallPage:
        found: dict[tuple[str, str], JsonObject] = {}
        page = self.page(query, _RECEIPTS_OF_SESSIONS, before)
        for row in page.rows:
            if row["session"]:
                who = row["key"], row["session"]
                session = found.setdefault(who, new_session(row["session"], row["key"], row["at"]))
                guarded = row["outcome"] in GUARDED
                tokens = row["input_tokens"] + row["output_tokens"]
                add_to_session(session, row, (1, guarded, tokens, row["cost"] or 0))
        return CallPage(list(found.values()), page.older)

    def whole_id(self, text: str) -> str | None:
        check_id(text)
        ids = (str(receipt["receipt"]) for receipt in self._receipts.latest())
        return only_id(text, [each for each in ids if each.startswith(text)])

    def call(self, receipt: str) -> JsonObject | None:
        found = self._receipts.receipt_for(receipt)
        return None if found is None else {"facts": found, "content": None}

    def records(self, receipt: str) -> CallDetail | None:
        raise ApiError(400, _NEEDS_AUDIT)


_RECEIPTS_OF_SESSIONS = 500
"""The number of receipts from which a page of sessions is made without an audit."""


def new_session(session: str, key: str, last: int) -> JsonObject:
    """Return a row for a session without its sums."""
    return {
        "session": session,
        "key": key,
        "team": "",
        "client": "",
        "last": last,
        "calls": 0,
        "denied": 0,
        "tokens": 0,
        "cost": 0,
        "models": [],
    }


def add_to_session(session: JsonObject, names: JsonObject, amounts: Sequence[float]) -> None:
    """Add some of a session's calls to its row: their team, client and model, and their amounts."""
    for place, name in enumerate(("calls", "denied", "tokens", "cost")):
        session[name] += amounts[place]
    session["team"], session["client"] = (
        session["team"] or names["team"],
        session["client"] or names["client"],
    )
    if names["model"] and names["model"] not in session["models"]:
        session["models"].append(names["model"])


_INDEX_SECONDS = 1.0
"""How long to index the latest calls before a page or a report; older ones are found meanwhile."""

_RECORD_SECONDS = 0.5
"""How long to wait for the record of a call that has ended; it is written a moment after the end."""


class AuditedCalls:
    """All calls in the audit. A call that has just ended has a receipt before its record is written."""

    source = "audit"

    def __init__(self, reading: AuditReader, index: CallIndex, receipts: Receipts) -> None:
        self._reading, self._index, self._receipts = reading, index, receipts
        self._search, self._reports = CallSearch(index), Reports(index)

    def page(self, query: Query, limit: int, before: str) -> CallPage:
        place = _place(before)
        self._index.update(_INDEX_SECONDS)
        places = self._search.places(query, limit + 1, place)
        found = self._reading.at_positions([each.position for each in places[:limit]])
        return CallPage([_row(each) for each in found], str(places[limit - 1]) if len(places) > limit else "")

    def pages(self, query: Query) -> Iterator[list[EndedCall]]:
        self._index.update(_INDEX_SECONDS)
        return (calls for calls, _ in found_pages(self._reading, self._search, query))

    def report(self, query: Query, by: Sequence[str], limit: int) -> Report:
        self._index.update(_INDEX_SECONDS)
        try:
            return self._reports.report(query, by, limit)
        except ValueError as error:
            raise ApiError(400, str(error)) from None

    def sessions(self, query: Query, before: str) -> CallPage:
        place = _place(before)
        self._index.update(_INDEX_SECONDS)
        found, older = self._search.sessions(query, _SESSIONS, place)
        rows = {each: new_session(each.session, each.owner, at) for each, at in found.items()}
        for each, names, amounts in self._reports.sessions(found):
            add_to_session(rows[each], names, amounts)
        return CallPage(list(rows.values()), "" if older is None else str(older))

    def changes(self, since: int | None, limit: int) -> list[RecordedChange]:
        self._index.update(_INDEX_SECONDS)
        return self._reading.changes_at(self._search.changes(since, limit))

    def whole_id(self, text: str) -> str | None:
        if self._receipts.receipt_for(text) or (found := self._reading.whole_id(text)) is None:
            # The records of a call that has just ended may be on their way to the database.
            kept = [each["receipt"] for each in self._receipts.latest() if each["receipt"].startswith(text)]
            return kept[0] if len(kept) == 1 else None
        return found

    def call(self, receipt: str) -> JsonObject | None:
        kept, detail = self._receipts.receipt_for(receipt), self.records(receipt)
        if kept is not None and (detail is None or detail.end is None):
            return {"facts": kept, "content": None}
        return (
            None if detail is None else {"facts": _facts(receipt, detail), "content": shown_content(detail)}
        )

    def records(self, receipt: str) -> CallDetail | None:
        detail = self._reading.call(receipt)
        has_ended = self._receipts.receipt_for(receipt) is not None
        until = time.monotonic() + _RECORD_SECONDS
        while has_ended and (detail is None or detail.end is None) and time.monotonic() < until:
            time.sleep(_RECORD_SECONDS / 10)
            detail = self._reading.call(receipt)
        return detail


def _place(before: str) -> FoundPlace | None:
    try:
        return parse_place(before) if before else None
    except ValueError:
        raise _not_a_page() from None


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
