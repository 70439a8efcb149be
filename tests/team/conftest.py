"""The set-up of `make team`, as the tests of it use it."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.commands import missing
from support.gateway import running_upstream
from support.hooks import write_file
from support.relay import Relay, relay_to
from support.team_load import SCRIPT, hooks_in
from team import Team, free_address, running_team

POSTGRES = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
SETTINGS = {
    "HOOKGATE_CLIENTS__UNKNOWN_KEYS": "allow",
    "HOOKGATE_LIMITS__DRAIN_DELAY": "1.5",  # longer than nginx keeps idle connections
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def relay() -> AsyncIterator[Relay]:
    """What the gateways reach PostgreSQL through."""
    async with relay_to(Relay(free_address())) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def team(tmp_path_factory: pytest.TempPathFactory, relay: Relay) -> AsyncIterator[Team]:
    """Three gateways behind nginx, with PostgreSQL."""
    if not (shutil.which("nginx", path="/usr/sbin:/usr/bin") and POSTGRES):
        missing("needs nginx and PostgreSQL; on Debian: apt-get install nginx postgresql")
    folder = tmp_path_factory.mktemp("hooks")
    hooks = write_file(folder, {"hooks": hooks_in(folder)})
    async with (
        running_upstream(SCRIPT) as (upstream, _),
        running_team(upstream, hooks, postgres=relay.server, database=relay.address, **SETTINGS) as running,
    ):
        yield running
