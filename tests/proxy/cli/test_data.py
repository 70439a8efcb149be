"""`hookgate data`: what is stored about a person is found, exported and erased, and nothing of others."""

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from support.gateway.audits import entries_of, ledger_in, opened, reading, record_of, report_of
from support.gateway.keys import id_of, issue
from support.programs.program import COMMAND, Ended, run
from support.programs.terminal import in_terminal

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.counters import LimitRule, counts_of
from hookgate.proxy.alerts.rules import read_alert_rules
from hookgate.proxy.alerts.states import AlertChanges, AlertId, Firing, describe
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.audit import erasing
from hookgate.proxy.audit.entries import start_entry
from hookgate.proxy.audit.index.building import open_index
from hookgate.proxy.audit.ledger import Ledger, open_ledger
from hookgate.proxy.cli.data.stored import TranscriptFiles
from hookgate.proxy.cli.main import run_command
from hookgate.proxy.config import AlertSettings
from hookgate.proxy.sessions.memory import HookEffect
from hookgate.proxy.sessions.sessions import OpenSession, SessionState
from hookgate.proxy.sessions.shared import SharedSessions
from hookgate.proxy.sessions.table import open_session_store
from hookgate.proxy.store import StoreError
from hookgate.proxy.store.counters import SqlCounters
from hookgate.proxy.store.database import open_alerts, open_database
from hookgate.proxy.store.interactions import InteractionTable, StoredInteraction

OTHERS = ("bob", "ALICE", "alice2")
DIAGNOSIS = "the diagnosis of alice"


async def data(*words: str, state: Path, url: str | None, code: int = 0) -> Ended:
    ended = await run("data", *words, "--state", str(state), env={"HOOKGATE_STORE__URL": plain(url)})
    assert ended.code == code, ended.err
    return ended


def plain(url: str | None) -> str:
    return (url or "").replace("+psycopg", "")


async def found(name: str, state: Path, url: str | None, code: int = 0) -> dict[str, int]:
    stored: dict[str, int] = json.loads(
        (await data("find", "--person", name, "--json", state=state, url=url, code=code)).out
    )["stored"]
    return {kind: count for kind, count in stored.items() if count}


def write_calls(state: Path, url: str | None, *, calls: int = 30) -> None:
    """Calls of everybody with their content, one of which has not ended."""
    with opened(state, url) as database, ledger_in(database, state) as ledger:
        entries = []
        for number in range(calls):
            for key in ("alice", *OTHERS):
                session = SessionContext("s", client="agent", key=key, team="search")
                start, end = entries_of(record_of(number, session=session))
                text = DIAGNOSIS if key == "alice" else "nothing"
                entries += [start._replace(content={"request": {"text": text}}), end]
        open_session = SessionContext("s", key="alice")
        running = start_entry(record_of(calls, session=open_session), {"request": {"text": DIAGNOSIS}})
        ledger.write([*entries, running])


async def write_sessions(state: Path, url: str | None) -> None:
    def remember(session: SessionState) -> None:
        session.memory.remember("call-1", HookEffect({"text": "an effect"}))

    store = open_session_store(url, state, hours=1)
    try:
        sessions = SharedSessions(store)
        for key in ("alice", *OTHERS):
            for number in range(3):
                await sessions.change(SessionContext(f"s{number}", key=key), remember)
    finally:
        await store.close()


async def write_counts(state: Path, url: str | None, key_id: str) -> None:
    database = open_database(url, state)
    counters, interactions = SqlCounters(database), InteractionTable(database, 1)
    ends = datetime.now(UTC) + timedelta(days=1)
    rules = [LimitRule(per="key", window="day", tokens=5), LimitRule(per="team", window="day", cost=5)]
    try:
        for key in ("alice", f"issued:{key_id}", *OTHERS):
            for count in counts_of(rules, SessionContext("s", key=key, team="search"), datetime.now(UTC)):
                await counters.add(count.key, 1, ends)
            common = {"session": "s", "revision": "r", "previous": None, "continues_known": True}
            kept = StoredInteraction(key, "interactions/1", **common, passed=True, counted=True)  # type: ignore[arg-type]  # see `common`
            await interactions.keep(kept)
    finally:
        counters.close()
        interactions.close()
        database.close()


