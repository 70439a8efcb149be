"""Counters in a database: the same behavior with a file and with PostgreSQL."""

import asyncio
import os
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, insert, select
from support.gateway.databases import cut, drop, postgres

from hookgate.hooks.policy_environment import Counters
from hookgate.proxy.config import StoreSettings
from hookgate.proxy.store import Store, StoreError, database, models
from hookgate.proxy.store import counters as store_counters
from hookgate.proxy.store.counters import SqlCounters

TOMORROW = datetime.now(UTC) + timedelta(days=1)

COUNTING = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from hookgate.proxy.config import StoreSettings
from hookgate.proxy.store import Store

async def main(url, state):
    async with Store(StoreSettings(url=url or None), Path(state)) as store:
        counters = store.counters()
        for _ in range(100):
            print(int(await counters.add("a", 1, datetime.now(UTC) + timedelta(days=1))))
            counters.add_later("b", 2, datetime.now(UTC) + timedelta(days=1))

asyncio.run(main(*sys.argv[1:]))
"""
"""A process that counts to a hundred, and tells each total that it was given."""


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Another program that writes, and does not come to an end."""
    with closing(sqlite3.connect(state / "hookgate.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def changed(state: Path, statement: str) -> None:
    """Another program that changes the file."""
    with closing(sqlite3.connect(state / "hookgate.db", isolation_level=None)) as connection:
        connection.execute(statement)


@asynccontextmanager
async def opened(url: str | None, state: Path) -> AsyncIterator[Counters]:
    async with Store(StoreSettings(url=url), state) as store:
        yield store.counters()


async def test_a_number_begins_at_zero_and_outlives_the_process(url: str | None, tmp_path: Path) -> None:
    async with opened(url, tmp_path) as counters:
        assert await counters.read(["a"]) == {}
        assert await counters.add("a", 2, TOMORROW) == 2
        assert await counters.add("a", 0.5, TOMORROW) == 2.5
        assert await counters.add("b", -1, TOMORROW) == -1
    async with opened(url, tmp_path) as counters:
        assert await counters.read(["a", "b", "c"]) == {"a": 2.5, "b": -1}
        assert await counters.read([]) == {}


async def test_a_late_addition_is_visible_to_the_next_read(url: str | None, tmp_path: Path) -> None:
    async with opened(url, tmp_path) as counters:
        for _ in range(3):
            counters.add_later("a", 5, TOMORROW)
        counters.add_later("b", 1, TOMORROW)
    async with opened(url, tmp_path) as counters:  # closing has waited
        assert await counters.read(["a", "b"]) == {"a": 15, "b": 1}


async def test_many_at_once_get_a_total_of_their_own_each(url: str | None, tmp_path: Path) -> None:
    async with opened(url, tmp_path) as counters:
        totals = await asyncio.gather(*(counters.add("a", 1, TOMORROW) for _ in range(200)))
    assert sorted(totals) == list(range(1, 201))


async def test_processes_that_start_and_count_at_once_lose_nothing(url: str | None, tmp_path: Path) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", COUNTING, url or "", str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    outputs = [(await process.communicate())[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(int(line) for output in outputs for line in output.split()) == list(range(1, 201))
    async with opened(url, tmp_path) as counters:
        assert await counters.read(["a", "b"]) == {"a": 200, "b": 400}


async def test_what_has_expired_long_ago_is_removed(url: str | None, tmp_path: Path) -> None:
    opened_database = database.open_database(url, tmp_path)
    counters = SqlCounters(opened_database)
    now = int(time.time())
    rows = [{"key": key, "total": 1, "expires": now - age} for key, age in (("old", 7200), ("new", 60))]
    with opened_database.engine.begin() as connection:
        connection.execute(insert(models.counters), rows)
    await counters.add("a", 1, TOMORROW)
    with opened_database.engine.begin() as connection:
        assert set(connection.scalars(select(models.counters.c.key))) == {"a", "new"}
    counters.close()
    opened_database.close()


async def test_a_late_addition_that_fails_is_kept_and_fails_later_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    async with opened(None, tmp_path) as counters:
        await counters.add("a", 1, TOMORROW)
        with locked(tmp_path):
            counters.add_later("a", 5, TOMORROW)
            for _ in range(2):
                with pytest.raises(
                    StoreError, match=r"^the store of limits cannot be used: database is locked$"
                ):
                    await counters.read(["a"])
        assert await counters.read(["a"]) == {"a": 6}
    assert "cannot be written; usage is kept in memory until it can: database is locked" in caplog.text


async def test_what_is_added_while_others_are_written_is_counted_once(tmp_path: Path) -> None:
    """Two threads at the queue: one adds to an amount, and meanwhile the other takes it to write it."""
    opened_database = database.open_database(None, tmp_path)
    counters = SqlCounters(opened_database)
    payer = threading.Thread(target=counters._pay_quietly)

    class Interrupted(dict[str, tuple[float, int]]):
        def get(self, key: str, default: Any = None) -> Any:
            found = super().get(key, default)
            payer.start()
            payer.join(0.2)  # it waits, until this one is through
            return found

    counters._owed = Interrupted(a=(5.0, int(TOMORROW.timestamp())))
    counters.add_later("a", 1, TOMORROW)
    payer.join()
    assert await counters.read(["a"]) == {"a": 6}
    counters.close()
    opened_database.close()


async def test_of_too_many_amounts_that_wait_to_be_written_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_counters, "MAX_OWED", 2)
    opened_database = database.open_database(None, tmp_path)
    counters = SqlCounters(opened_database)
    monkeypatch.setattr(counters._threads, "run_later", lambda _: None)
    for key in ("a", "b", "c", "b"):
        counters.add_later(key, 1, TOMORROW)
    assert await counters.read(["a", "b", "c"]) == {"b": 2, "c": 1}
    assert "the amounts of 1 are lost" in caplog.text
    counters.close()
    opened_database.close()


async def test_what_could_not_be_added_until_the_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    with ExitStack() as stack:
        async with opened(None, tmp_path) as counters:
            stack.enter_context(locked(tmp_path))
            counters.add_later("a", 5, TOMORROW)
    assert "hookgate.db could not be written; the amounts of 1 counters are lost" in caplog.text


async def test_a_store_that_became_unwritable_is_reported_and_used_again(tmp_path: Path) -> None:
    async with opened(None, tmp_path) as counters:
        await counters.add("a", 1, TOMORROW)
        changed(tmp_path, "ALTER TABLE counters RENAME TO away")
        with pytest.raises(StoreError, match="no such table: counters"):
            await counters.add("a", 1, TOMORROW)
        changed(tmp_path, "ALTER TABLE away RENAME TO counters")
        assert await counters.add("a", 1, TOMORROW) == 2


async def test_a_restart_of_the_server_is_not_noticed(tmp_path: Path) -> None:
    with postgres() as url:
        async with opened(url, tmp_path) as counters:
            await counters.add("a", 1, TOMORROW)
            cut(url.rpartition("/")[2])
            assert await counters.add("a", 1, TOMORROW) == 2


@asynccontextmanager
async def locked_counter(url: str, key: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Another client that holds the row of a counter, so that whoever adds to it waits."""
    connection = await psycopg.AsyncConnection.connect(url.replace("+psycopg", ""))
    async with connection:
        await connection.execute("UPDATE counters SET total = total WHERE key = %s", [key])
        yield connection
        await connection.rollback()


async def end_waiting(connection: psycopg.AsyncConnection[Any]) -> None:
    """End the connection that waits for a row, once there is one."""
    statement = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    while await (await connection.execute(statement)).fetchone() is None:
        pass


async def test_what_is_counted_as_the_server_ends_the_connection_is_counted_once(tmp_path: Path) -> None:
    with postgres() as url:
        async with opened(url, tmp_path) as counters:
            await counters.add("a", 1, TOMORROW)
            async with locked_counter(url, "a") as other:
                adding = asyncio.create_task(counters.add("a", 1, TOMORROW))
                await end_waiting(other)
            assert await adding == 2
            async with locked_counter(url, "a") as other:
                counters.add_later("a", 5, TOMORROW)
                await end_waiting(other)
            async with asyncio.timeout(10):  # it is added in another thread
                while await counters.read(["a"]) != {"a": 7}:  # noqa: ASYNC110  # it sends no event
                    await asyncio.sleep(0.01)


def shut_down(connection: Connection) -> None:
    """Break a connection as a network does: neither side says anything."""
    driver: Any = connection.connection.driver_connection
    with socket.socket(fileno=os.dup(driver.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


async def test_what_is_counted_as_the_connection_breaks_without_a_word_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been counted already, so it is not counted again."""
    with postgres() as url:
        async with opened(url, tmp_path) as counters:
            await counters.add("a", 1, TOMORROW)
            added, broken = SqlCounters._added, []

            def lose_the_answer(self: SqlCounters, connection: Connection, *row: Any) -> float:
                total = added(self, connection, *row)
                if not broken:
                    broken.append(total)
                    shut_down(connection)
                    connection.execute(select(1))
                return total

            monkeypatch.setattr(SqlCounters, "_added", lose_the_answer)
            with pytest.raises(StoreError, match=r"^the store of limits cannot be used: "):
                await counters.add("a", 1, TOMORROW)
            assert await counters.add("a", 1, TOMORROW) == 3


async def test_a_server_that_is_gone_is_reported(tmp_path: Path) -> None:
    with postgres() as url:
        async with opened(url, tmp_path) as counters:
            await counters.add("a", 1, TOMORROW)
            drop(url.rpartition("/")[2])
            with pytest.raises(StoreError, match=r"^the store of limits cannot be used: .*does not exist"):
                await counters.add("a", 1, TOMORROW)
