"""Connections to upstreams: reuse, timeouts, backpressure, TLS, proxies and leaks."""

import asyncio
import gzip
import re
import socket
import ssl
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.gateway.life import nothing_left, until
from support.gateway.loopback import gateway_before, upstreams_at
from support.hooks.http import peer, read_request
from support.wire import HI, UNARY, post

from hookgate.proxy.config import UpstreamSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import UpstreamAttempt
from hookgate.proxy.routes.table import Route, match
from hookgate.proxy.server.bodies import INFLATE_STEP
from hookgate.proxy.upstream import pool as upstream_pool
from hookgate.proxy.upstream.client import UpstreamAnswer, Upstreams
from hookgate.proxy.upstream.connection import UpstreamError

ROUTE = match("POST", "/v1/models/m:generateContent")
MIB = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
QUICK = UpstreamSettings(connect_timeout=0.2, header_timeout=0.2, idle_timeout=0.2)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@asynccontextmanager
async def call(  # noqa: PLR0917  # the parts of a request
    upstreams: Upstreams,
    data: Any = b"{}",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    decompress: bool = True,
    route: Route = ROUTE,
) -> AsyncIterator[UpstreamAnswer]:
    attempt = UpstreamAttempt(None)
    async with upstreams.exchange(
        attempt, method, route, headers or {}, data, decompress=decompress
    ) as answer:
        yield answer


async def ask(upstreams: Upstreams, *request: Any, **more: Any) -> bytes:
    """The body of an answer."""
    async with call(upstreams, *request, **more) as answer:
        return b"".join([chunk async for chunk in answer.chunks()])


@asynccontextmanager
async def server(talk: Talk, **more: Any) -> AsyncIterator[int]:
    """A server with options of its own, such as TLS; gives its port."""
    listener = await asyncio.start_server(talk, more.pop("host", "127.0.0.1"), 0, **more)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


class Answering:
    """An upstream that gives these answers on each connection, one for each request, and counts both."""

    def __init__(self, *answers: bytes, stays: bool = True) -> None:
        """If it stays, it waits for the other side to close the connection."""
        self.connections = self.requests = self.ended = 0
        self._answers, self._stays = answers, stays

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            for answer in self._answers:
                await read_request(reader)
                self.requests += 1
                writer.write(answer)
            if self._stays:
                await reader.read()
        finally:
            self.ended += 1
            writer.close()


# ---- connections are used again, if that is safe


async def test_a_connection_carries_one_request_after_another() -> None:
    upstream = Answering(*[OK] * 5)
    async with nothing_left(), peer(upstream) as url, upstreams_at(url) as upstreams:
        for _ in range(5):
            assert await ask(upstreams) == b"{}"
    assert (upstream.connections, upstream.requests) == (1, 5)


@pytest.mark.parametrize(
    "answer",
    [
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        OK.replace(b"1.1", b"1.0"),
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
        OK + b"x",
    ],
    ids=repr,
)
async def test_a_connection_with_unread_data_is_not_reused(answer: bytes) -> None:
    upstream = Answering(answer, answer)
    async with nothing_left(), peer(upstream) as url, upstreams_at(url) as upstreams:
        for _ in range(2):
            assert await ask(upstreams) == b"{}"
    assert (upstream.connections, upstream.requests) == (2, 2)


async def test_a_connection_whose_use_is_cancelled_at_its_end_is_closed() -> None:
    upstream, was_read = Answering(OK), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"{}"

    async def use() -> None:
        async with call(upstreams, body(), headers={"Content-Length": "2"}) as answer:
            assert [chunk async for chunk in answer.chunks()] == [b"{}"]
            was_read.set()

    async with asyncio.timeout(10), nothing_left(), peer(upstream) as url, upstreams_at(url) as upstreams:
        using = asyncio.create_task(use())
        await was_read.wait()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        await until(lambda: upstream.ended)


async def test_unsolicited_data_from_an_upstream_is_not_an_answer_to_the_next_request() -> None:
    told = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await told.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        await reader.read()

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        told.set()
        for _ in range(3):
            assert await ask(upstreams) == b"{}"


