"""Streams in progress: their first event has arrived, and their end waits for the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from support.programs.program import Server, serving
from support.wire import HI, SSE, Wire, connected, ok

_FIRST = b'data: {"candidates":[{"content":{"parts":[{"text":"so far"}]}}]}\r\n\r\n'
_LAST = b"data: {}\r\n\r\n"


@dataclass(frozen=True)
class InFlight:
    """A gateway and the connections of the streams' clients; the upstream waits for `finish`."""

    server: Server
    wires: list[Wire]
    finish: asyncio.Event
    headers: dict[str, str]
    """Those of the streams' answers."""

    async def finish_all(self) -> None:
        """Let the streams end, and receive their ends."""
        self.finish.set()
        for wire in self.wires:
            assert await wire.received(len(_LAST), self.headers) == _LAST


@asynccontextmanager
async def in_flight(count: int, *arguments: str, **env: str) -> AsyncIterator[InFlight]:
    """Some streams through a gateway that is started with these arguments and variables."""
    finish = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(_FIRST + _LAST, "text/event-stream").removesuffix(_LAST))
        await finish.wait()
        writer.write(_LAST)
        writer.close()

    upstream = await asyncio.start_server(talk, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    async with (
        upstream,
        serving("serve", *arguments, "--upstream", origin, env=env, patience=150) as server,
        AsyncExitStack() as stack,
    ):
        wires = [await stack.enter_async_context(connected(server.url)) for _ in range(count)]
        for wire in wires:
            await wire.post(SSE, HI)
            status, headers = await wire.head()
            assert status == 200
            assert await wire.received(len(_FIRST), headers) == _FIRST
        yield InFlight(server, wires, finish, headers)
        finish.set()
