"""Gateways that accept issued keys, and keys for them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.gateway.loopback import running_upstream, upstreams_at, write_settings
from support.wire import HI, UNARY, Answer, post

from hookgate.hooks import Engine, load_settings
from hookgate.proxy.app import serve_on
from hookgate.proxy.audit.trail import open_audit_trail
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config, StoreSettings
from hookgate.proxy.config.models import AuditSettings
from hookgate.proxy.keys.issued import IssuedKeys, open_issued_keys
from hookgate.proxy.keys.scopes import KeyScope
from hookgate.proxy.keys.secrets import create_key, load_pepper
from hookgate.proxy.keys.table import KeyTable, StoredKey
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.usage import Prices
from hookgate.proxy.store import Store
from hookgate.proxy.store.database import open_keys

UPSTREAM_KEY = "AIza-canary-of-the-gateway"
ACCEPTING: dict[str, Any] = {
    "clients": {"issued_keys": True},
    "upstream": {"gemini_key": UPSTREAM_KEY, "vertex_key": UPSTREAM_KEY},
}
"""The settings of a gateway that accepts issued keys."""


@contextmanager
def key_table(state: Path, url: str | None = None) -> Iterator[KeyTable]:
    """The table of keys, as the commands open it."""
    table = KeyTable(open_keys(url, state))
    try:
        yield table
    finally:
        table.close()


def issue(state: Path, url: str | None = None, scope: dict[str, Any] | None = None, **fields: Any) -> str:
    """A new key of alice, who is in the team search; fields are those of the stored key."""
    key, key_id = create_key()
    pepper = load_pepper(None, state)
    stored: dict[str, Any] = {
        "id": key_id,
        "hash": pepper.hash(key),
        "pepper": pepper.fingerprint,
        "owner": "alice",
        "team": "search",
        "note": "",
        "scope": KeyScope.model_validate(scope or {}).model_dump_json(exclude_none=True),
        "created": int(time.time()),
    } | fields
    with key_table(state, url) as table:
        table.add(StoredKey(**stored))
    return key


def id_of(key: str) -> str:
    """The public ID in a key."""
    return key.split("_")[1]


def rotate(state: Path, old: str, overlap: int = 0, url: str | None = None) -> str:
    """The new secret of a key."""
    new, key_id = create_key(id_of(old))
    pepper = load_pepper(None, state)
    with key_table(state, url) as table:
        stored = table.find(key_id)
        assert stored is not None
        assert table.rotate(stored, pepper.hash(new), pepper.fingerprint, int(time.time()) + overlap)
    return new


def revoke(state: Path, key: str, url: str | None = None) -> None:
    """Revoke a key."""
    with key_table(state, url) as table:
        assert table.revoke(id_of(key), int(time.time()))


@dataclass(frozen=True)
class Issuing:
    """A running gateway that accepts issued keys, and what reached its upstream."""

    url: str
    recorded: Any
    keys: IssuedKeys
    gateway: Gateway
    metrics: Metrics


@asynccontextmanager
async def issuing_gateway(
    state: Path,
    hooks: dict[str, Any] | None = None,
    *,
    url: str | None = None,
    upstream_url: str | None = None,
    known_prices: Prices | None = None,
    **config: Any,
) -> AsyncIterator[Issuing]:
    """A gateway with an audit, in `state` or at the database's `url`; other arguments are sections."""
    os.makedirs(state, exist_ok=True)
    settings = Config.model_validate({**ACCEPTING, **config})
    engine = Engine(load_settings([write_settings(state, hooks or {})]))
    metrics = Metrics(settings.metrics.models, known_prices)
    async with (
        running_upstream() as (embedded, recorded),
        upstreams_at(upstream_url or embedded, settings.upstream, settings.credentials) as upstreams,
        Store(StoreSettings(url=url), state) as store,
        open_audit_trail(AuditSettings(), url, state) as audit,
        open_issued_keys(settings, url, state, store.counters(), known_prices) as keys,
    ):
        metrics.expose_tokens(tuple(upstreams.credentials.tokens))
        gateway = Gateway(engine, upstreams, settings, metrics, audit=audit, issued_keys=keys)
        async with serve_on(gateway.handle, "127.0.0.1", 0, settings.limits) as address:
            yield Issuing(address, recorded, keys, gateway, metrics)
        await engine.close()


def key_header(key: str) -> dict[str, str]:
    return {"x-goog-api-key": key}


async def until_answered(url: str, key: str, status: int = 200, seconds: float = 5) -> Answer:
    """The first answer to a call with the key that has this status."""
    async with asyncio.timeout(seconds):
        while (answer := await post(url, UNARY, HI, key_header(key))).status != status:  # noqa: ASYNC110  # polls
            await asyncio.sleep(0.1)  # so seldom that no limit of a test is reached
    return answer


def denial_reason(answer: Answer) -> str:
    """The reason of a denial that clients show and do not retry."""
    assert (answer.status, answer.error["status"]) == (403, "PERMISSION_DENIED")
    assert b"hgk_" not in answer.body
    return str(answer.error["details"][0]["reason"])
