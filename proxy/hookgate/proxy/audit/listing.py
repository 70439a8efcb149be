"""The calls of a query in pages, and what is listed of each of them in JSON and CSV."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.index.query import Query
from hookgate.proxy.audit.index.searching import CallSearch, FoundPlace
from hookgate.proxy.audit.reading import AuditReader, EndedCall
from hookgate.proxy.observe.explaining import explain_outcome, objects
from hookgate.proxy.observe.logs import escape_controls
from hookgate.translator.fields import JsonObject, read_object

_PAGE = 500


def found_pages(
    reader: AuditReader,
    search: CallSearch,
    query: Query,
    place: FoundPlace | None = None,
    limit: int | None = None,
) -> Iterator[tuple[list[EndedCall], FoundPlace]]:
    """Yield the calls of a query in pages, each with the place of its last call.

    Args:
        reader: Reads the records of the calls.
        search: Finds them.
        query: What to find.
        place: The place after which to begin; None for the first call.
        limit: How many calls to yield at most; None for all.
    """
    left = limit
    while left is None or left > 0:
        places = search.places(query, _PAGE if left is None else min(left, _PAGE), place)
        if not places:
            return
        place = places[-1]
        yield reader.at_positions([each.position for each in places]), place
        left = None if left is None else left - len(places)


def call_fields(call: EndedCall) -> JsonObject:
    """Return the fields by which a call is listed in JSON and CSV."""
    body = {**(call.start or {}), **call.body}
    session, usage = read_object(body, "session"), read_object(body, "usage")
    why = explain_outcome(body)
    return {
        "id": call.id,
        "at": utc_text(call.at / 1000),
        "type": call.type,
        "event": body.get("event") or "",
        "outcome": call.outcome,
        "hooks": list(why.hooks),
        "reason": why.reason,
        "found": found_kinds(body),
        "status": body.get("status"),
        "ms": read_object(body, "timings").get("total_ms"),
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cost": usage.get("cost"),
        "model": call.model,
        "asked": body.get("model") or "",
        "key": call.key,
        "issued_key": body.get("issued_key") or "",
        "team": session.get("team") or "",
        "session": call.session,
        "agent": session.get("client") or "",
        "path": read_object(body, "route").get("path") or "",
    }


def found_kinds(body: JsonObject) -> dict[str, Any]:
    """Return what the hooks of a call found: numbers by kind."""
    found: dict[str, Any] = {}
    for hook in objects(body.get("hooks")):
        for kind, count in read_object(hook, "findings").items():
            found[kind] = found.get(kind, 0) + count
    return found


NO_CALL = EndedCall(0, "", 0, "", "", "", "", "", {}, None)
"""A call without content, which has the names of all fields."""


def call_document(call: EndedCall) -> JsonObject:
    """Return a call as a line of JSON lists it: its fields, and the bodies of its records."""
    return {**call_fields(call), "position": call.position, "body": call.body, "start": call.start}


def write_csv(columns: Sequence[str], rows: Iterable[Iterable[Any]], out: TextIO) -> None:
    """Write rows as CSV, after the names of their columns unless there are none.

    A spreadsheet must not take a text for a formula, because clients choose some texts.
    """
    writer = csv.writer(out, lineterminator="\n")
    if columns:
        writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_cell(value) for value in row])


def _csv_cell(value: Any) -> Any:
    if isinstance(value, dict):
        value = "; ".join(f"{name} {count}" for name, count in value.items())
    if isinstance(value, list):
        value = "; ".join(map(str, value))
    if not isinstance(value, str):
        return "" if value is None else value
    text = escape_controls(value, keep_lines=False)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text
