"""A whole gateway on loopback: the embedded upstream behind it, hooks from a settings file before it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from hookgate.hooks import Engine, load_settings
from hookgate.proxy import embedded
from hookgate.proxy.embedded import RECORDED, Script
from hookgate.proxy.reply import Patience
from hookgate.proxy.server import Gateway, listening
from hookgate.proxy.upstream import Upstream


@dataclass(frozen=True)
class Running:
    """Base URLs of the running pair, and the requests that reached the upstream."""

    url: str
    upstream_url: str
    recorded: Any

    @property
    def generated(self) -> list[Any]:
        """The recorded requests that ask for generated content."""
        return [request for request in self.recorded if "enerateContent" in request.path_qs]


@asynccontextmanager
async def running_upstream(script: Any = None) -> AsyncIterator[tuple[str, Any]]:
    """The embedded upstream with a script's rules; gives its base URL and what it records."""
    app = embedded.make_app(Script.model_validate(script) if script else None)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", app[RECORDED]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running_gateway(
    settings: Path | None = None, script: Any = None, patience: Patience | None = None
) -> AsyncIterator[Running]:
    """The gateway with the hooks of a settings file, before an embedded upstream of its own."""
    engine = Engine(load_settings([settings] if settings else []))
    async with (
        running_upstream(script) as (upstream_url, recorded),
        Upstream(upstream_url) as upstream,
        listening(Gateway(engine, upstream, patience).handle, "127.0.0.1", 0) as url,
    ):
        yield Running(url, upstream_url, recorded)


def write_settings(folder: Path, hooks: dict[str, Any]) -> Path:
    """A settings file in `folder` with hooks per event: `{"BeforeModel": [hook, …]}`, one group each."""
    groups = {event: [{"hooks": configs}] for event, configs in hooks.items()}
    path = folder / "settings.json"
    path.write_text(json.dumps({"hooks": groups}))
    return path
