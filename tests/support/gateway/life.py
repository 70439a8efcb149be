"""A gateway with its own limits, certificate or metrics, and checks for leaks at its end."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from operator import le
from pathlib import Path
from typing import Any

from support.gateway.loopback import upstreams_at, write_settings

from hookgate.hooks import Engine, load_settings
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config, LimitSettings
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.tracing import Traces
from hookgate.proxy.server.tls import Certificate


@asynccontextmanager
async def gateway_with(
    upstream_url: str,
    hooks: dict[str, Any] | None = None,
    *,
    limits: LimitSettings | None = None,
    certificate: Certificate | None = None,
    metrics: Metrics | None = None,
    config: Config | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[str]:
    """The gateway before any upstream; gives its base URL."""
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(load_settings([write_settings(Path(folder), hooks or {})]))
        async with (
            upstreams_at(upstream_url) as upstreams,
            serve_on(
                Gateway(engine, upstreams, config, metrics, traces).handle,
                "127.0.0.1",
                0,
                limits,
                certificate,
            ) as url,
        ):
            yield url


async def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # descriptors and tasks are plain facts, they signal nothing
            await asyncio.sleep(0.002)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fails when the block leaves a task or a descriptor behind."""
    before = _resources_in_use()
    yield
    try:
        await until(lambda: all(map(le, _resources_in_use(), before)))
    except TimeoutError:
        left = [repr(task) for task in asyncio.all_tasks()]
        raise AssertionError(f"{before} before, {_resources_in_use()} after: {left}") from None


def _resources_in_use() -> tuple[int, int]:
    """How many tasks and descriptors there are."""
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
