"""The items that an upstream has streamed so far, and the texts that it repeats.

An upstream sends each text in pieces, and repeats it when the text, its item and the response end. Hooks
judge the pieces. A repetition therefore must not contain anything else: what is missing from the pieces is
added to them, and an answer whose repetition differs from its pieces is refused.
"""

from hookgate.translator.fields import BodyError, JsonObject, read_list, read_object
from hookgate.translator.openai.tokens import are_tokens
from hookgate.translator.responses.contents import THOUGHTS, content_text, is_content_text, texts_of_item
from hookgate.translator.responses.events import (
    ALL_ARGUMENTS,
    ARGUMENTS,
    BEGINNINGS,
    BEGUN,
    CALL,
    ENDED,
    ENDINGS,
    KIND_OF_CONTENT,
    KIND_OF_DELTA,
    KIND_OF_DONE,
    PART_EVENTS,
    TextPlace,
    bare_item,
    place_in,
    read_index,
)
from hookgate.translator.streaming.events import TextChannel
from hookgate.translator.streaming.framing import KEPT_ITEM, MAX_EVENT
from hookgate.translator.streaming.sources import TextOrder

_ARGUMENTS = "arguments"
_DIFFERS = "it differs from the pieces before it"


class StreamedText:
    """A text that comes in pieces."""

    def __init__(self) -> None:
        self._data = bytearray()  # takes less memory than the pieces, of which there may be many

    def append(self, piece: str) -> int:
        """Add a piece, and return its size in bytes."""
        data = piece.encode("utf-8", "surrogatepass")
        self._data += data
        return len(data)

    def __str__(self) -> str:
        return self._data.decode("utf-8", "surrogatepass")


