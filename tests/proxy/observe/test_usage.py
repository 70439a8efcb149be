"""The tokens of an answer: each count as the largest that is reported, however the answer is split."""

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks.session import ExpectedUse
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.usage import Usage

OWN = {"total_input_tokens": 90_000, "total_output_tokens": 5_000}
OTHER = {
    "usage": {"total_input_tokens": 10**9, "total_output_tokens": 0},
    "usageMetadata": {"promptTokenCount": 9**9},
}
CALL = {"type": "function_call", "id": "1", "name": "f", "arguments": OTHER}
USED = Usage(90_000, 5_000)


def measure(data: bytes, size: int, *, streamed: bool = True) -> AnswerMeter:
    """Return a meter that has read an answer in chunks of `size` bytes."""
    meter = AnswerMeter(streamed=streamed)
    for begin in range(0, len(data), size):
        meter.feed(data[begin : begin + size])
    meter.finish()
    return meter


def as_events(documents: list[Any], end: str = "\r\n") -> bytes:
    return "".join(f"data: {json.dumps(each)}{end}{end}" for each in documents).encode()


@pytest.mark.parametrize("names", [("usage", "steps"), ("steps", "usage")])
@given(size=st.integers(1, 200), indent=st.sampled_from([None, 1]))
def test_arguments_of_functions_in_a_whole_answer_do_not_count(
    names: tuple[str, str], size: int, indent: int | None
) -> None:
    fields = {"usage": OWN, "steps": [CALL]}
    body = json.dumps({name: fields[name] for name in names}, indent=indent).encode()
    assert measure(body, size).usage == USED


