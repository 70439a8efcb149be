"""The spans of a call that has ended, built from its record. Pure: it does not use OpenTelemetry."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from hookgate.proxy.observe import trace_context
from hookgate.proxy.observe.record import CallRecord, HookTally, UpstreamAttempt
from hookgate.proxy.observe.trace_context import Trace, new_span

Value = str | int | float | Sequence[str]
SpanKind = Literal["server", "client", "internal"]

_ANSWER_FIELDS = {
    trace_context.RESPONSE_MODEL: re.compile(rb'"modelVersion"\s*:\s*"([^"\\]{1,256})"'),
    trace_context.RESPONSE_ID: re.compile(rb'"responseId"\s*:\s*"([^"\\]{1,256})"'),
}
_FINISHED = re.compile(rb'"finishReason"\s*:\s*"([A-Z_]{1,64})"')

_FAILED = frozenset({"failed", "left", "interrupted"})


@dataclass(frozen=True, slots=True)
class SpanData:
    """One span. Times are in nanoseconds since 1970. `parent` is 0 for the first span of a trace."""

    trace: Trace
    id: int
    parent: int
    name: str
    kind: SpanKind
    begin: int
    end: int
    attributes: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""


def spans_of(record: CallRecord, servers: Mapping[str, str]) -> Iterator[SpanData]:
    """Yield the call's span, then one for each hook and for each upstream request.

    `servers` are the origins of the APIs.
    """
    trace = record.trace
    if trace is None:
        return
    clock = _Clock(record)
    begin, end = clock.at(record.began_monotonic), clock.at(record.began_monotonic + record.seconds)
    succeeded = record.status and record.status < 500 and record.outcome not in _FAILED
    error = "" if succeeded else str(record.outcome)
    attributes = _call_attributes(record, trace)
    yield SpanData(
        trace, trace.span, trace.parent, _name(record, trace), "server", begin, end, attributes, error
    )
    for tally in record.hooks.values():
        yield _hook_span(tally, trace, clock, begin)
    for attempt in record.attempts:
        server = attempt.server or urlsplit(servers.get(trace.api, "")).hostname or ""
        yield _upstream_span(attempt, record, trace, clock, server)


class _Clock:
    """Converts times of the monotonic clock to nanoseconds since 1970, by the start of the call."""

    def __init__(self, record: CallRecord) -> None:
        self._offset = record.began - record.began_monotonic

    def at(self, time: float) -> int:
        return round((self._offset + time) * 1_000_000_000)


def _name(record: CallRecord, trace: Trace) -> str:
    operation = trace_context.OPERATIONS.get(trace.verb)
    if operation:
        return f"{operation} {record.model}".rstrip()
    return f"{record.kind or 'refused'} {record.event or trace.verb}".rstrip()


def _call_attributes(record: CallRecord, trace: Trace) -> dict[str, Value]:
    session = record.session
    attributes: dict[str, Value | None] = {
        trace_context.OPERATION: trace_context.OPERATIONS.get(trace.verb),
        trace_context.PROVIDER: trace_context.PROVIDERS.get(trace.api),
        trace_context.REQUEST_MODEL: record.model,
        trace_context.CONVERSATION: session.session_id if session else None,
        trace_context.TEAM: session.team if session else None,
        trace_context.STATUS: record.status,
        trace_context.KIND: record.kind,
        trace_context.OUTCOME: record.outcome,
        trace_context.RECEIPT: record.id,
        trace_context.REQUEST_ID: record.request_id,
        trace_context.REVISION: record.revision,
        trace_context.EVENT: record.event,
    }
    attributes |= (
        _token_attributes(record)
        | trace.request_attributes
        | _answer_attributes(trace)
        | trace.content_attributes
    )
    return {name: value for name, value in attributes.items() if value not in (None, "", ())}


def _token_attributes(record: CallRecord) -> dict[str, Value | None]:
    used = record.usage
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens)
    tokens = (trace_context.INPUT_TOKENS, trace_context.OUTPUT_TOKENS, trace_context.CACHED_TOKENS)
    return {name: count or None for name, count in zip(tokens, counts, strict=True)}


def _answer_attributes(trace: Trace) -> dict[str, Value | None]:
    """Return the attributes found in the answer's last bytes.

    A name between unescaped quotes is always a field's name: within a string the quotes would be escaped.
    """
    attributes: dict[str, Value | None] = {}
    for name, pattern in _ANSWER_FIELDS.items():
        if matches := pattern.findall(trace.tail):
            attributes[name] = matches[-1].decode(errors="replace")
    attributes[trace_context.FINISH_REASONS] = tuple(
        dict.fromkeys(reason.decode() for reason in _FINISHED.findall(trace.tail))
    )
    return attributes


def _hook_span(tally: HookTally, trace: Trace, clock: _Clock, call_began: int) -> SpanData:
    """Return the span of all runs of a hook for an event, from the first start to the last end."""
    attributes: dict[str, Value] = {
        trace_context.HOOK: tally.hook,
        trace_context.EVENT: tally.event,
        trace_context.HOOK_TYPE: tally.type,
        trace_context.HOOK_MODE: tally.mode,
        trace_context.HOOK_RUNS: tally.runs,
        trace_context.HOOK_SECONDS: tally.seconds,
        trace_context.HOOK_FAILURES: tally.failures,
        trace_context.HOOK_DECISIONS: sorted(tally.decisions),
        trace_context.HOOK_EDITS: sorted(tally.edits),
    }
    begin = clock.at(tally.began) if tally.began else call_began
    end = clock.at(tally.ended) if tally.began else call_began
    error = "hook_failed" if tally.failures else ""
    name = f"hook {tally.event} {tally.hook}"
    return SpanData(trace, new_span(), trace.span, name, "internal", begin, end, attributes, error)


def _upstream_span(
    attempt: UpstreamAttempt, record: CallRecord, trace: Trace, clock: _Clock, server: str
) -> SpanData:
    values: dict[str, Value] = {
        trace_context.SERVER: server,
        trace_context.REQUEST_MODEL: record.model,
        trace_context.STATUS: attempt.status,
        trace_context.CREDENTIAL: attempt.credential,
        trace_context.LOCATION: attempt.location,
    }
    attributes = {name: value for name, value in values.items() if value}
    error = "" if 0 < attempt.status < 400 else str(attempt.status or "no_answer")
    begin, end = clock.at(attempt.began), clock.at(attempt.ended)
    name = f"upstream {trace.verb}".rstrip()
    return SpanData(trace, attempt.span, trace.span, name, "client", begin, end, attributes, error)
