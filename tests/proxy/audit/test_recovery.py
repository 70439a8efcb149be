"""Gateways that die: no record is lost or doubled, and their calls get an end."""

import asyncio
import json
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import pytest
from support.gateway.audits import entries_of, ledger_in, opened, reading, record_of, report_of
from support.gateway.databases import postgres
from support.gateway.life import until
from support.gateway.loopback import running_upstream
from support.programs.program import Server, run, serving
from support.wire import HI, UNARY, connected, post

from hookgate.proxy.audit.chain import AuditError
from hookgate.proxy.audit.locks import Locks, writer_locks
from hookgate.proxy.audit.recovery import Recovery, recover
from hookgate.proxy.audit.trail import open_audit_trail
from hookgate.proxy.audit.writer import Writer
from hookgate.proxy.config.models import AuditSettings
from hookgate.proxy.store.database import Database


@contextmanager
def locks_of(database: Database, state: Path) -> Iterator[Locks]:
    """The locks as a process of its own holds them."""
    with closing(writer_locks(database, state)) as locks:
        yield locks


def dead_writer(database: Database, state: Path) -> int:
    """The number of a writer that died during a call. Its lock is free."""
    with ledger_in(database, state) as ledger:
        ledger.write(entries_of(record_of(ledger.number))[:1])
    with locks_of(database, state) as others:
        while not others.acquire(ledger.number):  # a server takes its time to see that the connection is gone
            time.sleep(0.01)
        others.release(ledger.number)
    return ledger.number


@asynccontextmanager
async def gateway(upstream: str, state: Path) -> AsyncIterator[Server]:
    async with serving(
        "serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--state", str(state)
    ) as server:
        yield server


async def load(url: str, receipts: list[str], clients: int = 8) -> None:
    """Call for as long as someone answers; keeps the receipt of every answer that came."""

    async def client() -> None:
        with suppress(OSError, EOFError, asyncio.IncompleteReadError):
            async with connected(url) as wire:
                while True:
                    await wire.post(UNARY, HI)
                    answer = await wire.answer()
                    receipts.append(answer.headers["x-hookgate-receipt"])

    await asyncio.gather(*(client() for _ in range(clients)))


async def killed(upstream: str, state: Path, receipts: list[str], after: int) -> None:
    """Run a gateway under load, and kill it after so many more answers."""
    enough = len(receipts) + after
    async with gateway(upstream, state) as server:
        log = asyncio.create_task(server.ended())  # a full pipe would hold up the gateway
        task = asyncio.create_task(load(server.url, receipts))
        await until(lambda: len(receipts) >= enough, 60)
        server.signal(signal.SIGKILL)
        await task
        assert await log == -signal.SIGKILL


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
async def test_under_load_no_kill_loses_doubles_or_alters_a_record(kills: int, tmp_path: Path) -> None:
    receipts: list[str] = []
    async with running_upstream() as (upstream, _):
        for number in range(kills):
            await killed(upstream, tmp_path, receipts, 25 + number % 5 * 10)  # any moment will do
        async with gateway(upstream, tmp_path) as server:  # which recovers the last of them
            server.signal(signal.SIGTERM)
            assert await server.ended() == 0
    report = report_of(tmp_path)
    assert (report.problems, report.running, report.writers) == ([], 0, kills + 1)
    assert len(receipts) == len(set(receipts)) > 20 * kills
    with reading(tmp_path) as audit:
        calls = audit.calls(limit=10**6)
        ended = [call.id for call in calls]
        assert len(ended) == len(set(ended))
        assert set(receipts) <= set(ended)
        assert all(call.start is not None for call in calls)
        for receipt in (*receipts[:5], *receipts[-5:]):
            detail = audit.call(receipt)
            assert detail is not None
            assert detail.start is not None
            assert detail.end is not None


