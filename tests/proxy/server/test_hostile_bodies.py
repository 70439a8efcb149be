"""The cost of a body is bounded by its size: early refusals, and work outside the event loop."""

import asyncio
import gc
import gzip
import json
import threading
import weakref
import zlib
from collections.abc import Coroutine
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, says
from support.wire import KEY, SSE, UNARY, peer, post

from hookgate.proxy.config import Config, LimitSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.server import bodies
from hookgate.proxy.server.bodies import SMALL_BODY, BodyWorker, Inflation
from hookgate.proxy.server.memory import BodyMemory, MemoryLease
from hookgate.translator import BodyError, JsonArray, ServerSentEvents
from hookgate.translator.known_turns import parse_turns
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

    def noted(data: bytes, *args: Any) -> Any:
        where.append((len(data) > SMALL_BODY, threading.current_thread() is threading.main_thread()))
        return (parse_turns if len(args) > 1 else parse)(data, *args)

    monkeypatch.setattr(bodies, "parse", noted)
    monkeypatch.setattr(bodies, "parse_turns", noted)
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


def inflate(data: bytes, coding: str, limit: int) -> bytes:
    inflation = Inflation(data, coding, limit)
    while inflation.advance():
        pass
    return inflation.data


def test_a_refused_body_is_freed_at_once() -> None:
    """A cycle of references would be kept until millions of other objects have been created."""
    gc.disable()
    try:
        inflation = Inflation(gzip.compress(b" " * 2_000_000), "gzip", 1_000_000)
        with pytest.raises(ApiError):
            list(iter(inflation.advance, False))
        kept = weakref.ref(inflation)
        del inflation
        assert kept() is None
    finally:
        gc.enable()


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


def shared(memory: int = 100, small: int = 0, **limits: Any) -> BodyMemory:
    return BodyMemory(LimitSettings(memory=memory, **limits), small)


def lease_of(memory: BodyMemory, address: str = "", key: str = "") -> MemoryLease:
    lease = MemoryLease(memory, address)
    lease.key = key
    return lease


async def reserved(memory: BodyMemory, size: int, address: str = "", key: str = "") -> MemoryLease:
    lease = lease_of(memory, address, key)
    await lease.reserve(size)
    return lease


