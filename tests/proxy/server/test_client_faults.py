"""Every way in which an upstream fails, with its defined answer; nothing is left, and the next call works.

What is told in more detail elsewhere: broken streams and unreadable answers in test_generation_faults.py.
"""

import asyncio
import gzip
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trustme
from support.gateway.life import nothing_left
from support.gateway.loopback import gateway_before, says
from support.wire import HI, SSE, STREAM_HEAD, UNARY, Answer, ok, post, response, spoken, sse

from hookgate.proxy.config import Config, UpstreamSettings
from hookgate.proxy.upstream import pool

WATCHED = {"BeforeModel": [says()], "AfterModel": [{**says(), "stream": "event"}]}
WHOLE = json.dumps(spoken("all of it", finishReason="STOP")).encode()
EVENTS = sse(spoken("all "), spoken("of it", finishReason="STOP"))
HASTY = Config(upstream=UpstreamSettings(connect_timeout=0.3, header_timeout=0.3, idle_timeout=0.3))

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@dataclass(frozen=True)
class Fault:
    """What an upstream does with a request, and what the client gets."""

    talk: Talk
    status: int
    reason: str = ""
    target: str = UNARY
    body: bytes | None = None
    complete: bool = True


def writes(*data: bytes | float, reset: bool = False) -> Talk:
    """Say these bytes, with pauses of so many seconds between them, and hang up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for each in data:
            if isinstance(each, float):
                await asyncio.sleep(each)
            else:
                writer.write(each)
                await writer.drain()
        if reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    return talk


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take the request, and say nothing."""
    await reader.read()


def error(status: int) -> bytes:
    return response(status, b'{"error": {"code": %d}}' % status, {"Content-Type": "application/json"})


def many(size: int) -> bytes:
    return json.dumps(spoken("x" * size, finishReason="STOP")).encode()


FAULTS = {
    "header hang": Fault(hangs, 504, "UPSTREAM_TIMEOUT"),
    "stall in a whole answer": Fault(writes(ok(WHOLE)[:-5], 1.0), 502, "UPSTREAM_BROKE"),
    "stall in a stream": Fault(
        writes(STREAM_HEAD, EVENTS[0], 1.0), 200, target=SSE, body=EVENTS[0], complete=False
    ),
    "reset before an answer": Fault(writes(reset=True), 502, "UPSTREAM_UNREACHABLE"),
    "reset in a whole answer": Fault(writes(ok(WHOLE)[:-5], 0.05, reset=True), 502, "UPSTREAM_BROKE"),
    "reset in a stream": Fault(
        writes(CHUNKED, b"%x\r\n%b\r\n" % (len(EVENTS[0]), EVENTS[0]), 0.05, reset=True),
        200,
        target=SSE,
        body=EVENTS[0],
        complete=False,
    ),
    "429": Fault(writes(error(429)), 429, body=b'{"error": {"code": 429}}'),
    "500": Fault(writes(error(500)), 500, body=b'{"error": {"code": 500}}', target=SSE),
    "503": Fault(writes(error(503)), 503, body=b'{"error": {"code": 503}}'),
    "html with 200": Fault(writes(ok(b"<html></html>", "text/html")), 502, "UPSTREAM_UNREADABLE"),
    "html with 200 for a stream": Fault(
        writes(ok(b"<html></html>\n\n", "text/html")), 502, "UPSTREAM_UNREADABLE", SSE
    ),
    "wrong content type": Fault(writes(ok(WHOLE, "text/plain")), 200, body=WHOLE),
    "truncated json": Fault(writes(ok(WHOLE[:-3])), 502, "UPSTREAM_UNREADABLE"),
    "compressed, though not asked for": Fault(
        writes(ok(gzip.compress(b"".join(EVENTS)), "text/event-stream", **{"Content-Encoding": "gzip"})),
        200,
        target=SSE,
        body=b"".join(EVENTS),
    ),
    "an event of 10 MB": Fault(
        writes(ok(b"data: " + many(10_000_000) + b"\r\n\r\n", "text/event-stream")),
        200,
        target=SSE,
        body=b"data: " + many(10_000_000) + b"\r\n\r\n",
    ),
    "a slow drip": Fault(
        writes(*(each for at in range(0, len(ok(WHOLE)), 20) for each in (ok(WHOLE)[at : at + 20], 0.01))),
        200,
        body=WHOLE,
    ),
}


@asynccontextmanager
async def upstream(*talks: Talk) -> AsyncIterator[str]:
    """A server whose connections talk as listed, the last goes for all further ones."""
    waiting = list(talks)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
            await talk(reader, writer)
        except ConnectionError:
            pass  # a gateway that has waited enough may leave
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def check(answer: Answer, fault: Fault) -> None:
    assert (answer.status, answer.complete) == (fault.status, fault.complete)
    if fault.reason:
        assert answer.error["details"][0]["reason"] == fault.reason
    else:
        assert answer.body == fault.body


@pytest.mark.parametrize("fault", [pytest.param(fault, id=name) for name, fault in FAULTS.items()])
async def test_a_fault_has_its_answer_and_the_next_call_works(fault: Fault) -> None:
    well = writes(ok(WHOLE))
    async with (
        nothing_left(),
        upstream(fault.talk, well) as origin,
        gateway_before(origin, WATCHED, HASTY) as url,
        nothing_left(),  # not even while the gateway runs on
    ):
        check(await post(url, fault.target, HI), fault)
        after = await post(url, UNARY, HI)
    assert (after.status, after.body) == (200, WHOLE)


async def refused_after(origin: str) -> Answer:
    async with nothing_left(), gateway_before(origin, WATCHED, HASTY) as url:
        return await post(url, SSE, HI)


async def test_an_unknown_host_name_is_a_502(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with nothing_left(), gateway_before("http://gemini.invalid", WATCHED) as url:
        monkeypatch.setattr(pool, "_addresses_of", unknown)
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREACHABLE")


async def test_a_certificate_of_no_known_authority_is_a_502() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        answer = await refused_after(f"https://localhost:{server.sockets[0].getsockname()[1]}")
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREACHABLE")


async def test_https_to_a_server_without_tls_is_a_502() -> None:
    async with upstream(hangs) as origin:
        answer = await refused_after(origin.replace("http://", "https://"))
    assert answer.status in (502, 504)


async def test_an_upstream_that_accepts_no_connection_is_a_504() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:  # the backlog is full: the next connection hangs
                filler.setblocking(False)
                filler.connect_ex(address)
            answer = await refused_after(f"http://127.0.0.1:{address[1]}")
        finally:
            for filler in fillers:
                filler.close()
    assert (answer.status, answer.error["details"][0]["reason"]) == (504, "UPSTREAM_TIMEOUT")
