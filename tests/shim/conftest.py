"""A shim with hooks in its own process, or at a whole gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clients.shims import Opened
from support.gateway.loopback import running_gateway, write_settings

from hookgate.hooks import Engine, load_settings
from hookgate.proxy.config import Config
from hookgate.shim import Shim


@pytest.fixture(params=["engine", "gateway"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """`async with opened({event: [hook, …]}, **settings) as shim`, in both modes."""

    @asynccontextmanager
    async def in_process(hooks: dict[str, Any], **settings: Any) -> AsyncIterator[Shim]:
        async with Shim(Engine(load_settings([write_settings(tmp_path, hooks)])), **settings) as shim:
            yield shim

    @asynccontextmanager
    async def remote(hooks: dict[str, Any], **settings: Any) -> AsyncIterator[Shim]:
        plenty = Config.model_validate({"limits": {"events": 100_000}})
        async with (
            running_gateway(hooks, config=plenty) as gateway,
            Shim(gateway.url, "a-key", **settings) as shim,
        ):
            yield shim

    return in_process if request.param == "engine" else remote
