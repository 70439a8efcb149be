"""Clients that are slow, silent, gone or too many: each connection ends in time, without leaks."""

import asyncio
import errno
import json
import socket
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.streams import StreamReader
from support.gateway.life import gateway_with, nothing_left, until
from support.gateway.loopback import running_gateway, running_upstream, runs, says
from support.wire import HI, KEY, SSE, UNARY, Wire, connected, ok, post, request_bytes

from hookgate.proxy.app import serve_on
from hookgate.proxy.config import LimitSettings
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.server import connection as kept
from hookgate.proxy.server import listener
from hookgate.proxy.server.listener import address_of

SHORT = LimitSettings(header_timeout=0.1, body_timeout=0.1, reader_timeout=0.4, drain_timeout=5, body=100_000)
BOTH = pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [says()]}], ids=["copied", "judged"])
PROMISED = {**KEY, "Content-Length": "100"}


@dataclass
class Flood:
    """An upstream that never stops sending, and how much it could send so far."""

    url: str = ""
    sent: int = 0
    ended: int = 0


@asynccontextmanager
async def flooding() -> AsyncIterator[Flood]:
    flood = Flood()
    event = b"data: " + b"x" * 16_000 + b"\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        try:
            while True:
                writer.write(event)
                flood.sent += len(event)
                await writer.drain()
        except ConnectionError:
            flood.ended += 1
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    flood.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield flood


@asynccontextmanager
async def gateway(hooks: Any = None, limits: LimitSettings = SHORT) -> AsyncIterator[str]:
    async with (
        running_upstream() as (upstream_url, _),
        gateway_with(upstream_url, hooks, limits=limits) as url,
    ):
        yield url


# ---- what does not come


@pytest.mark.parametrize("begun", [b"P", b"POST / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHo"])
async def test_a_head_that_does_not_come_in_time_is_a_400(begun: bytes) -> None:
    async with nothing_left(), gateway() as url, connected(url) as wire:
        await wire.write(begun)
        answer = await wire.answer()
        assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")
        assert "in time" in answer.error["message"]
        assert await wire.ended()


async def test_a_head_that_drips_is_a_400_too() -> None:
    async with gateway() as url, connected(url) as wire:
        answer = asyncio.create_task(wire.answer())
        while not answer.done():
            await wire.write(b"P" if not answer.done() else b"")
            await asyncio.sleep(0.02)
        assert (await answer).status == 400


@BOTH
@pytest.mark.parametrize("target", [UNARY, SSE], ids=["unary", "sse"])
async def test_a_body_that_falls_silent_is_a_400(hooks: Any, target: str) -> None:
    async with nothing_left(), gateway(hooks) as url, connected(url) as wire:
        await wire.write(request_bytes("POST", target, b"{", PROMISED))
        answer = await wire.answer()
        assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")
        assert await wire.ended()


@BOTH
async def test_a_body_that_is_slow_but_not_silent_is_fine(hooks: Any) -> None:
    async with gateway(hooks) as url, connected(url) as wire:
        body = b'{"contents": [{"parts": [{"text": "hi"}]}]}'
        await wire.write(request_bytes("POST", UNARY, b"", {**KEY, "Content-Length": str(len(body))}))
        for at in range(0, len(body), 6):
            await asyncio.sleep(0.03)
            await wire.write(body[at : at + 6])
        assert (await wire.answer()).status == 200


async def test_a_body_that_the_upstream_does_not_read_does_not_count_as_a_silent_client() -> None:
    body = b"x" * 20_000_000

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.5)  # several times body_timeout
        assert await reader.readexactly(len(body)) == body
        writer.write(ok(b"{}"))
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    upstream_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, gateway_with(upstream_url, limits=SHORT) as url:
        assert (await post(url, "/v1beta/models/m:countTokens", body)).status == 200


async def test_a_body_that_falls_silent_behind_its_answer_ends_the_connection() -> None:
    async with gateway() as url, connected(url) as wire:
        await wire.write(request_bytes("POST", "/nowhere", b"{", PROMISED))
        assert (await wire.answer()).status == 403
        assert await wire.ended()


