"""Calls as the panel lists them, made of receipts or of the audit's records. Pure."""

from datetime import UTC, datetime

from hookgate.translator.fields import JsonObject


def row_of(receipt: JsonObject) -> JsonObject:
    """One line of the list. `at` is when the call ended, in milliseconds since 1970."""
    ended = at_of(receipt["began"]) + int(receipt["timings"]["total_ms"])
    return _row(receipt["receipt"], ended, receipt, receipt)


def row_of_record(call: str, at: int, start: JsonObject | None, body: JsonObject) -> JsonObject:
    """The same of a record of the audit. An event's `body` holds what a call's start has told."""
    return _row(call, at, start or body, body)


def facts_of(call: str, began: str | None, start: JsonObject | None, end: JsonObject | None) -> JsonObject:
    """A receipt, made of records; a call under way has neither outcome nor timings."""
    said = start or end or {}
    ended = end or {}
    sizes = {"request": said.get("request_bytes"), "answer": ended.get("answer_bytes")}
    left_out = ("request_bytes", "answer_bytes", "writer")
    both = {name: value for name, value in {**ended, **said}.items() if name not in left_out}
    return {"receipt": call, "began": began, "bytes": sizes, **both}


def at_of(told: str) -> int:
    """Milliseconds since 1970 of a time in ISO form."""
    return int(datetime.fromisoformat(told).timestamp() * 1000)


def iso(at: int) -> str:
    """The reverse."""
    told = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    return told.replace("+00:00", "Z")


def _row(call: str, at: int, start: JsonObject, end: JsonObject) -> JsonObject:
    session, usage = start.get("session") or {}, end.get("usage") or {}
    return {
        "id": call,
        "at": at,
        "session": session.get("id", ""),
        "client": session.get("client", ""),
        "key": session.get("key", ""),
        "team": session.get("team", ""),
        "model": start.get("model") or "",
        "kind": (start.get("route") or {}).get("kind", ""),
        "path": (start.get("route") or {}).get("path", ""),
        "event": end.get("event", ""),
        "outcome": end.get("outcome") or "",
        "status": end.get("status"),
        "ms": (end.get("timings") or {}).get("total_ms"),
        "input_tokens": usage.get("input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "bypasses": end.get("bypasses", 0),
        "degraded": end.get("degraded") or [],
        "hooks": [
            {name: hook[name] for name in ("event", "hook", "mode", "decisions", "edits", "failures")}
            for hook in end.get("hooks") or ()
        ],
    }
