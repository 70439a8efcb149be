"""The framing of a streamed response: server-sent events with names.

The events of a function call are joined to one frame, because a call is judged with all of its arguments. So
are the events of items that overlap. Other events pass one by one.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from hookgate.translator.fields import BodyError, JsonObject, read_list, read_object, same
from hookgate.translator.responses.contents import is_content_text, with_item_texts, with_text
from hookgate.translator.responses.events import (
    BEGINNINGS,
    BEGUN,
    CALL,
    ENDED,
    ENDINGS,
    KIND_OF_DELTA,
    KIND_OF_DONE,
    NEXT,
    PART_EVENTS,
    TextPlace,
    content_events,
    is_joined,
    place_in,
    response_events,
)
from hookgate.translator.responses.received import ReceivedItems, StreamedText
from hookgate.translator.streaming.framing import KEPT_ITEM, Frame
from hookgate.translator.streaming.joining import (
    DONE,
    HeldEvents,
    frame_event,
    read_frame,
    with_names,
    with_own_name,
)
from hookgate.translator.strictjson import dumps, encode_answer

_NAMES = rb"event: ?(?:response(?:\.[a-z_]+)+|error|keepalive|done)[ \t]*"
_NEW_ID = re.compile(r"((?:fc|msg|rs)_hookgate_)-?\d+")


_KEPT_VALUE = 128
"""The estimated memory of a JSON value in bytes, besides its text."""


def _memory_of(item: JsonObject) -> int:
    """Return the estimated memory of what is kept about an item, in bytes."""
    data = dumps(item)
    return KEPT_ITEM + len(data) + _KEPT_VALUE * (data.count(b",") + data.count(b"[") + data.count(b"{"))


@dataclass(slots=True)
class _SentItem:
    """An item as far as the client has received it."""

    item: JsonObject
    """As it began or, if it has ended, as it ended."""
    texts: dict[tuple[str, int], StreamedText] = field(default_factory=dict)
    """Its texts by their lists and numbers."""
    kinds: dict[tuple[str, int], str] = field(default_factory=dict)
    """The types of the contents with these texts."""
    has_ended: bool = False

    def text(self, name: str, number: int) -> str:
        """Return the text of a content, by its list and its number."""
        return str(self.texts.get((name, number), ""))

    def append(self, at: TextPlace, kind: str, piece: str) -> int:
        """Add a piece of a text. Returns by how many bytes the memory of the item grows."""
        place = at.list_name, at.number
        begun = 0 if place in self.kinds else KEPT_ITEM
        self.kinds.setdefault(place, kind)
        return begun + self.texts.setdefault(place, StreamedText()).append(piece)

    def end(self, item: JsonObject) -> int:
        """Note the item as it ends. Returns by how many bytes its memory grows."""
        before, self.item, self.has_ended = self.item, item, True
        return _memory_of(item) - _memory_of(before)

    def filled(self, item: JsonObject) -> JsonObject:
        """Return an item of the same kind with the texts that the client has received."""
        if item.get("type") != CALL:
            return with_item_texts(item, self.text)
        sent = self.item if self.has_ended else {}
        kept: JsonObject = {key: sent[key] for key in ("arguments", "call_id", "name") if key in sent}
        return item if same({**item, **kept}, item) else {**item, **kept}

    def contents(self) -> list[tuple[str, int, JsonObject]]:
        """Return the texts as contents, each with its list and its number."""
        contents = []
        for (name, number), text in sorted(self.texts.items()):
            kind = self.kinds[name, number]
            content: JsonObject = {"type": kind, "refusal" if kind == "refusal" else "text": str(text)}
            contents.append(
                (name, number, {**content, "annotations": []} if kind == "output_text" else content)
            )
        return contents


class ResponseEvents(HeldEvents):
    """The events of one response, or of several in a row that the client receives as one."""

    list_name = "events"
    _NAME, _CANONICAL = with_names(_NAMES)

    def __init__(self) -> None:
        super().__init__()
        self._received = ReceivedItems()
        self._open: dict[int, bool] = {}  # items of held frames that have begun, and whether they are calls
        self._began: JsonObject | None = None  # the ID of the response that the client knows to have begun
        self._continues = False  # whether another answer continues that response
        self._sent_items: dict[int, _SentItem] = {}  # by the client's output index
        self._sent_bytes = 0  # the memory of these items
        self._number = -1  # the last sequence number
        self._next = self._offset = 0  # the next free output index, and that of this answer's first item
        self._places: dict[int, int] = {}  # the client's output index of each item of this answer

    def reset_decoder(self) -> None:
        super().reset_decoder()
        self._received = ReceivedItems()
        self._open = {}
        self._continue()

    @property
    def kept_bytes(self) -> int:
        return super().kept_bytes + self._received.kept_bytes + self._sent_bytes

    def may_grow(self, body: JsonObject) -> bool:
        return body.get("type") not in KIND_OF_DELTA

    def _continue(self) -> None:
        self._continues = self._began is not None
        self._offset, self._places = self._next, {}

    # ---- from the upstream

    def feed(self, chunk: bytes) -> list[Frame]:
        return self._joined(super().feed(chunk))

    def finish(self) -> list[Frame]:
        """Return the last frames. Raises BodyError if the stream ends in the middle of a function call."""
        frames = self._joined(super().finish())
        return [*frames, *self._release()]

    def _joined(self, frames: list[Frame]) -> list[Frame]:
        out: list[Frame] = []
        for frame in frames:
            if frame.data.strip() == DONE:
                out += [*self._release(), Frame(frame.raw, b"")]
                continue
            event = read_frame(frame.data)
            if frame.data.strip() and not isinstance(event.get("type"), str) and event.keys() != {"error"}:
                raise BodyError("", "an event is not a JSON object with a type")
            for each in self._received.note(event):
                if each is event:
                    self._hold(with_own_name(Frame(frame.raw, frame.data), event, event.get("type")))
                else:
                    self._hold(Frame(_framed(each), encode_answer(each)))
                self._note_open(each)
                if len(self._open) < 2 and not any(self._open.values()):
                    out += self._release()
        return out

    def _note_open(self, event: JsonObject) -> None:
        kind, index = event.get("type"), event.get("output_index")
        if type(index) is int and kind == BEGUN:
            self._open[index] = read_object(event, "item").get("type") == CALL
        elif type(index) is int and kind == ENDED:
            self._open.pop(index, None)

    def _release(self) -> list[Frame]:
        if any(self._open.values()):
            raise BodyError("", "it ends in the middle of a function call")
        return super()._release()

    # ---- to the client

    def encode(self, frame: Frame, data: bytes) -> bytes:
        value = read_frame(data)
        if not value:
            unchanged = data is frame.data
            return super().encode(frame, data) if unchanged else b"data: " + data + b"\n\n"
        events = value["events"] if is_joined(value) else [value]
        new = [each for event in events for each in self._client_events(event)]
        if data is frame.data and len(new) == len(events) and all(map(_is, new, events)):
            return super().encode(frame, data)
        return self._missing_end() + b"".join(map(_framed, new))

    def event(self, data: bytes) -> bytes:
        """Return the bytes of all events of a whole response."""
        self._continue()
        new = [each for event in response_events(read_frame(data)) for each in self._client_events(event)]
        return self._missing_end() + b"".join(map(_framed, new))

    def _client_events(self, event: JsonObject) -> list[JsonObject]:
        """Note an event that is sent, and return it as it has to be sent, after others that are needed."""
        kind, index = event.get("type"), event.get("output_index")
        if not isinstance(kind, str):
            return [event]
        events = [event]
        if kind in BEGINNINGS and self._continues:
            events = self._closing()
        elif kind in BEGINNINGS:
            begun = read_object(event, "response")
            self._began = {"id": begun["id"]} if "id" in begun else {}
        elif kind in ENDINGS:
            events = [*self._closing(), self._with_items(event)]
        elif type(index) is int:
            events = self._noted(self._placed(event, index, kind), kind)
        return [self._numbered(each) for each in events]

    def _numbered(self, event: JsonObject) -> JsonObject:
        """Return an event with a sequence number that is greater than the last one."""
        number = event.get("sequence_number")
        if type(number) is not int:
            if self._number < 0:  # of an upstream without such numbers
                return event
            number = -1
        if number <= self._number:
            number = self._number + 1
            event = {**event, "sequence_number": number}
        self._number = number
        return event

    def _placed(self, event: JsonObject, index: int, kind: str) -> JsonObject:
        """Return an event with the client's output index, and with the ID of an item that hooks added."""
        if kind == BEGUN:
            place = self._next if index == NEXT else max(index + self._offset, self._next)
            self._places[index], self._next = place, place + 1
        place = self._places.get(index, index + self._offset)
        if place != index:
            event = {**event, "output_index": place}
        if isinstance(id_ := event.get("item_id"), str) and (found := _NEW_ID.fullmatch(id_)):
            event = {**event, "item_id": f"{found[1]}{place}"}
        item = event.get("item")
        id_ = item.get("id") if isinstance(item, dict) else None
        if isinstance(item, dict) and isinstance(id_, str) and (found := _NEW_ID.fullmatch(id_)):
            event = {**event, "item": {**item, "id": f"{found[1]}{place}"}}
        return event

    def _noted(self, event: JsonObject, kind: str) -> list[JsonObject]:
        """Note an event of an item, and return it with the texts that the client has received.

        Returns nothing if the client has not received the item.
        """
        place: int = event["output_index"]
        if kind == BEGUN:
            self._sent_items[place] = _SentItem(read_object(event, "item"))
            self._sent_bytes += _memory_of(self._sent_items[place].item)
        if (sent := self._sent_items.get(place)) is None:
            return []
        if kind in KIND_OF_DELTA:
            text = KIND_OF_DELTA[kind]
            self._sent_bytes += sent.append(place_in(event, text), text.content, event.get("delta") or "")
        elif kind in KIND_OF_DONE:
            at = place_in(event, KIND_OF_DONE[kind])
            content = {**event, "type": KIND_OF_DONE[kind].content}
            new = with_text(content, sent.text(at.list_name, at.number))
            return [event if new is content else {**new, "type": kind}]
        elif kind in PART_EVENTS and kind.endswith(".done") and is_content_text(event.get("part")):
            at = place_in(event, PART_EVENTS[kind])
            return [_with(event, "part", with_text(event["part"], sent.text(at.list_name, at.number)))]
        elif kind == ENDED:
            item = event["item"]
            self._sent_bytes += sent.end(item if item.get("type") == CALL else sent.filled(item))
            return [_with(event, "item", sent.item)]
        return [event]

    def _closing(self) -> list[JsonObject]:
        """Return the events with which the items end that the client has to consider open."""
        events: list[JsonObject] = []
        for place, sent in self._sent_items.items():
            if sent.has_ended:
                continue
            item = {**sent.item, "status": "completed"}
            contents: dict[str, list[Any]] = {}
            for name, number, content in sent.contents():
                contents.setdefault(name, []).append(content)
                # The client has received the beginning of the content, and its pieces.
                events += content_events(content, TextPlace(place, name, number), item.get("id"))[-2:]
            self._sent_bytes += sent.end({**item, **contents})
            events.append({"type": ENDED, "output_index": place, "item": sent.item})
        return events

    def _with_items(self, event: JsonObject) -> JsonObject:
        """Return the event with which a response ends, with the items that the client has received."""
        response = read_object(event, "response")
        ids = {str(sent.item.get("id")): place for place, sent in self._sent_items.items()}
        given: dict[int, JsonObject] = {}
        for position, item in enumerate(read_list(response, "output")):
            id_ = item.get("id") if isinstance(item, dict) else None
            place = self._places.get(position, position + self._offset)
            given[ids.get(id_, place) if isinstance(id_, str) else place] = item
        output = []
        for place, sent in sorted(self._sent_items.items()):
            item = given.get(place)
            fits = isinstance(item, dict) and item.get("type") == sent.item.get("type")
            output.append(sent.filled(item) if item is not None and fits else sent.item)
        new: JsonObject = {}
        if not same(output, response.get("output")):
            new["output"] = output
        if self._continues and self._began is not None and "id" in self._began:
            new["id"] = self._began["id"]
        if all(key in response and same(value, response[key]) for key, value in new.items()):
            return event
        kept = {key: value for key, value in response.items() if key != "output_text"}
        return {**event, "response": {**kept, **new}}


def _with(event: JsonObject, key: str, value: Any) -> JsonObject:
    """Return an event with another value of a field; the same object if it is the same value."""
    return event if event[key] is value else {**event, key: value}


def _is(new: Any, old: Any) -> bool:
    return new is old


def _framed(event: JsonObject) -> bytes:
    return frame_event(event.get("type"), event)
