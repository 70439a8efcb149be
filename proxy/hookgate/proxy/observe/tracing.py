"""Tracing of calls: begins the trace of each, and hands it over for export when the call has ended.

OpenTelemetry is imported only if a collector is configured.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from hookgate.proxy.config import TracingSettings
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.trace_context import Trace, trace_of

_FLUSH_SECONDS = 5.0
"""How long the gateway waits for the collector when it stops."""


class Traces:
    """Starts the traces of calls, and exports those of calls that have ended."""

    def __init__(self, settings: TracingSettings, offer: Callable[[CallRecord], None]) -> None:
        """`offer` is called with the record of each sampled call; it must not block."""
        self._sample, self._content, self._offer = settings.sample, settings.content, offer

    def begin(self, headers: Mapping[str, str]) -> Trace:
        """Return the trace of a call with these headers."""
        return trace_of(headers, self._sample, content=self._content)

    def export(self, record: CallRecord) -> None:
        """Export the trace of a call that has ended, if it is sampled."""
        if record.trace is not None and record.trace.sampled:
            self._offer(record)


@asynccontextmanager
async def open_tracing(
    settings: TracingSettings, metrics: Metrics, servers: Mapping[str, str] | None = None
) -> AsyncIterator[Traces | None]:
    """Export traces while the block runs, and wait a few seconds for the last ones.

    Yields None without a collector. `servers` are the origins of the upstreams. Raises ModuleNotFoundError if
    the extra `otel` is not installed.
    """
    if settings.endpoint is None:
        yield None
        return
    from hookgate.proxy.observe.otlp import Sender  # noqa: PLC0415  # the import takes a third of a second

    sender = Sender(settings.endpoint, settings.service_name, servers or {})
    metrics.expose_spans(sender)
    try:
        yield Traces(settings, sender.offer)
    finally:
        await asyncio.to_thread(sender.close, _FLUSH_SECONDS)
