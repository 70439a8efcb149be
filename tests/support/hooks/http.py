"""HTTP hooks of a test, and the services that they call."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from support.hooks.kinds import ask, hook_of, running

from hookgate.hooks.settings import Hook, HttpConfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

CANARY = "canary-7d1f"
"""A secret, which no error may tell."""

BROKEN_OFF = "closed the connection before its answer was complete"


def http(url: str, name: str = "guard", **more: Any) -> Hook:
    return hook_of(HttpConfig(type="http", url=url, **more), name=name)


async def seen_input(url: str, **more: Any) -> Any:
    """What a service that does `echo` saw of one event."""
    async with running(http(url, **more)) as runner:
        return json.loads((await ask(runner, text="hi é"))["reason"])


# ---- services


def answering(*args: Any, **more: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(*args, **more)

    return handler


async def echo(request: web.Request) -> web.Response:
    """Answers with what was asked, and how."""
    call = await request.json()
    how = [request.method, request.path_qs, request.content_type, dict(request.headers)]
    return web.json_response({"reason": json.dumps([call, *how])})


@asynccontextmanager
async def service(handler: Handler, socket: Path | None = None) -> AsyncIterator[str]:
    """An HTTP service on a free port, or on a unix socket; gives its base url."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.UnixSite(runner, str(socket)) if socket else web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"unix:{socket}" if socket else "http://{}:{}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


# ---- services, byte for byte


@asynccontextmanager
async def peer(talk: Talk) -> AsyncIterator[str]:
    """A service that says byte for byte what a test wants, once per connection; gives its base url."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        connections.add(task)
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):  # the other side has left
            pass
        finally:
            writer.close()
            connections.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield "http://{}:{}".format(*server.sockets[0].getsockname())
    finally:
        server.close()
        await asyncio.gather(*connections)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The body of the next request on a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    return await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))


def response(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)
