"""The memory of WebSocket messages from clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.live import LIVE, ScriptedModel, live
from support.gateway.loopback import gateway_before, runs
from support.wire import KEY

from hookgate.proxy.config import Config, LimitSettings
from hookgate.proxy.server.bodies import SMALL_BODY
from hookgate.proxy.server.memory import BodyMemory, MemoryLease
from hookgate.proxy.server.websocket_frames import IncomingMessages, MessageSizes

Json = dict[str, Any]
SETUP = {"setup": {"model": "models/gemini-live"}}
END: Json = {"serverContent": {"turnComplete": True}}
MEMORY = 1024 * 1024
PING = 0x9


def frame(size: int, opcode: int = WSMsgType.TEXT, *, ends: bool = True, sent: int | None = None) -> bytes:
    """A frame of a client, of which the first `sent` bytes of the payload are sent."""
    short = size if size < 126 else 126 if size < 1 << 16 else 127
    length = size.to_bytes({126: 2, 127: 8}.get(short, 0)) if short > 125 else b""
    head = bytes([(0x80 if ends else 0) | opcode, 0x80 | short]) + length + bytes(4)
    return head + b"a" * (size if sent is None else sent)


MESSAGES = st.lists(
    st.tuples(st.lists(st.sampled_from([0, 1, 125, 126, 70_000]), min_size=1, max_size=3), st.booleans()),
    max_size=4,
)


@given(MESSAGES, st.lists(st.integers(0, 300_000), max_size=5), st.integers(1, 9))
def test_sizes_are_those_of_the_frames_wherever_they_are_split(
    messages: list[tuple[list[int], bool]], edges: list[int], begun: int
) -> None:
    data, sizes = b"", []
    for payloads, with_ping in messages:
        last = len(payloads) - 1
        frames = [frame(size, 0 if n else 1, ends=n == last) for n, size in enumerate(payloads)]
        data += b"".join((frame(4, PING) if with_ping else b"") + each for each in frames)
        sizes.append(sum(map(len, frames)))
    data += frame(9, sent=begun - 1)
    meter, found = MessageSizes(), []
    points = [0, *sorted(edge % (len(data) + 1) for edge in edges), len(data)]
    chunks = [data[a:b] for a, b in pairwise(points)]
    for chunk in chunks:
        found += meter.feed(chunk)
    slack = 64 * len(chunks) + 3 * len(frame(4, PING))
    assert len(found) == len(sizes)
    assert all(size <= seen <= size + slack for size, seen in zip(sizes, found, strict=True))
    assert 6 + begun - 1 <= meter.unfinished <= 6 + begun - 1 + slack


def test_pings_between_messages_count_nothing() -> None:
    meter = MessageSizes()
    for _ in range(1000):
        assert meter.feed(frame(125, PING)) == []
    assert meter.unfinished == 0


def test_a_message_that_arrives_byte_by_byte_counts_with_its_overhead() -> None:
    meter = MessageSizes()
    for byte in frame(1000, sent=900):
        meter.feed(bytes([byte]))
    assert meter.unfinished > 30 * 900


class CountedBytes(bytes):
    """Bytes that count how often they are read."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        return super().__getitem__(place)


def test_the_heads_of_empty_frames_are_not_read_byte_by_byte() -> None:
    frames = 1000
    data = CountedBytes(frame(0, ends=False) + frame(0, 0, ends=False) * (frames - 1))
    MessageSizes().feed(data)
    assert data.reads <= 2 * frames


class Parser:
    """Receives what is passed on."""

    def __init__(self) -> None:
        self.data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        pass


