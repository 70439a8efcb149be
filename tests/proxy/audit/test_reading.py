"""Queries of the audit's records: pages, new calls, and calls by the first digits of an ID."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, update
from support.gateway.audits import entries_of, ledger_in, opened, reading, record_of
from support.gateway.databases import postgres

from hookgate.hooks import SessionContext
from hookgate.proxy.audit import reading as queries
from hookgate.proxy.audit.chain import Columns, audit_entry
from hookgate.proxy.audit.entries import event_entry
from hookgate.proxy.audit.reading import AuditReader, NewCalls
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.store.models import audit_records, audit_writers

BEGAN, PAUSE = 1_750_000_000_000, 40_000  # milliseconds; a record may be a minute older than one before it
CALLS = [
    Columns(session, key, model, outcome)
    for (session, key), (model, outcome) in product(
        [("s-one", "alice"), ("s_one", "bob"), ("S-two", "Alice-2"), ("", "bob")],
        [("gemini-2.5-flash", "answered"), ("gemini-2.5-pro", "answered"), ("gemini-2.5-pro", "denied")],
    )
]
TIMES = [BEGAN + PAUSE * number for number in range(len(CALLS))]
RUNNING, EVENT, POLICY = "f" * 32, "e" * 32, "9" * 32


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditReader]:
    """Calls that ended one after another, then a shim's event, a change of the policy, and a running call."""
    state = tmp_path_factory.mktemp("state")
    with opened(state) as database, ledger_in(database, state) as chain:
        for number, (columns, at) in enumerate(zip(CALLS, TIMES, strict=True)):
            session = SessionContext(columns.session, key=columns.key)
            call = record_of(
                id=f"{number:032x}", model=columns.model, outcome=columns.outcome, session=session
            )
            start, end = entries_of(call)
            chain.write([start._replace(at=at - 1000), end._replace(at=at)])
        event = record_of(id=EVENT, kind="event", event="BeforeTool", session=SessionContext("s-event"))
        running, _ = entries_of(record_of(id=RUNNING))
        policy = audit_entry("policy")._replace(id=POLICY)
        own = audit_entry("retention")._replace(id="fffe" * 8)
        later = [event_entry(event, make_receipt(event)), policy, own, running]
        chain.write([entry._replace(at=TIMES[-1] + PAUSE) for entry in later])
        chain.close()
    with reading(state) as reader:
        yield reader


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_pages_contain_each_call_once_and_the_newest_first(limit: int, audit: AuditReader) -> None:
    every = audit.calls()
    pages, before = [], None
    while page := audit.calls(limit, before):
        assert len(page) <= limit
        pages += page
        before = page[-1].position
    assert pages == every
    assert len(every) == len(CALLS) + 1
    assert [call.at for call in every[1:]] == TIMES[::-1]


def test_calls_are_read_in_the_order_of_the_positions(audit: AuditReader) -> None:
    every = audit.calls()
    wanted = [every[each].position for each in (3, 0, 7)]
    assert audit.at_positions([*wanted, 10**9]) == [every[3], every[0], every[7]]


def test_new_calls_are_those_that_ended_since_with_the_oldest_first(tmp_path: Path) -> None:
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        new = NewCalls(database)
        assert new.read() == []
        for ids in (["a"], ["b", "c"]):
            ledger.write(entries_of(*(record_of(id=each * 32) for each in ids)))
            assert [call.id[0] for call in new.read()] == ids
        assert [call.id[0] for call in NewCalls(database).read()] == []
        ledger.close()


def test_calls_that_are_committed_late_are_new_calls(tmp_path: Path) -> None:
    """Of two writers, the one that took the lower positions may commit them later."""
    with postgres() as url, opened(tmp_path, url) as database:
        new = NewCalls(database)
        with ledger_in(database, tmp_path / "late") as late, ledger_in(database, tmp_path / "other") as other:
            late.write(entries_of(record_of(id="a" * 32)))
            with database.engine.begin() as connection:
                kept = connection.execute(select(audit_records).where(audit_records.c.outcome.is_not(None)))
                [row] = kept.mappings()
                connection.execute(delete(audit_records).where(audit_records.c.position == row["position"]))
            other.write(entries_of(record_of(id="b" * 32)))
            assert [call.id[0] for call in new.read()] == ["b"]
            with database.engine.begin() as connection:
                connection.execute(insert(audit_records).values(**row))
            assert [call.id[0] for call in new.read()] == ["a"]
            assert new.read() == []


def test_an_event_is_a_call_without_a_start(audit: AuditReader) -> None:
    event, call = audit.calls(limit=2)
    assert (event.id, event.type, event.start, event.session) == (EVENT, "event", None, "s-event")
    assert (call.type, call.session, call.key, call.outcome) == ("end", *CALLS[-1][:2], "denied")
    assert call.start is not None
    assert call.start["model"] == call.model == CALLS[-1].model


def test_a_call_that_runs_has_no_end_yet(audit: AuditReader) -> None:
    assert [(call.id, call.at) for call in audit.running()] == [(RUNNING, TIMES[-1] + PAUSE)]
    detail = audit.call(RUNNING)
    assert detail is not None
    assert detail.start is not None
    assert (detail.end, queries.receipt_of(detail)) == (None, None)
    assert audit.call("d" * 32) is None


@pytest.mark.parametrize(
    ("prefix", "limit", "expected"),
    [
        ("0" * 31, 20, [f"{number:032x}" for number in range(len(CALLS))]),
        ("0", 3, [f"{number:032x}" for number in range(3)]),
        (f"{3:032x}", 20, [f"{3:032x}"]),
        ("ff", 20, [RUNNING]),
        ("fe", 20, []),
        ("fffe", 20, []),
        ("eee", 20, [EVENT]),
        ("999", 20, [POLICY]),
    ],
)
def test_the_beginning_of_an_id_finds_the_calls_that_have_it(
    prefix: str, limit: int, expected: list[str], audit: AuditReader
) -> None:
    assert audit.ids(prefix, limit) == expected


def test_a_receipt_is_put_together_from_the_records_of_a_call(audit: AuditReader) -> None:
    record = record_of(id=f"{0:032x}", model="gemini-2.5-flash", session=SessionContext("s-one", key="alice"))
    detail = audit.call(record.id)
    assert detail is not None
    receipt = queries.receipt_of(detail)
    assert receipt is not None
    measured = {"began", "timings"}
    expected = {name: value for name, value in make_receipt(record).items() if name not in measured}
    assert {name: receipt[name] for name in expected} == expected
    assert receipt["began"] == "2025-06-15T15:06:39.000Z"
    assert not {"client_gone", "reasons", "writer", "request_bytes", "answer_bytes"} & receipt.keys()


def test_of_a_call_only_the_registration_of_its_own_writer_is_read(tmp_path: Path) -> None:
    """A receipt costs the same after thousands of restarts."""
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as other:
        with ledger_in(database, tmp_path) as ledger:
            start, *_ = ledger.write(entries_of(record_of()))
        with database.engine.begin() as connection:
            unreadable = update(audit_writers).where(audit_writers.c.number == other.number)
            connection.execute(unreadable.values(document=b"[]"))
    with reading(tmp_path) as audit:
        detail = audit.call(start.record.id)
    assert detail is not None
    assert detail.start is not None
    assert detail.start.record.writer == ledger.writer
