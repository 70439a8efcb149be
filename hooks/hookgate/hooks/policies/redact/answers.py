"""Redacts a model's answer while it streams: each text across all its events, everything else per event."""

import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from hookgate.hooks.policies.redact.fields import (
    CONTENT,
    PLAIN_CONTENT,
    Handler,
    each_item,
    handled_by_caller,
    opaque,
    path_in_content,
    redacted_fields,
    redacted_part,
    with_arguments,
)
from hookgate.hooks.policies.redact.redaction import ChunkedText, Redaction, without_small_numbers
from hookgate.hooks.policies.redact.report import Key
from hookgate.hooks.policies.speakers import Scope
from hookgate.translator.fields import (
    JsonObject,
    indexes,
    is_text,
    parts_of,
    read,
    read_list,
    read_object,
    same_items,
    without,
    write,
)
from hookgate.translator.streaming.continuation import Continuation
from hookgate.translator.streaming.sources import KIND_OF_PART, PLAIN_SOURCE, SourceFields, source_fields


class PartPlace(NamedTuple):
    """The place of a text: the event, and the indexes of candidate, part, and chunk of arguments."""

    event: int
    candidate: int
    part: int
    chunk: int = -1


TextKey = tuple[int, str]
"""A candidate's index, and one of its texts: `text`, `thought`, or a path in the arguments of its call."""


_ID = "event_id"
"""The ID of an event. A client that resumes a stream after it continues after the whole event."""

_BARE = frozenset({"text", "thought", *KIND_OF_PART})
"""The fields of a part with nothing but a text or a thought."""


@dataclass(slots=True)
class OutgoingEvent:
    """One outgoing event.

    It is filled in place while its parts are read, and emptied in place while they are released, because its
    texts are decided one by one, some of them during later events.
    """

    number: int
    original: JsonObject
    body: JsonObject
    """The event with everything redacted but its texts."""
    text_keys: dict[PartPlace, TextKey] = field(default_factory=dict)
    """The places of its texts, and the keys of the texts that they belong to."""
    may_be_split: bool = True
    """Whether it may be released in parts: it is part of a stream, contains only text, and does not
    finish a candidate."""
    overlapping: bool = False
    """Whether its parts are those of steps of an interaction that overlapped."""
    partly_released: bool = False
    """Whether some of it has been released."""
    unreleased_parts: list[list[tuple[PartPlace, JsonObject]]] = field(default_factory=list)
    """By candidate, the parts that have not been released."""

    def complete(self, candidates: list[JsonObject]) -> None:
        """Set the candidates, with everything redacted but their texts."""
        original = read_list(self.original, "candidates")
        if not same_items(candidates, original):
            self.body = write(self.body, "candidates", candidates)
        self.may_be_split = self.may_be_split and bool(self.text_keys)
        self.unreleased_parts = [
            [
                (PartPlace(self.number, position, number), part)
                for number, part in enumerate(parts_of(candidate))
            ]
            for position, candidate in enumerate(candidates)
        ]


_PLAIN_EVENT = frozenset({"candidates", "modelVersion", "responseId", "usageMetadata"})
_PLAIN_CANDIDATE = frozenset({"content", "index"})
"""The fields of events, candidates and contents that most events of a stream have."""

_MAX_SILENCE = 256
"""After so many characters of the answer, the thought before it is released; and vice versa.

A model thinks before it answers: its last thought must not hold back the answer after it.
"""

_QUICK_BEGINNING = 1024
"""Characters that an answer continues, up to which their search takes few milliseconds even if crafted.

They are searched once for each candidate.
"""

_LINK_TO_PLACE = re.compile(r"https://maps\.google\.com/\?cid=[0-9]{17,20}")

_ARGUMENT = "args "
"""The prefix of the keys of arguments; the argument's path follows."""


