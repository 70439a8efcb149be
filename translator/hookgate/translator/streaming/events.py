"""Joins the events of a stream into one response, splits it again, and filters the function calls."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hookgate.translator.fields import (
    EARLIER,
    BodyError,
    JsonObject,
    indexes,
    is_text,
    parts_of,
    read,
    read_list,
    read_object,
    same,
    same_items,
    strings_in,
    texts_of,
    with_texts,
    without,
    write,
)
from hookgate.translator.streaming.edits import respread


class TextChannel(NamedTuple):
    """One text in a stream: the answer or the thoughts of a candidate."""

    candidate: int
    thought: bool


class _Place(NamedTuple):
    """The position of a piece of text: its event, candidate and text part."""

    event: int
    candidate: int
    text: int


_ANSWER = TextChannel(0, thought=False)


def join_texts(events: Sequence[JsonObject]) -> dict[TextChannel, str]:
    """Return the whole text of each channel of the events."""
    if len(events) == 1 and (text := only_text(events[0])) is not None:  # as nearly always
        return {_ANSWER: text}
    return {channel: "".join(pieces.values()) for channel, pieces in _pieces_by_channel(events).items()}


def cut_texts(events: Sequence[JsonObject], texts: Mapping[TextChannel, str]) -> list[JsonObject]:
    """Return the events with edited texts. An event whose pieces are unchanged is the same object.

    The pieces of each channel join to the edited text exactly. Channels that are not in `texts` are
    unchanged. Raises KeyError for a channel that the events do not have.
    """
    channels = _pieces_by_channel(events)
    pieces: dict[_Place, str] = {}
    for channel, text in texts.items():
        old = channels[channel]
        cut = zip(old.items(), respread([*old.values()], text), strict=True)
        pieces |= {place: new for (place, was), new in cut if was != new}
    touched = {place.event for place in pieces}
    return [_edited(event, i, pieces) if i in touched else event for i, event in enumerate(events)]


def _pieces_by_channel(events: Sequence[JsonObject]) -> dict[TextChannel, dict[_Place, str]]:
    """Return the pieces of each channel by their places, in the order of the text."""
    found: dict[TextChannel, dict[_Place, str]] = {}
    for number, event in enumerate(events):
        candidates = read_list(event, "candidates")
        for position, (index, candidate) in enumerate(zip(indexes(candidates), candidates, strict=True)):
            for text, part in enumerate(filter(is_text, parts_of(candidate))):
                channel = TextChannel(index, bool(part.get("thought")))
                found.setdefault(channel, {})[_Place(number, position, text)] = part["text"]
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


_USAGE = "usageMetadata"
_TELL_APART = frozenset({"event_id", "event_type", "sequence_number", "type"})
"""Fields that tell the events of a stream apart."""

_NAME = re.compile(r"[A-Za-z0-9._:/+=-]{1,64}")
"""Matches a name or an ID."""

_ITEM = "item"
"""The field with an item of a response, in the event with which it begins, or ends."""


_SHOWN = frozenset({str, dict, list})
"""The types of values that clients may show."""


def _replaced_fields(before: JsonObject, after: JsonObject, unshown: Collection[str]) -> JsonObject:
    """Return the fields with text, objects or lists that others replace. The `unshown` ones do not count."""
    replaced: JsonObject = {}
    for key, value in after.items():
        old = before.get(key)
        if old and type(old) in _SHOWN and key not in unshown and old is not value and old != value:
            replaced[key] = old
    return replaced


def _is_shown_by_last(key: str, old: Any, new: Any) -> bool:
    """Return whether the field of a later event shows all text that a reader may see in an earlier one."""
    if key == _USAGE:
        return _differs_in_counts(old, new) or set(strings_in(old)) <= set(strings_in(new))
    return key in _TELL_APART and isinstance(old, str) and _NAME.fullmatch(old) is not None


def _differs_in_counts(old: Any, new: Any) -> bool:
    """Return whether an object differs from another one in integers alone, as nearly all usage does."""
    if type(old) is not dict or type(new) is not dict:
        return False
    for key, value in old.items():
        if key not in new or (type(value) is not int and value != new[key]):
            return False
    return True


def join_events(events: Sequence[JsonObject]) -> JsonObject:
    """Return one response with all parts of all events.

    If several events have a field, the response has that of the last one. Other values are in `EARLIER`, each
    in an event without the rest, so that no event hides from hooks what clients are shown of another one. Of
    counts, names and IDs of events, only the last ones are shown.

    A candidate's answer becomes one text, and so do its thoughts, so that no word is split between two parts.
    Each candidate has an index, since its position may differ from that in the events. A single event is
    returned itself.
    """
    if len(events) == 1:
        return events[0]
    joined: JsonObject = {}
    candidates: dict[int, _Joined] = {}
    earlier: list[JsonObject] = []
    for event in events:
        lost = _replaced_fields(joined, event, ("candidates",))
        for key in [key for key, old in lost.items() if _is_shown_by_last(key, old, event[key])]:
            del lost[key]
        if _ITEM in joined and event.get("type") != joined.get("type"):
            lost[_ITEM] = joined.pop(_ITEM)  # the type says what becomes of it
        hidden = []
        for index, candidate in _candidates(event):
            if fields := candidates.setdefault(index, _Joined()).add(candidate):
                hidden.append({"index": index, **fields})
        if lost or hidden:
            kind = {key: joined[key] for key in ("type",) if key in joined}
            earlier.append({**kind, **lost, **({"candidates": hidden} if hidden else {})})
        joined.update(event)
    if earlier:
        own = [{EARLIER: joined[EARLIER]}] if EARLIER in joined else []
        joined[EARLIER] = own + earlier
    if not candidates:
        return joined
    return {**joined, "candidates": [each.whole(index) for index, each in candidates.items()]}


_KEPT = ("delta", "finishReason")
"""Fields of candidates that stay if a hook leaves them out: the role of a chat completion, and the end."""


def split_edit(events: Sequence[JsonObject], joined: JsonObject, edited: JsonObject) -> list[JsonObject]:
    """Return the events with the edits that turned `joined`, the result of `join_events`, into `edited`.

    Each text is distributed over the events that it came from. Another field is edited in each event in
    which it has the joined value; one that was removed is removed from all events. But if nothing besides
    the candidates is left, their fields alone were edited. A new one goes to the last event, or the last one
    that has the candidate. If parts other than texts were edited, or a candidate was removed, the last event
    has the whole edited response and the others have no candidates. An unchanged event is the same object.

    Raises BodyError if `EARLIER` was edited, which no event has.
    """
    if edited is joined:
        return list(events)
    if len(events) == 1:
        return [edited]
    if EARLIER in joined:
        if not same(edited.get(EARLIER, joined[EARLIER]), joined[EARLIER]):
            raise BodyError(EARLIER, "a hook's edit changed a field that a later event has, too")
        joined, edited = without(joined, EARLIER), without(edited, EARLIER)
    edits_candidates_alone = edited.keys() <= {"candidates"}
    edit = _Edit(joined, edited, ("candidates",), keeps=joined if edits_candidates_alone else _TELL_APART)
    if _changes_parts(joined, edited):
        return [*(edit.applied_to(without(event, "candidates")) for event in events[:-1]), edited]
    was, now = join_texts([joined]), join_texts([edited])
    changed = {channel: now.get(channel, "") for channel, text in was.items() if now.get(channel, "") != text}
    cut = [edit.applied_to(event) for event in cut_texts(events, changed)]
    cut[-1] = edit.with_new(cut[-1])
    before = dict(_candidates(joined))
    edits = {
        index: _Edit(before[index], candidate, ("content", "index"), keeps=_KEPT)
        for index, candidate in _candidates(edited)
        if index in before and candidate is not before[index]
    }
    cut = [_with_edits(event, edits) for event in cut]
    last = {index: at for at, event in enumerate(cut) for index, _ in _candidates(event)}
    for index, candidate in _candidates(edited):
        added = [now[channel] for channel in _both_channels(index) if channel in now and channel not in was]
        if index not in before:
            new = {**candidate, "index": index}  # its position may differ from that in the joined response
            cut[-1] = write(cut[-1], "candidates", [*read_list(cut[-1], "candidates"), new])
        elif index in edits and (edits[index].new or added):
            at = last[index]
            cut[at] = _with_new(cut[at], index, edits[index], added)
    return cut


class _Edit:
    """What a hook has edited in the fields of joined events, or of a candidate of them."""

    __slots__ = ("_after", "_before", "_changed", "new")

    def __init__(
        self, before: JsonObject, after: JsonObject, besides: Collection[str], *, keeps: Collection[str]
    ) -> None:
        """The fields in `besides` do not count. Those in `keeps`, which clients rely on, are not removed."""
        self._before, self._after = before, after
        self._changed = {
            key
            for key, value in before.items()
            if key not in besides and (key not in keeps if key not in after else not same(value, after[key]))
        }
        self.new = {key: value for key, value in after.items() if key not in before and key not in besides}

    def applied_to(self, event: JsonObject) -> JsonObject:
        """Return an event, or a candidate, with each field edited that has the joined value, or removed."""
        touched = {
            key
            for key in event
            if key in self._changed and (key not in self._after or same(event[key], self._before[key]))
        }
        if not touched:
            return event
        removed = {key for key in touched if key not in self._after}
        return {
            key: self._after[key] if key in touched else value
            for key, value in event.items()
            if key not in removed
        }

    def with_new(self, event: JsonObject) -> JsonObject:
        """Return an event, or a candidate, with the fields that the joined ones did not have."""
        return {**event, **self.new} if self.new else event


def _with_edits(event: JsonObject, edits: Mapping[int, _Edit]) -> JsonObject:
    """Return an event with the edits of its candidates."""
    numbered = _candidates(event)
    edited = [edits[index].applied_to(each) if index in edits else each for index, each in numbered]
    return event if same_items(edited, [each for _, each in numbered]) else write(event, "candidates", edited)


def _with_new(event: JsonObject, index: int, edit: _Edit, added: Sequence[str]) -> JsonObject:
    """Return an event whose candidate has new fields, and texts where it had none."""
    found = dict(_candidates(event))[index]
    new = edit.with_new(found)
    if added:
        content = read_object(new, "content")
        parts = [*read_list(content, "parts"), *({"text": text} for text in added)]
        new = write(new, "content", write(content, "parts", parts))
    listed = [new if each is found else each for each in read_list(event, "candidates")]
    return write(event, "candidates", listed)


def _changes_parts(joined: JsonObject, edited: JsonObject) -> bool:
    """Return whether an edit removes a candidate, or changes anything in a content but its texts."""
    now = dict(_candidates(edited))
    return any(
        index not in now or not same(_without_texts(candidate), _without_texts(now[index]))
        for index, candidate in _candidates(joined)
        if candidate is not now.get(index)
    )


def _without_texts(candidate: JsonObject) -> list[Any]:
    """Return a content's fields, a list of its parts other than texts, and one of the fields beside texts."""
    content = read_object(candidate, "content")
    parts = read_list(content, "parts")
    beside: dict[str, JsonObject] = {}
    for part in filter(is_text, parts):
        fields = without(without(part, "text"), "thought")
        if fields:
            beside.setdefault(repr(fields), fields)
    return [without(content, "parts"), [part for part in parts if not is_text(part)], [*beside.values()]]


