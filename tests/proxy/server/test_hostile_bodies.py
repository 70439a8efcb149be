"""The cost of a body is bounded by its size: early refusals, and work outside the event loop."""

import asyncio
import gzip
import json
import threading
import zlib
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, says
from support.wire import KEY, SSE, UNARY, peer, post

from hookgate.proxy.config import Config, LimitSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.server import bodies
from hookgate.proxy.server.bodies import SMALL_BODY, BodyWorker, MemoryLease, inflate
from hookgate.translator import BodyError, JsonArray, ServerSentEvents
from hookgate.translator.streaming import framing
from hookgate.translator.strictjson import parse

HOOKS = {"BeforeModel": [says()]}
HI = b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"x":'
VALUES = LimitSettings().values
MIB = 1024 * 1024


def filled(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("value", "status", "why"),
    [
        (b"[" + b"[]," * VALUES + b"1]", 413, "values"),
        (b"[" + b'{"a":1},' * VALUES + b"1e300]", 413, "values"),
        (b"[" + b"1e300," * VALUES + b"1]", 413, "values"),
        (b"[" + b'"",' * VALUES + b"1]", 413, "values"),
        (b"{" + b",".join(b'"%d":1' % n for n in range(VALUES)) + b"}", 413, "values"),
        (b'"' + filled(b"a", 17 * MIB) + b'"', 413, "base64"),
        (filled(b" ", 17 * MIB) + b"1", 413, "base64"),
        (filled(b"\t\n", 65 * MIB) + b"1", 413, "too large"),
        (b"[" * 5000 + b"]" * 5000, 400, "not valid JSON"),
        (b"1" * MIB, 400, "not valid JSON"),
        (b'"' + filled(b'\\"', MIB) + b'",1e300', 400, "not valid JSON"),
    ],
    ids=[
        "lists",
        "objects",
        "floats",
        "texts",
        "keys",
        "text",
        "blanks",
        "bytes",
        "deep",
        "digits",
        "cut",
    ],
)
async def test_a_hostile_body_is_refused_and_nothing_of_it_goes_upstream(
    value: bytes, status: int, why: str, packed: bool
) -> None:
    body, coding = HI + value + b"}", {}
    if packed:
        body, coding = gzip.compress(body, 1), {"Content-Encoding": "gzip"}
    async with running_gateway(HOOKS) as gateway:
        answer = await post(gateway.url, UNARY, body, {**KEY, **coding})
        assert not gateway.recorded
    assert (answer.status, answer.error["status"]) == (status, "INVALID_ARGUMENT")
    assert why in answer.error["message"]


async def test_a_request_with_a_large_image_passes_unchanged() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": "QUJD" * (5 * MIB)}}
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "what is it?"}, part]}]}).encode()
    async with running_gateway({**HOOKS, "AfterModel": [says()]}) as gateway:
        answer = await post(gateway.url, UNARY, body)
        [request] = gateway.recorded
    assert answer.status == 200
    assert request.body == json.loads(body)


async def test_large_bodies_are_parsed_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    where = []

    def noted(data: bytes, bounds: Any) -> Any:
        where.append((len(data) > SMALL_BODY, threading.current_thread() is threading.main_thread()))
        return parse(data, bounds)

    monkeypatch.setattr(bodies, "parse", noted)
    async with running_gateway(HOOKS) as gateway:
        for size in (10, SMALL_BODY):
            assert (await post(gateway.url, UNARY, HI + b'"' + b"a" * size + b'"}')).status == 200
    assert where == [(False, True), (True, False)]


# ---- inflating


class _Counting:
    """zlib.decompressobj, with a count of what came out."""

    def __init__(self) -> None:
        self.given, self._make = 0, zlib.decompressobj

    def __call__(self, window: int) -> Any:
        stream, counting = self._make(window), self

        class Stream:
            def __getattr__(self, name: str) -> Any:
                return getattr(stream, name)

            def decompress(self, data: bytes, most: int) -> bytes:
                piece = stream.decompress(data, most)
                counting.given += len(piece)
                return piece

        return Stream()