async def test_an_idle_connection_is_kept_for_75_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    clock, passed = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)
    async with gateway() as url, AsyncExitStack() as stack:
        place = urlsplit(url)
        wire = Wire(*await asyncio.open_connection(place.hostname, place.port))
        stack.push_async_callback(wire.leave)
        for _ in range(3):
            await wire.post(UNARY, HI)
            assert (await wire.answer()).status == 200
            passed += 70
            await asyncio.sleep(0)  # what is due by then happens
        passed += 6
        async with asyncio.timeout(20):
            assert await wire.ended()


# ---- what is not taken


@BOTH
async def test_a_client_that_does_not_read_pauses_the_upstream_and_is_disconnected(hooks: Any) -> None:
    async with (
        nothing_left(),
        flooding() as flood,
        gateway_with(flood.url, hooks, limits=SHORT) as url,
        stuck(url),
    ):
        await until(lambda: flood.sent > 0)
        sent = -1
        while sent != flood.sent:  # until it is held back
            sent = flood.sent
            await asyncio.sleep(0.1)
        assert flood.sent < 40_000_000  # what the buffers of four sockets hold
        await until(lambda: flood.ended)


async def test_a_client_that_reads_slowly_is_not_disconnected() -> None:
    async with flooding() as flood, gateway_with(flood.url, limits=SHORT) as url, stuck(url) as client:
        loop = asyncio.get_running_loop()
        end = loop.time() + 1.5  # several times reader_timeout
        while loop.time() < end:
            assert await loop.sock_recv(client, 150_000)
            await asyncio.sleep(0.02)
        assert not flood.ended


async def test_a_client_that_does_not_read_its_last_bytes_is_disconnected() -> None:
    async def large(_: Any) -> Any:
        return web.Response(body=b"x" * 20_000_000)

    async with nothing_left(), serve_on(large, "127.0.0.1", 0, SHORT) as url, stuck(url) as client:
        await asyncio.sleep(1)  # longer than reader_timeout
        with pytest.raises(ConnectionResetError):
            await everything(client)


async def everything(client: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(client, 1_000_000):
        pass


@asynccontextmanager
async def stuck(url: str) -> AsyncIterator[socket.socket]:
    """A client that asks for a stream and reads nothing of it by itself."""
    place = urlsplit(url)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (place.hostname, place.port))
        await loop.sock_sendall(client, request_bytes("POST", SSE, b'{"contents":[]}', KEY))
        yield client


# ---- too many


async def is_answered(wire: Wire) -> bool:
    """Whether a call on the connection is answered."""
    await wire.post(UNARY, HI)
    return (await wire.answer()).status == 200


async def test_one_connection_more_waits_while_all_others_have_calls_in_flight() -> None:
    async with (
        flooding() as flood,
        gateway_with(flood.url, limits=LimitSettings(connections=2)) as url,
        connected(url) as one,
        connected(url) as two,
    ):
        for wire in (one, two):
            await wire.post(SSE, HI)
            assert (await wire.head())[0] == 200
        async with connected(url) as three:
            await three.post("/nowhere", HI)
            answer = asyncio.create_task(three.answer())
            done, _ = await asyncio.wait([answer], timeout=0.5)
            assert not done
            assert await one.chunk()
            await one.leave()
            assert (await answer).status == 403
        assert await two.chunk()


async def test_a_gateway_that_stops_closes_queued_connections_for_which_there_is_no_room() -> None:
    limits = LimitSettings(connections=1, drain_timeout=0.1)
    async with flooding() as flood, AsyncExitStack() as stack:
        async with asyncio.timeout(20), gateway_with(flood.url, limits=limits) as url:
            one = await stack.enter_async_context(connected(url))
            await one.post(SSE, HI)
            assert (await one.head())[0] == 200
            more = [await stack.enter_async_context(connected(url)) for _ in range(2)]
        assert [await wire.rest() for wire in more] == [b"", b""]


async def test_a_waiting_connection_gets_the_place_of_one_whose_call_has_ended() -> None:
    began, decided = asyncio.Event(), asyncio.Event()

    async def wait(_: Any) -> None:
        began.set()
        await decided.wait()

    hooks = {"BeforeModel": [runs(wait)]}
    async with gateway(hooks, LimitSettings(connections=1)) as url, connected(url) as one:
        await one.post(UNARY, HI)
        await began.wait()
        async with connected(url) as two:
            await two.post("/nowhere", HI)
            answer = asyncio.create_task(two.answer())
            done, _ = await asyncio.wait([answer], timeout=0.2)
            assert not done
            decided.set()
            assert (await one.answer()).status == 200
            assert (await answer).status == 403
            assert await one.ended()


