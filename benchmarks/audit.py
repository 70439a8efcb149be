"""Measures the audit at scale: writing, finding and summing up calls, exporting and verifying.

A million records (500,000 calls of 60 people in 30 days) are written by the gateway's own writer, which takes
minutes. `python -m benchmarks.audit --url postgresql://…` uses a new database of a server, which it removes
afterwards; `--records 100000` takes less time. `python -m benchmarks.gateway` measures what the audit costs a
gateway.
"""

import argparse
import io
import random
import statistics
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text

from hookgate.hooks import SessionContext
from hookgate.proxy.alerts.measuring import Meter
from hookgate.proxy.alerts.rules import EvaluatedRule, read_alert_rules
from hookgate.proxy.audit.chain import Entry, now
from hookgate.proxy.audit.entries import end_entry, start_entry
from hookgate.proxy.audit.heads import read_heads
from hookgate.proxy.audit.index.building import CallIndex
from hookgate.proxy.audit.index.query import Query, parse_query
from hookgate.proxy.audit.index.reporting import Reports
from hookgate.proxy.audit.index.searching import CallSearch
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.locks import writer_locks
from hookgate.proxy.audit.reading import AuditReader
from hookgate.proxy.cli.audit import export_records
from hookgate.proxy.cli.audit_verifying import verified_database
from hookgate.proxy.config import AlertSettings
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.outcomes import CallOutcome
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.observe.record import BlockedOutput, CallRecord
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.store.database import Database, open_audit, open_audit_index

AT_ONCE = 200
LOOKS = 21
DAYS = 30
DAY = 24 * 3_600_000
PEOPLE = 60
TEAMS = ("web", "search", "data", "mobile", "platform", "research")
MODELS = ("gemini-2.5-flash", "gemini-2.5-flash", "gemini-2.5-pro", "gemini-2.0-flash-lite", "gpt-5-mini")
AGENTS = ("GeminiCLI", "claude-cli", "google-genai-sdk")

