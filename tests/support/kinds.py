"""Single hooks of every kind, run as the engine runs them, and services for http hooks to ask."""

import asyncio
import re
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from hookgate.hooks.document import Document
from hookgate.hooks.kinds import Runner
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.settings import AnyConfig, Hook

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

KEY = {"messages": [{"role": "user", "content": "-----BEGIN PRIVATE KEY-----"}]}
GREETING = {"messages": [{"role": "user", "content": "hi"}]}
KEPT_HERE = {"decision": "deny", "reason": "private keys stay here"}
"""What the documented examples say to a request with a KEY; to a GREETING they say nothing."""


def hook_of(config: AnyConfig, root: Path = Path("/"), name: str = "guard") -> Hook:
    return Hook(name, config, root, root / "settings.json")


@asynccontextmanager
async def running(hook: Hook, **more: Any) -> AsyncIterator[Runner]:
    """The hook's runner, closed in the end."""
    runner = make_runners([hook], **more)[hook]
    try:
        yield runner
    finally:
        await runner.close()


async def ask(runner: Runner, event: str = "BeforeModel", session: str = "s-1", **fields: Any) -> Any:
    """One run, with these fields as the input."""
    return await runner.run(event, session, Document(fields))


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


def documented(name: str) -> str:
    """The example of docs/hook-kinds.md that carries this name in its first lines."""
    page = (Path(__file__).parents[2] / "docs" / "hook-kinds.md").read_text()
    blocks = re.findall(r"(?:^(?: {4}.*)?\n)+", page, re.MULTILINE)
    [found] = [block for block in blocks if re.search(rf"^ {{4}}(?:#|//) {re.escape(name)}$", block, re.M)]
    return textwrap.dedent(found).strip() + "\n"