async def test_a_call_that_was_under_way_is_marked(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await never.wait()
        writer.close()

    asked = asyncio.Event()
    silent = await asyncio.start_server(talk, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with gateway(origin, tmp_path) as server, connected(server.url) as wire:
        await wire.post(f"/s/s1{UNARY}", HI)
        await asked.wait()
        with reading(tmp_path) as audit:
            await until(audit.running)  # the start is on disk, and soon in the database
            [call] = audit.running()
        server.signal(signal.SIGKILL)
        assert await wire.ended()
        assert await server.ended() == -signal.SIGKILL
    never.set()
    silent.close()
    await silent.wait_closed()
    async with gateway(origin, tmp_path) as server:
        assert "ended unexpectedly" in server.log
    with reading(tmp_path) as audit:
        [ended] = audit.calls()
    assert (ended.id, ended.session, ended.outcome) == (call.id, "s1", "interrupted")
    ended_by = await run("audit", "verify", "--state", str(tmp_path))
    assert "nothing is missing or changed" in ended_by.out, ended_by


async def test_a_gateway_that_lives_is_left_alone(tmp_path: Path) -> None:
    async with running_upstream() as (upstream, _), gateway(upstream, tmp_path) as first:
        async with gateway(upstream, tmp_path) as second:
            assert "ended unexpectedly" not in first.log + second.log
        assert report_of(tmp_path).problems == []


def test_on_a_server_a_writer_is_dead_when_its_lock_stays_free(tmp_path: Path) -> None:
    with postgres() as url, opened(tmp_path, url) as database:
        own_locks = writer_locks(database, tmp_path)
        recovery = Recovery(database, own_locks, tmp_path, patience=1)
        with ledger_in(database, tmp_path) as ledger:
            start, _ = entries_of(record_of())
            ledger.write([start])
            number = ledger.number
            assert [recovery.dead(0), recovery.dead(0)] == [[], []]
        looks = [recovery.dead(0)]  # the server takes its time to see that the connection is gone
        while not looks[-1] and len(looks) < 500:
            time.sleep(0.01)
            looks.append(recovery.dead(0))
        assert (looks[0], looks[-1]) == ([], [number])
        ends = recovery.ends(number)
        assert [entry.body.get("outcome") for entry in ends] == ["interrupted", None]
        with ledger_in(database, tmp_path) as other:
            other.write(ends)
            assert recovery.ends(number) == ()
        own_locks.close()
        report = report_of(tmp_path, url)
    assert (report.problems, report.running) == ([], 0)


async def test_the_lock_of_a_writer_that_was_recovered_is_free(tmp_path: Path) -> None:
    """A gateway holds no more files open the more of them have died before it."""
    with opened(tmp_path) as database:
        with ledger_in(database, tmp_path) as dead:
            dead.write(entries_of(record_of()))
        locks, others = writer_locks(database, tmp_path), writer_locks(database, tmp_path)
        with ledger_in(database, tmp_path) as ledger:
            writer = Writer(ledger, 5)
            writer.start()
            count = await recover(
                Recovery(database, locks, tmp_path, patience=0), locks, writer, ledger.number
            )
            assert (count, others.acquire(dead.number)) == (1, True)
            others.close()
            await asyncio.to_thread(writer.close, 5)
        locks.close()
    assert report_of(tmp_path).problems == []


async def test_writers_whose_recovery_failed_are_left_to_the_next_one(
    tmp_path: Path, url: str | None
) -> None:
    with opened(tmp_path, url) as database:
        dead = [dead_writer(database, tmp_path) for _ in range(2)]
        with locks_of(database, tmp_path) as locks, ledger_in(database, tmp_path) as ledger:
            recovery, writer = Recovery(database, locks, tmp_path, patience=0), Writer(ledger, 5)
            writer.write_error = "no room"
            with pytest.raises(AuditError, match="no room"):
                await recover(recovery, locks, writer, ledger.number)
            with locks_of(database, tmp_path) as others:
                assert [others.acquire(number) for number in dead] == [True, True]
            writer.write_error = None
            writer.start()
            recovered = 0
            while recovered < 2:  # a server takes its time to see that the connection is gone
                recovered += await recover(recovery, locks, writer, ledger.number)
            await asyncio.to_thread(writer.close, 5)
    assert report_of(tmp_path, url).problems == []


def test_a_search_that_fails_leaves_the_dead_writers_to_the_next_one(
    tmp_path: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, url) as database:
        first, second = dead_writer(database, tmp_path), dead_writer(database, tmp_path)
        with locks_of(database, tmp_path) as locks, locks_of(database, tmp_path) as others:
            acquire = locks.acquire
            monkeypatch.setattr(locks, "acquire", lambda number: acquire(number) and 1 // (second - number))
            with pytest.raises(ZeroDivisionError):
                Recovery(database, locks, tmp_path, patience=0).dead(0)
            assert others.acquire(first)


async def test_ends_that_are_still_being_written_are_not_written_again(
    tmp_path: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, url) as database:
        dead_writer(database, tmp_path)
        with locks_of(database, tmp_path) as locks, ledger_in(database, tmp_path) as ledger:
            recovery, writer = Recovery(database, locks, tmp_path, patience=0), Writer(ledger, 0.2)
            write, allowed = ledger.write, threading.Event()
            monkeypatch.setattr(ledger, "write", lambda entries: allowed.wait(60) and write(entries))
            writer.start()
            with pytest.raises(AuditError) as failure:
                await recover(recovery, locks, writer, ledger.number)
            assert failure.value.under_way
            assert recovery.dead(ledger.number) == []
            allowed.set()
            await until(lambda: writer.queued == 0)
            await asyncio.to_thread(writer.close, 5)
    report = report_of(tmp_path, url)
    assert (report.problems, report.records) == ([], 4)


@pytest.mark.parametrize(("dead", "expected"), [(1, "1 gateway ended"), (3, "3 gateways ended")])
async def test_the_log_says_how_many_gateways_ended_unexpectedly(
    dead: int, expected: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as database:
        for _ in range(dead):
            with ledger_in(database, tmp_path) as ledger:
                ledger.write(entries_of(record_of()))
    async with open_audit_trail(AuditSettings(), None, tmp_path):
        assert f"{expected} unexpectedly" in caplog.text


async def test_reading_the_file_of_a_running_gateway_loses_no_record(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path))
    admin = {"HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}  # its panel reads the file as well
    async with running_upstream() as (upstream, _):
        async with serving("serve", "--upstream", upstream, *state, env=admin) as server:
            for _ in range(3):
                assert (await post(server.url, UNARY, HI)).status == 200
                assert (await run("audit", "list", *state)).code == 0
        listed = await run("audit", "list", "--json", *state)  # the gateway has ended by SIGKILL
    ends = [json.loads(line) for line in listed.out.splitlines()]
    assert len(ends) == 3, listed
    assert (await run("audit", "verify", *state)).code == 0
