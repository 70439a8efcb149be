"""Retention removes the oldest records, and the rest can still be verified."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, text
from sqlalchemy.exc import OperationalError
from support.gateway.audits import entries_of, ledger_in, opened, record_of, report_of
from support.gateway.databases import postgres
from support.gateway.life import until

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit import chain, retention
from hookgate.proxy.audit.chain import NewRecord
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.locks import writer_locks
from hookgate.proxy.audit.recovery import Recovery
from hookgate.proxy.audit.retention import Retention, used_bytes
from hookgate.proxy.audit.stored import unpack
from hookgate.proxy.audit.trail import open_audit_trail
from hookgate.proxy.audit.writer import Writer
from hookgate.proxy.config.models import AuditSettings
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import audit_records

DAY = 24 * 3600 * 1000
LONG_AGO = chain.now() - 3 * DAY


def write(ledger: Ledger, calls: int, monkeypatch: pytest.MonkeyPatch, days_ago: float = 0) -> None:
    """Calls that ended so long ago."""
    at = chain.now() - int(days_ago * DAY)
    with monkeypatch.context() as patch:
        patch.setattr(chain, "now", lambda: at)
        ledger.write(entries_of(*(record_of(number) for number in range(calls))))


def positions(database: Database) -> int:
    with database.engine.begin() as connection:
        return int(connection.execute(text("SELECT count(*) FROM audit_records")).scalar_one())


def test_records_that_are_too_old_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 5, monkeypatch, days_ago=3)
        write(ledger, 5, monkeypatch, days_ago=1)
        assert ledger.retain(Retention(days=2)) is False
        assert positions(database) == 11  # the record of it as well
        assert ledger.retain(Retention(days=2)) is False
        assert positions(database) == 11
    report = report_of(tmp_path)
    assert (report.problems, report.removed) == ([], 1)


@pytest.mark.parametrize(
    ("settings", "retention"),
    [
        ({}, None),
        ({"retention_days": 3}, Retention(3, None)),
        ({"retention_bytes": 10**8}, Retention(None, 10**8)),
        ({"retention_days": 3, "retention_bytes": 10**8}, Retention(3, 10**8)),
        ({"content_days": 2}, Retention(content_days=2)),
    ],
)
async def test_either_limit_is_applied(
    settings: dict[str, Any], retention: Retention | None, tmp_path: Path
) -> None:
    async with open_audit_trail(AuditSettings(**settings), None, tmp_path) as audit:
        assert audit is not None
        assert audit.writer._retention == retention


def test_a_removal_is_recorded_with_what_it_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last record of each writer that goes on, and the writers of which nothing is left, as ranges."""
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as quiet:
        write(quiet, 1, monkeypatch, days_ago=3)
        for _ in range(2):
            with ledger_in(database, tmp_path) as ended:
                write(ended, 1, monkeypatch, days_ago=3)
                with monkeypatch.context() as patch:
                    patch.setattr(chain, "now", lambda: LONG_AGO)
                    ended.close()
        with ledger_in(database, tmp_path) as other:
            write(other, 2, monkeypatch, days_ago=3)
            write(other, 1, monkeypatch)
            assert other.retain(Retention(days=2)) is False
            assert other.retain(Retention(days=2)) is False
        with database.engine.begin() as connection:
            bodies = connection.execute(
                select(audit_records.c.body)
                .where(audit_records.c.type == "event")
                .order_by(audit_records.c.position)
            )
            [removal] = [unpack(body) for body in bodies.scalars()]
    assert (removal["event"], removal["records"]) == ("retention", 12)
    assert {number: tip[0] for number, tip in removal["tips"].items()} == {"1": 2, "4": 4}
    assert removal["gone"] == [[2, 3]]
    assert removal["until"].startswith(utc_text(LONG_AGO / 1000)[:10])


