"""The framing of a streamed interaction: server-sent events with names, and `[DONE]` at the end.

The events of a call are joined to one frame, because a call is judged with all of its arguments. So are the
events of steps that overlap. Other events pass one by one.
"""

import re
from typing import Any

import orjson

from hookgate.translator.fields import BodyError, JsonObject, read_object
from hookgate.translator.interactions.events import NEXT, interaction_events
from hookgate.translator.streaming.framing import MAX_EVENT, Frame, ServerSentEvents
from hookgate.translator.strictjson import dumps

_DONE = b"[DONE]"
_END = b"event: done\ndata: [DONE]\n\n"
_NAME = re.compile(rb"event: ?(?:interaction\.[a-z_]+|step\.[a-z_]+|error|done)[ \t]*(?:\r\n|\n|\r)?")


class InteractionEvents(ServerSentEvents):
    """The events of one interaction, or of several in a row that the client receives as one."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[int, bool] = {}  # steps that have begun, and whether they are calls
        self._stopped: set[int] = set()
        self._held: list[Frame] = []
        self._held_bytes = 0
        self._called = False  # whether the model has called a function
        self._began = False  # whether the client has received interaction.created
        self._calls = 0  # function calls that the client has received
        self._next = self._offset = 0  # the next free index of a step, and that of this answer's first step
        self._places: dict[int, int] = {}  # the client's index of each step of this answer

    def begin_anew(self) -> None:
        super().begin_anew()
        self._open, self._held, self._held_bytes = {}, [], 0
        self._stopped.clear()
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
            if frame.data.strip() == _DONE:
                out += [*self._release(), Frame(frame.raw, b"")]
                continue
            self._note_received(frame.data)
            self._held.append(Frame(frame.raw, frame.data))
            self._held_bytes += len(frame.raw)
            if self._held_bytes > MAX_EVENT:
                raise BodyError("", f"a function call of it is larger than {MAX_EVENT} bytes")
            if len(self._open) < 2 and not any(self._open.values()):
                out += self._release()
        return out

    def _release(self) -> list[Frame]:
        held, self._held, self._held_bytes = self._held, [], 0
        if any(self._open.values()):
            raise BodyError("", "it ends in the middle of a function call")
        if len(held) < 2:
            return held
        data = b",".join(frame.data for frame in held if frame.data)
        return [Frame(b"".join(frame.raw for frame in held), b'{"events":[' + data + b"]}")]

    def _note_received(self, data: bytes) -> None:
        """Note which steps are open. Raises BodyError for what is not an event, or comes after its step."""
        event = _read(data)
        if not event and data.strip():  # events are joined before they are judged
            raise BodyError("", "an event is not a JSON object")
        kind, index = event.get("event_type"), event.get("index")
        if type(index) is not int:
            return
        if kind == "step.delta" and index in self._stopped:
            raise BodyError("index", "a step continues after its end")
        if kind == "step.start":
            kind = str(read_object(event, "step").get("type"))
            self._open[index] = kind.endswith("_call")
            self._called = self._called or kind == "function_call"
        elif kind == "step.delta" and index not in self._open:  # as in a stream that was resumed
            self._open[index] = read_object(event, "delta").get("type") == "arguments_delta"
        elif kind == "step.stop":
            self._open.pop(index, None)
            self._stopped.add(index)

    # ---- to the client

    def bare(self, frame: Frame) -> Frame:
        """Return the frame without comments and ids, and without names that the API does not document."""
        lines = frame.raw.splitlines(keepends=True)
        kept = [line for line in lines if line.startswith((b"data:", b"\r", b"\n")) or _NAME.fullmatch(line)]
        if len(kept) == len(lines):
            return frame
        if not any(line.startswith(b"data:") for line in kept):
            return Frame(b":\n\n", b"")
        return Frame(b"".join(kept), frame.data)

    def encode(self, frame: Frame, data: bytes) -> bytes:
        if not data:
            return super().encode(frame, data)
        value = _read(data)
        events = value["events"] if "event_type" not in value and "events" in value else [value]
        new = [each for each in map(self._sent, events) if each is not None]
        if data is frame.data and len(new) == len(events) and all(map(_is, new, events)):
            return super().encode(frame, data)
        return self._missing_end() + b"".join(map(_framed, new))

    def event(self, data: bytes) -> bytes:
        """Return the bytes of an event, or those of all events of a whole interaction and their end."""
        body = _read(data)
        events = [body] if "event_type" in body else interaction_events(body)
        if self._began:
            self._offset, self._places = self._next, {}
        new = [each for each in map(self._sent, events) if each is not None]
        return self._missing_end() + b"".join(map(_framed, new)) + _END

    def _sent(self, event: JsonObject) -> JsonObject | None:
        """Note an event that is sent, and return it as it has to be sent; None if it is not sent."""
        kind = event.get("event_type")
        if kind == "interaction.created":
            again, self._began = self._began, True
            return None if again else event
        index = event.get("index")
        if type(index) is int and (place := self._place(index, kind)) != index:
            event = {**event, "index": place}
        if kind == "step.start":
            self._calls += read_object(event, "step").get("type") == "function_call"
        return self._with_status(event) if self._called and not self._calls else event

    def _place(self, index: int, kind: Any) -> int:
        """Return the client's index of a step. It differs after added steps and after another answer."""
        if kind == "step.start":
            place = self._next if index == NEXT else max(index + self._offset, self._next)
            self._places[index], self._next = place, place + 1
        return self._places.get(index, index + self._offset)

    def _with_status(self, event: JsonObject) -> JsonObject:
        """Return an event without the status that waits for function calls, because all were refused."""
        if event.get("status") == "requires_action":
            return {**event, "status": "completed"}
        interaction = read_object(event, "interaction")
        if interaction.get("status") == "requires_action":
            return {**event, "interaction": {**interaction, "status": "completed"}}
        return event


def _read(data: bytes) -> JsonObject:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _is(new: Any, old: Any) -> bool:
    return new is old


def _framed(event: JsonObject) -> bytes:
    name = str(event.get("event_type", "")).encode()
    return b"event: " + name + b"\ndata: " + dumps(event) + b"\n\n"
