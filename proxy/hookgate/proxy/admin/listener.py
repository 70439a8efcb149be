"""The operators' listener: health, readiness, metrics and the panel, and reloads."""

import asyncio
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import hdrs, web

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.proxy.admin.access import KnownHosts
from hookgate.proxy.admin.roles import call_for
from hookgate.proxy.background import running_beside
from hookgate.proxy.config import LimitSettings
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import ApiError, only_get
from hookgate.proxy.observe.metrics import CONTENT_TYPE, Metrics
from hookgate.proxy.observe.receipts import NO_RECEIPT, Receipts
from hookgate.proxy.policy import PushedPolicy, settings_out_of_force
from hookgate.proxy.server.connection import error_response
from hookgate.proxy.server.descriptors import ADMIN
from hookgate.proxy.server.listener import OPERATORS, accepting, bind_listeners, url_of
from hookgate.proxy.server.tls import Certificate
from hookgate.translator.fields import JsonObject

if TYPE_CHECKING:  # its libraries are for a gateway that has one
    from hookgate.proxy.admin.panel import Panel
    from hookgate.proxy.audit.trail import Audit
    from hookgate.proxy.sessions.sessions import Sessions

log = logging.getLogger("hookgate")

_UNKNOWN_HOST = (
    "This host name is not known to the gateway, so another web page may have made a browser send this "
    "request. Use an address, or list the name in admin.hosts."
)
_SHARED_SECONDS = 1.0
"""How long the metrics that were rendered for one request are the answer to others: anybody may ask."""
_LIMITS = LimitSettings(body=16 * 1024, connections=ADMIN, drain_timeout=1)