async def test_unsolicited_data_from_an_upstream_closes_the_connection() -> None:
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await writer.drain()
        await asked.wait()
        writer.write(b"x")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        ended.set()

    asked = asyncio.Event()
    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        assert await ask(upstreams) == b"{}"
        asked.set()
        async with asyncio.timeout(10):
            await ended.wait()
        await until(lambda: not any(upstreams._pool._kept.values()))  # it takes no place of another one


async def test_a_connection_that_the_upstream_has_just_closed_is_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The event loop has had no time yet to notice."""
    requests = 0
    wires: list[Any] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        wires.append(writer.get_extra_info("socket"))
        while await read_request(reader):
            requests += 1
            writer.write(OK)

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        for _ in range(3):
            assert await ask(upstreams) == b"{}"
            wires[-1].shutdown(socket.SHUT_RDWR)
    assert (len(wires), requests) == (3, 3)
    assert caplog.records == []


@pytest.mark.parametrize(("method", "heard"), [("GET", 3), ("DELETE", 3), ("POST", 2), ("PATCH", 2)])
async def test_only_an_idempotent_request_is_sent_again_and_only_once(method: str, heard: int) -> None:
    requests = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        while await reader.readuntil(b"\r\n\r\n"):
            requests += 1
            if requests > 1:
                return
            writer.write(OK)

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        assert await ask(upstreams, None, method) == b"{}"
        with pytest.raises(ApiError) as lost:
            await ask(upstreams, None, method)
    assert (lost.value.code, lost.value.reason, requests) == (502, "UPSTREAM_UNREACHABLE", heard)


async def test_a_body_in_pieces_is_not_sent_again() -> None:
    """Its first pieces are gone."""
    requests = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        while await reader.readuntil(b"\r\n\r\n"):
            requests += 1
            await reader.readexactly(2)
            if requests > 1:
                return
            writer.write(OK)

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        assert await ask(upstreams, b"ab", "PUT") == b"{}"
        with pytest.raises(ApiError) as lost:
            await ask(upstreams, _pieces(b"a", b"b"), "PUT", headers={"Content-Length": "2"})
    assert (lost.value.reason, requests) == ("UPSTREAM_UNREACHABLE", 2)


async def test_an_idle_connection_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_pool, "KEEP_ALIVE_SECONDS", 0.05)
    upstream = Answering(OK, OK)
    async with peer(upstream) as url, upstreams_at(url) as upstreams, nothing_left():
        assert await ask(upstreams) == b"{}"
        await until(lambda: upstream.ended == 1)


async def test_a_connection_that_is_in_use_at_the_end_is_not_kept() -> None:
    async with nothing_left(), peer(Answering(OK, OK)) as url:
        async with AsyncExitStack() as call_in_progress:
            async with upstreams_at(url) as upstreams:
                answer = await call_in_progress.enter_async_context(call(upstreams))
            assert b"".join([chunk async for chunk in answer.chunks()]) == b"{}"
        assert answer._connection.transport.is_closing()


async def test_a_request_that_takes_longer_than_idle_connections_are_kept_is_sent_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream_pool, "KEEP_ALIVE_SECONDS", 0.05)

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(0.1)
        yield b"}"

    upstream = Answering(OK, OK)
    async with peer(upstream) as url, upstreams_at(url) as upstreams:
        for _ in range(2):
            assert await ask(upstreams, body(), headers={"Content-Length": "2"}) == b"{}"
    assert upstream.requests == 2


# ---- requests


@pytest.mark.parametrize(
    ("method", "data", "expected"),
    [
        ("POST", b"{}", b"Content-Length: 2\r\n\r\n{}"),
        ("POST", None, b"Content-Length: 0\r\n\r\n"),
        ("DELETE", None, b"Content-Length: 0\r\n\r\n"),
        ("GET", None, b"Accept: a\r\n\r\n"),
    ],
)
async def test_a_request_says_how_long_it_is(method: str, data: bytes | None, expected: bytes) -> None:
    heard = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        while not heard.endswith(expected):
            heard += await reader.read(1000)
        writer.write(OK)

    async with peer(talk) as url, upstreams_at(url) as upstreams:
        await ask(upstreams, data, method, {"Accept": "a"})
    place = url.removeprefix("http://")
    assert heard.startswith(f"{method} {ROUTE.path} HTTP/1.1\r\nHost: {place}\r\nAccept: a\r\n".encode())
    assert heard.lower().count(b"content-length") == (method != "GET")


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nX: y", "a\rX: y", "a\r\n\r\n"])
async def test_a_header_cannot_add_another(value: str) -> None:
    upstream = Answering(OK)
    async with peer(upstream) as url, upstreams_at(url) as upstreams:
        with pytest.raises(ValueError, match="line break"):
            await ask(upstreams, headers={"x-goog-a": value})
    assert upstream.connections == 0


async def test_bytes_of_a_client_s_header_that_are_not_utf_8_are_forwarded_unchanged() -> None:
    heard = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        heard = await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)

    async with peer(talk) as url, upstreams_at(url) as upstreams:
        await ask(upstreams, headers={"User-Agent": "é\udcff"})
    assert b"\r\nUser-Agent: \xc3\xa9\xff\r\n" in heard


async def _pieces(*pieces: bytes | Exception) -> AsyncIterator[bytes]:
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        yield piece


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((b"ab",), id="too short"),
        pytest.param((b"ab", b"cd"), id="too long"),
        pytest.param((b"a", ValueError("x")), id="broken"),
    ],
)
async def test_a_body_of_another_length_than_announced_ends_the_call(body: tuple[Any, ...]) -> None:
    """Otherwise its end, or its surplus, could be taken for a part of the next request."""
    heard = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        heard = await reader.read()

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        with pytest.raises(ApiError) as ended:
            await ask(upstreams, _pieces(*body), headers={"Content-Length": "3"})
    assert ended.value.reason == "UPSTREAM_UNREACHABLE"
    assert len(heard.partition(b"\r\n\r\n")[2]) < 3


async def test_a_body_is_not_read_any_more_when_its_call_has_ended() -> None:
    ended: list[bool] = []

    async def body() -> AsyncIterator[bytes]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        yield b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.read()

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        async with call(upstreams, body()) as answer:
            assert (answer.status, ended) == (200, [])
        assert ended == [True]


@pytest.mark.parametrize("sort", ["bytes", "pieces"])
async def test_an_answer_may_come_before_the_request_is_sent(sort: str) -> None:
    data = bytes(64 * MIB) if sort == "bytes" else _pieces(*[bytes(MIB)] * 64)
    leave = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        await leave.wait()

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        async with call(upstreams, data) as answer:
            assert answer.status == 413
            assert [chunk async for chunk in answer.chunks()] == [b"{}"]
        leave.set()


@pytest.mark.parametrize("sort", ["bytes", "pieces"])
async def test_a_large_body_arrives_whole_at_an_upstream_that_reads_slowly(sort: str) -> None:
    whole = bytes(range(256)) * (8 * MIB // 256)
    pieces = _pieces(*(whole[at : at + MIB] for at in range(0, len(whole), MIB)))
    received = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await reader.readuntil(b"\r\n\r\n")
        while len(received) < len(whole):
            received += await reader.read(50_000)
            await asyncio.sleep(0)
        writer.write(OK)

    headers = {} if sort == "bytes" else {"Content-Length": str(len(whole))}
    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        assert await ask(upstreams, whole if sort == "bytes" else pieces, headers=headers) == b"{}"
    assert received == whole


# ---- answers


async def test_an_upstream_waits_for_a_reader_that_is_behind() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (32 * MIB))
        for _ in range(32):
            writer.write(bytes(MIB))
            await writer.drain()

    size = 0
    async with (
        nothing_left(),
        peer(talk) as url,
        upstreams_at(url, UpstreamSettings(idle_timeout=5)) as upstreams,
        call(upstreams) as answer,
    ):
        async for chunk in answer.chunks():
            size += len(chunk)
            assert len(chunk) <= MIB
            for _ in range(20):  # time in which the upstream could send much more
                await asyncio.sleep(0)
    assert size == 32 * MIB


@pytest.mark.parametrize("read", [0, 1])
async def test_leaving_an_answer_early_closes_its_connection(read: int) -> None:
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK[:-1])
        await reader.read()
        ended.set()

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams:
        async with call(upstreams) as answer:
            chunks = answer.chunks()
            for _ in range(read):
                assert await anext(chunks) == b"{"
        await until(ended.is_set)


@pytest.mark.parametrize(
    ("says", "data"),
    [
        pytest.param(b"", b"{}", id="before the answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", b"{}", id="in its headers"),
        pytest.param(OK[:-1], b"{}", id="in its body"),
        pytest.param(b"", bytes(64 * MIB), id="while a large body is sent"),
        pytest.param(b"", None, id="while pieces are sent"),
    ],
)
async def test_a_call_that_is_cancelled_closes_its_connection(says: bytes, data: bytes | None) -> None:
    begun, cancelled, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(says)
        begun.set()
        await cancelled.wait()
        try:
            while await reader.read(MIB):
                pass
        finally:
            ended.set()

    async with nothing_left(), peer(talk) as url, upstreams_at(url) as upstreams, nothing_left():
        task = asyncio.create_task(ask(upstreams, data or _pieces(*[bytes(MIB)] * 64)))
        await begun.wait()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        cancelled.set()
        await until(ended.is_set)


async def test_an_ambiguous_answer_is_a_502_and_the_next_call_is_answered_by_its_own() -> None:
    smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + OK

    async with peer(Answering(smuggled)) as url, gateway_before(url) as gateway:
        for _ in range(2):
            answer = await post(gateway, UNARY, HI)
            assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")
            assert "cannot be read: it is not valid HTTP" in answer.error["message"]


async def test_chunks_that_are_not_valid_cut_the_answer_off() -> None:
    broken = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nx\r\n"
    async with (
        nothing_left(),
        peer(Answering(broken)) as url,
        upstreams_at(url) as upstreams,
        call(upstreams) as answer,
    ):
        chunks = answer.chunks()
        assert await anext(chunks) == b"{}"
        with pytest.raises(UpstreamError, match="not valid HTTP"):
            await anext(chunks)


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\n{}"
    async with nothing_left(), peer(Answering(answer, stays=False)) as url, upstreams_at(url) as upstreams:
        assert await ask(upstreams) == b"{}"


# ---- compressed answers


def compressed(body: bytes, coding: str = "gzip") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


RAW = zlib.compressobj(wbits=-15)
RAW_DEFLATE = RAW.compress(b"{}") + RAW.flush()


@pytest.mark.parametrize(
    "answer",
    [
        compressed(gzip.compress(b"{}", mtime=0)),
        compressed(gzip.compress(b"{}", mtime=0), "GZip"),
        compressed(zlib.compress(b"{}"), "deflate"),
        compressed(RAW_DEFLATE, "deflate"),
        compressed(b"{}", "identity"),
    ],
    ids=repr,
)
async def test_a_compressed_answer_is_decompressed_if_that_is_wanted(answer: bytes) -> None:
    async with peer(Answering(answer, answer)) as url, upstreams_at(url) as upstreams:
        assert await ask(upstreams) == b"{}"
        assert answer.endswith(await ask(upstreams, decompress=False))


@pytest.mark.parametrize(
    "answer",
    [
        compressed(gzip.compress(b"{}", mtime=0)[:-1]),
        compressed(gzip.compress(b"{}", mtime=0) + b"x"),
        compressed(gzip.compress(b"{}", mtime=0) + gzip.compress(b"{}", mtime=0)),
        compressed(zlib.compress(b"{}")[:-1], "deflate"),
        compressed(b"{}"),
        compressed(b"\x1f\x8b\x08\x00" + b"x" * 100),
    ],
    ids=repr,
)
async def test_a_compressed_answer_that_is_not_valid_is_cut_off(answer: bytes) -> None:
    async with nothing_left(), peer(Answering(answer)) as url, upstreams_at(url) as upstreams:
        with pytest.raises(UpstreamError):
            await ask(upstreams)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip\r\nContent-Encoding: gzip", "x"])
async def test_an_unknown_coding_is_refused(coding: str) -> None:
    answer = compressed(b"{}", coding)
    async with nothing_left(), peer(Answering(answer, answer)) as url, upstreams_at(url) as upstreams:
        with pytest.raises(ApiError, match="Content-Encoding is not supported") as refused:
            await ask(upstreams)
        assert (refused.value.code, refused.value.reason) == (502, "UPSTREAM_UNREADABLE")
        assert await ask(upstreams, decompress=False) == b"{}"


@pytest.mark.parametrize("decompress", [True, False])
async def test_a_coding_that_cannot_be_forwarded_is_refused(decompress: bool) -> None:
    """Without its header, the client would take the compressed bytes for the text."""
    answer = compressed(gzip.compress(b"{}", mtime=0), "gzip\x01")
    async with nothing_left(), peer(Answering(answer)) as url, upstreams_at(url) as upstreams:
        with pytest.raises(ApiError, match="Content-Encoding has control characters") as refused:
            await ask(upstreams, decompress=decompress)
    assert (refused.value.code, refused.value.reason) == (502, "UPSTREAM_UNREADABLE")


async def test_a_compressed_answer_never_takes_much_memory_at_once() -> None:
    bomb = gzip.compress(bytes(64 * MIB))
    beside = 0

    async def others() -> None:
        nonlocal beside
        while True:
            await asyncio.sleep(0)
            beside += 1

    size = 0
    async with peer(Answering(compressed(bomb))) as url, upstreams_at(url) as upstreams:
        task = asyncio.create_task(others())
        async with call(upstreams) as answer:
            async for chunk in answer.chunks():
                assert len(chunk) <= INFLATE_STEP
                size += len(chunk)
        task.cancel()
    assert size == 64 * MIB
    assert beside >= 64 * MIB // INFLATE_STEP  # it does not hold up other calls


# ---- time


async def drips(writer: asyncio.StreamWriter, data: bytes) -> None:
    while True:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("drip", [b"X: y\r\n", b"x"])
async def test_the_time_for_headers_is_not_prolonged_by_parts_of_them(drip: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        await drips(writer, drip)

    async with nothing_left(), peer(talk) as url, upstreams_at(url, QUICK) as upstreams:
        with pytest.raises(ApiError) as late:
            await ask(upstreams)
    assert (late.value.code, late.value.reason) == (504, "UPSTREAM_TIMEOUT")


async def test_an_interim_answer_does_not_prolong_the_time_for_headers() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await drips(writer, b"HTTP/1.1 102 Processing\r\n\r\n")

    async with nothing_left(), peer(talk) as url, upstreams_at(url, QUICK) as upstreams:
        with pytest.raises(ApiError) as late:
            await ask(upstreams)
    assert late.value.reason == "UPSTREAM_TIMEOUT"


@pytest.mark.parametrize("sort", ["bytes", "pieces"])
async def test_an_upstream_that_does_not_read_the_request_is_a_504(sort: str) -> None:
    leave = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await leave.wait()

    data = bytes(64 * MIB) if sort == "bytes" else _pieces(*[bytes(MIB)] * 64)
    async with nothing_left(), peer(talk) as url, upstreams_at(url, QUICK) as upstreams:
        with pytest.raises(ApiError) as late:
            await ask(upstreams, data)
        leave.set()
    assert (late.value.code, late.value.reason) == (504, "UPSTREAM_TIMEOUT")


async def test_an_answer_that_pauses_is_cut_off_and_one_that_is_not_read_is_not() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (16 * MIB) + bytes(16 * MIB - 1))
        await writer.drain()
        await reader.read()

    size = 0
    async with (
        nothing_left(),
        peer(talk) as url,
        upstreams_at(url, QUICK) as upstreams,
        call(upstreams) as answer,
    ):
        chunks = answer.chunks()
        size += len(await anext(chunks))
        await asyncio.sleep(0.4)  # the client reads nothing for longer than the upstream may pause
        with pytest.raises(UpstreamError, match="took too long"):  # noqa: PT012  # the sizes count
            while True:
                size += len(await anext(chunks))
    assert size == 16 * MIB - 1


async def test_an_answer_that_pauses_just_when_the_reader_is_behind_is_cut_off() -> None:
    held = 256 * 1024  # with so much the connection stops reading

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MIB + bytes(held))
        await reader.read()

    async with (
        nothing_left(),
        peer(talk) as url,
        upstreams_at(url, QUICK) as upstreams,
        call(upstreams) as answer,
    ):
        await until(lambda: answer._connection.answer.unread == held)
        async with asyncio.timeout(10):
            with pytest.raises(UpstreamError, match="took too long"):
                [chunk async for chunk in answer.chunks()]


async def test_a_client_that_pauses_after_the_upstream_was_behind_is_waited_for() -> None:
    drained = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield bytes(16 * MIB)
        await drained.wait()
        await asyncio.sleep(2 * QUICK.header_timeout)
        yield b"x"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(16 * MIB)
        drained.set()
        await reader.readexactly(1)
        writer.write(OK)

    headers = {"Content-Length": str(16 * MIB + 1)}
    async with nothing_left(), peer(talk) as url, upstreams_at(url, QUICK) as upstreams:
        assert await ask(upstreams, body(), headers=headers) == b"{}"


# ---- many at once


async def test_no_more_connections_are_in_use_than_there_may_be() -> None:
    upstream = Answering(OK, OK, OK)
    async with nothing_left(), peer(upstream) as url, AsyncExitStack() as stack:
        settings = UpstreamSettings(gemini=url, vertex=url, code_assist=url, connect_timeout=0.1)
        upstreams = await stack.enter_async_context(Upstreams(settings, max_connections=2))
        async with call(upstreams):
            async with call(upstreams):
                with pytest.raises(ApiError) as late:
                    await ask(upstreams)
                waiting = asyncio.create_task(ask(upstreams))
                await asyncio.sleep(0)
            assert await waiting == b"{}"
    assert late.value.reason == "CONNECTIONS_BUSY"


async def test_a_connection_that_is_opened_elsewhere_takes_a_place_while_it_is_in_use() -> None:
    upstream = Answering(OK)
    async with nothing_left(), peer(upstream) as url, AsyncExitStack() as stack:
        settings = UpstreamSettings(gemini=url, vertex=url, code_assist=url, connect_timeout=0.1)
        upstreams = await stack.enter_async_context(Upstreams(settings, max_connections=1))
        for _ in range(2):
            async with upstreams._pool.reserve():
                with pytest.raises(ApiError, match="in time"):
                    await ask(upstreams)
        assert await ask(upstreams) == b"{}"


# ---- where the upstream is


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of names, to which the test adds; and under "asked", the names that were looked up."""
    known: dict[str, list[str]] = {"asked": []}

    def addresses_of(host: str, port: int) -> list[Any]:
        known["asked"].append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            info for each in known[host] for info in socket.getaddrinfo(each, port, type=socket.SOCK_STREAM)
        ]

    monkeypatch.setattr(upstream_pool, "_addresses_of", addresses_of)
    return known


