"""Where chains must begin and end: truncated chains, missing writers, an emptied database."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.gateway.audits import entries_of, opened, record_of
from support.gateway.databases import postgres

from hookgate.proxy.audit.heads import HEADS_FILE, HeadsFile, load_heads
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.locks import writer_locks
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.cli.main import run_command

CALLS = 4


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str | None]:
    """The URL of a PostgreSQL database if a test asks for one, for all commands; else None, for a file."""
    if getattr(request, "param", "file") == "file":
        yield None
        return
    with postgres() as url:
        monkeypatch.setenv("HOOKGATE_STORE__URL", url.replace("+psycopg", ""))
        yield url


IN_ANY_STORE = pytest.mark.parametrize("store", ["file", "postgres"], indirect=True)


@pytest.fixture
def state(tmp_path: Path, store: str | None) -> Path:
    """Three writers: two that have closed their chains, and one that died."""
    with opened(tmp_path / "state", store) as database:
        for number in range(3):
            locks = writer_locks(database, tmp_path / "state")
            ledger = Ledger(database, locks, heads=HeadsFile(tmp_path / "state"))
            ledger.register()
            ledger.write(entries_of(*(record_of(number * 10 + call) for call in range(CALLS))))
            ledger.save_head()
            if number < 2:
                ledger.close()
            locks.close()
    return tmp_path / "state"


@pytest.fixture
def heads(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What `hookgate audit heads` said, on another machine."""
    run_command(["audit", "heads", "--state", str(state)])
    file = tmp_path / "heads.json"
    file.write_text(capsys.readouterr().out)
    return file


