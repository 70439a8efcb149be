"""The audit of a gateway while it runs: its database, its writer, and those that died before it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from hookgate.proxy.audit.content import Contents
from hookgate.proxy.audit.errors import AuditError
from hookgate.proxy.audit.heads import HeadsFile
from hookgate.proxy.audit.jsonl import Lines
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.living import locks_of
from hookgate.proxy.audit.recovery import Recovery, recover
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.audit.trail import Audit
from hookgate.proxy.audit.writer import Writer
from hookgate.proxy.config.recording import Audit as Settings
from hookgate.proxy.store.database import FAILURES, Database, open_audit, reason
from hookgate.proxy.store.errors import StoreError
from hookgate.proxy.wording import counted, why

_LOOK_SECONDS = 10.0
"""Between two looks for writers that have died."""

log = logging.getLogger("hookgate.audit")


@asynccontextmanager
async def audited(settings: Settings, url: str | None, state: Path) -> AsyncIterator[Audit | None]:
    """Put calls on record for as long as the block runs; None where that is switched off.

    Raises StoreError or OSError when that cannot be begun. At the end all that is left is written.
    """
    if not settings.enabled:
        yield None
        return
    async with AsyncExitStack() as stack:
        database = await asyncio.to_thread(open_audit, url, state, writes=True)
        stack.push_async_callback(asyncio.to_thread, database.close)
        locks = locks_of(database, state)
        stack.callback(locks.close)
        lines = _lines(settings.jsonl) if settings.jsonl else None
        if lines is not None:
            stack.push_async_callback(asyncio.to_thread, lines.close, settings.deadline)
        ledger = Ledger(database, locks, lines.add if lines else None, HeadsFile(state))
        registration = await asyncio.to_thread(_registered, ledger, database)
        if lines is not None:
            lines.begin(registration)
        writer = Writer(ledger, settings.deadline, _retention(settings))
        writer.start()
        stack.push_async_callback(asyncio.to_thread, writer.close, settings.deadline)
        contents = Contents(settings.content)
        stack.push_async_callback(asyncio.to_thread, contents.close)
        await stack.enter_async_context(_recovering(database, state, writer, ledger.number))
        yield Audit(writer, contents)


def _lines(path: Path) -> Lines:
    try:
        return Lines(str(path))
    except OSError as error:
        remedy = "check the path and its permissions"
        raise StoreError(f"audit.jsonl: {path}: cannot be written: {why(error)}; {remedy}") from None


def _registered(ledger: Ledger, database: Database) -> dict[str, object]:
    try:
        return ledger.register()
    except FAILURES as error:
        raise StoreError(f"the audit {database.name} cannot be written: {reason(error)}") from None


def _retention(settings: Settings) -> Retention | None:
    if settings.retention_days is None and settings.retention_bytes is None:
        return None
    return Retention(settings.retention_days, settings.retention_bytes)


@asynccontextmanager
async def _recovering(database: Database, state: Path, writer: Writer, own: int) -> AsyncIterator[None]:
    """End the calls of writers that have died: before anything else, and as long as the block runs."""
    locks = locks_of(database, state)
    recovery = Recovery(database, locks, patience=0 if database.is_file else 1)

    async def look() -> None:
        try:
            if found := await recover(recovery, locks, writer, own):
                ended = counted(found, "gateway")
                log.warning("%s had ended without a word: the calls are marked as such", ended)
        except (AuditError, *FAILURES) as error:
            log.warning("calls of gateways that have died cannot be marked yet: %s", error)

    async def watch() -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await look()

    await look()
    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(locks.close)
