"""The supervisor's view of one worker: its metrics and health, its ended calls, and reloads."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import orjson
from aiohttp import hdrs, web

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.proxy.admin.listener import AdminListener, accepting_operators, reload_on_hangup, watching
from hookgate.proxy.audit.trail import Audit
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.callers import AcceptedKeys
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.receipts import KEPT_RECEIPTS, Receipts
from hookgate.proxy.server.connection import error_response
from hookgate.proxy.server.tls import Certificate
from hookgate.proxy.workers.sockets import WorkerSockets
from hookgate.translator.fields import JsonObject

_TICK_SECONDS = 0.25

RECORDED = b"recorded"
"""The answer to a change that is in the audit."""


class Feed:
    """What the supervisor has to know of a worker as it happens: ended calls, and the health of hooks."""

    def __init__(self, reloader: EngineReloader, receipts: Receipts, keys: AcceptedKeys) -> None:
        self._reloader, self._keys = reloader, keys
        self._ended: deque[JsonObject] = deque(maxlen=KEPT_RECEIPTS)
        self._closed = asyncio.Event()
        receipts.watchers.append(self._ended.append)

    def close(self) -> None:
        """End the feed, after what is still to be sent."""
        self._closed.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield lines of JSON, several at once, until the feed is closed."""
        known = b""
        while True:
            is_last = self._closed.is_set()
            lines = []
            while self._ended:
                lines.append(self._call(self._ended.popleft()))
            health = orjson.dumps({"health": self._health()})
            if health != known:
                known = health
                lines.append(health)
            if lines:
                yield b"".join(line + b"\n" for line in lines)
            if is_last:
                return
            try:
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._closed.wait()
            except TimeoutError:
                pass

    def _call(self, receipt: JsonObject) -> bytes:
        key = (receipt["session"] or {}).get("key", "")
        return orjson.dumps({"receipt": receipt, "share": self._keys.shares(key)[0]})

    def _health(self) -> list[JsonObject]:
        return [{"hook": list(key), **vars(status)} for key, status in self._reloader.health.all().items()]


class WorkerListener(AdminListener):
    """The request handler of a worker, for its supervisor."""

    feed: Feed | None = None
    """Set, like `reloader`, once the worker accepts clients."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.reloader is not None and self.feed is not None:
            match request.method, request.raw_path:
                case hdrs.METH_GET, "/feed":
                    return await self._send(request, self.feed)
                case hdrs.METH_POST, "/change" if self.audit is not None:
                    return await _record_change(self.audit, request)
                case hdrs.METH_POST, "/reload":
                    await self.reloader.reload()
                    return web.Response(body=orjson.dumps(self.reloader.not_in_force))
        if request.method != hdrs.METH_GET:
            return error_response(ApiError(403, "The worker does not accept this yet."))
        return await super().handle(request)

    @staticmethod
    async def _send(request: web.BaseRequest, feed: Feed) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async for lines in feed.messages():
            await response.write(lines)
        return response


async def _record_change(audit: Audit, request: web.BaseRequest) -> web.Response:
    change = orjson.loads(await request.read())
    try:
        await audit.record_change(change["by"], change["change"], change["about"])
    except ApiError as error:
        return error_response(error)
    return web.Response(body=RECORDED)


@asynccontextmanager
async def running_worker_admin(
    sockets: WorkerSockets, reloader: EngineReloader, certificate: Certificate | None, metrics: Metrics
) -> AsyncIterator[WorkerListener]:
    """Serve the supervisor, and run the reloads, while the block runs."""
    admin = WorkerListener(metrics)
    metrics.expose_engine(reloader)
    async with AsyncExitStack() as stack:
        stack.enter_context(reload_on_hangup(reloader, certificate))
        if certificate is not None:
            await stack.enter_async_context(watching(certificate))
        await stack.enter_async_context(accepting_operators(admin, [sockets.admin]))
        yield admin


@contextmanager
def stopping_without_supervisor(sockets: WorkerSockets, interrupted: asyncio.Event) -> Iterator[None]:
    """Set `interrupted` if the supervisor ends while the block runs."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(sockets.lifeline)
        interrupted.set()

    loop.add_reader(sockets.lifeline, ended)  # the supervisor sends nothing, so this is its end
    try:
        yield
    finally:
        loop.remove_reader(sockets.lifeline)
