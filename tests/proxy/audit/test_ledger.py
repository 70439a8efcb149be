"""The signs that a writer is running, and the heads that are kept outside the database."""

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy.exc import OperationalError
from support.gateway.audits import entries_of, ledger_in, opened, record_of, report_of
from support.gateway.databases import cut, postgres

from hookgate.proxy.audit import stored
from hookgate.proxy.audit.heads import HEADS_FILE, Head, HeadsFile, load_heads
from hookgate.proxy.audit.ledger import Ledger, open_ledger
from hookgate.proxy.audit.locks import FileLocks, ServerLocks, writer_locks
from hookgate.proxy.audit.stored import insert_records
from hookgate.proxy.audit.verifying import count_records, verify_database, verify_lines
from hookgate.proxy.cli import audit as commands
from hookgate.proxy.cli.audit import export_records
from hookgate.proxy.errors import StoreError


def test_a_lock_file_is_one_writers_and_goes_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    own, other = FileLocks(folder), FileLocks(folder)
    assert own.acquire(1)
    assert own.acquire(2)
    assert (folder / "1.lock").stat().st_mode & 0o077 == 0
    assert not other.acquire(1)
    own.release(1)
    assert other.acquire(1)
    assert [path.name for path in folder.iterdir() if path.name != "1.lock"] == ["2.lock"]
    own.close()
    other.close()
    assert list(folder.iterdir()) == []


def test_locks_on_a_server_are_acquired_again_when_the_connection_was_lost(tmp_path: Path) -> None:
    """And those alone that were held: not one that could not be acquired, or was released."""
    with postgres() as url, opened(tmp_path, url) as database:
        own, other = ServerLocks(database), ServerLocks(database)
        assert other.acquire(3)
        assert [own.acquire(number) for number in (1, 2, 3)] == [True, True, False]
        own.release(2)
        assert other.acquire(2)
        other.close()
        cut(url.rpartition("/")[2])
        own.check()
        late = ServerLocks(database)
        assert [late.acquire(number) for number in (1, 2, 3)] == [False, True, True]
        cut(url.rpartition("/")[2])
        own.release(1)
        own.check()
        late.check()
        assert late.acquire(1)
        own.close()
        late.close()


@contextmanager
def lost_lock(folder: Path) -> Iterator[tuple[ServerLocks, ServerLocks]]:
    """The locks of a process that held lock 1 until its connection was lost, and those of another one."""
    with (
        postgres() as url,
        opened(folder, url) as database,
        closing(ServerLocks(database)) as own,
        closing(ServerLocks(database)) as other,
    ):
        assert own.acquire(1)
        cut(url.rpartition("/")[2])
        yield own, other


def test_a_lock_on_a_server_can_be_acquired_although_the_connection_was_lost(tmp_path: Path) -> None:
    """The attempt that notices the loss fails, and holds nothing; the next one succeeds."""
    with lost_lock(tmp_path) as (own, other):
        with pytest.raises(OperationalError):
            own.acquire(2)
        assert other.acquire(1)
        assert own.acquire(2)


def test_a_lost_lock_that_another_process_holds_is_acquired_as_soon_as_it_is_free(tmp_path: Path) -> None:
    """Another gateway holds it for a moment whenever it looks whether this one has died."""
    with lost_lock(tmp_path) as (own, other):
        assert other.acquire(1)
        own.check()
        other.release(1)
        own.check()
        assert not other.acquire(1)


def test_a_ledger_whose_lock_was_lost_acquires_it_again(tmp_path: Path) -> None:
    with postgres() as url, opened(tmp_path, url) as database, ledger_in(database, tmp_path) as ledger:
        cut(url.rpartition("/")[2])
        ledger.check(writes=False)
        other = ServerLocks(database)
        assert not other.acquire(ledger.number)
        other.close()


@pytest.mark.parametrize("server", [False, True], ids=["file", "server"])
def test_a_writer_whose_lock_another_process_holds_is_not_registered(server: bool, tmp_path: Path) -> None:
    """For example a gateway whose database was moved away while it was running."""
    with ExitStack() as stack:
        url = stack.enter_context(postgres()) if server else None
        database = stack.enter_context(opened(tmp_path, url))
        other = stack.enter_context(closing(writer_locks(database, tmp_path)))
        assert other.acquire(1)
        with pytest.raises(StoreError, match="another process holds the lock of writer 1, but"):
            stack.enter_context(open_ledger(url, tmp_path, None, 1))
        other.release(1)
        assert report_of(tmp_path, url).writers == 0


def test_a_head_is_of_the_registration_until_there_are_records(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        locks = writer_locks(database, tmp_path)
        ledger = Ledger(database, locks, heads=HeadsFile(tmp_path))
        ledger.register()
        [head] = load_heads(tmp_path / HEADS_FILE).values()
        assert (head.number, head.first, head.seq, head.hash) == (1, 0, 0, head.registration)
        records = ledger.write(entries_of(record_of()))
        ledger.save_head()
        [kept] = load_heads(tmp_path / HEADS_FILE).values()
        assert kept == Head(1, head.registration, 1, 2, records[-1].hash)
        locks.close()
    document = json.loads((tmp_path / HEADS_FILE).read_text())
    assert (document["v"], document["type"], list(document["writers"])) == (1, "heads", [ledger.writer])
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("audit-heads.*")} == {0}


