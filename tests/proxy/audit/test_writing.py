"""The writer: durable once it confirms, concurrent, refusing in time, and recovering automatically."""

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from support.gateway.audits import (
    Audited,
    audited_gateway,
    entries_of,
    ledger_in,
    opened,
    reading,
    record_of,
    report_of,
)
from support.gateway.databases import cut, postgres
from support.gateway.life import until
from support.gateway.loopback import running_upstream, runs, says
from support.wire import HI, SSE, UNARY, connected, post

from hookgate.proxy.audit import ledger
from hookgate.proxy.audit import writer as writing
from hookgate.proxy.audit.chain import AuditError, NewRecord
from hookgate.proxy.audit.heads import HEADS_FILE, HeadsFile, load_heads
from hookgate.proxy.audit.journal import Journal
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.locks import ServerLocks, writer_locks
from hookgate.proxy.audit.trail import Audit
from hookgate.proxy.audit.writer import MAX_WAITING, Writer
from hookgate.proxy.config import Config, StreamSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.observe.record import AuditState, CallRecord
from hookgate.proxy.store import database


@asynccontextmanager
async def writer_in(state: Path, url: str | None = None, deadline: float = 5) -> AsyncIterator[Writer]:
    with opened(state, url) as database, ledger_in(database, state) as chain:
        writer = Writer(chain, deadline)
        writer.start()
        try:
            yield writer
        finally:
            await asyncio.to_thread(writer.close, 5)


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Another process writes to the file."""
    with closing(sqlite3.connect(state / "audit.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def stalled_disk() -> Iterator[None]:
    """No journal can be written until the end of the block."""
    append, allowed = Journal.append, Event()

    def wait_and_append(journal: Journal, records: Sequence[NewRecord]) -> None:
        assert allowed.wait(60)
        append(journal, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "append", wait_and_append)
        try:
            yield
        finally:
            allowed.set()


def count(state: Path) -> int:
    with closing(sqlite3.connect(state / "audit.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM audit_records").fetchone()[0])


async def test_records_that_come_together_are_written_together(tmp_path: Path, url: str | None) -> None:
    async with writer_in(tmp_path, url) as writer:
        await asyncio.gather(*(writer.append(*entries_of(record_of(number))) for number in range(200)))
        assert (writer.written, writer.queued, writer.failures, writer.lag_seconds) == (400, 0, 0, 0)
    report = report_of(tmp_path, url)
    assert (report.problems, report.records) == ([], 401)


async def test_an_unexpected_error_is_reported_and_the_records_are_written_once_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writing, "_RETRY_SECONDS", 0.01)

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("x")

    async with writer_in(tmp_path) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "write", fail)
            append = asyncio.create_task(writer.append(*entries_of(record_of(1))))
            await until(lambda: writer.failures > 1)
            assert writer.write_error == "ZeroDivisionError"
        await append
        assert (writer.write_error, count(tmp_path)) == (None, 2)
    assert "audit records cannot be written; please report this" in caplog.text


async def test_records_that_no_call_waits_for_wake_an_idle_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_IDLE_SECONDS", 3600)
    async with writer_in(tmp_path) as writer:
        for expected in (2, 4):
            await until(lambda: writer._queue._idle)
            assert writer.append_soon(*entries_of(record_of(expected)))
            await until(lambda: writer.written == expected)  # noqa: B023  # it is awaited at once
            assert count(tmp_path) == expected
        await until(lambda: writer._queue._idle)
        await writer.append(*entries_of(record_of(5)))


async def test_calls_that_one_batch_has_no_room_for_are_written_at_once_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_BATCH", 4)
    monkeypatch.setattr(writing, "_PATIENCE", 3600)
    async with writer_in(tmp_path) as writer:
        await asyncio.gather(*(writer.append(*entries_of(record_of(number))) for number in range(5)))
        assert count(tmp_path) == 10


async def test_an_idle_writer_that_is_closed_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_IDLE_SECONDS", 3600)
    async with writer_in(tmp_path) as writer:
        await until(lambda: writer._queue._idle)
        await asyncio.to_thread(writer.close, 1)
        assert not writer._thread.is_alive()


async def test_appended_records_are_on_disk(tmp_path: Path) -> None:
    async with writer_in(tmp_path) as writer:
        await writer.append(*entries_of(record_of()))
        assert count(tmp_path) == 2


async def test_a_locked_database_is_waited_for_no_longer_than_the_deadline(tmp_path: Path) -> None:
    async with writer_in(tmp_path, deadline=0.2) as writer:
        began, late = entries_of(record_of(1)), entries_of(record_of(2))
        with locked(tmp_path):
            with pytest.raises(AuditError, match="too slow") as first:
                await writer.append(*began)
            assert writer.refusal_reason == "the database is too slow"
            with pytest.raises(AuditError, match="too slow") as second:
                await writer.append(*late)
            assert writer.queued == len(began)  # the second was refused at once, without a place in the queue
            assert (first.value.under_way, second.value.under_way) == (True, False)
        await until(lambda: writer.refusal_reason is None)
        await writer.append(*entries_of(record_of(3)))
        assert count(tmp_path) == 4  # what was under way is there, what was refused is not
    assert report_of(tmp_path).sound


async def test_a_withdrawn_record_takes_no_place_in_the_queue(tmp_path: Path) -> None:
    async with writer_in(tmp_path, deadline=0.5) as writer:
        with locked(tmp_path):
            began = asyncio.create_task(writer.append(*entries_of(record_of(1))))
            await until(lambda: writer._queue.batch)
            late = asyncio.create_task(writer.append(*entries_of(record_of(2))))
            ended = await asyncio.gather(began, late, return_exceptions=True)
            assert [isinstance(each, AuditError) and each.under_way for each in ended] == [True, False]
        await until(lambda: count(tmp_path) == 2 and writer.queued == 0)


async def test_records_whose_caller_is_cancelled_are_written_even_after_the_deadline(tmp_path: Path) -> None:
    async with writer_in(tmp_path, deadline=0.5) as writer:
        with locked(tmp_path):
            began = asyncio.create_task(writer.append(*entries_of(record_of(1))))
            await until(lambda: writer._queue.batch)
            cancelled = asyncio.create_task(writer.append(*entries_of(record_of(2))))
            late = asyncio.create_task(writer.append(*entries_of(record_of(3))))
            await until(lambda: writer.queued == 6)
            cancelled.cancel()
            await asyncio.gather(began, cancelled, late, return_exceptions=True)
        await until(lambda: count(tmp_path) == 4 and writer.queued == 0)


async def test_a_database_that_cannot_be_written_is_in_trouble_until_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while no records wait to be written."""
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    async with writer_in(tmp_path) as writer:
        with locked(tmp_path):
            writer.request_check()
            await until(lambda: writer.failures >= 3)
            assert writer.refusal_reason == "database is locked"
        await until(lambda: writer.refusal_reason is None)


