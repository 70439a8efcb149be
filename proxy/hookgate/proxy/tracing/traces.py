"""Where the gateway hands over its calls for traces. Without a collector OpenTelemetry is not imported."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from hookgate.proxy.config import Tracing
from hookgate.proxy.metrics import Metrics
from hookgate.proxy.records import CallRecord
from hookgate.proxy.tracing.context import Trace, trace_of

_FLUSH_SECONDS = 5.0
"""How long the end of the gateway waits for the collector."""


class Traces:
    """Gives calls their places in traces, and takes their records when they have ended."""

    def __init__(self, settings: Tracing, offer: Callable[[CallRecord], None]) -> None:
        """`offer` takes the record of a sampled call; it must not block."""
        self._sample, self._content, self._offer = settings.sample, settings.content, offer

    def begin(self, headers: Mapping[str, str]) -> Trace:
        """The trace of a call with these headers."""
        return trace_of(headers, self._sample, content=self._content)

    def settled(self, record: CallRecord) -> None:
        """A call has ended, and its record is complete."""
        if record.trace is not None and record.trace.sampled:
            self._offer(record)


@asynccontextmanager
async def tracing(
    settings: Tracing, metrics: Metrics, servers: Mapping[str, str] | None = None
) -> AsyncIterator[Traces | None]:
    """Traces for as long as the block runs, and a few seconds for the last of them; none without a collector.

    `servers` are the origins of the upstreams. Raises ModuleNotFoundError without the extra `otel`.
    """
    if settings.endpoint is None:
        yield None
        return
    from hookgate.proxy.tracing.sending import Sender  # noqa: PLC0415  # costs a third of a second

    sender = Sender(settings.endpoint, settings.service_name, servers or {})
    metrics.watch_spans(sender)
    try:
        yield Traces(settings, sender.offer)
    finally:
        await asyncio.to_thread(sender.close, _FLUSH_SECONDS)
