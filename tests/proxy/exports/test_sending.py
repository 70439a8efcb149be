"""What is sent, by whom, and from where on; what happens to records that a receiver refuses."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import update
from support.gateway.audits import entries_of, ledger_in, opened, record_of
from support.gateway.life import until
from support.operating.endpoint import endpoint

from hookgate.proxy.app import serve_on
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.config import ExportSettings
from hookgate.proxy.exports.positions import ExportLostError, ExportPositions, WriterPosition
from hookgate.proxy.exports.sending import ExportSender
from hookgate.proxy.exports.states import ExportState, ExportStates, RefusedRecord
from hookgate.proxy.exports.threads import holding_retention, running_exports
from hookgate.proxy.store.database import AUDIT_FILE, Database, open_exports
from hookgate.proxy.store.models import audit_writers

SECRET = "a-secret-of-a-webhook"  # noqa: S105  # it opens nothing
VARIABLE = "EXPORT_SECRET"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setattr("hookgate.proxy.exports.sending._SYNC_SECONDS", 0.1)  # new writers are found soon


def webhook(url: str, **settings: Any) -> ExportSettings:
    return ExportSettings(to=f"{url}/records", secret_variable=VARIABLE, interval=0.05, **settings)


@asynccontextmanager
async def sending(
    state: Path, url: str | None = None, **exports: ExportSettings
) -> AsyncIterator[dict[str, ExportSender]]:
    """The exports of a gateway, which have positions when the block begins."""
    async with running_exports(exports, url, state) as senders:
        await until(lambda: all(state_of(state, sender.name, url) for sender in senders))
        yield {sender.name: sender for sender in senders}


def state_of(state: Path, name: str = "siem", url: str | None = None) -> ExportState | None:
    with closing(ExportStates(open_exports(url, state))) as states:
        return states.state(name)


def refused_in(state: Path) -> list[RefusedRecord]:
    with closing(ExportStates(open_exports(None, state))) as states:
        return states.refusals("siem")


def write(state: Path, *numbers: int, url: str | None = None, **changes: Any) -> str:
    """Write the records of calls with a writer of its own, which ends. Returns the writer's name."""
    with opened(state, url) as database, ledger_in(database, state) as ledger:
        ledger.write(entries_of(*(record_of(number, **changes) for number in numbers)))
        ledger.close()
        return ledger.writer


def places(documents: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["writer"], each["seq"]) for each in documents]


