"""`hookgate audit accept-restore`: what a restore explains is accepted by name; all else stays a problem."""

import json
from pathlib import Path

import pytest
from support.gateway.audits import entries_of, opened, record_of
from support.programs.program import Ended, run

from hookgate.proxy.audit.ledger import open_ledger

BACKED_UP = 8
"""Records that the backup contains."""


async def audit(*words: str, state: Path, url: str | None, code: int = 0) -> Ended:
    env = {"HOOKGATE_STORE__URL": (url or "").replace("+psycopg", "")}
    ended = await run("audit", *words, "--state", str(state), env=env)
    assert ended.code == code, ended.out + ended.err
    return ended


def write(state: Path, url: str | None, *, calls: int) -> str:
    """The calls of one run of a gateway, whose name is returned."""
    with open_ledger(url, state, None, 5) as (ledger, _):
        ledger.write(entries_of(*(record_of(number) for number in range(calls))))
        ledger.close()
        return ledger.writer


def execute(state: Path, url: str | None, *statements: str) -> None:
    with opened(state, url) as database, database.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def restore(state: Path, url: str | None) -> None:
    """Make the database what it was when its first writer had written some records."""
    execute(
        state,
        url,
        "DELETE FROM audit_records WHERE position > 8",
        "DELETE FROM audit_writers WHERE number > 1",
        "UPDATE audit_writers SET ended = ''",
    )


@pytest.fixture
def written(tmp_path: Path, url: str | None) -> tuple[str, str]:
    """The names of two writers whose last records the backup does not contain."""
    return write(tmp_path, url, calls=10), write(tmp_path, url, calls=2)


async def test_what_a_restore_has_lost_is_accepted_by_name_and_reported_from_then_on(
    written: tuple[str, str], tmp_path: Path, url: str | None
) -> None:
    kept = tmp_path / "heads.json"
    kept.write_text((await audit("heads", state=tmp_path, url=url)).out)
    restore(tmp_path, url)
    await audit("verify", state=tmp_path, url=url, code=1)
    shown = await audit("accept-restore", state=tmp_path, url=url, code=1)
    assert "pass --yes" in shown.out
    await audit("verify", state=tmp_path, url=url, code=1)
    accepted = await audit("accept-restore", "--by", "ops", "--yes", state=tmp_path, url=url)
    first, second = written
    lost = [
        f"writer {first}: records {BACKED_UP + 1} to 21 are missing",
        f"writer {second}: its registration and all its records, up to 5, are missing",
    ]
    assert accepted.out.splitlines()[:2] == [f"{each}." for each in lost]
    for words in ([], ["--expect", str(kept)]):
        verified = await audit("verify", *words, state=tmp_path, url=url)
        assert all(f"{each} since a restore, which ops has accepted at 2" in verified.out for each in lost)
        assert "nothing is missing or changed" not in verified.out
    changes = await audit("changes", "--json", state=tmp_path, url=url)
    [change] = [json.loads(line) for line in changes.out.splitlines()]
    assert (change["change"], change["by"], len(change["gaps"])) == ("audit.restored", "ops", 2)
    again = await audit("accept-restore", "--yes", state=tmp_path, url=url)
    assert "there is nothing to accept" in again.err


async def test_a_gateway_goes_on_after_a_restore(
    written: tuple[str, str], tmp_path: Path, url: str | None
) -> None:
    restore(tmp_path, url)
    await audit("accept-restore", "--yes", state=tmp_path, url=url)
    write(tmp_path, url, calls=3)
    assert "3 writers" in (await audit("verify", state=tmp_path, url=url)).out


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param("DELETE FROM audit_records WHERE position = 3", id="removed before"),
        pytest.param("UPDATE audit_records SET at = at + 1 WHERE position = 3", id="changed before"),
    ],
)
async def test_what_a_restore_does_not_explain_is_not_accepted(
    tamper: str, written: tuple[str, str], tmp_path: Path, url: str | None
) -> None:
    restore(tmp_path, url)
    execute(tmp_path, url, tamper)
    refused = await audit("accept-restore", "--yes", state=tmp_path, url=url, code=1)
    assert "a restore does not explain this, so nothing was accepted" in refused.err
    assert "has accepted" not in (await audit("verify", state=tmp_path, url=url, code=1)).out


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param("DELETE FROM audit_records WHERE position = 8", id="more removed"),
        pytest.param("DELETE FROM audit_records WHERE writer = 2", id="the acceptance removed"),
    ],
)
async def test_an_acceptance_hides_nothing_else(
    tamper: str, written: tuple[str, str], tmp_path: Path, url: str | None
) -> None:
    restore(tmp_path, url)
    kept = tmp_path / "heads.json"
    kept.write_text((await audit("heads", state=tmp_path, url=url)).out)
    await audit("accept-restore", "--yes", state=tmp_path, url=url)
    execute(tmp_path, url, tamper)
    await audit("verify", state=tmp_path, url=url, code=1)
    if "position" in tamper:
        await audit("verify", "--expect", str(kept), state=tmp_path, url=url, code=1)


async def test_without_an_audit_nothing_is_accepted(written: tuple[str, str], tmp_path: Path) -> None:
    restore(tmp_path, None)
    words = ("audit", "accept-restore", "--yes", "--state", str(tmp_path))
    ended = await run(*words, env={"HOOKGATE_AUDIT__ENABLED": "false"})
    assert (ended.code, "set audit.enabled = true" in ended.err) == (1, True)
