"""Decodes and encodes streamed answers, which are server-sent events or a JSON array.

A decoder accepts chunks of any size and returns complete frames. The data of an unedited frame is encoded as
the same bytes. New events have the form that all Gemini clients accept: `data: <one line>` and a blank line.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from hookgate.translator.fields import BodyError, JsonObject
from hookgate.translator.strictjson import with_whole_characters

MAX_EVENT = 16 * 1024 * 1024
"""The maximum size of an event in bytes, including its framing. Inline images may have a few megabytes."""

KEPT_ITEM = 512
"""The estimated memory in bytes of what is kept of an item, a text, a call or an event, besides text."""

MAX_LINES = 1_000
"""The maximum number of lines of an event: each takes time. Nearly all events have two or three."""

_LONGEST_SILENCE = 64 * 1024
"""The size in bytes up to which a text is recognized as comments and blank lines that belong to no event."""


@dataclass(slots=True)  # frozen ones take longer to create, for each event of a stream
class Frame:
    """One event as received: `raw` with its framing, `data` the JSON inside (empty for a bare comment)."""

    raw: bytes
    data: bytes
    is_plain: bool = field(default=False, compare=False)
    """Whether `raw` is `data: `, the data on one line, and a blank line, as in nearly all events."""
    is_bare: bool = field(default=False, compare=False)
    """Whether it is an error without any framing, which is sent without framing, too."""


def with_whole_text(frame: Frame) -> Frame:
    """Return a frame with U+FFFD in place of each lone surrogate; the same object if there are none."""
    if (data := with_whole_characters(frame.data)) is frame.data:
        return frame
    if frame.data in frame.raw:  # as in nearly all frames: looking for surrogates takes long
        return Frame(frame.raw.replace(frame.data, data, 1), data)
    return Frame(with_whole_characters(frame.raw), data)


class Framing(ABC):
    """One answer's framing: decodes what the upstream sends, encodes what the client gets."""

    content_type: str
    lacks_blank_line = False
    """Whether the last frame that was encoded lacks its blank line, so that the next one has to add it."""

    changes_frames = False
    """Whether the client gets other frames than the upstream sends, even if no hook judges the answer."""

    parses_events = False
    """Whether events are parsed when they are received and encoded, which takes long for large ones."""

    @abstractmethod
    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that `chunk` completes.

        Raises BodyError if an event exceeds MAX_EVENT or MAX_LINES.
        """

    @property
    @abstractmethod
    def is_in_event(self) -> bool:
        """Whether only a part of the latest event has been received."""

    @property
    @abstractmethod
    def kept_bytes(self) -> int:
        """The estimated memory of what is kept: an incomplete event, and what later events refer to."""

    def may_grow(self, body: JsonObject) -> bool:
        """Return whether an event may be sent with the texts of earlier ones: `kept_bytes` or more."""
        return False

    @abstractmethod
    def reset_decoder(self) -> None:
        """Discard the state of decoding, for another upstream answer. The client's stream continues."""

    @abstractmethod
    def finish(self) -> list[Frame]:
        """Return the last frame if the upstream ended without completing it, or an empty list.

        Raises BodyError if it exceeds MAX_LINES.
        """

    def canonical(self, frame: Frame) -> Frame | None:
        """Return a frame in the form that all clients read alike; the same object if it has it.

        Returns None for a frame that has only what no client needs.
        """
        return frame

    @abstractmethod
    def encode(self, frame: Frame, data: bytes) -> bytes:
        """Return the bytes of `frame` with `data` in it, or its original bytes if the data is unchanged."""

    @abstractmethod
    def event(self, data: bytes) -> bytes:
        """Return the bytes of an additional event."""

    def error(self, data: bytes) -> bytes:
        """Return the bytes of an error with which the stream ends. `data` is JSON on one line."""
        return self.event(data)

    @abstractmethod
    def end(self) -> bytes:
        """Return the bytes that complete an answer which the upstream did not complete."""

    def keep_alive(self) -> bytes:
        """Return bytes that can be sent before, between and after events, and mean nothing to the client."""
        return b"\r\n"

    def after_keep_alive(self, data: bytes) -> bytes:
        """Return the next bytes of the stream, which are empty at its end, as they follow any keep-alives."""
        return data