@pytest.fixture
async def state(tmp_path: Path, url: str | None) -> AsyncIterator[Path]:
    """A gateway that has stored everything about several people."""
    key_id = id_of(issue(tmp_path, url, owner="alice", note="for the ward"))
    issue(tmp_path, url, owner="bob")
    write_calls(tmp_path, url)
    await write_sessions(tmp_path, url)
    await write_counts(tmp_path, url, key_id)
    for key in ("alice", *OTHERS):
        folder = tmp_path / "transcripts" / key
        folder.mkdir(parents=True)
        (folder / "s.jsonl").write_text(f'{{"text": "{DIAGNOSIS}"}}\n')
        (folder / "s.jsonl.1").write_text("{}\n")
    return tmp_path


EVERYTHING = {
    "keys": 1,
    "session_effects": 3,
    "sessions": 3,
    "interactions": 1,
    "counts": 2,
    "transcripts": 2,
    "contents": 31,
    "records": 61,
}


async def test_everything_about_a_person_is_erased_and_nothing_of_others(
    state: Path, url: str | None
) -> None:
    others = [await found(name, state, url) for name in OTHERS]
    assert await found("alice", state, url) == EVERYTHING
    erased = await data("erase", "--person", "alice", "--yes", "--by", "dpo", "--json", state=state, url=url)
    counts = {kind: count for kind, count in EVERYTHING.items() if kind != "records"}
    assert json.loads(erased.out)["erased"] == counts
    assert await found("alice", state, url) == {"records": 61}
    assert [await found(name, state, url) for name in OTHERS] == others


async def test_the_chain_verifies_after_an_erasure_which_is_on_record(state: Path, url: str | None) -> None:
    erased = await data("erase", "--person", "alice", "--yes", "--by", "dpo", state=state, url=url)
    assert "Gateways will refuse all calls with " in erased.out
    report = report_of(state, url)
    assert (report.problems, report.without_content) == ([], 31)
    env = {"HOOKGATE_STORE__URL": plain(url)}
    verified = await run("audit", "verify", "--state", str(state), env=env)
    assert (verified.code, "The content of 31 records was removed" in verified.out) == (0, True)
    [change] = json.loads(
        (await run("audit", "changes", "--json", "--state", str(state), env=env)).out.join("[]")
    )
    assert (change["change"], change["by"], change["erased"]["contents"]) == ("data.erase", "dpo", 31)
    assert change["person_sha256"] == sha256(b"alice").hexdigest()
    assert "alice" not in json.dumps(change)


async def test_content_that_was_removed_in_another_way_is_reported(state: Path, url: str | None) -> None:
    await data("erase", "--person", "alice", "--yes", state=state, url=url)
    with opened(state, url) as database, database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM audit_content WHERE writer = 1 AND seq = 3")
    assert report_of(state, url).problems == [
        f"writer {writer_of(state, url)}, record 3: its content was removed"
    ]


def writer_of(state: Path, url: str | None) -> str:
    report = report_of(state, url)
    return report.chains[0].split()[1].rstrip(":")


async def test_an_export_until_before_the_erasure_contains_the_record_of_it(
    state: Path, url: str | None, tmp_path: Path
) -> None:
    env, until = {"HOOKGATE_STORE__URL": plain(url)}, datetime.now(UTC).isoformat()
    await data("erase", "--person", "alice", "--yes", state=state, url=url)
    exported = await run("audit", "export", "--until", until, "--state", str(state), env=env)
    file = tmp_path / "may.jsonl"
    file.write_text(exported.out)
    verified = await run("audit", "verify", str(file))
    assert (verified.code, verified.err, "of 31 records was removed" in verified.out) == (0, "", True)
    lines = [line for line in exported.out.splitlines() if '"content_removed"' not in line]
    file.write_text("\n".join(lines) + "\n")
    verified = await run("audit", "verify", str(file))
    assert (verified.code, "its content was removed" in verified.out) == (1, True)


async def test_an_export_contains_what_is_stored_without_secrets(state: Path, url: str | None) -> None:
    exported = await data("export", "--person", "alice", state=state, url=url)
    documents = [json.loads(line) for line in exported.out.splitlines()]
    kinds = {kind: sum(each["kind"] == kind for each in documents) for kind in EVERYTHING}
    assert kinds == {**EVERYTHING, "contents": 0}
    assert DIAGNOSIS in json.dumps([each.get("content") for each in documents if each["kind"] == "records"])
    [key] = [each for each in documents if each["kind"] == "keys"]
    assert (key["owner"], key["note"]) == ("alice", "for the ward")
    assert not {"hash", "previous_hash", "pepper"} & key.keys()
    assert "bob" not in exported.out


