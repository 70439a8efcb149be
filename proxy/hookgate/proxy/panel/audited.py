"""Calls as the audit has them, content included where it is kept."""

from hookgate.proxy.audit.reading import Detail, Ended, Filter, Reading
from hookgate.proxy.panel.calls import Page, Wanted
from hookgate.proxy.panel.changes import changes_of
from hookgate.proxy.panel.rows import facts_of, iso, row_of_record
from hookgate.proxy.panel.shortening import shortened
from hookgate.proxy.records import Receipts
from hookgate.translator.fields import JsonObject


class AuditedCalls:
    """Every call on record. Of one that has just ended the receipt is there before its record."""

    source = "audit"

    def __init__(self, reading: Reading, receipts: Receipts) -> None:
        self._reading, self._receipts = reading, receipts

    def page(self, wanted: Wanted, limit: int, before: str) -> Page:
        chosen = Filter(session=wanted.session, key=wanted.key, model=wanted.model, outcome=wanted.outcome)
        found = self._reading.calls(chosen, limit + 1, int(before) if before else None)
        older = str(found[limit - 1].position) if len(found) > limit else ""
        return Page([_row(each) for each in found[:limit]], older)

    def call(self, receipt: str) -> JsonObject | None:
        detail = self._reading.call(receipt)
        if detail is not None and detail.end is not None:
            return {"facts": _facts(receipt, detail), "content": _content(detail)}
        kept = self._receipts.of(receipt)
        if kept is not None:
            return {"facts": kept, "content": None}
        return None if detail is None else {"facts": _facts(receipt, detail), "content": _content(detail)}


def _row(ended: Ended) -> JsonObject:
    return row_of_record(ended.id, ended.at, ended.start, ended.body)


def _facts(receipt: str, detail: Detail) -> JsonObject:
    start, end = detail.start, detail.end
    first = start or end
    began = iso(first.record.at) if first else None
    facts = facts_of(receipt, began, start.record.body if start else None, end.record.body if end else None)
    records = {"start": start, "end": end}
    facts["records"] = {
        name: {"writer": each.record.writer, "seq": each.record.seq, "hash": each.hash}
        for name, each in records.items()
        if each is not None
    }
    return facts


def _content(detail: Detail) -> JsonObject | None:
    """What was said, where that is stored, and what each hook changed in it."""
    start = detail.start.content if detail.start else None
    end = detail.end.content if detail.end else None
    if start is None and end is None:
        return None
    body = detail.start.record.body if detail.start else {}
    content = {"request": None, "sent": None, "answer": None, "given": None, **(start or {}), **(end or {})}
    streamed = ":stream" in str((body.get("route") or {}).get("path", ""))
    changes = changes_of(content, str(body.get("model") or ""), streamed=streamed)
    content.pop("edits", None)
    told: JsonObject = shortened({**content, "changes": changes})
    return told
