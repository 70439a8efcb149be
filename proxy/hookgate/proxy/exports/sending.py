"""Sends the records of one export: finds what is new, delivers it in batches, and moves the positions."""

import asyncio
import contextlib
import logging
import socket
import time
from collections import Counter
from collections.abc import Sequence

from hookgate.proxy.config.models import ExportSettings
from hookgate.proxy.errors import StoreError, pluralize
from hookgate.proxy.exports.documents import SentDocument, documents_of, encoder_of, probe_document
from hookgate.proxy.exports.positions import HOLD_SECONDS, ExportLostError, ExportPositions, WriterPosition
from hookgate.proxy.exports.receivers import (
    DELIVERY_SECONDS,
    Accepted,
    Delivery,
    RecordReceiver,
    Rejected,
    Unavailable,
)
from hookgate.proxy.exports.records import ChainWriter, WriterRecords
from hookgate.proxy.store.database import FAILURES, reason

log = logging.getLogger("hookgate.exports")

_SYNC_SECONDS = 5.0
"""Seconds between two looks for new writers, which also extend the time for which the export is held."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Seconds before a batch is sent again: each pause is twice as long as the one before it."""

_DATABASE_PAUSE = 5.0
_LOG_SECONDS = 60.0
"""Seconds between two lines of the log about the same trouble."""

_LOGGED = 5
"""Refused records of a batch that the log names."""

_REPLACED = (
    "export %s: the audit's database was replaced or restored; all records that are new in it are sent"
)


