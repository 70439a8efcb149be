"""Server-sent events some of which are joined before they are judged, such as those of one function call."""

import re
from abc import abstractmethod
from itertools import chain
from typing import Any, ClassVar

import orjson

from hookgate.translator.fields import BodyError, JsonObject
from hookgate.translator.streaming.framing import (
    KEPT_ITEM,
    MAX_EVENT,
    Frame,
    Framing,
    ServerSentEvents,
    with_whole_text,
)
from hookgate.translator.strictjson import encode_answer

DONE = b"[DONE]"
"""The data of the event after the last one."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_MAX_REPAIRED = 256 * 1024
"""The size in bytes up to which lone surrogates are replaced in an event; larger ones are refused."""


class HeldEvents(ServerSentEvents):
    """Server-sent events of which some are held until they can be judged together, as one frame.

    The data of such a frame is an object with a list of the objects that were joined.
    """

    list_name: ClassVar[str]
    """The name of the list."""

    parses_events = True

    def __init__(self) -> None:
        super().__init__()
        self._held: list[Frame] = []
        self._held_bytes = 0

    @property
    def kept_bytes(self) -> int:
        return super().kept_bytes + self._held_bytes + KEPT_ITEM * len(self._held)

    def keep_alive(self) -> bytes:
        return Framing.keep_alive(self)  # the next event may begin with its name

    def reset_decoder(self) -> None:
        super().reset_decoder()
        self._held, self._held_bytes = [], 0

    def _hold(self, frame: Frame) -> None:
        """Hold a frame. Raises BodyError if the frames that are held become too large."""
        self._held.append(frame)
        self._held_bytes += len(frame.raw)
        if self._held_bytes > MAX_EVENT:
            raise BodyError("", f"one of its function calls is larger than {MAX_EVENT} bytes")

    def _release(self) -> list[Frame]:
        """Return the frames that were held, joined if there are several."""
        frames, self._held, self._held_bytes = self._held, [], 0
        if len(frames) < 2:
            return frames
        data = b",".join(frame.data for frame in frames if frame.data)
        joined = b'{"%b":[%b]}' % (self.list_name.encode(), data)
        return [Frame(b"".join(frame.raw for frame in frames), joined)]


class JoinedEvents(HeldEvents):
    """Server-sent events up to `[DONE]`. An event that is continued is judged together with the next ones."""

    def feed(self, chunk: bytes) -> list[Frame]:
        return self._joined(super().feed(chunk))

    def finish(self) -> list[Frame]:
        """Return the last frames. Raises BodyError if the stream ends in the middle of a function call."""
        frames = self._joined(super().finish())
        self._check_end(done=False)
        return [*frames, *self._release()]

    def _received(self, frame: Frame) -> list[Frame]:
        """Return a frame as it is judged and sent: as several if clients would leave out some of it."""
        return [_repaired(frame)]

    @abstractmethod
    def _is_continued(self, data: bytes) -> bool:
        """Note an event, and return whether it has to be judged with the next one. Raises BodyError."""

    @abstractmethod
    def _check_end(self, *, done: bool) -> None:
        """Raise BodyError if the stream must not end here; `done` if its end is marked."""

    def _joined(self, frames: list[Frame]) -> list[Frame]:
        out: list[Frame] = []
        for frame in chain.from_iterable(map(self._received, frames)):
            if frame.data.strip() == DONE:
                self._check_end(done=True)
                out += [*self._release(), Frame(frame.raw, b"")]
            elif self._is_continued(frame.data):
                self._hold(frame)
            elif self._held:
                self._hold(frame)
                out += self._release()
            else:
                out.append(frame)
        return out


def _repaired(frame: Frame) -> Frame:
    """Return a frame without lone surrogates; the same object if there are none, or if it is large."""
    data = frame.data
    if len(data) > _MAX_REPAIRED or not _SURROGATE.search(data) or read_frame(data):
        return frame
    return with_whole_text(frame)


def read_frame(data: bytes) -> JsonObject:
    """Return the JSON object in a frame's data, or an empty one if there is none."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def with_names(pattern: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return what matches a line with a known name, and events in canonical form that may have one."""
    canonical = rb"(?:(?:%b(?:\r\n|\n))?data: [^\r\n]*(?:\r\n\r\n|\n\n))++" % pattern
    return re.compile(pattern), re.compile(canonical)


_NAME_LINE = re.compile(rb"(?:^|[\r\n])event:[ \t]*([^\r\n]*)")


def with_own_name(frame: Frame, event: JsonObject, kind: Any) -> Frame:
    """Return a frame without a name other than `kind`, the type of its event: some clients go by the name."""
    if b"event:" not in frame.raw:
        return frame
    expected = kind.encode() if isinstance(kind, str) else b"error"
    if all(name.strip() in (expected, b"message") for name in _NAME_LINE.findall(frame.raw)):
        return frame
    return Frame(frame_event(kind, event), frame.data)


_NAME = re.compile(r"[\w.]+", re.ASCII)


def frame_event(name: Any, value: JsonObject) -> bytes:
    """Return the bytes of an event with this name. If a name could contain further lines, it is left out."""
    head = b"event: %b\n" % name.encode() if isinstance(name, str) and _NAME.fullmatch(name) else b""
    return head + b"data: %b\n\n" % encode_answer(value)
