"""The audit as calls use it: a start record before anything is sent upstream, and an end record."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hookgate.hooks.engine_reloader import Changes
from hookgate.proxy.audit.chain import AuditError, audit_entry
from hookgate.proxy.audit.entries import end_entry, event_entry, start_entry
from hookgate.proxy.audit.index.building import open_index
from hookgate.proxy.audit.index.following import IndexThread
from hookgate.proxy.audit.ledger import open_ledger
from hookgate.proxy.audit.reading import AuditReader, CallDetail, receipt_of
from hookgate.proxy.audit.recovery import recovering
from hookgate.proxy.audit.retention import FirstNeeded, Retention, nothing_needed
from hookgate.proxy.audit.writer import PendingEntries, Writer
from hookgate.proxy.config.models import AuditSettings as Settings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.receipts import make_receipt
from hookgate.proxy.observe.record import CALL_ID, AuditState, CallRecord
from hookgate.proxy.routes.table import Route
from hookgate.proxy.store.database import FAILURES, open_audit, reason
from hookgate.translator.fields import JsonObject

if TYPE_CHECKING:
    from hookgate.proxy.audit.content import Contents

log = logging.getLogger("hookgate.audit")

_REFUSED = (
    "hookgate cannot write its audit record, so it refuses calls. "
    "Ask the operator of this gateway; it accepts calls again as soon as records can be written."
)


_NO_CHANGE = "hookgate cannot write its audit record, so it refuses changes."

_UNREADABLE = "hookgate cannot read its audit. Ask the operator of this gateway."


_UNFINISHED = frozenset({AuditState.PENDING, AuditState.STARTED, AuditState.START_FAILED})
"""States after which the end of a call is still to be recorded."""

_RECEIPT_THREADS = 2  # in which clients read receipts: those of the event loop look up hosts

_PAUSES = (0.02, 0.08, 0.3, 0)
"""Seconds between attempts to read the records of a call, which may have just ended at another gateway."""


def _key_of(detail: CallDetail) -> str:
    """Return the name of the key that made a call."""
    stored = detail.start or detail.end
    session = stored.record.body.get("session") if stored else None
    return str((session or {}).get("key", ""))


class Audit:
    """Writes the records of calls. Call `decide_whether_audited` for each call before anything else."""

    def __init__(self, writer: Writer, contents: "Contents | None", reader: AuditReader) -> None:
        """Records are written with `writer`, and contain the `contents` of calls if they are given."""
        self.writer = writer
        self._contents, self._reader = contents, reader
        self._threads = ThreadPoolExecutor(_RECEIPT_THREADS, "hookgate-receipts")
        self._starts: dict[str, PendingEntries] = {}
        """The starts of calls that have not ended, by the IDs of the calls."""

    # ---- while a call lasts

    def decide_whether_audited(self, record: CallRecord, method: str, route: Route) -> None:
        """Decide whether a call is audited, as its route says; and its content, if that is stored."""
        is_listing = route.kind == "forwarded" and method == "GET" and not route.unhooked
        if route.kind == "receipt" or is_listing:
            record.advance_audit(AuditState.NOT_AUDITED)
            return
        record.advance_audit(AuditState.PENDING)
        if self._contents is not None:
            record.content = self._contents.content_for(route)

    def queue_start(self, record: CallRecord) -> None:
        """Queue the start of a call, so that it is written while hooks run. The session must be known."""
        if (
            record.audit_state is AuditState.PENDING
            and record.id not in self._starts
            and self._contents is None
        ):
            with contextlib.suppress(AuditError):  # `record_start` tries again
                self._starts[record.id] = self.writer.queue(start_entry(record))

    async def record_start(self, record: CallRecord) -> None:
        """Wait until a call's start is on disk. Raises ApiError (403) if it cannot be written."""
        try:
            if record.audit_state is AuditState.PENDING:
                await self._wait_for_start(record, hooks_running=False)
            if record.audit_state is AuditState.START_FAILED:
                raise AuditError("its start could not be written")  # attempted when its answer began
        except AuditError as error:
            raise _refusal(record, error) from None

    async def _wait_for_start(self, record: CallRecord, *, hooks_running: bool) -> None:
        """Wait until a call's start is on disk. If this is cancelled, a queued start is still written."""
        try:
            if record.id not in self._starts:
                contents = self._contents
                content = (
                    None if contents is None else await contents.at_start(record, hooks_running=hooks_running)
                )
                if record.id not in self._starts:  # otherwise the headers of a stream have begun it
                    self._starts[record.id] = self.writer.queue(start_entry(record, content))
            await self.writer.wait_for(self._starts[record.id])
        except AuditError:
            if record.audit_state is AuditState.PENDING:
                record.advance_audit(AuditState.START_FAILED)
            raise
        if record.audit_state is AuditState.PENDING:  # not if the answer has waited for the same record
            record.advance_audit(AuditState.STARTED)

    async def ensure_start_recorded(self, record: CallRecord, status: int) -> None:
        """Make sure that a call's start, or an event, is on disk before an answer to it is sent.

        If the call has been sent upstream, its start is on disk already. Otherwise the answer is the
        gateway's own, and is sent even if writing fails: `record_start` then keeps the call from being sent
        upstream.
        """
        with contextlib.suppress(AuditError, ApiError):  # both have noted the state of the record
            if record.audit_state is AuditState.PENDING and record.kind == "event":
                await self.record_event(record, status)
            elif record.audit_state is AuditState.PENDING:
                # Without an outcome or error, this is a stream that begins before hooks have decided.
                await self._wait_for_start(
                    record, hooks_running=record.outcome is None and status == HTTPStatus.OK
                )

    async def record_event(self, record: CallRecord, status: int) -> None:
        """Write a shim's event to disk before it is answered. Raises ApiError (403) if that fails."""
        if record.audit_state is AuditState.PENDING:
            try:
                # If the shim leaves meanwhile, the event is recorded at its end, without content.
                content = None if self._contents is None else await self._contents.of_event(record)
                record.end(status, 0)  # for its receipt; `Gateway._finish` ends it again with the size
                record.advance_audit(AuditState.DONE)
                await self.writer.append(event_entry(record, make_receipt(record), content))
            except AuditError as error:
                if not error.under_way:
                    record.advance_audit(AuditState.START_FAILED)
                raise _refusal(record, error) from None

    def settle(self, record: CallRecord, receipt: JsonObject) -> None:
        """Write the end of a call. Does not wait; remaining records are written before the gateway stops."""
        if record.audit_state not in _UNFINISHED:
            return
        record.advance_audit(AuditState.DONE)
        begun = self._starts.pop(record.id, None)
        if record.kind == "event":
            self.writer.append_soon(event_entry(record, receipt), bounded=True)
        elif begun is None or begun.withdrawn:
            start = start_entry(record)
            self.writer.append_soon(start, end_entry(record, receipt, start.body), bounded=True)
        elif self._contents is None:
            self.writer.append_soon(end_entry(record, receipt, begun.entries[0].body))
        else:
            self._contents.when_ended(
                record,
                lambda content: self.writer.append_soon(
                    end_entry(record, receipt, begun.entries[0].body, content)
                ),
            )

    # ---- besides calls

    def record_policy(self, changes: Changes) -> None:
        """Record a change of the hooks' settings. Does not wait."""
        self.writer.append_soon(
            audit_entry("policy", before=changes.before, revision=changes.revision, **changes.hooks())
        )

    async def record_change(self, by: str, change: str, about: JsonObject) -> None:
        """Record that somebody makes a change, before it is made. Raises ApiError (403) if that fails."""
        try:
            await self.writer.append(audit_entry("change", change=change, by=by, **about))
        except AuditError as error:
            log.warning("a change was refused: its audit record could not be written: %s", error)
            raise ApiError(403, _NO_CHANGE, "AUDIT_UNAVAILABLE") from None

    def check(self) -> str | None:
        """Return the reason for refusing calls, or None if calls are accepted. Has that checked again."""
        self.writer.request_check()
        return self.writer.refusal_reason

    async def receipt_for(self, receipt_id: str, key: str | None = None) -> JsonObject | None:
        """Return the receipt of a call that any gateway with this audit has recorded.

        Returns None if there is no such call or, with `key`, if it belongs to another key. Raises ApiError
        (403) if the audit cannot be read.
        """
        if not CALL_ID.fullmatch(receipt_id):
            return None
        try:
            for pause in _PAUSES:
                loop = asyncio.get_running_loop()
                detail = await loop.run_in_executor(self._threads, self._reader.call, receipt_id)
                if detail is not None and key not in (None, _key_of(detail)):
                    return None
                if detail is not None and detail.end is not None:
                    return receipt_of(detail)
                await asyncio.sleep(pause)  # its records may be on their way to the database
        except FAILURES as error:
            log.error("the audit cannot be read: %s", reason(error))
            raise ApiError(403, _UNREADABLE, "AUDIT_UNAVAILABLE") from None
        return None


