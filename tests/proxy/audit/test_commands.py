"""`hookgate audit`, as an operator uses it: in a pipe, where nothing but its answer is printed."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.audits import entries_of, ledger_in, opened, record_of
from support.program import COMMAND, run
from support.terminal import in_terminal

from hookgate.proxy.audit.entries import now
from hookgate.proxy.managing.audit import moment

CALLS = 12


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a gateway that has taken calls."""
    folder = tmp_path_factory.mktemp("state")
    records = [record_of(number, outcome="denied" if number == 3 else None) for number in range(CALLS)]
    with opened(folder) as database, ledger_in(database, folder) as ledger:
        ledger.write(entries_of(*records))
        ledger.close()
    return folder


async def test_calls_are_listed(state: Path) -> None:
    ended = await run("audit", "list", "--state", str(state))
    head, *lines = ended.out.splitlines()
    assert (ended.code, ended.err, len(lines)) == (0, "", CALLS)
    assert head.split() == ["ended", "id", "outcome", "status", "ms", "tokens", "model", "key", "session"]
    assert "alice" in lines[0]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        pytest.param(["--outcome", "denied"], 1, id="outcome"),
        pytest.param(["--key", "alice", "--model", "gemini-2.5-flash"], CALLS, id="key and model"),
        pytest.param(["--session", "f" * 32], 0, id="another session"),
        pytest.param(["--since", "5m"], CALLS, id="since"),
        pytest.param(["--since", "2100-01-01"], 0, id="not yet"),
        pytest.param(["--limit", "5"], 5, id="limit"),
    ],
)
async def test_calls_are_found(words: list[str], count: int, state: Path) -> None:
    ended = await run("audit", "list", "--json", *words, "--state", str(state))
    assert (ended.code, len(ended.out.splitlines())) == (0, count)


async def test_one_call_is_shown(state: Path) -> None:
    [call] = (await run("audit", "list", "--json", "--limit", "1", "--state", str(state))).out.splitlines()
    shown = await run("audit", "show", json.loads(call)["id"], "--json", "--state", str(state))
    told = json.loads(shown.out)
    assert told["start"]["body"]["session"]["key"] == "alice"
    assert told["end"]["body"]["outcome"] == "answered"


async def test_the_last_calls(state: Path) -> None:
    ended = await run("audit", "tail", "--json", "--state", str(state))
    positions = [json.loads(line)["position"] for line in ended.out.splitlines()]
    assert len(positions) == 10
    assert positions == sorted(positions)


async def test_an_export_can_be_verified(state: Path, tmp_path: Path) -> None:
    exported = await run("audit", "export", "--state", str(state))
    assert (exported.code, exported.err) == (0, "")
    assert len(exported.out.splitlines()) == 1 + 2 * CALLS + 1
    file = tmp_path / "export.jsonl"
    file.write_text(exported.out)
    verified = await run("audit", "verify", str(file))
    assert (verified.code, verified.err) == (0, "")
    assert verified.out == f"{2 * CALLS + 1} records of 1 writers: nothing is missing or changed.\n"
    file.write_text(exported.out.replace('"outcome":"denied"', '"outcome":"refused"'))
    verified = await run("audit", "verify", str(file))
    assert (verified.code, "it was changed" in verified.out) == (1, True)


async def test_a_part_can_be_exported(state: Path) -> None:
    assert (
        len((await run("audit", "export", "--until", "2020-01-01", "--state", str(state))).out.splitlines())
        == 1
    )
    assert (
        len((await run("audit", "export", "--since", "1h", "--state", str(state))).out.splitlines()) > CALLS
    )


async def test_a_single_flipped_byte_is_found(state: Path, tmp_path: Path) -> None:
    data = b"".join(path.read_bytes() for path in [state / "audit.db"])
    with closing(sqlite3.connect(state / "audit.db")) as connection:
        body = connection.execute("SELECT body FROM audit_records WHERE position = 8").fetchone()[0]
    place = data.index(body) + len(body) // 2
    damaged = bytearray(data)
    damaged[place] ^= 1
    (tmp_path / "audit.db").write_bytes(damaged)
    verified = await run("audit", "verify", "--state", str(tmp_path))
    assert verified.code == 1
    assert "record 8: its bytes are not those that were stored" in verified.out


async def test_progress_is_for_terminals(state: Path) -> None:
    command = [*COMMAND, "audit", "verify", "--state", str(state)]
    async with in_terminal(command, state, {"HOOKGATE_CONFIG": "/dev/null"}) as terminal:
        assert await terminal.ended() == 0
        await terminal.until(lambda: "nothing is missing or changed" in terminal.text)
        assert "verifying" in terminal.text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["list", "--since", "soon"], "'soon' is no time", id="no time"),
        pytest.param(["show", "0" * 32], "there is no record of", id="no such call"),
        pytest.param(["show", "nonsense"], "non-hexadecimal", id="no id"),
        pytest.param(["list", "--state", "/nowhere"], "there is no audit in /nowhere", id="no audit"),
    ],
)
async def test_mistakes_are_told_in_one_line(words: list[str], told: str, state: Path) -> None:
    where = [] if "--state" in words else ["--state", str(state)]
    ended = await run("audit", *words, *where)
    assert ended.code == 1
    assert told in ended.complaint


def test_times_are_absolute_or_ago() -> None:
    assert moment("2026-05-04T10:00:00+00:00") == 1_777_888_800_000
    ago = moment("2h")
    assert ago is not None
    assert abs(now() - ago - 7_200_000) < 5000
    assert moment(None) is None
