"""Events of a stream as one response, for who should read them together; an edit of it cut into events again.

    joined = join_events(events)
    events = cut_events(events, joined, apply_response(joined, edit))

What belongs to single events (signatures, calls, unknown fields) stays in the event that it came in: the
joined response is for reading and editing, and is never sent.
"""

from collections.abc import Callable, Sequence

from hookgate.translator.fields import JsonObject, read, read_list, read_object, write
from hookgate.translator.joining import Strand, cut_texts, join_texts
from hookgate.translator.texts import is_text


def join_events(events: Sequence[JsonObject]) -> JsonObject:
    """One response with all parts of all events; of a field that several have, the last counts.

    All that a candidate speaks is one text, and all that it thinks, whatever came in between: no word shall
    hide in two parts. One event alone is itself.
    """
    if len(events) == 1:
        return events[0]
    joined: JsonObject = {}
    candidates: dict[int, JsonObject] = {}
    for event in events:
        joined.update(event)
        for index, candidate in _candidates(event):
            candidates[index] = _continued(candidates.get(index, {}), candidate)
    return {**joined, "candidates": list(candidates.values())} if candidates else joined


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
        cut[-1] = write(cut[-1], "candidates", [*read_list(cut[-1], "candidates"), after])
        return
    at = _last(cut, lambda event: index in dict(_candidates(event)))
    fields = {key: value for key, value in after.items() if key != "content" and value is not before.get(key)}
    found = dict(_candidates(cut[at]))
    new = {**found[index], **fields}
    if added:  # text where the candidate had none
        content = read_object(new, "content")
        parts = [*read_list(content, "parts"), *({"text": text} for text in added)]
        new = write(new, "content", write(content, "parts", parts))
    if fields or added:
        cut[at] = write(cut[at], "candidates", list({**found, index: new}.values()))


def _candidates(event: JsonObject) -> list[tuple[int, JsonObject]]:
    """The candidates by index; one without has that of its place."""
    found = []
    for position, candidate in enumerate(read_list(event, "candidates")):
        index = read(candidate, "index")
        found.append((position if index is None else index, candidate))
    return found


def _strands(index: int) -> tuple[Strand, Strand]:
    return Strand(index, thought=True), Strand(index, thought=False)


def _continued(before: JsonObject, candidate: JsonObject) -> JsonObject:
    content = read_object(candidate, "content")
    if not content:
        return {**before, **candidate, **({"content": before["content"]} if "content" in before else {})}
    earlier = read_object(before, "content")
    parts = list(read_list(earlier, "parts"))
    for part in read_list(content, "parts"):
        at = next((at for at, known in enumerate(parts) if _continues(known, part)), None)
        if at is None:
            parts.append(part)
        else:
            parts[at] = {**parts[at], "text": parts[at]["text"] + part["text"]}
    return {**before, **candidate, "content": {**earlier, **content, "parts": parts}}


def _continues(before: JsonObject, part: JsonObject) -> bool:
    """Whether both are texts of one strand."""
    return is_text(before) and is_text(part) and bool(before.get("thought")) is bool(part.get("thought"))


def _last(events: Sequence[JsonObject], has: Callable[[JsonObject], bool]) -> int:
    """The place of the last event that has something; the last of all when none does."""
    return next((at for at in reversed(range(len(events))) if has(events[at])), len(events) - 1)
