"""Gateways of a team that are upgraded one after another, and back, while clients call."""

import asyncio
import os
import shutil
from pathlib import Path

import psycopg
import pytest
from support.clients.python_sdk import sdk_warnings
from support.gateway.team_load import load
from support.places import PROJECT
from team import Team

from hookgate.proxy.store.models import NEWEST, metadata

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), sdk_warnings]

NEXT = f"{int(NEWEST) + 1:04}"

_MIGRATION = """
import sqlalchemy
from alembic import op

revision, down_revision = {after!r}, {before!r}

def upgrade() -> None:
    op.create_table("of_the_next_version", sqlalchemy.Column("id", sqlalchemy.Text, primary_key=True))
    for table in {tables!r}:
        op.add_column(table, sqlalchemy.Column("of_the_next_version", sqlalchemy.Text))
"""
"""A migration that changes every table, in another order than that in which calls use them."""


def next_version(folder: Path) -> str:
    """Write a copy of hookgate with one more migration, and return the path from which Python imports it."""
    roots = ("translator", "hooks", "shim", "proxy")
    for root in roots:
        shutil.copytree(PROJECT / root, folder / root, ignore=shutil.ignore_patterns("__pycache__"))
    store = folder / "proxy" / "hookgate" / "proxy" / "store"
    models = store / "models.py"
    models.write_text(models.read_text().replace(f'NEWEST = "{NEWEST}"', f'NEWEST = "{NEXT}"'))
    migration = _MIGRATION.format(before=NEWEST, after=NEXT, tables=[*metadata.tables][::-1])
    (store / "migrations" / "versions" / f"next_{NEXT}.py").write_text(migration)
    return os.pathsep.join(str(folder / root) for root in roots)


def version_of_tables(team: Team) -> str:
    url = (team.secrets / "store-url").read_text().strip().replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        [version] = connection.execute("SELECT version_num FROM alembic_version").fetchone() or [""]
    return str(version)


async def test_no_call_fails_while_gateways_are_upgraded_and_while_that_is_taken_back(
    team: Team, tmp_path: Path
) -> None:
    newer = next_version(tmp_path)
    async with load(team.url) as clients:
        for gateway in team.gateways:
            gateway.env["PYTHONPATH"] = newer
            await gateway.restart()
            assert await asyncio.to_thread(version_of_tables, team) == NEXT
        upgraded = clients.streams
        for gateway in team.gateways:
            del gateway.env["PYTHONPATH"]
            await gateway.restart()
            assert f"version {NEXT}, one newer than this version" in gateway.log.read_text()
    assert [failure.why for failure in clients.failures] == []
    assert clients.forgotten == []
    assert min(upgraded, clients.streams - upgraded, clients.edits, clients.stops) > 0
    print(f"upgrade and back: {clients.streams} streams, {clients.edits} edits")