async def test_addresses_that_refuse_are_passed_over(names: dict[str, list[str]]) -> None:
    names["upstream.test"] = ["127.0.0.2", "127.0.0.1"]
    async with (
        nothing_left(),
        server(Answering(OK)) as port,
        upstreams_at(f"http://upstream.test:{port}") as upstreams,
    ):
        assert await ask(upstreams) == b"{}"


async def test_connections_that_are_made_at_once_share_a_lookup(names: dict[str, list[str]]) -> None:
    names["upstream.test"] = ["127.0.0.1"]
    async with (
        nothing_left(),
        server(Answering(OK)) as port,
        upstreams_at(f"http://upstream.test:{port}") as upstreams,
    ):
        assert await asyncio.gather(*(ask(upstreams) for _ in range(10))) == [b"{}"] * 10
    assert names["asked"] == ["upstream.test"]


async def test_addresses_are_looked_up_again_only_after_some_seconds(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    names["upstream.test"] = ["127.0.0.1"]
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    async with server(Answering(closing)) as port, upstreams_at(f"http://upstream.test:{port}") as upstreams:
        for _ in range(2):
            assert await ask(upstreams) == b"{}"
    assert names["asked"] == ["upstream.test"]
    monkeypatch.setattr(upstream_pool, "_LOOKUP_SECONDS", 0)
    async with server(Answering(closing)) as port, upstreams_at(f"http://upstream.test:{port}") as upstreams:
        for _ in range(2):
            assert await ask(upstreams) == b"{}"
    assert len(names["asked"]) == 3


async def test_lookups_wait_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for what fills the threads of the event loop, nor for lookups of names that do not exist."""
    end, asked = threading.Event(), list[str]()

    def addresses_of(host: str, _: int) -> list[Any]:
        asked.append(host)
        if host != "upstream.test":
            end.wait()
        return [host]

    monkeypatch.setattr(upstream_pool, "_addresses_of", addresses_of)
    monkeypatch.setattr(upstream_pool, "_LOOKUP_SECONDS", 0)
    others = [asyncio.create_task(asyncio.to_thread(end.wait)) for _ in range(100)]
    addresses = upstream_pool._Addresses()
    try:
        async with asyncio.timeout(5):
            assert await addresses.resolve("upstream.test", 443) == ["upstream.test"]
            others += [
                asyncio.create_task(addresses.resolve(f"region-{number}.test", 443)) for number in range(10)
            ]
            await until(lambda: len(asked) == 3)
            assert await addresses.resolve("upstream.test", 443) == ["upstream.test"]
    finally:
        end.set()
    await asyncio.gather(*others)


@pytest.mark.parametrize("host", ["upstream.test", "a..test", "x" * 64 + ".test"])
async def test_a_name_that_cannot_be_resolved_is_not_shown_to_the_client(
    names: dict[str, list[str]], host: str
) -> None:
    async with nothing_left(), upstreams_at(f"http://{host}") as upstreams:
        for _ in range(2):  # a failure is not remembered
            with pytest.raises(ApiError, match="its host name cannot be resolved"):
                await ask(upstreams)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
async def test_an_upstream_may_have_an_ipv6_address() -> None:
    heard = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        heard = await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.read()
        writer.close()

    async with (
        nothing_left(),
        server(talk, host="::1") as port,
        upstreams_at(f"http://[::1]:{port}") as upstreams,
    ):
        assert await ask(upstreams) == b"{}"
    assert f"\r\nHost: [::1]:{port}\r\n".encode() in heard


# ---- TLS, and proxies


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """An authority whose certificate is in `authority.pem`."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "authority.pem")
    return ca


def serving(authority: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusting(folder: Path, **more: Any) -> UpstreamSettings:
    return UpstreamSettings(ca_bundle=folder / "authority.pem", **more)


async def test_https_with_an_authority_of_ones_own(authority: trustme.CA, tmp_path: Path) -> None:
    upstream = Answering(OK, OK, OK)
    async with (
        nothing_left(),
        server(upstream, ssl=serving(authority)) as port,
        upstreams_at(f"https://localhost:{port}", trusting(tmp_path)) as upstreams,
    ):
        for size in (2, 100_000, 4 * MIB):
            assert await ask(upstreams, bytes(size)) == b"{}"
    assert (upstream.connections, upstream.requests) == (1, 3)


async def test_an_upstream_that_prefers_http_2_is_asked_for_http_1(
    authority: trustme.CA, tmp_path: Path
) -> None:
    context, spoken = serving(authority), []
    context.set_alpn_protocols(["h2", "http/1.1"])

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spoken.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await Answering(OK)(reader, writer)

    async with (
        server(talk, ssl=context) as port,
        upstreams_at(f"https://localhost:{port}", trusting(tmp_path)) as upstreams,
    ):
        assert await ask(upstreams) == b"{}"
    assert spoken == ["http/1.1"]


async def test_a_certificate_of_another_host_is_not_trusted(authority: trustme.CA, tmp_path: Path) -> None:
    upstream = Answering(OK)
    async with (
        nothing_left(),
        server(upstream, ssl=serving(authority, "other.test")) as port,
        upstreams_at(f"https://localhost:{port}", trusting(tmp_path)) as upstreams,
    ):
        with pytest.raises(ApiError, match="certificate is not trusted"):
            await ask(upstreams)
    assert upstream.requests == 0


class Proxy:
    """A proxy that makes tunnels to one port; says what it was asked. `after` follows its answer at once."""

    def __init__(
        self, port: int, answer: bytes = b"HTTP/1.1 200 Connected\r\n\r\n", after: bytes = b""
    ) -> None:
        self.heard: list[bytes] = []
        self._port, self._answer, self._after = port, answer, after

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(await reader.readuntil(b"\r\n\r\n"))
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(self._answer + self._after)
        await asyncio.gather(_copy(reader, there), _copy(there_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 Connected\r\n\r\n", b"HTTP/1.0 200 OK\r\nVia: x\r\n\r\n"])
async def test_https_through_a_proxy_is_a_tunnel(
    authority: trustme.CA, tmp_path: Path, answer: bytes
) -> None:
    upstream = Answering(OK, OK)
    async with nothing_left(), server(upstream, ssl=serving(authority)) as port:
        proxy = Proxy(port, answer)
        async with peer(proxy) as through:
            settings = trusting(tmp_path, proxy=through.replace("://", "://user:p%40ss@"))
            async with upstreams_at("https://localhost", settings) as upstreams:
                for _ in range(2):
                    assert await ask(upstreams) == b"{}"
    credentials = b"Proxy-Authorization: Basic dXNlcjpwQHNz"
    assert proxy.heard == [
        b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n%b\r\n\r\n" % credentials
    ]
    assert (upstream.connections, upstream.requests) == (1, 2)


@pytest.mark.parametrize(
    ("answer", "after", "problem"),
    [
        (b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", b"", "the proxy answered 407"),
        (b"HTTP/1.1 200 OK\r\n\r\n", OK, "the proxy sent data before"),
        (b"nonsense\r\n\r\n", b"", "the proxy's answer is not valid HTTP"),
    ],
)
async def test_a_proxy_that_makes_no_tunnel_is_named(
    authority: trustme.CA, tmp_path: Path, answer: bytes, after: bytes, problem: str
) -> None:
    upstream = Answering(OK)
    async with (
        nothing_left(),
        server(upstream, ssl=serving(authority)) as port,
        peer(Proxy(port, answer, after)) as through,
    ):
        settings = trusting(tmp_path, proxy=through.replace("://", "://user:canary@"))
        async with upstreams_at("https://localhost", settings) as upstreams:
            with pytest.raises(ApiError) as refused:
                await ask(upstreams)
    assert (refused.value.code, refused.value.reason) == (502, "UPSTREAM_UNREACHABLE")
    assert problem in refused.value.message
    assert not re.search("canary|localhost", refused.value.message)
    assert upstream.requests == 0


async def test_a_proxy_that_hangs_is_a_504() -> None:
    leave = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await leave.wait()

    async with nothing_left(), peer(talk) as through:
        settings = QUICK.model_copy(update={"proxy": through})
        async with upstreams_at("https://localhost", settings) as upstreams:
            with pytest.raises(ApiError) as late:
                await ask(upstreams)
        leave.set()
    assert late.value.reason == "UPSTREAM_TIMEOUT"
