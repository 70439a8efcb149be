"""Calls that a writer began and cannot end, because it died: another one ends them in its own chain."""

import asyncio
from collections.abc import Sequence

from sqlalchemy import select

from hookgate.proxy.audit.entries import Entry, interrupted, own_event
from hookgate.proxy.audit.living import Locks
from hookgate.proxy.audit.packing import body_of
from hookgate.proxy.audit.rows import tip_of
from hookgate.proxy.audit.writer import Writer
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import AuditOpen, AuditRecord, AuditWriter


class Recovery:
    """Looks for writers that have died. Steps raise what a database raises."""

    def __init__(self, database: Database, locks: Locks, patience: int) -> None:
        """A writer is dead when its lock was free `patience` times before: a cut one takes it again."""
        self._database, self._locks, self._patience = database, locks, patience
        self._free: dict[int, int] = {}

    def dead(self, own: int) -> list[int]:
        """The writers to recover, each with its lock taken."""
        with self._database.engine.begin() as connection:
            query = select(AuditWriter.number).where(AuditWriter.ended == "", AuditWriter.number != own)
            numbers = list(connection.execute(query).scalars())
        return [number for number in numbers if self._is_dead(number)]

    def ends(self, number: int) -> Sequence[Entry]:
        """What is to be written of a dead writer: the ends of its calls, and where its chain ends."""
        with self._database.engine.begin() as connection:
            ended = select(AuditWriter.ended).where(AuditWriter.number == number)
            if connection.execute(ended).scalar_one():
                return ()
            tip = tip_of(connection, number)
            of_the_writer = select(AuditOpen.id).where(AuditOpen.writer == number)
            starts = select(AuditRecord.id, AuditRecord.body).where(
                AuditRecord.id.in_(of_the_writer), AuditRecord.type == "start"
            )
            found = [
                interrupted(row.id.hex(), body_of(row.body), number) for row in connection.execute(starts)
            ]
        seq, tip_hash = tip or (0, None)
        event = own_event("recovered", writer=number, seq=seq, hash=tip_hash, interrupted=len(found))
        return (*found, event)

    def _is_dead(self, number: int) -> bool:
        if not self._locks.take(number):
            self._free.pop(number, None)
            return False
        times = self._free[number] = self._free.get(number, 0) + 1
        if times > self._patience:
            del self._free[number]
            return True
        self._locks.free(number)
        return False


async def recover(recovery: Recovery, locks: Locks, writer: Writer, own: int) -> int:
    """Recover each writer that has died; gives how many. Raises AuditError and what a database raises."""
    dead = await asyncio.to_thread(recovery.dead, own)
    for number in dead:
        entries = await asyncio.to_thread(recovery.ends, number)
        if entries:
            await writer.append(*entries)
        await asyncio.to_thread(locks.free, number)
    return len(dead)
