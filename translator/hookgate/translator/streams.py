"""Streamed answers, framed as server-sent events or as a JSON array: bytes in, frames out, bytes back.

A decoder takes bytes in any chunking and gives whole frames; a frame that nobody edits goes on as the very
bytes that came. Written events follow what every Gemini client accepts: `data: <one line>` and a blank
line, nothing else.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

from hookgate.translator.errors import BodyError

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event, its framing included: inline images in a stream take a few megabytes."""

KEEP_ALIVE = b"\r\n"
"""Bytes that every client skips before, between and after the events of either framing."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it came: `raw` with its framing, `data` the JSON inside (empty for a bare comment)."""

    raw: bytes
    data: bytes


class Framing(ABC):
    """One answer's framing: decodes what the upstream sends, encodes what the client gets."""

    content_type: str

    @abstractmethod
    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes. Raises BodyError for an event larger than MAX_EVENT."""

    @abstractmethod
    def begin_anew(self) -> None:
        """Make ready for another answer from upstream, which goes on with what the client has got so far."""

    @abstractmethod
    def finish(self) -> list[Frame]:
        """What is left when the upstream has ended: a last frame whose end never came, or nothing."""

    def bare(self, frame: Frame) -> Frame:
        """The frame with nothing beside its data that could carry text."""
        return frame

    @abstractmethod
    def encode(self, frame: Frame, data: bytes) -> bytes:
        """The bytes of `frame` with `data` in it; its own bytes when the data is its own."""

    @abstractmethod
    def event(self, data: bytes) -> bytes:
        """The bytes of one more event."""

    @abstractmethod
    def end(self) -> bytes:
        """The bytes that end an answer which the upstream did not end."""


class ServerSentEvents(Framing):
    """`alt=sse`. Lines may end in LF, CR or CRLF; an event may hold comments and several data lines."""

    content_type = "text/event-stream"

    _BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
    _LINE_END = re.compile(rb"\r\n|\n|\r")
    _ENDS = (b"\n\n", b"\r\r", b"\n\r", b"\n\r\n", b"\r\r\n")

    def __init__(self) -> None:
        self._open = False  # what was passed on last lacks its blank line
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        self._buffer += chunk
        frames: list[Frame] = []
        start = 0
        while match := self._BLANK_LINE.search(self._buffer, max(start, self._searched)):
            if match.end() == len(self._buffer) and self._buffer.endswith(b"\r"):
                break  # the CR may be half of a CRLF
            frames.append(self._frame(bytes(self._buffer[start : match.end()])))
            start = self._searched = match.end()
        del self._buffer[:start]
        # A blank line may begin in the last three bytes, and be seen only with the next chunk.
        self._searched = max(len(self._buffer) - 3, 0)
        _check_size(self._buffer)
        return frames

    def begin_anew(self) -> None:
        self._buffer.clear()
        self._searched = 0

    def finish(self) -> list[Frame]:
        rest, self._buffer = bytes(self._buffer), bytearray()
        return [self._frame(rest)] if rest else []

    def _frame(self, raw: bytes) -> Frame:
        values = [
            line[5:].removeprefix(b" ") for line in self._LINE_END.split(raw) if line.startswith(b"data:")
        ]
        return Frame(raw, values[0] if len(values) == 1 else b"\n".join(values))

    def bare(self, frame: Frame) -> Frame:
        """The frame without comments, names and ids of events; an empty comment where it had no data."""
        lines = frame.raw.splitlines(keepends=True)
        kept = [line for line in lines if line.startswith((b"data:", b"\r", b"\n"))]
        if len(kept) == len(lines):
            return frame
        if not any(line.startswith(b"data:") for line in kept):
            return Frame(b":\r\n\r\n", b"")
        return Frame(b"".join(kept), frame.data)

    def encode(self, frame: Frame, data: bytes) -> bytes:
        if data is not frame.data:
            return self.event(data)
        self._open = not frame.raw.endswith(self._ENDS)
        return frame.raw

    def event(self, data: bytes) -> bytes:
        end = b"\r\n\r\n" if self._open else b""
        self._open = False
        return end + b"data: " + data + b"\r\n\r\n"

    def end(self) -> bytes:
        return b""


class JsonArray(Framing):
    """Without `alt`: one JSON array, its elements streamed as they come."""

    content_type = "application/json"

    # Inside a string only its end matters; outside, what opens or closes. Both skip the rest in C.
    _STRUCTURE = re.compile(rb'["\[\]{},]')
    _STRING_END = re.compile(rb'\\.|"', re.DOTALL)

    def __init__(self) -> None:
        self._sent = False
        self._closed = False  # the closing bracket was passed on
        self.begin_anew()

    def begin_anew(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # how far the buffer was scanned
        self._depth = 0
        self._in_string = False
        self._element: int | None = None  # where the current element begins in the buffer
        self._ended = False  # the closing bracket came

    def feed(self, chunk: bytes) -> list[Frame]:
        self._buffer += chunk
        frames: list[Frame] = []
        while mark := self._next_mark():
            if frame := self._mark(mark, self._at - 1):
                frames.append(frame)
        _check_size(self._buffer)
        return frames

    def _next_mark(self) -> bytes | None:
        """The next structural byte outside strings, with `_at` behind it; None at the buffer's end."""
        while True:
            pattern = self._STRING_END if self._in_string else self._STRUCTURE
            match = pattern.search(self._buffer, self._at)
            if match is None:
                # A backslash at the very end waits for the byte it escapes.
                escaped = self._in_string and self._buffer.endswith(b"\\") and self._at < len(self._buffer)
                self._at = len(self._buffer) - (1 if escaped else 0)
                return None
            self._at = match.end()
            if match[0] == b'"':
                self._in_string = not self._in_string
            elif not self._in_string:
                return match[0]

    def _mark(self, mark: bytes, position: int) -> Frame | None:
        if mark in (b"[", b"{"):
            self._depth += 1
            if self._depth == 1 and mark != b"[":
                raise BodyError("", "the streamed answer is not a JSON array")
            if self._depth == 2:
                self._element = position
        elif mark in (b"]", b"}"):
            self._depth -= 1
            if self._depth == 1:
                return self._cut(position + 1)
            if self._depth == 0:
                self._ended = True
        return None

    def _cut(self, end: int) -> Frame:
        """The element that ends here, with the bracket or comma that came before it."""
        raw = bytes(self._buffer[:end])
        frame = Frame(raw, raw[self._element :])
        del self._buffer[:end]
        self._at, self._element = 0, None
        return frame

    def finish(self) -> list[Frame]:
        rest, self._buffer, self._at = bytes(self._buffer), bytearray(), 0
        return [Frame(rest, b"")] if rest else []

    def encode(self, frame: Frame, data: bytes) -> bytes:
        # The bracket or comma before the data is wrong here once an event was dropped or added before it.
        fits = frame.raw.lstrip().startswith(b"[") is not self._sent
        if data is not frame.data or (data and not fits):
            return self.event(data)
        end = self.end()
        self._sent = self._sent or bool(data)
        self._closed = self._ended and not data
        return end if self._closed and not fits else frame.raw

    def event(self, data: bytes) -> bytes:
        head = b"," if self._sent else b"["
        self._sent = True
        return head + data

    def end(self) -> bytes:
        return b"" if self._closed else (b"]" if self._sent else b"[]")


def _check_size(unfinished: bytearray) -> None:
    """Raises BodyError for an event that is too large to go on waiting for its end."""
    if len(unfinished) > MAX_EVENT:
        raise BodyError("", f"an event of it is larger than {MAX_EVENT} bytes")
