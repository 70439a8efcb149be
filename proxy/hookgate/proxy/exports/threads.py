"""The exports of a gateway: a thread for each, so that no call and no other export waits for a receiver."""

import asyncio
import contextlib
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from hookgate.proxy.audit.retention import FirstNeeded, nothing_needed
from hookgate.proxy.config.models import ExportSettings
from hookgate.proxy.exports.http import ElasticReceiver, OtlpReceiver, SplunkReceiver, WebhookReceiver
from hookgate.proxy.exports.positions import ExportPositions
from hookgate.proxy.exports.receivers import ReceiverAccess, RecordReceiver, read_access
from hookgate.proxy.exports.records import WriterRecords
from hookgate.proxy.exports.sending import ExportSender
from hookgate.proxy.exports.states import ExportStates
from hookgate.proxy.exports.syslog import SyslogReceiver
from hookgate.proxy.store.database import open_audit, open_exports

_CLOSE_SECONDS = 2.0

_RECEIVERS: dict[str, Callable[[ReceiverAccess], RecordReceiver]] = {
    "otlp": OtlpReceiver,
    "splunk": SplunkReceiver,
    "elastic": ElasticReceiver,
    "webhook": WebhookReceiver,
    "syslog": SyslogReceiver,
}


def open_receiver(access: ReceiverAccess) -> RecordReceiver:
    """Return the receiver of an export. Raises ValueError if it cannot be used."""
    kind = access.settings.destination.kind
    if kind != "s3":
        return _RECEIVERS[kind](access)
    # Imported only if it is needed: an extra has botocore, which takes long to import.
    from hookgate.proxy.exports.s3 import S3Receiver  # noqa: PLC0415  # see above

    return S3Receiver(access)


class ExportThread:
    """Runs a sender."""

    def __init__(self, sender: ExportSender) -> None:
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(sender.run())
        self._thread = threading.Thread(target=self._work, name=f"hookgate-export-{sender.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, in the middle of a delivery if need be: it is done again later."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()


@asynccontextmanager
async def running_exports(
    configured: Mapping[str, ExportSettings], url: str | None, state: Path
) -> AsyncIterator[list[ExportSender]]:
    """Send the records of exports while the block runs. The audit must be open. Yields their senders.

    Raises ExportsError or StoreError if they cannot be started.
    """
    if not configured:
        yield []
        return
    accesses = read_access(configured)
    async with AsyncExitStack() as stack:
        records = await asyncio.to_thread(open_audit, url, state, writes=False)
        stack.push_async_callback(asyncio.to_thread, records.close)
        positions = await asyncio.to_thread(open_exports, url, state)
        stack.push_async_callback(asyncio.to_thread, positions.close)
        holder = secrets.token_hex(8)
        senders = [
            ExportSender(
                name,
                access.settings,
                open_receiver(access),
                WriterRecords(records),
                ExportPositions(positions, name, holder),
            )
            for name, access in accesses.items()
        ]
        for sender in senders:
            thread = ExportThread(sender)
            thread.start()
            stack.push_async_callback(asyncio.to_thread, thread.close)
        yield senders


@asynccontextmanager
async def holding_retention(
    configured: Mapping[str, ExportSettings], url: str | None, state: Path
) -> AsyncIterator[FirstNeeded]:
    """Yield a function that tells retention the position of the first record that it must keep, or None.

    Raises StoreError if the positions of exports cannot be read.
    """
    names = [name for name, settings in configured.items() if settings.hold_retention]
    if not names:
        yield nothing_needed
        return
    states = ExportStates(await asyncio.to_thread(open_exports, url, state))
    try:
        yield partial(states.first_needed, names)
    finally:
        await asyncio.to_thread(states.close)