async def test_a_dry_run_erases_nothing(state: Path, url: str | None) -> None:
    shown = await data("erase", "--person", "alice", "--dry-run", state=state, url=url)
    assert "contents" in shown.out
    assert await found("alice", state, url) == EVERYTHING
    refused = await data("erase", "--person", "alice", state=state, url=url, code=1)
    assert "pass --yes" in refused.out
    assert await found("alice", state, url) == EVERYTHING


async def test_the_id_of_a_key_stands_for_its_owner(tmp_path: Path) -> None:
    key_id = id_of(issue(tmp_path, owner="alice"))
    issue(tmp_path, owner="alice")
    assert await found(key_id, tmp_path, None) == {"keys": 2}


async def test_without_anything_stored_the_command_says_so(tmp_path: Path) -> None:
    issue(tmp_path, owner="alice")
    ended = await data("find", "--person", "Alice", state=tmp_path, url=None, code=1)
    assert "nothing is stored about Alice; names are matched exactly" in ended.err


@pytest.mark.parametrize("name", ["..", ".", "../transcripts/alice", "no-key", ""])
async def test_a_name_that_is_no_key_finds_no_files(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "transcripts" / "alice"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text("{}\n")
    (tmp_path / "transcripts" / "no-key").mkdir()
    (tmp_path / "transcripts" / "no-key" / "s.jsonl").write_text("{}\n")
    (tmp_path / "x.jsonl").write_text("{}\n")
    await data("erase", "--person", name, "--yes", state=tmp_path, url=None, code=1)
    assert len(files_in(tmp_path)) == 3


def files_in(folder: Path) -> list[Path]:
    return [*folder.rglob("*.jsonl")]


def journals_in(folder: Path) -> list[Path]:
    return [*folder.glob("*/*.journal")]


def bytes_of_audit(state: Path) -> bytes:
    return b"".join(file.read_bytes() for file in state.glob("audit.db*"))


async def test_content_is_not_erased_if_that_could_not_be_recorded(tmp_path: Path) -> None:
    write_calls(tmp_path, None)
    env = {"HOOKGATE_AUDIT__ENABLED": "false"}
    ended = await run("data", "erase", "--person", "alice", "--yes", "--state", str(tmp_path), env=env)
    assert (ended.code, "set audit.enabled = true" in ended.err) == (1, True)
    assert report_of(tmp_path).problems == []


async def test_erased_content_is_in_no_file_of_the_database(tmp_path: Path) -> None:
    """Not even in free pages, or in the log of earlier pages."""
    needle = "6b1f".join(str(number) for number in range(40)).encode()
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        start, end = entries_of(record_of())
        ledger.write([start._replace(content={"request": needle.decode()}), end])
    stored = stored_content(tmp_path)
    assert stored in bytes_of_audit(tmp_path)
    await data("erase", "--person", "alice", "--yes", state=tmp_path, url=None)
    assert stored[:60] not in bytes_of_audit(tmp_path)


def stored_content(state: Path) -> bytes:
    with closing(sqlite3.connect(state / "audit.db")) as connection:
        packed: bytes = connection.execute("SELECT data FROM audit_content").fetchone()[0]
    return packed


async def test_a_running_gateway_reads_sessions_again(tmp_path: Path) -> None:
    """It must not use the copies that it has in memory."""

    def stop(state: SessionState) -> None:
        state.stopped = "enough"

    session = SessionContext("s", key="alice")
    store = open_session_store(None, tmp_path, hours=1)
    try:
        sessions = SharedSessions(store)
        await sessions.change(session, stop)
        before: OpenSession = await sessions.open(session)
        await data("erase", "--person", "alice", "--yes", state=tmp_path, url=None)
        after = await sessions.open(session)
    finally:
        await store.close()
    assert (before.state.stopped, after.state.stopped) == ("enough", None)


async def test_alerts_and_names_of_the_index_are_found_and_erased(tmp_path: Path, url: str | None) -> None:
    """The index is made from the records, so its names stay as long as these."""
    with opened(tmp_path, url) as database, ledger_in(database, tmp_path) as ledger:
        ledger.write(entries_of(*(record_of(0, session=SessionContext("s", key=key)) for key in PEOPLE)))
        with open_index(database, url, tmp_path) as index:
            assert index.update(60)
    rules = [{"name": "busy", "by": "key,agent", "over": 1, "within": "1m"}]
    receivers = [{"name": "ops", "url": "http://127.0.0.1:1/", "secret": "whsec_" + "A" * 32}]
    settings = AlertSettings.model_validate({"rules": rules, "receivers": receivers})
    [rule] = read_alert_rules(settings)
    table = AlertTable(open_alerts(url, tmp_path), "g")
    fires = [Firing(AlertId("busy", (key, "owner: alice"), 100), 1, 2.0) for key in PEOPLE]
    messages = [describe(rule, rule.levels[0], each, 1) for each in fires]
    assert table.take_lease(1)
    assert table.apply({}, 1, lambda *_: AlertChanges(fires, [], messages))
    expected = {"alerts": 1, "alert_messages": 1, "index_names": 2, "records": 2}
    assert await found("alice", tmp_path, url) == expected
    await data("erase", "--person", "alice", "--yes", state=tmp_path, url=url)
    assert await found("alice", tmp_path, url) == {"index_names": 2, "records": 2}
    assert await found("bob", tmp_path, url) == expected
    assert [each.id.subject[0] for each in table.firing()] == ["bob"]
    table.close()


PEOPLE = ("alice", "bob")


class HalfErased(TranscriptFiles):
    """Files of which the last one cannot be removed."""

    def erase(self, ledger: Ledger | None) -> Iterator[int]:
        yield from super().erase(ledger)
        raise StoreError("the disk is gone")


def test_what_was_erased_before_a_failure_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "transcripts" / "alice"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text("{}\n")
    monkeypatch.setattr("hookgate.proxy.cli.data.stored.TranscriptFiles", HalfErased)
    words = ["data", "erase", "--person", "alice", "--yes", "--state", str(tmp_path), "--config", "/dev/null"]
    assert run_command(words) == 1
    with reading(tmp_path) as reader:
        [change] = [each.body for each in reader.changes_at([1])]
    assert (change["change"], change["erased"]) == ("data.erase", {"transcripts": 1})


def test_content_whose_removal_was_rolled_back_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "_BATCH", 1)
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        start, end = entries_of(record_of())
        ledger.write([start._replace(content={"a": 1}), end._replace(content={"b": 1})])
        ledger.save()
        removing = erasing.erase_content(ledger, [(1, 1), (1, 2)])
        assert next(removing) == 1
        monkeypatch.setattr(erasing, "content_removed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            next(removing)
    with closing(sqlite3.connect(tmp_path / "audit.db")) as connection:
        assert connection.execute("SELECT count(*) FROM audit_content").fetchone() == (1,)


async def test_a_search_writes_nothing_and_says_what_it_has_not_searched(tmp_path: Path) -> None:
    with open_ledger(None, tmp_path, None, 1) as (ledger, _):
        ledger.write(entries_of(record_of()))
        [journal] = journals_in(tmp_path)
        left = journal.read_bytes()
        ended = await data("find", "--person", "alice", state=tmp_path, url=None, code=1)
        assert f"without the records in 1 journal in {journal.parent}" in ended.err
        assert journal.read_bytes() == left
    with closing(sqlite3.connect(tmp_path / "audit.db")) as connection:
        assert connection.execute("SELECT count(*) FROM audit_records").fetchone() == (0,)


async def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    write_calls(tmp_path, None)
    for words, shown in (((), True), (("--quiet",), False)):
        command = ["data", "find", "--person", "alice", *words, "--state", str(tmp_path)]
        assert await shows_progress(command, tmp_path) == shown
    assert "searching" not in (await data("find", "--person", "alice", state=tmp_path, url=None)).err


async def shows_progress(words: list[str], folder: Path) -> bool:
    async with in_terminal([*COMMAND, *words], folder, {"HOOKGATE_CONFIG": "/dev/null"}) as terminal:
        assert await terminal.ended() == 0
        await terminal.until(lambda: "records" in terminal.text)
        return "searching: 100 %" in terminal.text