async def test_for_one_connection_more_the_one_that_is_idle_for_longest_closes() -> None:
    async with (
        gateway(limits=LimitSettings(connections=3)) as url,
        connected(url) as one,
        connected(url) as two,
        connected(url) as three,
    ):
        for wire in (one, two, three, one):
            assert await is_answered(wire)
        async with connected(url) as four:
            assert await is_answered(four)
            assert await two.ended()
            for wire in (one, three):
                assert await is_answered(wire)


async def test_connections_that_never_sent_anything_keep_no_call_out() -> None:
    async with nothing_left(), gateway(limits=LimitSettings(connections=2)) as url, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected(url)) for _ in range(20)]
        async with connected(url) as wire:
            assert await is_answered(wire)
        assert [await each.rest() for each in silent[:18]] == [b""] * 18


async def test_a_head_that_is_never_finished_keeps_no_call_out_and_no_young_one_is_closed_for_it() -> None:
    async with (
        gateway(limits=LimitSettings(connections=3, header_timeout=60)) as url,
        connected(url) as idle,
        connected(url) as old,
        connected(url) as young,
    ):
        assert await is_answered(idle)
        await old.write(b"G")
        assert await is_answered(young)
        await young.write(b"G")
        async with connected(url) as first:
            assert await idle.ended()
            assert await is_answered(first)
            async with connected(url) as second:
                assert await is_answered(second)
                assert await old.rest() == b""
                assert await is_answered(first)
                await young.write(b"ET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await young.answer()).status == 403


async def test_a_body_that_drips_makes_way_and_one_that_flows_does_not() -> None:
    limits = LimitSettings(connections=2, body_timeout=60)
    size = 2_000_000
    async with (
        gateway(limits=limits) as url,
        connected(url) as flowing,
        connected(url) as dripping,
    ):
        head = request_bytes("POST", UNARY, b"", {**KEY, "Content-Length": str(size)})
        await flowing.write(head + b" " * 1_000_000)
        await dripping.write(head + b" ")
        async with connected(url) as third:
            await third.post("/nowhere", HI)
            assert (await third.answer()).status == 403
        assert await dripping.rest() == b""
        body = json.dumps(HI).encode()
        await flowing.write(b" " * (size - 1_000_000 - len(body)) + body)
        assert (await flowing.answer()).status == 200


async def test_an_address_with_too_many_connections_loses_only_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = LimitSettings(connections=10, connections_per_address=2)
    async with (
        flooding() as flood,
        gateway_with(flood.url, limits=limits) as url,
        connected(url) as one,
        connected(url) as two,
    ):
        await one.post(SSE, HI)
        assert (await one.head())[0] == 200
        await two.post("/nowhere", HI)
        assert (await two.answer()).status == 403
        async with connected(url) as three:
            await three.post(SSE, HI)
            assert (await three.head())[0] == 200
            assert await two.ended()
            async with connected(url) as four:
                assert await four.rest() == b""  # both of the others have a call in flight
            assert await one.chunk()
            assert await three.chunk()
    told = [each for each in caplog.messages if "limit on connections from 127.0.0.1 is reached" in each]
    assert len(told) == 1, "at most once a minute"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_an_address_is_the_network_that_one_client_gets(one: str, other: str, same: bool) -> None:
    assert (address_of(one) == address_of(other)) is same


async def test_requests_behind_a_streaming_one_are_held_back() -> None:
    async with (
        flooding() as flood,
        gateway_with(flood.url, limits=LimitSettings()) as url,
        stuck(url) as client,
    ):
        loop = asyncio.get_running_loop()
        requests = request_bytes("POST", SSE, b"x" * 60_000, KEY) * 1000
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.sock_sendall(client, requests), 2)


async def test_it_accepts_connections_when_there_are_descriptors_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "_DESCRIPTOR_WAIT", 0.01)
    accept, failures = socket.socket.accept, [errno.EMFILE, errno.ECONNABORTED, errno.ENFILE]

    def failing(listener: socket.socket) -> Any:
        if failures:
            raise OSError(failures.pop(), "no")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", failing)
    async with gateway(limits=LimitSettings(connections=1)) as url:
        for _ in range(2):
            assert (await post(url, UNARY, HI)).status == 200
    assert not failures
    assert caplog.messages.count("no connection can be accepted: no") == 2