def _refusal(record: CallRecord, error: AuditError) -> ApiError:
    record.outcome = "refused"
    log.warning("a call was refused: its audit record could not be written: %s", error)
    return ApiError(403, _REFUSED, "AUDIT_UNAVAILABLE")


@asynccontextmanager
async def open_audit_trail(
    settings: Settings, url: str | None, state: Path, first_needed: FirstNeeded = nothing_needed
) -> AsyncIterator[Audit | None]:
    """Open the audit while the block runs, and write all remaining records at its end.

    `first_needed` tells retention what to keep. Yields None if the audit is disabled. Raises StoreError or
    OSError if it cannot be opened.
    """
    if not settings.enabled:
        yield None
        return
    async with AsyncExitStack() as stack:
        jsonl = None if settings.jsonl is None else str(settings.jsonl)
        opened = ExitStack()
        ledger, database = await asyncio.to_thread(
            opened.enter_context, open_ledger(url, state, jsonl, settings.deadline)
        )
        stack.push_async_callback(asyncio.to_thread, opened.close)
        writer = Writer(ledger, settings.deadline, _retention(settings, first_needed))
        writer.start()
        stack.push_async_callback(asyncio.to_thread, writer.close, settings.deadline)
        contents = _contents(settings.content)
        if contents is not None:
            stack.push_async_callback(asyncio.to_thread, contents.close)
        await stack.enter_async_context(recovering(database, state, writer, ledger.number))
        reading = await asyncio.to_thread(open_audit, url, state, writes=False)
        stack.push_async_callback(asyncio.to_thread, reading.close)
        index = await asyncio.to_thread(opened.enter_context, open_index(reading, url, state))
        thread = IndexThread(index, lambda: writer.written)
        thread.start()
        stack.push_async_callback(asyncio.to_thread, thread.close)
        yield Audit(writer, contents, AuditReader(reading))


def _contents(content: Literal["off", "redacted", "full"]) -> "Contents | None":
    if content == "off":
        return None
    # Imported only for an audit of content: the detectors of sensitive data take long to import.
    from hookgate.proxy.audit.content import Contents  # noqa: PLC0415  # see above

    return Contents(content)


def _retention(settings: Settings, first_needed: FirstNeeded) -> Retention | None:
    limits = (settings.retention_days, settings.retention_bytes, settings.content_days)
    if limits == (None, None, None):
        return None
    return Retention(settings.retention_days, settings.retention_bytes, first_needed, settings.content_days)
