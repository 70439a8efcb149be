"""Measures the audit: rows written per second, bytes per call, and the time to read pages of a million rows.

Writing a million rows takes minutes. `python -m benchmarks.gateway` measures what the audit costs a gateway.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hookgate.hooks import SessionContext
from hookgate.proxy.audit.chain import Entry
from hookgate.proxy.audit.entries import end_entry, start_entry
from hookgate.proxy.audit.ledger import Ledger, writer_locks
from hookgate.proxy.audit.reading import AuditReader, RecordFilter
from hookgate.proxy.audit.verifying import verify_database
from hookgate.proxy.observe.record import CallRecord, HookTally, make_receipt
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.store.database import Database, open_audit

ROWS = 1_000_000
AT_ONCE = 200
LOOKS = 21


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _stored(Path(folder))


def _stored(state: Path) -> None:
    database = open_audit(None, state, writes=True)
    ledger = Ledger(database, writer_locks(database, state))
    ledger.register()
    ids, seconds = [], 0.0
    for first in range(0, ROWS // 2, AT_ONCE // 2):
        entries = [each for number in range(first, first + AT_ONCE // 2) for each in _call(number)]
        ids.append(entries[0].id)
        began = time.perf_counter()
        ledger.write(entries)
        seconds += time.perf_counter() - began
    ledger.close()
    size = sum(path.stat().st_size for path in state.glob("audit.db"))
    print(f"audit: {ROWS} rows, {AT_ONCE} in a transaction: {ROWS / seconds:.0f} rows/s")
    print(f"  {size / (ROWS // 2):.0f} bytes per call with two hooks, including indexes")
    _read(database, ids)
    began = time.perf_counter()
    assert verify_database(database, lambda done: None).sound
    print(f"  verified in {time.perf_counter() - began:.0f} s\n")
    database.close()


def _read(database: Database, ids: list[str]) -> None:
    reading = AuditReader(database)
    middle = reading.last() // 2
    looks: dict[str, Callable[[], Any]] = {
        "the newest page": lambda: reading.calls(RecordFilter()),
        "a page in the middle": lambda: reading.calls(RecordFilter(), before=middle),
        "a session's page": lambda: reading.calls(RecordFilter(session=f"{1234:032x}")),
        "a key's page, by outcome": lambda: reading.calls(RecordFilter(key="alice", outcome="denied")),
        "denied calls of a model": lambda: reading.calls(
            RecordFilter(model="gemini-2.5-flash", outcome="denied")
        ),
        "a page without calls": lambda: reading.calls(RecordFilter(key="nobody", model="gemini-2.5-flash")),
        "one call": lambda: reading.call(ids[len(ids) // 2]),
        "calls in progress": reading.running,
    }
    for name, look in looks.items():
        took = [_timed(look) for _ in range(LOOKS)]
        print(f"  {name:26} {statistics.median(took):7.2f} ms, at most {max(took):7.2f}")


def _timed(look: Callable[[], Any]) -> float:
    began = time.perf_counter()
    look()
    return (time.perf_counter() - began) * 1000


def _call(number: int) -> tuple[Entry, Entry]:
    record = CallRecord(
        request_id=f"{number * 7919:032x}",
        kind="judged",
        route="/v1beta/models/gemini-2.5-flash:generateContent",
        session=SessionContext(f"{number // 20:032x}", client="google-genai-sdk", key="alice", team="search"),
        model="gemini-2.5-flash",
        revision="4b9f7d802648",
        request_bytes=5120 + number % 977,
        usage=Usage(1200 + number % 83, 80 + number % 57, 0),
        before_seconds=0.0012 + number % 71 / 1e5,
        first_seconds=0.65 + number % 6007 / 1e6,
        outcome="denied" if number % 5000 == 0 else None,
    )
    for event, hook, kind in (
        ("BeforeModel", "no-secrets", "builtin:redact"),
        ("AfterModel", "tone", "http"),
    ):
        tally = HookTally(event, hook, kind, "enforce", 1, 5120, 0.0007 + number % 97 / 1e6)
        tally.decisions["allow"] = 1
        record.hooks[event, hook] = tally  # type: ignore[index]  # any hashable key will do
    record.end(200, 990 + number % 311)
    start = start_entry(record)
    return start, end_entry(record, make_receipt(record), start.body)


if __name__ == "__main__":
    main()
