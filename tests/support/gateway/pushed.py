"""Replicas that follow a pushed policy, in this process, and pushes to their database."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.gateway.databases import execute
from support.gateway.loopback import upstreams_at

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.proxy import policy
from hookgate.proxy.admin.listener import AdminListener
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.policy.table import PolicyRevision, PolicyTable, document_hash
from hookgate.proxy.store.database import open_policies

Json = dict[str, Any]


def hook(name: str, builtin: str = "models", **options: Any) -> Json:
    return {"type": "builtin", "builtin": builtin, "name": name, "options": options}


def document(**hooks: Json) -> str:
    """The text of a policy with one hook for each event."""
    return json.dumps({"hooks": {event: [{"hooks": [each]}] for event, each in hooks.items()}})


def allowing(*models: str) -> str:
    """The text of a policy that allows some models."""
    return document(BeforeModel=hook("models", allow=list(models)))


@contextmanager
def policy_table(state: Path, url: str | None = None) -> Iterator[PolicyTable]:
    """The table of revisions, as the commands open it."""
    table = PolicyTable(open_policies(url, state))
    try:
        yield table
    finally:
        table.close()


def revision_after(parent: int, text: str, **fields: Any) -> PolicyRevision:
    about: Json = {"pushed": int(time.time()), "pushed_by": "alice", "message": ""} | fields
    return PolicyRevision(parent + 1, parent, document_hash(text), text, **about)


def push(state: Path, url: str | None, text: str, **fields: Any) -> int:
    """Push a policy without checking it, and give its number."""
    with policy_table(state, url) as table:
        newest = table.newest()
        revision = revision_after(newest.number if newest else 0, text, **fields)
        table.add(revision)
    return revision.number


def change_table(state: Path, url: str | None, statement: str) -> None:
    """Change the table in the way of somebody who has the database."""
    database = open_policies(url, state)
    with database.engine.begin() as connection:
        connection.exec_driver_sql(statement)
    database.close()


@contextmanager
def unreachable(state: Path, url: str | None) -> Iterator[None]:
    """The database cannot be read while the block runs: a server refuses connections, a file has no table."""
    if url is None:
        change_table(state, url, "ALTER TABLE policy_revisions RENAME TO away")
        yield
        change_table(state, url, "ALTER TABLE away RENAME TO policy_revisions")
        return
    name = url.rpartition("/")[2]
    execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name)
    yield
    execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


@dataclass(frozen=True)
class Replica:
    """A gateway that follows the policy in a database."""

    url: str
    pushed: policy.PushedPolicy
    reloader: EngineReloader
    admin: AdminListener
    metrics: Metrics
    receipts: Receipts

    async def ready(self) -> Json:
        """What `/readyz` tells, which has to be 200."""
        status, body = await self.admin.readiness()
        assert status == 200
        return body


@asynccontextmanager
async def replica(
    state: Path, url: str | None, upstream_url: str, *, follows: bool = True, **hooks: Any
) -> AsyncIterator[Replica]:
    """A gateway as `serve` makes it. If it does not follow, it looks only when a test says so."""
    sections = {"hooks": {"database": True, "state": state, **hooks}, "store": {"url": url}}
    config = Config.model_validate(sections)
    metrics, admin = Metrics(), AdminListener(Metrics())
    with policy.open_pushed_policy(config, find_sources(config.hooks)) as (sources, pushed):
        assert pushed
        reloader = policy.load_policy(sources)
        metrics.expose_pushed_policy(pushed)
        async with (
            policy.running_policy(reloader, None, pushed if follows else None),
            upstreams_at(upstream_url) as upstreams,
        ):
            gateway = Gateway(reloader, upstreams, config, metrics)
            async with serve_on(gateway.handle, "127.0.0.1", 0) as address:
                admin.reloader, admin.pushed = reloader, pushed
                yield Replica(address, pushed, reloader, admin, metrics, gateway.receipts)
