"""The thread that writes records. Records that arrive during a write are written together in the next one."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from sqlalchemy.exc import DBAPIError

from hookgate.proxy.audit.chain import AuditError, Entry
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import FAILURES, reason

log = logging.getLogger("hookgate.audit")

MAX_WAITING = 20_000
"""Records that may be queued; calls are refused while there are more."""

_BATCH = 1000
_PATIENCE = 0.01
"""Seconds that records are held back to share a write, if no call waits for them."""

_APART = 0.01
"""Seconds between the beginnings of two writes if several calls wait for them.

A write costs as much as the records of ten calls, so a gateway with many calls shares each among more.
"""


@dataclass(slots=True, eq=False)
class PendingEntries:
    """Entries that are written together, as records of the chain."""

    entries: tuple[Entry, ...]
    loop: asyncio.AbstractEventLoop | None = None
    """The event loop of the call that waits for the entries, or will do so; None if none does."""
    ended: bool = False
    """Whether the entries are on disk or have failed with `error`. Only the event loop changes it."""
    error: AuditError | None = None
    since: float = field(default_factory=time.monotonic)
    writing: bool = False
    withdrawn: bool = False
    waiters: list["asyncio.Future[None]"] = field(default_factory=list)

    @property
    def is_for_call(self) -> bool:
        """Whether a call waits for these entries, or will do so."""
        return self.loop is not None

    @property
    def is_awaited(self) -> bool:
        """Whether a task waits for these entries, and was not cancelled."""
        return not self.ended and not all(waiter.done() for waiter in self.waiters)

    def end(self, error: AuditError | None = None) -> None:
        """Wake the tasks that wait for these entries."""
        if not self.ended:
            self.ended, self.error = True, error
            for waiter in self.waiters:
                if not waiter.done():
                    waiter.set_result(None)


class Queue:
    """The queue of records. `batch` is being written, and is kept until the write has succeeded."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: deque[PendingEntries] = deque()
        self._count = 0
        self._closing: float | None = None
        self._check_requested = self._call_waits = self._idle = False
        self.batch: list[PendingEntries] = []

    @property
    def count(self) -> int:
        """The number of queued records, including those that are being written."""
        with self._condition:
            return self._count

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest of them in seconds."""
        with self._condition:
            oldest = self.batch[0] if self.batch else self._waiting[0] if self._waiting else None
            return time.monotonic() - oldest.since if oldest else 0.0

    @property
    def _urgent(self) -> bool:
        """Whether to write at once: a call waits, the queue is closing, or a batch is full."""
        closing = self._closing is not None
        return self._call_waits or self._check_requested or closing or len(self._waiting) > _BATCH

    # ---- for calls

    def put(self, pending: PendingEntries, *, bounded: bool) -> bool:
        """Add records. Returns False if they are `bounded` and the queue is full.

        If a call waits for them, call `flush` soon afterwards.
        """
        with self._condition:
            if bounded and self._count + len(pending.entries) > MAX_WAITING:
                return False
            self._waiting.append(pending)
            self._count += len(pending.entries)
            if self._idle and not pending.is_for_call:
                self._condition.notify()
        return True

    def flush(self) -> None:
        """Have the thread write the queued records at once, because calls wait for them."""
        with self._condition:
            self._call_waits = bool(self._waiting)
            self._condition.notify()

    def withdraw(self, pending: PendingEntries) -> bool:
        """Withdraw records. Returns False if they are being written already."""
        with self._condition:
            pending.withdrawn = not pending.writing
            return pending.withdrawn

    def request_check(self) -> None:
        """Make `take` return even if the queue is empty."""
        with self._condition:
            self._check_requested = True
            self._condition.notify()

    def close(self, until: float) -> None:
        """Close the queue. The remaining records may be written until `until`, on the monotonic clock."""
        with self._condition:
            self._closing = until
            self._condition.notify()

    # ---- for the thread that writes

    @property
    def closing(self) -> float | None:
        """The time until which remaining records may be written, or None if the queue is not closed."""
        return self._closing

    def take(self, within: float) -> bool:
        """Fill the batch if it is empty, within some seconds. Returns True after `request_check`."""
        with self._condition:
            if not self.batch:
                self._wait(within)
            room = 0 if self.batch else _BATCH
            while self._waiting and room > 0:
                pending = self._waiting.popleft()
                if pending.withdrawn:
                    self._count -= len(pending.entries)
                    continue
                pending.writing = True
                self.batch.append(pending)
                room -= len(pending.entries)
            check_requested, self._check_requested = self._check_requested, False
            self._call_waits = any(pending.is_for_call for pending in self._waiting)
        return check_requested

    def _wait(self, within: float) -> None:
        """Wait for records. Those that no call waits for wake the thread only if it has been idle."""
        self._condition.wait_for(lambda: self._urgent, _PATIENCE)
        if not self._waiting and not self._urgent:
            self._idle = True
            self._condition.wait_for(lambda: self._waiting or self._urgent, within)
            self._idle = False
            if self._waiting:
                self._condition.wait_for(lambda: self._urgent, _PATIENCE)

    def pop_written(self) -> list[PendingEntries]:
        """Remove and return the batch, which is on disk."""
        with self._condition:
            batch, self.batch = self.batch, []
            self._count -= sum(len(pending.entries) for pending in batch)
        return batch

    def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the queue is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closing is not None, seconds)


_FAILURES = (StoreError, *FAILURES)
"""The errors of a ledger."""

_RETRY_SECONDS = 0.25
"""Seconds to wait before retrying a failed write."""
_IDLE_SECONDS = 5.0

_CHECK_SECONDS = 5.0
"""Seconds between two checks of the lock while records are written. An idle writer checks it as well."""

_JOURNAL_SECONDS = 0.2
"""Seconds between two transactions that move records of the journal to the database."""

_HEAD_SECONDS = 5.0
"""Seconds between two saves of the chain's head."""

