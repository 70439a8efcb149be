"""How people are told that a call waits for them: through the receivers of alerts.

A receiver of a person gets a link to decide with, any other one a link to the panel. No receiver is told the
arguments of the call, which are content, nor anything else that a model has written but the tool's name.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.alerts.formats import Notice
from hookgate.proxy.alerts.receivers import Receiver, close_receivers
from hookgate.proxy.approvals.links import Links
from hookgate.proxy.approvals.requests import ApprovalRequest, shown_name
from hookgate.proxy.config import ApprovalSettings

log = logging.getLogger("hookgate.approvals")

_WAITING = 1000
"""The most messages that wait for one receiver."""

_PAUSES = (5, 10, 20, 60, 300)
"""Seconds between attempts; then the receiver is not told of this request."""

_LAST_SECONDS = 3.0
"""Seconds in which a gateway that stops makes the last attempts."""


class Teller:
    """Tells receivers of requests. A slow receiver delays no other, and no call."""

    def __init__(
        self, settings: ApprovalSettings, receivers: Mapping[str, Receiver], links: Links | None, url: str
    ) -> None:
        """`receivers` are those of alerts, by name; `url` is that of the admin listener for browsers."""
        self._people = {each.receiver: each.name for each in settings.people}
        names = (*settings.receivers, *self._people)
        self._receivers = {name: receivers[name] for name in names}
        self._links, self._url = links, url
        self._waiting: dict[str, deque[Notice]] = {name: deque() for name in self._receivers}
        self._wakes = {name: asyncio.Event() for name in self._receivers}
        self.results: dict[tuple[str, str], int] = {}
        """The number of attempts by receiver and result."""

    def tell(self, request: ApprovalRequest) -> None:
        """Tell all receivers of a request, soon."""
        for name, waiting in self._waiting.items():
            if len(waiting) >= _WAITING:
                log.warning(
                    "the receiver %s is not told of %s: too many messages wait", name, request.short_id
                )
                continue
            waiting.append(request_notice(request, self._link(name, request)))
            self._wakes[name].set()

    async def run(self) -> None:
        """Send what is to be told, until cancelled."""
        await asyncio.gather(*(self._send_all(name) for name in self._receivers))

    async def _send_all(self, name: str) -> None:
        waiting, wake = self._waiting[name], self._wakes[name]
        while True:
            await wake.wait()
            wake.clear()
            while waiting:
                for pause in _PAUSES:
                    if await self._send(name, waiting[0]):
                        break
                    await asyncio.sleep(pause)
                else:
                    await self._send(name, waiting[0])
                waiting.popleft()

    async def _send(self, name: str, notice: Notice) -> bool:
        """Tell a receiver of a request. Returns whether that is done, or another attempt would fail, too."""
        try:
            result = await self._receivers[name].send(notice, f"msg_{notice.identity}")
        except Exception:
            log.exception("internal error while %s was told; please report this", name)
            return True
        key = (name, "failed" if result.error else "delivered")
        self.results[key] = self.results.get(key, 0) + 1
        if result.error:
            log.warning("the receiver %s %s", name, result.error)
        return not result.error or result.final

    def _link(self, name: str, request: ApprovalRequest) -> str:
        if (person := self._people.get(name)) is not None and self._links is not None:
            return self._links.url_for(request, person)
        return f"{self._url}/#/approvals/{request.id}" if self._url else ""

    async def close(self) -> None:
        """Try once more, for a few seconds, to tell what has not been told; then close the connections."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await asyncio.gather(*map(self._send_rest, self._receivers))
        for name, waiting in self._waiting.items():
            for notice in waiting:
                log.error(
                    "the receiver %s was not told: %s; see `hookgate approvals list`", name, notice.title
                )
        await close_receivers(self._receivers.values())

    async def _send_rest(self, name: str) -> None:
        waiting = self._waiting[name]
        while waiting and await self._send(name, waiting[0]):
            waiting.popleft()


def request_notice(request: ApprovalRequest, link: str) -> Notice:
    """Return what a receiver is told of a request."""
    names = {
        "tool": request.tool,
        "key": request.key,
        "team": request.team,
        "agent": request.agent,
        "session": shown_name(request.session),
    }
    expires = utc_text(request.expires / 1000, "seconds")
    data = {
        "request": request.id,
        "call": request.call,
        **names,
        "hooks": list(request.hooks),
        "persons": request.persons,
        "expires": expires,
        "link": link,
    }
    whose = f'The key "{request.key}"' if request.key else "A caller without a key"
    return Notice(
        type="approval.requested",
        identity=request.id,
        subject="approval",
        title=f"Approval needed: {request.short_id}",
        summary=f'{whose} needs an approval for a call of the tool "{request.tool}".',
        facts=[(name.capitalize(), value) for name, value in names.items() if value]
        + [("Hooks", ", ".join(request.hooks)), ("Expires", expires)],
        data=data,
        severity="warning",
        at=request.created,
        link=link,
    )
