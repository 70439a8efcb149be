"""The memory of the messages that clients send over WebSockets, from their first byte until they are sent on.

aiohttp collects the frames of a message until it is complete. A client may leave large messages unfinished on
many connections, so the bytes are counted like those of bodies.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from hookgate.proxy.server.memory import MemoryLease

MAX_MESSAGE = 16 * 1024 * 1024
"""The maximum message size in both directions, in bytes."""

UNCOUNTED = 64 * 1024
"""Bytes of each connection that are not counted: small messages pass even while memory is short."""

_CHUNK_BYTES = 64
"""The estimated memory of a chunk besides its data: a client may send a message byte by byte."""

_MAX_UNFINISHED = 2 * MAX_MESSAGE
"""The maximum size of a message with its frames and chunks. `MAX_MESSAGE` does not count empty frames."""

_FRAMES, _BYTES_PER_FRAME = 64, 64
"""The frames that a message may have, and one more for so many of its bytes: each takes some microseconds."""

_CONTROL = 0x8
_ENDS, _MASKED = 0x80, 0x80
_LENGTH_BYTES = {126: 2, 127: 8}


class FrameParser(Protocol):
    """The part of aiohttp's parser of frames that a connection uses."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]: ...

    def feed_eof(self) -> None: ...


class MessageSizes:
    """Follows the frames of a WebSocket, without their content."""

    def __init__(self) -> None:
        self.unfinished = 0
        """The bytes received of a message that has not ended, with its frames."""
        self.has_too_many_frames = False
        """Whether a message has so many frames for its size that nothing more is read."""
        self._is_open = False  # whether a message has begun and not ended
        self._frames = 0  # of the message that has not ended
        self._head = bytearray()
        self._left = 0  # bytes of the current frame's payload that are missing

    def feed(self, data: bytes) -> list[int]:
        """Note the next bytes, which may be cut anywhere. Returns the sizes of messages that end in them."""
        at, ended = 0, list[int]()
        self.unfinished += _CHUNK_BYTES
        while at < len(data) and not self.has_too_many_frames:
            if not self._left and not self._head and (end := _end_of_small_frame(data, at)):
                self.unfinished += end - at
                self._end_frame(data[at], ended)
                at = end
                continue
            if self._left:
                size = min(self._left, len(data) - at)
                self._left -= size
            else:  # by what is missing, not by bytes: a client may send nothing but heads
                size = min(_head_size(self._head) - len(self._head), len(data) - at)
                self._head += data[at : at + size]
                self._left = _payload_size(self._head)
            at += size
            self.unfinished += size
            if self._left == 0 and len(self._head) == _head_size(self._head):
                first = self._head[0]
                self._head.clear()
                self._end_frame(first, ended)
        return ended

    def _end_frame(self, first: int, ended: list[int]) -> None:
        """End a frame with this first byte. If it ends a message, append the message's size to `ended`."""
        self._frames += 1
        self.has_too_many_frames = self._frames > _FRAMES + self.unfinished // _BYTES_PER_FRAME
        if not first & _CONTROL:
            self._is_open = not first & _ENDS
            if not self._is_open:
                ended.append(self.unfinished)
        if not self._is_open:
            self.unfinished = self._frames = 0


def _end_of_small_frame(data: bytes, at: int) -> int:
    """Return where a frame ends that begins at `at`, or 0 if it is large or has not arrived completely.

    A client may send tens of thousands of such frames at once.
    """
    if at + 2 > len(data):
        return 0
    second = data[at + 1]
    short = second & ~_MASKED
    end = at + 2 + short + (4 if second & _MASKED else 0)
    return end if short not in _LENGTH_BYTES and end <= len(data) else 0


def _head_size(head: bytearray) -> int:
    """Return the size of a frame's head in bytes, of which there may be only a part."""
    if len(head) < 2:
        return 2
    return 2 + _LENGTH_BYTES.get(head[1] & ~_MASKED, 0) + (4 if head[1] & _MASKED else 0)


def _payload_size(head: bytearray) -> int:
    """Return the size of a frame's payload in bytes; 0 until its head is complete."""
    if len(head) < _head_size(head):
        return 0
    short = head[1] & ~_MASKED
    return int.from_bytes(head[2 : 2 + _LENGTH_BYTES[short]]) if short in _LENGTH_BYTES else short


Receive = Callable[[str | bytes], Awaitable[None]]


_NO_MEMORY = "hookgate has no memory for this message now; try again later, or raise limits.memory"
_TOO_MANY_PIECES = "The message is too large, or has too many frames."
_TOO_SLOW = "The message arrived too slowly while other requests waited for memory."


class IncomingMessages:
    """Passes what a client sends to the parser of frames while there is memory for it."""

    def __init__(self, parser: FrameParser, memory: MemoryLease) -> None:
        self._parser, self._memory = parser, memory
        self._sizes = MessageSizes()
        self._ended: deque[int] = deque()  # the sizes of the messages that have not been processed
        self._ended_bytes = 0
        self._slow_timer: asyncio.TimerHandle | None = None  # of the message that has not ended
        self._refused = asyncio.Event()
        self._reason = ""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Count the next bytes and pass them on. Without memory for them, nothing more is received."""
        if self._refused.is_set():
            return False, b""
        ended = self._sizes.feed(data)
        self._ended += ended
        self._ended_bytes += sum(ended)
        if ended:
            self._stop_timer()
        if self._sizes.unfinished > _MAX_UNFINISHED or self._sizes.has_too_many_frames:
            self._refuse(_TOO_MANY_PIECES)
            return False, b""
        if not self._memory.grow(self._counted_bytes()):
            self._refuse(_NO_MEMORY)
            return False, b""
        if self._slow_timer is None and self._sizes.unfinished > UNCOUNTED:
            self._check_pace(first=True)
        return self._parser.feed_data(data)

    def feed_eof(self) -> None:
        """Note that the connection has ended."""
        self._stop_timer()
        self._parser.feed_eof()

    async def refusal(self) -> str:
        """Wait until nothing more is received, and return the reason."""
        await self._refused.wait()
        return self._reason

    def counted(self, receive: Receive) -> Receive:
        """Return a function that passes a message to `receive`, and then releases its memory."""

        async def receive_counted(message: str | bytes) -> None:
            await receive(message)
            self.release(1)

        return receive_counted

    def release(self, messages: int) -> None:
        """Release the memory of the oldest messages, which have been processed."""
        for _ in range(messages):
            self._ended_bytes -= self._ended.popleft()
        self._memory.resize(self._counted_bytes())

    def _counted_bytes(self) -> int:
        return max(self._ended_bytes + self._sizes.unfinished - UNCOUNTED, 0)

    def _check_pace(self, *, first: bool = False) -> None:
        """Refuse a large message that has been arriving for long while others wait for memory."""
        if not first and self._memory.contended:
            self._refuse(_TOO_SLOW)
        else:
            loop = asyncio.get_running_loop()
            self._slow_timer = loop.call_later(self._memory.fair_seconds, self._check_pace)

    def _stop_timer(self) -> None:
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None

    def stop(self) -> None:
        """Receive nothing more: the memory is released."""
        self._refuse("")

    def _refuse(self, reason: str) -> None:
        self._stop_timer()
        self._reason = reason
        self._refused.set()