async def test_the_trouble_is_the_latest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with writer_in(tmp_path) as writer:
        for problem in ("no room", "no permission"):

            def fail(problem: str = problem, **_: Any) -> None:
                raise OperationalError("UPDATE", None, sqlite3.OperationalError(problem))

            monkeypatch.setattr(writer._ledger, "check", fail)
            writer.request_check()
            await until(lambda problem=problem: writer.refusal_reason == problem)  # type: ignore[misc]  # as above
        monkeypatch.undo()
        await until(lambda: writer.refusal_reason is None)


async def test_the_head_of_the_chain_is_saved_while_it_grows_and_when_it_is_closed(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        locks = writer_locks(database, tmp_path)
        chain = Ledger(database, locks, heads=HeadsFile(tmp_path))
        chain.register()
        writer = Writer(chain, 5)
        writer.start()

        def saved() -> int:
            return load_heads(tmp_path / HEADS_FILE)[chain.writer].seq

        assert saved() == 0
        await writer.append(*entries_of(record_of()))
        await until(lambda: saved() == 2)
        await asyncio.to_thread(writer.close, 5)
        locks.close()
    assert saved() == 3


def test_writers_that_register_at_once_have_numbers_of_their_own(tmp_path: Path) -> None:
    with postgres() as url, opened(tmp_path, url) as database, ThreadPoolExecutor(4) as threads:
        locks = writer_locks(database, tmp_path)
        together = Barrier(4)

        def register() -> int:
            chain = Ledger(database, locks)
            together.wait()
            chain.register()
            return chain.number

        numbers = [each.result() for each in [threads.submit(register) for _ in range(4)]]
        locks.close()
        assert sorted(numbers) == [1, 2, 3, 4]
        assert report_of(tmp_path, url).problems == []


async def test_ends_wait_for_as_long_as_it_takes(tmp_path: Path) -> None:
    async with writer_in(tmp_path, deadline=0.1) as writer:
        with locked(tmp_path):
            assert writer.append_soon(*entries_of(record_of()))
            await asyncio.sleep(0.3)  # three times the deadline, and still they wait
            assert (writer.queued, count(tmp_path)) == (2, 0)
        await until(lambda: count(tmp_path) == 2)


async def test_no_more_wait_than_there_is_room_for(tmp_path: Path) -> None:
    async with writer_in(tmp_path) as writer:
        some = entries_of(record_of())
        with locked(tmp_path):
            for _ in range(MAX_WAITING // len(some)):
                writer.append_soon(*some)
            assert not writer.append_soon(*some, bounded=True)
            with pytest.raises(AuditError, match="too many records are waiting"):
                await writer.append(*some)
            for waiting in writer._queue._waiting:  # nobody needs them
                waiting.withdrawn = True


async def test_lost_records_are_counted_and_logged_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of calls without a start, which were refused."""
    monkeypatch.setattr(writing, "MAX_WAITING", 1)
    async with writer_in(tmp_path) as writer:
        audit = Audit(writer, None, None)  # type: ignore[arg-type]  # nothing is read
        for number in range(3):
            record = record_of(number, audit_state=AuditState.START_FAILED)
            audit.settle(record, make_receipt(record))
        assert writer.lost == 6
    lost = "too many audit records are waiting: 2 records of refused calls are lost so far"
    assert caplog.messages == [lost]


async def test_a_commit_whose_answer_was_lost_is_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as chain:
        advance = chain._advance

        def lose_connection(_: object) -> None:
            raise sqlite3.OperationalError("cut")

        monkeypatch.setattr(chain, "_advance", lose_connection)
        with pytest.raises(sqlite3.OperationalError):
            chain.write(entries_of(record_of(1)))
        monkeypatch.setattr(chain, "_advance", advance)
        written = chain.adopt_committed_attempt()
        assert written is not None
        assert [each.record.seq for each in written] == [1, 2]
        assert [each.record.seq for each in chain.write(entries_of(record_of(2)))] == [3, 4]
    assert report_of(tmp_path).sound


async def test_a_connection_that_is_cut_during_a_write_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres() as url:
        async with writer_in(tmp_path, url) as writer:
            names, insert = [url.rpartition("/")[2]], ledger.insert_records

            def insert_after_a_cut(*args: Any) -> None:
                if names:
                    cut(names.pop())
                insert(*args)

            monkeypatch.setattr(ledger, "insert_records", insert_after_a_cut)
            await writer.append(*entries_of(record_of()))
            assert (names, writer.failures, writer.refusal_reason) == ([], 0, None)
        report = report_of(tmp_path, url)
    assert (report.problems, report.records) == ([], 3)


async def test_a_lock_that_was_lost_is_acquired_again_while_records_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise other gateways would soon consider a busy one dead."""
    monkeypatch.setattr(writing, "_CHECK_SECONDS", 0)
    monkeypatch.setattr(writing, "_IDLE_SECONDS", 3600)
    with postgres() as url:
        async with writer_in(tmp_path, url) as writer:
            await writer.append(*entries_of(record_of(1)))
            cut(url.rpartition("/")[2])
            await writer.append(*entries_of(record_of(2)))
            with opened(tmp_path, url) as database, closing(ServerLocks(database)) as others:
                assert not others.acquire(writer._ledger.number)


# ---- a gateway that cannot write


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of two megabytes, in memory."""
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("no mount here")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return path


async def refused(url: str, path: str = UNARY) -> None:
    """A call is answered so that no client tries again, and says why."""
    answer = await post(url, path, HI)
    assert answer.status == 403
    assert answer.error["details"][0]["reason"] == "AUDIT_UNAVAILABLE"
    assert "cannot write its audit record, so it refuses calls. Ask" in answer.error["message"]


@pytest.mark.parametrize("path", [UNARY, SSE], ids=["unary", "stream"])
async def test_with_a_full_disk_calls_are_refused_until_there_is_room(tmp_path: Path, path: str) -> None:
    with small_disk(tmp_path / "disk") as state:
        async with (
            running_upstream() as (upstream, recorded),
            audited_gateway(upstream, state, deadline=0.5) as gateway,
        ):
            assert (await post(gateway.url, path, HI)).status == 200
            ballast = fill(state)
            for _ in range(200):  # what room the files themselves had left is used up
                if (await post(gateway.url, path, HI)).status != 200:
                    break
            asked = len(recorded)
            await refused(gateway.url, path)
            assert gateway.audit.check()
            assert len(recorded) == asked
            ballast.unlink()
            await until(lambda: gateway.audit.check() is None)
            assert (await post(gateway.url, path, HI)).status == 200
        assert report_of(state).problems == []


async def test_with_a_stalled_disk_nothing_goes_upstream(tmp_path: Path) -> None:
    async with (
        running_upstream() as (upstream, recorded),
        audited_gateway(upstream, tmp_path, {"BeforeModel": [says()]}, deadline=0.2) as gateway,
    ):
        with stalled_disk():
            await refused(gateway.url)
            await refused(gateway.url, "/v1beta/models/gemini-2.5-flash:countTokens")
            assert len(recorded) == 0
        await until(lambda: gateway.audit.check() is None)
        assert (await post(gateway.url, UNARY, HI)).status == 200
    assert report_of(tmp_path).problems == []
    with reading(tmp_path) as audit:
        assert [call.outcome for call in audit.calls()].count("refused") == 2


async def test_a_locked_database_is_waited_for_while_records_are_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are refused once it has failed, and no record is lost."""
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.3)
    async with (
        running_upstream() as (upstream, recorded),
        audited_gateway(upstream, tmp_path, deadline=5) as gateway,
    ):
        with locked(tmp_path):
            assert (await post(gateway.url, UNARY, HI)).status == 200
            await until(lambda: gateway.audit.check() == "database is locked")
            sent = len(recorded)
            await refused(gateway.url)
            assert len(recorded) == sent
        await until(lambda: gateway.audit.check() is None)
        assert (await post(gateway.url, UNARY, HI)).status == 200
    assert report_of(tmp_path).problems == []
    with reading(tmp_path) as audit:
        outcomes = sorted(call.outcome for call in audit.calls())
    assert outcomes == ["answered", "answered", "refused"]


async def test_a_stream_that_had_to_begin_early_goes_nowhere_without_its_start(tmp_path: Path) -> None:
    async def think(_: Any) -> None:
        await asyncio.sleep(0.8)  # for so long that the stream has to begin

    config = Config(streams=StreamSettings(header_timeout=0.05, keep_alive=0.05))
    hooks = {"BeforeModel": [runs(think)]}
    async with (
        running_upstream() as (upstream, recorded),
        audited_gateway(upstream, tmp_path, hooks, config=config, deadline=0.2) as gateway,
    ):
        with stalled_disk():
            answer = await post(gateway.url, SSE, HI)
        assert len(recorded) == 0
    assert answer.status == 200
    assert "cannot write its audit record" in answer.body.decode()


async def leave_while_writing(gateway: Audited, target: str, state: Path) -> None:
    """Leave a call while its start waits for the disk, and check the records after that."""
    with stalled_disk():
        async with connected(gateway.url) as wire:
            await wire.post(target, HI)
            await until(lambda: gateway.audit.writer.queued)
    await until(lambda: gateway.audit.writer.queued == 0)
    assert report_of(state).problems == []


async def test_a_client_that_leaves_while_its_start_is_written_is_on_record_once(tmp_path: Path) -> None:
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path) as gateway:
        await leave_while_writing(gateway, UNARY, tmp_path)
    with reading(tmp_path) as audit:
        [call] = audit.calls()
    assert call.body["client_gone"] is True


