"""Sessions, as their calls show them: those that the latest calls belong to."""

from hookgate.proxy.panel.calls import Calls, Wanted
from hookgate.translator.fields import JsonObject

LOOKED_AT = 500
"""Calls that one page of sessions is made of."""


def sessions_page(calls: Calls, before: str) -> JsonObject:
    """The sessions of the latest calls before that place, the one with the latest call first."""
    page = calls.page(Wanted(), LOOKED_AT, before)
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
    session["denied"] += row["outcome"] in ("denied", "stopped")
    if row["model"] and row["model"] not in session["models"]:
        session["models"].append(row["model"])