class ServerSentEvents(Framing):
    """`alt=sse`. Lines may end in LF, CR or CRLF; an event may contain comments and several data lines.

    Comments and blank lines that follow each other are one frame, because an upstream may send very many.

    Several data lines are forwarded as one, because a client that ignores some of them would read a different
    answer.

    A keep-alive is the beginning of the next event, or a space before its JSON. Some clients fail on bytes
    besides events, and others on events without content.
    """

    content_type = "text/event-stream"

    _FIELD = b"data:"
    _BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
    _SILENT = re.compile(rb"(?::[^\r\n]*|[\r\n]+)*+")
    _ENDS = (b"\n\n", b"\r\r", b"\n\r", b"\n\r\n", b"\r\r\n")
    _NAME = re.compile(rb"(?!)")
    """Matches a line with the name of an event that clients know."""
    _CANONICAL = re.compile(rb"(?:data: [^\r\n]*(?:\r\n\r\n|\n\n))++")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._ends = 0  # the CRs and LFs in the buffer
        self._begun: bytes | None = None  # the first bytes of the event that a keep-alive has begun, if any

    def feed(self, chunk: bytes) -> list[Frame]:
        if not self._buffer and chunk.startswith(b"data: ") and chunk.endswith(b"\r\n\r\n"):
            events = chunk[6:-4].split(b"\r\n\r\ndata: ")
            if chunk.count(b"\n") == chunk.count(b"\r") == 2 * len(events):  # as in nearly all chunks
                if len(events) == 1:
                    return [Frame(chunk, events[0], is_plain=True)]
                return [Frame(b"data: %b\r\n\r\n" % data, data, is_plain=True) for data in events]
        self._buffer += chunk
        frames: list[Frame] = []
        start = silent = 0  # where the next event begins, and the comments and blank lines before it
        while match := self._BLANK_LINE.search(self._buffer, max(start, self._searched)):
            if match.end() == len(self._buffer) and self._buffer.endswith(b"\r"):
                break  # the CR may be half of a CRLF
            raw = bytes(self._buffer[start : match.end()])
            _check_lines(raw)
            if len(raw) > _LONGEST_SILENCE or not self._SILENT.fullmatch(raw):
                if silent < start:
                    frames.append(Frame(bytes(self._buffer[silent:start]), b""))
                frames.append(self._frame(raw))
                silent = match.end()
            start = self._searched = match.end()
        if silent < start:
            frames.append(Frame(bytes(self._buffer[silent:start]), b""))
        del self._buffer[:start]
        if start:
            chunk, self._ends = bytes(self._buffer), 0
        # A blank line may begin in the last three bytes and be completed by the next chunk.
        self._searched = max(len(self._buffer) - 3, 0)
        if self._buffer:
            _check_size(self._buffer)
            self._ends += chunk.count(b"\n") + chunk.count(b"\r")
            if self._ends > 2 * MAX_LINES:  # a line may end in both
                raise _too_many_lines()
        return frames

    @property
    def is_in_event(self) -> bool:
        return bool(self._buffer)

    @property
    def kept_bytes(self) -> int:
        return len(self._buffer)

    def reset_decoder(self) -> None:
        self._buffer.clear()
        self._searched = self._ends = 0

    def finish(self) -> list[Frame]:
        rest, self._buffer = bytes(self._buffer), bytearray()
        _check_lines(rest)
        return [self._frame(rest)] if rest else []

    def _frame(self, raw: bytes) -> Frame:
        if raw.startswith(b"data: ") and raw.endswith(b"\r\n\r\n"):
            data = raw[6:-4]
            if b"\n" not in data and b"\r" not in data:
                return Frame(raw, data, is_plain=True)
        values: list[bytes] = []
        for line in raw.splitlines():
            if line.startswith(b"data:"):
                values.append(line[5:].removeprefix(b" "))  # noqa: PERF401  # a loop makes no function call
        if len(values) > 1:  # a line end is whitespace between JSON tokens; inside a string it is invalid
            return Frame(b"data: " + b" ".join(values) + b"\r\n\r\n", b"\n".join(values))
        return Frame(raw, values[0] if values else b"")

    def canonical(self, frame: Frame) -> Frame | None:
        """Return the frame with one line of JSON after `data: ` for each event, and its name if it is known.

        Clients ignore some events that have an ID, a comment or an unknown name, or no space after `data:`.
        """
        if self._CANONICAL.fullmatch(frame.raw):
            return frame
        events: list[bytes] = []
        for event in self._BLANK_LINE.split(frame.raw):
            lines = event.splitlines()
            if values := [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]:
                names = [line + b"\r\n" for line in lines if self._NAME.fullmatch(line)]
                events.append(b"".join([*names[-1:], b"data: ", b" ".join(values), b"\r\n\r\n"]))
        return Frame(b"".join(events), frame.data) if events else None

    def encode(self, frame: Frame, data: bytes) -> bytes:
        if frame.is_bare:
            return self._missing_end() + data
        if data is not frame.data:
            return self.event(data)
        end = self._missing_end()
        self.lacks_blank_line = not frame.raw.endswith(self._ENDS)
        return end + frame.raw

    def event(self, data: bytes) -> bytes:
        return self.error(data)

    def error(self, data: bytes) -> bytes:
        return self._missing_end() + b"data: " + data + b"\r\n\r\n"

    def keep_alive(self) -> bytes:
        if self._begun is not None:
            return b" "
        self._begun = b""
        return self._missing_end() + self._FIELD + b" "

    def after_keep_alive(self, data: bytes) -> bytes:
        if self._begun is None:
            return data
        begun = self._begun + data
        event = begun.lstrip(b"\r\n")
        if data and self._FIELD.startswith(event):
            self._begun = begun  # the rest of the field's name follows
            return b""
        self._begun = None
        return event.removeprefix(self._FIELD) if event.startswith(self._FIELD) else b"{}\r\n\r\n" + begun

    def _missing_end(self) -> bytes:
        end, self.lacks_blank_line = b"\r\n\r\n" if self.lacks_blank_line else b"", False
        return end

    def end(self) -> bytes:
        return b""


