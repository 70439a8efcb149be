"""The operators' listener, apart from the clients': alive, ready, what is counted, and the panel."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import hdrs, web

from hookgate.hooks.live import LiveEngine
from hookgate.proxy.accepting import accepting, url_of
from hookgate.proxy.config import Limits
from hookgate.proxy.descriptors import ADMIN
from hookgate.proxy.errors import ApiError
from hookgate.proxy.metrics import CONTENT_TYPE, Metrics
from hookgate.proxy.panel.hosts import KnownHosts
from hookgate.proxy.protocol import error_response
from hookgate.proxy.records import Receipts
from hookgate.proxy.records.receipts import NO_RECEIPT

if TYPE_CHECKING:  # its libraries are for a gateway that has one
    from hookgate.proxy.audit import Audit
    from hookgate.proxy.panel.panel import Panel

_UNKNOWN_HOST = (
    "This name is not known as one of the gateway's, so a page elsewhere may have made a browser ask. Ask by "
    "address, or list the name in admin.hosts."
)
_LIMITS = Limits(body=4096, connections=ADMIN, drain_timeout=1)


class Admin:
    """Answers operators, about the gateway whose engine, receipts and state it is given.

    `live` is its engine once it listens to clients, `audit` where its calls are put on record, `panel` what
    else is shown of it; `draining` is set when it stops.
    """

    def __init__(self, metrics: Metrics, hosts: Iterable[str] = ()) -> None:
        """`hosts` are further names by which it may be asked without a token (see `panel.hosts`)."""
        self._metrics, self._hosts = metrics, KnownHosts(hosts)
        self.url: str | None = None
        """Where it listens."""
        self.live: LiveEngine | None = None
        self.receipts = Receipts()
        self.audit: Audit | None = None
        self.panel: Panel | None = None
        self.draining = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        reads = request.method in (hdrs.METH_GET, hdrs.METH_HEAD)
        probed = self._probed(request) if reads else None
        if probed is not None:
            return probed
        if self.panel is not None:
            return await self.panel.handle(request)
        if not reads:
            return error_response(ApiError(403, "This path takes GET alone."))
        return error_response(ApiError(404, "There are /healthz, /readyz, /metrics and /receipts/ID here."))

    def _probed(self, request: web.BaseRequest) -> web.Response | None:
        """What programs ask for; None for another path."""
        match request.raw_path:
            case "/healthz":
                return _json(200, {"status": "ok"})
            case "/readyz" | "/metrics" if not self._hosts.knows(request.headers.get(hdrs.HOST, "")):
                return error_response(ApiError(403, _UNKNOWN_HOST))
            case "/readyz":
                return self._ready()
            case "/metrics":
                return web.Response(body=self._metrics.page(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})
        if request.raw_path.startswith("/receipts/"):
            return self._receipt(request, request.raw_path.removeprefix("/receipts/"))
        return None

    def _receipt(self, request: web.BaseRequest, name: str) -> web.Response:
        if self.panel is None:
            return error_response(ApiError(404, NO_RECEIPT))
        try:
            self.panel.access.check(request)
        except ApiError as error:
            return error_response(error)
        receipt = self.receipts.of(name)
        return error_response(ApiError(404, NO_RECEIPT)) if receipt is None else _json(200, receipt)

    def _ready(self) -> web.Response:
        if self.draining:
            return _json(503, {"status": "draining", "reason": "the gateway is stopping"})
        if self.live is None:
            return _json(503, {"status": "starting", "reason": "clients are not listened to yet"})
        if self.audit is not None and (trouble := self.audit.trouble):
            return _json(503, {"status": "unready", "reason": f"audit records cannot be written: {trouble}"})
        engine = self.live.current
        told = {
            "revision": engine.revision,
            "degraded": sorted(set(self.live.health.degraded)),
            "fail_open": engine.configuration.failing_open("always"),
            "fail_open_on_exit_codes": engine.configuration.failing_open("on exit codes"),
        }
        return _json(200, {"status": "ready", **told})


def _json(status: int, body: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")


@asynccontextmanager
async def listening(admin: Admin, host: str, port: int) -> AsyncIterator[str]:
    """Serve operators on an address, gives its URL. Raises OSError when the address cannot be had."""
    async with accepting(admin.handle, host, port, _LIMITS, lambda: None, calls=False) as address:
        admin.url = url_of("http", address)
        yield admin.url