class AdminListener:
    """The request handler for operators.

    `reloader` has the gateway's engine, and is set once the gateway listens to clients. `sessions` are set
    with it; `audit`, `pushed` and `panel` are set if they are enabled. `draining` is set when the gateway
    stops.
    """

    def __init__(
        self, metrics: Metrics, hosts: Iterable[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create a listener. `hosts` are further host names that are accepted (see `KnownHosts`)."""
        self._metrics, self._hosts, self._clock = metrics, KnownHosts(hosts), clock
        self._page: asyncio.Future[bytes] | None = None
        self._page_until = 0.0
        self.url: str | None = None
        """The URL of the listener."""
        self.reloader: EngineReloader | None = None
        self.receipts = Receipts()
        self.audit: Audit | None = None
        self.sessions: Sessions | None = None
        self.pushed: PushedPolicy | None = None
        self.panel: Panel | None = None
        self.draining = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        reads = request.method in (hdrs.METH_GET, hdrs.METH_HEAD)
        probed = await self._probed(request) if reads else None
        if probed is not None:
            return probed
        if reads and request.raw_path.startswith("/receipts/"):
            return await self._receipt(request, request.raw_path.removeprefix("/receipts/"))
        if self.panel is not None:
            return await self.panel.handle(request)
        if not reads:
            return error_response(only_get())
        return error_response(ApiError(404, "The paths are /healthz, /readyz, /metrics and /receipts/ID."))

    async def _probed(self, request: web.BaseRequest) -> web.Response | None:
        """Return the response for a path that programs read, or None for other paths."""
        match request.raw_path:
            case "/healthz":
                return _json(200, {"status": "ok"})
            case "/readyz" | "/metrics" if not self._hosts.knows(request.headers.get(hdrs.HOST, "")):
                return error_response(ApiError(403, _UNKNOWN_HOST))
            case "/readyz":
                return _json(*await self.readiness())
            case "/metrics":
                page = await self._shared_page()
                return web.Response(body=page, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})
        return None

    async def _receipt(self, request: web.BaseRequest, name: str) -> web.Response:
        if self.panel is None:
            return error_response(ApiError(404, NO_RECEIPT))
        try:
            person = await self.panel.access.authorize(request, "GET /receipts/NAME")
            name = await self.panel.api.whole_id(name) or name
            receipt = self.receipts.receipt_for(name)
            if receipt is None and self.audit is not None:
                receipt = await self.audit.receipt_for(name)
        except ApiError as error:
            return error_response(error)
        if receipt is None or person is None:
            return error_response(ApiError(404, NO_RECEIPT))
        return _json(200, call_for(person, receipt))

    async def _shared_page(self) -> bytes:
        """Return the metrics as they were at most a second ago."""
        now = self._clock()
        if self._page is None or now >= self._page_until:
            self._page, self._page_until = asyncio.ensure_future(self.metrics_page()), now + _SHARED_SECONDS
        return await asyncio.shield(self._page)  # others may wait for it

    async def metrics_page(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return self._metrics.page()

    async def readiness(self) -> tuple[int, JsonObject]:
        """Return the status of `/readyz`, and its body."""
        if self.draining:
            return 503, {"status": "draining", "reason": "the gateway is stopping"}
        if self.reloader is None:
            return 503, {"status": "starting", "reason": "the gateway does not accept clients yet"}
        if self.audit is not None and (refusal := self.audit.check()):
            return 503, {"status": "unready", "reason": f"audit records cannot be written: {refusal}"}
        if self.sessions is not None and not self.sessions.are_usable():
            return 503, {"status": "unready", "reason": "the state of sessions cannot be read or written"}
        pushed = {} if self.pushed is None else {"policy": self.pushed.summary()}
        return 200, {"status": "ready", **state_of_hooks(self.reloader), **pushed}


def state_of_hooks(reloader: EngineReloader) -> JsonObject:
    """Return the facts about hooks that `/readyz` reports."""
    engine = reloader.current
    return {
        "revision": engine.revision,
        "degraded": sorted(set(reloader.health.degraded)),
        "fail_open": engine.configuration.failing_open("always"),
        "fail_open_on_exit_codes": engine.configuration.failing_open("on exit codes"),
        **settings_out_of_force(reloader.not_in_force),
    }


def _json(status: int, body: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")


@asynccontextmanager
async def serve_admin(admin: AdminListener, host: str, port: int) -> AsyncIterator[str]:
    """Serve operators on an address, and yield its URL. Raises OSError if the address cannot be bound."""
    listeners = await bind_listeners(host, port, OPERATORS)
    async with accepting_operators(admin, listeners):
        admin.url = url_of("http", listeners[0].getsockname())
        yield admin.url


def accepting_operators(
    admin: AdminListener, listeners: list[socket.socket]
) -> AbstractAsyncContextManager[None]:
    """Serve operators on listening sockets."""
    return accepting(admin.handle, listeners, _LIMITS, None, OPERATORS)


@asynccontextmanager
async def running_admin(
    reloader: EngineReloader,
    certificate: Certificate | None,
    metrics: Metrics,
    address: str | None,
    hosts: Iterable[str] = (),
) -> AsyncIterator[AdminListener]:
    """Run the admin listener and the reloads while the block runs. Raises OSError if `address` is not free.

    The gateway is reported as ready once the `reloader` of the yielded listener is set.
    """
    admin = AdminListener(metrics, hosts if address is None else (*hosts, host_and_port(address)[0]))
    metrics.expose_engine(reloader)
    async with AsyncExitStack() as stack:
        stack.enter_context(reload_on_hangup(reloader, certificate))
        if certificate is not None:
            await stack.enter_async_context(watching(certificate))
        if address is not None:
            url = await stack.enter_async_context(serve_admin(admin, *host_and_port(address)))
            log.info("admin listener on %s (panel, metrics, health)", url)
        yield admin


@contextmanager
def reload_on_hangup(
    reloader: EngineReloader, certificate: Certificate | None, also: Callable[[], None] | None = None
) -> Iterator[None]:
    """Reload the settings of hooks and the certificate, and call `also`, on SIGHUP while the block runs."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[bool]] = set()

    def reload() -> None:
        if certificate is not None:
            certificate.reload()
        if also is not None:
            also()
        task = loop.create_task(reloader.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def watching(certificate: Certificate) -> AsyncIterator[None]:
    """Load the certificate again whenever its files change, while the block runs."""
    async with running_beside(certificate.watch()):
        yield