def test_heads_that_cannot_be_saved_are_reported_once_and_saved_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state, head = tmp_path / "state", Head(1, "ab" * 32, 0, 0, "ab" * 32)
    state.write_text("no folder")
    caplog.set_level(logging.WARNING, "hookgate.audit")
    file = HeadsFile(state)
    for expected in (1, 1):
        file.save("a", head)
        assert len(caplog.records) == expected
    state.unlink()
    file.save("a", head)
    assert load_heads(state / HEADS_FILE) == {"a": head}
    assert state.stat().st_mode & 0o077 == 0
    (state / HEADS_FILE).write_text("damaged")
    file.save("a", head)  # it has not changed, and is not written again
    assert len(caplog.records) == 1
    file.save("a", Head(1, "ab" * 32, 1, 1, "cd" * 32))
    assert len(caplog.records) == 2


def test_an_audit_that_is_closed_has_no_file_open(tmp_path: Path) -> None:
    def open_files() -> set[str]:
        links = (Path("/proc/self/fd") / number for number in os.listdir("/proc/self/fd"))
        return {link.resolve().name for link in links if link.resolve().is_relative_to(tmp_path)}

    with open_ledger(None, tmp_path, None, 1) as (ledger, _):
        ledger.write(entries_of(record_of()))
        assert "audit.db" in open_files()
        ledger.close()
    assert open_files() == set()


@pytest.mark.parametrize("held", [fcntl.LOCK_EX, fcntl.LOCK_SH], ids=["alone", "shared"])
def test_heads_wait_for_another_gateway_that_saves_its_own(held: int, tmp_path: Path) -> None:
    head = Head(1, "ab" * 32, 0, 0, "ab" * 32)
    HeadsFile(tmp_path).save("a", head)
    saving = Thread(target=HeadsFile(tmp_path).save, args=("b", head))
    with (tmp_path / HEADS_FILE).with_suffix(".lock").open() as lock:
        fcntl.flock(lock, held)
        saving.start()
        saving.join(0.1)
        assert load_heads(tmp_path / HEADS_FILE).keys() == {"a"}
    saving.join()
    assert load_heads(tmp_path / HEADS_FILE).keys() == {"a", "b"}


def test_records_are_counted_for_the_progress_of_a_verification(tmp_path: Path) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        assert count_records(database) == 0
        ledger.write(entries_of(record_of(1), record_of(2)))
        assert count_records(database) == 4
        done: list[int] = []
        assert verify_database(database, done.append).records == 4
        assert sum(done) == 4


@pytest.mark.parametrize("exported", [False, True], ids=["verified", "exported"])
def test_records_of_a_server_that_are_committed_late_are_not_missing(
    exported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction of another gateway, with higher positions, may be committed first."""
    monkeypatch.setattr(stored, "_PAGE", 2)
    with (
        postgres() as url,
        opened(tmp_path, url) as database,
        ledger_in(database, tmp_path) as late,
        ledger_in(database, tmp_path) as other,
        database.engine.connect() as connection,
    ):
        late.write(entries_of(record_of(1)))
        records = late._begin_attempt(entries_of(record_of(2)))
        insert_records(connection, late.number, records)
        other.write(entries_of(record_of(3), record_of(4)))

        def commit(done: int) -> None:
            total.append(done)
            if sum(total) == 4:  # the second page has been read
                connection.commit()
                late._advance(records)
                late.write(entries_of(record_of(5)))

        total: list[int] = []
        if exported:
            monkeypatch.setattr(commands, "progress", lambda *_, quiet: nullcontext(commit))
            export_records(database, None, None, lines := BytesIO())
            report = verify_lines(lines.getvalue().splitlines(), lambda _: None)
        else:
            report = verify_database(database, commit)
        assert (report.problems, report.records) == ([], 6)
        assert report_of(tmp_path, url).records == 10


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{\n", "line 1: it is not a record: the body is not valid JSON"),
        (b"{", "line 1: it is not a record: the file ends within it"),
        (b"{}", "line 1: it is not a record: it has no 'type'"),
        (b"[]", "line 1: it is not a record: one of its fields has the wrong type"),
        (b'{"type":"heads"}', "line 1: it is not a record: it contains no heads"),
        (b'{"type":"start","v":1}', "line 1: it is not a record: it has no 'hash'"),
    ],
)
def test_a_line_that_is_not_a_record_is_named(line: bytes, problem: str) -> None:
    done: list[int] = []
    [found] = verify_lines([line], done.append).problems
    assert found.startswith(problem)
    assert done == [len(line)]
