"""A call's place in a trace: W3C Trace Context in and out, without OpenTelemetry. Pure but for its ids."""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hookgate.proxy.tracing import names
from hookgate.proxy.tracing.content import input_messages, output_messages, system_instructions
from hookgate.translator.fields import JsonObject, read, read_object

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_HEADERS = frozenset({"traceparent", "tracestate"})
_LONGEST_STATE = 512
_TAIL = 16 * 1024
"""Bytes of an answer's end that are kept: why it ended, and who gave it, is told there."""

_random = random.SystemRandom()


@dataclass(slots=True)
class Trace:
    """What is noted of one call for its spans. Ids are numbers; `parent` is 0 for one that begins a trace."""

    id: int
    span: int
    parent: int = 0
    sampled: bool = True
    """Whether spans are sent; the upstream is told of the trace in any case."""
    state: str = ""
    """The client's `tracestate`, as it came."""
    keeps_content: bool = False
    api: str = ""
    verb: str = ""
    asked: dict[str, int | float] = field(default_factory=dict)
    """The numbers of the request's generationConfig, by their attributes."""
    said: dict[str, str] = field(default_factory=dict)
    """What was said, by its attributes, where content is kept: a body itself could be of any size."""
    tail: bytes = b""

    def outgoing(self, headers: Mapping[str, str], span: int) -> dict[str, str]:
        """Headers for the upstream, for which `span` is the parent, in place of the client's."""
        told = {"traceparent": f"00-{self.id:032x}-{span:016x}-{self.sampled:02x}"}
        if self.state:
            told["tracestate"] = self.state
        return {name: value for name, value in headers.items() if name.lower() not in _HEADERS} | told

    def asks(self, body: JsonObject) -> None:
        """A request goes upstream."""
        if self.sampled:
            self.asked = dict(_numbers(read_object(body, "generationConfig")))
        if self.keeps_content:
            self.said[names.INPUT_MESSAGES] = input_messages(body)
            self.said[names.SYSTEM_INSTRUCTIONS] = system_instructions(body)

    def answers(self, answer: JsonObject | None) -> None:
        """What the model said, as hooks let it pass."""
        if self.keeps_content and answer is not None:
            self.said[names.OUTPUT_MESSAGES] = output_messages(answer)

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the upstream's answer."""
        if self.sampled:
            self.tail = (self.tail + chunk)[-_TAIL:] if len(chunk) < _TAIL else chunk[-_TAIL:]


def trace_of(headers: Mapping[str, str], sample: float, *, content: bool) -> Trace:
    """The trace that a request belongs to: its caller's, who then says whether it is sampled, or a new one.

    `sample` is the share of new traces to send; which ones their ids tell, to other services as well.
    """
    found = _PARENT.fullmatch(headers.get("traceparent", "").strip())
    if found is None or not int(found[1], 16) or not int(found[2], 16):
        number = _random.getrandbits(128) or 1
        sampled = number & (2**64 - 1) < sample * 2**64
        return Trace(number, new_span(), sampled=sampled, keeps_content=content and sampled)
    sampled = bool(int(found[3], 16) & 1)
    state = headers.get("tracestate", "")
    return Trace(
        id=int(found[1], 16),
        span=new_span(),
        parent=int(found[2], 16),
        sampled=sampled,
        state=state if len(state) <= _LONGEST_STATE else "",
        keeps_content=content and sampled,
    )


def _numbers(config: JsonObject) -> Iterator[tuple[str, int | float]]:
    for key, name in names.GENERATION.items():
        value = read(config, key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63:
            yield name, value


def new_span() -> int:
    """The id of a span; never 0."""
    return _random.getrandbits(64) or 1
