"""The panel's JSON API, as far as it only reads."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any, cast

from hookgate.proxy import __version__
from hookgate.proxy.admin.access import PROOF
from hookgate.proxy.admin.acting import Comparisons
from hookgate.proxy.admin.alerts import AlertPanel
from hookgate.proxy.admin.approvals import ApprovalPanel
from hookgate.proxy.admin.budgets import Budgets
from hookgate.proxy.admin.calls import Calls, refused_requests
from hookgate.proxy.admin.policy import HookPanel, shown_gateway, shown_policy
from hookgate.proxy.admin.roles import Person, call_for, document_for, hooks_for, row_for
from hookgate.proxy.audit.index.query import WORD_HELP, Query, parse_query
from hookgate.proxy.audit.index.reporting import report_fields
from hookgate.proxy.audit.index.times import moment
from hookgate.proxy.audit.listing import NO_CALL, call_document, call_fields, write_csv
from hookgate.proxy.audit.reading import EndedCall
from hookgate.proxy.config.reading import EffectiveConfig
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.metrics import TimeRange, Traffic
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.record import CALL_ID
from hookgate.proxy.observe.usage import Prices
from hookgate.proxy.policy import PushedPolicy, settings_out_of_force
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

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


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is made while it is sent. To take a chunk may block."""

    name: str
    kind: str
    """Its content type."""
    chunks: Iterator[bytes]


Answer = Callable[[PanelRequest], Awaitable[JsonObject | Download]]
Readiness = Callable[[], Awaitable[tuple[int, JsonObject]]]
"""Returns the status of `/readyz`, and its body."""


@dataclass(frozen=True, slots=True)
class PanelApi:
    """The JSON API of the panel. Each answer is a JSON object or a file. All of them may raise ApiError."""

    hooks: HookPanel
    calls: Calls
    receipts: Receipts
    traffic: Traffic
    effective: EffectiveConfig
    prices: Prices
    budgets: Budgets
    readiness: Readiness
    comparisons: Comparisons
    pushed: PushedPolicy | None = None
    alerts: AlertPanel | None = None
    """The alerts; None without rules."""
    approvals: ApprovalPanel | None = None
    """The approvals; None if people decide nothing."""

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
            "GET /api/budgets": self._budgets,
            "GET /api/words": self._words,
            "GET /api/changes": self._changes,
            "GET /api/alerts": self._alerts,
            "GET /api/approvals": self._approvals,
            "GET /api/approvals/NAME": self._approval,
            "GET /api/refused": self._refused,
            "GET /api/sessions": self._sessions,
            "GET /api/hooks/compare": self._comparison,
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
            "readiness": (await self.readiness())[1],
            "files": in_force["files"],
            "pushed": in_force["pushed"],
            "approvals_pending": await self.approvals.pending() if self.approvals else None,
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

    async def _page(self, asked: PanelRequest) -> JsonObject | Download:
        _check_parameters(asked.query, ("q", "limit", "before", "format"))
        query, kind = _query(asked), asked.query.get("format", "")
        if kind:
            return await self._download(asked.person, query, kind)
        page = await asyncio.to_thread(
            self.calls.page, query, _limit(asked.query), asked.query.get("before", "")
        )
        rows = [row_for(asked.person, row) for row in page.rows]
        found = {"calls": rows, "older": page.older, "source": self.calls.source}
        return {**found, "currency": self.prices.currency}

    async def _download(self, person: Person, query: Query, kind: str) -> Download:
        """Return all calls of a query as a file, which is made page by page."""
        if kind not in _FORMATS:
            raise ApiError(400, f"format: must be one of {', '.join(_FORMATS)}")
        pages = await asyncio.to_thread(self.calls.pages, query)
        chunks = _csv_chunks(person, pages) if kind == "csv" else _json_chunks(person, pages)
        return Download(f"calls.{kind}", _FORMATS[kind], chunks)

    async def _report(self, asked: PanelRequest) -> JsonObject:
        _check_parameters(asked.query, ("q", "by", "limit"))
        by = asked.query.get("by", "team").split(",")
        report = await asyncio.to_thread(self.calls.report, _query(asked), by, _limit(asked.query))
        found = report_fields(report)
        if "cost" in found["total"] and "model" in by:
            found["rows"] = [self._priced(row) for row in found["rows"]]
        return {**found, "currency": self.prices.currency}

    def _priced(self, row: JsonObject) -> JsonObject:
        """Return a row about a model, without the cost of a model that has no price."""
        return row if row["cost"] or self.prices.knows(row["model"]) else {**row, "cost": None}

    async def _alerts(self, _: PanelRequest) -> JsonObject:
        return {"rules": [] if self.alerts is None else await self.alerts.rows()}

    async def _comparison(self, _: PanelRequest) -> JsonObject:
        return await self.comparisons.describe()

    async def _refused(self, _: PanelRequest) -> JsonObject:
        return {"requests": refused_requests(self.receipts)[:MOST]}

    async def _words(self, _: PanelRequest) -> JsonObject:
        return {"words": [{"name": name, "help": text} for name, text in WORD_HELP.items()]}

    async def _approvals(self, asked: PanelRequest) -> JsonObject:
        if self.approvals is None:
            return {"requests": [], "decides": False}
        return await self.approvals.rows(asked.person)

    async def _approval(self, asked: PanelRequest) -> JsonObject:
        if self.approvals is None:
            raise ApiError(404, "People decide nothing at this gateway: approvals.mode is off.")
        return await self.approvals.one(asked.person, asked.name)

    async def _changes(self, asked: PanelRequest) -> JsonObject:
        _check_parameters(asked.query, ("since", "limit"))
        try:
            since = asked.query.get("since")
            first = None if since is None else moment(since, UTC, datetime.now(UTC))
        except ValueError as error:
            raise ApiError(400, f"since: {error}") from None
        changes = await asyncio.to_thread(self.calls.changes, first, _limit(asked.query))
        return {"changes": [{**each.body, "id": each.id, "at": each.at} for each in changes]}

    async def _budgets(self, asked: PanelRequest) -> JsonObject:
        configuration = self.hooks.reloader.current.configuration
        rows = await asyncio.to_thread(self.budgets.rows, configuration.hooks())
        prices = {"currency": self.prices.currency, "date": self.prices.date}
        is_shipped = self.effective.config.prices.file is None
        return {"budgets": rows, "prices": {**prices, "shipped": is_shipped}}

    async def _sessions(self, asked: PanelRequest) -> JsonObject:
        _check_parameters(asked.query, ("q", "before"))
        before = asked.query.get("before", "")
        page = await asyncio.to_thread(self.calls.sessions, _query(asked), before)
        found = {"sessions": page.rows, "older": page.older, "source": self.calls.source}
        return {**found, "currency": self.prices.currency}

    async def _call(self, asked: PanelRequest) -> JsonObject:
        call = await self.whole_id(asked.name)
        found = None if call is None else await asyncio.to_thread(self.calls.call, call)
        if found is None:
            raise ApiError(404, _NO_CALL)
        seen = asked.person.sees_content
        return {
            "facts": call_for(asked.person, found["facts"]),
            "content": found["content"] if seen else None,
        }

    async def whole_id(self, text: str) -> str | None:
        """Return the ID of the call that is this text or begins with it, or None.

        Raises ApiError (400) if several calls have such IDs.
        """
        if CALL_ID.fullmatch(text):
            return text
        if not _SHORT_ID.fullmatch(text):
            return None
        try:
            return await asyncio.to_thread(self.calls.whole_id, text)
        except ValueError as error:
            raise ApiError(400, str(error)) from None