# ---- the fault list


async def reset(wire: Wire) -> None:
    linger = struct.pack("ii", 1, 0)
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    await wire.leave()


async def rst(wire: Wire) -> None:
    await wire.post(SSE, HI)
    await reset(wire)


async def rst_in_the_body(wire: Wire) -> None:
    await wire.write(request_bytes("POST", SSE, b"{", PROMISED))
    await reset(wire)


async def half_close(wire: Wire) -> None:
    await wire.post(SSE, HI)
    await wire.finish()
    await wire.rest()


async def stall(wire: Wire) -> None:
    await wire.post(SSE, HI)
    await asyncio.sleep(0.3)  # a client that reads nothing for a while


async def slow_headers(wire: Wire) -> None:
    await wire.write(b"POST / HT")
    assert b" 400 " in await wire.rest()


async def slow_body(wire: Wire) -> None:
    await wire.write(request_bytes("POST", SSE, b"{", PROMISED))
    assert b" 400 " in await wire.rest()


async def oversize(wire: Wire) -> None:
    await wire.post(SSE, b'{"contents": "%s"}' % (b"x" * 200_000))
    assert (await wire.answer()).status == 413


async def bomb(wire: Wire) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(b'{"contents": "' + b"x" * 50_000_000) + packer.flush()
    await wire.post(SSE, packed, {**KEY, "Content-Encoding": "gzip"})
    assert (await wire.answer()).status == 413


async def pipelining(wire: Wire) -> None:
    for _ in range(3):
        await wire.post(UNARY, HI)
    assert [(await wire.answer()).status for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(
    "fault",
    [rst, rst_in_the_body, half_close, stall, slow_headers, slow_body, oversize, bomb, pipelining],
    ids=lambda fault: fault.__name__,
)
async def test_a_clients_fault_leaves_nothing_behind(fault: Callable[[Wire], Awaitable[None]]) -> None:
    metrics = Metrics()
    async with (
        running_upstream() as (upstream_url, recorded),
        gateway_with(
            upstream_url, {"AfterModel": [{**says(), "stream": "event"}]}, limits=SHORT, metrics=metrics
        ) as url,
    ):
        assert (await post(url, UNARY, HI)).status == 200  # which leaves a connection to the upstream, idle
        async with nothing_left():
            async with connected(url) as wire:
                await fault(wire)
            await until(lambda: b"hookgate_calls_in_flight 0.0" in metrics.page())
            await until(lambda: all(each.finished or each.aborted for each in recorded))
            assert (await post(url, UNARY, HI)).status == 200


async def test_a_connection_that_cannot_be_served_does_not_end_the_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = iter([RuntimeError("no socket")])
    enter = listener.OpenConnections.enter

    def enter_later(connections: Any, tracked: Any) -> None:
        for failure in failures:
            raise failure
        enter(connections, tracked)

    monkeypatch.setattr(listener.OpenConnections, "enter", enter_later)
    async with running_gateway({}) as gateway:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await post(gateway.url, UNARY, HI)
        assert (await post(gateway.url, UNARY, HI)).status == 200


def test_a_tls_connection_whose_peer_has_gone_has_nothing_queued() -> None:
    class Gone(asyncio.Transport):
        def get_write_buffer_size(self) -> int:
            return 0

    assert kept.unsent_bytes(Gone()) == kept.unread_bytes(Gone()) == 0


async def test_time_in_which_the_gateway_does_not_read_does_not_count_against_a_body() -> None:
    """The client has all of `body_timeout` for its next bytes from when it may send them."""
    now = 0.0
    loop = asyncio.get_running_loop()
    connection = kept.TimedConnection(web.Server(_never), LimitSettings(body_timeout=10), loop)
    connection._loop = SimpleNamespace(time=lambda: now)  # type: ignore[assignment]  # a clock is enough
    body = connection._body = StreamReader(connection, 2**16, loop=loop)
    connection._reading_paused = True
    now = 9.9
    connection.resume_reading(resume_parser=False)
    now = 10.0
    assert connection._check_body() == 9.9 + 10
    assert body.exception() is None


async def _never(request: web.BaseRequest) -> web.StreamResponse:
    raise NotImplementedError
