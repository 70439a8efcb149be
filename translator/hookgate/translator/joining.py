"""Text joined across the events of a stream, and cut again.

What a model says arrives in pieces, and a word may be split over two events. Joined, it reads as a hook or a
redactor should see it; cut again, each event keeps the text that was not changed, and all else it holds.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookgate.translator.fields import JsonObject, indexes, read_list, read_object, write
from hookgate.translator.spreading import respread
from hookgate.translator.texts import is_text, texts_of, with_texts


class Strand(NamedTuple):
    """One thread of text in a stream: a candidate by its index, and whether it thinks or speaks."""

    candidate: int
    thought: bool


class _Place(NamedTuple):
    """Where a piece stands: which event, which of its candidates, which of that one's text parts."""

    event: int
    candidate: int
    text: int


def join_texts(events: Sequence[JsonObject]) -> dict[Strand, str]:
    """The whole text of each strand, over the events in order."""
    return {strand: "".join(pieces.values()) for strand, pieces in _strands(events).items()}


def cut_texts(events: Sequence[JsonObject], texts: Mapping[Strand, str]) -> list[JsonObject]:
    """The events after an edit of their joined texts; an event whose pieces are unchanged is the same object.

    The pieces of each strand join to the edited text exactly. Strands that `texts` leaves out stay as they
    are; one that the events do not have is a KeyError.
    """
    strands = _strands(events)
    pieces: dict[_Place, str] = {}
    for strand, text in texts.items():
        old = strands[strand]
        cut = zip(old.items(), respread([*old.values()], text), strict=True)
        pieces |= {place: new for (place, was), new in cut if was != new}
    touched = {place.event for place in pieces}
    return [_edited(event, i, pieces) if i in touched else event for i, event in enumerate(events)]


def _strands(events: Sequence[JsonObject]) -> dict[Strand, dict[_Place, str]]:
    """The pieces of each strand by their places, in the order in which its text comes."""
    found: dict[Strand, dict[_Place, str]] = {}
    for number, event in enumerate(events):
        candidates = read_list(event, "candidates")
        for position, (index, candidate) in enumerate(zip(indexes(candidates), candidates, strict=True)):
            parts = read_list(read_object(candidate, "content"), "parts")
            for text, part in enumerate(filter(is_text, parts)):
                strand = Strand(index, bool(part.get("thought")))
                found.setdefault(strand, {})[_Place(number, position, text)] = part["text"]
    return found


def _texts(event: JsonObject, candidate: int) -> list[str]:
    return texts_of(read_object(read_list(event, "candidates")[candidate], "content"))


def _edited(event: JsonObject, number: int, pieces: Mapping[_Place, str]) -> JsonObject:
    candidates = []
    for position, candidate in enumerate(read_list(event, "candidates")):
        old = _texts(event, position)
        new = [pieces.get(_Place(number, position, text), was) for text, was in enumerate(old)]
        content = read_object(candidate, "content")
        candidates.append(candidate if new == old else write(candidate, "content", with_texts(content, new)))
    return write(event, "candidates", candidates)
