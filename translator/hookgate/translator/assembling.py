"""Events of a stream as one response, for who should read them together; an edit of it cut into events again.

    joined = join_events(events)
    events = cut_events(events, joined, apply_response(joined, edit))

What belongs to single events (signatures, calls, unknown fields) stays in the event that it came in: the
joined response is for reading and editing, and is never sent.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hookgate.translator.fields import JsonObject, indexes, read_list, read_object, write
from hookgate.translator.joining import Strand, cut_texts, join_texts
from hookgate.translator.texts import is_text


def join_events(events: Sequence[JsonObject]) -> JsonObject:
    """One response with all parts of all events; of a field that several have, the last counts.

    All that a candidate speaks is one text, and all that it thinks, whatever came in between: no word shall
    hide in two parts. Each candidate has its index, since its place may be another than in its events. One
    event alone is itself.
    """
    if len(events) == 1:
        return events[0]
    joined: JsonObject = {}
    candidates: dict[int, _Joined] = {}
    for event in events:
        joined.update(event)
        for index, candidate in _candidates(event):
            candidates.setdefault(index, _Joined()).add(candidate)
    if not candidates:
        return joined
    return {**joined, "candidates": [each.whole(index) for index, each in candidates.items()]}


def cut_events(events: Sequence[JsonObject], joined: JsonObject, edited: JsonObject) -> list[JsonObject]:
    """The events after `joined`, which `join_events` made of them, was edited.

    Each text goes back to the events it came from; what else was edited goes to the last event that has it.
    An event that nothing changes is the very object.
    """
    if edited is joined:
        return list(events)
    if len(events) == 1:
        return [edited]
    was, now = join_texts([joined]), join_texts([edited])
    changed = {strand: now.get(strand, "") for strand, text in was.items() if now.get(strand, "") != text}
    cut = cut_texts(events, changed)
    for key, value in edited.items():
        if key != "candidates" and value is not joined.get(key):
            at = _last(cut, lambda event, key=key: key in event)  # type: ignore[misc]  # bound at once
            cut[at] = {**cut[at], key: value}
    before = dict(_candidates(joined))
    for index, candidate in _candidates(edited):
        if candidate is not before.get(index):
            added = [now[strand] for strand in _strands(index) if strand in now and strand not in was]
            _cut_candidate(cut, index, before.get(index), candidate, added)
    return cut


def _cut_candidate(
    cut: list[JsonObject], index: int, before: JsonObject | None, after: JsonObject, added: Sequence[str]
) -> None:
    """Put what an edit changed of a candidate, its known texts aside, into the last event that has it."""
    if before is None:
        new = {**after, "index": index}  # its place there may be another than in the joined response
        cut[-1] = write(cut[-1], "candidates", [*read_list(cut[-1], "candidates"), new])
        return
    at = _last(cut, lambda event: index in dict(_candidates(event)))
    fields = {key: value for key, value in after.items() if key != "content" and value is not before.get(key)}
    found = dict(_candidates(cut[at]))[index]
    new = {**found, **fields}
    if added:  # text where the candidate had none
        content = read_object(new, "content")
        parts = [*read_list(content, "parts"), *({"text": text} for text in added)]
        new = write(new, "content", write(content, "parts", parts))
    if fields or added:
        listed = [new if each is found else each for each in read_list(cut[at], "candidates")]
        cut[at] = write(cut[at], "candidates", listed)


def _candidates(event: JsonObject) -> list[tuple[int, JsonObject]]:
    """The candidates by index."""
    candidates = read_list(event, "candidates")
    return list(zip(indexes(candidates), candidates, strict=True))


def _strands(index: int) -> tuple[Strand, Strand]:
    return Strand(index, thought=True), Strand(index, thought=False)


class _Joined:
    """One candidate as its events tell it, piece by piece."""

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._content: JsonObject = {}
        self._parts: list[Any] = []
        self._texts: dict[bool, tuple[int, list[str]]] = {}  # by thought: place among the parts, pieces

    def add(self, candidate: JsonObject) -> None:
        content = read_object(candidate, "content")
        self._fields.update(candidate)
        self._content.update(content)
        for part in read_list(content, "parts"):
            if not is_text(part):
                self._parts.append(part)
                continue
            thought = bool(part.get("thought"))
            if thought not in self._texts:
                self._texts[thought] = len(self._parts), []
                self._parts.append(part)
            self._texts[thought][1].append(part["text"])

    def whole(self, index: int) -> JsonObject:
        parts = list(self._parts)
        for at, pieces in self._texts.values():
            parts[at] = {**parts[at], "text": "".join(pieces)}
        content = {"content": {**self._content, "parts": parts}} if self._content else {}
        return {**self._fields, **content, "index": index}


def _last(events: Sequence[JsonObject], has: Callable[[JsonObject], bool]) -> int:
    """The place of the last event that has something; the last of all when none does."""
    return next((at for at in reversed(range(len(events))) if has(events[at])), len(events) - 1)
