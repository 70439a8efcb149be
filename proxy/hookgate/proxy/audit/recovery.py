"""Ends the chains of writers that have died, whose calls are then marked as interrupted."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from pathlib import Path

from sqlalchemy import Connection, select

from hookgate.proxy.audit.chain import AuditError, Entry, audit_entry, interrupted_entry
from hookgate.proxy.audit.journal import FOLDER, LeftJournal, journal_path, read_journal
from hookgate.proxy.audit.locks import Locks, writer_locks
from hookgate.proxy.audit.stored import chain_tip, insert_records, note_ends, record_body
from hookgate.proxy.audit.writer import Writer
from hookgate.proxy.errors import StoreError, pluralize
from hookgate.proxy.store.database import FAILURES, Database
from hookgate.proxy.store.models import audit_open, audit_records, audit_writers
from hookgate.translator.strictjson import loads

log = logging.getLogger("hookgate.audit")


class Recovery:
    """Finds writers that have died. Every method may raise database errors."""

    def __init__(self, database: Database, locks: Locks, state: Path, patience: int) -> None:
        """Create a recovery. Journals are in the state folder `state`.

        A writer counts as dead if its lock is free in more than `patience` successive checks: a running
        writer that lost its connection acquires the lock again.
        """
        self._database, self._locks, self._state, self._patience = database, locks, state, patience
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
            held.pop_all()  # nothing has failed, so the locks stay acquired
        return dead

    def ends(self, number: int) -> Sequence[Entry]:
        """Return the entries to write for a dead writer: the ends of its calls, and the end of its chain.

        Its journal is moved to the database first. Raises StoreError if the journal cannot be read.
        """
        with self._database.engine.begin() as connection:
            journal = _save_journal(connection, self._state, number)
            ended = select(audit_writers.c.ended).where(audit_writers.c.number == number)
            tip = chain_tip(connection, number)
            open_ids = select(audit_open.c.id).where(audit_open.c.writer == number)
            starts = select(audit_records.c.id, audit_records.c.body).where(
                audit_records.c.id.in_(open_ids), audit_records.c.type == "start"
            )
            ends = [
                interrupted_entry(row.id.hex(), record_body(row.body), number)
                for row in connection.execute(starts)
            ]
            has_ended = bool(connection.execute(ended).scalar_one())
        journal.remove()
        if has_ended:
            return ()
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


def _save_journal(connection: Connection, state: Path, number: int) -> LeftJournal:
    """Insert the records that are only in a dead writer's journal, and return the journal."""
    query = select(audit_writers.c.document, audit_writers.c.hash).where(audit_writers.c.number == number)
    document, own_hash = connection.execute(query).one()
    path = journal_path(state, str(loads(document)["writer"]))
    seq, tip = chain_tip(connection, number) or (0, own_hash.hex())
    journal = read_journal(path, seq, tip)
    if journal.records:
        insert_records(connection, number, journal.records)
        note_ends(connection, journal.records)
    return journal


def save_journals(database: Database, state: Path) -> None:
    """Move the journals of writers that have died to the database, for a command that reads it.

    Their chains stay open until a gateway recovers them. Raises StoreError or a database error.
    """
    if not database.is_file or not any((state / FOLDER).glob("*.journal")):
        return
    with closing(writer_locks(database, state)) as locks:
        with database.writing.begin() as connection:
            query = select(audit_writers.c.number).where(audit_writers.c.ended == "")
            dead = [number for number in connection.execute(query).scalars() if locks.acquire(number)]
            journals = [_save_journal(connection, state, number) for number in dead]
        for journal in journals:
            journal.remove()


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
    recovery = Recovery(database, locks, state, patience=0 if database.is_file else 1)

    async def recover_dead_writers() -> None:
        try:
            if count := await recover(recovery, locks, writer, own):
                gateways = pluralize(count, "gateway")
                log.warning("%s ended unexpectedly; open calls are marked as interrupted", gateways)
        except (AuditError, StoreError, *FAILURES) as error:
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
