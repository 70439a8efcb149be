"""Sends spans to a collector over OTLP, with OpenTelemetry's SDK, in its own thread: no call waits for it."""

import logging
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from hookgate.proxy import __version__
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.spans import ERROR, SpanData, spans_of

log = logging.getLogger("hookgate.tracing")

_MAX_QUEUED = 2048
"""Calls that are queued for the collector; further ones are dropped."""
_BATCH = 128
"""Calls in one request."""
_PAUSE_SECONDS = 1.0
"""The pause between two requests, unless a batch is full."""
_TIMEOUT_SECONDS = 3.0
"""The timeout for one request, including retries."""

_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}


class Sender:
    """Queues calls and sends their spans."""

    def __init__(self, endpoint: str, service_name: str, servers: Mapping[str, str]) -> None:
        # Each of these two counters is used by one thread only.
        self._sent: Counter[bool] = Counter()
        self._overflowed = 0
        self._builder, self._servers = _SpanBuilder(service_name), servers
        session = requests.Session()
        session.trust_env = False  # proxies and passwords in the environment are not meant for it
        self._exporter = OTLPSpanExporter(
            f"{endpoint.rstrip('/')}/v1/traces", timeout=_TIMEOUT_SECONDS, session=session
        )
        # It logs every failed attempt; once is enough when a collector becomes unreachable.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._reachable = True
        self._waiting: deque[CallRecord] = deque()
        self._wake, self._stopping = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="hookgate-spans", daemon=True)
        self._thread.start()

    @property
    def results(self) -> dict[str, int]:
        """The number of spans since the start, by result."""
        return {"exported": self._sent[True], "dropped": self._sent[False] + self._overflowed}

    @property
    def queued(self) -> int:
        """The number of spans that are queued."""
        return sum(_count(record) for record in tuple(self._waiting))

    def offer(self, record: CallRecord) -> None:
        """Queue a call that has ended, or drop it if the queue is full. Never blocks."""
        if len(self._waiting) >= _MAX_QUEUED:
            self._overflowed += _count(record)
            return
        self._waiting.append(record)
        if len(self._waiting) >= _BATCH:
            self._wake.set()

    def close(self, seconds: float) -> None:
        """Send the queued spans for up to `seconds`; the rest is dropped."""
        self._stopping = True
        self._wake.set()
        self._thread.join(seconds)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # ends the wait before a retry
        self._thread.join(_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(_PAUSE_SECONDS)
            self._wake.clear()
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while batch := [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]:
            count = sum(map(_count, batch))
            sent = self._send(batch)
            self._sent[sent] += count
            self._log_reachable(sent)

    def _send(self, batch: Sequence[CallRecord]) -> bool:
        try:
            spans = self._builder.build(self._data(batch))
            return self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception:  # any error: the spans of later calls are still sent
            log.exception("spans could not be created; please report this")
            return False

    def _data(self, batch: Sequence[CallRecord]) -> Iterator[SpanData]:
        for record in batch:
            yield from spans_of(record, self._servers)

    def _log_reachable(self, reachable: bool) -> None:
        if reachable != self._reachable:
            self._reachable = reachable
            if reachable:
                log.info("the collector accepts spans again")
            else:
                log.warning("the collector does not accept spans: they are dropped until it does")


def _count(record: CallRecord) -> int:
    return 1 + len(record.hooks) + len(record.attempts)


class _SpanBuilder(SpanProcessor, IdGenerator):
    """Builds the SDK's spans for calls that have ended, with IDs that are known in advance."""

    def __init__(self, service_name: str) -> None:
        resource = Resource.create({"service.name": service_name, "service.version": __version__})
        provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=self)
        provider.add_span_processor(self)
        self._tracer = provider.get_tracer("hookgate", __version__)
        self._ended: list[ReadableSpan] = []
        self._trace_id = self._span_id = 0

    def build(self, data: Iterator[SpanData]) -> list[ReadableSpan]:
        """Return the SDK's spans, started and ended."""
        self._ended = []
        for span in data:
            self._add(span)
        return self._ended

    def _add(self, data: SpanData) -> None:
        self._trace_id, self._span_id = data.trace.id, data.id
        span = self._tracer.start_span(
            data.name,
            _context(data),
            _KINDS[data.kind],
            dict(data.attributes),
            start_time=data.begin,
            record_exception=False,
            set_status_on_exception=False,
        )
        if data.error:
            span.set_attribute(ERROR, data.error)
            span.set_status(StatusCode.ERROR)
        span.end(max(data.begin, data.end))

    # ---- called by the SDK

    def generate_trace_id(self) -> int:
        return self._trace_id

    def generate_span_id(self) -> int:
        return self._span_id

    def on_end(self, span: ReadableSpan) -> None:
        self._ended.append(span)


def _context(data: SpanData) -> Context:
    """Return the context with the parent span; without a valid span for the first of a trace."""
    if not data.parent:
        return set_span_in_context(NonRecordingSpan(SpanContext(0, 0, is_remote=False)))
    remote = data.id == data.trace.span
    state = TraceState.from_header([data.trace.state]) if data.trace.state else TraceState()
    parent = SpanContext(data.trace.id, data.parent, remote, TraceFlags(TraceFlags.SAMPLED), state)
    return set_span_in_context(NonRecordingSpan(parent))
