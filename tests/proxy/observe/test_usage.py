"""The tokens of an answer: only its own last usage counts, however the answer is split."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.proxy.observe.usage import Usage, UsageMeter, make_meter
from hookgate.proxy.routing.dialects.adapter import UsageFormat

OWN = {"total_input_tokens": 90_000, "total_output_tokens": 5_000}
OTHER = {"usage": {"total_input_tokens": 0, "total_output_tokens": 0}, "event_type": "interaction.completed"}
CALL = {"type": "function_call", "id": "1", "name": "f", "arguments": OTHER}


def measured(data: bytes, size: int, dialect: UsageFormat = "interaction") -> Usage:
    meter = make_meter(dialect)
    for begin in range(0, len(data), size):
        meter.feed(data[begin : begin + size])
    return meter.usage()


@pytest.mark.parametrize("names", [("usage", "steps"), ("steps", "usage")])
@given(size=st.integers(1, 200), indent=st.sampled_from([None, 1]))
def test_arguments_of_functions_in_a_whole_answer_do_not_count(
    names: tuple[str, str], size: int, indent: int | None
) -> None:
    fields = {"usage": OWN, "steps": [CALL]}
    body = json.dumps({name: fields[name] for name in names}, indent=indent).encode()
    assert measured(body, size) == Usage(90_000, 5_000)


@given(size=st.integers(1, 200), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_the_usage_of_a_stream_s_last_event_counts(size: int, end: str) -> None:
    events = [
        {"event_type": "step.start", "index": 0, "step": CALL},
        {"event_type": "interaction.completed", "interaction": {"steps": [CALL], "usage": OWN}},
    ]
    lines = [f"event: {each['event_type']}{end}data: {json.dumps(each)}{end}{end}" for each in events]
    assert measured("".join([*lines, f"data: [DONE]{end}{end}"]).encode(), size) == Usage(90_000, 5_000)


def escaped(data: bytes, name: str, every: int) -> bytes:
    """A JSON text in which some letters of a string are written as escapes."""
    spelling = "".join(f"\\u{ord(c):04X}" if n % every == 0 else c for n, c in enumerate(name))
    return data.replace(f'"{name}"'.encode(), f'"{spelling}"'.encode())


@given(size=st.integers(1, 200), every=st.integers(1, 13))
@pytest.mark.parametrize(
    ("dialect", "name"),
    [("gemini", "usageMetadata"), ("openai", "usage"), ("interaction", "interaction.completed")],
)
def test_a_usage_counts_in_every_spelling(dialect: Any, name: str, size: int, every: int) -> None:
    bodies: dict[str, Any] = {
        "gemini": {"usageMetadata": {"promptTokenCount": 90_000, "candidatesTokenCount": 5_000}},
        "openai": {"choices": [], "usage": {"prompt_tokens": 90_000, "completion_tokens": 5_000}},
        "interaction": {"event_type": "interaction.completed", "interaction": {"usage": OWN}},
    }
    text = {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "\u2028"}}
    data = b"data: " + json.dumps(bodies[dialect]).encode() + b"\n\n"
    end = b"data: " + json.dumps(text).encode() + b"\n\n"
    assert measured(escaped(data, name, every) + end, size, dialect) == Usage(90_000, 5_000)


@pytest.mark.parametrize("data", [b"", b"no JSON", b"[]", b"data: {\n\n", b'{"usage": 1}', b"{"])
def test_what_has_no_usage_counts_nothing(data: bytes) -> None:
    assert measured(data, 3) == Usage()


@given(texts=st.lists(st.text("ab", max_size=90), min_size=1, max_size=4), size=st.integers(1, 200))
def test_the_last_of_many_usages_counts_wherever_the_stream_is_split(texts: list[str], size: int) -> None:
    events = [
        {"text": text, "usageMetadata": {"promptTokenCount": count}} for count, text in enumerate(texts, 1)
    ]
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)
    meter = UsageMeter()
    for begin in range(0, len(data), size):
        meter.feed(data[begin : begin + size])
    assert meter.usage() == Usage(len(texts))
