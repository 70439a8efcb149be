"""The journal: what it contains when a gateway dies at any moment is in the database afterwards, once."""

import errno
import os
import sqlite3
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.audits import entries_of, ledger_in, opened, record_of, report_of
from support.programs.program import run

from hookgate.proxy.audit.chain import Entry, audit_entry
from hookgate.proxy.audit.journal import Journal, journal_path, read_journal
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.locks import writer_locks
from hookgate.proxy.audit.recovery import Recovery
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import Database


def journaled_ledger(database: Database, state: Path) -> Ledger:
    ledger = Ledger(database, writer_locks(database, state), journals=state)
    ledger.register()
    return ledger


def die(ledger: Ledger) -> None:
    """End a writer as the end of its process does."""
    ledger._locks.close()
    assert ledger._journal
    os.close(ledger._journal._file)
    if ledger._open_connection is not None:
        ledger._open_connection.close()


def recovered_by_another(database: Database, state: Path, number: int) -> int:
    """Recover a dead writer, and return the number of its calls that were interrupted."""
    recovery = Recovery(database, writer_locks(database, state), state, patience=0)
    entries = recovery.ends(number)
    with ledger_in(database, state) as ledger:
        if entries:
            ledger.write(entries)
        assert recovery.ends(number) == ()
        ledger.close()
    return sum(entry.type == "end" for entry in entries)


def call_entries(calls: int) -> list[Entry]:
    return entries_of(*(record_of(number) for number in range(calls)))


@given(
    calls=st.integers(1, 6),
    sizes=st.lists(st.integers(1, 4), max_size=12),
    saves=st.sets(st.integers(0, 11)),
    cut=st.floats(0, 1),
    content=st.booleans(),
)
def test_after_any_end_the_database_has_every_complete_record_of_the_journal_once(
    calls: int, sizes: list[int], saves: set[int], cut: float, content: bool
) -> None:
    entries = [each._replace(content={"text": "é\n"} if content else None) for each in call_entries(calls)]
    with TemporaryDirectory() as folder, opened(Path(folder)) as database:
        state = Path(folder)
        ledger = journaled_ledger(database, state)
        written = saved = 0
        for index, size in enumerate([*sizes, len(entries)]):
            if some := entries[written : written + size]:
                ledger.write(some)
                written += len(some)
            if index in saves:
                ledger.save()
                saved = written
        die(ledger)
        path = journal_path(state, ledger.writer)
        data = path.read_bytes()
        assert data.count(b"\n") == written - saved
        left = data[: round(len(data) * cut)]
        path.write_bytes(left)
        kept = saved + left.count(b"\n")
        if data[len(left) : len(left) + 1] == b"\n":
            kept += 1  # only the end of the line is missing
        begun = {entry.id for entry in entries[:kept] if entry.type == "start"}
        ended = {entry.id for entry in entries[:kept] if entry.type == "end"}
        assert recovered_by_another(database, state, ledger.number) == len(begun - ended)
        assert not path.exists()
        report = report_of(state)
        assert (report.problems, report.running) == ([], 0)
        assert report.records == kept + len(begun - ended) + 2  # its end, and that of the other chain


@pytest.mark.parametrize(
    "damage", [b"{}", b"[1,2,3,4,5]", b"\xff", b'["x",0,null,{"previous":"y"},null]', b""]
)
def test_a_damaged_line_of_a_journal_hides_no_other(damage: bytes, tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        tip = ledger._tip
        records = ledger.write(call_entries(2))
        path = journal_path(tmp_path, ledger.writer)
        lines = path.read_bytes().splitlines()
        path.write_bytes(b"\n".join([*lines[:2], damage, *lines[2:]]))
        journal = read_journal(path, 0, tip)
        assert [new.hash for new in journal.records] == [new.hash for new in records]
        assert journal.unread == 1
        path.write_bytes(path.read_bytes().replace(b"request-0", b"request-9"))
        assert read_journal(path, 0, tip).records == []
        die(ledger)


def test_what_cannot_be_recovered_is_kept_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        ledger.write(call_entries(2))
        die(ledger)
        path = journal_path(tmp_path, ledger.writer)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([lines[0], *lines[2:]]))  # the second record is missing
        assert recovered_by_another(database, tmp_path, ledger.number) == 1
    kept = path.with_suffix(".unread")
    assert (path.exists(), kept.read_bytes().splitlines(keepends=True)) == (False, [lines[0], *lines[2:]])
    assert "2 records of a gateway that ended unexpectedly are damaged" in caplog.text
    assert str(kept) in caplog.text
    assert not report_of(tmp_path).problems


