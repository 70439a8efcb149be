"""Applies another policy to recorded calls, and compares its decisions with the recorded ones."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hookgate.hooks import AfterModel, BeforeModel, BeforeTool, BeforeToolSelection, Engine, SessionContext
from hookgate.hooks.events.base import Encoded
from hookgate.hooks.events.reading import read_event
from hookgate.hooks.settings import EVENTS
from hookgate.proxy.call.context import RecordedEngine
from hookgate.proxy.observe.record import CallRecord, make_receipt
from hookgate.translator import BodyError, CallGate, show_request
from hookgate.translator.fields import JsonObject, read_object
from hookgate.translator.strictjson import loads

_CODE_ASSIST = "/v1internal"


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call, or one event from a shim, with its name as `event` and its input as `request`."""

    id: str
    session: SessionContext
    model: str
    event: str
    request: JsonObject | None
    """The request as the client sent it, or None if the audit stored no content."""
    answer: JsonObject | None
    """The upstream's answer, with its events joined, or None if there was none."""
    outcome: str
    hooks: tuple[JsonObject, ...]
    """What each hook did, as in the receipt."""


class ExportError(ValueError):
    """Raised if a file is not an export of the audit. The message has the file, the line and a remedy."""


def read_export(path: Path, read: Callable[[int], None]) -> Iterator[RecordedCall]:
    """Yield the calls and events of an export, in the order of their ends. Raises ExportError.

    A call without an end is left out. `read` is called with the size of each line in bytes.
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
        raise ExportError(
            f"{place}: is not JSON: {error}; create an export with: hookgate audit export"
        ) from None
    if not isinstance(value, dict) or "type" not in value:
        raise ExportError(f"{place}: is not an audit record; create an export with: hookgate audit export")
    return value


def _call(name: str, start: JsonObject, end: JsonObject) -> RecordedCall:
    begun, body = read_object(start, "body"), read_object(end, "body")
    record = {**begun, **body}
    answer = read_object(end, "content").get("answer")
    return RecordedCall(
        id=name,
        session=_session(record),
        model=str(record.get("model") or ""),
        event="",
        request=_request(start),
        answer=answer if isinstance(answer, dict) else None,
        outcome=str(record.get("outcome") or ""),
        hooks=_hooks(body),
    )


def _request(start: JsonObject) -> JsonObject | None:
    """Return the GenerateContentRequest of a call, which for Code Assist is in an envelope."""
    request = read_object(start, "content").get("request")
    path = str(read_object(read_object(start, "body"), "route").get("path") or "")
    inner = request.get("request") if isinstance(request, dict) and path.startswith(_CODE_ASSIST) else None
    found = inner if isinstance(inner, dict) else request
    return found if isinstance(found, dict) else None


def _event(name: str, record: JsonObject) -> RecordedCall:
    body = read_object(record, "body")
    return RecordedCall(
        id=name,
        session=_session(body),
        model="",
        event=str(body.get("event") or ""),
        request=read_object(record, "content").get("input"),
        answer=None,
        outcome=str(body.get("outcome") or ""),
        hooks=_hooks(body),
    )


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


SAMPLES = 5
"""The number of receipts that the report names for each change."""

Rule = tuple[str, str]
"""An event and the name of one of its hooks."""


@dataclass(slots=True)
class ReplayChange:
    """A change in a rule's decision or in the outcome, with the number of calls and sample receipt IDs."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, receipt: str) -> None:
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(receipt)