FILTERS = (
    "",
    "key:person-07",
    "owner:person-07",
    "team:web",
    "session:session-001234",
    "session:session-0012*",
    "model:flash",
    "model:gpt",
    "asked:pro",
    "agent:claude",
    "hook:no-secrets",
    "event:BeforeModel",
    "outcome:denied",
    "outcome:unanswered",
    "found:EMAIL",
    "tool:run_shell",
    "reason:number 77",
    "cost:>0.09",
    "tokens:>9k",
    "duration:>9s",
    "sort:cost",
    "sort:duration since:7d",
    "during:yesterday",
    "team:web outcome:denied hook:no-secrets since:7d",
    "team:web model:flash duration:>9.9s",
    "key:person-07 outcome:failed",
    "team:web reason:*nothing*",
)
REPORTS = (
    *("key", "owner", "team", "model", "asked", "agent", "outcome", "hour", "day", "session"),
    *("hook", "hook,event,team", "found", "found,owner,model", "team,day"),
)
REPORT_QUERIES = ("", "since:7d", "team:web")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a PostgreSQL server and a database to connect to (default: SQLite)")
    parser.add_argument("--records", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _database_url(given.url) as url:
        _measure(Path(folder), url, given.records // 2)


@contextmanager
def _database_url(server: str | None) -> Iterator[str | None]:
    """Yield the URL of a new database of a server, which is removed afterwards, or None."""
    if server is None:
        yield None
        return
    own = make_url(server).set(drivername="postgresql+psycopg")
    name = f"hookgate_bench_{time.time_ns()}"
    engine = create_engine(own, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield own.set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()


def _measure(state: Path, url: str | None, calls: int) -> None:
    database = open_audit(url, state, writes=True)
    ledger = Ledger(database, writer_locks(database, state))
    ledger.register()
    used = time.process_time()
    seconds = 0.0
    for first in range(0, calls, AT_ONCE // 2):
        entries = [each for number in range(first, first + AT_ONCE // 2) for each in _call(number, calls)]
        began = time.process_time()
        ledger.write(entries)
        seconds += time.process_time() - began
    ledger.close()
    print(f"written: {1e6 * seconds / calls:.0f} us of processor time per call")
    index = CallIndex(database, open_audit_index(url, state))
    used, began = time.process_time(), time.perf_counter()
    while index.is_behind():
        index.step()
    used, took = time.process_time() - used, time.perf_counter() - began
    print(f"indexed: {1e6 * used / calls:.0f} us of processor time per call, {took:.0f} s in all")
    _sizes(state, database, calls)
    reader, search, reports = AuditReader(database), CallSearch(index), Reports(index)
    _timed("one call", lambda: reader.call(_id(calls // 2)))
    _timed("a call by its first digits", lambda: reader.ids(_id(calls // 3)[:12], 2))
    _timed("the latest calls", lambda: reader.calls(50))
    _timed("calls in progress", reader.running)
    _timed("the latest changes", lambda: reader.changes_at(search.changes(None, 50)))
    _timed("heads", lambda: _heads(database))
    for each in FILTERS:
        _timed(f"list {each}", partial(_listed, reader, search, parse_query([each])))
    for groups in REPORTS:
        for each in REPORT_QUERIES:
            name = f"report by {groups} {each}"
            _timed(name, partial(reports.report, parse_query([each]), groups.split(","), 50))
    meter = Meter(index)
    for rule in _rules():
        _timed(f"rule {rule.name}", partial(meter.measure, rule, now()))
    for name, ago in (("first", DAYS - 1), ("middle", DAYS // 2), ("last", 1)):
        since = now() - ago * DAY
        used, out = time.process_time(), io.BytesIO()
        export_records(database, since, since + DAY, out)
        used, size = time.process_time() - used, len(out.getvalue()) / 1e6
        print(f"export of the {name} day: {used:.2f} s of processor time, {size:.1f} MB")
    used = time.process_time()
    assert verified_database(database, {}, state, quiet=True).sound
    print(f"verify: {1e6 * (time.process_time() - used) / calls / 2:.0f} us of processor time per record")
    index.database.close()
    database.close()


def _rules() -> list[EvaluatedRule]:
    """Return the rules of the example that count calls."""
    tables = tomllib.loads((Path(__file__).parents[1] / "examples" / "alerts.toml").read_text())["alerts"]
    rules = read_alert_rules(AlertSettings.model_validate(tables))
    return [rule for rule in rules if rule.query is not None]


def _listed(reader: AuditReader, search: CallSearch, query: Query) -> None:
    reader.at_positions([place.position for place in search.places(query, 50)])


def _heads(database: Database) -> None:
    with database.engine.begin() as connection:
        read_heads(connection)


def _sizes(state: Path, database: Database, calls: int) -> None:
    if database.is_file:
        sizes = {each.name: each.stat().st_size for each in state.glob("audit*.db")}
    else:
        with database.engine.begin() as connection:
            connection.execute(text("COMMIT"))
            connection.execute(text("ANALYZE"))
            query = "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables"
            sizes = {name: size for name, size in connection.execute(text(query)) if "audit" in name}
    for name, size in sorted(sizes.items()):
        print(f"size of {name}: {size / calls:.0f} bytes per call")


def _timed(name: str, look: Callable[[], Any]) -> None:
    """Print how long something takes, and its processor time in this process: with SQLite, all of it."""
    took, used = [], []
    for _ in range(LOOKS):
        began, began_used = time.perf_counter(), time.process_time()
        look()
        took.append((time.perf_counter() - began) * 1000)
        used.append((time.process_time() - began_used) * 1000)
    p95, used_p95 = (sorted(times)[int(0.95 * (LOOKS - 1))] for times in (took, used))
    median = statistics.median(took)
    print(f"{name:55} {median:7.1f} ms, p95 {p95:7.1f}; processor p95 {used_p95:7.1f}", flush=True)


def _id(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()[:32]


def _call(number: int, calls: int) -> tuple[Entry, Entry]:
    """Return the records of a call. Calls are spread over the days, most of them in working hours."""
    chance = random.Random(number)  # noqa: S311  # the same calls in each run
    person = number // 20 * 7919 % PEOPLE
    agent = AGENTS[person % len(AGENTS)]
    session = SessionContext(
        f"session-{number // 20:06}", client=agent, key=f"person-{person:02}", team=TEAMS[person % len(TEAMS)]
    )
    model = MODELS[person % len(MODELS)] if chance.random() < 0.8 else chance.choice(MODELS)
    fate = chance.random()
    outcome: CallOutcome | None
    outcome = "denied" if fate < 0.02 else "failed" if fate < 0.025 else "blocked" if fate < 0.03 else None
    record = CallRecord(
        id=_id(number),
        request_id=f"{number:032x}",
        kind="judged",
        route=f"/v1beta/models/{model}:generateContent",
        session=session,
        model=model,
        revision="4b9f7d802648",
        request_bytes=chance.randrange(2000, 200_000),
        usage=Usage(chance.randrange(9000), chance.randrange(1000), 0),
        before_seconds=0.0012,
        first_seconds=0.65,
        outcome=outcome,
    )
    record.cost = chance.random() / 10
    for event, hook, kind in (
        ("BeforeModel", "no-secrets", "builtin:redact"),
        ("BeforeModel", "models", "builtin:models"),
        ("AfterModel", "tone", "http"),
    ):
        tally = HookTally(event, hook, kind, "enforce", 1, 5120, chance.expovariate(500))
        tally.decisions["allow"] = 1
        if hook == "no-secrets" and chance.random() < 0.08:
            tally.findings[chance.choice(("EMAIL", "EMAIL", "IBAN", "API_KEY"))] = chance.randrange(1, 5)
            tally.edits.add("contents")
        if outcome == "denied" and hook == "no-secrets":
            tally.decisions = {"deny": 1}
            record.reasons[event] = f"the prompt contains a secret: number {chance.randrange(5000)}"
        record.hooks[event, hook] = tally  # type: ignore[index]  # any hashable key will do
    if outcome == "blocked":
        record.note_blocked(BlockedOutput("BeforeTool", ("tools",), "not on the list", "run_shell"))
    record.end(200, chance.randrange(500, 5000))
    record.seconds = chance.random() * 10
    day, within = divmod(number * DAYS / calls, 1)
    at = now() - int((DAYS - day) * DAY) + int(within * DAY)
    start = start_entry(record)._replace(at=at - int(record.seconds * 1000))
    return start, end_entry(record, make_receipt(record), start.body)._replace(at=at)


if __name__ == "__main__":
    main()