async def begun(reserving: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that has begun to reserve memory."""
    task = asyncio.create_task(reserving)
    await asyncio.sleep(0)
    return task


async def test_small_bodies_are_counted_and_never_wait() -> None:
    memory = shared(small=10)
    await reserved(memory, 100, "hog")
    exceeding = await begun(reserved(memory, 50, "hog"))
    waiting = await begun(reserved(memory, 50, "other"))
    assert (exceeding.done(), waiting.done()) == (True, False)
    for address in ("hog", "other", "third"):
        lease = lease_of(memory, address)
        assert (lease.grow(5), lease.size) == (True, 5)
        with pytest.raises(StopIteration):  # it does not wait for anything
            lease.reserve(10).send(None)
    assert memory.reserved == 180
    waiting.cancel()


async def test_bodies_that_wait_keep_what_they_have_and_go_on_one_after_another() -> None:
    """Each has a part and needs more, which none of them can have: one may exceed the limit."""
    memory = shared()
    leases, order = [await reserved(memory, 25, str(number)) for number in range(4)], list[int]()

    async def complete(number: int) -> None:
        await leases[number].reserve(80)
        order.append(number)

    tasks = [await begun(complete(number)) for number in range(4)]
    assert (order, memory.reserved) == ([0], 155)
    for number in range(4):
        await tasks[number]
        assert order == [*range(number + 1)]
        assert memory.reserved <= 100 + 80
        leases[number].release()
        await asyncio.sleep(0)
    assert (memory.reserved, memory._waiting) == (0, {})


async def test_the_body_that_may_exceed_the_limit_does_not_wait_behind_others_of_its_caller() -> None:
    memory = shared()
    first, other = [await reserved(memory, 30) for _ in range(2)]
    await first.reserve(60)
    waiting = await begun(other.reserve(60))
    await first.reserve(70)
    assert not waiting.done()
    first.release()
    await waiting
    assert memory.reserved == 60


async def test_who_has_the_least_goes_first() -> None:
    memory, order = shared(memory=1000), list[str]()
    hog, _ = await reserved(memory, 500, "hog", "k"), await reserved(memory, 200, "less", "k")
    exceeding = await reserved(memory, 320, "third", "k")

    async def take(address: str, key: str) -> None:
        await reserved(memory, 20, address, key)
        order.append(f"{address} {key}")

    callers = (("hog", "k"), ("hog", "k"), ("less", "k"), ("hog", "another"), ("new", "k"))
    tasks = [await begun(take(*caller)) for caller in callers]
    exceeding.release()
    await asyncio.sleep(0)
    assert order == ["new k", "less k", "hog another"]
    hog.release()
    await asyncio.gather(*tasks)
    assert order[3:] == ["hog k", "hog k"]


async def test_nobody_passes_a_caller_who_waits_and_has_no_more() -> None:
    memory = shared(memory=1000)
    for size, address in ((500, "hog"), (300, "exceeds")):
        await reserved(memory, size, address)
    less = await reserved(memory, 100, "less")
    waiting = await begun(reserved(memory, 150, "other"))
    assert not less.grow(120)
    assert not lease_of(memory, "new").grow(10)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert less.grow(120)


async def test_a_quarter_is_kept_for_addresses_that_have_less() -> None:
    memory = shared(memory=400)
    await reserved(memory, 100, "hog")
    lease = await reserved(memory, 100, "hog")
    assert not lease.grow(250)
    assert lease.grow(200)
    assert lease_of(memory, "other").grow(100)
    assert memory.reserved == 400


async def test_a_body_that_finds_no_room_is_refused_and_keeps_what_it_had_until_its_call_ends() -> None:
    memory = shared(body_timeout=0.01)
    await reserved(memory, 100)
    await reserved(memory, 10)  # exceeds the limit
    lease = lease_of(memory)
    with pytest.raises(ApiError) as refused:
        await lease.reserve(10)
    assert (refused.value.code, refused.value.reason) == (403, "BODIES_BUSY")
    assert (memory.reserved, memory._waiting, lease.size) == (110, {}, 0)


async def test_one_body_larger_than_the_memory_for_all_is_accepted_alone() -> None:
    memory = shared()
    lease = await reserved(memory, 1000)
    await lease.reserve(2000)
    assert memory.reserved == 2000


async def test_a_client_that_leaves_waits_no_longer() -> None:
    memory = shared()
    first, _ = await reserved(memory, 100), await reserved(memory, 10)
    task = await begun(reserved(memory, 50))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    first.release()
    assert (memory.reserved, memory._waiting) == (10, {})


async def test_a_body_that_gives_up_makes_room_for_those_behind_it() -> None:
    memory = shared()
    await reserved(memory, 60, "a")
    exceeding = await reserved(memory, 50, "b")
    large = await begun(reserved(memory, 60, "c"))
    behind = await begun(reserved(memory, 10, "d"))
    exceeding.resize(30)
    assert (large.done(), behind.done(), bool(memory._waiting)) == (False, False, True)
    large.cancel()
    await behind
    assert large.cancelled()
    assert not memory._waiting


async def test_room_that_came_just_when_its_client_left_is_free_once_the_call_has_ended() -> None:
    memory = shared()
    first, _ = await reserved(memory, 99), await reserved(memory, 10)
    leaver = lease_of(memory)
    leaving = await begun(leaver.reserve(90))
    waiting = await begun(reserved(memory, 90))
    first.release()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    leaver.release()
    await waiting
    assert (memory.reserved, memory._waiting) == (100, {})


async def test_memory_is_given_back_at_once_and_what_it_has_become_is_not_waited_for() -> None:
    memory = shared()
    lease = await reserved(memory, 60)
    lease.resize(30)
    assert (memory.reserved, lease.size) == (30, 30)
    lease.resize(130)
    assert memory.reserved == 130
    lease.release()
    assert (memory.reserved, lease.size, lease.fair_seconds) == (0, 0, memory.limits.body_timeout / 2)


async def test_a_slow_body_makes_way_for_callers_who_have_no_more() -> None:
    memory = shared()
    little, hog = await reserved(memory, 10, "little"), await reserved(memory, 60, "hog")
    await reserved(memory, 40, "third")
    waiting = await begun(reserved(memory, 30, "hog"))
    assert (little.contended, hog.contended) == (False, True)
    waiting.cancel()


QUEUE_KEY = ("key", "session")


async def test_steps_of_large_bodies_share_one_thread() -> None:
    body_worker = BodyWorker(LimitSettings())

    def fail() -> None:
        raise ValueError("no body")

    names = {
        await body_worker.run(QUEUE_KEY, SMALL_BODY + 1, lambda: threading.current_thread().name)
        for _ in range(3)
    }
    assert names == {"hookgate-bodies_0"}
    assert (
        await body_worker.run(QUEUE_KEY, SMALL_BODY, threading.current_thread) is threading.current_thread()
    )
    other = await body_worker.run_in_thread(QUEUE_KEY, 0, threading.current_thread)
    assert other is not threading.current_thread()
    with pytest.raises(ValueError, match="no body"):
        await body_worker.run_in_thread(QUEUE_KEY, 0, fail)


@pytest.mark.parametrize("work", [SMALL_BODY + 1, 5 * MIB], ids=["large", "very large"])
async def test_callers_take_turns_at_the_threads_for_large_bodies(work: int) -> None:
    body_worker, ran, free = BodyWorker(LimitSettings()), list[str](), threading.Event()
    running = await begun(body_worker.run_in_thread(("many", "s"), work, free.wait))
    many = [
        await begun(body_worker.run_in_thread(("many", f"s-{n}"), work, ran.append, "many"))
        for n in range(20)
    ]
    others = [
        await begun(body_worker.run_in_thread((key, "s"), work, ran.append, key)) for key in ("one", "two")
    ]
    free.set()
    await asyncio.gather(running, *many, *others)
    assert set(ran[:3]) == {"many", "one", "two"}


async def test_the_error_of_a_step_keeps_no_body() -> None:
    """If it referred to itself, what it keeps would stay until the next garbage collection."""

    class Body:
        pass

    body_worker, body = BodyWorker(LimitSettings()), Body()
    kept = weakref.ref(body)

    def refuse(_: Body) -> None:
        raise ValueError("no body")

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ValueError, match="no body") as raised:
            await body_worker.run_in_thread(QUEUE_KEY, 0, refuse, body)
        del raised, body
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            while kept() is not None:  # noqa: ASYNC110  # the thread forgets its step a moment later
                await asyncio.sleep(0.001)
    finally:
        gc.enable()


async def test_the_thread_for_large_bodies_is_free_only_when_its_step_has_ended() -> None:
    """A call that leaves does not end its step."""
    body_worker, began, free = BodyWorker(LimitSettings()), threading.Event(), threading.Event()

    def step() -> None:
        began.set()
        free.wait()

    leaving = await begun(body_worker.run_in_thread(("many", "s"), SMALL_BODY + 1, step))
    await asyncio.to_thread(began.wait)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    queued = [
        await begun(body_worker.run_in_thread((key, "s"), SMALL_BODY + 1, abs, -1)) for key in ("many", "one")
    ]
    queued[0].cancel()
    free.set()
    assert await queued[1] == 1


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
    assert [body_worker.memory.reserved for body_worker in workshops] == [0]


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
    async with peer(head + b"data: {}\n\n" * 150_000) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, SSE, HI + b"1}")
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")