@pytest.mark.parametrize("truncates", [True, False])
def test_a_record_that_could_not_be_written_whole_leaves_nothing_in_the_journal(
    truncates: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        tip, (first, *rest) = ledger._tip, call_entries(2)
        ledger.write([first])
        write = os.write

        def write_some(file: int, data: Any) -> int:
            if len(data) < 100:
                raise OSError(errno.ENOSPC, "full")
            return write(file, data[:-50])

        def fail(*_: Any) -> None:
            raise OSError(errno.EIO, "broken")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_some)
            if not truncates:
                patch.setattr(os, "ftruncate", fail)
            with pytest.raises(StoreError, match=r"\.journal: cannot be written: (No space|Input/output)"):
                ledger.write(rest)
            if not truncates:  # nothing is appended to what is left of the record
                patch.setattr(os, "write", write)
                with pytest.raises(StoreError, match="Input/output"):
                    ledger.write(rest)
        ledger.write(rest)
        assert len(read_journal(journal_path(tmp_path, ledger.writer), 0, tip).records) == 4
        ledger.close()
    assert report_of(tmp_path).problems == []


def test_a_transaction_whose_answer_was_lost_is_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        ledger.write(call_entries(1))
        transaction = Ledger._transaction

        class Lost:
            """A transaction that fails after its commit."""

            def __enter__(self) -> Any:
                self._inner = transaction(ledger)
                return self._inner.__enter__()

            def __exit__(self, *error: Any) -> None:
                self._inner.__exit__(*error)
                raise sqlite3.OperationalError("lost")

        with monkeypatch.context() as patch:
            patch.setattr(ledger, "_transaction", Lost)
            with pytest.raises(sqlite3.OperationalError):
                ledger.save()
        ledger.write(call_entries(2)[2:])
        ledger.save()
        ledger.close()
    report = report_of(tmp_path)
    assert (report.problems, report.records) == ([], 5)


def test_the_journal_is_private_and_goes_with_its_writer(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        path = journal_path(tmp_path, ledger.writer)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ledger.write(call_entries(1))
        assert ledger.unsaved == 2
        ledger.close()
        assert not path.exists()
    assert report_of(tmp_path).records == 3


def test_the_head_outside_of_the_database_is_one_that_the_database_has(tmp_path: Path) -> None:
    """Otherwise a verification would miss records that are only in the journal."""
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        ledger.write(call_entries(1))
        ledger.save_head()
        assert ledger.unsaved == 0
        ledger.close()


def test_a_journal_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        die(ledger)
        path = journal_path(tmp_path, ledger.writer)
        path.unlink()
        path.mkdir()
        recovery = Recovery(database, writer_locks(database, tmp_path), tmp_path, patience=0)
        with pytest.raises(StoreError, match=r"\.journal: cannot be read: Is a directory"):
            recovery.ends(ledger.number)


def test_the_end_of_a_chain_that_is_only_in_the_journal_counts(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        ledger.write([*call_entries(1), audit_entry("closed", writer=ledger.number, count=3)])
        die(ledger)
        assert recovered_by_another(database, tmp_path, ledger.number) == 0
    report = report_of(tmp_path)
    assert (report.problems, report.records) == ([], 4)


def test_a_journal_is_not_begun_where_there_is_one(tmp_path: Path) -> None:
    Journal(tmp_path, "00ff").close()
    first = Journal(tmp_path, "00ff")
    with pytest.raises(StoreError, match="cannot be written: File exists"):
        Journal(tmp_path, "00ff")
    first.close()


async def test_commands_read_the_journals_of_gateways_that_died_but_not_of_running_ones(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as database:
        dead, running = journaled_ledger(database, tmp_path), journaled_ledger(database, tmp_path)
        dead.write(call_entries(1))
        running.write(call_entries(2)[2:])
        die(dead)
        listed = await run("audit", "list", "--json", "--state", str(tmp_path))
        assert (listed.code, listed.out.count("\n"), listed.err) == (0, 1, "")
        assert not journal_path(tmp_path, dead.writer).exists()
        running.close()
    verified = await run("audit", "verify", "--state", str(tmp_path))
    assert (verified.code, "5 records" in verified.out) == (0, True), verified


async def test_a_journal_that_commands_cannot_read_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        ledger = journaled_ledger(database, tmp_path)
        die(ledger)
    path = journal_path(tmp_path, ledger.writer)
    path.unlink()
    path.mkdir()
    listed = await run("audit", "list", "--state", str(tmp_path))
    assert "the last records of a gateway that died are left out" in listed.err
    assert listed.code == 0
