"""A whole gateway with its admin listener and panel, on loopback, before an embedded upstream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.gateway import running_upstream, upstreams_at, write_settings

from hookgate.hooks.live import LiveEngine
from hookgate.proxy import admin as operators
from hookgate.proxy import policy
from hookgate.proxy.admin import Admin
from hookgate.proxy.audit.opening import audited
from hookgate.proxy.config import Config, Effective
from hookgate.proxy.metrics import Metrics
from hookgate.proxy.panel.opening import paneled
from hookgate.proxy.panel.panel import Panel
from hookgate.proxy.panel.tokens import link_of
from hookgate.proxy.server import Gateway, listening
from hookgate.proxy.sources import Sources

TOKEN = "a-token-of-some-length"  # noqa: S105  # of gateways that end with their tests
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True)
class Paneled:
    """`url` is where clients call, `admin` where operators look; `settings` is the file with the hooks."""

    url: str
    admin: str
    settings: Path
    live: LiveEngine
    panel: Panel

    @property
    def link(self) -> str:
        """Where a browser is signed in."""
        return link_of(self.admin, TOKEN)


@asynccontextmanager
async def panel_gateway(
    folder: Path,
    hooks: dict[str, Any] | None = None,
    script: Any = None,
    *,
    admin: dict[str, Any] | None = None,
    audit: dict[str, Any] | None = None,
    keys: dict[str, Any] | None = None,
    logs: dict[str, Any] | None = None,
    policy_file: Path | None = None,
) -> AsyncIterator[Paneled]:
    """The gateway with hooks per event. `admin` and those after it are sections of its configuration.

    It has an admin token unless `admin` says otherwise.
    """
    settings = write_settings(folder, hooks or {})
    sources = Sources(policy=(policy_file,) if policy_file else (), hooks=(settings,), state=folder / "state")
    sections = {
        "admin": {"token": TOKEN} if admin is None else admin,
        "audit": {"enabled": False} if audit is None else audit,
        "keys": keys or {},
        "logs": logs or {},
    }
    config = Config.model_validate(sections)
    live = policy.load(sources)
    metrics = Metrics()
    operated = Admin(metrics)
    operated.live = live
    async with (
        running_upstream(script) as (upstream_url, _),
        operators.listening(operated, "127.0.0.1", 0) as admin_url,
        upstreams_at(upstream_url) as upstreams,
        audited(config.audit, None, sources.state) as audit_trail,
    ):
        gateway = Gateway(live, upstreams, config, metrics, audit=audit_trail)
        operated.receipts = gateway.receipts
        effective = Effective(config, {f"keys.{name}": "hookgate.toml" for name in config.keys}, None)
        async with (
            paneled(effective, sources, live, gateway.receipts, None, admin_url) as operated.panel,
            listening(gateway.handle, "127.0.0.1", 0) as url,
        ):
            assert operated.panel
            yield Paneled(url, admin_url, settings, live, operated.panel)
        await live.close()