def test_records_of_removals_are_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that has been quiet since is known by them alone."""
    monkeypatch.setattr(retention, "_BATCH", 4)
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as quiet:
        write(quiet, 3, monkeypatch, days_ago=3)
        with ledger_in(database, tmp_path) as closed:
            write(closed, 2, monkeypatch, days_ago=3)
            monkeypatch.setattr(chain, "now", lambda: 0)
            closed.close()
        monkeypatch.undo()
        monkeypatch.setattr(retention, "_BATCH", 4)
        with ledger_in(database, tmp_path) as busy:
            for _ in range(4):
                write(busy, 2, monkeypatch, days_ago=2.5)
                while busy.retain(Retention(days=2)):
                    assert report_of(tmp_path).problems == []
            write(quiet, 1, monkeypatch)
    report = report_of(tmp_path)
    assert report.problems == []
    assert report.removed >= 2


def test_a_writer_that_died_may_be_gone_with_the_record_of_its_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database:
        with ledger_in(database, tmp_path) as dead:
            write(dead, 2, monkeypatch, days_ago=3)
        locks = writer_locks(database, tmp_path)
        with ledger_in(database, tmp_path) as heir, monkeypatch.context() as patch:
            at = chain.now() - 3 * DAY
            patch.setattr(chain, "now", lambda: at)
            heir.write(Recovery(database, locks, tmp_path, patience=0).ends(dead.number))
            patch.undo()
            write(heir, 1, monkeypatch)
            heir.retain(Retention(days=2))
            assert positions(database) == 3  # one call, and the record of the removal
    report = report_of(tmp_path)
    assert (report.problems, report.removed) == ([], 2)


async def test_a_removal_whose_answer_was_lost_is_not_taken_for_the_records_that_come_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 2, monkeypatch, days_ago=3)
        advance, lost = ledger._advance, []

        def lose_once(records: Sequence[NewRecord]) -> None:
            if not lost:
                lost.append("the server has committed, and the connection broke")
                raise sqlite3.OperationalError(lost[0])
            advance(records)

        monkeypatch.setattr(ledger, "_advance", lose_once)
        writer = Writer(ledger, 5, Retention(days=2))
        writer.start()
        writer.request_check()
        await until(lambda: lost)
        await writer.append(*entries_of(record_of()))
        assert positions(database) == 3  # of the call, and of the removal
        await asyncio.to_thread(writer.close, 5)
    report = report_of(tmp_path)
    assert (report.problems, report.records) == ([], 4)


def test_a_removal_whose_answer_was_lost_is_followed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 2, monkeypatch, days_ago=3)
        write(ledger, 2, monkeypatch, days_ago=1)
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "_advance", lambda _: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                ledger.retain(Retention(days=2))
        ledger.retain(Retention(days=0.5))
        ledger.write(entries_of(record_of()))
    report = report_of(tmp_path)
    assert (report.problems, report.records) == ([], 4)


async def test_a_removal_that_fails_is_logged_once_a_minute_and_no_call_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Retention) -> bool:
        raise OperationalError("DELETE", None, sqlite3.OperationalError("no room"))

    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        monkeypatch.setattr(ledger, "retain", fail)
        writer = Writer(ledger, 5, Retention(days=2))
        writer.start()
        for number in range(5):
            await writer.append(*entries_of(record_of(number)))
            assert writer.refusal_reason is None
        await asyncio.to_thread(writer.close, 5)
        assert writer.failures == 0
    problem = "old audit records cannot be removed: no room; it is tried again every minute"
    assert caplog.messages == [problem]


def test_a_damaged_record_is_removed_like_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as database:
        with ledger_in(database, tmp_path) as closed, monkeypatch.context() as patch:
            patch.setattr(chain, "now", lambda: LONG_AGO)
            closed.close()
        with ledger_in(database, tmp_path) as ledger:
            with database.engine.begin() as connection:
                connection.exec_driver_sql("UPDATE audit_records SET body = x'00'")
            ledger.retain(Retention(days=2))
            assert positions(database) == 1  # the record of the removal


def test_what_retention_removes_goes_with_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (
        [
            entry._replace(content={"request": {}}, at=chain.now() - days * DAY)
            for entry in entries_of(record_of())
        ]
        for days in (3, 1)
    )
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        ledger.write(old)
        ledger.write(new)
        ledger.retain(Retention(days=2))
        with database.engine.begin() as connection:
            left = connection.execute(text("SELECT seq FROM audit_content ORDER BY seq")).scalars().all()
    assert left == [3, 4]
    assert report_of(tmp_path).problems == []


def test_records_missing_after_those_that_retention_removed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database:
        with ledger_in(database, tmp_path) as closed:
            write(closed, 2, monkeypatch, days_ago=3)
            write(closed, 1, monkeypatch)
            closed.close()
        with ledger_in(database, tmp_path) as heir:
            heir.retain(Retention(days=2))
            heir.close()
        assert report_of(tmp_path).problems == []
        with database.engine.begin() as connection:
            connection.execute(delete(audit_records).where(audit_records.c.writer == closed.number))
    [problem] = report_of(tmp_path).problems
    assert problem == f"writer {closed.writer}: all its records are missing"


async def test_much_that_is_too_old_goes_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_BATCH", 4)
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 10, monkeypatch, days_ago=3)
        writer = Writer(ledger, 5, Retention(days=2))
        writer.start()

        def only_removals_are_left() -> bool:
            writer.request_check()
            return positions(database) == 5  # one record for each batch

        await until(only_removals_are_left)
        await asyncio.to_thread(writer.close, 5)
    assert report_of(tmp_path).problems == []


def test_records_beyond_the_maximum_size_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        for _ in range(20):
            write(ledger, 100, monkeypatch)
        limit = 1_000_000
        for _ in range(10):
            ledger.retain(Retention(size=limit))
        with database.engine.begin() as connection:
            used = used_bytes(connection, True, 0, 0)
            free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    assert free == 0  # the file shrinks
    assert limit * 0.7 < used <= limit
    assert report_of(tmp_path).problems == []


def test_on_a_server_records_beyond_the_maximum_size_are_removed_until_the_rest_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres() as url, opened(tmp_path, url) as database, ledger_in(database, tmp_path) as ledger:
        for _ in range(20):
            write(ledger, 50, monkeypatch)
        left = [positions(database)]
        while len(left) < 3 or left[-1] != left[-2]:
            ledger.retain(Retention(size=700_000))
            left.append(positions(database))
        assert 1000 < left[-1] < 1800
        assert report_of(tmp_path, url).problems == []


@pytest.mark.parametrize("content", [None, {"request": {"text": "abc def " * 50}}], ids=["without", "with"])
def test_on_a_server_the_size_is_that_of_tables_and_indexes_without_free_space(
    content: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_SAMPLE", 500)
    with (
        postgres(bare=True) as url,
        opened(tmp_path, url) as database,
        ledger_in(database, tmp_path) as ledger,
    ):
        for number in range(20):
            calls = (record_of(100 * number + each) for each in range(100))
            ledger.write([entry._replace(content=content) for entry in entries_of(*calls)])
        with database.engine.begin() as connection:
            tables = "pg_total_relation_size('audit_records') + pg_total_relation_size('audit_content')"
            size = connection.execute(text(f"SELECT {tables}")).scalar_one()
            assert 0.85 < used_bytes(connection, False, 1, 4000) / size < 1.15
            connection.execute(delete(audit_records).where(audit_records.c.position <= 3000))
            assert used_bytes(connection, False, 3001, 4000) < 0.3 * size


def test_free_space_is_returned_in_steps_even_if_nothing_more_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_SHRINK_PAGES", 5)
    monkeypatch.setattr(retention, "_BATCH", 10_000)
    left: list[int] = []
    used: set[int] = set()
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 500, monkeypatch, days_ago=3)
        for _ in range(100):
            ledger.retain(Retention(days=2))
            with database.engine.begin() as connection:
                left.append(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
                used.add(used_bytes(connection, True, 0, 0))
    assert left[0] > 5
    assert all(before - after == 5 or after == 0 for before, after in pairwise(left))
    assert left[-1] == 0
    assert len(used) == 1  # free space is not part of the audit's size


async def test_heads_and_retention_are_due_after_a_time_and_not_with_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(Ledger, "save_head", lambda _: done.append("head"))
    monkeypatch.setattr(Ledger, "retain", lambda *_: bool(done.append("retention")))
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        done.clear()  # the ledger has saved its registration
        writer = Writer(ledger, 5, Retention(days=2))
        writer.start()
        for number in range(5):
            await writer.append(*entries_of(record_of(number)))
        assert done == ["head", "retention"]
        await asyncio.to_thread(writer.close, 5)


def test_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres() as url, opened(tmp_path, url) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 50, monkeypatch, days_ago=3)
        write(ledger, 50, monkeypatch)
        ledger.retain(Retention(days=2, size=10**9))
        assert positions(database) == 101
        assert report_of(tmp_path, url).problems == []


@pytest.mark.parametrize(
    "where",
    [audit_records.c.position <= 2, audit_records.c.position == 5, audit_records.c.position >= 9],
    ids=["the first", "one", "the last"],
)
def test_records_that_no_retention_entry_covers_are_missing(
    where: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 5, monkeypatch)
        ledger.close()
        with database.engine.begin() as connection:
            connection.execute(delete(audit_records).where(where))  # type: ignore[arg-type]  # the parameters of the test are of any type
    assert not report_of(tmp_path).sound


def test_a_whole_writer_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as database:
        for _ in range(3):
            with ledger_in(database, tmp_path) as ledger:
                write(ledger, 2, monkeypatch)
                ledger.close()
    with closing(sqlite3.connect(tmp_path / "audit.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM audit_records WHERE writer = 2")
        connection.execute("DELETE FROM audit_writers WHERE number = 2")
    [problem] = report_of(tmp_path).problems
    assert "the writer that registered before it is missing" in problem


def test_a_record_whose_data_was_changed_is_one_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 3, monkeypatch)
    with closing(sqlite3.connect(tmp_path / "audit.db", isolation_level=None)) as connection:
        connection.execute("UPDATE audit_records SET body = x'00' WHERE position = 3")
    problems = report_of(tmp_path).problems
    assert problems[0] == f"writer {ledger.writer}, record 3: its stored data was changed"
    assert [problem for problem in problems if "record 3" in problem] == problems[:1]


@pytest.mark.parametrize(
    "column", ["session", "key", "model", "outcome", "type", "at", "seq", "content_sha256"]
)
def test_a_changed_column_is_found(column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        write(ledger, 3, monkeypatch)
    value = "x'00'" if column == "content_sha256" else "17" if column in ("at", "seq") else "'other'"
    with closing(sqlite3.connect(tmp_path / "audit.db", isolation_level=None)) as connection:
        statement = f"UPDATE audit_records SET {column} = {value} WHERE position = 4"  # noqa: S608  # our own
        connection.execute(statement)
    assert not report_of(tmp_path).sound


def write_with_content(ledger: Ledger, calls: int, monkeypatch: pytest.MonkeyPatch, days_ago: float) -> None:
    at = chain.now() - int(days_ago * DAY)
    with monkeypatch.context() as patch:
        patch.setattr(chain, "now", lambda: at)
        entries = entries_of(*(record_of(number) for number in range(calls)))
        ledger.write([entry._replace(content={"at": days_ago}) for entry in entries])


def contents(database: Database) -> int:
    with database.engine.begin() as connection:
        return int(connection.execute(text("SELECT count(*) FROM audit_content")).scalar_one())


def test_old_content_is_removed_without_its_records(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_BATCH", 7)
    kept = Retention(content_days=2)
    with opened(tmp_path, url) as database, ledger_in(database, tmp_path) as ledger:
        write_with_content(ledger, 10, monkeypatch, days_ago=3)
        write_with_content(ledger, 5, monkeypatch, days_ago=1)
        before = positions(database)
        steps = 1
        while ledger.retain(kept):
            steps += 1
        assert (steps, contents(database)) == (3, 10)
        assert positions(database) == before + 3  # the records about the removals
        assert ledger.retain(kept) is False
        assert positions(database) == before + 3
        ledger.close()
    report = report_of(tmp_path, url)
    assert (report.problems, report.without_content) == ([], 20)


def test_content_and_records_have_limits_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        for days in (9, 3, 1):
            write_with_content(ledger, 5, monkeypatch, days_ago=days)
        while ledger.retain(Retention(days=5, content_days=2)):
            pass
        assert contents(database) == 10
        ledger.close()
    report = report_of(tmp_path)
    assert (report.problems, report.without_content, report.removed) == ([], 10, 1)
