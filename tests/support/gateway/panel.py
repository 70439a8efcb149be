"""A whole gateway with its admin listener and panel, on loopback, before a mock upstream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from support.gateway.loopback import running_upstream, upstreams_at, write_settings
from support.wire import post
from yarl import URL

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.proxy import policy
from hookgate.proxy.admin import listener as operators
from hookgate.proxy.admin.access import panel_link
from hookgate.proxy.admin.listener import AdminListener
from hookgate.proxy.admin.panel import Panel, open_panel
from hookgate.proxy.app import serve_on
from hookgate.proxy.approvals.asking import open_approvals_of
from hookgate.proxy.audit.trail import open_audit_trail
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config, EffectiveConfig
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.policy import PushedPolicy
from hookgate.proxy.replay.comparisons import PolicyComparisons
from hookgate.proxy.replay.trials import HookTrials
from hookgate.proxy.store import Store
from hookgate.proxy.upstream.access_tokens import PolicyTokens

TOKEN = "a-token-of-some-length"  # noqa: S105  # of gateways that end with their tests
BEARER = {"Authorization": f"Bearer {TOKEN}"}
SAME = {"X-Hookgate-Panel": "1", "Content-Type": "application/json"}
"""The headers of requests that make changes, and that the panel's page makes."""


@dataclass(frozen=True)
class Paneled:
    """`url` is where clients call, `admin` where operators look; `settings` is the file with the hooks."""

    url: str
    admin: str
    settings: Path
    reloader: EngineReloader
    panel: Panel

    @property
    def link(self) -> str:
        """Where a browser is signed in."""
        return panel_link(self.admin, TOKEN)


@asynccontextmanager
async def panel_gateway(
    folder: Path,
    hooks: dict[str, Any] | None = None,
    script: Any = None,
    *,
    admin: dict[str, Any] | None = None,
    alerts: dict[str, Any] | None = None,
    approvals: dict[str, Any] | None = None,
    audit: dict[str, Any] | None = None,
    keys: dict[str, Any] | None = None,
    logs: dict[str, Any] | None = None,
    prices: dict[str, Any] | None = None,
    sign_in: dict[str, Any] | None = None,
    policy_file: Path | None = None,
    store_url: str | None = None,
    store: bool = False,
    clients: dict[str, Any] | None = None,
    pushed: PushedPolicy | None = None,
) -> AsyncIterator[Paneled]:
    """The gateway with hooks per event. `admin` and those after it are sections of its configuration.

    It has an admin token unless `admin` says otherwise. With `store`, the counts of limits are in a database.
    """
    settings = write_settings(folder, hooks or {})
    sources = Sources(policy=(policy_file,) if policy_file else (), hooks=(settings,), state=folder / "state")
    sections = {
        "admin": {"token": TOKEN} if admin is None else admin,
        "audit": {"enabled": False} if audit is None else audit,
        "alerts": alerts or {},
        "approvals": approvals or {},
        "clients": clients or {},
        "keys": keys or {},
        "logs": logs or {},
        "prices": prices or {},
    }
    config = Config.model_validate(sections)
    counts = Store(config.store, sources.state) if store else None
    reloader = policy.load_policy(sources, store=counts, prices=read_prices(None) if store else None)
    metrics = Metrics()
    operated = AdminListener(metrics)
    operated.reloader = reloader
    async with (
        running_upstream(script) as (upstream_url, _),
        operators.serve_admin(operated, "127.0.0.1", 0) as admin_url,
        upstreams_at(upstream_url) as upstreams,
        open_audit_trail(config.audit, None, sources.state) as audit_trail,
        open_approvals_of(
            config, store_url, sources.state, audit_trail.record_change if audit_trail else None
        ) as asking,
    ):
        gateway = Gateway(reloader, upstreams, config, metrics, audit=audit_trail, approvals=asking)
        operated.receipts, operated.audit = gateway.receipts, audit_trail
        if sign_in is not None:  # the panel's URL was not known before
            config = Config.model_validate({**sections, "sign_in": {"url": admin_url, **sign_in}})
        effective = EffectiveConfig(config, {f"keys.{name}": "hookgate.toml" for name in config.keys}, None)
        async with (
            open_panel(
                effective,
                sources,
                reloader,
                gateway.receipts,
                store_url,
                admin_url,
                pushed=pushed,
                record=audit_trail.record_change if audit_trail else None,
                readiness=operated.readiness,
                sessions=gateway.sessions,
                try_hooks=HookTrials(
                    reloader, sources.state, read_prices(None), PolicyTokens(config.credentials)
                ).run,
                comparisons=PolicyComparisons(config, sources, pushed, store_url),
            ) as operated.panel,
            serve_on(gateway.handle, "127.0.0.1", 0) as url,
        ):
            assert operated.panel
            yield Paneled(url, admin_url, settings, reloader, operated.panel)
        await reloader.close()
        if counts is not None:
            await counts.__aexit__(None, None, None)


async def signed_in(gateway: Paneled) -> dict[str, str]:
    """The headers of a browser that the provider's person has signed in with."""
    begun = await post(gateway.admin, "/api/sign-in/begin", {}, SAME)
    async with (
        aiohttp.ClientSession() as client,
        client.get(begun.json["url"], allow_redirects=False) as sent,
    ):
        query = dict(URL(sent.headers["Location"]).query)
    answer = await post(gateway.admin, "/api/sign-in/finish", {**query, "flow": begun.json["flow"]}, SAME)
    assert answer.status == 200, answer.body
    return {
        **SAME,
        "Cookie": answer.headers["set-cookie"].partition(";")[0],
        "X-Hookgate-Panel": answer.json["proof"],
    }