_RETENTION_SECONDS = 60.0
_RETENTION_PAUSES = 3
"""How many times as long as a removal the pause after it is, so that calls seldom wait for one."""

_LOST_SECONDS = 60.0
"""Seconds between two lines of the log about lost records."""


class Writer:
    """Writes records until it is closed."""

    def __init__(self, ledger: Ledger, deadline: float, retention: Retention | None = None) -> None:
        """Create a writer. `deadline` is the time in seconds that a call waits for its records."""
        self._ledger, self._deadline, self._retention = ledger, deadline, retention
        self._queue = Queue()
        self._unflushed = 0  # how often records were queued for calls since the last flush
        self._awaited: deque[tuple[float, PendingEntries]] = deque()
        """Records for which calls wait, with their deadlines in the time of the event loop, in order."""
        self._timer: asyncio.TimerHandle | None = None  # for the first of these deadlines
        self._next_flush = 0.0  # the time of the event loop
        self._check_at = 0.0
        self._journal_at = 0.0
        self._head_at = 0.0
        self._retain_at = 0.0
        self._log_lost_at = 0.0
        self._thread = threading.Thread(target=self._work, name="hookgate-audit", daemon=True)
        self.write_error: str | None = None
        """The reason why records cannot be written, or None."""
        self.failures = 0
        """The number of failed attempts to write."""
        self.written = 0
        """The number of records that were written."""
        self.lost = 0
        """The number of records that were not queued, because too many were waiting."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def queued(self) -> int:
        """The number of queued records, including those that are being written."""
        return self._queue.count

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest queued record in seconds."""
        return self._queue.lag_seconds

    @property
    def refusal_reason(self) -> str | None:
        """The reason for refusing calls, or None if calls are accepted."""
        if self.write_error is not None:
            return self.write_error
        if self.lag_seconds > self._deadline:
            return "the database is too slow"
        return None

    # ---- for calls

    async def append(self, *entries: Entry) -> None:
        """Write records together, and return when they are on disk. Raises AuditError if that fails.

        If the caller is cancelled, the records are still written.
        """
        await self.wait_for(self.queue(*entries))

    def queue(self, *entries: Entry) -> PendingEntries:
        """Queue records that are written together. Pass the result to `wait_for`.

        Raises AuditError if the records cannot be queued.
        """
        if refusal := self.refusal_reason:
            raise AuditError(refusal)
        loop = asyncio.get_running_loop()
        pending = PendingEntries(entries, loop)
        if not self._queue.put(pending, bounded=True):
            raise AuditError("too many records are waiting to be written")
        self._unflushed += 1
        if self._unflushed == 1:
            if (delay := self._next_flush - loop.time()) > 0:
                loop.call_later(delay, self._flush, loop)
            else:
                # Calls that arrive together queue their records within about one iteration of the event loop.
                # To wake the thread for each of them would cost more than to write the records.
                loop.call_soon(self._flush, loop)
        return pending

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the queued records written, and let those of further calls wait if several wait for these."""
        self._next_flush = loop.time() + _APART if self._unflushed > 1 else 0.0
        self._unflushed = 0
        self._queue.flush()

    async def wait_for(self, pending: PendingEntries) -> None:
        """Wait until records are on disk. Several tasks may wait for the same records.

        After the deadline, withdraws the records and raises AuditError.
        """
        if not pending.ended:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            pending.waiters.append(waiter)
            self._give_up_at_deadline(pending, loop)
            await waiter
        if pending.error is not None:
            raise pending.error

    def _give_up_at_deadline(self, pending: PendingEntries, loop: asyncio.AbstractEventLoop) -> None:
        """Give up records at the deadline. One timer serves all calls: nearly all records end long before."""
        while self._awaited and self._awaited[0][1].ended:
            self._awaited.popleft()
        self._awaited.append((loop.time() + self._deadline, pending))
        if self._timer is None:
            self._timer = loop.call_later(self._deadline, self._give_up_overdue, loop)

    def _give_up_overdue(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up the records whose deadline has passed, and set the timer for the next one."""
        self._timer = None
        while self._awaited:
            due, pending = self._awaited[0]
            if pending.is_awaited and due > loop.time():
                self._timer = loop.call_at(due, self._give_up_overdue, loop)
                return
            self._awaited.popleft()
            if pending.is_awaited:
                under_way = not self._queue.withdraw(pending)
                refusal = self.refusal_reason or "the database is too slow"
                pending.end(AuditError(refusal, under_way=under_way))

    def append_soon(self, *entries: Entry, bounded: bool = False) -> bool:
        """Queue records without waiting. Returns False if `bounded` ones find no room: they are lost."""
        queued = self._queue.put(PendingEntries(entries), bounded=bounded)
        if not queued:
            self._note_lost(len(entries))
        return queued

    def _note_lost(self, records: int) -> None:
        """Count records that are never written, and log it at most once in `_LOST_SECONDS`."""
        self.lost += records
        if time.monotonic() >= self._log_lost_at:
            log.error(
                "too many audit records are waiting: %d records of refused calls are lost so far", self.lost
            )
            self._log_lost_at = time.monotonic() + _LOST_SECONDS

    def request_check(self) -> None:
        """Schedule a check of whether records can be written. The check updates `refusal_reason`."""
        self._queue.request_check()

    def close(self, within: float) -> None:
        """Write the remaining records for up to `within` seconds, and close the chain."""
        self._queue.close(time.monotonic() + within)
        self._thread.join(within + 1)
        if left := self.queued:
            log.error("%d audit records could not be written: %s", left, self.write_error or "too slow")

    # ---- the thread

    def _work(self) -> None:
        while not self._finished():
            check_requested = self._queue.take(self._idle_seconds)
            try:
                self._step(check_requested=check_requested)
            except _FAILURES as error:
                self._note_failure(reason(error))
            except Exception as error:
                log.exception("audit records cannot be written; please report this")
                self._note_failure(type(error).__name__)

    def _finished(self) -> bool:
        closing = self._queue.closing
        if closing is None:
            return False
        if time.monotonic() > closing:
            return True
        if self._queue.count:
            return False
        try:
            self._ledger.close()
        except _FAILURES as error:
            log.warning("the audit's chain was not closed: %s", reason(error))
        return True

    @property
    def _idle_seconds(self) -> float:
        """How long to wait for records before something else is to be done."""
        if self.write_error is not None:
            return _RETRY_SECONDS
        idle = _JOURNAL_SECONDS if self._ledger.unsaved else _IDLE_SECONDS
        return idle if self._retention is None else min(idle, max(0.0, self._retain_at - time.monotonic()))

    def _step(self, *, check_requested: bool) -> None:
        """Write the batch, again on a new connection if the server cut the old one, and do what is due."""
        try:
            self._write(check_requested=check_requested)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            self._write(check_requested=check_requested)
        self._maintain()

    def _write(self, *, check_requested: bool) -> None:
        if self.write_error is not None:
            self._ledger.save()  # the database may have failed, which the journal would hide
        entries = [entry for pending in self._queue.batch for entry in pending.entries]
        if not entries or time.monotonic() >= self._check_at:
            self._ledger.check(writes=not entries and (check_requested or self.write_error is not None))
            self._check_at = time.monotonic() + _CHECK_SECONDS
        if not entries:
            self._note_success()
            return
        records = self._ledger.adopt_committed_attempt()
        if not records or records[0].record.id != entries[0].id:
            records = self._ledger.write(entries)
        self._note_success()
        self.written += len(records)
        batch = self._queue.pop_written()
        if any(new.is_about_audit for new in records):  # what it reports must be in the database with it
            self._ledger.save()
        _announce(batch)

    def _note_success(self) -> None:
        if self.write_error is not None:
            log.warning("audit records can be written again")
        self.write_error = None

    def _maintain(self) -> None:
        """Save the journal and the head of the chain, and apply retention, when they are due."""
        if time.monotonic() >= self._journal_at:
            self._ledger.save()
            self._journal_at = time.monotonic() + _JOURNAL_SECONDS
        if time.monotonic() >= self._head_at:
            self._ledger.save_head()
            self._head_at = time.monotonic() + _HEAD_SECONDS
        if self._retention is not None and time.monotonic() >= self._retain_at:
            began = time.monotonic()
            more = self._retain(self._retention)
            pause = (time.monotonic() - began) * _RETENTION_PAUSES if more else _RETENTION_SECONDS
            self._retain_at = time.monotonic() + pause

    def _retain(self, retention: Retention) -> bool:
        """Apply retention, and return whether there is more to remove. A failure does not refuse calls."""
        try:
            return self._ledger.retain(retention)
        except _FAILURES as error:
            log.error(
                "old audit records cannot be removed: %s; it is tried again every minute", reason(error)
            )
        except Exception:
            log.exception("old audit records cannot be removed; please report this")
        return False

    def _note_failure(self, error: str) -> None:
        self.failures += 1
        if self.write_error is None:
            log.error("audit records cannot be written, so calls are refused: %s", error)
        self.write_error = error
        self._queue.pause(_RETRY_SECONDS)


def _announce(batch: list[PendingEntries]) -> None:
    """Wake the calls that wait for these records, all at once."""

    def end() -> None:
        for pending in batch:
            pending.end()

    if loop := next((pending.loop for pending in batch if pending.loop is not None), None):
        with contextlib.suppress(RuntimeError):  # the event loop is closed, so no call waits
            loop.call_soon_threadsafe(end)
