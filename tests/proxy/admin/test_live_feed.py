"""The panel's live events while calls run, which never wait for a reader."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.gateway.life import until
from support.gateway.loopback import says
from support.gateway.panel import BEARER, panel_gateway
from support.wire import HI, UNARY, Wire, ask, connected, post, request_bytes

from hookgate.proxy.admin.live_feed import MAX_READERS, MAX_WAITING, LiveFeed, Reader
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.record import CallRecord

DENY = {"BeforeModel": [{**says({"decision": "deny"}), "name": "guard"}]}


def ended(receipts: Receipts) -> str:
    """One call more that has ended; its ID."""
    record = CallRecord()
    record.end(200, 10)
    receipts.add(record)
    return record.id


async def event(wire: Wire, name: str) -> Any:
    """The data of the next event of this name."""
    text = ""
    while chunk := await wire.chunk():
        text += chunk.decode()
        for reported in text.split("\n\n")[:-1]:
            if reported.startswith(f"event: {name}\n"):
                return json.loads(reported.partition("data: ")[2])
    raise AssertionError("the stream has ended")


async def opened(wire: Wire) -> dict[str, str]:
    await wire.write(request_bytes("GET", "/api/live", b"", BEARER))
    status, headers = await wire.head()
    assert status == 200
    await wire.chunk()
    return headers


async def test_a_call_is_reported_of_when_it_has_ended(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY) as gateway, connected(gateway.admin) as wire:
        headers = await opened(wire)
        assert headers["content-type"] == "text/event-stream"
        await post(gateway.url, UNARY, HI)
        assert await event(wire, "calls") == {"count": 1}


async def test_a_switched_hook_is_reported_of(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, DENY) as gateway, connected(gateway.admin) as wire:
        await opened(wire)
        before = gateway.reloader.current.revision
        change = {"name": "guard", "on": False}
        await post(gateway.admin, "/api/hooks/switch", change, {"X-Hookgate-Panel": "1", **BEARER})
        assert (await event(wire, "hooks"))["revision"] != before


async def test_the_stream_ends_with_the_gateway(tmp_path: Path) -> None:
    gateway = panel_gateway(tmp_path)
    async with connected((await gateway.__aenter__()).admin) as wire:
        await opened(wire)
        stopping = asyncio.create_task(gateway.__aexit__(None, None, None))
        async with asyncio.timeout(0.9):  # the listener would cut it off after a second
            assert await wire.chunk() == b""
        await stopping


async def test_without_readers_nothing_is_collected() -> None:
    receipts = Receipts()
    live = LiveFeed(receipts, dict, tick=0.001)
    assert receipts.watchers == []
    with live.reading():
        assert len(receipts.watchers) == 1
        with live.reading():
            assert len(receipts.watchers) == 1
        assert len(receipts.watchers) == 1
    assert receipts.watchers == []


async def test_many_calls_are_reported_of_together_and_counted() -> None:
    receipts = Receipts()
    live = LiveFeed(receipts, dict, tick=0.02)
    with live.reading() as reader:
        for _ in range(80):
            ended(receipts)
        data = await reader.next()
        assert data is not None
    assert json.loads(data.partition(b"data: ")[2]) == {"count": 80}


async def test_calls_are_announced_a_tick_after_their_end_when_their_records_are_in_the_audit() -> None:
    receipts = Receipts()
    tick = 0.05
    live = LiveFeed(receipts, dict, tick)
    with live.reading() as reader:
        began = time.monotonic()
        ended(receipts)
        assert await reader.next() is not None
        assert time.monotonic() - began >= 2 * tick


async def test_a_slow_reader_is_sent_away_and_the_others_stay() -> None:
    receipts = Receipts()
    live = LiveFeed(receipts, dict, tick=0.001)
    with live.reading() as slow, live.reading() as quick:
        taken = 0
        for _ in range(MAX_WAITING + 2):
            ended(receipts)
            assert await quick.next() is not None
            taken += 1
        assert await slow.next() is None
        ended(receipts)
        assert await quick.next() is not None
    assert taken == MAX_WAITING + 2


async def test_so_many_readers_and_no_more() -> None:
    live = LiveFeed(Receipts(), dict)
    readers = [live.reading() for _ in range(MAX_READERS)]
    for each in readers:
        each.__enter__()
    with pytest.raises(ApiError, match="close one"), live.reading():
        pass
    readers[0].__exit__(None, None, None)
    with live.reading():
        pass
    for each in readers[1:]:
        each.__exit__(None, None, None)


async def test_a_waiting_reader_is_woken_by_the_end() -> None:
    reader = Reader()
    waiting = asyncio.create_task(reader.next())
    await asyncio.sleep(0)
    reader.disconnect()
    assert await waiting is None


async def test_a_reader_that_leaves_is_forgotten(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        before = len(asyncio.all_tasks())
        async with connected(gateway.admin) as wire:
            await opened(wire)
        await until(lambda: len(asyncio.all_tasks()) <= before)
        assert (await ask(gateway.admin, "GET", "/healthz")).status == 200
