"""The outgoing events of an answer. They are released in order, as far as their texts are decided.

The undecided rest of an event's text is moved to the beginning of the next event, or sent as an event of its
own. An event with more than text, such as a call or the answer's end, is held back until all its texts, and
all before them, are decided.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hookgate.translator.fields import JsonObject, read, read_list, read_object, same_items, write


class PartPlace(NamedTuple):
    """The place of a text: the event, and the indexes of candidate, part, and piece of arguments."""

    event: int
    candidate: int
    part: int
    piece: int = -1


Thread = tuple[int, str]
"""A candidate's index, and one of its texts: `text`, `thought`, or a path in the arguments of its call."""


@dataclass(slots=True)
class Leaving:
    """One outgoing event."""

    number: int
    came: JsonObject
    body: JsonObject
    """The event with everything redacted but its texts."""
    threads: dict[PartPlace, Thread] = field(default_factory=dict)
    """The places of its texts, and the threads that they belong to."""
    plain: bool = True
    """Whether it contains only text, so that it may be released in pieces."""
    begun: bool = False
    """Whether a piece of it has been released."""
    left: list[list[tuple[PartPlace, JsonObject]]] = field(default_factory=list)
    """By candidate, the parts that have not been released."""

    def complete(self, candidates: list[JsonObject]) -> None:
        """Set the candidates, with everything redacted but their texts."""
        came = read_list(self.came, "candidates")
        if not same_items(candidates, came):
            self.body = write(self.body, "candidates", candidates)
        self.plain = self.plain and bool(self.threads)
        self.left = [
            [
                (PartPlace(self.number, position, number), part)
                for number, part in enumerate(_parts(candidate))
            ]
            for position, candidate in enumerate(candidates)
        ]


class Outbox:
    """The events that have not been released."""

    def __init__(self, waits: Callable[[PartPlace, Thread], bool]) -> None:
        """`waits` returns whether some of the text at a place is undecided."""
        self._undecided = waits
        self._threads: dict[PartPlace, Thread] = {}
        self._texts: dict[PartPlace, str] = {}  # decided and not released
        self._events: deque[Leaving] = deque()
        self._count = 0

    def begin(self, came: JsonObject, body: JsonObject) -> Leaving:
        """Add an event, which has to be completed. `body` has everything redacted but its candidates."""
        event = Leaving(self._count, came, body)
        self._count += 1
        self._events.append(event)
        return event

    def note(self, event: Leaving, place: PartPlace, thread: Thread) -> None:
        """Register that an event has a text at this place."""
        event.threads[place] = self._threads[place] = thread

    def put(self, place: PartPlace, text: str) -> None:
        """Append decided text at a place."""
        self._texts[place] = self._texts.get(place, "") + text

    def released(self) -> list[tuple[int, JsonObject]]:
        """Return the events that can be released now, by number."""
        out: list[tuple[int, JsonObject]] = []
        while self._events:
            event = self._events[0]
            waits = any(self._waits(place) for place in event.threads)
            if waits and not event.plain:
                break
            if not waits:
                self._events.popleft()
            if waits or not (event.begun and self._move_to_next(event)):
                body = self._body(event)
                if not (event.plain and _is_empty(body)) or body is event.came:
                    out.append((event.number, body))
                    event.begun = True
            if waits:
                break
            for place in event.threads:
                del self._threads[place]
        return out

    def _waits(self, place: PartPlace) -> bool:
        return self._undecided(place, self._threads[place])

    def _move_to_next(self, event: Leaving) -> bool:
        """Move the rest of an event to the beginning of the next one, if it continues the same texts."""
        first_texts = _first_texts(self._events[0]) if self._events else {}
        rests = [left for left in event.left if left]
        if not all(len(left) == 1 and _is_bare(left[0][1]) for left in rests):
            return False
        if not all(self._threads[left[0][0]] in first_texts for left in rests):
            return False
        for [(place, _)] in rests:
            target = first_texts[self._threads[place]]
            self._texts[target] = self._texts.pop(place, "") + self._texts.get(target, "")
        return True

    def _body(self, event: Leaving) -> JsonObject:
        """Return the event with the parts that can be released: all up to the first undecided text."""
        candidates = read_list(event.body, "candidates")
        new = []
        for candidate, left in zip(candidates, event.left, strict=True):
            content = read_object(candidate, "content")
            parts, released = read_list(content, "parts"), self._take_released(left)
            unchanged = same_items(released, parts)
            new.append(
                candidate if unchanged else write(candidate, "content", write(content, "parts", released))
            )
        unchanged = same_items(new, candidates)
        return event.body if unchanged else write(event.body, "candidates", new)

    def _take_released(self, left: list[tuple[PartPlace, JsonObject]]) -> list[JsonObject]:
        """Remove and return the parts that can be released, with their texts."""
        released = []
        while left:
            place, part = left.pop(0)
            part = self._arguments(place, part)
            if place not in self._threads:
                released.append(part)
                continue
            text, waits = self._texts.pop(place, ""), self._waits(place)
            if text == part["text"] and not waits:
                released.append(part)
            elif text or not (waits or _is_bare(part)):
                released.append({**part, "text": text})
            if waits:  # the part's other fields were released with its first piece
                bare: JsonObject = {key: part[key] for key in ("text", "thought") if key in part}
                left.insert(0, (place, bare if text else part))
                break
        return released

    def _arguments(self, place: PartPlace, part: JsonObject) -> JsonObject:
        call = read_object(part, "functionCall")
        pieces = read_list(call, "partialArgs")
        new: list[Any] = []
        for number, piece in enumerate(pieces):
            here = place._replace(piece=number)
            text = self._texts.pop(here, "") if here in self._threads else None
            same = text is None or text == read(piece, "stringValue")
            new.append(piece if same else write(piece, "stringValue", text))
        if same_items(new, pieces):
            return part
        return write(part, "functionCall", write(call, "partialArgs", new))


def _first_texts(event: Leaving) -> dict[Thread, PartPlace]:
    """Return the places of the texts that the candidates of an event begin with."""
    places = (left[0][0] for left in event.left if left)
    return {event.threads[place]: place for place in places if place in event.threads}


def _parts(candidate: JsonObject) -> list[JsonObject]:
    return read_list(read_object(candidate, "content"), "parts")


def _is_bare(part: JsonObject) -> bool:
    """Return whether a part contains only text or a thought, without a signature or a call."""
    return len(part) == 1 + ("thought" in part)


def _is_empty(body: JsonObject) -> bool:
    """Return whether no candidate has content."""
    return not any(
        part.get("text") or not _is_bare(part)
        for candidate in read_list(body, "candidates")
        for part in _parts(candidate)
    )
