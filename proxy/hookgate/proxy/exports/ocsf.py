"""Records as events of the Open Cybersecurity Schema Framework: API Activity (6003), of its version 1.8.

A call is one event, made from the record of its end, which says whose call it was. Its start is not sent: a
call that ends in no other way ends as `interrupted`.
"""

import json
from typing import Any

import orjson

from hookgate.proxy import __version__
from hookgate.proxy.audit.chain import canonical_json
from hookgate.proxy.exports.records import REGISTRATION, StoredEntry
from hookgate.proxy.observe.explaining import explain_outcome
from hookgate.translator.fields import JsonObject, read_object

OCSF_VERSION = "1.8.0"

_CREATE, _UPDATE, _DELETE, _OTHER = 1, 3, 4, 99  # activity_id
_SUCCESS, _FAILURE = 1, 2  # status_id
_INFORMATIONAL, _LOW, _MEDIUM = 1, 2, 3  # severity_id
_ALLOWED, _DENIED, _OBSERVED = 1, 2, 3  # action_id
_PASSED, _BLOCKED, _LOGGED = 1, 2, 17  # disposition_id

_BY_OUTCOME = {
    "answered": (_SUCCESS, _INFORMATIONAL, _ALLOWED, _PASSED),
    "synthetic": (_SUCCESS, _INFORMATIONAL, _ALLOWED, _PASSED),
    "blocked": (_SUCCESS, _MEDIUM, _DENIED, _BLOCKED),
    "denied": (_FAILURE, _MEDIUM, _DENIED, _BLOCKED),
    "stopped": (_FAILURE, _MEDIUM, _DENIED, _BLOCKED),
    "refused": (_FAILURE, _LOW, _DENIED, _BLOCKED),
    "failed": (_FAILURE, _LOW, _ALLOWED, _PASSED),
}
"""The IDs of status, severity, action and disposition of a call with an outcome."""

_UNFINISHED = (_FAILURE, _INFORMATIONAL, _ALLOWED, _PASSED)
_ABOUT_AUDIT = (_SUCCESS, _INFORMATIONAL, _OBSERVED, _LOGGED)

_ACTIVITIES = {"policy": _UPDATE, "change": _UPDATE, "retention": _DELETE}
"""The activities of records that are not of calls. Calls create something: an answer."""

_PROVIDER = "Google"


def ocsf_event(entry: StoredEntry) -> bytes | None:
    """Return a record as an event, or None for the start of a call or the registration of a writer."""
    if entry.type in ("start", REGISTRATION):
        return None
    body = _body(entry)
    is_call = bool(entry.outcome)
    status, severity, action, disposition = (
        _BY_OUTCOME.get(entry.outcome, _UNFINISHED) if is_call else _ABOUT_AUDIT
    )
    activity = _CREATE if is_call else _ACTIVITIES.get(str(body.get("event")), _OTHER)
    event: JsonObject = {
        "category_uid": 6,
        "class_uid": 6003,
        "activity_id": activity,
        "type_uid": 6003 * 100 + activity,
        "time": entry.at,
        "severity_id": severity,
        "status_id": status,
        "action_id": action,
        "disposition_id": disposition,
        "metadata": _metadata(entry),
        "api": _api(entry, body),
        "actor": _actor(body),
        "src_endpoint": {"svc_name": _text(read_object(body, "session").get("client")) or "unknown"},
        "dst_endpoint": {"svc_name": "hookgate", "hostname": entry.writer.host or "unknown"},
        **_decision(entry, body),
        **_model(body),
        "unmapped": {"previous": entry.previous, "hash": entry.hash, "body": body},
    }
    total = read_object(body, "timings").get("total_ms")
    if isinstance(total, int | float):
        event["duration"] = int(total)
    return canonical_json(event)


def _body(entry: StoredEntry) -> JsonObject:
    try:
        body: Any = orjson.loads(entry.body)
    except ValueError:  # a number that only Python reads
        body = json.loads(entry.body)
    return body if isinstance(body, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _metadata(entry: StoredEntry) -> JsonObject:
    return {
        "version": OCSF_VERSION,
        "product": {"name": "hookgate", "vendor_name": "hookgate", "version": __version__},
        "profiles": ["ai_operation", "security_control"],
        "uid": f"{entry.writer.name}-{entry.seq}",
        "correlation_uid": entry.id,
        "sequence": entry.seq,
        "event_code": entry.type,
        "log_name": "audit",
        "logged_time": entry.at,
    }


def _api(entry: StoredEntry, body: JsonObject) -> JsonObject:
    """Return the operation: a call, the event of an agent, or a change such as `policy.push`."""
    operation = _text(body.get("change")) or _text(body.get("event")) or "call"
    request = _text(body.get("request_id")) or entry.id
    api: JsonObject = {"operation": operation, "service": {"name": "hookgate"}, "request": {"uid": request}}
    if isinstance(body.get("status"), int):
        api["response"] = {"code": body["status"]}
    return api


def _actor(body: JsonObject) -> JsonObject:
    """Return who has called or made a change: hookgate itself, if nobody else did."""
    session = read_object(body, "session")
    name, key = _text(session.get("key")) or _text(body.get("by")), _text(body.get("issued_key"))
    user: JsonObject = {"name": name} if name else {}
    if key:
        user["credential_uid"] = key
        user.setdefault("uid", key)
    if team := _text(session.get("team")):
        user["groups"] = [{"name": team}]
    actor: JsonObject = {"app_name": _text(session.get("client")) or "hookgate"}
    if name or key:
        actor["user"] = user
    if identity := _text(session.get("id")):
        actor["session"] = {"uid": identity}
    return actor


def _decision(entry: StoredEntry, body: JsonObject) -> JsonObject:
    """Return what hooks decided, and why."""
    if not entry.outcome:
        return {"message": _text(body.get("change")) or _text(body.get("event")), "status_detail": ""}
    explanation = explain_outcome({**body, "outcome": entry.outcome})
    message = f"{entry.outcome}: {explanation.reason}" if explanation.reason else entry.outcome
    decision: JsonObject = {
        "message": message,
        "status_code": str(body.get("status") or ""),
        "status_detail": explanation.reason,
    }
    if explanation.hooks:
        decision["policy"] = {"name": ", ".join(explanation.hooks), "is_applied": True}
    return decision


def _model(body: JsonObject) -> JsonObject:
    """Return the model that answered or was asked, and the tokens that were used."""
    name = _text(body.get("answered_by")) or _text(body.get("model"))
    if not name:
        return {}
    usage = read_object(body, "usage")
    counts = {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
    }
    context = {field: count for field, count in counts.items() if isinstance(count, int)}
    return {
        "ai_model": {"name": name, "ai_provider": _PROVIDER},
        "message_context": {
            "service": {"name": "hookgate"},
            **context,
            **({"total_tokens": sum(context.values())} if context else {}),
        },
    }
