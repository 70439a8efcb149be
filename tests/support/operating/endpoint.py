"""An HTTP endpoint in the test's own process, whose answers a test chooses."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from hookgate.proxy.app import serve_on

Answering = Callable[[list[dict[str, Any]]], tuple[int, Any]]
"""Returns status and body for the documents of a request."""


@dataclass
class Endpoint:
    """What has arrived, and how it is answered."""

    answer: Answering = lambda documents: (200, {})
    url: str = ""
    requests: list[list[dict[str, Any]]] = field(default_factory=list)
    """The documents of each request, also of those that were refused."""
    accepted: list[dict[str, Any]] = field(default_factory=list)
    """The records of the requests that were answered with 200, without registrations of writers."""

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        documents = [json.loads(line) for line in (await request.read()).splitlines()]
        self.requests.append(documents)
        status, body = self.answer(documents)
        if status == 200:
            self.accepted += [each for each in documents if each["type"] != "writer"]
        return web.json_response(body, status=status)


@asynccontextmanager
async def endpoint(answer: Answering | None = None) -> AsyncIterator[Endpoint]:
    """An endpoint while the block runs."""
    found = Endpoint(answer) if answer else Endpoint()
    async with serve_on(found.take, "127.0.0.1", 0) as url:
        found.url = url
        yield found
