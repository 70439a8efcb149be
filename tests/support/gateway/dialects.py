"""Helpers for the tests of the dialects: policies at a gateway, and streams after a policy."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

from hypothesis import strategies as st
from support.hooks.builtins import SENSITIVE
from support.hooks.policies import REFUSAL

from hookgate.hooks.policies.redact.answers import AnswerScreen
from hookgate.hooks.policies.redact.detectors.detector import Detector
from hookgate.hooks.policies.redact.redaction import Redaction, Search
from hookgate.hooks.policies.redact.scanner import Scanner
from hookgate.translator import Framing, ToolCallFilter
from hookgate.translator.strictjson import dumps, loads

Json = dict[str, Any]

# ---- at a whole gateway

REDACT = {"type": "builtin", "name": "no-secrets", "builtin": "redact", "options": SENSITIVE}
BOTH = {"BeforeModel": [REDACT], "AfterModel": [REDACT]}


def no_rockets_at_all(event: Json) -> Json | None:
    """BeforeModel: deny a conversation that speaks of rockets."""
    said = "".join(message["content"] for message in event["llm_request"]["messages"])
    return {"decision": "deny", "reason": REFUSAL} if "rocket" in said else None


def no_shell(event: Json) -> Json | None:
    """BeforeTool: deny a call of the shell."""
    return {"decision": "deny", "reason": "no shell"} if event["tool_name"] == "shell" else None


# ---- streams

SECRET = "sk_live_0123456789"  # noqa: S105  # made up
PIECES = st.lists(st.text('ab ,.é\\"', max_size=6), min_size=1, max_size=4)
_KEY = Detector("KEY", r"sk_live_[0-9]{10}", group="credentials")


def redacted_stream(
    data: bytes,
    framing: Framing,
    decode_event: Callable[[Json], Json],
    encode_event: Callable[[Json, Json], Json],
    detector: Detector = _KEY,
) -> bytes:
    """What the client gets of a stream that a redacting policy screens."""
    screen = AnswerScreen(Redaction(Search(Scanner([detector])), lambda *_: "[KEY]"))
    frames = [frame for frame in [*framing.feed(data), *framing.finish()] if frame.data]
    bodies = [loads(frame.data) for frame in frames]
    released = [(n, r) for body in bodies for n, r in screen.feed([decode_event(body)], last=False)]
    out = b""
    for number, response in [*released, *screen.feed([], last=True)]:
        closed = encode_event(bodies[number], response)
        unchanged = closed is bodies[number]
        out += framing.encode(frames[number], frames[number].data if unchanged else dumps(closed))
    return out


def decided(*decisions: Any) -> Callable[[Json], Json]:
    """A change of a stream's events that applies the decisions to its tool calls, one after the other."""
    gate, rest = ToolCallFilter(), cycle(decisions)

    def change(response: Json) -> Json:
        return gate.apply_decisions(response, [next(rest) for _ in gate.starting_calls(response)])

    return change