@given(size=st.integers(1, 200), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_arguments_of_functions_in_a_stream_do_not_count(size: int, end: str) -> None:
    events = [
        {"event_type": "step.start", "index": 0, "step": CALL},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": OTHER}}]}}]},
        {"event_type": "interaction.completed", "interaction": {"steps": [CALL], "usage": OWN}},
    ]
    data = as_events(events, end) + b"data: [DONE]\n\n"
    assert measure(data, size).usage == USED


REPORTS: dict[str, tuple[str, dict[str, int]]] = {
    "generateContent": (
        "usageMetadata",
        {
            "promptTokenCount": 80_000,
            "toolUsePromptTokenCount": 10_000,
            "candidatesTokenCount": 3_000,
            "thoughtsTokenCount": 2_000,
            "totalTokenCount": 95_000,
        },
    ),
    "chat": ("usage", {"prompt_tokens": 90_000, "completion_tokens": 4_000, "total_tokens": 95_000}),
    "responses": ("usage", {"input_tokens": 90_000, "output_tokens": 5_000}),
    "interactions": (
        "usage",
        {
            "total_input_tokens": 80_000,
            "total_tool_use_tokens": 10_000,
            "total_output_tokens": 3_000,
            "total_thought_tokens": 2_000,
        },
    ),
}
WRAPPED = {"responses": "response", "interactions": "interaction"}
SPELLINGS = [int, float, str, lambda count: f"{count}.0"]
HARMLESS = [{}, {"trafficType": "ON_DEMAND"}, None, "none", [], -1]


@st.composite
def reports(draw: st.DrawFn) -> list[Any]:
    """Documents that report the counts of one usage in any order and spelling, in parts, and lower ones."""
    name, counts = REPORTS[dialect := draw(st.sampled_from(sorted(REPORTS)))]
    items = draw(st.permutations(sorted(counts.items())))
    cuts = sorted(draw(st.sets(st.integers(0, len(items))))) if items else []
    parts: list[Any] = [
        {key: draw(st.sampled_from(SPELLINGS))(count) for key, count in items[begin:end]}
        for begin, end in pairwise([0, *cuts, len(items)])
    ]
    for _ in range(draw(st.integers(0, 4))):
        lower = {
            key: draw(st.sampled_from([0, -5, "x", "-7", True, None, float(count // 2)]))
            for key, count in items
        }
        parts.insert(draw(st.integers(0, len(parts))), draw(st.sampled_from([lower, *HARMLESS])))
    documents = [{name: part} for part in parts]
    outer = WRAPPED.get(dialect, draw(st.sampled_from(["", "response"])) if name == "usageMetadata" else "")
    return [{outer: each} for each in documents] if outer else documents


@given(documents=reports(), framing=st.sampled_from(["events", "array"]), size=st.integers(1, 300))
def test_no_order_cut_or_format_of_reports_lowers_the_usage(
    documents: list[Any], framing: str, size: int
) -> None:
    data = as_events(documents) if framing == "events" else json.dumps(documents).encode()
    assert measure(data, size).usage == USED


def escaped(data: bytes, name: str, every: int) -> bytes:
    """A JSON text in which some letters of a string are written as escapes."""
    spelling = "".join(f"\\u{ord(c):04X}" if n % every == 0 else c for n, c in enumerate(name))
    return data.replace(f'"{name}"'.encode(), f'"{spelling}"'.encode())


@given(size=st.integers(1, 200), every=st.integers(1, 13))
@pytest.mark.parametrize("dialect", REPORTS)
def test_a_usage_counts_in_every_spelling_of_its_name(dialect: str, size: int, every: int) -> None:
    name, counts = REPORTS[dialect]
    assert measure(escaped(as_events([{name: counts}]), name, every), size).usage == USED


@pytest.mark.parametrize("data", [b"", b"no JSON", b"[]", b"data: {\n\n", b'{"usage": 1}', b"{", b" \n" * 99])
def test_what_has_no_usage_counts_nothing(data: bytes) -> None:
    assert measure(data, 3).usage == Usage()


def test_a_lone_surrogate_hides_no_usage() -> None:
    name, counts = REPORTS["generateContent"]
    assert measure(as_events([{"text": "\ud800", name: counts}]), 7).usage == USED


@pytest.mark.parametrize("filler", [b"A" * 2_000_000, b"A" * 1_100_000], ids=["cut", "almost whole"])
def test_the_usage_of_an_answer_with_a_large_picture_counts(filler: bytes) -> None:
    name, counts = REPORTS["generateContent"]
    data = b'{"candidates": [{"inlineData": "%b"}], "%b": %b}' % (
        filler,
        name.encode(),
        json.dumps(counts).encode(),
    )
    assert measure(data, 65_536).usage == USED
    assert measure(b"data: " + data + b"\r\n\r\n", 65_536).usage == USED


TEXTS = {
    "generateContent": {"candidates": [{"content": {"parts": [{"text": "x" * 800}]}}]},
    "calls": {
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": "x" * 800}}}]}}]
    },
    "code": {"candidates": [{"content": {"parts": [{"executableCode": {"code": "x" * 800}}]}}]},
    "chat": {"choices": [{"delta": {"content": "x" * 800}}]},
    "responses": {"type": "response.output_text.delta", "delta": "x" * 800},
    "interactions": {"event_type": "step.delta", "delta": {"type": "text", "text": "x" * 800}},
}


@pytest.mark.parametrize("dialect", TEXTS)
def test_text_that_has_passed_counts_if_no_usage_reports_it(dialect: str) -> None:
    meter = measure(as_events([TEXTS[dialect]]), 50)
    estimate = meter.unreported(ExpectedUse(12, 5000))
    assert estimate.input_tokens == 12
    assert 100 <= estimate.output_tokens < 110
    assert meter.unreported(ExpectedUse(12, 5000), was_left=True) == Usage(12, 5000)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_text_of_a_very_large_answer_counts_if_no_usage_reports_it(streamed: bool) -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": 'say "x" ' * 50_000}]}}]}
    data = as_events([answer]) if streamed else json.dumps(answer).encode()
    assert measure(data, 65_536, streamed=streamed).unreported(ExpectedUse()).output_tokens > 30_000


def test_text_that_is_repeated_at_the_end_counts_once() -> None:
    text = "x" * 800
    done = {"type": "response.output_text.done", "text": text}
    completed = {"type": "response.completed", "response": {"output": [{"content": [{"text": text}]}]}}
    meter = measure(as_events([TEXTS["responses"], done, completed]), 50)
    assert meter.unreported(ExpectedUse()).output_tokens == 100


LONG = "word " * 2_000
TOKENS = len(LONG) // 8


def answer_with(part: Any, **more: Any) -> Any:
    """Return a whole answer with one part that reports hardly any tokens."""
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1}
    return {"candidates": [{"content": {"parts": [part]}}], "usageMetadata": usage, **more}


HOLDERS = {
    "text": {"text": LONG},
    "thought": {"text": LONG, "thought": True},
    "code": {"executableCode": {"code": LONG}},
    "arguments": {"functionCall": {"name": "f", "args": {"x": LONG}}},
    "pieces of arguments": {"functionCall": {"name": "f", "partialArgs": [{"stringValue": LONG}]}},
    "a name": {"functionCall": {"name": LONG, "args": {}}},
    "a call of a hosted tool": {"toolCall": {"toolType": "X", "args": {"x": LONG}}},
    "a result of code": {"codeExecutionResult": {"output": LONG}},
    "a result of a hosted tool": {"toolResponse": {"toolType": "X", "response": {"x": LONG}}},
    "a result": {"functionResponse": {"name": "f", "response": {"x": LONG}}},
    "the address of a file": {"fileData": {"fileUri": LONG}},
    "a file of text": {"inlineData": {"mimeType": "text/plain", "data": "QUJD" * (len(LONG) // 3)}},
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("extra", [{}, {"type": "x"}, {"event_type": "x"}, {"z": "a" * 300_000}], ids=str)
@pytest.mark.parametrize("holder", HOLDERS)
def test_text_counts_wherever_it_is(holder: str, extra: Any, streamed: bool) -> None:
    document = {**extra, **answer_with(HOLDERS[holder])}
    if streamed:
        meter = measure(as_events([document]), 65_536)
    else:
        meter = AnswerMeter()
        meter.note_whole(json.dumps(document).encode())
    assert meter.unreported(ExpectedUse()).output_tokens >= TOKENS - 2


def test_results_of_hosted_tools_that_are_reported_do_not_count_again() -> None:
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 50, "toolUsePromptTokenCount": 2_500}
    meter = AnswerMeter()
    meter.note_whole(json.dumps(answer_with(HOLDERS["a result of code"], usageMetadata=usage)).encode())
    assert meter.unreported(ExpectedUse()).output_tokens == 0


@pytest.mark.parametrize(
    ("kind", "bytes_", "reported"),
    [
        ("image/png", 2_000_000, 1_290),
        ("image/png", 1_000, 258),
        ("audio/L16;codec=pcm;rate=24000", 640_000, 250),
    ],
)
def test_pictures_and_sound_do_not_count_more_than_they_cost(kind: str, bytes_: int, reported: int) -> None:
    picture = {"inlineData": {"mimeType": kind, "data": "QUJD" * (bytes_ // 4)}}
    meter = AnswerMeter()
    meter.note_whole(json.dumps(answer_with(picture)).encode())
    assert 0 < meter.unreported(ExpectedUse()).output_tokens <= reported


def test_an_event_of_an_unknown_type_counts_if_it_has_more_text_than_the_others() -> None:
    events = [{"type": f"x{number}", "text": LONG} for number in range(100)]
    assert measure(as_events(events), 65_536).unreported(ExpectedUse()).output_tokens >= 68 * TOKENS


@pytest.mark.parametrize("body", [[True], [1], ["x"], [None], [[]], [{"content": {"parts": [5]}}]])
def test_a_malformed_answer_is_no_reason_to_fail(body: list[Any]) -> None:
    assert measure(as_events([{"candidates": body}]), 65_536).usage == Usage()


@pytest.mark.parametrize(
    "word", ["AKIAQ3EGRYH7XJ4WPL2D", "two words", "x" * 41, "SECRETWORD", {"a": 1}, True]
)
def test_words_of_an_error_that_could_be_anything_are_not_quoted(word: Any) -> None:
    meter = measure(as_events([{"error": {"code": word, "status": word, "type": word}}]), 65_536)
    assert meter.failure == "the answer has an error"


ENDS: dict[str, list[Any]] = {
    "generateContent": [{"candidates": [{"finishReason": "STOP"}]}],
    "blocked": [{"promptFeedback": {"blockReason": "SAFETY"}}],
    "Code Assist": [{"response": {"candidates": [{"finishReason": "STOP"}]}}],
    "chat": [{"choices": [{"delta": {}, "finish_reason": "stop"}]}],
    "responses": [{"type": "response.completed", "response": {"error": None}}],
    "interactions": [{"event_type": "interaction.completed", "interaction": {}}],
}


@pytest.mark.parametrize("dialect", ENDS)
@pytest.mark.parametrize("framing", ["events", "array"])
def test_a_stream_with_an_end_has_not_failed(dialect: str, framing: str) -> None:
    documents = [{"text": "so"}, *ENDS[dialect]]
    whole, cut = (
        as_events(each) if framing == "events" else json.dumps(each).encode()
        for each in (documents, documents[:1])
    )
    assert measure(whole, 9).failure == ""
    assert measure(cut, 9).failure == "the stream ended before the model had finished"
    assert measure(cut, 9, streamed=False).failure == ""


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        ({"error": {"code": 503, "message": "secret", "status": "UNAVAILABLE"}}, ": 503 UNAVAILABLE"),
        ({"type": "error", "code": "server_error", "message": "secret"}, ": server_error error"),
        ({"event_type": "error", "error": {"code": "overloaded"}}, ": overloaded"),
        ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, ": server_error"),
        ({"error": "secret words"}, ""),
        ({"error": {"status": "secret words"}}, ""),
    ],
)
@pytest.mark.parametrize("framed", [True, False])
def test_an_error_in_a_stream_is_a_failure_and_its_message_is_not_quoted(
    error: Any, facts: str, framed: bool
) -> None:
    tail = as_events([error]) if framed else json.dumps(error, indent=1).encode()
    meter = measure(as_events([{"text": "so"}]) + tail, 11, streamed=True)
    assert meter.failure == f"the answer has an error{facts}"


def test_an_error_as_a_whole_answer_is_a_failure() -> None:
    error = {"error": {"code": 503, "message": "secret", "status": "UNAVAILABLE"}}
    meter = measure(json.dumps(error).encode(), 9, streamed=False)
    assert meter.failure == "the answer has an error: 503 UNAVAILABLE"


@pytest.mark.parametrize("number", [1, 200_000])
def test_an_answer_that_is_not_streamed_is_one_document_whatever_it_looks_like(number: int) -> None:
    """Its end is searched for the tokens used. It is not decoded as a stream, which could take seconds."""
    data = b"[" + b"{}," * number + b'{"usageMetadata": {"promptTokenCount": 5}}]'
    started = time.thread_time()
    assert measure(data, 64 * 1024, streamed=False).usage == Usage(5)
    assert time.thread_time() - started < 0.1