def _candidates(event: JsonObject) -> list[tuple[int, JsonObject]]:
    """Return the candidates with their indexes."""
    candidates = read_list(event, "candidates")
    if len(candidates) == 1 and candidates[0].get("index") in (0, None):  # as in most events
        return [(0, candidates[0])]
    return list(zip(indexes(candidates), candidates, strict=True))


def _both_channels(index: int) -> tuple[TextChannel, TextChannel]:
    return TextChannel(index, thought=True), TextChannel(index, thought=False)


def _beside_text(part: JsonObject, first: JsonObject) -> JsonObject:
    """Return the fields beside the text of a part that the part to which its text is added does not have."""
    if part is first or len(part) == 1:
        return {}
    return {
        key: value
        for key, value in part.items()
        if value and isinstance(value, str | dict | list) and key != "text" and value != first.get(key)
    }


class _Joined:
    """Collects one candidate from its events."""

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._content: JsonObject = {}
        self._parts: list[Any] = []
        self._texts: dict[bool, tuple[int, list[str]]] = {}  # by thought: place among the parts, pieces

    def add(self, candidate: JsonObject) -> JsonObject:
        """Add the candidate of the next event. Returns what the whole one does not show.

        These are fields of earlier ones that it replaces, and fields beside texts that become part of others.
        """
        content = candidate.get("content")
        if type(content) is not dict:
            content = {}
        lost = _replaced_fields(self._fields, candidate, ("content",)) if self._fields else {}
        if self._content and (others := _replaced_fields(self._content, content, ("parts",))):
            lost["content"] = others
        self._fields.update(candidate)
        self._content.update(content)
        beside = []
        parts = content.get("parts")
        for part in parts if type(parts) is list else read_list(content, "parts"):
            if type(part) is not dict or type(part.get("text")) is not str:
                self._parts.append(part)
                continue
            thought = bool(part.get("thought"))
            if thought not in self._texts:
                self._texts[thought] = len(self._parts), []
                self._parts.append(part)
            at, pieces = self._texts[thought]
            pieces.append(part["text"])
            if fields := _beside_text(part, self._parts[at]):
                beside.append(fields)
        if beside:
            lost["content"] = {**lost.get("content", {}), "parts": beside}
        return lost

    def whole(self, index: int) -> JsonObject:
        parts = list(self._parts)
        for at, pieces in self._texts.values():
            parts[at] = {**parts[at], "text": "".join(pieces)}
        content = {"content": {**self._content, "parts": parts}} if self._content else {}
        return {**self._fields, **content, "index": index}


