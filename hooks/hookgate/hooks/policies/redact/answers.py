"""A model's answer redacted as it streams: each event goes on as far as its text is decided.

The rest of an event's text goes on at the head of the next one's, or as an event of its own. An event that
holds more than text (a call, the answer's end) waits until all that it holds, and all before it, is decided.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hookgate.hooks.policies.redact.redaction import Redaction
from hookgate.hooks.policies.redact.requests import redacted_part
from hookgate.hooks.policies.redact.strands import Strand
from hookgate.translator.fields import JsonObject, read, read_list, read_object, without, write
from hookgate.translator.texts import is_text


class Place(NamedTuple):
    """Where a text stands: which event, which of its candidates, which part, which piece of arguments."""

    event: int
    candidate: int
    part: int
    piece: int = -1


Thread = tuple[int, str]
"""A candidate's index, and what of it: `text`, `thought`, or a path in the arguments of its call."""


@dataclass(slots=True)
class _Event:
    """One event that is under way."""

    number: int
    body: JsonObject
    """With all that is no text decided."""
    came: JsonObject
    threads: dict[Place, Thread] = field(default_factory=dict)
    plain: bool = True
    """Whether it holds text alone, and may go on in pieces."""
    begun: bool = False
    """Whether a piece of it has gone on."""
    left: list[list[tuple[Place, JsonObject]]] = field(default_factory=list)
    """By candidate, the parts that have not gone on."""


