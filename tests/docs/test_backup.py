"""The commands of "Backup and restore" and of "People's data", run as they are printed, on both databases."""

import asyncio
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.gateway.audits import entries_of, record_of
from support.gateway.databases import postgres
from support.gateway.keys import issue, key_table, revoke
from support.pages import block_of
from support.programs.program import COMMAND, Ended, environment

from hookgate.hooks import SessionContext
from hookgate.proxy.audit.ledger import open_ledger

pytestmark = pytest.mark.e2e

PAGE = "docs/operating.md"


class Machine:
    """A folder with a state folder, in which `hookgate` is this environment's."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder, self.url, self.state = folder, url, folder / "state"
        program = folder / "bin" / "hookgate"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        plain = (url or "").replace("+psycopg", "")
        self._environment: Mapping[str, str] = {
            "PATH": path,
            "HOOKGATE_STATE": str(self.state),
            **({"HOOKGATE_STORE__URL": plain, "URL": plain} if url else {}),
        }

    async def run(self, script: str, code: int = 0) -> Ended:
        """A block of a page, which bash runs."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *("bash", "-ec", script),
            env=environment(self._environment),
            cwd=self.folder,
            stdout=pipe,
            stderr=pipe,
        )
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        ended = Ended(process.returncode or 0, out.decode(), err.decode())
        assert ended.code == code, (script, ended)
        return ended

    def take_calls(self, count: int) -> None:
        """What one run of a gateway records; alice's calls with their content."""
        session = SessionContext("s", client="agent", key="alice", team="search")
        with open_ledger(self.url, self.state, None, 5) as (ledger, _):
            entries = entries_of(*(record_of(number, session=session) for number in range(count)))
            ledger.write([entry._replace(content={"text": "hi"}) for entry in entries])
            ledger.close()


def lay_out(machine: Machine) -> str:
    """A key, and the files that a gateway may have; returns the key."""
    key = issue(machine.state, machine.url, owner="alice")
    for name in ("redact.key", "trusted_hooks.json"):
        (machine.state / name).write_text("{}\n")
    (machine.folder / "backup").mkdir(exist_ok=True)
    return key


async def test_a_restored_file_is_verified_and_says_what_is_missing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, None)
    key = lay_out(machine)
    machine.take_calls(5)
    await machine.run(block_of(PAGE, "mkdir -p -m 700 backup").text)
    machine.take_calls(7)
    revoke(machine.state, key)
    restored = await machine.run(block_of(PAGE, "rm -f").text)
    assert "its registration and all its records, up to 15, are missing since a restore" in restored.out
    assert "ops@example.com has accepted" in restored.out
    await machine.run("hookgate audit verify --expect backup/heads.json")
    with key_table(machine.state) as table:
        assert [stored.revoked for stored in table.all()] == [None]  # as the page says


async def test_a_restored_server_is_verified_and_says_what_is_missing(tmp_path: Path) -> None:
    with postgres() as url:
        machine = Machine(tmp_path, url)
        lay_out(machine)
        machine.take_calls(5)
        await machine.run(block_of(PAGE, "pg_dump").text)
        machine.take_calls(7)
        await machine.run(block_of(PAGE, "pg_restore").text)
        verified = await machine.run("hookgate audit verify")
        assert "up to 15, are missing since a restore, which ops@example.com has accepted" in verified.out
        listed = await machine.run("hookgate audit list --json --all")
        assert len(listed.out.splitlines()) == 5


async def test_the_data_of_a_person_is_found_exported_and_erased(tmp_path: Path) -> None:
    machine = Machine(tmp_path, None)
    lay_out(machine)
    machine.take_calls(5)
    shown, _, commands = block_of("docs/personal-data.md", "$ hookgate data find").text.partition("\n\n")
    find = shown.partition("\n")[0].removeprefix("$ ")
    export, dry_run, erase = commands.splitlines()
    assert "contents" in (await machine.run(find)).out
    await machine.run(export)
    assert "10 contents" not in (await machine.run(dry_run)).out
    assert "10 contents" in (await machine.run(erase)).out
    assert "data.erase" in (await machine.run("hookgate audit changes")).out
    await machine.run("hookgate audit verify")
