"""Ends the chains of writers that have died, whose calls are then marked as interrupted."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

from sqlalchemy import select

from hookgate.proxy.audit.chain import AuditError, Entry, audit_entry, interrupted_entry
from hookgate.proxy.audit.ledger import Locks, writer_locks
from hookgate.proxy.audit.stored import chain_tip, record_body
from hookgate.proxy.audit.writer import Writer
from hookgate.proxy.errors import pluralize
from hookgate.proxy.store.database import FAILURES, Database
from hookgate.proxy.store.models import audit_open, audit_records, audit_writers

log = logging.getLogger("hookgate.audit")


class Recovery:
    """Finds writers that have died. Every method may raise database errors."""

    def __init__(self, database: Database, locks: Locks, patience: int) -> None:
        """Create a recovery.

        A writer counts as dead if its lock is free in more than `patience` successive checks: a running
        writer that lost its connection acquires the lock again.
        """
        self._database, self._locks, self._patience = database, locks, patience
        self._free: dict[int, int] = {}

    def dead(self, own: int) -> list[int]:
        """Return the numbers of the dead writers, and acquire their locks."""
        with self._database.engine.begin() as connection:
            query = select(audit_writers.c.number).where(
                audit_writers.c.ended == "", audit_writers.c.number != own
            )
            numbers = list(connection.execute(query).scalars())
        with ExitStack() as held:
            dead: list[int] = []
            for number in numbers:
                if self._is_dead(number):
                    held.callback(self._locks.release, number)
                    dead.append(number)
            held.pop_all()
        return dead

    def ends(self, number: int) -> Sequence[Entry]:
        """Return the entries to write for a dead writer: the ends of its calls, and the end of its chain."""
        with self._database.engine.begin() as connection:
            ended = select(audit_writers.c.ended).where(audit_writers.c.number == number)
            if connection.execute(ended).scalar_one():
                return ()
            tip = chain_tip(connection, number)
            open_ids = select(audit_open.c.id).where(audit_open.c.writer == number)
            starts = select(audit_records.c.id, audit_records.c.body).where(
                audit_records.c.id.in_(open_ids), audit_records.c.type == "start"
            )
            ends = [
                interrupted_entry(row.id.hex(), record_body(row.body), number)
                for row in connection.execute(starts)
            ]
        seq, tip_hash = tip or (0, None)
        event = audit_entry("recovered", writer=number, seq=seq, hash=tip_hash, interrupted=len(ends))
        return (*ends, event)

    def _is_dead(self, number: int) -> bool:
        if not self._locks.acquire(number):
            self._free.pop(number, None)
            return False
        times = self._free[number] = self._free.get(number, 0) + 1
        if times > self._patience:
            del self._free[number]
            return True
        self._locks.release(number)
        return False


async def recover(recovery: Recovery, locks: Locks, writer: Writer, own: int) -> int:
    """Close the chains of all dead writers, and return how many there were.

    Raises AuditError or a database error if that fails. Their locks are then released for the next attempt,
    except that of a writer whose ends are still being written: they must not be written twice.
    """
    dead = await asyncio.to_thread(recovery.dead, own)
    held = set(dead)
    try:
        for number in dead:
            if entries := await asyncio.to_thread(recovery.ends, number):
                await writer.append(*entries)
    except AuditError as error:
        if error.under_way:
            held.remove(number)
        raise
    finally:
        async with AsyncExitStack() as releasing:
            for number in held:
                releasing.push_async_callback(asyncio.to_thread, locks.release, number)
    return len(dead)


_RECOVERY_SECONDS = 10.0
"""Seconds between two checks for dead writers."""


@asynccontextmanager
async def recovering(database: Database, state: Path, writer: Writer, own: int) -> AsyncIterator[None]:
    """Recover writers that have died, first at once and then at intervals while the block runs."""
    locks = writer_locks(database, state)
    recovery = Recovery(database, locks, patience=0 if database.is_file else 1)

    async def recover_dead_writers() -> None:
        try:
            if count := await recover(recovery, locks, writer, own):
                gateways = pluralize(count, "gateway")
                log.warning("%s ended unexpectedly; open calls are marked as interrupted", gateways)
        except (AuditError, *FAILURES) as error:
            log.warning("calls of gateways that ended unexpectedly cannot be marked yet: %s", error)

    async def watch() -> None:
        while True:
            await asyncio.sleep(_RECOVERY_SECONDS)
            await recover_dead_writers()

    await recover_dead_writers()
    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(locks.close)
