"""A whole gateway on loopback, with hooks from a settings file, in front of the mock upstream."""

import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from hookgate.hooks import Engine
from hookgate.hooks.settings import Layer, SettingsSource, load_sources
from hookgate.proxy import mock_upstream
from hookgate.proxy.app import serve_on
from hookgate.proxy.approvals.asking import Approvals
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config, CredentialSettings, UpstreamSettings
from hookgate.proxy.mock_upstream import Script
from hookgate.proxy.sessions.interactions import KnownInteractions
from hookgate.proxy.sessions.sessions import Sessions
from hookgate.proxy.upstream.client import Upstreams

_numbers = count()

FORWARDS_FILES = Config.model_validate({"routes": {"files": "forward"}})
"""The settings of a gateway that lets files through."""


@dataclass(frozen=True)
class RunningGateway:
    """Base URLs of the running pair, and the requests that reached the upstream."""

    url: str
    upstream_url: str
    recorded: Any

    @property
    def generated(self) -> list[Any]:
        """The recorded requests that ask for generated content."""
        paths = ("enerateContent", "/chat/completions")
        return [request for request in self.recorded if any(path in request.path_qs for path in paths)]


@asynccontextmanager
async def running_upstream(script: Any = None) -> AsyncIterator[tuple[str, Any]]:
    """The mock upstream with a script's rules; gives its base URL and what it records."""
    async with mock_upstream.run_mock_upstream(Script.model_validate(script) if script else None) as upstream:
        yield upstream.url, upstream.recorded


@asynccontextmanager
async def running_gateway(
    settings: Path | dict[str, Any] | None = None,
    script: Any = None,
    config: Config | None = None,
    layer: Layer = "explicit",
) -> AsyncIterator[RunningGateway]:
    """The gateway before a mock upstream of its own, with hooks from a settings file or per event."""
    async with (
        running_upstream(script) as (upstream_url, recorded),
        gateway_before(upstream_url, settings, config, layer) as url,
    ):
        yield RunningGateway(url, upstream_url, recorded)


@asynccontextmanager
async def gateway_before(
    upstream_url: str,
    settings: Path | dict[str, Any] | None = None,
    config: Config | None = None,
    layer: Layer = "explicit",
    *,
    sessions: Sessions | None = None,
    interactions: KnownInteractions | None = None,
    approvals: Approvals | None = None,
) -> AsyncIterator[str]:
    """The gateway before any upstream, which all three APIs are at; gives its base URL."""
    config = config or Config()
    with tempfile.TemporaryDirectory() as folder:
        file = write_settings(Path(folder), settings) if isinstance(settings, dict) else settings
        engine = Engine(load_sources([SettingsSource(file, layer)] if file else []))
        async with upstreams_at(upstream_url, config.upstream) as upstream:
            gateway = Gateway(
                engine, upstream, config, sessions=sessions, interactions=interactions, approvals=approvals
            )
            async with serve_on(gateway.handle, "127.0.0.1", 0, config.limits) as url:
                try:
                    yield url
                finally:
                    await engine.close()


def upstreams_at(
    url: str,
    settings: UpstreamSettings | None = None,
    credentials: Mapping[str, CredentialSettings] | None = None,
) -> Upstreams:
    """All three upstreams at one place."""
    origins = {"gemini": url, "vertex": url, "code_assist": url}
    settings = UpstreamSettings(**{**(settings or UpstreamSettings()).model_dump(), **origins})
    return Upstreams(settings, credentials=credentials)


def write_settings(folder: Path, hooks: dict[str, Any]) -> Path:
    """A settings file in `folder` with hooks per event: `{"BeforeModel": [hook, …]}`, one group each.

    Without hooks it has a switch, because a file without anything is a warning in the log.
    """
    groups = {event: [{"hooks": configs}] for event, configs in hooks.items()}
    path = folder / "settings.json"
    path.write_text(json.dumps({"hooks": groups or {"enabled": True}}))
    return path


def runs(action: Callable[[dict[str, Any]], Any], **config: Any) -> dict[str, Any]:
    """The configuration of a runtime hook that calls `action`."""
    name = f"action_{next(_numbers)}"
    globals()[name] = action
    return {"type": "runtime", "action": f"{__name__}:{name}", **config}


def says(output: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The configuration of a hook that always says this; keyword arguments are hookSpecificOutput."""
    said = {**(output or {}), **({"hookSpecificOutput": fields} if fields else {})}
    return runs(lambda _: said)


def listens(into: list[dict[str, Any]]) -> dict[str, Any]:
    """The configuration of a hook that notes what it is shown, and says nothing."""
    return runs(into.append)
