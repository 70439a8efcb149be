"""The framing of a streamed interaction: server-sent events with names, and `[DONE]` at the end.

The events of a call are joined to one frame, because a call is judged with all of its arguments. So are the
events of steps that overlap. Other events pass one by one.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from hookgate.translator.fields import BodyError, JsonObject, read_object
from hookgate.translator.interactions.events import NEXT, interaction_events, with_deltas
from hookgate.translator.interactions.steps import is_call_of_client
from hookgate.translator.streaming.framing import Frame, ServerSentEvents
from hookgate.translator.streaming.joining import (
    DONE,
    JoinedEvents,
    frame_event,
    read_frame,
    with_names,
    with_own_name,
)
from hookgate.translator.strictjson import encode_answer

_END = b"event: done\ndata: %b\n\n" % DONE
_NAMES = rb"event: ?(?:interaction\.[a-z_]+|step\.[a-z_]+|error|done)[ \t]*"


_MAX_HEAD = 1024 * 1024

_KEPT_NUMBER = 128
"""The estimated memory of a kept number in bytes."""


async def first_event(read: Callable[[], Awaitable[bytes]]) -> tuple[bytes, JsonObject]:
    """Return the bytes of a stream up to its first event, which is also returned; empty if there is none.

    `read` returns the next bytes, or none at the end. Raises BodyError if too much comes before the event.
    """
    framing, data = ServerSentEvents(), bytearray()
    while chunk := await read():
        data += chunk
        for frame in framing.feed(chunk):
            if frame.data.strip():
                return bytes(data), read_frame(frame.data)
        if len(data) > _MAX_HEAD:
            raise BodyError("", f"its first {_MAX_HEAD} bytes contain no event")
    return bytes(data), {}


class InteractionEvents(JoinedEvents):
    """The events of one interaction, or of several in a row that the client receives as one."""

    list_name = "events"
    _NAME, _CANONICAL = with_names(_NAMES)

    def __init__(self, after: str = "") -> None:
        """With `after`, the client receives only what follows the event with this ID."""
        super().__init__()
        self._after, self._reached = after, not after
        self.changes_frames = bool(after)
        self._passed: set[int] = set()  # the hashes of the IDs of events up to that one
        self._open: dict[int, bool] = {}  # steps that have begun, and whether they are calls
        self._stopped: set[int] = set()
        self._called = False  # whether the model has called a function
        self._began: JsonObject | None = None  # the interaction that the client knows to have begun
        self._started: set[int] = set()  # the steps that have begun for the client, and not ended
        self._calls = 0  # function calls that the client has received
        self._next = self._offset = 0  # the next free index of a step, and that of this answer's first step
        self._client_indexes: dict[int, int] = {}  # the client's index of each step of this answer

    def reset_decoder(self) -> None:
        super().reset_decoder()
        self._open = {}
        self._stopped.clear()
        self._offset, self._client_indexes = self._next, {}

    @property
    def kept_bytes(self) -> int:
        numbers = (self._passed, self._open, self._stopped, self._started, self._client_indexes)
        return super().kept_bytes + _KEPT_NUMBER * sum(map(len, numbers))

    # ---- from the upstream

    def _joined(self, frames: list[Frame]) -> list[Frame]:
        return super()._joined([_checked(frame) for frame in frames])

    def _received(self, frame: Frame) -> list[Frame]:
        [frame] = super()._received(frame)
        event = read_frame(frame.data)
        events = with_deltas(event)
        return [frame] if events[0] is event else [Frame(_framed(e), encode_answer(e)) for e in events]

    def _check_end(self, *, done: bool) -> None:
        if any(self._open.values()):
            raise BodyError("", "it ends in the middle of a function call")

    def _is_continued(self, data: bytes) -> bool:
        self._note_received(data)
        return len(self._open) > 1 or any(self._open.values())

    def _note_received(self, data: bytes) -> None:
        """Note which steps are open. Raises BodyError for what is not an event, or comes after its step."""
        event = read_frame(data)
        if not self._reached and isinstance(id_ := event.get("event_id"), str):
            self._passed.add(hash(id_))
            self._reached = id_ == self._after
        kind, index = event.get("event_type"), event.get("index")
        if not isinstance(event.get("event_id"), str | None):
            raise BodyError("event_id", "the ID of an event must be a string")
        if type(index) is not int or index < 0:
            if kind in ("step.start", "step.delta"):
                raise BodyError("index", "an index must be an integer, and not negative")
            return
        if kind == "step.delta" and index in self._stopped:
            raise BodyError("index", "a step continues after its end")
        if kind == "step.start":
            step = read_object(event, "step")
            self._open[index] = str(step.get("type")).endswith("_call")
            self._called = self._called or is_call_of_client(step)
        elif kind == "step.delta" and index not in self._open:
            raise BodyError("index", "a step continues before its beginning")
        elif kind == "step.stop":
            self._open.pop(index, None)
            self._stopped.add(index)

    # ---- to the client

    @property
    def is_skipping(self) -> bool:
        """Whether the event after which the client's stream begins has not been received."""
        return not self._reached

    def encode(self, frame: Frame, data: bytes) -> bytes:
        if self._after:
            return self._resumed(frame, data)
        if not data:
            return super().encode(frame, data)
        events = _events_in(data)
        new = [each for each in map(self._client_event, events) if each is not None]
        if data is frame.data and len(new) == len(events) and all(map(_is, new, events)):
            return super().encode(frame, data)
        return self._missing_end() + b"".join(map(_framed, new))

    def _resumed(self, frame: Frame, data: bytes) -> bytes:
        """Return what follows the last event that the client has received, or nothing before that.

        Hooks may have changed the frame, but its original events show where it was in the stream.
        """
        events = _events_in(data)
        new = [self._client_event(event) for event in events]
        failed = [number for number, event in enumerate(events) if event.get("error") is not None]
        originals = [event for event in _events_in(frame.data) if "event_id" in event]
        if self._reached and (frame.raw.strip().endswith(DONE) or not all(map(self._has_passed, originals))):
            passed = [number for number, event in enumerate(events) if self._has_passed(event)]
            first = passed[-1] + 1 if passed else 0
        elif failed:
            first = failed[0]
        else:
            return b""
        self._after, self._reached = "", True
        if not data:
            return super().encode(frame, data)
        return b"".join(_framed(event) for event in new[first:] if event is not None)

    def _has_passed(self, event: JsonObject) -> bool:
        """Return whether the client has received an event with this ID, or one after it."""
        id_ = event.get("event_id")
        return isinstance(id_, str) and hash(id_) in self._passed

    def event(self, data: bytes) -> bytes:
        """Return the bytes of an event, or those of all events of a whole interaction and their end."""
        body = read_frame(data)
        ends = [{"event_type": "step.stop", "index": index} for index in sorted(self._started)]
        self._started.clear()
        if self._began is not None:
            body = body if "event_type" in body else {**body, **self._began}
            self._offset, self._client_indexes = self._next, {}
        events = [body] if "event_type" in body else interaction_events(body)
        new = [*ends, *(each for each in map(self._client_event, events) if each is not None)]
        return self._missing_end() + b"".join(map(_framed, new)) + _END

    def _client_event(self, event: JsonObject) -> JsonObject | None:
        """Note an event that is sent, and return it as it has to be sent; None if it is not sent."""
        kind = event.get("event_type")
        if kind == "interaction.created":
            if self._began is not None:
                return None
            begun = read_object(event, "interaction")
            self._began = {key: begun[key] for key in ("id", "model", "agent") if key in begun}
            return event
        index = event.get("index")
        if type(index) is int and (client_index := self._client_index(index, kind)) != index:
            event = {**event, "index": client_index}
        self._note_sent(event)
        if kind == "step.start":
            self._calls += is_call_of_client(read_object(event, "step"))
        return self._with_status(event) if self._called and not self._calls else event

    def _note_sent(self, event: JsonObject) -> None:
        """Note which steps the client has to consider open."""
        kind, index = event.get("event_type"), event.get("index")
        if type(index) is int and kind == "step.start":
            self._started.add(index)
        elif type(index) is int and kind == "step.stop":
            self._started.discard(index)

    def _client_index(self, index: int, kind: Any) -> int:
        """Return the client's index of a step. It differs after added steps and after another answer."""
        if kind == "step.start":
            client_index = self._next if index == NEXT else max(index + self._offset, self._next)
            self._client_indexes[index], self._next = client_index, client_index + 1
        return self._client_indexes.get(index, index + self._offset)

    def _with_status(self, event: JsonObject) -> JsonObject:
        """Return an event without the status that waits for function calls, because all were refused."""
        if event.get("status") == "requires_action":
            return {**event, "status": "completed"}
        interaction = read_object(event, "interaction")
        if interaction.get("status") == "requires_action":
            return {**event, "interaction": {**interaction, "status": "completed"}}
        return event


def _checked(frame: Frame) -> Frame:
    """Return a frame that is not plain, so that it is encoded, which notes what the client has received.

    Raises BodyError if its data is neither an event nor an error.
    """
    data = frame.data.strip()
    event = read_frame(data)
    kind = event.get("event_type")
    if data and data != DONE and not isinstance(kind, str) and event.keys() != {"error"}:
        raise BodyError("", "an event is not a JSON object with an event_type")
    return with_own_name(Frame(frame.raw, frame.data), event, kind) if event else Frame(frame.raw, frame.data)


def _events_in(data: bytes) -> list[JsonObject]:
    """Return the events in the data of a frame, which are several if they were joined."""
    value = read_frame(data)
    if "event_type" in value or "events" not in value:
        return [value] if value else []
    return [event for event in value["events"] if isinstance(event, dict)]


def _is(new: Any, old: Any) -> bool:
    return new is old


def _framed(event: JsonObject) -> bytes:
    return frame_event(event.get("event_type"), event)
