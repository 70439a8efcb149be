"""The panel: its files, its JSON API, its live events, and access to them."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from aiohttp import hdrs, web

from hookgate.hooks.live_engine import LiveEngine
from hookgate.proxy import __version__
from hookgate.proxy.admin.access import Access, admin_token_source, create_token, panel_link
from hookgate.proxy.admin.calls import FILTERS, AuditedCalls, Calls, ReceivedCalls, sessions_page
from hookgate.proxy.admin.live_feed import LiveFeed
from hookgate.proxy.admin.policy import HookPanel, shown_gateway, shown_policy
from hookgate.proxy.audit.reading import AuditReader, RecordFilter
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import EffectiveConfig, Sources
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import ApiError
from hookgate.proxy.http.bodies import read_request
from hookgate.proxy.http.connection import error_response
from hookgate.proxy.observe.metrics import TimeRange, Traffic
from hookgate.proxy.observe.record import Receipts
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.store.database import open_audit
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

log = logging.getLogger("hookgate")

_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every response of the panel."""


class Pages:
    """The panel's files by their URL paths: `/` is the page, the others are below `/panel/`."""

    def __init__(self) -> None:
        folder = files(__package__) / "pages"
        found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        self._files = {f"/panel/{name}": data for name, data in found.items()}
        self._files["/"] = self._files.pop("/panel/index.html")

    def get(self, path: str) -> web.Response | None:
        """Return a file, or None if there is none with this path."""
        data = self._files.get(path)
        if data is None:
            return None
        kind = _TYPES["html" if path == "/" else path.rpartition(".")[2]]
        headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-cache", hdrs.CONTENT_TYPE: f"{kind}; charset=utf-8"}
        return web.Response(body=data, headers=headers)


PAGE = 50
"""The default number of calls on a page."""

MOST = 200

_ID = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"[0-9]{1,19}|[0-9a-f]{32}|")
_NO_CALL = "There is no such call: its ID is unknown, or it is too old."

Query = Mapping[str, str]
Answer = Callable[[Query], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True)
class PanelApi:
    """The JSON API of the panel. Each answer is one JSON object."""

    hooks: HookPanel
    calls: Calls
    traffic: Traffic
    effective: EffectiveConfig
    currency: str | None
    """The currency of costs; None without a price table."""

    async def get(self, path: str, query: Query) -> JsonObject | None:
        """Return the answer for a path below `/api/`, or None if there is no such path. Raises ApiError."""
        if path.startswith("calls/"):
            return await self._call(path.removeprefix("calls/"))
        answers: dict[str, Answer] = {
            "overview": self._overview,
            "hooks": self._hooks,
            "traffic": self._series,
            "policy": self._policy,
            "calls": self._page,
            "sessions": self._sessions,
        }
        return await answers[path](query) if path in answers else None

    async def _hooks(self, _: Query) -> JsonObject:
        return await self.hooks.rows()

    async def _overview(self, _: Query) -> JsonObject:
        config = self.effective.config
        listed = await self.hooks.rows()
        in_force = await asyncio.to_thread(
            shown_policy, self.hooks.live.current.configuration, self.hooks.sources
        )
        return {
            "version": __version__,
            "now": time.time_ns() // 1_000_000,
            "since": self.traffic.since,
            "revision": listed["revision"],
            "hooks": listed["hooks"],
            "calls_from": self.calls.source,
            "content": config.audit.content if config.audit.enabled else "off",
            "files": in_force["files"],
        }

    async def _policy(self, _: Query) -> JsonObject:
        configuration = self.hooks.live.current.configuration
        policy = await asyncio.to_thread(shown_policy, configuration, self.hooks.sources)
        return {"policy": policy, "gateway": shown_gateway(self.effective)}

    async def _series(self, query: Query) -> JsonObject:
        span = query.get("span", "hour")
        if span not in ("hour", "day"):
            raise ApiError(400, "span: must be hour or day")
        return self.traffic.series(cast(TimeRange, span))

    async def _page(self, query: Query) -> JsonObject:
        session, key, model, outcome = (query.get(name, "") for name in FILTERS)
        wanted = RecordFilter(session, key, model, outcome, partial="exact" not in query)
        page = await asyncio.to_thread(self.calls.page, wanted, _limit(query), _place(query))
        found = {"calls": page.rows, "older": page.older, "source": self.calls.source}
        return {**found, "currency": self.currency}

    async def _sessions(self, query: Query) -> JsonObject:
        return await asyncio.to_thread(sessions_page, self.calls, _place(query))

    async def _call(self, call: str) -> JsonObject:
        found = await asyncio.to_thread(self.calls.call, call) if _ID.fullmatch(call) else None
        if found is None:
            raise ApiError(404, _NO_CALL)
        return found


def _limit(query: Query) -> int:
    given = query.get("limit", str(PAGE))
    if not re.fullmatch(r"[0-9]{1,4}", given) or not 1 <= int(given) <= MOST:
        raise ApiError(400, f"limit: must be a number from 1 to {MOST}")
    return int(given)


def _place(query: Query) -> str:
    given = query.get("before", "")
    if not _PLACE.fullmatch(given):
        raise ApiError(400, "before: must be the `older` value of a page")
    return given


