"""The trace of one call: its W3C Trace Context, and the data of the call that spans show. It does no I/O."""

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hookgate.proxy.observe.content import CallObserver
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.strictjson import dumps

_NUMERIC_ATTRIBUTES = {
    "temperature": "gen_ai.request.temperature",
    "topP": "gen_ai.request.top_p",
    "topK": "gen_ai.request.top_k",
    "maxOutputTokens": "gen_ai.request.max_tokens",
    "candidateCount": "gen_ai.request.choice.count",
    "seed": "gen_ai.request.seed",
    "frequencyPenalty": "gen_ai.request.frequency_penalty",
    "presencePenalty": "gen_ai.request.presence_penalty",
}
"""The attributes for the numeric fields of generationConfig."""

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_HEADERS = frozenset({"traceparent", "tracestate"})
_LONGEST_STATE = 512
_TAIL = 16 * 1024
"""Bytes kept of an answer's end, which contains the finish reason, the model version and the response ID."""

_random = random.SystemRandom()


@dataclass(slots=True)
class Trace(CallObserver):
    """The data of one call for its spans. IDs are numbers; `parent` is 0 if the call begins a trace."""

    id: int
    span: int
    parent: int = 0
    sampled: bool = True
    """Whether spans are sent. The trace's headers are sent upstream in any case."""
    state: str = ""
    """The client's `tracestate`, unchanged."""
    keeps_content: bool = False
    api: str = ""
    verb: str = ""
    request_attributes: dict[str, int | float] = field(default_factory=dict)
    """The numbers in the request's generationConfig, by attribute."""
    input_messages: str = ""
    """The conversation as JSON, if content is kept. Bodies are not kept: they could be of any size."""
    system_instructions: str = ""
    output_messages: str = ""
    tail: bytes = b""

    def outgoing(self, headers: Mapping[str, str], span: int) -> dict[str, str]:
        """Return the headers for the upstream: the client's, with new trace headers. `span` is the parent."""
        trace_headers = {"traceparent": f"00-{self.id:032x}-{span:016x}-{self.sampled:02x}"}
        if self.state:
            trace_headers["tracestate"] = self.state
        others = {name: value for name, value in headers.items() if name.lower() not in _HEADERS}
        return others | trace_headers

    @property
    def wants_answer(self) -> bool:
        return self.keeps_content

    def on_upstream_request(self, model: str, body: JsonObject, request: JsonObject) -> None:
        if self.sampled:
            self.request_attributes = dict(_numbers(read_object(request, "generationConfig")))
        if self.keeps_content:
            self.input_messages = input_messages(request)
            self.system_instructions = system_instructions(request)

    def on_upstream_bytes(self, chunk: bytes) -> None:
        if self.sampled:
            self.tail = (self.tail + chunk)[-_TAIL:] if len(chunk) < _TAIL else chunk[-_TAIL:]

    def on_answer(self, answer: JsonObject) -> None:
        if self.keeps_content:
            self.output_messages = output_messages(answer)


def trace_of(headers: Mapping[str, str], sample: float, *, content: bool) -> Trace:
    """Return the trace of a request: its caller's, with the caller's sampling decision, or a new one.

    `sample` is the share of new traces to send. The decision depends on the trace's ID only, so that other
    services can decide alike.
    """
    match = _PARENT.fullmatch(headers.get("traceparent", "").strip())
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        number = _random.getrandbits(128) or 1
        sampled = number & (2**64 - 1) < sample * 2**64
        return Trace(number, new_span(), sampled=sampled, keeps_content=content and sampled)
    sampled = bool(int(match[3], 16) & 1)
    state = headers.get("tracestate", "")
    return Trace(
        id=int(match[1], 16),
        span=new_span(),
        parent=int(match[2], 16),
        sampled=sampled,
        state=state if len(state) <= _LONGEST_STATE else "",
        keeps_content=content and sampled,
    )


def _numbers(config: JsonObject) -> Iterator[tuple[str, int | float]]:
    for key, name in _NUMERIC_ATTRIBUTES.items():
        value = read(config, key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63:
            yield name, value


def new_span() -> int:
    """Return a new span ID, which is never 0."""
    return _random.getrandbits(64) or 1


_MAX_ATTRIBUTE = 64 * 1024
"""The largest size of an attribute in bytes; the oldest messages are left out first."""


def input_messages(request: JsonObject) -> str:
    """Return the messages of a request's conversation as JSON."""
    return _latest_messages(_message(content) for content in read_list(request, "contents"))


def output_messages(answer: JsonObject) -> str:
    """Return the message of each candidate of an answer as JSON."""
    messages = []
    for candidate in read_list(answer, "candidates"):
        if isinstance(candidate, dict):
            reason = str(read(candidate, "finishReason") or "").lower()
            message = _message(read_object(candidate, "content"), "assistant")
            messages.append({**message, "finish_reason": reason})
    return _latest_messages(messages)


def system_instructions(request: JsonObject) -> str:
    """Return the system instruction of a request as JSON, or an empty string if there is none."""
    parts = read_list(read_object(request, "systemInstruction"), "parts")
    return _latest_messages(_part(part) for part in parts) if parts else ""


def _message(content: Any, role: str = "") -> JsonObject:
    content = content if isinstance(content, dict) else {}
    role = role or {"model": "assistant"}.get(str(content.get("role")), "user")
    return {"role": role, "parts": [_part(part) for part in read_list(content, "parts")]}


def _part(part: Any) -> JsonObject:
    if not isinstance(part, dict):
        return {"type": "unknown"}
    if isinstance(text := read(part, "text"), str):
        return {"type": "reasoning" if read(part, "thought") else "text", "content": text}
    if isinstance(call := read(part, "functionCall"), dict):
        return {
            "type": "tool_call",
            "id": call.get("id"),
            "name": call.get("name"),
            "arguments": call.get("args"),
        }
    if isinstance(result := read(part, "functionResponse"), dict):
        return {"type": "tool_call_response", "id": result.get("id"), "response": result.get("response")}
    return {"type": next(iter(part), "unknown")}


def _latest_messages(messages: Iterable[JsonObject]) -> str:
    """Return the latest messages that fit into one attribute, as JSON."""
    kept: list[bytes] = []
    size = 2
    for message in reversed(list(messages)):
        data = dumps(message)
        size += len(data) + 1
        if size > _MAX_ATTRIBUTE:
            break
        kept.append(data)
    return f"[{b','.join(reversed(kept)).decode()}]"