async def test_a_large_message_that_does_not_end_is_refused_once_others_wait_for_its_memory() -> None:
    memory = BodyMemory(LimitSettings(memory=MEMORY, body_timeout=0.02), SMALL_BODY)
    lease, parser = MemoryLease(memory), Parser()
    incoming = IncomingMessages(parser, lease)
    incoming.feed_data(frame(2 * MEMORY, sent=MEMORY))
    exceeding, waiting = (asyncio.create_task(MemoryLease(memory).reserve(MEMORY // 2)) for _ in range(2))
    async with asyncio.timeout(10):
        assert "too slowly" in await incoming.refusal()
    received = len(parser.data)
    incoming.feed_data(b"a")
    assert len(parser.data) == received
    await exceeding
    waiting.cancel()


async def test_a_large_message_that_does_not_end_makes_room_for_other_messages() -> None:
    memory = BodyMemory(LimitSettings(memory=MEMORY, body_timeout=0.5), SMALL_BODY)
    holder, other = (IncomingMessages(Parser(), MemoryLease(memory)) for _ in range(2))
    holder.feed_data(frame(2 * MEMORY, sent=MEMORY))
    other.feed_data(frame(MEMORY, sent=MEMORY // 2))
    async with asyncio.timeout(10):
        assert "no memory" in await other.refusal()
        assert "too slowly" in await holder.refusal()


async def test_a_message_of_empty_frames_only_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgate.proxy.server.websocket_frames._MAX_UNFINISHED", MEMORY)
    memory = BodyMemory(LimitSettings(memory=1024 * MEMORY), SMALL_BODY)
    parser = Parser()
    incoming = IncomingMessages(parser, MemoryLease(memory))
    incoming.feed_data(frame(0, ends=False))
    for _ in range(20):
        incoming.feed_data(frame(0, 0, ends=False) * 10_000)
    assert len(parser.data) < MEMORY + 100_000
    assert "too many frames" in await incoming.refusal()


async def test_a_message_in_many_tiny_frames_is_refused_before_they_are_read() -> None:
    memory = BodyMemory(LimitSettings(), SMALL_BODY)
    for payload, frames, passes in ((0, 60, True), (1000, 10_000, True), (0, 100, False), (1, 100, False)):
        parser = Parser()
        incoming = IncomingMessages(parser, MemoryLease(memory))
        data = frame(payload, ends=False) + frame(payload, 0, ends=False) * (frames - 1)
        incoming.feed_data(data)
        assert parser.data == (data if passes else b"")
    assert "too many frames" in await incoming.refusal()


@asynccontextmanager
async def sessions(count: int) -> AsyncIterator[list[aiohttp.ClientWebSocketResponse[bool]]]:
    """Live sessions at a gateway with little memory, whose model answers each message with `END`."""
    config = Config.model_validate({"routes": {"live": "judge"}, "limits": {"memory": MEMORY}})
    model = ScriptedModel({"clientContent": [END], "realtimeInput": [END]})
    async with AsyncExitStack() as stack, asyncio.timeout(30):
        upstream = await stack.enter_async_context(live(model))
        url = await stack.enter_async_context(gateway_before(upstream, {"BeforeModel": [runs(dict)]}, config))
        http = await stack.enter_async_context(aiohttp.ClientSession(headers=KEY))
        sockets = [await stack.enter_async_context(http.ws_connect(url + LIVE)) for _ in range(count)]
        for socket in sockets:
            await socket.send_json(SETUP)
            await socket.receive()
        yield sockets


async def test_unfinished_messages_that_do_not_fit_are_refused_and_small_ones_pass() -> None:
    async with sessions(9) as [other, *sockets]:
        for socket in sockets:
            wire: Any = socket._response.connection
            wire.transport.write(frame(MEMORY // 2, sent=MEMORY // 2 - 1))
        waiting = {asyncio.create_task(each.receive()) for each in sockets}
        while len(waiting) > 2:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for end in (task.result() for task in done):
                assert (end.type, end.data) == (WSMsgType.CLOSE, 1013)
                assert "memory" in end.extra
        await other.send_json({"realtimeInput": {"text": "hi"}})
        assert json.loads((await other.receive()).data) == END
        for task in waiting:
            task.cancel()


async def test_the_memory_of_a_message_is_free_once_it_has_been_sent_on() -> None:
    said = {"clientContent": {"turns": [{"role": "user", "parts": [{"text": "a" * (MEMORY // 3)}]}]}}
    async with sessions(2) as sockets:
        for _ in range(8):
            for socket in sockets:
                await socket.send_json(said)
                assert json.loads((await socket.receive()).data) == END
