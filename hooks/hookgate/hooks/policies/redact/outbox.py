"""The events of an answer on their way out: as far as their texts are decided, none overtaking another.

The rest of an event's text goes on at the head of the next one's, or as an event of its own. An event that
holds more than text (a call, the answer's end) waits until all that it holds, and all before it, is decided.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hookgate.translator.fields import JsonObject, read, read_list, read_object, write


class Place(NamedTuple):
    """Where a text stands: which event, which of its candidates, which part, which piece of arguments."""

    event: int
    candidate: int
    part: int
    piece: int = -1


Thread = tuple[int, str]
"""A candidate's index, and what of it: `text`, `thought`, or a path in the arguments of its call."""


@dataclass(slots=True)
class Leaving:
    """One event on its way."""

    number: int
    came: JsonObject
    body: JsonObject
    """With all that is no text decided."""
    threads: dict[Place, Thread] = field(default_factory=dict)
    """Where its texts stand, and which threads they belong to."""
    plain: bool = True
    """Whether it holds text alone, and may go on in pieces."""
    begun: bool = False
    """Whether a piece of it has gone on."""
    left: list[list[tuple[Place, JsonObject]]] = field(default_factory=list)
    """By candidate, the parts that have not gone on."""

    def complete(self, candidates: list[JsonObject]) -> None:
        """All that is no text is decided, and it stands in these candidates."""
        came = read_list(self.came, "candidates")
        if any(a is not b for a, b in zip(candidates, came, strict=True)):
            self.body = write(self.body, "candidates", candidates)
        self.plain = self.plain and bool(self.threads)
        self.left = [
            [(Place(self.number, at, number), part) for number, part in enumerate(_parts(candidate))]
            for at, candidate in enumerate(candidates)
        ]


class Outbox:
    """The events that have come and have not gone on."""

    def __init__(self, waits: Callable[[Place, Thread], bool]) -> None:
        """`waits` tells whether some of the text at a place is undecided."""
        self._undecided = waits
        self._threads: dict[Place, Thread] = {}
        self._texts: dict[Place, str] = {}  # what is decided and has not gone on
        self._events: deque[Leaving] = deque()
        self._count = 0

    def begin(self, came: JsonObject, body: JsonObject) -> Leaving:
        """The next event, to be completed; `body` is what it is with all beside its candidates decided."""
        event = Leaving(self._count, came, body)
        self._count += 1
        self._events.append(event)
        return event

    def note(self, event: Leaving, place: Place, thread: Thread) -> None:
        """At this place of an event stands a text."""
        event.threads[place] = self._threads[place] = thread

    def put(self, place: Place, text: str) -> None:
        """So much more of the text at a place is decided."""
        self._texts[place] = self._texts.get(place, "") + text

    def released(self) -> list[tuple[int, JsonObject]]:
        """What may go on now: numbers of events, and what they have become."""
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
        return self._undecided(place, self._threads[place])

    def _joined(self, event: Leaving) -> bool:
        """Put what is left of an event at the head of the next one, if it is text that goes on there."""
        heads = _heads(self._events[0]) if self._events else {}
        lefts = [left for left in event.left if left]
        if not all(len(left) == 1 and _is_bare(left[0][1]) for left in lefts):
            return False
        if not all(self._threads[left[0][0]] in heads for left in lefts):
            return False
        for [(place, _)] in lefts:
            target = heads[self._threads[place]]
            self._texts[target] = self._texts.pop(place, "") + self._texts.get(target, "")
        return True

    def _body(self, event: Leaving) -> JsonObject:
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
            part = self._arguments(place, part)
            if place not in self._threads:
                gone.append(part)
                continue
            text, waits = self._texts.pop(place, ""), self._waits(place)
            if text == part["text"] and not waits:
                gone.append(part)
            elif text or not (waits or _is_bare(part)):
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


def _heads(event: Leaving) -> dict[Thread, Place]:
    """The text that each candidate of an event begins with, and its place."""
    begins = (left[0][0] for left in event.left if left)
    return {event.threads[place]: place for place in begins if place in event.threads}


def _parts(candidate: JsonObject) -> list[JsonObject]:
    return read_list(read_object(candidate, "content"), "parts")


def _is_bare(part: JsonObject) -> bool:
    """Whether a part holds nothing but its text, thought or not: no signature, no call."""
    return len(part) == 1 + ("thought" in part)


def _is_empty(body: JsonObject) -> bool:
    """Whether no candidate says anything."""
    return not any(
        part.get("text") or not _is_bare(part)
        for candidate in read_list(body, "candidates")
        for part in _parts(candidate)
    )
