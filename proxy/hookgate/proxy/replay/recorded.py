"""Calls and events as an export of the audit tells of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hookgate.hooks import Session
from hookgate.hooks.settings import EVENTS
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject, read_object
from hookgate.translator.strictjson import loads

_CODE_ASSIST = "/v1internal"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call, or one event that a shim told of (then `event` is its name and `request` its input)."""

    id: str
    session: Session
    model: str
    event: str
    request: JsonObject | None
    """The request as the client sent it; None when the audit kept no content."""
    answer: JsonObject | None
    """The upstream's answer, its events joined; None when there was none."""
    outcome: str
    hooks: tuple[JsonObject, ...]
    """What hooks did, as the receipt tells it."""


class ExportError(ValueError):
    """A file is no export of the audit. The message names the file, the line and the remedy."""


def read_export(path: Path, read: Callable[[int], None]) -> Iterator[Recorded]:
    """The calls and events of an export, each when its end is told. Raises ExportError.

    A call that never ended is left out. `read` is told of each line how many bytes it has.
    """
    starts: dict[str, JsonObject] = {}
    for record in _records(path, read):
        kind, name = record.get("type"), str(record.get("id"))
        if kind == "start":
            starts[name] = record
        elif kind == "end":
            yield _call(name, starts.pop(name, {}), record)
        elif kind == "event" and read_object(record, "body").get("event") in EVENTS:  # others are its own
            yield _event(name, record)


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
        value = loads(line)
    except BodyError as error:
        raise ExportError(f"{place}: is no JSON: {error}; make one with: hookgate audit export") from None
    if not isinstance(value, dict) or "type" not in value:
        raise ExportError(f"{place}: is no audit record; make an export with: hookgate audit export")
    return value


def _call(name: str, start: JsonObject, end: JsonObject) -> Recorded:
    begun, body = read_object(start, "body"), read_object(end, "body")
    told = {**begun, **body}
    answer = read_object(end, "content").get("answer")
    return Recorded(
        id=name,
        session=_session(told),
        model=str(told.get("model") or ""),
        event="",
        request=_request(start),
        answer=answer if isinstance(answer, dict) else None,
        outcome=str(told.get("outcome") or ""),
        hooks=_hooks(body),
    )


def _request(start: JsonObject) -> JsonObject | None:
    """The GenerateContentRequest of a call; Code Assist has it in an envelope."""
    request = read_object(start, "content").get("request")
    path = str(read_object(read_object(start, "body"), "route").get("path") or "")
    inner = request.get("request") if isinstance(request, dict) and path.startswith(_CODE_ASSIST) else None
    found = inner if isinstance(inner, dict) else request
    return found if isinstance(found, dict) else None


def _event(name: str, record: JsonObject) -> Recorded:
    body = read_object(record, "body")
    return Recorded(
        id=name,
        session=_session(body),
        model="",
        event=str(body.get("event") or ""),
        request=read_object(record, "content").get("input"),
        answer=None,
        outcome=str(body.get("outcome") or ""),
        hooks=_hooks(body),
    )


def _session(told: Mapping[str, Any]) -> Session:
    who = read_object(told, "session")
    return Session(
        session_id=str(who.get("id") or ""),
        client=str(who.get("client") or ""),
        key=str(who.get("key") or ""),
        team=str(who.get("team") or ""),
    )


def _hooks(body: JsonObject) -> tuple[JsonObject, ...]:
    hooks = body.get("hooks")
    return tuple(hook for hook in hooks if isinstance(hook, dict)) if isinstance(hooks, list) else ()
