"""The content of calls for the audit: in full, or with secrets and personal data masked. Off by default."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

from hookgate.hooks import AfterModel
from hookgate.hooks.policies.redact import SENSITIVE, shared_scanner
from hookgate.hooks.policies.redact.answers import AnswerScreen
from hookgate.hooks.policies.redact.fields import handled_by_caller, redacted_fields, redacted_request
from hookgate.hooks.policies.redact.known import CleanDigests, RememberedParts
from hookgate.hooks.policies.redact.redaction import Redaction, Search
from hookgate.proxy.audit.entries import MASKED
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.content import CallContent, KeptBytes
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.routes.dialects.generate_content import decode_request_body
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.shared_threads import SharedThread
from hookgate.translator import BodyError, check_response, join_events
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

log = logging.getLogger("hookgate.audit")

Mode = Literal["redacted", "full"]

_LEFT_OUT: JsonObject = {"left_out": "a policy redacted parts of it and restored them for the client"}
_NOT_READ: JsonObject = {"left_out": "it could not be read, so nothing in it could be masked"}

_SCANNED = frozenset(
    {
        *("generateContent", "streamGenerateContent", "createChatCompletion", "createResponse"),
        *("createInteraction", "getInteraction", "cancelInteraction"),
    }
)
"""The API's methods whose content can be masked: only the scanner of requests and answers finds everything,
for example in encoded files."""


class Contents:
    """Builds the documents to store from the content of calls, in its own threads: bodies may be large.

    Calls wait for the content of their starts and of events, so callers take turns there. Nothing waits for
    that of ends.
    """

    def __init__(self, mode: Mode) -> None:
        self._scanner = shared_scanner(SENSITIVE) if mode == "redacted" else None
        self._clean = CleanDigests()
        self._thread = SharedThread("hookgate-audit-content")
        self._thread_for_ends = ThreadPoolExecutor(1, "hookgate-audit-ends")

    def content_for(self, route: Route) -> CallContent | None:
        """Return a container for the content of a call on this route, or None if it is not stored."""
        judged = route.kind == "judged" and (route.verb in _SCANNED or self._scanner is None)
        return CallContent(route) if judged or route.kind == "event" else None

    async def at_start(self, record: CallRecord, *, hooks_running: bool) -> JsonObject | None:
        """Return the content to store with a start, or None if there is none.

        If hooks still run (`hooks_running`), what they will let through is stored with the end.
        """
        content = record.content
        if content is None:
            return None
        if hooks_running and self._scanner is not None:
            content.request_awaited = True
            return None
        return await self._in_turn(_start, record)

    async def of_event(self, record: CallRecord) -> JsonObject | None:
        """Return the content to store with a shim's event."""
        if record.content is None:
            return None
        return await self._in_turn(_event, record)

    def when_ended(self, record: CallRecord, put: Callable[[JsonObject | None], object]) -> None:
        """Call `put` with the content to store with an end; at once if there is none."""
        if record.content is None:
            put(None)
        else:
            self._thread_for_ends.submit(lambda: put(self._safely(_end, record)))

    def close(self) -> None:
        """Wait until `put` was called for all ends."""
        self._thread.close()
        self._thread_for_ends.shutdown()

    async def _in_turn(self, make: "Make", record: CallRecord) -> JsonObject | None:
        session = record.session
        queue_key = (session.key, session.session_id) if session else ("", record.id)
        return await self._thread.run(queue_key, partial(self._safely, make, record))

    def _safely(self, make: "Make", record: CallRecord) -> JsonObject | None:
        """Return the content to store, or None if that fails: the record is stored in any case."""
        try:
            return self._build(make, record)
        except Exception:
            log.exception("the content of a call cannot be stored; please report this")
            return None

    def _build(self, make: "Make", record: CallRecord) -> JsonObject | None:
        content = record.content
        if content is None:
            return None
        if self._scanner is None:
            return make(content, None)
        effects = RedactionEffects.from_record(record)
        key = record.session.key if record.session else ""
        known = RememberedParts(self._clean, key)
        redaction = Redaction(Search(self._scanner), lambda kind, _: f"[{kind}]", known=known)
        made = make(content, effects)
        stored = {name: _redacted(redaction, content.route, name, value) for name, value in made.items()}
        masked = stored != made or (effects is not None and effects.changed)
        return {**stored, MASKED: True} if masked else stored