_SHORT_ID = re.compile(r"[0-9a-f]{4,31}")

_FORMATS: Mapping[str, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
"""The formats of downloads, with their content types."""


def _csv_chunks(person: Person, pages: Iterator[list[EndedCall]]) -> Iterator[bytes]:
    columns = [*row_for(person, call_fields(NO_CALL))]
    yield _csv_text(columns, ())
    for calls in pages:
        yield _csv_text((), (row_for(person, call_fields(call)).values() for call in calls))


def _csv_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> bytes:
    text = StringIO()
    write_csv(columns, rows, text)
    return text.getvalue().encode()


def _json_chunks(person: Person, pages: Iterator[list[EndedCall]]) -> Iterator[bytes]:
    for calls in pages:
        yield b"".join(dumps(document_for(person, call_document(call))) + b"\n" for call in calls)


_NOT_FOR_VIEWERS = "Reasons and blocked tools are content: to search in them, you need the role auditor."


def _check_parameters(query: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise ApiError (400) if there is a parameter that would be ignored."""
    for name in query:
        if name not in known and name != PROOF:
            raise ApiError(400, f"{name}: is not a parameter of this request; use {', '.join(known)}")


def _query(asked: PanelRequest) -> Query:
    """Return the query of a request, whose times are in UTC unless it names a zone. Raises ApiError."""
    try:
        query = parse_query([asked.query.get("q", "")], zone=UTC)
    except ValueError as error:
        raise ApiError(400, f"q: {error}") from None
    if query.asks_content and not asked.person.sees_content:
        raise ApiError(403, _NOT_FOR_VIEWERS)
    return query


def _limit(query: Mapping[str, str]) -> int:
    given = query.get("limit", str(PAGE))
    if not re.fullmatch(r"[0-9]{1,4}", given) or not 1 <= int(given) <= MOST:
        raise ApiError(400, f"limit: must be a number from 1 to {MOST}")
    return int(given)
