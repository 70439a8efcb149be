"""What was said, as documents: as it is, or with what looks like a secret masked. Off by default."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from hookgate.hooks import AfterModel
from hookgate.hooks.policies.redact import Scanner
from hookgate.hooks.policies.redact.answers import AnswerScreen
from hookgate.hooks.policies.redact.covering import elsewhere, redacted_fields
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.redact.redaction import Redaction, Search
from hookgate.hooks.policies.redact.requests import redacted_request
from hookgate.proxy.envelopes import envelope_of
from hookgate.proxy.records import CallRecord, Content
from hookgate.proxy.records.content import Kept
from hookgate.proxy.routes import Route
from hookgate.translator import BodyError, JsonArray, ServerSentEvents, check_response, join_events
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

Mode = Literal["off", "redacted", "full"]

_LEFT_OUT: JsonObject = {"left_out": "a policy took something out of it, and gave it back to the client"}

log = logging.getLogger("hookgate.audit")


class Contents:
    """Makes documents of what calls have kept, in a thread of its own: bodies may be large."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._scanner = Scanner(RedactOptions().detectors()) if mode == "redacted" else None
        self._thread = ThreadPoolExecutor(1, "hookgate-audit-content")

    def of(self, route: Route) -> Content | None:
        """What a call on this route keeps; None when nothing is wanted of it."""
        judged = route.kind == "judged" and route.verb in ("generateContent", "streamGenerateContent")
        return Content(route) if self._mode != "off" and (judged or route.kind == "event") else None

    async def at_start(self, record: CallRecord) -> JsonObject | None:
        """What is stored with a start."""
        if record.content is None:
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._safely, _start, record)

    async def of_event(self, record: CallRecord) -> JsonObject | None:
        """What is stored with an event that a shim told of."""
        if record.content is None:
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._safely, _event, record)

    def when_ended(self, record: CallRecord, put: Callable[[JsonObject | None], object]) -> None:
        """Call `put` with what is stored with an end, at once when that is nothing."""
        if record.content is None:
            put(None)
        else:
            self._thread.submit(lambda: put(self._safely(_end, record)))

    def close(self) -> None:
        """Returns when all ends were put."""
        self._thread.shutdown()

    def _safely(self, make: "Make", record: CallRecord) -> JsonObject | None:
        """What is stored. Nothing where that fails: the record itself counts more."""
        try:
            return self._made(make, record)
        except Exception:
            log.exception("the content of a call cannot be stored; please report this")
            return None

    def _made(self, make: "Make", record: CallRecord) -> JsonObject | None:
        content = record.content
        if content is None:
            return None
        if self._scanner is None:
            return make(content, None)
        concealed = Concealed.of(record)
        redaction = Redaction(Search(self._scanner), lambda kind, _: f"[{kind}]")
        return {name: _redacted(redaction, name, value) for name, value in make(content, concealed).items()}


class Concealed:
    """What a policy that redacts has made of a call, so that nothing is stored that it took out."""

    def __init__(self, *, restored: bool, found: bool) -> None:
        self.restored = restored
        """Whether the client was given back what was taken out: its answer is not to be stored."""
        self.found = found
        """Whether something was found in the upstream's answer: that is not to be stored either."""

    @classmethod
    def of(cls, record: CallRecord) -> "Concealed | None":
        """None for a call that no such policy has seen."""
        tallies = [tally for tally in record.hooks.values() if tally.type == "builtin:redact"]
        if not tallies:
            return None
        return cls(
            restored=any(call.exits for call in record.calls),
            found=any(tally.event == AfterModel.name and tally.findings for tally in tallies),
        )


Make = Callable[[Content, Concealed | None], JsonObject]


def _redacted(redaction: Redaction, name: str, value: Any) -> Any:
    """A field of what is stored, with what the policy `redact` would find in it masked."""
    if not isinstance(value, dict):
        return redaction.value(value)
    if name in ("answer", "given"):
        return _redacted_answer(redaction, value)
    if name in ("request", "sent") and isinstance(inner := value.get("request"), dict):  # Code Assist's
        outer: JsonObject = redacted_fields(redaction, value, "other", {"request": elsewhere})
        return {**outer, "request": redacted_request(redaction, inner)}
    return redacted_request(redaction, value)


def _redacted_answer(redaction: Redaction, answer: JsonObject) -> Any:
    try:
        check_response(answer)
    except BodyError:  # nobody has judged it, so it may be anything
        return redaction.value(answer)
    [(_, redacted)] = AnswerScreen(redaction).judge([answer], last=True)
    return redacted


def _start(content: Content, concealed: Concealed | None) -> JsonObject:
    return {"request": content.sent if concealed else content.request}


def _end(content: Content, concealed: Concealed | None) -> JsonObject:
    answer, given = _joined(content.answer, content.route), _joined(content.given, content.route)
    if concealed:
        stored = given if not concealed.restored else _LEFT_OUT if concealed.found else answer
        return {"sent": None, "answer": stored, "given": None, "edits": []}
    return {
        "sent": None if content.sent == content.request else content.sent,
        "answer": answer,
        "given": None if given == answer else given,
        "edits": content.edits,
    }


def _event(content: Content, concealed: Concealed | None) -> JsonObject:
    return {"input": None if concealed else content.request, "output": content.sent}


def _joined(kept: Kept, route: Route) -> Any:
    """An answer as one document; None when there was none."""
    if kept.too_large:
        return {"left_out": "it was too large"}
    data = bytes(kept.data)
    if not data.strip():
        return None
    try:
        events = _events(data, route)
        return join_events(events) if route.streamed else events[0]
    except (BodyError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return {"unreadable": data.decode(errors="replace")}


def _events(data: bytes, route: Route) -> list[Any]:
    envelope = envelope_of(route)
    if not route.streamed:
        return [envelope.open_answer(loads(data))]
    framing = ServerSentEvents() if route.alt == "sse" else JsonArray()
    frames = [*framing.feed(data), *framing.finish()]
    return [envelope.open_answer(loads(frame.data)) for frame in frames if frame.data.strip()]