class RedactionEffects:
    """What redaction policies did to a call, so that nothing is stored that they removed."""

    def __init__(self, *, restored: bool, found: bool, changed: bool) -> None:
        self.restored = restored
        """Whether removed values were restored for the client: its answer must not be stored."""
        self.found = found
        """Whether something was found in the upstream's answer, which must not be stored either."""
        self.changed = changed
        """Whether the policies have found or edited anything, so that hooks saw more than is stored."""

    @classmethod
    def from_record(cls, record: CallRecord) -> "RedactionEffects | None":
        """Return the state for a call, or None if no redaction policy has seen it."""
        tallies = [tally for tally in record.hooks.values() if tally.type == "builtin:redact"]
        if not tallies:
            return None
        return cls(
            restored=record.call_state is not None and bool(record.call_state.client_filters),
            found=any(tally.event == AfterModel.name and tally.findings for tally in tallies),
            changed=any(tally.findings or tally.edits for tally in tallies),
        )


Make = Callable[[CallContent, RedactionEffects | None], JsonObject]


def _redacted(redaction: Redaction, route: Route, name: str, value: Any) -> Any:
    """Return a stored field with credentials and personal data masked."""
    if name == "earlier":
        return [_redacted_answer(redaction, answer) for answer in value]
    if not isinstance(value, dict):
        return redaction.value(value)
    if name in ("answer", "given"):
        return _redacted_answer(redaction, value)
    if route.dialect == "generate_content":
        return redacted_request(redaction, value)
    if route.dialect == "code_assist" and isinstance(inner := value.get("request"), dict):
        outer: JsonObject = redacted_fields(redaction, value, "other", {"request": handled_by_caller})
        return {**outer, "request": redacted_request(redaction, inner)}
    return _redacted_in_dialect(redaction, route, value)


def _redacted_in_dialect(redaction: Redaction, route: Route, body: JsonObject) -> Any:
    """Return a request of a dialect that is shown as one of generateContent, with its content masked."""
    adapter = ADAPTERS[route.dialect]()
    try:
        model, inner = decode_request_body(adapter, route, body)
        return adapter.encode_request(body, model, redacted_request(redaction, inner))
    except ApiError:  # no hook has judged it either
        return _NOT_READ


def _redacted_answer(redaction: Redaction, answer: JsonObject) -> Any:
    if "unreadable" in answer:
        return _NOT_READ
    try:
        check_response(answer)
    except BodyError:  # hooks have not judged it, so it may have any form
        return redaction.value(answer)
    [(_, redacted)] = AnswerScreen(redaction).feed([answer], last=True)
    return redacted


def _start(content: CallContent, effects: RedactionEffects | None) -> JsonObject:
    return {"request": content.upstream_request if effects else content.request}


def _end(content: CallContent, effects: RedactionEffects | None) -> JsonObject:
    request = _start(content, effects) if content.request_awaited else {}
    return {**request, **_outcome(content, effects)}


def _outcome(content: CallContent, effects: RedactionEffects | None) -> JsonObject:
    answer, given = _joined(content.answer, content.route), _joined(content.client_answer, content.route)
    earlier = [_joined(kept, content.route) for kept in content.earlier]
    attempts = {"earlier": earlier} if earlier and not (effects and effects.found) else {}
    if effects:
        shown = given if not effects.restored else _LEFT_OUT if effects.found else answer
        stored: JsonObject = {"sent": None, "answer": shown, "given": None, "edits": []}
        return {**stored, **attempts, "blocked": content.blocked}
    return {
        **attempts,
        "sent": None if content.upstream_request == content.request else content.upstream_request,
        "answer": answer,
        "given": None if given == answer else given,
        "edits": content.edits,
        "blocked": content.blocked,
    }


def _event(content: CallContent, effects: RedactionEffects | None) -> JsonObject:
    shown = None if effects else content.request
    return {"input": shown, "output": content.upstream_request, "blocked": content.blocked}


def _joined(kept: KeptBytes, route: Route) -> Any:
    """Return an answer as one document, or None if there was none."""
    if kept.too_large:
        return {"left_out": "it was too large"}
    data = bytes(kept.data)
    if not data.strip():
        return None
    try:
        events = _events(data, route)
        return join_events(events) if events else None
    except (BodyError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return {"unreadable": data.decode(errors="replace")}


def _events(data: bytes, route: Route) -> list[Any]:
    adapter = ADAPTERS[route.dialect]()
    framing = adapter.framing_for(route)
    if framing is None or data.lstrip().startswith(b"{"):  # an error before a stream starts has no framing
        body = loads(data)
        return [body if body.keys() == {"error"} else adapter.decode_answer(body)]
    frames = [*framing.feed(data), *framing.finish()]
    return [adapter.decode_answer(loads(frame.data)) for frame in frames if frame.data.strip()]
