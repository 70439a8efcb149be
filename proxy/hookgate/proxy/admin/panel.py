"""The panel: its files, signing in and out, live events, and changes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from aiohttp import hdrs, web
from yarl import URL

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.proxy.admin.access import Access, admin_token_source, create_token, panel_link
from hookgate.proxy.admin.acting import Action, Actions, Comparisons, PlanAction, TryHooks
from hookgate.proxy.admin.alerts import AlertPanel
from hookgate.proxy.admin.api import Answer, Download, PanelApi, PanelRequest, Readiness
from hookgate.proxy.admin.approval_pages import link_page, read_form
from hookgate.proxy.admin.approvals import ApprovalPanel
from hookgate.proxy.admin.budgets import Budgets
from hookgate.proxy.admin.calls import AuditedCalls, Calls, ReceivedCalls
from hookgate.proxy.admin.live_feed import LiveFeed
from hookgate.proxy.admin.policy import HookPanel, ReloadSettings
from hookgate.proxy.admin.roles import Person, UnknownPersonError, find_route
from hookgate.proxy.admin.sessions import PanelSessions
from hookgate.proxy.alerts.rules import read_alert_rules
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.approvals.links import LinkError, read_links
from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.audit.index.building import open_index
from hookgate.proxy.audit.reading import AuditReader
from hookgate.proxy.config import Config, SignInSettings
from hookgate.proxy.config.reading import EffectiveConfig, Sources
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import ApiError, StoreError, only_get
from hookgate.proxy.keys.table import KeyTable
from hookgate.proxy.observe.metrics import Traffic
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.policy import PushedPolicy
from hookgate.proxy.policy.pushed import check_pushed
from hookgate.proxy.server.bodies import read_request
from hookgate.proxy.server.connection import error_response
from hookgate.proxy.server.listener import address_of
from hookgate.proxy.sessions.sessions import Sessions
from hookgate.proxy.store.database import (
    FAILURES,
    open_alerts,
    open_approvals,
    open_audit,
    open_keys,
    reason,
)
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

if TYPE_CHECKING:  # its libraries are in an extra
    from hookgate.proxy.admin.sign_in import SignIn

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
    """The panel's files by their URL paths: `/` and `/sign-in` are the page, the others are below `/panel/`.

    Identity providers send browsers back to `/sign-in`.
    """

    def __init__(self) -> None:
        folder = files(__package__) / "pages"
        found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        self._files = {f"/panel/{name}": data for name, data in found.items()}
        self._files["/"] = self._files["/sign-in"] = self._files.pop("/panel/index.html")

    def get(self, path: str) -> web.Response | None:
        """Return a file, or None if there is none with this path."""
        data = self._files.get(path)
        if data is None:
            return None
        kind = _TYPES[path.rpartition(".")[2] if "." in path else "html"]
        headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-cache", hdrs.CONTENT_TYPE: f"{kind}; charset=utf-8"}
        return web.Response(body=data, headers=headers)


MAX_DOWNLOADS = 4

_UNREADABLE = "The panel cannot read its database at the moment; the gateway's log says why."
_NOTHING = "There is nothing at this path of the admin listener."

Handler = Callable[[web.BaseRequest, PanelRequest | None], Awaitable[web.StreamResponse]]
RecordChange = Callable[[str, str, JsonObject], Awaitable[None]]
"""Records a change: who made it, what was changed, and more about it. Raises ApiError if it cannot."""


class Panel:
    """Handles the requests to the panel."""

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a panel
        self,
        access: Access,
        api: PanelApi,
        live: LiveFeed,
        invitation: str = "",
        sign_in: "SignIn | None" = None,
        record: RecordChange | None = None,
        actions: Actions | None = None,
    ) -> None:
        self.access = access
        self.invitation = invitation
        """The log message that says how to sign in; empty if the token is configured."""
        self.api, self.live = api, live
        self._sign_in, self._record = sign_in, record
        self._pages = Pages()
        self.downloads = 0
        """The number of files that are being sent."""
        self.handlers: dict[str, Handler] = {
            **{route: self._answering(answer) for route, answer in api.answers().items()},
            "GET /": self._page,
            "GET /sign-in": self._page,
            "GET /panel/NAME": self._page,
            "GET /api/session": self._session,
            "GET /api/live": self._events,
            "POST /api/sign-in": self._sign_in_by_token,
            "POST /api/sign-in/begin": self._begin_sign_in,
            "POST /api/sign-in/finish": self._finish_sign_in,
            "POST /api/sign-out": self._sign_out,
            "POST /api/hooks/switch": self._switch,
            "POST /api/alerts/silence": self._silence,
            "POST /api/approvals": self._acting(self._plan_decision),
            "GET /approvals/NAME": self._link_page,
            "POST /approvals/NAME": self._answer_link,
            **{route: self._acting(plan) for route, plan in (actions.plans() if actions else {}).items()},
        }
        """The handler of each route. `ROUTES` says which role it needs."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; errors are answered too."""
        try:
            response = await self._answer(request)
        except ApiError as error:
            response = error_response(error)
        except (StoreError, *FAILURES) as error:
            log.error("the panel cannot read the database: %s", reason(error))
            response = error_response(ApiError(503, _UNREADABLE))
        except ConnectionError:
            raise  # the client has disconnected
        except Exception:
            log.exception("internal error in the panel; please report this")
            response = error_response(ApiError(500, "Internal error in hookgate; see the gateway's log."))
        if not response.prepared:
            for header, value in HEADERS.items():
                response.headers.setdefault(header, value)
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        route, name = find_route(request.method, path)
        is_api = path.startswith("/api/")
        if request.method == hdrs.METH_POST and is_api:
            self.access.check_change(request)
        elif request.method not in (hdrs.METH_GET, hdrs.METH_HEAD) and route is None:
            raise only_get()
        if route not in self.handlers:
            if is_api and request.method != hdrs.METH_POST:
                await self.access.authenticate(request)
            raise ApiError(404, _NOTHING)
        person = await self.access.authorize(request, route)
        question = PanelRequest(person, dict(parse_qsl(query)), name) if person else None
        return await self.handlers[route](request, question)

    # ---- approvals, which people also decide with links, without a session

    async def _plan_decision(self, body: JsonObject, person: Person) -> Action:
        return await self._approvals.plan(body, person)

    async def _link_page(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        return await self._approvals.page(_token(request))

    async def _answer_link(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        """Decide as the form of a link's page says, once that is on record. Errors are pages, too."""
        try:
            answer = await self._approvals.answer(_token(request), await read_form(request))
            await self._put_on_record(request, answer.person, "link", answer.action.name, answer.action.about)
            await answer.action.make()
        except LinkError as error:
            return link_page(str(error), status=403)
        except ApiError as error:
            return link_page(error.message, status=error.code)
        return await self._approvals.page(_token(request))

    @property
    def _approvals(self) -> ApprovalPanel:
        if self.api.approvals is None:
            raise ApiError(404, _NOTHING)
        return self.api.approvals

    async def _page(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        found = self._pages.get(request.raw_path.partition("?")[0])
        if found is None:
            raise ApiError(404, _NOTHING)
        return found

    # ---- who is signed in

    async def _session(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        """Return who makes the request, and how people can sign in."""
        try:
            person: Person | None = await self.access.authenticate(request)
        except ApiError:
            person = None
        return _json(
            {
                "name": person.name if person else None,
                "role": person.role if person else None,
                "provider": self._sign_in.provider if self._sign_in else None,
            }
        )

    async def _sign_in_by_token(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        body = await read_request(request)
        return await self.access.sign_in(request, str(body.get("token", "")))

    async def _begin_sign_in(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        if self._sign_in is None:
            raise ApiError(404, _NOTHING)
        url, flow = await self._sign_in.begin()
        return _json({"url": url, "flow": flow})

    async def _finish_sign_in(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        if self._sign_in is None:
            raise ApiError(404, _NOTHING)
        body = await read_request(request)
        try:
            person = await self._sign_in.finish(body, address_of(request.remote or ""))
        except UnknownPersonError as error:
            await self.access.sessions.end_person(error.subject)
            raise
        return await self.access.begin_session(request, person, self._sign_in.session_seconds)

    async def _sign_out(self, request: web.BaseRequest, _: PanelRequest | None) -> web.Response:
        return await self.access.sign_out(request)

    # ---- what only reads

    def _answering(self, answer: Answer) -> Handler:
        """Return the handler of a route that only reads."""

        async def handle(request: web.BaseRequest, asked: PanelRequest | None) -> web.StreamResponse:
            if asked is None:
                raise RuntimeError("this route needs a role")
            found = await answer(asked)
            return await self._send(request, found) if isinstance(found, Download) else _json(found)

        return handle

    async def _send(self, request: web.BaseRequest, file: Download) -> web.StreamResponse:
        """Send a file while it is made. Raises ApiError (429) if too many are being sent."""
        if self.downloads >= MAX_DOWNLOADS:
            raise ApiError(429, f"{MAX_DOWNLOADS} downloads are running; wait until one has ended.")
        headers = {
            **HEADERS,
            hdrs.CACHE_CONTROL: "no-store",
            hdrs.CONTENT_TYPE: file.kind,
            hdrs.CONTENT_DISPOSITION: f'attachment; filename="{file.name}"',
        }
        response = web.StreamResponse(headers=headers)
        self.downloads += 1
        try:
            chunk = await asyncio.to_thread(next, file.chunks, None)  # an error before it has a status
            await response.prepare(request)
            while chunk is not None and request.method != hdrs.METH_HEAD:
                await response.write(chunk)
                chunk = await asyncio.to_thread(next, file.chunks, None)
        except FAILURES as error:
            if not response.prepared:
                raise
            log.error("a download was cut off, because the database cannot be read: %s", reason(error))
            raise ConnectionAbortedError from None  # the client must not take it for the whole file
        finally:
            self.downloads -= 1
        return response

    # ---- live events and changes

    async def _events(self, request: web.BaseRequest, _: PanelRequest | None) -> web.StreamResponse:
        if request.method == hdrs.METH_HEAD:
            raise ApiError(404, _NOTHING)
        with self.live.reading() as reader:
            headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "text/event-stream"}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            await response.write(b"retry: 2000\n\n")
            while (data := await reader.next()) is not None and await self._may_still_read(request):
                await response.write(data)
        return response

    async def _may_still_read(self, request: web.BaseRequest) -> bool:
        try:
            await self.access.authorize(request, "GET /api/live")
        except ApiError:  # the session has ended, or cannot be read
            return False
        return True

    async def _switch(self, request: web.BaseRequest, asked: PanelRequest | None) -> web.Response:
        body = await read_request(request)
        name, on = body.get("name"), body.get("on")
        if not isinstance(name, str) or not isinstance(on, bool):
            raise ApiError(400, "hooks/switch requires `name`, and `on`: true or false")
        await self.api.hooks.check_switch(name)
        await self._note(request, asked, "hooks.switch", {"hook": name, "on": on})
        return _json(await self.api.hooks.switch(name, on))

    async def _silence(self, request: web.BaseRequest, asked: PanelRequest | None) -> web.Response:
        body, alerts = await read_request(request), self.api.alerts
        if alerts is None or asked is None:
            raise ApiError(404, "There are no rules of alerts.")
        rule, seconds = alerts.check_silence(body.get("rule"), body.get("seconds"))
        change = "alerts.silence" if seconds else "alerts.unsilence"
        await self._note(request, asked, change, {"rule": rule, **({"seconds": seconds} if seconds else {})})
        await alerts.silence(rule, seconds, asked.person.name)
        return _json({"rules": await alerts.rows()})

    def _acting(self, plan: PlanAction) -> Handler:
        """Return the handler of a route that makes a change, which is recorded before."""

        async def handle(request: web.BaseRequest, asked: PanelRequest | None) -> web.StreamResponse:
            if asked is None:
                raise RuntimeError("a change needs somebody who makes it")
            action = await plan(await read_request(request), asked.person)
            await self._note(request, asked, action.name, action.about)
            return _json(await action.make())

        return handle

    async def _note(
        self, request: web.BaseRequest, asked: PanelRequest | None, change: str, about: JsonObject
    ) -> None:
        """Log a change and record it before it is made. Raises ApiError if that is not possible."""
        if asked is None:
            raise RuntimeError("a change needs somebody who makes it")
        person = asked.person
        with_subject = {**about, "subject": person.subject} if person.subject else about
        await self._put_on_record(request, person.name, person.role, change, with_subject)

    async def _put_on_record(
        self, request: web.BaseRequest, who: str, role: str, change: str, about: JsonObject
    ) -> None:
        """Log and record a change of somebody. `role` says with which right. Raises ApiError."""
        log.info("change by %s (%s) from %s: %s %s", who, role, request.remote, change, dumps(about).decode())
        if self._record is not None:
            await self._record(who, change, about)


def _token(request: web.BaseRequest) -> str:
    return request.raw_path.partition("?")[0].rpartition("/")[2]


def _json(body: Mapping[str, Any]) -> web.Response:
    headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "application/json"}
    return web.Response(body=dumps(body), headers=headers)


@asynccontextmanager
async def open_panel(  # noqa: PLR0913, PLR0917  # the parts of a panel
    effective: EffectiveConfig,
    sources: Sources,
    reloader: EngineReloader,
    receipts: Receipts,
    store_url: str | None,
    url: str | None,
    pushed: PushedPolicy | None = None,
    reload: ReloadSettings | None = None,
    record: RecordChange | None = None,
    sessions: Sessions | None = None,
    *,
    readiness: Readiness,
    try_hooks: TryHooks,
    comparisons: Comparisons,
) -> AsyncIterator[Panel | None]:
    """Open the panel while the block runs. `url` is the admin listener's. Yields None without a listener.

    `readiness` is what the overview reports, as `/readyz` does. `try_hooks` runs hooks on a recorded call.
    `comparisons` compare policies.
    `reload` applies changed settings of hooks, by default to `reloader` only. `record` records changes.
    With `sessions`, those of calls, admins can act on calls.

    Raises ConfigError if a file with a token or a secret is invalid, and StoreError if the audit cannot be
    read.
    """
    config = effective.config
    if url is None:
        yield None
        return
    prices = read_prices(config.prices.file)
    hooks, traffic = HookPanel(reloader, sources, reload), Traffic()
    async with AsyncExitStack() as stack:
        access, invitation = _access(stack, config, store_url, sources.state, url)
        calls: Calls = ReceivedCalls(receipts)
        if config.audit.enabled:
            calls = await _audited(stack, receipts, store_url, sources.state)
        events = LiveFeed(receipts, hooks.health)
        stack.callback(events.close)
        receipts.watchers.append(traffic.add)
        stack.callback(receipts.watchers.remove, traffic.add)
        budgets = Budgets(store_url, sources.state)
        stack.push_async_callback(asyncio.to_thread, budgets.close)
        alerts = await _alerts(stack, config, store_url, sources.state)
        approvals = await _approvals(stack, config, store_url, sources.state)
        api = PanelApi(
            hooks,
            calls,
            receipts,
            traffic,
            effective,
            prices,
            budgets,
            readiness,
            comparisons,
            pushed,
            alerts,
            approvals,
        )
        stack.push_async_callback(comparisons.close)
        signing_in = _sign_in(config.sign_in, access.sessions)
        actions = None
        if sessions is not None:
            keys = await _issued_keys(stack, config, store_url, sources.state)
            check = partial(check_pushed, sources.state, prices)
            actions = Actions(sessions, keys, pushed, check, calls, try_hooks, comparisons)
        yield Panel(access, api, events, invitation, signing_in, record, actions)


async def _issued_keys(
    stack: AsyncExitStack, config: Config, url: str | None, state: Path
) -> KeyTable | None:
    if not config.clients.issued_keys:
        return None
    table = KeyTable(await asyncio.to_thread(open_keys, url, state))
    stack.push_async_callback(asyncio.to_thread, table.close)
    return table


def _sign_in(settings: SignInSettings, sessions: PanelSessions) -> "SignIn | None":
    if settings.issuer is None:
        return None
    # Imported only if it is needed: it is in an extra.
    from hookgate.proxy.admin.sign_in import SignIn  # noqa: PLC0415  # see above

    return SignIn(settings, sessions.flow_key)


def _access(
    stack: AsyncExitStack, config: Config, store_url: str | None, state: Path, url: str
) -> tuple[Access, str]:
    """Return the access check, with the configured token or a new one, and the invitation for the log."""
    port, origin = host_and_port(url.removeprefix("http://"))[1], ""
    configured, path = admin_token_source(config.admin), None
    token = configured
    if token is None:
        token, path = stack.enter_context(create_token(state, port))
    if config.sign_in.url:  # browsers reach all gateways there, whatever the ports of these
        panel = URL(config.sign_in.url)
        port, origin = panel.port or port, str(panel.origin())
    sessions = PanelSessions(store_url, state, token)
    stack.push_async_callback(sessions.close)
    access = Access(port, token, sessions, origin=origin)
    if configured is not None:
        return access, ""
    if config.logs.format == "text":
        return access, f"open the panel: {panel_link(url, token)}"
    # JSON logs are usually collected elsewhere, so they must not contain the token.
    return access, f"the panel requires the token in {path}" if path else ""


async def _alerts(stack: AsyncExitStack, config: Config, url: str | None, state: Path) -> AlertPanel | None:
    if not config.audit.enabled or not config.alerts.rules:
        return None
    table = AlertTable(await asyncio.to_thread(open_alerts, url, state))
    stack.push_async_callback(asyncio.to_thread, table.close)
    return AlertPanel(read_alert_rules(config.alerts), table)


async def _approvals(
    stack: AsyncExitStack, config: Config, url: str | None, state: Path
) -> ApprovalPanel | None:
    if not config.approvals.are_enabled:
        return None
    table = ApprovalTable(await asyncio.to_thread(open_approvals, url, state))
    stack.push_async_callback(asyncio.to_thread, table.close)
    return ApprovalPanel(config.approvals, table, read_links(config.approvals, config.approvals_url))


async def _audited(stack: AsyncExitStack, receipts: Receipts, url: str | None, state: Path) -> Calls:
    database = await asyncio.to_thread(open_audit, url, state, writes=False)
    stack.push_async_callback(asyncio.to_thread, database.close)
    opened = ExitStack()
    index = await asyncio.to_thread(opened.enter_context, open_index(database, url, state))
    stack.push_async_callback(asyncio.to_thread, opened.close)
    return AuditedCalls(AuditReader(database), index, receipts)