CallDecision = str | JsonObject | None
"""A text that replaces a call, other arguments for it, or None if the call passes unchanged."""


@dataclass(slots=True)
class ToolCallFilter:
    """Filters the function calls of one answer.

    For each event, call `starting_calls`, then `apply_decisions`.
    """

    passed: bool = False
    """Whether a call has passed."""
    _open: dict[int, bool] = field(default_factory=dict)
    """For each candidate with a call that continues in the next part: whether the call was blocked."""
    _in_pieces: bool = False
    """Whether a call of the event continues that of an earlier event, or continues in a later one."""

    def starting_calls(self, body: JsonObject) -> list[JsonObject]:
        """Return the calls that begin in the event, in order, without continuations of earlier calls."""
        continuing = set(self._open)
        self._in_pieces = bool(continuing)
        calls = []
        for index, call in _calls_in(body):
            if call.get("name") is not None or index not in continuing:
                calls.append(call)
            if read(call, "willContinue"):
                continuing.add(index)
                self._in_pieces = True
            else:
                continuing.discard(index)
        return calls

    def apply_decisions(self, body: JsonObject, decisions: Sequence[CallDecision]) -> JsonObject:
        """Return the event with the decisions applied, one for each call begun, or `body` if all pass."""
        if not self._in_pieces and all(decision is None for decision in decisions):
            self.passed = self.passed or bool(decisions)
            return body
        rest = iter(decisions)
        candidates = read_list(body, "candidates")
        numbered = zip(indexes(candidates), candidates, strict=True)
        new = [self._candidate(index, candidate, rest) for index, candidate in numbered]
        unchanged = same_items(new, candidates)
        return body if unchanged else write(body, "candidates", new)

    def _candidate(self, index: int, candidate: JsonObject, rest: Iterator[CallDecision]) -> JsonObject:
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        kept = [new for part in parts if (new := self._part(index, part, rest)) is not None]
        if same_items(kept, parts):
            return candidate
        return write(candidate, "content", write(content, "parts", kept or [{"text": ""}]))

    def _part(self, index: int, part: JsonObject, rest: Iterator[CallDecision]) -> JsonObject | None:
        call = _call(part)
        if call is None:
            return part
        if call.get("name") is None and index in self._open:  # a continuation of a call's arguments
            refused = self._open[index] if read(call, "willContinue") else self._open.pop(index)
            return None if refused else part
        decision = next(rest)
        self._open.pop(index, None)
        if read(call, "willContinue"):
            self._open[index] = isinstance(decision, str)
        if isinstance(decision, str):
            return {"text": decision}
        self.passed = True
        return part if decision is None else write(part, "functionCall", write(call, "args", decision))