class AnswerScreen:
    """One answer before a redaction. A Screen."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._strands: dict[Thread, Strand[Place]] = {}
        self._threads: dict[Place, Thread] = {}
        self._texts: dict[Place, str] = {}  # what is decided and has not gone on
        self._events: deque[_Event] = deque()
        self._count = 0

    @property
    def slow(self) -> bool:
        return self._redaction.slow

    def judge(self, events: Sequence[JsonObject], *, last: bool) -> list[tuple[int, JsonObject]]:
        for event in events:
            self._take(event)
        if last:
            self._finish(list(self._strands))
        return self._released()

    def told(self) -> JsonObject:
        found = {kind: count for kind, count in self._redaction.findings.items() if count}
        if not found:
            return {}
        return {"hookSpecificOutput": {"redacted": True, "findings": found, "llm_response": {"raw": {}}}}

    # ---- what comes

    def _take(self, body: JsonObject) -> None:
        event = _Event(self._count, body, body)
        self._count += 1
        self._events.append(event)
        candidates = read_list(body, "candidates")
        new = [self._candidate(event, at, candidate) for at, candidate in enumerate(candidates)]
        if any(a is not b for a, b in zip(new, candidates, strict=True)):
            event.body = write(body, "candidates", new)
        event.plain = event.plain and bool(event.threads)
        event.left = [
            [(Place(event.number, at, number), part) for number, part in enumerate(_parts(candidate))]
            for at, candidate in enumerate(new)
        ]

    def _candidate(self, event: _Event, at: int, candidate: JsonObject) -> JsonObject:
        index = read(candidate, "index")
        index = at if index is None else index
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        new = [self._part(event, Place(event.number, at, k), index, part) for k, part in enumerate(parts)]
        if any(a is not b for a, b in zip(new, parts, strict=True)):
            candidate = write(candidate, "content", write(content, "parts", new))
        if read(candidate, "finishReason") is not None:
            event.plain = False
            self._finish([thread for thread in self._strands if thread[0] == index])
        return self._besides(candidate)

    def _part(self, event: _Event, place: Place, index: int, part: JsonObject) -> JsonObject:
        if is_text(part):
            thinks = bool(part.get("thought"))
            if ("thoughts" if thinks else "answers") in self._redaction.scopes:
                self._feed(event, place, (index, "thought" if thinks else "text"), part["text"])
            return part
        event.plain = False
        call = read_object(part, "functionCall")
        if call and "tool_arguments" in self._redaction.scopes:
            for number, piece in enumerate(read_list(call, "partialArgs")):
                value = read(piece, "stringValue")
                if isinstance(value, str):
                    path = f"args {read(piece, 'jsonPath')}"
                    self._feed(event, place._replace(piece=number), (index, path), value)
            if not read(call, "willContinue"):
                self._finish([each for each in self._strands if each[0] == index and _is_argument(each)])
        return redacted_part(self._redaction, part, "answers")

    def _besides(self, candidate: JsonObject) -> JsonObject:
        """What repeats the text beside it: sources are redacted, probabilities of its tokens are left out."""
        if "answers" not in self._redaction.scopes:
            return candidate
        candidate = without(candidate, "logprobsResult")
        grounding = read(candidate, "groundingMetadata")
        new = self._redaction.value(grounding)
        return candidate if new is grounding else write(candidate, "groundingMetadata", new)

    def _feed(self, event: _Event, place: Place, thread: Thread, text: str) -> None:
        if thread not in self._strands:
            self._strands[thread] = self._redaction.strand(self._put)
        event.threads[place] = self._threads[place] = thread
        self._strands[thread].feed(place, text)

    def _put(self, place: Place, text: str) -> None:
        self._texts[place] = self._texts.get(place, "") + text

    def _finish(self, threads: Sequence[Thread]) -> None:
        for thread in threads:
            self._strands.pop(thread).finish()

    # ---- what goes on

    def _released(self) -> list[tuple[int, JsonObject]]:
        out: list[tuple[int, JsonObject]] = []
        while self._events:
            event = self._events[0]
            waits = any(self._waits(place) for place in event.threads)
            if waits and not event.plain:
                break
            if not waits:
                self._events.popleft()
            if waits or not (event.begun and self._joined(event)):
                body = self._body(event)
                if not (event.plain and _is_empty(body)) or body is event.came:
                    out.append((event.number, body))
                    event.begun = True
            if waits:
                break
            for place in event.threads:
                del self._threads[place]
        return out

    def _waits(self, place: Place) -> bool:
        strand = self._strands.get(self._threads[place])
        return strand is not None and strand.waits(place)

    def _joined(self, event: _Event) -> bool:
        """Put what is left of an event at the head of the next one, if it is text that goes on there."""
        heads = _heads(self._events[0]) if self._events else {}
        lefts = [left for left in event.left if left]
        if not all(len(left) == 1 and self._threads[left[0][0]] in heads for left in lefts):
            return False
        for [(place, _)] in lefts:
            target = heads[self._threads[place]]
            self._texts[target] = self._texts.pop(place, "") + self._texts.get(target, "")
        return True

    def _body(self, event: _Event) -> JsonObject:
        """The event with what may go on of it: all up to the first text that is not decided."""
        candidates = read_list(event.body, "candidates")
        new = []
        for candidate, left in zip(candidates, event.left, strict=True):
            content = read_object(candidate, "content")
            parts, gone = read_list(content, "parts"), self._gone(left)
            unchanged = len(gone) == len(parts) and all(a is b for a, b in zip(gone, parts, strict=True))
            new.append(candidate if unchanged else write(candidate, "content", write(content, "parts", gone)))
        unchanged = all(a is b for a, b in zip(new, candidates, strict=True))
        return event.body if unchanged else write(event.body, "candidates", new)

    def _gone(self, left: list[tuple[Place, JsonObject]]) -> list[JsonObject]:
        """Take the parts that may go on, with their texts."""
        gone = []
        while left:
            place, part = left.pop(0)
            if place not in self._threads:
                gone.append(self._arguments(place, part))
                continue
            text, waits = self._texts.pop(place, ""), self._waits(place)
            if text == part["text"] and not waits:
                gone.append(part)
            elif text or (not waits and len(part) > 1 + ("thought" in part)):
                gone.append({**part, "text": text})
            if waits:  # what else the part carries went with its first piece
                bare: JsonObject = {key: part[key] for key in ("text", "thought") if key in part}
                left.insert(0, (place, bare if text else part))
                break
        return gone

    def _arguments(self, place: Place, part: JsonObject) -> JsonObject:
        call = read_object(part, "functionCall")
        pieces = read_list(call, "partialArgs")
        new: list[Any] = []
        for number, piece in enumerate(pieces):
            here = place._replace(piece=number)
            text = self._texts.pop(here, "") if here in self._threads else None
            same = text is None or text == read(piece, "stringValue")
            new.append(piece if same else write(piece, "stringValue", text))
        if all(a is b for a, b in zip(new, pieces, strict=True)):
            return part
        return write(part, "functionCall", write(call, "partialArgs", new))


def _is_argument(thread: Thread) -> bool:
    return thread[1].startswith("args ")


def _heads(event: _Event) -> dict[Thread, Place]:
    """The text that each candidate of an event begins with, and its place."""
    begins = (left[0][0] for left in event.left if left)
    return {event.threads[place]: place for place in begins if place in event.threads}


def _parts(candidate: JsonObject) -> list[JsonObject]:
    return read_list(read_object(candidate, "content"), "parts")


def _is_empty(body: JsonObject) -> bool:
    """Whether no candidate says anything."""
    return not any(
        part.get("text") or len(part) > 1 + ("thought" in part)
        for candidate in read_list(body, "candidates")
        for part in _parts(candidate)
    )