class ReceivedItems:
    """The items of one answer, as far as the upstream has streamed them."""

    def __init__(self) -> None:
        self._items: dict[int, str] = {}  # the ID of each item, by its index
        self._ids: dict[str, int] = {}
        self._id_bytes = 0
        self._texts: dict[TextPlace, StreamedText] = {}
        self._latest: dict[tuple[int, str], int] = {}  # by item and list: the number of the last text
        self._ended: set[tuple[str, TextPlace]] = set()  # texts whose end was repeated, by the event's type
        self._ended_items: set[int] = set()
        self._size = 0
        self._has_ended = False
        self._types: dict[int, str] = {}
        self._order = TextOrder()  # of the texts of items by their types: clients leave out unknown ones
        self._open: dict[int, bool] = {}  # items that have not ended, and whether they are function calls

    @property
    def kept_bytes(self) -> int:
        """The estimated memory of what is kept of the items and texts, in bytes."""
        kept = len(self._items) + len(self._texts) + len(self._ended)
        return self._id_bytes + self._size + KEPT_ITEM * kept

    def note(self, event: JsonObject) -> list[JsonObject]:
        """Return an event after the pieces that are missing before it; the same object if it is complete.

        Raises BodyError if the event does not fit those before it.
        """
        kind = event.get("type")
        if not isinstance(kind, str):
            return [event]
        if self._has_ended:
            raise BodyError("type", "the response continues after its end")
        if kind in BEGINNINGS:
            return [_without_output(event)]
        if kind in (BEGUN, ENDED):
            return self._begin_item(event) if kind == BEGUN else self._end_item(event)
        if kind in ENDINGS:
            self._has_ended = True
            return [*self._end(read_object(event, "response")), event]
        return self._note_text(event, kind)

    def _note_text(self, event: JsonObject, kind: str) -> list[JsonObject]:
        """Do the same for an event that is about a text, or about nothing that is known."""
        if kind in PART_EVENTS:
            return self._note_part(event, begins=kind.endswith(".added"))
        missing: list[JsonObject] = []
        if kind in KIND_OF_DELTA:
            named = KIND_OF_DELTA[kind]
            self._add(self._place(place_in(event, named)), named.content, event.get("delta"))
            if isinstance(logprobs := event.get("logprobs"), list) and not are_tokens(logprobs):
                event = {**event, "logprobs": []}  # some clients leave out a piece with others
        elif kind == ARGUMENTS:
            self._add(self._place(TextPlace(read_index(event), _ARGUMENTS, 0)), CALL, event.get("delta"))
        elif kind in KIND_OF_DONE:
            done = KIND_OF_DONE[kind]
            text = event.get("refusal" if done.content == "refusal" else "text")
            missing = self._missing(self._end_place(kind, place_in(event, done)), done.content, text)
        elif kind == ALL_ARGUMENTS:
            place = self._end_place(kind, TextPlace(read_index(event), _ARGUMENTS, 0))
            missing = self._missing(place, CALL, event.get("arguments"))
        else:
            return [event]
        return [*missing, self._with_id(event)]

    def _with_id(self, event: JsonObject) -> JsonObject:
        """Return an event of a text with the ID of its item, without which some clients leave it out."""
        id_ = self._items[read_index(event)]
        return event if event.get("item_id") == id_ else {**event, "item_id": id_}

    # ---- items

    def _begin_item(self, event: JsonObject) -> list[JsonObject]:
        index, item = read_index(event), event.get("item")
        if not isinstance(item, dict):
            raise BodyError("item", "an item must be an object")
        if index in self._items:
            raise BodyError("output_index", "an item begins twice")
        if (named := _with_own_id(item, index)) is not item:
            event, item = {**event, "item": named}, named
        id_ = item["id"]
        self._types[index] = str(item.get("type"))
        self._items[index], self._open[index], self._ids[id_] = id_, item.get("type") == CALL, index
        self._id_bytes += len(id_)
        for name, number, _ in texts_of_item(item):
            self._texts[TextPlace(index, name, number)] = StreamedText()
        bare = bare_item(item)
        begun = event if bare is item else {**event, "item": bare}
        return [begun, *self._missing_in(index, item)]

    def _end_item(self, event: JsonObject) -> list[JsonObject]:
        """Return the event with which an item ends, after those that are missing before it."""
        index, item = read_index(event), event.get("item")
        if not isinstance(item, dict):
            raise BodyError("item", "an item must be an object")
        begun = []
        if index not in self._items:
            emptied = {**item, **{name: [] for name, _, _ in texts_of_item(item)}}
            begun = self._begin_item({"type": BEGUN, "output_index": index, "item": bare_item(emptied)})
        elif index in self._ended_items:
            raise BodyError("output_index", "an item ends twice")
        elif self._types[index] != str(item.get("type")):
            raise BodyError("item.type", "an item ends as another type than it began")
        missing = self._missing_in(index, item)
        self._ended_items.add(index)
        self._open.pop(index, None)
        named = _with_own_id(item, index)
        return [*begun, *missing, event if named is item else {**event, "item": named}]

    def _end(self, response: JsonObject) -> list[JsonObject]:
        """Return the events that are missing before the end of a response."""
        events: list[JsonObject] = []
        seen: set[int] = set()
        for position, item in enumerate(read_list(response, "output")):
            if not isinstance(item, dict):
                raise BodyError("response.output", "an item must be an object")
            id_ = item.get("id")
            index = self._ids.get(id_, position) if isinstance(id_, str) else position
            if index in seen:
                raise BodyError(f"response.output[{position}]", "an item occurs twice")
            seen.add(index)
            if index in self._ended_items:
                if self._missing_in(index, item):
                    raise BodyError(f"response.output[{position}]", _DIFFERS)
                continue
            ended: JsonObject = {"type": ENDED, "output_index": index, "item": item}
            events += self._end_item(ended)
        return events

    # ---- texts

    def _note_part(self, event: JsonObject, *, begins: bool) -> list[JsonObject]:
        place, part = place_in(event, PART_EVENTS[event["type"]]), event.get("part")
        if begins:
            self._place(place)
        else:
            self._end_place(event["type"], place)
        if begins and place in self._texts:
            raise BodyError("part", "a content begins twice")
        if begins:
            self._texts[place] = StreamedText()
        event = self._with_id(event)
        if not isinstance(part, dict) or not is_content_text(part):
            return [event]
        missing = self._missing(place, part["type"], content_text(part))
        if not begins:
            return [*missing, event]
        bare = bare_item({"content": [part]})["content"][0]
        return [event if bare is part else {**event, "part": bare}, *missing]

    def _missing_in(self, index: int, item: JsonObject) -> list[JsonObject]:
        """Return the events with the texts and arguments of an item that no piece had."""
        if item.get("type") == CALL:
            return self._missing(TextPlace(index, _ARGUMENTS, 0), CALL, item.get("arguments"))
        return [
            event
            for name, number, content in texts_of_item(item)
            for event in self._missing(TextPlace(index, name, number), content["type"], content_text(content))
        ]

    def _missing(self, place: TextPlace, kind: str, text: object) -> list[JsonObject]:
        """Return the events with the part of a text that no earlier piece had. Raises BodyError."""
        if not isinstance(text, str | None):
            raise BodyError(place.list_name, "it must be a string, since hooks cannot inspect other types")
        begins = place not in self._texts and kind != CALL
        received = "" if text is None else str(self._texts.get(place, ""))
        if text is None:
            rest = ""
        elif text.startswith(received):
            rest = text[len(received) :]
        elif text.strip() == received.strip():  # some upstreams trim what they repeat
            rest = ""
        else:
            raise BodyError(place.list_name, _DIFFERS)
        if not rest and not (begins and text is not None):
            return []
        at: JsonObject = {"item_id": self._items[place.item], "output_index": place.item}
        self._add(place, kind, rest)
        if kind == CALL:
            return [{"type": ARGUMENTS, **at, "delta": rest}]
        named = KIND_OF_CONTENT.get(kind, KIND_OF_CONTENT["output_text"])
        at[named.number] = place.number
        field = "refusal" if kind == "refusal" else "text"
        empty: JsonObject = {"type": kind, field: ""} | ({"annotations": []} if kind == "output_text" else {})
        begun = [{"type": f"{named.part}.added", **at, "part": empty}] if begins else []
        more: JsonObject = {"logprobs": []} if kind == "output_text" else {}
        return [*begun, *([{"type": named.delta, **at, "delta": rest, **more}] if rest else [])]

    def _place(self, place: TextPlace) -> TextPlace:
        """Return the place of a text whose item is open. Raises BodyError for any other."""
        if place.item not in self._open:
            raise BodyError("output_index", "a text comes before its item, or after its end")
        if self._open[place.item] is not (place.list_name == _ARGUMENTS):
            raise BodyError("type", "the item has no such event")
        return place

    def _end_place(self, kind: str, place: TextPlace) -> TextPlace:
        """Return the place of a text that an event ends. Raises BodyError for a second one of its type."""
        if (kind, place) in self._ended:
            raise BodyError("type", "a text ends twice")
        self._ended.add((kind, place))
        return self._place(place)

    def _add(self, place: TextPlace, content: str, piece: object) -> None:
        """Add a piece of a text with the type of its content. Raises BodyError."""
        if not isinstance(piece, str | None):
            raise BodyError("delta", "it must be a string, since hooks cannot inspect other types")
        if piece and content != CALL:
            channel = TextChannel(0, thought=content in THOUGHTS)
            self._order.note([(channel, f"{self._types[place.item]} item")])
        if piece:
            latest = self._latest.get(place[:2], 0)
            if place.number < latest:
                raise BodyError(place.list_name, "a text goes on after the next one")
            self._latest[place[:2]] = place.number
        self._size += self._texts.setdefault(place, StreamedText()).append(piece or "")
        if self._size > MAX_EVENT:
            raise BodyError("", f"its texts are larger than {MAX_EVENT} bytes")


def _with_own_id(item: JsonObject, index: int) -> JsonObject:
    """Return an item with an ID, without which clients leave it out; the same object if it has one.

    Raises BodyError if the ID is not a string.
    """
    id_ = item.get("id")
    if not isinstance(id_, str | None):
        raise BodyError("item.id", "an ID must be a string")
    return item if id_ else {**item, "id": f"item_{index}"}


def _without_output(event: JsonObject) -> JsonObject:
    """Return an event at the beginning of a response without items, which other events contain."""
    response = event.get("response")
    if not isinstance(response, dict) or not response.get("output"):
        return event
    return {**event, "response": {**response, "output": []}}
