"""The panel's lists of calls and sessions, from the audit or from the latest receipts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection, Event
from hookgate.hooks.events.base import Document, SharedValue
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.index.building import CallIndex
from hookgate.proxy.audit.index.facts import facts_of
from hookgate.proxy.audit.index.query import Query
from hookgate.proxy.audit.index.reporting import Report, Reports
from hookgate.proxy.audit.index.searching import CallSearch, parse_place
from hookgate.proxy.audit.reading import AuditReader, CallDetail, EndedCall
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import CALL_ID, Receipts
from hookgate.translator import TranslatorError, declared_names, show_tool_config
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

    def page(self, query: Query, limit: int, before: str) -> CallPage:
        """Return a page of the calls of a query. `before` is the `older` of another page, or empty.

        Raises ApiError (400) if this source makes no such `older`, or has no such order.
        """

    def report(self, query: Query, by: Sequence[str], limit: int) -> Report:
        """Return the sums of the calls of a query. Raises ApiError (400) if there are none."""

    def call(self, receipt: str) -> JsonObject | None:
        """Return a dict with `facts` and `content`, or None if no call has this receipt ID."""


def _not_a_page() -> ApiError:
    return ApiError(400, "before: must be the `older` value of a page")


_NEEDS_AUDIT = "Orders other than by time, and reports, need the audit; set audit.enabled to true."


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

    def call(self, receipt: str) -> JsonObject | None:
        found = self._receipts.receipt_for(receipt)
        return None if found is None else {"facts": found, "content": None}

    def report(self, query: Query, by: Sequence[str], limit: int) -> Report:
        raise ApiError(400, _NEEDS_AUDIT)


LOOKED_AT = 500
"""The number of calls from which a page of sessions is made."""


def sessions_page(calls: Calls, before: str) -> JsonObject:
    """Return the sessions of the latest calls before a position, the one with the latest call first."""
    page = calls.page(Query(), LOOKED_AT, before)
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
        try:
            place = parse_place(before) if before else None
        except ValueError:
            raise _not_a_page() from None
        self._index.update(_INDEX_SECONDS)
        places = self._search.places(query, limit + 1, place)
        found = self._reading.at_positions([each.position for each in places[:limit]])
        return CallPage([_row(each) for each in found], str(places[limit - 1]) if len(places) > limit else "")

    def report(self, query: Query, by: Sequence[str], limit: int) -> Report:
        self._index.update(_INDEX_SECONDS)
        try:
            return self._reports.report(query, by, limit)
        except ValueError as error:
            raise ApiError(400, str(error)) from None

    def call(self, receipt: str) -> JsonObject | None:
        kept = self._receipts.receipt_for(receipt)
        detail = self._reading.call(receipt)
        until = time.monotonic() + _RECORD_SECONDS
        while kept is not None and (detail is None or detail.end is None) and time.monotonic() < until:
            time.sleep(_RECORD_SECONDS / 10)
            detail = self._reading.call(receipt)
        if detail is not None and detail.end is not None:
            return {"facts": _facts(receipt, detail), "content": _content(detail)}
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


_SHOWN_AS = {"BeforeModel": "llm_request", "AfterModel": "llm_response"}
_RAW = frozenset({"contents", "systemInstruction"})


def hook_changes(content: JsonObject, model: str, *, streamed: bool) -> list[JsonObject]:
    """Return the edits in order, as objects with event, hook, mode, before and after.

    `before` is None for streams: the parts that hooks saw are not stored.
    """
    request, answer = content.get("request"), content.get("answer")
    events: dict[str, Event] = {}
    if isinstance(request, dict):
        events["BeforeModel"] = BeforeModel(model, request)
    if isinstance(answer, dict) and not streamed:
        events["AfterModel"] = AfterModel(SharedValue({}), answer)
    found = []
    for each in content.get("edits") or ():
        if each["event"] == BeforeToolSelection.name:
            before, after = _before_selection(events.get("BeforeModel"), each["edit"]), None
        else:
            before, after = _step(events.get(each["event"]), each["edit"])
        found.append({name: each[name] for name in ("event", "hook", "mode")})
        found[-1] |= {"before": before, "after": each["edit"]}
        if each["mode"] == "enforce" and after is not None:
            events[each["event"]] = after
    return found


def _step(event: Event | None, edit: JsonObject) -> tuple[JsonObject | None, Event | None]:
    """Return the values of the edit's fields before the edit, and the event after it."""
    if event is None:
        return None, None
    view = _view(edit)
    try:
        shown = Document(event.fields(view)).value()[_SHOWN_AS[event.name]]
        return {name: shown.get(name) for name in edit}, event.edited(edit, view)
    except (TranslatorError, AttributeError, KeyError, TypeError, ValueError):  # content of another version's
        return None, None


def _before_selection(event: Event | None, selection: JsonObject) -> JsonObject | None:
    """Return what a request offers without the selection. Selections are united: none sees another one."""
    if not isinstance(event, BeforeModel):
        return None
    try:
        offered = {"toolConfig": show_tool_config(event.body), "tools": declared_names(event.body)}
    except (TranslatorError, AttributeError, TypeError, ValueError):  # content of another version's
        return None
    return {name: offered.get(name) for name in selection}


def _view(edit: JsonObject) -> str:
    """Return the view in which an edit was made, judging by its fields: text, parts, raw or body."""
    if "raw" in edit:
        return "body"
    if not _RAW.isdisjoint(edit):
        return "raw"
    messages: Any = edit.get("messages")
    listed = [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    return "parts" if any(isinstance(each.get("content"), list) for each in listed) else "text"


LONGEST_TEXT = 20_000
"""Characters that are shown of one text."""

MAX_ITEMS = 2_000
"""Items that are shown of one list or object."""

MAX_CHARACTERS = 2_000_000
"""The approximate number of characters that are shown of a document."""

_DEEPEST = 60
_EXACT = 2**53 - 1
"""The largest integer that JavaScript represents exactly; larger ones are sent as texts."""
_NODE = 8
"""The size of a value without its text, in characters."""


def shorten(value: Any) -> Any:
    """Return the value with long texts, lists and objects shortened."""
    return _Cutter().cut(value, 0)


class _Cutter:
    """Shortens one document."""

    def __init__(self) -> None:
        self._left = MAX_CHARACTERS

    def cut(self, value: Any, depth: int) -> Any:
        self._left -= _NODE
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and abs(value) > _EXACT:
            return str(value)
        if not isinstance(value, dict | list):
            return value
        if depth > _DEEPEST:
            return "… (deeper levels are left out)"
        return self._object(value, depth) if isinstance(value, dict) else self._list(value, depth)

    def _text(self, text: str) -> str:
        kept = text[: max(0, min(LONGEST_TEXT, self._left))]
        self._left -= len(kept)
        return kept if kept == text else f"{kept} … ({len(text) - len(kept)} more characters)"

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in items[:MAX_ITEMS]:
            if self._left <= 0:
                break
            kept.append(self.cut(item, depth + 1))
        return kept if len(kept) == len(items) else [*kept, f"… ({len(items) - len(kept)} more)"]

    def _object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in list(fields.items())[:MAX_ITEMS]:
            if self._left <= 0 and depth:
                break
            self._left -= len(name)
            kept[self._text(name)] = self.cut(value, depth + 1)
        return kept if len(kept) == len(fields) else {**kept, "…": f"({len(fields) - len(kept)} more)"}
