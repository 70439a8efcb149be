"""Fixtures of the end-to-end tests."""

from typing import Any

import pytest
from aiohttp import web

from hookgate.proxy.calls.gateway import Gateway


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets of all requests that reach a gateway of this test: where a client's retries are seen."""
    targets: list[str] = []
    handle = Gateway.handle

    async def noting(self: Gateway, request: web.BaseRequest) -> Any:
        targets.append(request.raw_path)
        return await handle(self, request)

    monkeypatch.setattr(Gateway, "handle", noting)
    return targets