async def test_records_are_sent_from_the_first_use_of_an_export_on(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    async with endpoint() as receiver, sending(tmp_path, siem=webhook(receiver.url)) as senders:
        writer = write(tmp_path, 3)
        await until(lambda: len(receiver.accepted) == 3)  # and `closed`
        assert places(receiver.accepted) == [(writer, 1), (writer, 2), (writer, 3)]
        await until(lambda: senders["siem"].results == {"delivered": 3, "refused": 0, "missed": 0})
        await until(lambda: (senders["siem"].lag_records, senders["siem"].lag_seconds) == (0, 0))


async def test_the_history_is_sent_if_it_is_asked_for(tmp_path: Path) -> None:
    writers = [write(tmp_path, 1), write(tmp_path, 2)]
    async with endpoint() as receiver, sending(tmp_path, siem=webhook(receiver.url, history=True)):
        await until(lambda: len(receiver.accepted) == 6)
    assert places(receiver.accepted) == [(writer, seq) for writer in writers for seq in (1, 2, 3)]


async def test_an_export_goes_on_where_it_was(tmp_path: Path) -> None:
    async with endpoint() as receiver:
        for number in range(3):
            async with sending(tmp_path, siem=webhook(receiver.url)) as senders:
                write(tmp_path, number)
                delivered = senders["siem"].results
                await until(lambda delivered=delivered: delivered["delivered"] == 3)  # type: ignore[misc]  # of a lambda with a default
    assert len(set(places(receiver.accepted))) == len(receiver.accepted) == 9


async def test_writers_that_appear_meanwhile_cause_no_record_to_be_sent_twice(
    tmp_path: Path,
) -> None:
    write(tmp_path, *range(20))
    names: list[str] = []

    def answer(documents: list[dict[str, Any]]) -> tuple[int, Any]:
        if len(names) < 4:
            names.append(write(tmp_path, 1))
            time.sleep(0.15)  # until writers are looked for again
        return 200, {}

    settings = {"history": True, "batch_bytes": 5000}
    async with endpoint(answer) as receiver, sending(tmp_path, siem=webhook(receiver.url, **settings)):
        await until(lambda: len(set(places(receiver.accepted))) == 41 + 4 * 3)
    assert len(receiver.accepted) == 41 + 4 * 3


async def test_a_batch_is_bounded_by_bytes(tmp_path: Path) -> None:
    write(tmp_path, *range(40))
    settings = {"history": True, "batch_bytes": 3000}
    async with endpoint() as receiver, sending(tmp_path, siem=webhook(receiver.url, **settings)):
        await until(lambda: len(receiver.accepted) == 81)
    assert 8 < len(receiver.requests) < 41


async def test_one_record_that_is_refused_is_set_aside_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(documents: list[dict[str, Any]]) -> tuple[int, Any]:
        poisoned = any(
            each.get("body", {}).get("model") == "poison" for each in documents if each["type"] == "end"
        )
        return (400, {"error": f"bad record, said to {SECRET}"}) if poisoned else (200, {})

    async with endpoint(answer) as receiver, sending(tmp_path, siem=webhook(receiver.url)) as senders:
        with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
            bad = record_of(3, model="poison")
            ledger.write(entries_of(*map(record_of, range(3)), bad, *map(record_of, range(4, 9))))
            await until(lambda: len(receiver.accepted) == 17)
        await until(lambda: senders["siem"].results["delivered"] == 17)
        assert senders["siem"].results == {"delivered": 17, "refused": 1, "missed": 0}
    [refused] = refused_in(tmp_path)
    assert (refused.id, refused.seq) == (bad.id, 8)
    assert "bad record" in refused.reason
    assert SECRET not in refused.reason + caplog.text
    assert f"the receiver refuses the record {bad.id}" in caplog.text
    assert [seq for _, seq in places(receiver.accepted)] == [*range(1, 8), *range(9, 19)]


async def test_records_that_are_all_bad_do_not_block_those_after_them(tmp_path: Path) -> None:
    def answer(documents: list[dict[str, Any]]) -> tuple[int, Any]:
        return (
            (400, {})
            if any(each.get("body", {}).get("model") == "poison" for each in documents)
            else (200, {})
        )

    async with endpoint(answer) as receiver, sending(tmp_path, siem=webhook(receiver.url)):
        write(tmp_path, *range(12), model="poison")
        good = write(tmp_path, 20)
        await until(lambda: (good, 3) in places(receiver.accepted))
    assert len(refused_in(tmp_path)) == 24


async def test_a_receiver_that_refuses_everything_loses_no_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = True
    async with (
        endpoint(lambda documents: (400, {"text": "Incorrect index"}) if broken else (200, {})) as receiver,
        sending(tmp_path, siem=webhook(receiver.url)) as senders,
    ):
        write(tmp_path, 1, 2)
        await until(lambda: senders["siem"].failures >= 2)
        found = state_of(tmp_path)
        assert found is not None
        assert "refuses every record" in found.error
        assert senders["siem"].lag_records == 5
        broken = False
        await until(lambda: len(receiver.accepted) == 5)
        assert refused_in(tmp_path) == []
        await until(lambda: (found := state_of(tmp_path)) is not None and found.error == "")
    assert caplog.text.count("records cannot be sent") == 1
    assert "accepts records again" in caplog.text


async def test_records_that_a_collector_refuses_without_naming_them_are_counted(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response({"partialSuccess": {"rejectedLogRecords": 2, "errorMessage": "too old"}})

    write(tmp_path, 1, 2)
    async with serve_on(answer, "127.0.0.1", 0) as url:
        settings = ExportSettings(to=f"otlp+{url}", interval=0.05, history=True)
        async with sending(tmp_path, siem=settings) as senders:
            await until(lambda: senders["siem"].results == {"delivered": 3, "refused": 2, "missed": 0})
    [refused] = refused_in(tmp_path)
    assert refused.reason == "2 of the 6 records from 0 to 5, but it is not said which: too old"


async def test_a_receiver_that_is_slow_delays_no_other_export(tmp_path: Path) -> None:
    entered = asyncio.Event()

    async def never(request: Any) -> Any:
        entered.set()
        await asyncio.sleep(60)

    async with (
        endpoint() as quick,
        serve_on(never, "127.0.0.1", 0) as stuck,
        sending(tmp_path, slow=webhook(stuck), quick=webhook(quick.url)),
    ):
        write(tmp_path, 1)
        await asyncio.wait_for(entered.wait(), 30)
        write(tmp_path, 2)
        await until(lambda: len(quick.accepted) == 6)


async def test_a_database_that_was_replaced_is_sent_from_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with endpoint() as receiver:
        async with sending(tmp_path, siem=webhook(receiver.url)):
            write(tmp_path, 1, 2)
            await until(lambda: len(receiver.accepted) == 5)
        for ending in ("", "-wal", "-shm"):
            (tmp_path / f"{AUDIT_FILE}{ending}").unlink(missing_ok=True)
        new = write(tmp_path, 3)  # a writer with the same number
        async with sending(tmp_path, siem=webhook(receiver.url)):
            await until(lambda: len(receiver.accepted) == 8)
    assert places(receiver.accepted)[5:] == [(new, 1), (new, 2), (new, 3)]
    assert "was replaced or restored" in caplog.text


async def test_a_writer_that_was_thought_dead_and_goes_on_is_sent_on(tmp_path: Path) -> None:
    async with endpoint() as receiver, sending(tmp_path, siem=webhook(receiver.url)):
        with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
            ledger.write(entries_of(record_of(1)))
            mark(database, "recovered")
            await until(lambda: (found := state_of(tmp_path)) is not None and found.positions == ())
            mark(database, "")
            ledger.write(entries_of(record_of(2)))
            await until(lambda: len(receiver.accepted) == 4)


def mark(database: Database, ended: str) -> None:
    with database.engine.begin() as connection:
        connection.execute(update(audit_writers).values(ended=ended))


@pytest.mark.parametrize("gone", ["stopped", "killed"])
async def test_gateways_share_an_export_and_one_takes_over(
    gone: str, url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sends the records of all; another goes on when it is gone, after a while if it was killed."""
    monkeypatch.setattr("hookgate.proxy.exports.positions.HOLD_SECONDS", 8.0)
    async with endpoint() as receiver:
        settings = {"siem": webhook(receiver.url, history=True)}
        async with sending(tmp_path, url, **settings) as first, sending(tmp_path, url, **settings):
            writers = [write(tmp_path, number, url=url) for number in range(3)]
            await until(lambda: len(receiver.accepted) == 9)
            assert sorted(set(places(receiver.accepted))) == sorted(
                (w, n) for w in writers for n in (1, 2, 3)
            )
            await until(lambda: first["siem"].results["delivered"] == 9)
            if gone == "killed":
                monkeypatch.setattr(ExportPositions, "release", lambda self: None)
        async with sending(tmp_path, url, **settings):
            last = write(tmp_path, 9, url=url)
            await until(lambda: (last, 3) in places(receiver.accepted))
        assert len(receiver.accepted) == 12


async def test_a_gateway_that_was_too_slow_moves_no_position(tmp_path: Path) -> None:
    with closing(open_exports(None, tmp_path)) as database:
        slow, other = (ExportPositions(database, "siem", name) for name in ("slow", "other"))
        assert slow.hold()
        assert not other.hold()
        slow.begin([WriterPosition(1, b"hash", 0)])
        slow.release()
        assert other.hold()
        with pytest.raises(ExportLostError):
            slow.advance(1, 5)
        other.advance(1, 3)
        assert [each.seq for each in other.load()[0].values()] == [3]


async def test_a_clock_that_is_set_back_keeps_nobody_from_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_exports(None, tmp_path)) as database:
        assert ExportPositions(database, "siem", "gone").hold()
        before = time.time() - 3600
        monkeypatch.setattr("hookgate.proxy.store.leases.time.time", lambda: before)
        assert ExportPositions(database, "siem", "next").hold()


async def test_retention_keeps_what_is_not_sent(tmp_path: Path) -> None:
    write(tmp_path, 0)
    async with endpoint(lambda documents: (503, {})) as receiver:
        settings = {"siem": webhook(receiver.url)}
        async with sending(tmp_path, **settings), holding_retention(settings, None, tmp_path) as needed:
            write(tmp_path, 1, 2)
            with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
                retention = Retention(days=1e-9, first_needed=needed)
                await asyncio.sleep(0.01)
                ledger.retain(retention)
                left = [row for row in rows_of(database) if row[0] != ledger.number]
                assert [seq for _, seq in left] == [1, 2, 3, 4, 5]
                ledger.retain(Retention(days=1e-9))
                assert [row for row in rows_of(database) if row[0] != ledger.number] == []
        receiver.answer = lambda documents: (200, {})
        async with sending(tmp_path, **settings) as senders:
            await until(lambda: senders["siem"].results["missed"] > 0)


def rows_of(database: Any) -> list[tuple[int, int]]:
    with database.engine.begin() as connection:
        found = connection.exec_driver_sql("SELECT writer, seq FROM audit_records ORDER BY position")
        return [(row[0], row[1]) for row in found]
