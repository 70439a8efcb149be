"""Trace context: how it is received and sent on."""

import json

import pytest

from hookgate.proxy.observe.trace_context import Trace, input_messages, output_messages, trace_of

ID, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{ID}-{SPAN}-01"


def test_a_call_belongs_to_its_callers_trace() -> None:
    trace = trace_of({"traceparent": PARENT, "tracestate": "vendor=1"}, 0.0, content=False)
    assert (trace.id, trace.parent, trace.sampled) == (int(ID, 16), int(SPAN, 16), True)
    assert trace.span not in (0, trace.parent)
    reported = trace.outgoing({"Traceparent": "old", "TraceState": "old", "Accept": "*/*"}, 1)
    assert reported == {"Accept": "*/*", "traceparent": f"00-{ID}-{1:016x}-01", "tracestate": "vendor=1"}


def test_a_caller_that_is_not_sampled_is_not_sampled_here() -> None:
    trace = trace_of({"traceparent": f"00-{ID}-{SPAN}-00"}, 1.0, content=True)
    assert (trace.sampled, trace.keeps_content) == (False, False)
    assert trace.outgoing({}, 1)["traceparent"].endswith("-00")


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="none"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", id="no trace"),
        pytest.param(f"00-{ID}-{'0' * 16}-01", id="no span"),
        pytest.param(f"ff-{ID}-{SPAN}-01", id="forbidden version"),
        pytest.param(f"00-{ID.upper()}-{SPAN}-01", id="capitals"),
        pytest.param(f"00-{ID}-{SPAN}", id="no flags"),
        pytest.param(f"00-{ID[1:]}-{SPAN}-01", id="too short"),
    ],
)
def test_an_invalid_traceparent_begins_a_new_trace(header: str) -> None:
    trace = trace_of({"traceparent": header, "tracestate": "vendor=1"}, 1.0, content=False)
    assert trace.parent == 0
    assert trace.id not in (0, int(ID, 16))
    assert trace.state == ""


def test_a_later_version_may_tell_more() -> None:
    assert trace_of({"traceparent": f"01-{ID}-{SPAN}-01-more"}, 0.0, content=False).id == int(ID, 16)


@pytest.mark.parametrize(
    ("sample", "least", "most"),
    [
        pytest.param(0.0, 0, 0, id="none"),
        pytest.param(0.5, 350, 650, id="half"),
        pytest.param(1.0, 1000, 1000, id="all"),
    ],
)
def test_a_share_of_new_traces_is_sampled(sample: float, least: int, most: int) -> None:
    sampled = sum(trace_of({}, sample, content=False).sampled for _ in range(1000))
    assert least <= sampled <= most


def test_only_the_end_of_an_answer_is_kept() -> None:
    trace = Trace(1, 1)
    for chunk in (b"a" * 20_000, b"b" * 10, b"c" * 16_000):
        trace.on_upstream_bytes(chunk)
    assert len(trace.tail) == 16 * 1024
    assert trace.tail == (b"a" * 374 + b"b" * 10 + b"c" * 16_000)


def test_messages_have_the_parts_of_the_semantic_conventions() -> None:
    call = {"functionCall": {"id": "c", "name": "ls", "args": {"path": "/"}}}
    thought, picture = {"text": "hm", "thought": True}, {"inlineData": {"mimeType": "image/png", "data": ""}}
    result = {"functionResponse": {"id": "c", "name": "ls", "response": {"output": "etc"}}}
    said = {"role": "model", "parts": [thought, call]}
    assert json.loads(input_messages({"contents": [said, {"parts": [result, picture]}]})) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c", "name": "ls", "arguments": {"path": "/"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"type": "tool_call_response", "id": "c", "response": {"output": "etc"}},
                {"type": "inlineData"},
            ],
        },
    ]
    [answer] = json.loads(output_messages({"candidates": [{"content": said}]}))
    assert answer["parts"][1]["type"] == "tool_call"
