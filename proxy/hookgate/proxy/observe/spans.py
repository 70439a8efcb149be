"""The spans of a call that has ended, and their attributes, built from its record. Without OpenTelemetry."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.record import CallRecord, UpstreamAttempt
from hookgate.proxy.observe.trace_context import Trace, new_span

Value = str | int | float | Sequence[str]
SpanKind = Literal["server", "client", "internal"]

_OPERATION = "gen_ai.operation.name"
_CREDENTIAL = "hookgate.credential"
_LOCATION = "hookgate.location"
_PROVIDER = "gen_ai.provider.name"
_CONVERSATION = "gen_ai.conversation.id"
_REQUEST_MODEL = "gen_ai.request.model"
_RESPONSE_MODEL = "gen_ai.response.model"
_RESPONSE_ID = "gen_ai.response.id"
_FINISH_REASONS = "gen_ai.response.finish_reasons"
_INPUT_TOKENS = "gen_ai.usage.input_tokens"
_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
_INPUT_MESSAGES = "gen_ai.input.messages"
_OUTPUT_MESSAGES = "gen_ai.output.messages"
_SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"

_PROVIDERS = {"gemini": "gcp.gemini", "vertex": "gcp.vertex_ai", "code_assist": "gcp.gen_ai"}
_OPERATIONS = {
    "generateContent": "generate_content",
    "streamGenerateContent": "generate_content",
    "createInteraction": "generate_content",
    "createChatCompletion": "chat",
    "streamChatCompletion": "chat",
    "createResponse": "chat",
    "streamResponse": "chat",
    "batchGenerateContent": "generate_content",
    "embedContent": "embeddings",
    "createEmbedding": "embeddings",
    "batchEmbedContents": "embeddings",
}
"""GenAI operations by the API's method; other methods do not get the attribute."""

_STATUS = "http.response.status_code"
_SERVER = "server.address"
ERROR = "error.type"

_KIND = "hookgate.route.kind"
_OUTCOME = "hookgate.outcome"
_RECEIPT = "hookgate.receipt"
_REQUEST_ID = "hookgate.request_id"
_REVISION = "hookgate.revision"
_TEAM = "hookgate.team"
_EVENT = "hookgate.event"
_HOOK = "hookgate.hook.name"
_HOOK_TYPE = "hookgate.hook.type"
_HOOK_MODE = "hookgate.hook.mode"
_HOOK_RUNS = "hookgate.hook.runs"
_HOOK_SECONDS = "hookgate.hook.seconds"
_HOOK_FAILURES = "hookgate.hook.failures"
_HOOK_DECISIONS = "hookgate.hook.decisions"
_HOOK_EDITS = "hookgate.hook.edits"

_ANSWER_FIELDS = {
    _RESPONSE_MODEL: re.compile(rb'"modelVersion"\s*:\s*"([^"\\]{1,256})"'),
    _RESPONSE_ID: re.compile(rb'"responseId"\s*:\s*"([^"\\]{1,256})"'),
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
    operation = _OPERATIONS.get(trace.verb)
    if operation:
        return f"{operation} {record.model}".rstrip()
    return f"{record.kind or 'refused'} {record.event or trace.verb}".rstrip()


def _call_attributes(record: CallRecord, trace: Trace) -> dict[str, Value]:
    session = record.session
    attributes: dict[str, Value | None] = {
        _OPERATION: _OPERATIONS.get(trace.verb),
        _PROVIDER: _PROVIDERS.get(trace.api),
        _REQUEST_MODEL: record.model,
        _CONVERSATION: session.session_id if session else None,
        _TEAM: session.team if session else None,
        _STATUS: record.status,
        _KIND: record.kind,
        _OUTCOME: record.outcome,
        _RECEIPT: record.id,
        _REQUEST_ID: record.request_id,
        _REVISION: record.revision,
        _EVENT: record.event,
        _INPUT_MESSAGES: trace.input_messages,
        _SYSTEM_INSTRUCTIONS: trace.system_instructions,
        _OUTPUT_MESSAGES: trace.output_messages,
    }
    attributes |= _token_attributes(record) | trace.request_attributes | _answer_attributes(trace)
    return {name: value for name, value in attributes.items() if value not in (None, "", ())}


def _token_attributes(record: CallRecord) -> dict[str, Value | None]:
    used = record.usage
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens)
    tokens = (_INPUT_TOKENS, _OUTPUT_TOKENS, _CACHED_TOKENS)
    return {name: count or None for name, count in zip(tokens, counts, strict=True)}


def _answer_attributes(trace: Trace) -> dict[str, Value | None]:
    """Return the attributes found in the answer's last bytes.

    A name between unescaped quotes is always a field's name: within a string the quotes would be escaped.
    """
    attributes: dict[str, Value | None] = {}
    for name, pattern in _ANSWER_FIELDS.items():
        if matches := pattern.findall(trace.tail):
            attributes[name] = matches[-1].decode(errors="replace")
    attributes[_FINISH_REASONS] = tuple(
        dict.fromkeys(reason.decode() for reason in _FINISHED.findall(trace.tail))
    )
    return attributes


def _hook_span(tally: HookTally, trace: Trace, clock: _Clock, call_began: int) -> SpanData:
    """Return the span of all runs of a hook for an event, from the first start to the last end."""
    attributes: dict[str, Value] = {
        _HOOK: tally.hook,
        _EVENT: tally.event,
        _HOOK_TYPE: tally.type,
        _HOOK_MODE: tally.mode,
        _HOOK_RUNS: tally.runs,
        _HOOK_SECONDS: tally.seconds,
        _HOOK_FAILURES: tally.failures,
        _HOOK_DECISIONS: sorted(tally.decisions),
        _HOOK_EDITS: sorted(tally.edits),
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
        _SERVER: server,
        _REQUEST_MODEL: record.model,
        _STATUS: attempt.status,
        _CREDENTIAL: attempt.credential,
        _LOCATION: attempt.location,
    }
    attributes = {name: value for name, value in values.items() if value}
    error = "" if 0 < attempt.status < 400 else str(attempt.status or "no_answer")
    begin, end = clock.at(attempt.began), clock.at(attempt.ended)
    name = f"upstream {trace.verb}".rstrip()
    return SpanData(trace, attempt.span, trace.span, name, "client", begin, end, attributes, error)