def test_inflating_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, counting = gzip.compress(bytes(300 * MIB), 1), _Counting()
    monkeypatch.setattr(bodies.zlib, "decompressobj", counting)
    with pytest.raises(ApiError) as refused:
        inflate(packed, "gzip", 2 * MIB)
    assert refused.value.code == 413
    assert counting.given <= 2 * MIB + bodies.INFLATE_STEP


PACKED = gzip.compress(b"abc" * 1000, mtime=0)  # the same bytes in every test process


@pytest.mark.parametrize(
    ("data", "coding"),
    [
        (PACKED[:-1], "gzip"),
        (PACKED[:5], "gzip"),
        (PACKED + b"x", "gzip"),
        (PACKED + PACKED, "gzip"),
        (PACKED + b"x" * 100_000, "gzip"),
        (PACKED[:-8] + b"\0" * 8, "gzip"),
        (PACKED, "deflate"),
        (zlib.compress(b"abc"), "gzip"),
        (zlib.compress(b"abc")[:-1], "deflate"),
    ],
)
def test_a_compressed_body_that_is_not_one_whole_stream_is_refused(data: bytes, coding: str) -> None:
    with pytest.raises(ApiError) as refused:
        inflate(data, coding, MIB)
    assert refused.value.code == 400


def test_deflate_is_taken_with_and_without_its_header() -> None:
    raw = zlib.compressobj(wbits=-15)
    bare = raw.compress(b"abc") + raw.flush()
    assert inflate(zlib.compress(b"abc"), "deflate", MIB) == inflate(bare, "deflate", MIB) == b"abc"


# ---- memory


async def test_bodies_wait_for_room_in_their_order() -> None:
    body_worker = BodyWorker(LimitSettings(memory=100))
    first, order = MemoryLease(body_worker), []

    async def take(size: int) -> MemoryLease:
        room = MemoryLease(body_worker)
        await room.acquire(size)
        order.append(size)
        return room

    await first.acquire(90)
    waiting = [asyncio.create_task(take(size)) for size in (60, 30, 20)]
    await asyncio.sleep(0)
    assert body_worker.contended
    first.release()
    await asyncio.gather(*waiting[:2])
    assert (order, body_worker.leased_bytes) == ([60, 30], 90)
    waiting[0].result().release()
    await waiting[2]
    assert body_worker.leased_bytes == 50


async def test_a_body_that_finds_no_room_is_refused_and_keeps_none() -> None:
    body_worker = BodyWorker(LimitSettings(memory=100, body_timeout=0.01))
    first, second = MemoryLease(body_worker), MemoryLease(body_worker)
    await first.acquire(100)
    with pytest.raises(ApiError) as refused:
        await second.acquire(10)
    assert (refused.value.code, refused.value.reason) == (403, "BODIES_BUSY")
    assert (body_worker.leased_bytes, body_worker.contended) == (100, False)


async def test_one_body_larger_than_the_memory_for_all_is_accepted_alone() -> None:
    body_worker = BodyWorker(LimitSettings(memory=100))
    room = MemoryLease(body_worker)
    await room.acquire(1000)
    assert body_worker.leased_bytes == 1000


async def test_a_client_that_leaves_waits_no_longer() -> None:
    body_worker = BodyWorker(LimitSettings(memory=100))
    first = MemoryLease(body_worker)
    await first.acquire(100)
    task = asyncio.create_task(MemoryLease(body_worker).acquire(50))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    first.release()
    assert (body_worker.leased_bytes, body_worker.contended) == (0, False)


async def test_a_body_that_gives_up_makes_room_for_those_behind_it() -> None:
    body_worker = BodyWorker(LimitSettings(memory=100))
    first, small = MemoryLease(body_worker), MemoryLease(body_worker)
    await first.acquire(60)
    large = asyncio.create_task(MemoryLease(body_worker).acquire(50))
    behind = asyncio.create_task(small.acquire(40))
    await asyncio.sleep(0)
    assert (large.done(), behind.done(), body_worker.contended) == (False, False, True)
    large.cancel()
    await behind
    assert large.cancelled()
    assert (body_worker.leased_bytes, body_worker.contended) == (100, False)


