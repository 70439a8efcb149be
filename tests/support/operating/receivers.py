"""A receiver of alerts on loopback, which notes what it gets, and may be ill-behaved."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwbOh5xQz1YfM="  # noqa: S105  # of nothing

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class ReceivedAlerts:
    """What a receiver got, in order. `answer` may be set to how it answers."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answer: Answer | None = None

    @property
    def documents(self) -> list[Any]:
        return [json.loads(body) for body in self.bodies]

    @property
    def messages(self) -> list[tuple[str, str, dict[str, str]]]:
        """The state, the rule and the group of each message of signed JSON."""
        data = [document["data"] for document in self.documents]
        return [(each["state"], each["rule"], each["group"]) for each in data]

    @property
    def distinct(self) -> list[tuple[str, str, dict[str, str]]]:
        """The same without repeated messages, which a receiver knows by their ID."""
        by_id = {
            headers["webhook-id"]: message
            for headers, message in zip(self.headers, self.messages, strict=True)
        }
        return list(by_id.values())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response() if self.answer is None else await self.answer(request)


@asynccontextmanager
async def receiving_alerts() -> AsyncIterator[ReceivedAlerts]:
    """A receiver at a free port."""
    received = ReceivedAlerts()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", received.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    received.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield received
    finally:
        await runner.cleanup()


def status(code: int, **headers: str) -> Answer:
    """An answer with a status."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, headers=headers)

    return answer


async def never(_: web.Request) -> web.StreamResponse:
    """No answer."""
    await asyncio.sleep(3600)
    return web.Response()


async def dripping(request: web.Request) -> web.StreamResponse:
    """An answer that never ends, one byte at a time."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def endless(request: web.Request) -> web.StreamResponse:
    """An answer that never ends, as fast as it is read."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65536)