class ExportSender:
    """Sends the records of one export, in its own thread, whose event loop nothing else uses."""

    def __init__(
        self,
        name: str,
        settings: ExportSettings,
        receiver: RecordReceiver,
        records: WriterRecords,
        positions: ExportPositions,
    ) -> None:
        self.name = name
        self._settings, self._receiver = settings, receiver
        self._records, self._positions = records, positions
        self._encode = encoder_of(settings)
        self._open: dict[int, WriterPosition] = {}
        self._writers: dict[int, ChainWriter] = {}
        """The writers of the open positions, as they were before the last records were read."""
        self._last: WriterPosition | None = None
        self._is_held, self._sync_at = False, 0.0
        self._has_error = True  # until the receiver accepts records; a former process may have left one
        self._accepts_some = False
        """Whether the receiver has accepted a document since it last refused all of a batch."""
        self._failures_in_a_row, self._log_at = 0, 0.0
        self.results = Counter(delivered=0, refused=0, missed=0)
        """The records by result: delivered, refused or missed."""
        self.failures = 0
        """The number of failed attempts to deliver."""
        self.lag_records = 0
        """The number of records that are not sent."""
        self._oldest: int | None = None

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest record that is not sent."""
        return 0.0 if self._oldest is None else max(0.0, time.time() - self._oldest / 1000)

    async def run(self) -> None:
        """Send records until cancelled."""
        try:
            while True:
                await self._rest(await self._step())
        finally:
            await self._receiver.close()
            if self._is_held:
                try:
                    self._positions.release()
                except FAILURES as error:
                    log.warning("export %s: another gateway takes over later: %s", self.name, reason(error))

    async def _step(self) -> float:
        """Send what there is, and return for how many seconds to pause."""
        try:
            if not self._sync():
                self._measure_lag()
                return _SYNC_SECONDS
            pause = await self._send_all()
            self._measure_lag()
        except ExportLostError:
            self._is_held = False
            log.warning("export %s: another gateway has taken over, because this one was too slow", self.name)
            return _SYNC_SECONDS
        except (*FAILURES, StoreError) as error:
            self._note_failure(f"its position or the audit cannot be read or written: {reason(error)}")
            return _DATABASE_PAUSE
        except Exception:
            log.exception("export %s: records cannot be sent; please report this", self.name)
            return _LONGEST_PAUSE
        return pause

    async def _rest(self, seconds: float) -> None:
        """Wait, and hold the export meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, HOLD_SECONDS / 3))
            if self._is_held and left > HOLD_SECONDS / 3:
                try:
                    self._is_held = self._positions.hold()
                except FAILURES:
                    return  # the next step says so

    # ---- whose records there are

    def _sync(self) -> bool:
        """Hold the export and find new writers, when it is due. Returns False if another process holds it."""
        if self._is_held and time.monotonic() < self._sync_at:
            return True
        was_held, self._is_held = self._is_held, self._positions.hold()
        if not self._is_held:
            return False
        self._sync_at = time.monotonic() + _SYNC_SECONDS
        if not self._positions.has_begun():
            self._begin()
        if not was_held:
            self._open, self._last = self._positions.load()
        self._find_writers()
        return True

    def _begin(self) -> None:
        """Set the first positions: after the records that are there now, or before the first one."""
        tips = {} if self._settings.history else self._records.tips()
        writers = self._records.writers(since=0).values()
        self._positions.begin(
            WriterPosition(each.number, each.hash, tips.get(each.number, 0)) for each in writers
        )

    def _find_writers(self) -> None:
        """Look at the writers: those that are new, have ended, or belong to another database."""
        writers = self._records.writers(self._open, since=self._last.number if self._last else 0)
        known = [*self._open.values(), *([self._last] if self._last else [])]
        if any(each.number not in writers or writers[each.number].hash != each.hash for each in known):
            log.warning(_REPLACED, self.name)
            writers = self._records.writers(since=0)
            self._positions.retain((each.number, each.hash) for each in writers.values())
            self._open, self._last = self._positions.load()
        last = self._last.number if self._last else 0
        new = [WriterPosition(each.number, each.hash, 0) for each in writers.values() if each.number > last]
        revived = [
            number
            for number, each in writers.items()
            if not each.ended and number <= last and number not in self._open
        ]
        for number in revived:  # it was considered dead, but has only lost its connection for a while
            self._positions.mark_done(number, done=False)
        if new:
            self._positions.add(new)
        if new or revived:
            self._open, self._last = self._positions.load()
        self._writers = writers

    def _measure_lag(self) -> None:
        if not self._is_held:
            self._open, self._last = self._positions.load()
        positions = [(each.number, each.seq) for each in self._open.values()]
        self.lag_records, self._oldest = self._records.lag(positions)

    # ---- sending

    async def _send_all(self) -> float:
        """Send all records, a batch of each writer in turn. Returns for how many seconds to pause."""
        busy = True
        while busy:
            busy = False
            for number in sorted(self._open):
                if not self._sync():
                    raise ExportLostError
                if number not in self._open:  # its database was replaced
                    continue
                sent = await self._send_next(self._open[number])
                if isinstance(sent, Unavailable):
                    self._note_failure(sent.reason)
                    pause: float = _FIRST_PAUSE * 2 ** min(self._failures_in_a_row, 10)
                    return min(max(pause, sent.pause), _LONGEST_PAUSE)
                busy |= sent
        return self._settings.interval_seconds

    async def _send_next(self, position: WriterPosition) -> bool | Unavailable:
        """Send the next records of a writer. Returns whether there may be more."""
        writer = self._writers[position.number]
        content = self._settings.content
        entries, more = self._records.batch(writer, position.seq, self._settings.batch_size, content=content)
        if not entries:
            if writer.ended:  # it had ended before this look at its records
                self._positions.mark_done(position.number, done=True)
                del self._open[position.number]
            return False
        if (missed := entries[0].seq - position.seq - 1) > 0:
            self._note_missed(missed)
        sent = await self._deliver(position, documents_of(entries, self._encode))
        if isinstance(sent, Unavailable):
            return sent
        if position.seq < entries[-1].seq:  # the last ones have no document in this form
            self._advance(position, entries[-1].seq)
        return more

    async def _deliver(self, position: WriterPosition, batch: Sequence[SentDocument]) -> Unavailable | None:
        """Deliver documents in their order. A batch that is refused as a whole is divided."""
        waiting = [batch] if batch else []
        while waiting:
            part = waiting.pop()
            answer = await self._attempt(part)
            if isinstance(answer, Rejected) and len(part) > 1:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
                continue
            if isinstance(answer, Rejected):
                answer = Accepted({0: answer.reason})
            if isinstance(answer, Accepted):
                answer = await self._confirmed(part, answer)
            if isinstance(answer, Unavailable):
                return answer
            self._note_accepted(position, part, answer)
        return None

    async def _attempt(self, batch: Sequence[SentDocument]) -> Delivery:
        try:
            async with asyncio.timeout(DELIVERY_SECONDS):
                return await self._receiver.deliver(batch)
        except TimeoutError:
            return Unavailable(f"it did not answer within {DELIVERY_SECONDS:g} seconds")
        except (OSError, ValueError) as error:
            return Unavailable(f"it cannot be reached: {error}")

    async def _confirmed(self, batch: Sequence[SentDocument], answer: Accepted) -> Accepted | Unavailable:
        """Return the answer, if documents were refused for what they contain.

        A receiver that refuses everything, because of a wrong setting, refuses a document for the test as
        well. Then nothing is set aside.
        """
        if len(answer.refused) < len(batch):
            self._accepts_some = True
            return answer
        if not self._accepts_some:
            probe = probe_document(self.name, socket.gethostname(), self._encode)
            tried = await self._attempt([probe])
            if not isinstance(tried, Accepted) or tried.refused:
                return Unavailable(f"it refuses every record: {answer.refused[0]}")
        self._accepts_some = False
        return answer

    def _note_accepted(
        self, position: WriterPosition, batch: Sequence[SentDocument], answer: Accepted
    ) -> None:
        refused = [(batch[index], why) for index, why in sorted(answer.refused.items())]
        count = len(refused) + answer.unnamed
        if answer.unnamed:
            records = pluralize(len(batch), "record")
            among = f"{answer.unnamed} of the {records} from {batch[0].seq} to {batch[-1].seq}"
            refused.append((batch[-1], f"{among}, but it is not said which: {answer.why}"))
        self._advance(position, batch[-1].seq, refused)
        self.results["delivered"] += sum(document.seq > 0 for document in batch) - count
        self.results["refused"] += count
        for document, why in refused[:_LOGGED]:
            log.error("export %s: the receiver refuses the record %s: %s", self.name, document.id, why)
        if len(refused) > _LOGGED:
            log.error("export %s: the receiver refuses %d records more", self.name, len(refused) - _LOGGED)
        if self._failures_in_a_row:
            log.warning("export %s: the receiver accepts records again", self.name)
            self._failures_in_a_row, self._log_at = 0, 0.0
        if self._has_error:
            self._positions.note_error("")
            self._has_error = False

    def _advance(
        self, position: WriterPosition, seq: int, refused: Sequence[tuple[SentDocument, str]] = ()
    ) -> None:
        self._positions.advance(position.number, seq, refused)
        position.seq = seq

    def _note_missed(self, count: int) -> None:
        self.results["missed"] += count
        self._positions.note_missed(count)
        records = pluralize(count, "record")
        log.error("export %s: retention removed %s that had not been sent", self.name, records)

    def _note_failure(self, why: str) -> None:
        self.failures += 1
        self._failures_in_a_row += 1
        if time.monotonic() >= self._log_at:
            log.error("export %s: records cannot be sent, and are kept: %s", self.name, why)
            self._log_at = time.monotonic() + _LOG_SECONDS
        with contextlib.suppress(*FAILURES):
            self._positions.note_error(why)
            self._has_error = True