def only_text(event: JsonObject) -> str | None:
    """Return the text of an event whose parts are a single text; None if there are other parts or candidates.

    Most events of a stream have one, so this function is hot and calls no other.
    """
    candidates = event.get("candidates")
    if type(candidates) is not list or len(candidates) != 1:
        return None
    candidate = candidates[0]
    if type(candidate) is not dict or candidate.get("index"):
        return None
    content = candidate.get("content")
    parts = content.get("parts") if type(content) is dict else None
    if type(parts) is not list or len(parts) != 1:
        return None
    part = parts[0]
    text = part.get("text") if type(part) is dict and len(part) == 1 else None
    return text if type(text) is str else None


def failed_call_response(call: JsonObject, error: str) -> JsonObject:
    """Return the functionResponse that tells a model why its call was not run."""
    identified = {"id": call["id"]} if read(call, "id") is not None else {}
    return {**identified, "name": call.get("name"), "response": {"error": error}}


def _calls_in(event: JsonObject) -> list[tuple[int, JsonObject]]:
    """Return each function call of an event, or more of its arguments, with its candidate's index."""
    return [
        (index, call)
        for index, candidate in _candidates(event)
        for part in parts_of(candidate)
        if (call := _call(part)) is not None
    ]


def _call(part: JsonObject) -> JsonObject | None:
    call = read(part, "functionCall")
    return call if isinstance(call, dict) else None
