"""Reads recorded calls from the records of the audit."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hookgate.hooks import SessionContext
from hookgate.hooks.settings import EVENTS
from hookgate.proxy.audit.entries import MASKED
from hookgate.proxy.audit.stored import StoredRecord
from hookgate.proxy.calls.batches import BATCH_READS
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.explaining import explain_outcome
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.routes.table import Route, match
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject, read_list, read_object
from hookgate.translator.strictjson import MAX_RECORD_DEPTH, loads


@dataclass(frozen=True, slots=True)
class RecordedStart:
    """The start of a call. `at` is when its hooks had judged the request."""

    id: str
    at: datetime
    session: SessionContext
    route: Route
    model: str
    """The model that was called."""
    request: JsonObject | None
    """The body as the client sent it; None if the audit did not store it, or if there was no body."""
    stored: bool
    """Whether the audit stored all content that hooks need."""
    masked: bool = False
    """Whether hooks saw more of the request than the audit stored."""


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """The end of a call, or an event from a shim, with its name as `event` and its input as `request`."""

    id: str
    at: datetime
    session: SessionContext
    outcome: str
    hooks: tuple[JsonObject, ...]
    """What each hook did, as in the receipt."""
    start: RecordedStart | None = None
    """The start of the call; None if it is not in the export."""
    event: str = ""
    request: JsonObject | None = None
    answers: tuple[JsonObject, ...] = ()
    """The upstream's answers with their events joined. Hooks rejected all but the last one."""
    usage: Usage = field(default_factory=Usage)
    """The tokens that limits counted: those that were reported, and an estimate of the others."""
    is_answered: bool = True
    """Whether the answer's status was 200 to 299."""
    masked: bool = False
    """Whether hooks saw more of the call than the audit stored."""
    reason: str = ""
    """The reason of its outcome."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reasons of decisions, by event."""


class ExportError(ValueError):
    """Raised if a file is not an export of the audit. The message has the file, the line and a remedy."""


def read_export(path: Path, read: Callable[[int], None]) -> Iterator[RecordedStart | RecordedEnd]:
    """Yield the starts and ends of calls, and events, in the order of their records. Raises ExportError.

    `read` is called with the size of each line in bytes.
    """
    return read_calls(_records(path, read))


def read_calls(records: Iterable[JsonObject]) -> Iterator[RecordedStart | RecordedEnd]:
    """Yield the starts and ends of calls, and events, of records as an export has them."""
    starts: dict[str, RecordedStart] = {}
    for record in records:
        kind, name = record.get("type"), str(record.get("id"))
        if kind == "start":
            starts[name] = _start(name, record)
            yield starts[name]
        elif kind == "end":
            yield _end(name, starts.pop(name, None), record)
        elif kind == "event" and read_object(record, "body").get("event") in EVENTS:  # others are its own
            yield _event(name, record)


def stored_document(stored: StoredRecord) -> JsonObject:
    """Return a record of the audit as an export has it."""
    return {**stored.record.document(), "content": stored.content or {}}


def _records(path: Path, read: Callable[[int], None]) -> Iterator[JsonObject]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                read(len(line))
                if line.strip():
                    yield _record(line, f"{path}: line {number}")
    except OSError as error:
        raise ExportError(f"{path}: cannot be read: {error.strerror}") from None


def _record(line: bytes, place: str) -> JsonObject:
    try:
        value = loads(line, depth=MAX_RECORD_DEPTH)
    except BodyError as error:
        raise ExportError(
            f"{place}: is not JSON: {error}; create an export with: hookgate audit export"
        ) from None
    if not isinstance(value, dict) or "type" not in value:
        raise ExportError(f"{place}: is not an audit record; create an export with: hookgate audit export")
    return value


def _start(name: str, record: JsonObject) -> RecordedStart:
    body, content = read_object(record, "body"), read_object(record, "content")
    path, request = str(read_object(body, "route").get("path") or ""), content.get("request")
    model = str(body.get("model") or "")
    route = _route(path, model)
    return RecordedStart(
        id=name,
        at=_time(record),
        session=_session(body),
        route=route,
        model=model,
        request=request if isinstance(request, dict) else None,
        # The request of a denied call is not stored if redaction may have changed it.
        stored="request" in content and (isinstance(request, dict) or route.verb in BATCH_READS),
        masked=content.get(MASKED) is True,
    )


def _route(path: str, model: str) -> Route:
    """Return the route of a recorded path; without one, that of a call to the model."""
    for method in ("POST", "GET"):
        try:
            return match(method, path)
        except ApiError:
            continue
    return Route("judged", path, model=model, verb="generateContent")


def _end(name: str, start: RecordedStart | None, record: JsonObject) -> RecordedEnd:
    body, content = read_object(record, "body"), read_object(record, "content")
    used, status = read_object(body, "usage"), body.get("status")
    return RecordedEnd(
        id=name,
        at=_time(record),
        session=start.session if start else _session(body),
        outcome=str(body.get("outcome") or ""),
        hooks=_hooks(body),
        start=start,
        answers=tuple(
            answer for answer in (*read_list(content, "earlier"), content.get("answer")) if _is_answer(answer)
        ),
        usage=_usage(used) + _usage(read_object(used, "estimated")),
        is_answered=not isinstance(status, int) or 200 <= status < 300,
        masked=content.get(MASKED) is True or (start is not None and start.masked),
        reason=explain_outcome(body).reason,
        reasons=_reasons(body),
    )


def _reasons(body: JsonObject) -> dict[str, str]:
    return {event: str(reason) for event, reason in read_object(body, "reasons").items()}


def _usage(counts: JsonObject) -> Usage:
    tokens = (counts.get(kind) for kind in ("input_tokens", "output_tokens", "cached_tokens"))
    return Usage(*(count if isinstance(count, int) else 0 for count in tokens))


def _is_answer(answer: Any) -> bool:
    """Return whether a stored answer is one, and not a note that it was not stored."""
    return isinstance(answer, dict) and not {"left_out", "unreadable"} & answer.keys()


def _event(name: str, record: JsonObject) -> RecordedEnd:
    body = read_object(record, "body")
    return RecordedEnd(
        id=name,
        at=_time(record),
        session=_session(body),
        outcome=str(body.get("outcome") or ""),
        hooks=_hooks(body),
        event=str(body.get("event") or ""),
        request=read_object(record, "content").get("input"),
        masked=read_object(record, "content").get(MASKED) is True,
        reason=explain_outcome(body).reason,
        reasons=_reasons(body),
    )


def _time(record: JsonObject) -> datetime:
    try:
        return datetime.fromisoformat(str(record.get("at")))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def _session(record: Mapping[str, Any]) -> SessionContext:
    who = read_object(record, "session")
    return SessionContext(
        session_id=str(who.get("id") or ""),
        client=str(who.get("client") or ""),
        key=str(who.get("key") or ""),
        team=str(who.get("team") or ""),
    )


def _hooks(body: JsonObject) -> tuple[JsonObject, ...]:
    hooks = body.get("hooks")
    return tuple(hook for hook in hooks if isinstance(hook, dict)) if isinstance(hooks, list) else ()