@dataclass(slots=True)
class ReplayReport:
    """The result of replaying all recorded calls."""

    replayed: int = 0
    unchanged: int = 0
    without_content: int = 0
    """Calls that cannot be replayed, because the audit did not store their content."""
    refused: int = 0
    """Calls that hookgate refused before any hook ran, so that no policy can change their outcome."""
    failed: Counter[str] = field(default_factory=Counter)
    """The number of calls in which a hook failed, by hook."""
    rules: dict[Rule, dict[str, ReplayChange]] = field(default_factory=dict)
    """The changes of decisions by rule, as `old → new`."""
    outcomes: dict[str, ReplayChange] = field(default_factory=dict)
    """The changes of outcomes, as `old → new`."""

    def add(self, was: RecordedCall, now: CallRecord) -> None:
        """Compare one recorded call with its replay."""
        self.replayed += 1
        before, after = _decisions_by_rule(was.hooks), _decisions_by_rule(make_receipt(now)["hooks"])
        changed = False
        ends_earlier = now.outcome != "answered"  # later hooks do not run then; that is no change
        for rule in sorted(after.keys() if ends_earlier else before.keys() | after.keys()):
            old, new = before.get(rule, "did not run"), after.get(rule, "does not run")
            if old != new and {old, new} - {"did not run", "does not run", "allow"}:
                self.rules.setdefault(rule, {}).setdefault(f"{old} → {new}", ReplayChange()).add(was.id)
                changed = True
        if not was.event and was.outcome in _JUDGED and was.outcome != now.outcome:
            self.outcomes.setdefault(f"{was.outcome} → {now.outcome}", ReplayChange()).add(was.id)
            changed = True
        self.unchanged += not changed
        for tally in now.hooks.values():
            self.failed[tally.hook] += bool(tally.failures)

    def as_json(self) -> JsonObject:
        """Return the report as a JSON object."""
        return {
            "replayed": self.replayed,
            "unchanged": self.unchanged,
            "without_content": self.without_content,
            "refused": self.refused,
            "failed": {hook: count for hook, count in self.failed.items() if count},
            "outcomes": _listed(self.outcomes),
            "rules": [
                {"event": event, "hook": hook, "changes": _listed(changes)}
                for (event, hook), changes in self.rules.items()
            ],
        }


_JUDGED = frozenset({"answered", "denied", "stopped", "synthetic"})
"""Outcomes that hooks can change."""


def _listed(changes: dict[str, ReplayChange]) -> list[JsonObject]:
    return [
        {"change": what, "calls": change.count, "receipts": change.samples}
        for what, change in sorted(changes.items(), key=lambda each: -each[1].count)
    ]


def _decisions_by_rule(hooks: Iterable[JsonObject]) -> dict[Rule, str]:
    """Return a short description of what each rule did in a call."""
    return {(str(hook.get("event")), str(hook.get("hook"))): _words(hook) for hook in hooks}


def _words(hook: JsonObject) -> str:
    decisions = read_object(hook, "decisions")
    said = next((each for each in ("stop", "deny", "answer", "ask") if decisions.get(each)), "allow")
    if hook.get("failures"):
        said = f"{said}, failed"
    findings = ", ".join(f"{kind} {count}" for kind, count in sorted(read_object(hook, "findings").items()))
    if hook.get("edits"):
        said = "edit" if said == "allow" else f"{said}, edit"
    return f"{said} ({findings})" if findings else said


async def replay_call(engine: Engine, recorded: RecordedCall) -> CallRecord:
    """Replay a call and return its new record. Raises ValueError if an event cannot be read."""
    record = CallRecord(id=recorded.id, model=recorded.model, session=recorded.session)
    firing = RecordedEngine(engine, record)
    if recorded.event:
        event = read_event(recorded.event, recorded.request or {})
        await firing.fire(event, recorded.session)
    else:
        await _session_of_call(firing, recorded, recorded.request or {})
    record.outcome = record.outcome or "answered"
    return record


async def _session_of_call(firing: RecordedEngine, recorded: RecordedCall, body: JsonObject) -> None:
    """Run the hooks of a call in their order, until one of them ends it."""
    session, record = recorded.session, firing.record
    before = (await firing.fire(BeforeModel(recorded.model, body), session)).event
    if record.outcome is not None:
        return
    await firing.fire(BeforeToolSelection(before.model, before.body), session)
    if record.outcome is not None or recorded.answer is None:
        return
    shown = Encoded(show_request(before.model, before.body))
    after = await firing.fire(AfterModel(shown, recorded.answer, before.model), session)
    if record.outcome is None:
        for call in CallGate().starting_calls(after.event.body):
            await firing.fire(BeforeTool(str(call.get("name") or ""), read_object(call, "args")), session)
