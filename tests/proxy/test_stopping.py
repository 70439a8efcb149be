"""A server that is told to stop finishes what is in flight, takes nothing new, and ends in good order."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from support.program import Server, serving
from support.wire import SSE, Wire, connected, ok

HI: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
EVENT = b'data: {"candidates":[{"content":{"parts":[{"text":"so far"}]}}]}\r\n\r\n'
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])


@dataclass(frozen=True)
class InFlight:
    """A server with a call under way: its first event has arrived, its end waits for `finish`."""

    server: Server
    wire: Wire
    headers: dict[str, str]
    finish: asyncio.Event


@asynccontextmanager
async def call_in_flight() -> AsyncIterator[InFlight]:
    finish = asyncio.Event()
    last = b"data: {}\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        whole = ok(EVENT + last, "text/event-stream")
        writer.write(whole[: -len(last)])
        await finish.wait()
        writer.write(last)
        writer.close()

    upstream = await asyncio.start_server(talk, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    async with (
        upstream,
        serving("serve", "--listen", "127.0.0.1:0", "--upstream", origin) as server,
        connected(server.url) as wire,
    ):
        await wire.post(SSE, HI)
        status, headers = await wire.head()
        assert status == 200
        assert await wire.received(len(EVENT), headers) == EVENT
        yield InFlight(server, wire, headers, finish)
        finish.set()


async def until_refused(url: str) -> None:
    """Wait until nobody listens any more."""
    while True:
        try:
            async with connected(url):
                await asyncio.sleep(0.005)
        except ConnectionRefusedError:
            return


@SIGNALS
async def test_a_call_in_flight_is_finished_and_nothing_new_is_taken(number: int) -> None:
    async with call_in_flight() as call:
        call.server.signal(number)
        assert "finishing the calls in flight" in await call.server.next_line()
        await until_refused(call.server.url)
        call.finish.set()
        assert await call.wire.received(len(b"data: {}\r\n\r\n"), call.headers) == b"data: {}\r\n\r\n"
        assert await call.server.ended() == 0
    assert "Traceback" not in call.server.log


@SIGNALS
async def test_a_second_signal_drops_what_is_in_flight(number: int) -> None:
    async with call_in_flight() as call:
        call.server.signal(number)
        await call.server.next_line()
        call.server.signal(number)
        assert await call.server.ended() == 130
        assert await call.wire.ended()
    assert "Traceback" not in call.server.log


@SIGNALS
@pytest.mark.parametrize("command", ["serve", "upstream"])
async def test_an_idle_server_ends_at_once(number: int, command: str) -> None:
    async with (
        serving(command, "--listen", "127.0.0.1:0") as server,
        connected(server.url) as idle,
    ):
        server.signal(number)
        assert await server.ended() == 0
        assert await idle.ended()
    assert "Traceback" not in server.log


async def test_the_port_is_free_again_for_the_next_one() -> None:
    async with serving("serve", "--listen", "127.0.0.1:0") as first:
        async with connected(first.url):
            first.signal(signal.SIGTERM)
            assert await first.ended() == 0
        async with serving("serve", "--listen", first.url.removeprefix("http://")) as second:
            assert second.url == first.url
