"""The spans of a call that has ended, made of its record. Pure: OpenTelemetry is not needed to know them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from hookgate.proxy.records import Asked, CallRecord, HookTally
from hookgate.proxy.tracing import names
from hookgate.proxy.tracing.context import Trace, new_span

Value = str | int | float | Sequence[str]
Kind = Literal["server", "client", "internal"]

_TOLD = {
    names.RESPONSE_MODEL: re.compile(rb'"modelVersion"\s*:\s*"([^"\\]{1,256})"'),
    names.RESPONSE_ID: re.compile(rb'"responseId"\s*:\s*"([^"\\]{1,256})"'),
}
_FINISHED = re.compile(rb'"finishReason"\s*:\s*"([A-Z_]{1,64})"')

_FAILED = frozenset({"failed", "left", "interrupted"})


@dataclass(frozen=True, slots=True)
class SpanData:
    """One span. Times are in nanoseconds since 1970; `parent` is 0 for the first of a trace."""

    trace: Trace
    id: int
    parent: int
    name: str
    kind: Kind
    begin: int
    end: int
    attributes: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""


def spans_of(record: CallRecord, servers: Mapping[str, str]) -> Iterator[SpanData]:
    """The call's span, then one for each hook and each request upstream. `servers` are the APIs' origins."""
    trace = record.trace
    if trace is None:
        return
    clock = _Clock(record)
    begin, end = clock.at(record.began_at), clock.at(record.began_at + record.seconds)
    wrong = (
        "" if record.status and record.status < 500 and record.outcome not in _FAILED else str(record.outcome)
    )
    about = _about(record, trace)
    yield SpanData(trace, trace.span, trace.parent, _name(record, trace), "server", begin, end, about, wrong)
    for tally in record.hooks.values():
        yield _hook(tally, trace, clock, begin)
    for asked in record.requests:
        yield _request(asked, record, trace, clock, urlsplit(servers.get(trace.api, "")).hostname or "")


class _Clock:
    """Turns times of the monotonic clock into those of the calendar, by when the call began in both."""

    def __init__(self, record: CallRecord) -> None:
        self._offset = record.began - record.began_at

    def at(self, time: float) -> int:
        return round((self._offset + time) * 1_000_000_000)


def _name(record: CallRecord, trace: Trace) -> str:
    operation = names.OPERATIONS.get(trace.verb)
    if operation:
        return f"{operation} {record.model}".rstrip()
    return f"{record.kind or 'refused'} {record.event or trace.verb}".rstrip()


def _about(record: CallRecord, trace: Trace) -> dict[str, Value]:
    session = record.session
    told: dict[str, Value | None] = {
        names.OPERATION: names.OPERATIONS.get(trace.verb),
        names.PROVIDER: names.PROVIDERS.get(trace.api),
        names.REQUEST_MODEL: record.model,
        names.CONVERSATION: session.session_id if session else None,
        names.TEAM: session.team if session else None,
        names.STATUS: record.status,
        names.KIND: record.kind,
        names.OUTCOME: record.outcome,
        names.RECEIPT: record.id,
        names.REQUEST_ID: record.request_id,
        names.REVISION: record.revision,
        names.EVENT: record.event,
    }
    told |= _used(record) | trace.asked | _answered(trace) | trace.said
    return {name: value for name, value in told.items() if value not in (None, "", ())}


def _used(record: CallRecord) -> dict[str, Value | None]:
    used = record.usage
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens)
    tokens = (names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.CACHED_TOKENS)
    return {name: count or None for name, count in zip(tokens, counts, strict=True)}


def _answered(trace: Trace) -> dict[str, Value | None]:
    """What the answer's last bytes tell of it: a field's name stands between bare quotes, in texts never."""
    told: dict[str, Value | None] = {}
    for name, pattern in _TOLD.items():
        if found := pattern.findall(trace.tail):
            told[name] = found[-1].decode(errors="replace")
    told[names.FINISH_REASONS] = tuple(
        dict.fromkeys(reason.decode() for reason in _FINISHED.findall(trace.tail))
    )
    return told


def _hook(tally: HookTally, trace: Trace, clock: _Clock, call_began: int) -> SpanData:
    """All of a hook's runs for an event, from the begin of the first to the end of the last."""
    about: dict[str, Value] = {
        names.HOOK: tally.hook,
        names.EVENT: tally.event,
        names.HOOK_TYPE: tally.type,
        names.HOOK_MODE: tally.mode,
        names.HOOK_RUNS: tally.runs,
        names.HOOK_SECONDS: tally.seconds,
        names.HOOK_FAILURES: tally.failures,
        names.HOOK_DECISIONS: sorted(tally.decisions),
        names.HOOK_EDITS: sorted(tally.edits),
    }
    begin = clock.at(tally.began) if tally.began else call_began
    end = clock.at(tally.ended) if tally.began else call_began
    wrong = "hook_failed" if tally.failures else ""
    name = f"hook {tally.event} {tally.hook}"
    return SpanData(trace, new_span(), trace.span, name, "internal", begin, end, about, wrong)


def _request(asked: Asked, record: CallRecord, trace: Trace, clock: _Clock, server: str) -> SpanData:
    told: dict[str, Value] = {
        names.SERVER: server,
        names.REQUEST_MODEL: record.model,
        names.STATUS: asked.status,
    }
    about = {name: value for name, value in told.items() if value}
    wrong = "" if 0 < asked.status < 400 else str(asked.status or "no_answer")
    begin, end = clock.at(asked.began), clock.at(asked.ended)
    name = f"upstream {trace.verb}".rstrip()
    return SpanData(trace, asked.span, trace.span, name, "client", begin, end, about, wrong)