@pytest.fixture
def export(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    run_command(["audit", "export", "--state", str(state)])
    file = tmp_path / "export.jsonl"
    file.write_text(capsys.readouterr().out)
    return file


def verified(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    code = run_command(["audit", "verify", *map(str, words)])
    return code, capsys.readouterr().out


def run_sql(state: Path, store: str | None, *statements: str) -> None:
    with opened(state, store) as database, database.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


TAMPERINGS = {
    "the records of the last writer": ["DELETE FROM audit_records WHERE writer = 3"],
    "the last writer": [
        "DELETE FROM audit_records WHERE writer = 3",
        "DELETE FROM audit_writers WHERE number = 3",
        "DELETE FROM audit_open",
    ],
    "all but the first writer": [
        "DELETE FROM audit_records WHERE writer > 1",
        "DELETE FROM audit_writers WHERE number > 1",
    ],
    "everything": ["DELETE FROM audit_records", "DELETE FROM audit_writers", "DELETE FROM audit_open"],
    "all records": ["DELETE FROM audit_records"],
    "all writers": ["DELETE FROM audit_writers"],
    "the last call of a writer that died": [
        "DELETE FROM audit_records WHERE writer = 3 AND seq > 6",
    ],
    "the end of a writer, as if it were running": [
        "DELETE FROM audit_records WHERE writer = 2 AND seq > 6",
        "UPDATE audit_writers SET ended = '' WHERE number = 2",
    ],
    "the first records": ["DELETE FROM audit_records WHERE writer = 1 AND seq < 3"],
    "the first writer": [
        "DELETE FROM audit_records WHERE writer = 1",
        "DELETE FROM audit_writers WHERE number = 1",
    ],
}


@IN_ANY_STORE
@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=TAMPERINGS)
def test_records_up_to_the_gateway_s_saved_heads_must_exist(
    statements: list[str], state: Path, store: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verified(capsys, "--state", state)[0] == 0
    run_sql(state, store, *statements)
    code, reported = verified(capsys, "--state", state)
    assert (code, "missing" in reported) == (1, True)


@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=TAMPERINGS)
def test_records_up_to_heads_on_another_machine_must_exist(
    statements: list[str],
    state: Path,
    store: str | None,
    heads: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (state / HEADS_FILE).unlink()
    assert verified(capsys, "--state", state, "--expect", heads)[0] == 0
    run_sql(state, store, *statements)
    code, reported = verified(capsys, "--state", state, "--expect", heads)
    assert (code, "missing" in reported) == (1, True)


def test_a_rewritten_chain_differs_from_the_saved_head(
    state: Path, tmp_path: Path, heads: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(state)
    with opened(state) as database:
        for _ in range(3):
            ledger = Ledger(database, writer_locks(database, state))
            ledger.register()
            ledger.write(entries_of(*(record_of(call) for call in range(CALLS))))
            ledger.close()
    assert verified(capsys, "--state", state)[0] == 0
    code, reported = verified(capsys, "--state", state, "--expect", heads)
    assert code == 1
    assert reported.count("its registration, which was there before, is missing") == 3


def without(lines: list[bytes], number: int, above: int = 0, below: int = 10**6) -> list[bytes]:
    """An export without the records of a writer between two places."""
    writers = {json.loads(line)["number"]: json.loads(line)["writer"] for line in lines[:3]}

    def is_cut(document: Any) -> bool:
        return document.get("writer") == writers[number] and above < document.get("seq", 0) < below

    return [line for line in lines if not is_cut(json.loads(line))]


@IN_ANY_STORE
def test_a_truncated_export_is_found_whatever_is_missing(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    code, reported = verified(capsys, export)
    assert code == 0
    assert reported.count("records 1 to ") == 3
    cuts = {
        "the head": lines[:3] + lines[6:],
        "the head of the last writer": without(lines, 3, below=5),
        "the tail": without(lines, 3, above=4),
        "all of a writer": without(lines, 3),
        "a writer with its registration": [line for line in without(lines, 2) if line != lines[1]],
        "the last writer with its registration": [line for line in without(lines, 3) if line != lines[2]],
        "all records": lines[:3] + lines[-1:],
    }
    for name, left in cuts.items():
        export.write_bytes(b"".join(left))
        code, reported = verified(capsys, export)
        assert (code, "missing" in reported) == (1, True), name


UP_TO_THE_END = (
    "none is changed, and of each writer, none is missing up to the last one; whether later ones are missing "
    "is not proved, because nothing says where the records end (see: hookgate audit heads)"
)
FROM_THE_BEGINNING = (
    "none is changed, and of each writer, none is missing from the first one on; whether earlier ones are "
    "missing is not proved, because nothing says where the records begin (the last line of an export does)"
)
WITHIN = (
    "none is changed, and of each writer, none is missing between the first and the last one; whether "
    "earlier or later ones are missing is not proved, because nothing says where the records begin and end "
    "(see: hookgate audit heads)"
)


@pytest.mark.parametrize(
    ("cut", "with_heads", "expected"),
    [
        pytest.param(slice(None, -1), False, UP_TO_THE_END, id="the last line"),
        pytest.param(slice(None, -3), False, UP_TO_THE_END, id="the last records"),
        pytest.param(slice(6, -1), False, WITHIN, id="the first records"),
        pytest.param(slice(6, -3), False, WITHIN, id="both"),
        pytest.param(slice(6, -1), True, FROM_THE_BEGINNING, id="the first records, with heads"),
    ],
)
def test_the_conclusion_about_a_cut_export_says_what_is_proved(
    cut: slice,
    with_heads: bool,
    expected: str,
    *,
    export: Path,
    heads: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    kept = lines[cut] if cut.start is None else [*lines[:3], *lines[cut]]
    export.write_bytes(b"".join(kept))
    code, reported = verified(capsys, export, *(["--expect", heads] if with_heads else []))
    assert code == 0
    *_, conclusion = reported.splitlines()
    assert conclusion == f"{len(kept) - 3} records of 3 writers: {expected}."


def test_an_export_that_ends_within_a_line_is_not_sound(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    export.write_bytes(b"".join(lines[:9])[:-20])
    code, reported = verified(capsys, export)
    assert code == 1
    assert "line 9: it is not a record: the file ends within it" in reported
    assert reported.endswith("records are missing or changed.\n")


@IN_ANY_STORE
def test_an_export_serves_as_the_expected_heads_of_the_database(
    state: Path, store: str | None, export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / HEADS_FILE).unlink()
    assert verified(capsys, "--state", state, "--expect", export)[0] == 0
    run_sql(state, store, *TAMPERINGS["the last writer"])
    assert verified(capsys, "--state", state, "--expect", export)[0] == 1


def test_a_database_from_before_is_sound_and_says_that_its_end_is_not_shown(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / HEADS_FILE).unlink()
    code, reported = verified(capsys, "--state", state)
    assert code == 0
    assert reported.endswith(f": {UP_TO_THE_END}.\n")


def test_what_retention_removes_is_not_missed(
    state: Path, heads: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(state) as database:
        ledger = Ledger(database, writer_locks(database, state), heads=HeadsFile(state))
        ledger.register()
        assert not ledger.retain(Retention(days=0))
        ledger.close()
    code, reported = verified(capsys, "--state", state, "--expect", heads)
    assert (code, reported.count("missing or changed")) == (0, 1)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "x", '{"type":"heads"}', '{"type":"heads","writers":{"a":1}}']
)
def test_a_file_without_heads_is_reported_with_its_remedy(
    content: str, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    assert run_command(["audit", "verify", "--state", str(state), "--expect", str(file)]) == 1
    assert "create the file with: hookgate audit heads" in capsys.readouterr().err


def test_many_gateways_share_the_file_and_the_oldest_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgate.proxy.audit.heads._MAX_KEPT", 3)
    with opened(tmp_path) as database:
        for expected in ([1], [1, 2], [1, 2, 3], [2, 3, 4]):
            Ledger(database, writer_locks(database, tmp_path), heads=HeadsFile(tmp_path)).register()
            heads = load_heads(tmp_path / HEADS_FILE).values()
            assert sorted(head.number for head in heads) == expected
    assert (tmp_path / HEADS_FILE).stat().st_mode & 0o077 == 0