async def test_a_client_that_leaves_while_its_stream_begins_early_is_on_record_once(tmp_path: Path) -> None:
    """The headers wait for the start to be written, although the hook has not decided yet."""
    never = asyncio.Event()
    config = Config(streams=StreamSettings(header_timeout=0.05, keep_alive=0.05))
    hooks = {"BeforeModel": [runs(lambda _: never.wait())]}
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path, hooks, config=config) as gateway,
    ):
        await leave_while_writing(gateway, SSE, tmp_path)
    with reading(tmp_path) as audit:
        [call] = audit.calls()
    assert call.body["client_gone"] is True


async def test_a_start_that_is_under_way_is_not_written_again(tmp_path: Path) -> None:
    """The disk is slower than the call waits."""
    async with writer_in(tmp_path, deadline=0.1) as writer:
        audit, record = Audit(writer, None, None), CallRecord(kind="judged", audit_state=AuditState.PENDING)
        with locked(tmp_path):
            await audit.ensure_start_recorded(record, 403)
            record.end(403, 0)
            audit.settle(record, make_receipt(record))
        await until(lambda: writer.queued == 0)
        assert count(tmp_path) == 2
    assert report_of(tmp_path).sound


async def too_slow(audit: Audit, record: CallRecord, state: Path) -> None:
    """The disk is slower than the event waits."""
    with locked(state), pytest.raises(ApiError):
        await audit.record_event(record, 200)


