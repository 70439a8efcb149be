"""The panel's JSON API, as far as it only reads."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import cast

from hookgate.proxy import __version__
from hookgate.proxy.admin.alerts import AlertPanel
from hookgate.proxy.admin.calls import Calls, refused_requests, sessions_page
from hookgate.proxy.admin.policy import HookPanel, shown_gateway, shown_policy
from hookgate.proxy.admin.roles import Person, call_for, hooks_for
from hookgate.proxy.audit.index.query import Query, parse_query, with_name
from hookgate.proxy.audit.index.reporting import report_fields
from hookgate.proxy.config.reading import EffectiveConfig
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.metrics import TimeRange, Traffic
from hookgate.proxy.observe.record import CALL_ID, Receipts
from hookgate.proxy.policy import PushedPolicy, settings_out_of_force
from hookgate.translator.fields import JsonObject

PAGE = 50
"""The default number of calls on a page."""

MOST = 200

_NO_CALL = "There is no such call: its ID is unknown, or it is too old."


@dataclass(frozen=True, slots=True)
class PanelRequest:
    """A request of somebody with a role: its query, and the last part of its path if the route has a NAME."""

    person: Person
    query: Mapping[str, str]
    name: str = ""


Answer = Callable[[PanelRequest], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True)
class PanelApi:
    """The JSON API of the panel. Each answer is one JSON object. All of them may raise ApiError."""

    hooks: HookPanel
    calls: Calls
    receipts: Receipts
    traffic: Traffic
    effective: EffectiveConfig
    currency: str | None
    """The currency of costs; None without a price table."""
    pushed: PushedPolicy | None = None
    alerts: AlertPanel | None = None
    """The alerts; None without rules."""

    def answers(self) -> dict[str, Answer]:
        """Return the routes that only read."""
        return {
            "GET /api/overview": self._overview,
            "GET /api/hooks": self._hooks,
            "GET /api/traffic": self._series,
            "GET /api/policy": self._policy,
            "GET /api/calls": self._page,
            "GET /api/calls/NAME": self._call,
            "GET /api/report": self._report,
            "GET /api/alerts": self._alerts,
            "GET /api/refused": self._refused,
            "GET /api/sessions": self._sessions,
        }

    async def _hooks(self, asked: PanelRequest) -> JsonObject:
        return hooks_for(asked.person, await self.hooks.rows())

    async def _overview(self, asked: PanelRequest) -> JsonObject:
        config = self.effective.config
        listed = hooks_for(asked.person, await self.hooks.rows())
        in_force = await self._in_force()
        return {
            "version": __version__,
            "now": time.time_ns() // 1_000_000,
            "since": self.traffic.since,
            "revision": listed["revision"],
            "hooks": listed["hooks"],
            "calls_from": self.calls.source,
            "content": config.audit.content if config.audit.enabled else "off",
            "files": in_force["files"],
            "pushed": in_force["pushed"],
            **settings_out_of_force(self.hooks.reloader.not_in_force),
        }

    async def _policy(self, _: PanelRequest) -> JsonObject:
        return {"policy": await self._in_force(), "gateway": shown_gateway(self.effective)}

    async def _in_force(self) -> JsonObject:
        reloader = self.hooks.reloader
        configuration = reloader.current.configuration
        shown = await asyncio.to_thread(shown_policy, configuration, self.hooks.sources, self.pushed)
        return {**shown, **settings_out_of_force(reloader.not_in_force)}

    async def _series(self, asked: PanelRequest) -> JsonObject:
        span = asked.query.get("span", "hour")
        if span not in ("hour", "day"):
            raise ApiError(400, "span: must be hour or day")
        return self.traffic.series(cast(TimeRange, span))

    async def _page(self, asked: PanelRequest) -> JsonObject:
        _check_parameters(asked.query, ("q", *FILTERS, "exact", "limit", "before"))
        query, limit = _query(asked), _limit(asked.query)
        page = await asyncio.to_thread(self.calls.page, query, limit, asked.query.get("before", ""))
        found = {"calls": page.rows, "older": page.older, "source": self.calls.source}
        return {**found, "currency": self.currency}

    async def _report(self, asked: PanelRequest) -> JsonObject:
        _check_parameters(asked.query, ("q", "by", "limit"))
        by = asked.query.get("by", "team").split(",")
        report = await asyncio.to_thread(self.calls.report, _query(asked), by, _limit(asked.query))
        return {**report_fields(report), "currency": self.currency}

    async def _alerts(self, _: PanelRequest) -> JsonObject:
        return {"rules": [] if self.alerts is None else await self.alerts.rows()}

    async def _refused(self, _: PanelRequest) -> JsonObject:
        return {"requests": refused_requests(self.receipts)[:MOST]}

    async def _sessions(self, asked: PanelRequest) -> JsonObject:
        return await asyncio.to_thread(sessions_page, self.calls, asked.query.get("before", ""))

    async def _call(self, asked: PanelRequest) -> JsonObject:
        call = asked.name
        found = await asyncio.to_thread(self.calls.call, call) if CALL_ID.fullmatch(call) else None
        if found is None:
            raise ApiError(404, _NO_CALL)
        seen = asked.person.sees_content
        return {
            "facts": call_for(asked.person, found["facts"]),
            "content": found["content"] if seen else None,
        }


FILTERS = ("session", "key", "model", "outcome")
"""The words of a query that are parameters as well, for parts of names."""

_NOT_FOR_VIEWERS = "Reasons and blocked tools are content: to search in them, you need the role auditor."


def _check_parameters(query: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise ApiError (400) if there is a parameter that would be ignored."""
    for name in query:
        if name not in known:
            raise ApiError(400, f"{name}: is not a parameter of this request; use {', '.join(known)}")


def _query(asked: PanelRequest) -> Query:
    """Return the query of a request, whose times are in UTC unless it names a zone. Raises ApiError."""
    try:
        query = parse_query([asked.query.get("q", "")], zone=UTC)
    except ValueError as error:
        raise ApiError(400, f"q: {error}") from None
    for name in FILTERS:
        if value := asked.query.get(name):
            query = with_name(query, name, value, exact=name == "outcome" or "exact" in asked.query)
    if query.asks_content and not asked.person.sees_content:
        raise ApiError(403, _NOT_FOR_VIEWERS)
    return query


def _limit(query: Mapping[str, str]) -> int:
    given = query.get("limit", str(PAGE))
    if not re.fullmatch(r"[0-9]{1,4}", given) or not 1 <= int(given) <= MOST:
        raise ApiError(400, f"limit: must be a number from 1 to {MOST}")
    return int(given)
