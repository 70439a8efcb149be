"""The upstream of a benchmark: a bare asyncio.Protocol on uvloop that answers from memory.

The model in the path chooses the answer. Every answer has the headers that the Gemini API sends.

python -m benchmarks.gateway.traffic.upstream PORT
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import orjson
import uvloop
from benchmarks.gateway.traffic.http1 import MessageReader
from benchmarks.payloads import answer_event, answer_stream, function_call_answer

Now = Callable[[], bytes]

PACE = 0.025
"""Seconds between two events of a paced stream."""

SENT_AT = b'"sentAt":"'
"""The text before the sending time of a paced event. The time is in nanoseconds of the monotonic clock."""


def unary_path(model: str) -> str:
    """Return the path of a unary call."""
    return f"/v1beta/models/{model}:generateContent"


def stream_path(model: str) -> str:
    """Return the path of a streamed call."""
    return f"/v1beta/models/{model}:streamGenerateContent?alt=sse"


SMALL, AGENT = unary_path("small"), unary_path("agent")
STREAM, PACED, WAITING = stream_path("steady"), stream_path("paced"), stream_path("waiting")
MIRROR = unary_path("mirror")
EMBED, BATCH = "/v1beta/models/embed:batchEmbedContents", "/v1beta/models/batch:batchGenerateContent"


@dataclass(frozen=True)
class Stream:
    """A streamed answer.

    Attributes:
        events: The data of each event.
        pace: The seconds between two events; 0 for one iteration of the event loop.
        ends: Whether the answer ends after its last event; otherwise it stays open.
    """

    events: list[bytes]
    pace: float = 0.0
    ends: bool = True


class Upstream(asyncio.Protocol):
    """A connection of the proxy under measurement."""

    def __init__(self, unary: dict[bytes, bytes], streams: dict[bytes, Stream]) -> None:
        self._unary = unary
        self._streams = streams
        self._reader = MessageReader()
        self._received: list[bytes] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        ended = self._reader.feed(data)
        if not ended and self._received is None:
            self._received = [] if b"mirror" in self._reader.head[:60] else None
        if self._received is not None:
            self._received.append(data)
        if ended:
            path = self._reader.head.split(b" ", 2)[1]
            self._answer(path, data)
            self._reader.begin_next()

    def _answer(self, path: bytes, data: bytes) -> None:
        if whole := self._unary.get(path):
            self._transport.write(whole)
        elif path == MIRROR.encode():
            received = b"".join(self._received or [data])
            self._received = None
            answer = answer_event(1, last=True)
            answer["candidates"][0]["content"]["parts"] = [{"text": received.decode()}]
            self._transport.write(unary_answer(orjson.dumps(answer)))
        elif stream := self._streams.get(path):
            self._transport.write(_STREAM_HEAD)
            self._send(stream, 0)
        else:
            self._transport.write(b"HTTP/1.1 404 No %b\r\nContent-Length: 0\r\n\r\n" % path)

    def _send(self, stream: Stream, number: int) -> None:
        if self._transport.is_closing():
            return
        data = stream.events[number]
        if stream.pace:
            data = b'%b,%b%d"}' % (data[:-1], SENT_AT, time.monotonic_ns())
        self._transport.write(chunk(b"data: " + data + b"\r\n\r\n"))
        loop = asyncio.get_running_loop()
        if number + 1 < len(stream.events):
            loop.call_later(stream.pace, self._send, stream, number + 1)
        elif stream.ends:
            loop.call_soon(self._transport.write, b"0\r\n\r\n")


_HEADERS = (
    b"HTTP/1.1 200 OK\r\nVary: Origin\r\nVary: X-Origin\r\nVary: Referer\r\n"
    b"Server: scaffolding on HTTPServer2\r\n"
    b"X-XSS-Protection: 0\r\nX-Frame-Options: SAMEORIGIN\r\nX-Content-Type-Options: nosniff\r\n"
    b"Server-Timing: gfet4t7; dur=812\r\nDate: Fri, 20 Nov 2026 10:00:00 GMT\r\n"
)
_STREAM_HEAD = _HEADERS + (
    b"Content-Type: text/event-stream\r\nContent-Disposition: attachment\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def unary_answer(body: bytes) -> bytes:
    """Return a unary answer as bytes, including the headers."""
    kind = b"Content-Type: application/json; charset=UTF-8\r\nContent-Length: %d\r\n\r\n" % len(body)
    return _HEADERS + kind + body


def chunk(data: bytes) -> bytes:
    """Return data as a chunk of an answer."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve(port: int) -> None:
    """Serve until the process is terminated."""
    unary = {
        SMALL.encode(): unary_answer(orjson.dumps(answer_event(5, last=True))),
        AGENT.encode(): unary_answer(orjson.dumps(function_call_answer())),
        EMBED.encode(): unary_answer(orjson.dumps({"embeddings": [{"values": [0.5] * 8}] * 1000})),
        BATCH.encode(): unary_answer(orjson.dumps({"name": "batches/1", "metadata": {"state": "PENDING"}})),
    }
    events = answer_stream()
    streams = {
        STREAM.encode(): Stream(events),
        PACED.encode(): Stream(events, PACE),
        WAITING.encode(): Stream(events[:1], ends=False),
    }
    server = await asyncio.get_running_loop().create_server(
        lambda: Upstream(unary, streams), "127.0.0.1", port
    )
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
