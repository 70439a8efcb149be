"""The embedded upstream, listening."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from hookgate.proxy.embedded.script import Script
from hookgate.proxy.embedded.server import make_app
from hookgate.proxy.embedded.wire import RECORDED, Recorded
from hookgate.proxy.wording import why


@dataclass(frozen=True, slots=True)
class EmbeddedUpstream:
    """Where it listens, and the requests that reached it."""

    url: str
    recorded: deque[Recorded]


async def _listen(site: web.TCPSite, address: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise OSError(f"cannot listen on {address}: {why(error)}; name another address") from None


@asynccontextmanager
async def running(
    script: Script | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[EmbeddedUpstream]:
    """Serve the embedded upstream; port 0 takes a free one. Raises OSError when the address is taken."""
    app = make_app(script)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await _listen(web.TCPSite(runner, host, port), f"{host}:{port}")
        bound_host, bound_port = runner.addresses[0][:2]
        yield EmbeddedUpstream(f"http://{bound_host}:{bound_port}", app[RECORDED])
    finally:
        await runner.cleanup()
