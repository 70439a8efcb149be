"""Audits for tests: recorded calls, writers, and the content of a database."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.gateway.loopback import upstreams_at, write_settings

from hookgate.hooks import Engine, SessionContext, load_settings
from hookgate.proxy.app import serve_on
from hookgate.proxy.audit.entries import end_entry, start_entry
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.locks import writer_locks
from hookgate.proxy.audit.reading import AuditReader
from hookgate.proxy.audit.trail import Audit, open_audit_trail
from hookgate.proxy.audit.verifying import VerificationReport, verify_database
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config
from hookgate.proxy.config.models import AuditSettings as Settings
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.store.database import Database, open_audit


def record_of(number: int = 0, **changes: Any) -> CallRecord:
    """A call as it is known when it has ended, with two hooks."""
    record = CallRecord(
        request_id=f"request-{number}",
        kind="judged",
        route="/v1beta/models/gemini-2.5-flash:generateContent",
        session=SessionContext(f"{number // 20:032x}", client="google-genai-sdk", key="alice", team="search"),
        model="gemini-2.5-flash",
        revision="4b9f7d802648",
        request_bytes=5120 + number % 977,
        usage=Usage(1200 + number % 83, 80 + number % 57, 0),
        before_seconds=0.0012 + number % 71 / 1e5,
        first_seconds=0.65,
    )
    for event, hook, kind in (
        ("BeforeModel", "no-secrets", "builtin:redact"),
        ("AfterModel", "tone", "http"),
    ):
        tally = HookTally(event, hook, kind, "enforce", runs=1, bytes=5120, seconds=0.0007)
        tally.decisions["allow"] = 1
        record.hooks[event, hook] = tally  # type: ignore[index]  # a hook's name is as good as the hook
    for name, value in changes.items():
        setattr(record, name, value)
    record.end(200, 990 + number % 311)
    return record


def entries_of(*records: CallRecord) -> list[Any]:
    """Start and end of each call."""
    entries = []
    for record in records:
        start = start_entry(record)
        entries += [start, end_entry(record, make_receipt(record), start.body)]
    return entries


@contextmanager
def opened(state: Path, url: str | None = None) -> Iterator[Database]:
    """The audit's database, for writing."""
    state.mkdir(parents=True, exist_ok=True)
    database = open_audit(url, state, writes=True)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def ledger_in(database: Database, state: Path) -> Iterator[Ledger]:
    """A writer's chain, registered; nothing closes it."""
    locks = writer_locks(database, state)
    ledger = Ledger(database, locks)
    ledger.register()
    try:
        yield ledger
    finally:
        locks.close()


def report_of(state: Path, url: str | None = None) -> VerificationReport:
    """What `hookgate audit verify` finds."""
    database = open_audit(url, state, writes=False)
    try:
        return verify_database(database, lambda done: None)
    finally:
        database.close()


@contextmanager
def reading(state: Path, url: str | None = None) -> Iterator[AuditReader]:
    """What the commands read with."""
    database = open_audit(url, state, writes=False)
    try:
        yield AuditReader(database)
    finally:
        database.close()


@dataclass(frozen=True)
class Audited:
    """A gateway whose calls are recorded."""

    url: str
    audit: Audit


@asynccontextmanager
async def audited_gateway(
    upstream_url: str,
    state: Path,
    hooks: dict[str, Any] | None = None,
    *,
    store: str | None = None,
    config: Config | None = None,
    **settings: Any,
) -> AsyncIterator[Audited]:
    """A gateway before any upstream, with the audit in `state`; `settings` are those of `[audit]`."""
    config = config or Config()
    (state / "hooks").mkdir(parents=True, exist_ok=True)
    engine = Engine(load_settings([write_settings(state / "hooks", hooks)] if hooks else []))
    async with (
        upstreams_at(upstream_url) as upstreams,
        open_audit_trail(Settings(**settings), store, state) as audit,
    ):
        assert audit is not None
        gateway = Gateway(engine, upstreams, config, audit=audit)
        async with serve_on(gateway.handle, "127.0.0.1", 0, config.limits) as url:
            yield Audited(url, audit)