class AnswerScreen:
    """Redacts one answer. Implements Screen."""

    def __init__(
        self,
        redaction: Redaction,
        *,
        logprobs: bool = False,
        is_json: bool = False,
        continues: str = "",
        thoughts: str = "",
    ) -> None:
        """Create the screen.

        Args:
            redaction: Searches the texts.
            logprobs: Whether the log probabilities of the answer's tokens are kept.
            is_json: Whether the client requires JSON, so the answer's texts, without thoughts, stay JSON.
            continues: The text that the answer continues: at the end of the request, or of earlier answers.
            thoughts: The thoughts of earlier answers, which those of the answer continue.
        """
        self._redaction, self._logprobs, self._is_json = redaction, logprobs, is_json
        self._continued = {"text": continues, "thought": thoughts}
        self._texts: dict[TextKey, ChunkedText[PartPlace]] = {}
        self._sources: dict[TextKey, tuple[int, SourceFields]] = {}  # the part and source of its last chunk
        self._silent: Counter[TextKey] = Counter()  # characters of the other text since its last chunk
        self._outbox = Outbox(partial(_is_undecided, self._texts), self._redact_chunk)
        self._waiting: list[tuple[PartPlace, str]] = []  # chunks of one text, to be searched together
        self._waiting_key: TextKey | None = None
        self._continuation = Continuation()

    @property
    def slow(self) -> bool:
        """Whether a search may block the event loop for too long."""
        return self._redaction.slow or sum(map(len, self._continued.values())) > _QUICK_BEGINNING

    def takes_long(self, values: Sequence[Any]) -> bool:
        """Return whether redacting these values may block the event loop for too long."""
        return self._redaction.takes_long(values)

    def add(self, events: Sequence[JsonObject]) -> None:
        """Add the next events of the answer, which `feed` releases. Raises Withheld."""
        for event in events:
            self._add_event(event, whole=False)
        self._feed_waiting()

    def feed(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        """Add events and return those that can be released now, by number. Raises Withheld."""
        for event in events:
            self._add_event(event, whole=last)
        self._feed_waiting()
        if last:
            # Clients join the next answer to one that continues there, perhaps in the middle of a secret.
            self._finish(list(self._texts), cut_off=cut_off or self._continuation.is_expected)
        return self._outbox.pop_ready()

    def _add_event(self, body: JsonObject, *, whole: bool) -> None:
        """Add the next event. If `whole` is true, it is a complete answer and is not split or dropped."""
        if not whole and self._add_plain_event(body):
            return
        self._feed_waiting()
        if "step" in body:  # the next step of an interaction begins, which clients show separately
            self._interrupt(0, "text", "thought")
        self._continuation.note(body)
        rest = redacted_fields(self._redaction, body, "answers", {"candidates": handled_by_caller})
        event = self._outbox.begin(body, rest)
        candidates = read_list(body, "candidates")
        event.may_be_split, event.overlapping = not whole, "events" in body
        numbered = enumerate(zip(indexes(candidates), candidates, strict=True))
        event.complete([self._add_candidate(event, at, index, item) for at, (index, item) in numbered])

    def _add_plain_event(self, body: JsonObject) -> bool:
        """Add an event that is a single text, as most events are, if nothing else in it has to be redacted.

        Returns False for any other event, which has not been added. The result is the same as if the event
        were redacted field by field.
        """
        if (plain := _plain_part(body)) is None or "answers" not in self._redaction.scopes:
            return False
        index, part = plain
        rest = {**body, "candidates": None, "index": index}
        if type(usage := body.get("usageMetadata")) is dict:
            rest["usageMetadata"] = without_small_numbers(usage)
        if not self._redaction.is_clean_value(rest):
            return False
        event = self._outbox.begin(body, body)
        place, text_key = PartPlace(event.number, 0, 0), (index, "text")
        event.unreleased_parts = [[(place, part)]]
        if text_key != self._waiting_key:
            self._feed_waiting()
            self._note_source(text_key, 0, PLAIN_SOURCE)
            self._begin(text_key)
            self._waiting_key = text_key
        self._outbox.note(event, place, text_key)
        self._waiting.append((place, part["text"]))
        self._silent[text_key] = 0
        if (index, "thought") in self._texts:
            self._interrupt(index, "thought", size=len(part["text"]))
        return True

    def _add_candidate(
        self, event: OutgoingEvent, position: int, index: int, candidate: JsonObject
    ) -> JsonObject:
        content = read_object(candidate, "content")
        parts = read_list(content, "parts")
        new = [
            self._add_part(event, PartPlace(event.number, position, k), index, part)
            for k, part in enumerate(parts)
        ]
        before = len(self._redaction.report)
        with_rest = redacted_fields(self._redaction, content, "answers", CONTENT)
        self._redaction.report.within(before, "candidates", position, "content")
        if not same_items(new, parts):
            with_rest = write(with_rest, "parts", new)
        if with_rest is not content:
            candidate = write(candidate, "content", with_rest)
        if read(candidate, "finishReason") is not None:
            # Its texts are not finished: some upstreams send a reason in every event.
            event.may_be_split = False
        before = len(self._redaction.report)
        redacted = self._redact_rest(candidate)
        self._redaction.report.within(before, "candidates", position)
        return redacted

    def _add_part(self, event: OutgoingEvent, place: PartPlace, index: int, part: JsonObject) -> JsonObject:
        if is_text(part):
            is_thought = bool(part.get("thought"))
            if ("thoughts" if is_thought else "answers") in self._redaction.scopes:
                text_key = (index, "thought" if is_thought else "text")
                if event.overlapping:  # each part may belong to another step
                    self._interrupt(*text_key)
                self._note_source(text_key, place.part, source_fields(event.original, part))
                self._feed_text(event, place, text_key, part["text"])
            self._interrupt(index, "text" if is_thought else "thought", size=len(part["text"]))
            if len(part) == 1:
                return part
        else:
            event.may_be_split = False
            self._interrupt(index, "text", "thought")
        before = len(self._redaction.report)
        redacted = redacted_part(self._redaction, part, "answers")
        self._redaction.report.within(before, *_path(place)[:-1])
        if isinstance(original := read(part, "functionCall"), dict):
            event.may_be_split = False
            self._feed_arguments(event, place, index, original, read_object(redacted, "functionCall"))
        return redacted

    def _feed_arguments(
        self, event: OutgoingEvent, place: PartPlace, index: int, original: JsonObject, call: JsonObject
    ) -> None:
        """Feed the strings of a call's partial arguments. `call` has everything else redacted."""
        if "tool_arguments" not in self._redaction.scopes:
            return
        pairs = zip(read_list(original, "partialArgs"), read_list(call, "partialArgs"), strict=True)
        for number, (chunk, new) in enumerate(pairs):
            if not isinstance(chunk, dict) or read(chunk, "numberValue") is not read(new, "numberValue"):
                continue  # not an object, or its number was masked
            if isinstance(value := read(chunk, "stringValue"), str):
                path = f"{_ARGUMENT}{read(chunk, 'jsonPath')}"
                self._feed_text(event, place._replace(chunk=number), (index, path), value)
        if not read(original, "willContinue"):
            self._finish([key for key in self._texts if key[0] == index and _is_argument(key)])

    def _redact_rest(self, candidate: JsonObject) -> JsonObject:
        """Redact everything but the content, and remove the log probabilities of its tokens."""
        if "answers" in self._redaction.scopes and not self._logprobs:
            candidate = without(candidate, "logprobsResult")
        redacted: JsonObject = redacted_fields(self._redaction, candidate, "answers", _CANDIDATE)
        return redacted

    def _note_source(self, text_key: TextKey, part: int, source: SourceFields) -> None:
        """Note the part and the source of a text's next chunk, which may be others than before."""
        if self._sources.get(text_key, (part, source)) != (part, source):
            self._interrupt(*text_key)
        self._sources[text_key] = part, source

    def _begin(self, text_key: TextKey) -> None:
        if text_key in self._texts:
            return
        is_answer = text_key[1] == "text"
        text = self._redaction.chunked_text(
            self._outbox.append_text, _path, is_json=self._is_json and is_answer
        )
        if continued := self._continued.get(text_key[1]):
            text.begin_after(continued)
        self._texts[text_key] = text

    def _feed_text(self, event: OutgoingEvent, place: PartPlace, text_key: TextKey, text: str) -> None:
        self._begin(text_key)
        self._outbox.note(event, place, text_key)
        self._texts[text_key].feed(place, text)
        self._silent[text_key] = 0

    def _feed_waiting(self) -> None:
        """Feed the chunks that wait. The output does not depend on where chunks end."""
        if self._waiting_key is not None:
            waiting, text = self._waiting, self._texts[self._waiting_key]
            self._waiting, self._waiting_key = [], None
            text.feed_all(waiting)

    def _interrupt(self, index: int, *others: str, size: int | None = None) -> None:
        """Note that something follows a candidate's other texts. If it is a text, `size` is its length."""
        for other in others:
            text = self._texts.get(key := (index, other))
            if text is None or size == 0:
                continue
            text.interrupt()
            self._silent[key] += size or 0
            if self._silent[key] >= _MAX_SILENCE:
                text.release()

    def _finish(self, text_keys: Sequence[TextKey], *, cut_off: bool = False) -> None:
        for text_key in text_keys:
            text = self._texts.pop(text_key)
            if cut_off:
                text.cut_off()
            else:
                text.finish()

    def _redact_chunk(self, place: PartPlace, text: str) -> str:
        before = len(self._redaction.report)
        new = self._redaction.chunk(text)
        self._redaction.report.within(before, *_path(place))
        return new

    def redact(self, value: Any) -> Any:
        """Redact a JSON value besides the answer's events. Raises Withheld."""
        return self._redaction.value(value)

    def findings_output(self) -> JsonObject:
        """Return the hook output that reports the findings, or an empty object if there are none."""
        found = self._redaction.findings_output()
        if not found["findings"]:
            return {}
        return {"hookSpecificOutput": {"redacted": True, **found, "llm_response": {"raw": {}}}}


def _path(place: PartPlace) -> tuple[Key, ...]:
    """Return the path to a text in its event."""
    return "candidates", place.candidate, "content", *path_in_content(place.part, place.chunk)


def _is_undecided(
    texts: Mapping[TextKey, ChunkedText[PartPlace]], place: PartPlace, text_key: TextKey
) -> bool:
    return text_key in texts and texts[text_key].is_undecided(place)


def _plain_part(body: JsonObject) -> tuple[int, JsonObject] | None:
    """Return the candidate's index and the part of an event that is a single text, or None."""
    candidates = body.get("candidates")
    if not body.keys() <= _PLAIN_EVENT or type(candidates) is not list or len(candidates) != 1:
        return None
    candidate = candidates[0]
    if type(candidate) is not dict or not candidate.keys() <= _PLAIN_CANDIDATE:
        return None
    content, index = candidate.get("content"), candidate.get("index", 0)
    if type(index) is not int or type(content) is not dict or content.keys() != PLAIN_CONTENT:
        return None
    parts = content["parts"]
    if content["role"] != "model" or type(parts) is not list or len(parts) != 1:
        return None
    part = parts[0]
    is_text_only = type(part) is dict and len(part) == 1 and type(part.get("text")) is str
    return (index, part) if is_text_only else None


def _grounding(redaction: Redaction, value: Any, scope: Scope) -> Any:
    handlers: Mapping[str, Handler] = {
        "searchEntryPoint": _entry_point,
        "groundingChunks": each_item(partial(_grounding_chunk, scope=scope)),
    }
    return redacted_fields(redaction, value, scope, handlers)


def _grounding_chunk(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, value, scope, {"maps": _map_place})


def _map_place(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, value, scope, {"uri": _map_link})


def _map_link(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """Redact the link to a place. Its number may be like that of a card, but is longer than most of these."""
    if scope not in redaction.scopes or (isinstance(value, str) and _LINK_TO_PLACE.fullmatch(value)):
        return value
    return redaction.value(value)


def _entry_point(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, value, scope, {"sdkBlob": opaque})


_CANDIDATE: Mapping[str, Handler] = {
    "content": handled_by_caller,
    "groundingMetadata": _grounding,
    "continuationToken": opaque,
}
"""The fields of a candidate that need their own handler."""


def _is_argument(text_key: TextKey) -> bool:
    return text_key[1].startswith(_ARGUMENT)


class Outbox:
    """The events that have not been released."""

    def __init__(
        self,
        is_undecided: Callable[[PartPlace, TextKey], bool],
        redact_chunk: Callable[[PartPlace, str], str],
    ) -> None:
        """`is_undecided` returns whether some of the text at a place is undecided.

        `redact_chunk` redacts a chunk at a place of a text that was redacted as a whole.
        """
        self._is_text_undecided, self._redact_chunk = is_undecided, redact_chunk
        self._text_keys: dict[PartPlace, TextKey] = {}
        self._texts: dict[PartPlace, str] = {}  # decided and not released
        self._events: deque[OutgoingEvent] = deque()
        self._count = 0

    def begin(self, original: JsonObject, body: JsonObject) -> OutgoingEvent:
        """Add an event, which must be completed. `body` has everything redacted but its candidates."""
        event = OutgoingEvent(self._count, original, body)
        self._count += 1
        self._events.append(event)
        return event

    def note(self, event: OutgoingEvent, place: PartPlace, text_key: TextKey) -> None:
        """Register that an event has a text at this place."""
        event.text_keys[place] = self._text_keys[place] = text_key

    def append_text(self, place: PartPlace, text: str) -> None:
        """Append decided text at a place."""
        self._texts[place] = self._texts.get(place, "") + text

    def pop_ready(self) -> list[tuple[int, JsonObject]]:
        """Return what can be released now, by the numbers of the events.

        These are the events of which all text is decided, and the decided text of the next one.
        """
        out: list[tuple[int, JsonObject]] = []
        while self._events and not self._has_undecided(self._events[0]):
            out += self._release(self._events.popleft())
        if self._events and self._events[0].may_be_split:
            out += self._release_decided(self._events[0])
        return out

    def _has_undecided(self, event: OutgoingEvent) -> bool:
        return any(self._is_undecided(place) for place in event.text_keys)

    def _release(self, event: OutgoingEvent) -> list[tuple[int, JsonObject]]:
        """Return an event of which all text is decided, or nothing if the next event takes the rest of it."""
        if self._is_unchanged(event):
            self._forget(event)
            return [(event.number, event.original)]
        moved = event.partly_released and self._move_to_next(event)
        body = event.original if moved else self._take_body(event)
        self._forget(event)
        return [(event.number, body)] if not moved and _is_sent(event, body) else []

    def _release_decided(self, event: OutgoingEvent) -> list[tuple[int, JsonObject]]:
        """Return the decided text of an event, without its ID: that is sent with the rest."""
        body = without(self._take_body(event), _ID)
        if not _is_sent(event, body):
            return []
        event.partly_released = True
        return [(event.number, body)]

    def _is_unchanged(self, event: OutgoingEvent) -> bool:
        """Return whether an event consists of one text, none of which was replaced or released before."""
        if event.body is not event.original or event.partly_released or len(event.text_keys) != 1:
            return False
        if len(event.unreleased_parts) != 1 or len(event.unreleased_parts[0]) != 1:
            return False
        place, part = event.unreleased_parts[0][0]
        return place in event.text_keys and self._texts.get(place, "") == part["text"]

    def _forget(self, event: OutgoingEvent) -> None:
        """Forget the texts of an event that was released."""
        for place in event.text_keys:
            del self._text_keys[place]
            self._texts.pop(place, None)

    def _is_undecided(self, place: PartPlace) -> bool:
        return self._is_text_undecided(place, self._text_keys[place])

    def _move_to_next(self, event: OutgoingEvent) -> bool:
        """Move the rest of an event to the beginning of the next one, if it continues the same texts."""
        first_texts = _first_texts(self._events[0]) if self._events else {}
        rests = [left for left in event.unreleased_parts if left]
        if not all(len(left) == 1 and _is_bare(left[0][1]) for left in rests):
            return False
        keys = [(self._text_keys[place], source_fields(event.original, part)) for [(place, part)] in rests]
        if not all(key in first_texts for key in keys):
            return False
        for [(place, _)], key in zip(rests, keys, strict=True):
            target = first_texts[key]
            self._texts[target] = self._texts.pop(place, "") + self._texts.get(target, "")
        return True

    def _take_body(self, event: OutgoingEvent) -> JsonObject:
        """Take the parts that can be released from an event, and return it with them alone."""
        candidates = read_list(event.body, "candidates")
        new = []
        for candidate, left in zip(candidates, event.unreleased_parts, strict=True):
            content = read_object(candidate, "content")
            # The texts of one event were searched joined. A secret at the border of two of them can be hidden
            # by the neighbouring text, although clients show them separately, so each is searched again
            # alone. This does not apply to consecutive chunks of a stream.
            separate = not event.may_be_split and len(left) > 1
            parts, released = read_list(content, "parts"), self._take_released(left, separate)
            unchanged = same_items(released, parts)
            new.append(
                candidate if unchanged else write(candidate, "content", write(content, "parts", released))
            )
        unchanged = same_items(new, candidates)
        return event.body if unchanged else write(event.body, "candidates", new)

    def _take_released(self, left: list[tuple[PartPlace, JsonObject]], separate: bool) -> list[JsonObject]:
        """Remove and return the parts that can be released, with their texts.

        If `separate` is true, each text is also redacted separately.
        """
        released = []
        while left:
            place, part = left.pop(0)
            part = with_arguments(part, partial(self._take_argument, place))
            if place not in self._text_keys:
                released.append(part)
                continue
            text, undecided = self._texts.pop(place, ""), self._is_undecided(place)
            text = self._redact_chunk(place, text) if separate else text
            if text == part["text"] and not undecided:
                released.append(part)
            elif text or not (undecided or _is_bare(part)):
                released.append({**part, "text": text})
            if undecided:  # the part's other fields were released with its first text
                bare: JsonObject = {key: part[key] for key in part if key in _BARE}
                left.insert(0, (place, bare if text else part))
                break
        return released

    def _take_argument(self, place: PartPlace, number: int) -> str | None:
        """Remove and return the string of a chunk of arguments; None if it is not one of the texts."""
        here = place._replace(chunk=number)
        return self._texts.pop(here, "") if here in self._text_keys else None


def _first_texts(event: OutgoingEvent) -> dict[tuple[TextKey, SourceFields], PartPlace]:
    """Return the places of the texts that the candidates of an event begin with, by keys and sources."""
    firsts = (left[0] for left in event.unreleased_parts if left)
    return {
        (event.text_keys[place], source_fields(event.original, part)): place
        for place, part in firsts
        if place in event.text_keys
    }


def _is_bare(part: JsonObject) -> bool:
    """Return whether a part contains only text or a thought, without a signature or a call."""
    return "text" in part and part.keys() <= _BARE


def _is_sent(event: OutgoingEvent, body: JsonObject) -> bool:
    """Return whether what was released of an event is sent: clients need no events without content."""
    return body is event.original or not (event.may_be_split and _is_empty(body))


def _is_empty(body: JsonObject) -> bool:
    """Return whether no candidate has content."""
    return not any(
        part.get("text") or not _is_bare(part)
        for candidate in read_list(body, "candidates")
        for part in parts_of(candidate)
    )
