"""One process at a time holds a lease, and another one takes it over once it is gone."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Table
from support.gateway.databases import postgres

from hookgate.proxy.store.database import Database, open_alerts
from hookgate.proxy.store.leases import Lease
from hookgate.proxy.store.models import alert_lease, exports

FIRST = {"begun": 0, "error": "", "error_at": 0, "missed": 0}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        with closing(open_alerts(None, tmp_path)) as opened:
            yield opened
        return
    with postgres() as url, closing(open_alerts(url, tmp_path)) as opened:
        yield opened


def lease(database: Database, holder: str, table: Table = alert_lease, name: str = "work") -> Lease:
    return Lease(database, table, name, holder, 60.0, FIRST if table is exports else {})


@pytest.mark.parametrize("table", [alert_lease, exports], ids=lambda table: str(table.name))
def test_only_one_process_holds_a_lease(database: Database, table: Table) -> None:
    one, other = lease(database, "one", table), lease(database, "other", table)
    assert one.take(60)
    assert not other.take(60)
    assert one.take(60), "its holder extends it"
    assert lease(database, "other", table, "other work").take(60)
    other.release()
    assert not other.take(60), "only its holder releases it"
    one.release()
    assert other.take(60)
    assert not one.take(60)


def test_a_lease_that_is_over_is_taken_by_another_process(database: Database) -> None:
    assert lease(database, "dead").take(-1)
    assert lease(database, "other").take(60)


def test_a_process_that_has_lost_its_lease_is_told_before_it_writes(database: Database) -> None:
    slow, other = lease(database, "slow"), lease(database, "other")
    assert slow.take(-1)
    with database.engine.begin() as connection:
        assert slow.keep(connection), "nobody else has taken it"
    assert other.take(60)
    with database.engine.begin() as connection:
        assert not slow.keep(connection)
        assert other.keep(connection)


def test_a_clock_that_was_set_back_keeps_nobody_from_taking_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_alerts(None, tmp_path)) as database:
        assert lease(database, "gone").take(60)
        before = time.time() - 3600
        monkeypatch.setattr("hookgate.proxy.store.leases.time.time", lambda: before)
        assert lease(database, "next").take(60)
