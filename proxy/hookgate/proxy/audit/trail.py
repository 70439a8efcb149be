"""The audit as calls use it: a start before anything goes upstream, an end once it is known."""

import asyncio

from hookgate.hooks.changes import Changes
from hookgate.proxy.audit.content import Contents
from hookgate.proxy.audit.entries import end_of, event_of, own_event, start_of
from hookgate.proxy.audit.errors import AuditError
from hookgate.proxy.audit.writer import Writer
from hookgate.proxy.errors import ApiError
from hookgate.proxy.records import CallRecord
from hookgate.proxy.routes import Route

_REFUSED = (
    "hookgate cannot write its audit record, so it takes no calls ({}). "
    "Ask who runs this gateway; it takes calls again by itself once records can be written."
)


class Audit:
    """Puts calls on record. A call takes part once `watch` was told of it."""

    def __init__(self, writer: Writer, contents: Contents) -> None:
        self.writer = writer
        self._contents = contents

    @property
    def trouble(self) -> str | None:
        """Why calls are refused now; None when they are not. Asking has it looked into."""
        self.writer.look()
        return self.writer.trouble

    def watch(self, record: CallRecord, method: str, route: Route) -> None:
        """A call has a route: from now on it takes part, if its route does."""
        listed = route.kind == "forwarded" and method == "GET" and not route.unhooked
        if route.kind != "receipt" and not listed:
            record.audited = "due"
            record.content = self._contents.of(route)

    async def begin(self, record: CallRecord) -> None:
        """A call is about to go upstream: returns when its start is on disk. Raises ApiError (403)."""
        if record.audited == "due":
            try:
                await self._start(record)
            except AuditError as error:
                raise _refusal(record, error) from None

    async def tell_event(self, record: CallRecord, status: int) -> None:
        """A shim's event is about to be answered: returns when it is on disk. Raises ApiError (403)."""
        if record.audited == "due":
            record.end(status, 0)
            record.audited = "ended"
            try:
                await self.writer.append(event_of(record, await self._contents.of_event(record)))
            except AuditError as error:
                record.audited = "ended" if error.under_way else "late"
                raise _refusal(record, error) from None

    async def answering(self, record: CallRecord, status: int) -> None:
        """An answer is about to go to the client, whichever: what it is an answer to is on disk by then.

        Where it cannot be, the answer is none of the upstream's: it goes out all the same.
        """
        try:
            if record.audited == "due" and record.kind == "event":
                await self.tell_event(record, status)
            elif record.audited == "due":
                await self._start(record)
        except (AuditError, ApiError):
            record.audited = "late"

    def tell_policy(self, told: Changes) -> None:
        """Other hooks' settings are in force. Does not wait."""
        self.writer.append_soon(
            own_event("policy", before=told.before, revision=told.revision, **told.hooks())
        )

    def settle(self, record: CallRecord) -> None:
        """A call has ended. Does not wait: what is left to write is written before the gateway ends."""
        if record.audited in ("due", "late"):
            record.audited = "ended"
            entries = (event_of(record),) if record.kind == "event" else (start_of(record), end_of(record))
            self.writer.append_soon(*entries, bounded=True)
        elif record.audited == "began":
            record.audited = "ended"
            self._contents.when_ended(record, lambda told: self.writer.append_soon(end_of(record, told)))

    async def _start(self, record: CallRecord) -> None:
        # Said first: a client that leaves now cancels this, and what is on its way is written all the same.
        record.audited = "began"
        try:
            content = await self._contents.at_start(record)
        except asyncio.CancelledError:
            record.audited = "late"
            raise
        try:
            await self.writer.append(start_of(record, content))
        except AuditError as error:
            record.audited = "began" if error.under_way else "late"
            raise


def _refusal(record: CallRecord, error: AuditError) -> ApiError:
    record.outcome = "refused"
    return ApiError(403, _REFUSED.format(error), "AUDIT_UNAVAILABLE")
