"""The setup of `make team`, as fixtures."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.clients.one_policy import model_calls
from support.gateway.event_order import SCRIPT
from support.gateway.loopback import running_upstream
from support.gateway.team_load import STREAM, hooks_in
from support.hooks.settings import write_file
from support.programs.commands import missing
from support.upstream.relay import Relay, relay_to
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the upstream has agents work, in `workspace`, and remove `victim`."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "victim").mkdir()
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream(folder: Path) -> AsyncIterator[tuple[str, Any]]:
    """The URL of the upstream, and the requests that reach it."""
    [read, run, remove] = model_calls(folder / "victim", folder / "workspace" / "notes.txt")["rules"]
    [written, _, write] = SCRIPT["rules"]
    asked = [{"when": {"text": "clean up"}, **remove}, {"when": {"text": "write it"}, **write}]
    async with running_upstream({"rules": [STREAM, written, read, run, *asked]}) as running:
        yield running


@pytest.fixture(scope="module")
def hooks_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A settings file of all gateways, whose hooks, unlike those of a policy, run once for each event."""
    return write_file(tmp_path_factory.mktemp("files"), {})


@pytest.fixture(scope="module")
def settings(hooks_file: Path) -> dict[str, str]:
    """The environment variables of the gateways. A module that needs more has a fixture of its own."""
    return {**SETTINGS, "HOOKGATE_HOOKS__FILES": str(hooks_file)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def team(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    relay: Relay,
    upstream: tuple[str, Any],
    settings: dict[str, str],
) -> AsyncIterator[Team]:
    """Three gateways behind nginx, with PostgreSQL; the policy that a module names first is pushed."""
    if not (shutil.which("nginx", path="/usr/sbin:/usr/bin") and POSTGRES):
        missing("needs nginx and PostgreSQL; on Debian: apt-get install nginx postgresql")
    folder = tmp_path_factory.mktemp("hooks")
    hooks = write_file(folder, {"hooks": hooks_in(folder)})
    url, _ = upstream
    policy = None
    if (text := getattr(request.module, "PUSHED_FIRST", None)) is not None:
        policy = folder / "policy.json"
        policy.write_text(text)
    async with running_team(
        url, hooks, postgres=relay.server, database=relay.address, policy=policy, **settings
    ) as running:
        yield running
