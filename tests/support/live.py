"""Upstreams of Live sessions, and TLS before a gateway, without which google-genai opens no WebSocket."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import trustme
from aiohttp import WSMsgType, web

LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


@asynccontextmanager
async def live(
    session: Callable[[web.WebSocketResponse], Any], seen: list[web.BaseRequest] | None = None
) -> AsyncIterator[str]:
    """An upstream whose WebSockets run `session`; gives its base url."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if seen is not None:
            seen.append(request)
        socket = web.WebSocketResponse(protocols=["live.v2"], autoping=False, max_msg_size=0)
        socket.set_cookie("session", "of-another")
        await socket.prepare(request)
        await session(socket)
        return socket

    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


class ScriptedModel:
    """A server of Live sessions. A script has the messages with which it answers each kind of message."""

    def __init__(self, script: dict[str, list[Any]]) -> None:
        self._script = {"setup": [{"setupComplete": {}}], **script}
        self.received: list[Any] = []

    async def __call__(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                continue
            self.received.append(json.loads(message.data))
            for kind in self.received[-1]:
                for answer in self._script.get(kind.replace("_c", "C").replace("_r", "R"), []):
                    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                    await socket.send_bytes(data)


@asynccontextmanager
async def with_tls(url: str) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """The https URL of a server at `url`, and a context that trusts its certificate."""
    authority, here, trusts = (
        trustme.CA(),
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(),
    )
    authority.issue_cert("localhost").configure_cert(here)
    authority.configure_trust(trusts)
    place = urlsplit(url)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(place.hostname, place.port)
        await asyncio.gather(pipe(reader, to_there), pipe(there, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=here)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}", trusts