async def test_room_that_came_just_when_its_client_left_is_given_on() -> None:
    body_worker = BodyWorker(LimitSettings(memory=100))
    first, next_one = MemoryLease(body_worker), MemoryLease(body_worker)
    await first.acquire(100)
    leaving = asyncio.create_task(MemoryLease(body_worker).acquire(100))
    waiting = asyncio.create_task(next_one.acquire(100))
    await asyncio.sleep(0)
    first.release()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await waiting
    assert (body_worker.leased_bytes, next_one.size) == (100, 100)


async def test_a_body_releases_its_memory_before_it_requests_more() -> None:
    body_worker = BodyWorker(LimitSettings(memory=100))
    lease = MemoryLease(body_worker)
    await lease.acquire(60)
    await lease.acquire(100)
    assert body_worker.leased_bytes == 100
    lease.resize(30)
    assert (body_worker.leased_bytes, lease.size) == (30, 30)
    lease.resize(130)  # what it has become takes no room from others, and is not waited for
    assert body_worker.leased_bytes == 130
    lease.release()
    assert (body_worker.leased_bytes, lease.size, body_worker.fair_seconds) == (
        0,
        0,
        body_worker.limits.body_timeout / 2,
    )


async def test_steps_of_large_bodies_share_one_thread() -> None:
    body_worker = BodyWorker(LimitSettings())

    def fail() -> None:
        raise ValueError("no body")

    names = {await body_worker.run(SMALL_BODY + 1, lambda: threading.current_thread().name) for _ in range(3)}
    assert names == {"hookgate-bodies_0"}
    assert await body_worker.run(SMALL_BODY, threading.current_thread) is threading.current_thread()
    assert await body_worker.run_in_thread(0, threading.current_thread) is not threading.current_thread()
    with pytest.raises(ValueError, match="no body"):
        await body_worker.run_in_thread(0, fail)


async def test_calls_give_their_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    workshops = []

    class Noted(BodyWorker):
        def __init__(self, limits: LimitSettings) -> None:
            super().__init__(limits)
            workshops.append(self)

    monkeypatch.setattr("hookgate.proxy.server.listener.BodyWorker", Noted)
    async with running_gateway(HOOKS) as gateway:
        for body in (HI + b"1}", HI + b"}", HI + b'"' + b"a" * SMALL_BODY + b'"}', gzip.compress(HI)):
            await post(gateway.url, UNARY, body)
        await post(gateway.url, UNARY, gzip.compress(HI + b"1}"), {**KEY, "Content-Encoding": "gzip"})
    assert [body_worker.leased_bytes for body_worker in workshops] == [0]


# ---- answers


@pytest.mark.parametrize("kind", [ServerSentEvents, JsonArray])
def test_an_event_has_a_bound(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 1000)
    decoder, begin = kind(), {ServerSentEvents: b'data: {"a":"', JsonArray: b'[{"a":"'}[kind]
    decoder.feed(begin)
    decoder.feed(b"a" * 900)
    with pytest.raises(BodyError, match="larger than 1000 bytes"):
        decoder.feed(b"a" * 200)


async def test_a_stream_without_an_end_of_its_event_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 100_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    async with peer(head + b"data: " + b"a" * 200_000) as upstream, _before(upstream.url) as url:
        answer = await post(url, SSE, HI + b"1}")
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")


async def test_an_answer_of_too_many_values_is_no_answer() -> None:
    body = b'{"candidates":[],"x":[' + b"[]," * 1000 + b"1]}"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    config = Config(limits=LimitSettings(values=100))
    async with peer(head + body) as upstream, _before(upstream.url, config) as url:
        answer = await post(url, UNARY, HI + b"1}")
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")


def _before(url: str, config: Config | None = None) -> Any:
    return gateway_before(url, {"AfterModel": [says()]}, config)


async def test_an_answer_of_tiny_events_reaches_its_limit_before_its_bytes_do() -> None:
    hooks = {"AfterModel": [{**says(), "stream": "complete"}]}
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    async with peer(head + b"id:\n\n" * 150_000) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, SSE, HI + b"1}")
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")