_NOTHING = "There is nothing at this path of the admin listener."


class Panel:
    """Handles the requests to the panel."""

    def __init__(self, access: Access, api: PanelApi, live: LiveFeed, invitation: str = "") -> None:
        self.access = access
        self.invitation = invitation
        """The log message that says how to sign in; empty if the token is configured."""
        self.api, self.live = api, live
        self._pages = Pages()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; errors are answered too."""
        try:
            return await self._answer(request)
        except ApiError as error:
            refusal = error
        except ConnectionError:
            raise  # the client has disconnected
        except Exception:
            log.exception("internal error in the panel; please report this")
            refusal = ApiError(500, "Internal error in hookgate; see the gateway's log.")
        response = error_response(refusal)
        response.headers.update(HEADERS)
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = urlsplit(request.raw_path)
        if not parts.path.startswith("/api/"):
            return self._page(request, parts.path)
        path = parts.path.removeprefix("/api/")
        if request.method == hdrs.METH_POST:
            response = await self._change(request, path)
            response.headers.update(HEADERS)
            return response
        self._check_method(request)
        self.access.check(request)
        if path == "live" and request.method == hdrs.METH_GET:
            return await self._events(request)
        return _found(await self.api.get(path, dict(parse_qsl(parts.query))))

    def _page(self, request: web.BaseRequest, path: str) -> web.Response:
        self._check_method(request)
        found = self._pages.get(path)
        if found is None:
            raise ApiError(404, _NOTHING)
        return found

    @staticmethod
    def _check_method(request: web.BaseRequest) -> None:
        if request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
            raise ApiError(403, "This path accepts only GET.")

    async def _change(self, request: web.BaseRequest, path: str) -> web.Response:
        self.access.check_change(request)
        match path:
            case "sign-in":
                body = await read_request(request)
                return self.access.sign_in(request, str(body.get("token", "")))
            case "sign-out":
                return self.access.sign_out(request)
            case "hooks/switch":
                self.access.check(request)
                body = await read_request(request)
                name, on = body.get("name"), body.get("on")
                if not isinstance(name, str) or not isinstance(on, bool):
                    raise ApiError(400, "hooks/switch requires `name`, and `on`: true or false")
                log.info(
                    "request from %s: switch the hook %r %s", request.remote, name, "on" if on else "off"
                )
                return _json(await self.api.hooks.switch(name, on))
        raise ApiError(404, _NOTHING)

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        with self.live.reading() as reader:
            headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "text/event-stream"}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            await response.write(b"retry: 2000\n\n")
            while (data := await reader.next()) is not None:
                await response.write(data)
        return response


def _found(body: Mapping[str, Any] | None) -> web.Response:
    if body is None:
        raise ApiError(404, _NOTHING)
    return _json(body)


def _json(body: Mapping[str, Any]) -> web.Response:
    headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "application/json"}
    return web.Response(body=dumps(body), headers=headers)


@asynccontextmanager
async def open_panel(  # noqa: PLR0913, PLR0917  # the parts of a panel
    effective: EffectiveConfig,
    sources: Sources,
    live: LiveEngine,
    receipts: Receipts,
    store_url: str | None,
    url: str | None,
    reload: Callable[[], Awaitable[object]] | None = None,
) -> AsyncIterator[Panel | None]:
    """Open the panel while the block runs. `url` is the admin listener's. Yields None without a listener.

    `reload` applies changed settings of hooks, by default to `live` alone.

    Raises ConfigError if the token file is invalid, and StoreError if the audit cannot be read.
    """
    config = effective.config
    if url is None:
        yield None
        return
    prices = read_prices(config.prices.file)
    hooks, traffic = HookPanel(live, sources, reload), Traffic()
    async with AsyncExitStack() as stack:
        access, invitation = _access(stack, config, sources.state, url)
        calls: Calls = ReceivedCalls(receipts)
        if config.audit.enabled:
            calls = await _audited(stack, receipts, store_url, sources.state)
        events = LiveFeed(receipts, hooks.health)
        stack.callback(events.close)
        receipts.watchers.append(traffic.add)
        stack.callback(receipts.watchers.remove, traffic.add)
        api = PanelApi(hooks, calls, traffic, effective, prices.currency if prices else None)
        yield Panel(access, api, events, invitation)


def _access(stack: AsyncExitStack, config: Config, state: Path, url: str) -> tuple[Access, str]:
    """Return the access check, with the configured token or a new one, and the invitation for the log."""
    _, port = host_and_port(url.removeprefix("http://"))
    configured = admin_token_source(config.admin)
    if configured is not None:
        return Access(port, configured), ""
    token, path = stack.enter_context(create_token(state, port))
    if config.logs.format == "text":
        return Access(port, token), f"open the panel: {panel_link(url, token)}"
    # JSON logs are usually collected elsewhere, so they must not contain the token.
    return Access(port, token), f"the panel requires the token in {path}" if path else ""


async def _audited(stack: AsyncExitStack, receipts: Receipts, url: str | None, state: Path) -> Calls:
    database = await asyncio.to_thread(open_audit, url, state, writes=False)
    stack.push_async_callback(asyncio.to_thread, database.close)
    return AuditedCalls(AuditReader(database), receipts)
