"""One thread that writes records: what has come while it wrote goes to disk together, the next time.

A start that cannot be written in time is withdrawn, and its call refused. An end is never given up: it waits
in memory until the database takes it.
"""

import asyncio
import contextlib
import logging
import threading
import time

from hookgate.proxy.audit.entries import Entry
from hookgate.proxy.audit.errors import AuditError
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.retention import Retention
from hookgate.proxy.audit.waiting import Queue, Waiting
from hookgate.proxy.store.database import FAILURES, reason

_AGAIN_SECONDS = 0.25
"""Until what failed is tried again."""
_IDLE_SECONDS = 5.0
_KEEP_SECONDS = 5.0
"""Between two notes of how far the chain has come."""

_RETENTION_SECONDS = 60.0

log = logging.getLogger("hookgate.audit")


class Writer:
    """Writes records until it is closed."""

    def __init__(self, ledger: Ledger, deadline: float, retention: Retention | None = None) -> None:
        """`deadline` is in seconds."""
        self._ledger, self._deadline, self._retention = ledger, deadline, retention
        self._queue = Queue()
        self._keep_at = 0.0
        self._retain_at = 0.0
        self._thread = threading.Thread(target=self._work, name="hookgate-audit", daemon=True)
        self.problem: str | None = None
        """Why nothing can be written now."""
        self.failures = 0
        """How often writing has failed."""
        self.written = 0
        """Records that were written."""

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    @property
    def queued(self) -> int:
        """Records that wait, among them those that are being written."""
        return self._queue.count

    @property
    def lag_seconds(self) -> float:
        """How long the oldest of them has been waiting."""
        return self._queue.lag_seconds

    @property
    def trouble(self) -> str | None:
        """Why a call would be refused now; None when it would not."""
        if self.problem is not None:
            return self.problem
        if self.lag_seconds > self._deadline:
            return "the database is too slow"
        return None

    async def append(self, *entries: Entry) -> None:
        """Write records together; they are on disk when this returns. Raises AuditError.

        Who is cancelled meanwhile has them written all the same.
        """
        if trouble := self.trouble:
            raise AuditError(trouble)
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(_set, written)

        waiting = Waiting(entries, done)
        if not self._queue.put(waiting, bounded=True):
            raise AuditError("too many records wait to be written")
        try:
            async with asyncio.timeout(self._deadline):
                await written
        except TimeoutError:
            under_way = not self._queue.withdraw(waiting)
            why = self.trouble or "the database is too slow"
            raise AuditError(why, under_way=under_way) from None

    def append_soon(self, *entries: Entry, bounded: bool = False) -> bool:
        """Write records when it is their turn. False when they are `bounded` and there is no room."""
        return self._queue.put(Waiting(entries, patient=True), bounded=bounded)

    def look(self) -> None:
        """Find out soon whether records can be written, though there may be none: `trouble` tells."""
        self._queue.look()

    def close(self, within: float) -> None:
        """Write what is left, for so many seconds at most, and end the chain."""
        self._queue.close(time.monotonic() + within)
        self._thread.join(within + 1)
        if left := self.queued:
            log.error("%d audit records could not be written: %s", left, self.problem or "too slow")

    # ---- the thread

    def _work(self) -> None:
        while not self._finished():
            look = self._queue.take(_AGAIN_SECONDS if self.problem else _IDLE_SECONDS)
            try:
                self._write(look=look)
                self._tend()
            except FAILURES as error:
                self._failed(reason(error))
            except Exception as error:
                log.exception("audit records cannot be written; please report this")
                self._failed(type(error).__name__)

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
        except FAILURES as error:
            log.warning("the audit's chain was not closed: %s", reason(error))
        return True

    def _write(self, *, look: bool) -> None:
        entries = [entry for waiting in self._queue.batch for entry in waiting.entries]
        if not entries:
            self._ledger.check(writes=look or self.problem is not None)
            self._recovered()
            return
        records = self._ledger.written_after_all()
        if not records or records[0].id != entries[0].id:
            records = self._ledger.write(entries)
        self._recovered()
        self.written += len(records)
        for waiting in self._queue.written():
            if waiting.done is not None:
                waiting.done()

    def _tend(self) -> None:
        """What is to be done now and then."""
        if time.monotonic() >= self._keep_at:
            self._ledger.keep_head()
            self._keep_at = time.monotonic() + _KEEP_SECONDS
        if self._retention is not None and time.monotonic() >= self._retain_at:
            more = self._ledger.retain(self._retention)
            self._retain_at = time.monotonic() + (0 if more else _RETENTION_SECONDS)

    def _failed(self, why: str) -> None:
        self.failures += 1
        if self.problem is None:
            log.error("audit records cannot be written, calls are refused: %s", why)
        self.problem = why
        self._queue.pause(_AGAIN_SECONDS)

    def _recovered(self) -> None:
        if self.problem is not None:
            log.warning("audit records can be written again")
        self.problem = None


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