async def left(audit: Audit, record: CallRecord, state: Path) -> None:
    """The client leaves while the event is written."""
    with locked(state):
        task = asyncio.create_task(audit.record_event(record, 200))
        await until(lambda: audit.writer.queued)
        task.cancel()
        await asyncio.wait([task])


async def refused_at_once(audit: Audit, record: CallRecord, state: Path) -> None:
    """Another record has waited for too long already."""
    with locked(state):
        audit.writer.append_soon(*entries_of(record_of()))
        await until(lambda: audit.writer.refusal_reason)
        with pytest.raises(ApiError):
            await audit.record_event(record, 200)
    assert record.outcome == "refused"


async def written(audit: Audit, record: CallRecord, _: Path) -> None:
    await audit.record_event(record, 200)


@pytest.mark.parametrize("record_event", [written, too_slow, left, refused_at_once])
async def test_an_event_is_recorded_once_even_if_a_write_fails(record_event: Any, tmp_path: Path) -> None:
    async with writer_in(tmp_path, deadline=0.1) as writer:
        audit, record = Audit(writer, None, None), CallRecord(kind="event", audit_state=AuditState.PENDING)
        await record_event(audit, record, tmp_path)
        if record_event is not written:
            await until(lambda: writer.refusal_reason is None)
        audit.settle(record, make_receipt(record))
        await until(lambda: writer.queued == 0)
    with reading(tmp_path) as audited:
        assert [call.id for call in audited.calls()].count(record.id) == 1
    assert report_of(tmp_path).sound


@pytest.mark.parametrize("removed", ["audit.db", "audit-writers", "."])
async def test_calls_are_refused_if_the_files_of_the_audit_are_removed(
    removed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite and the journal would go on in files that nobody can find."""
    monkeypatch.setattr(writing, "_CHECK_SECONDS", 0)
    state, away = tmp_path / "state", tmp_path / "away"
    state.mkdir()
    async with writer_in(state) as writer:
        await writer.append(*entries_of(record_of(1)))
        (state / removed).resolve().rename(away)
        writer.request_check()
        await until(lambda: writer.refusal_reason)
        with pytest.raises(AuditError):
            await writer.append(*entries_of(record_of(2)))
        away.rename((state / removed).resolve() if removed != "." else state)
        await until(lambda: writer.refusal_reason is None)
        await writer.append(*entries_of(record_of(3)))
    assert report_of(state).problems == []