class JsonArray(Framing):
    """The framing without `alt`: a JSON array whose elements are streamed."""

    content_type = "application/json"

    # Inside a string only its end matters; outside, only brackets, braces and commas.
    _STRUCTURE = re.compile(rb'["\[\]{},]')
    _STRING_END = re.compile(rb'\\.|"', re.DOTALL)

    def __init__(self) -> None:
        self._sent = False
        self._closed = False  # whether the closing bracket was sent
        self.reset_decoder()

    @property
    def is_in_event(self) -> bool:
        return bool(self._buffer)

    @property
    def kept_bytes(self) -> int:
        return len(self._buffer)

    def reset_decoder(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # the offset up to which the buffer was scanned
        self._depth = 0
        self._in_string = False
        self._element: int | None = None  # the offset of the current element in the buffer
        self._ended = False  # whether the closing bracket was received

    def feed(self, chunk: bytes) -> list[Frame]:
        self._buffer += chunk
        frames: list[Frame] = []
        while mark := self._next_mark():
            if frame := self._mark(mark, self._at - 1):
                frames.append(frame)
        _check_size(self._buffer)
        return frames

    def _next_mark(self) -> bytes | None:
        """Return the next structural byte outside strings, or None at the end, and set `_at` after it."""
        while True:
            pattern = self._STRING_END if self._in_string else self._STRUCTURE
            match = pattern.search(self._buffer, self._at)
            if match is None:
                # A backslash at the end is scanned again with the byte that it escapes.
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
        """Return the element that ends at `end`, with the bracket or comma before it."""
        raw = bytes(self._buffer[:end])
        frame = Frame(raw, raw[self._element :])
        del self._buffer[:end]
        self._at, self._element = 0, None
        return frame

    def finish(self) -> list[Frame]:
        rest, self._buffer, self._at = bytes(self._buffer), bytearray(), 0
        return [Frame(rest, b"")] if rest else []

    def encode(self, frame: Frame, data: bytes) -> bytes:
        # The bracket or comma before the data is wrong if an event was dropped or added before it.
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
    """Raise BodyError if an incomplete event is too large."""
    if len(unfinished) > MAX_EVENT:
        raise BodyError("", f"one of its events is larger than {MAX_EVENT} bytes")


def _check_lines(event: bytes) -> None:
    """Raise BodyError if an event has too many lines."""
    ends = event.count(b"\n") + event.count(b"\r")
    if ends > MAX_LINES and ends - event.count(b"\r\n") > MAX_LINES:
        raise _too_many_lines()


def _too_many_lines() -> BodyError:
    return BodyError("", f"one of its events has more than {MAX_LINES} lines")
