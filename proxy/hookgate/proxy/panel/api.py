"""What the page asks for, in JSON. Each function answers one path."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from typing import cast

from hookgate.proxy import __version__
from hookgate.proxy.config.reading import Effective
from hookgate.proxy.errors import ApiError
from hookgate.proxy.panel.calls import Calls, Wanted
from hookgate.proxy.panel.hooks import HookPanel
from hookgate.proxy.panel.sessions import sessions_page
from hookgate.proxy.panel.settings import gateway_of, policy_of
from hookgate.proxy.panel.traffic import Span, Traffic
from hookgate.translator.fields import JsonObject

PAGE = 50
"""Calls of one page, unless more are asked for."""

MOST = 200

_ID = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"[0-9]{1,19}|[0-9a-f]{32}|")
_FILTERS = tuple(field.name for field in fields(Wanted))
_NO_CALL = "There is no such call: it is unknown, or too old to be kept."

Query = Mapping[str, str]
Answer = Callable[[Query], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True)
class Api:
    """Answers what is asked for about one gateway. Each answer is one JSON object."""

    hooks: HookPanel
    calls: Calls
    traffic: Traffic
    effective: Effective

    async def get(self, path: str, query: Query) -> JsonObject | None:
        """The answer for a path below `/api/`; None for one that is not there. Raises ApiError."""
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
            policy_of, self.hooks.live.current.configuration, self.hooks.sources
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
        policy = await asyncio.to_thread(policy_of, configuration, self.hooks.sources)
        return {"policy": policy, "gateway": gateway_of(self.effective)}

    async def _series(self, query: Query) -> JsonObject:
        span = query.get("span", "hour")
        if span not in ("hour", "day"):
            raise ApiError(400, "span: has to be hour or day")
        return self.traffic.series(cast(Span, span))

    async def _page(self, query: Query) -> JsonObject:
        wanted = Wanted(**{name: query.get(name, "") for name in _FILTERS})
        page = await asyncio.to_thread(self.calls.page, wanted, _limit(query), _place(query))
        return {"calls": page.rows, "older": page.older, "source": self.calls.source}

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
        raise ApiError(400, f"limit: has to be a number from 1 to {MOST}")
    return int(given)


def _place(query: Query) -> str:
    given = query.get("before", "")
    if not _PLACE.fullmatch(given):
        raise ApiError(400, "before: has to be the `older` of a page")
    return given
