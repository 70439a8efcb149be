"""The index is made from the records, by whoever comes first, and follows them when they go."""

import json
from pathlib import Path

import pytest
from sqlalchemy import delete, func, insert, select, update
from support.gateway.audits import audited_gateway, entries_of, ledger_in, opened, record_of
from support.gateway.databases import postgres
from support.gateway.indexed import BEGAN, PAUSE, Indexed, indexed_audit, varied
from support.gateway.life import until
from support.gateway.loopback import running_upstream
from support.wire import HI, UNARY, post

from hookgate.proxy.audit.index import building
from hookgate.proxy.audit.index.building import open_index
from hookgate.proxy.audit.index.facts import facts_of
from hookgate.proxy.audit.index.query import parse_query
from hookgate.proxy.audit.index.searching import CallSearch
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import INDEX_FILE
from hookgate.proxy.store.models import INDEX_TABLES, audit_index, audit_names, audit_records

EVERY = parse_query([])


def rows_in(audit: Indexed) -> dict[str, int]:
    """The number of rows in each table of the index."""
    with audit.index.database.engine.begin() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in INDEX_TABLES
        }


async def test_a_gateway_indexes_its_calls(tmp_path: Path) -> None:
    async with running_upstream() as (upstream, _), audited_gateway(upstream, tmp_path) as gateway:
        await post(gateway.url, UNARY, HI)
        with opened(tmp_path) as database, open_index(database, None, tmp_path) as index:
            search = CallSearch(index)
            await until(lambda: len(search.places(EVERY, 10)) == 1)


def test_an_index_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with indexed_audit(tmp_path, 30) as audit:
        assert audit.index.update(60)
        before = rows_in(audit), audit.find(EVERY)
        audit.index.clear()
        assert audit.find(EVERY) == []
        assert audit.index.backlog() == 60
        assert audit.index.update(60)
        assert (rows_in(audit), audit.find(EVERY)) == before
    (tmp_path / INDEX_FILE).unlink()
    with opened(tmp_path) as database, open_index(database, None, tmp_path) as index:
        assert index.update(60)
        assert index.backlog() == 0


def test_two_processes_index_each_call_once(tmp_path: Path) -> None:
    with indexed_audit(tmp_path, 10) as audit, open_index(audit.database, None, tmp_path) as other:
        for number in range(10, 40, 3):
            for each in range(number, number + 3):
                audit.add(*varied(each))
            assert (other if number % 2 else audit.index).update(60)
        assert sorted(audit.find(EVERY)) == sorted(audit.facts)


def test_calls_whose_records_retention_removed_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_REMOVED", 7)
    with indexed_audit(tmp_path, 60) as audit:
        assert audit.index.update(60)
        monkeypatch.setattr("hookgate.proxy.audit.retention.now", lambda: BEGAN + 3 * 24 * 3_600_000)
        kept = [id_ for id_, call in audit.facts.items() if call.at >= BEGAN + 40 * PAUSE]
        days = 3 - 40 * PAUSE / (24 * 3_600_000)
        while audit.ledger.retain(Retention(days=days)):
            pass
        assert audit.index.update(60)
        assert sorted(audit.find(EVERY)) == sorted(kept)
        total = audit.reports.report(EVERY, ["team"], 10).total
        assert total[0] == len(kept)
        with audit.index.database.engine.begin() as connection:
            sessions = select(audit_names.c.name).where(audit_names.c.field == "session")
            assert "s000" not in connection.execute(sessions).scalars().all()
        audit.add(*varied(60))  # names that were removed get new numbers
        assert audit.index.update(60)
        assert len(audit.find(parse_query(["session:s015"]))) == 1


def test_the_index_of_other_records_is_made_again(tmp_path: Path) -> None:
    """For example after a backup was restored, or the audit was begun anew."""
    with indexed_audit(tmp_path, 20) as audit:
        assert audit.index.update(60)
        with audit.database.engine.begin() as connection:
            connection.execute(delete(audit_records).where(audit_records.c.position > 10))
        assert audit.index.update(60)
        assert len(audit.find(EVERY)) == 5


def test_an_older_index_is_made_again_and_a_newer_one_is_left_alone(tmp_path: Path) -> None:
    with indexed_audit(tmp_path, 5) as audit:
        assert audit.index.update(60)
        with audit.index.database.engine.begin() as connection:
            connection.execute(update(audit_index).values(version=building.VERSION - 1))
        assert audit.index.update(60)
        assert len(audit.find(EVERY)) == 5
        with audit.index.database.engine.begin() as connection:
            connection.execute(update(audit_index).values(version=building.VERSION + 1))
        with pytest.raises(StoreError, match="made by a newer version"):
            audit.index.update(60)


def test_records_that_are_committed_late_are_indexed(tmp_path: Path) -> None:
    """Of two writers, the one that took the lower positions may commit them later."""
    with postgres() as url, indexed_audit(tmp_path, 0, url) as audit:
        with ledger_in(audit.database, tmp_path / "other") as other:
            late, early = (entries_of(record_of(number, id=f"{number:032x}")) for number in (1, 2))
            audit.ledger.write(late)
            with audit.database.engine.begin() as connection:
                ends = audit_records.c.outcome.is_not(None)
                [row] = connection.execute(select(audit_records).where(ends)).mappings()
                connection.execute(delete(audit_records).where(ends))
            other.write(early)
        assert audit.index.update(60)
        assert audit.find(EVERY) == [f"{2:032x}"]
        with audit.database.engine.begin() as connection:
            connection.execute(insert(audit_records).values(**row))
        audit.ledger.write(entries_of(record_of(3, id=f"{3:032x}")))
        assert audit.index.update(60)
        assert sorted(audit.find(EVERY)) == [f"{number:032x}" for number in (1, 2, 3)]


def test_a_damaged_record_keeps_no_other_from_being_found(tmp_path: Path) -> None:
    with indexed_audit(tmp_path, 4) as audit:
        with audit.database.engine.begin() as connection:
            connection.execute(
                update(audit_records).where(audit_records.c.position == 4).values(body=b"\x00")
            )
        assert audit.index.update(60)
        assert len(audit.find(EVERY)) == 4


@pytest.mark.parametrize("server", [False, True], ids=["sqlite", "postgresql"])
def test_no_record_is_too_strange_for_the_index(server: bool, tmp_path: Path) -> None:
    strange = {
        "session": {"id": "\x00\ud800" + "x" * 5000, "key": ["no text"], "team": 7},
        "model": "a\x00b",
        "usage": {"input_tokens": 10**400, "output_tokens": -5, "cost": "many"},
        "timings": [],
        "hooks": [7, {"hook": None, "findings": {f"kind-{n}\x00": 2**70 for n in range(500)}, "runs": True}],
        "blocked": [{"tool": {"no": "name"}, "hooks": "none"}],
        "reasons": {"BeforeModel": "\udfff" * 900},
    }
    start, end = varied(1)
    entries = [start, end._replace(body={**end.body, **strange})]
    if server:
        with postgres() as url, indexed_audit(tmp_path, 0, url) as audit:
            audit.ledger.write(entries)
            assert audit.index.update(60)
            assert len(audit.find(EVERY)) == 1
        return
    with indexed_audit(tmp_path, 0) as audit:
        audit.ledger.write(entries)
        assert audit.index.update(60)
        assert len(audit.find(EVERY)) == 1
        assert json.dumps(audit.reports.report(EVERY, ["found"], 10).rows)


def test_facts_are_read_from_a_receipt_as_well() -> None:
    _, end = varied(2)
    assert facts_of(end.at, end.body).names["outcome"] == end.body["outcome"]
