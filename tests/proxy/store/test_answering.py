"""A database that does not answer: calls are refused after a time limit."""

import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hookgate.proxy.sessions.table import open_session_store
from hookgate.proxy.store import StoreError, execution
from hookgate.proxy.store.counters import SqlCounters
from hookgate.proxy.store.database import open_database


async def test_a_call_waits_for_sessions_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "ANSWER_SECONDS", 0.05)
    store, answers = open_session_store(None, tmp_path, hours=1), threading.Event()
    try:
        for work in (store.read, store.write):
            with pytest.raises(StoreError, match="the database has not answered for 5 seconds"):
                await work(lambda _: answers.wait(30))
    finally:
        answers.set()
        await store.close()


async def test_a_call_waits_for_counters_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "ANSWER_SECONDS", 0.05)
    with closing(open_database(None, tmp_path)) as database, database.engine.connect() as other:
        other.exec_driver_sql("DELETE FROM counters")  # locks the file: nobody else can write
        with closing(SqlCounters(database)) as counting:
            with pytest.raises(StoreError, match="the database has not answered for 5 seconds"):
                await counting.add("calls", 1, datetime.now(UTC))
            other.rollback()
            monkeypatch.undo()
            assert await counting.add("calls", 1, datetime.now(UTC)) >= 1
