"""Streamed completions: bytes stay as they came, calls are judged whole, and edits become chunks."""

import json
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel, ConfigDict
from support.bodies.chat import MODEL, called, chunk, completions, ended, sse, text_chunk, tool_call
from support.bodies.interactions import Json, copied
from support.gateway.dialects import PIECES, SECRET, decided, redacted_stream
from support.translation import framing

from hookgate.translator import BodyError, ToolCallFilter
from hookgate.translator.chat import CompletionChunks, decode_completion, encode_completion, new_completion
from hookgate.translator.chat.answer import completion_chunks
from hookgate.translator.streaming.framing import MAX_EVENT
from hookgate.translator.strictjson import dumps

USAGE = {"id": "c", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}


def streamed(
    data: bytes, change: Callable[[Json], Json] = lambda response: response, cuts: tuple[int, ...] = ()
) -> bytes:
    chunks = CompletionChunks()
    chunks.expect_choices(2)
    return framing.streamed(chunks, decode_completion, encode_completion, data, change=change, cuts=cuts)


def chunks_of(data: bytes) -> list[Json]:
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def deltas_of(data: bytes, choice: int = 0) -> list[Json]:
    choices = [each for chunk in chunks_of(data) for each in chunk["choices"] if each["index"] == choice]
    return [each["delta"] for each in choices]


def text_of(data: bytes, choice: int = 0) -> str:
    return "".join(delta.get("content") or "" for delta in deltas_of(data, choice))


def calls_of(data: bytes, choice: int = 0) -> list[tuple[str, str]]:
    """The names and arguments of the calls, as a client joins them."""
    joined: dict[int, list[str]] = {}
    for delta in deltas_of(data, choice):
        for call in delta.get("tool_calls") or ():
            names = joined.setdefault(call["index"], ["", ""])
            names[0] += call["function"].get("name") or ""
            names[1] += call["function"].get("arguments") or ""
    return [(name, text) for name, text in joined.values()]


def reason_of(data: bytes) -> Any:
    reasons = [choice["finish_reason"] for chunk in chunks_of(data) for choice in chunk["choices"]]
    return next((reason for reason in reversed(reasons) if reason), None)


# ---- what nobody changed


@given(PIECES, PIECES, st.lists(st.integers(0, 10_000), max_size=4))
def test_unchanged_chunks_keep_their_bytes_wherever_they_are_split(
    texts: list[str], arguments: list[str], cuts: list[int]
) -> None:
    pieces = ['{"a": ', *(json.dumps("".join(arguments))[i : i + 3] for i in range(0, 99, 3)), "}"]
    data = sse([*map(text_chunk, texts), begun(0, "a", "".join(pieces)), ended("tool_calls"), USAGE])
    assert streamed(data, copied, tuple(cuts)) == data


@given(PIECES, st.lists(st.integers(0, 10_000), max_size=4))
def test_a_call_in_pieces_is_sent_whole_because_clients_leave_out_different_pieces(
    pieces: list[str], cuts: tuple[int, ...]
) -> None:
    arguments = json.dumps("".join(pieces))
    parts = ['{"a": ', *(arguments[i : i + 3] for i in range(0, len(arguments), 3)), "}"]
    data = sse([*called(parts), *called(["{}"], 1), ended("tool_calls"), USAGE])
    first, second, *rest = chunks_of(streamed(data, copied, tuple(cuts)))
    [call] = first["choices"][0]["delta"]["tool_calls"]
    assert call["function"]["arguments"] == "".join(parts)
    assert second["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert rest == [ended("tool_calls"), USAGE]


@pytest.mark.parametrize("name", [{}, [], 0, False, 1])
def test_a_name_of_a_function_that_is_no_string_is_refused(name: Any) -> None:
    first, rest = called(['{"a": 1}'])
    rest["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] = name
    with pytest.raises(BodyError, match="name of a function must be a string"):
        streamed(sse([first, rest, ended("tool_calls")]))


@pytest.mark.parametrize("arguments", ["{}", '{"a": "b"}'])
def test_calls_are_numbered_as_they_are_sent(arguments: str) -> None:
    """openai-python fails if the first call that it receives has another index than 0."""
    data = sse([begun(5, "shell", arguments), begun(7, "ls", arguments, "c2"), ended("tool_calls")])
    sent = [call["index"] for delta in deltas_of(streamed(data)) for call in delta.get("tool_calls", ())]
    assert sent == [0, 1]
    refused = streamed(data, decided("not allowed", {"b": 1}))
    assert [call["index"] for delta in deltas_of(refused) for call in delta.get("tool_calls", ())] == [0]


# ---- what some clients leave out


def mutations(value: Any, path: tuple[Any, ...] = ()) -> list[Any]:
    """Copies of a JSON value, each with another value, or none, in one place."""
    changed: list[Any] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        others = [*JUNK, *mutations(item, (*path, key))]
        for other in others:
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = other
            changed.append(copy)
        if isinstance(value, dict):
            changed.append({name: each for name, each in value.items() if name != key})
    return changed


JUNK = [None, {}, [], "x", 5, True, [{}], ["x"], [5], 1.5, -1]
TEXT = {
    **text_chunk("xyzzy ", role="assistant", annotations=[], reasoning_content=None),
    "created": 1,
    "service_tier": "default",
    "future": 1,
    "error": None,
    "usage": {"prompt_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 0}},
}
TEXT["choices"][0]["delta"]["extra_content"] = {"google": {"thought": False}}
TEXT["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": -0.1, "top_logprobs": []}]}


class Strict(BaseModel):
    """An object without other fields, and with nothing but these types, as in clients that check them."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Delta(Strict):
    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    extra_content: dict[Literal["google"], dict[Literal["thought"], bool | None]] | None = None
    annotations: None = None


class Token(Strict):
    token: str
    logprob: float
    top_logprobs: list[Any]


class Choice(Strict):
    index: int
    delta: Delta
    finish_reason: str | None = None
    logprobs: dict[str, list[Token] | None] | None = None


class Usage(Strict):
    prompt_tokens: float | None = None
    completion_tokens_details: dict[str, float | None] | None = None


class TextChunk(Strict):
    id: str | None = None
    object: Literal["chat.completion.chunk"]
    created: float | None = None
    model: str | None = None
    service_tier: str | None = None
    choices: list[Choice]
    usage: Usage | None = None


def test_a_text_has_nothing_beside_it_for_which_a_client_would_leave_it_out() -> None:
    texts = 0
    for change in mutations(TEXT):
        try:
            out = chunks_of(streamed(sse([change])))
        except BodyError:
            continue
        for each in out:
            if b"xyzzy" in dumps(each):
                TextChunk.model_validate(each)
                texts += 1
    assert texts > 100


def test_what_stands_beside_a_text_is_sent_after_it() -> None:
    odd = chunk({"content": "a", "annotations": [{"type": "b"}]}, "stop", future=1)
    first, second = chunks_of(streamed(sse([odd])))
    assert first == chunk({"content": "a"}, "stop")
    assert (second["future"], second["choices"][0]["delta"]) == (1, {"annotations": [{"type": "b"}]})


@pytest.mark.parametrize(
    "field", ["id", "object", "created", "model", "system_fingerprint", "service_tier", "future"]
)
def test_a_field_of_another_type_is_judged_and_sent_after_the_text(field: str) -> None:
    value = {"said": ["x"]}
    first, second = chunks_of(streamed(sse([{**text_chunk("a"), field: value}]), copied))
    assert (first["choices"][0]["delta"]["content"], first.get(field) == value) == ("a", False)
    assert second[field] == value


@pytest.mark.parametrize("usage", [[], "x", 5])
def test_a_usage_that_nobody_could_count_is_refused(usage: Any) -> None:
    with pytest.raises(BodyError, match="usage"):
        streamed(sse([{**text_chunk("a"), "usage": usage}]))


@pytest.mark.parametrize(
    ("first", "second"), [("", "~"), ("~", ""), ("~", "#"), (None, "~"), ("", ""), ("~", None)]
)
def test_thoughts_in_two_fields_are_sent_apart_because_clients_read_only_one(
    first: str | None, second: str | None
) -> None:
    both = {"reasoning_content": first, "reasoning": second, "content": "a"}
    out = deltas_of(streamed(sse([chunk(both, "stop")])))
    as_clients_do = [
        each["reasoning"] if (text := each.get("reasoning_content")) is None else text
        for each in out
        if "reasoning" in each or "reasoning_content" in each
    ]
    assert "".join(text or "" for text in as_clients_do) == (first or "") + (second or "")
    assert "".join(each.get("content") or "" for each in out) == "a"


def test_an_error_beside_a_text_is_refused() -> None:
    with pytest.raises(BodyError, match="beside choices"):
        streamed(sse([{**text_chunk("a"), "error": {"message": "b"}}]))


def test_text_flows_while_it_is_judged_and_a_call_is_held_until_it_is_complete() -> None:
    framing = CompletionChunks()
    first, *rest = called(['{"a": ', "1}"])

    def released(each: Json) -> int:
        return len(framing.feed(b"data: " + dumps(each) + b"\n\n"))

    assert released(text_chunk("hi")) == 1
    assert [released(each) for each in (first, *rest, ended("tool_calls"))] == [0, 0, 0, 1]


@pytest.mark.parametrize("spelling", [r"tool\u005fcalls", r"\u0074ool_calls", r"tool_call\u0073"])
def test_a_call_is_held_back_until_it_is_complete_in_every_spelling(spelling: str) -> None:
    """A client joins the pieces to one call, so hooks must not see them one by one."""
    first, rest = called(['{"path": "/etc/passwd"}'])
    rest["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] = ""
    seen: list[Json] = []
    data = sse([first, rest, ended("stop")]).replace(b"tool_calls", spelling.encode())
    out = streamed(data, lambda response: seen.append(response) or response)
    assert calls_of(out) == [("read_file", '{"path": "/etc/passwd"}')]
    [part] = [part for each in seen for part in each["candidates"][0]["content"]["parts"]]
    assert part["functionCall"]["args"] == {"path": "/etc/passwd"}


@pytest.mark.parametrize("name", ["choices", "usage"])
def test_the_usage_that_a_client_has_not_requested_is_hidden_in_every_spelling(name: str) -> None:
    framing = CompletionChunks()
    framing.hide_usage()
    spelling = f"\\u{ord(name[0]):04x}{name[1:]}"
    data = sse([text_chunk("h\u0131"), USAGE]).replace(f'"{name}"'.encode(), f'"{spelling}"'.encode())
    out = b"".join(framing.encode(frame, frame.data) for frame in [*framing.feed(data), *framing.finish()])
    assert b"prompt_tokens" not in out
    assert data.startswith(out.removesuffix(b"data: [DONE]\n\n"))


@given(completions())
def test_a_completion_can_be_streamed_in_chunks(body: Json) -> None:
    choices = body.get("choices") or ()
    if any((choice.get("message") or {}).get("tool_calls") for choice in choices):
        # Chunks from the first call on are sent without log probabilities.
        body = {**body, "choices": [{**choice, "logprobs": None} for choice in choices]}
    data = sse(completion_chunks(body))
    out = streamed(data, copied)
    for index in range(len(choices)):
        assert (text_of(out, index), calls_of(out, index)) == (text_of(data, index), calls_of(data, index))
    assert sorted(set(re.findall(rb"<\d+>", out))) == sorted(set(re.findall(rb"<\d+>", data)))


# ---- redaction


def redacted(data: bytes) -> bytes:
    return redacted_stream(data, CompletionChunks(), decode_completion, encode_completion)


@pytest.mark.parametrize("field", ["content", "refusal", "reasoning_content"])
@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
def test_a_secret_is_masked_wherever_the_deltas_of_a_text_are_split(cut: int, field: str) -> None:
    pieces = ["the key is ", SECRET[:cut], SECRET[cut:], " as you know"]
    data = sse([*(chunk({field: piece}) for piece in pieces), ended()])
    assert (
        "".join(delta.get(field) or "" for delta in deltas_of(redacted(data)))
        == "the key is [KEY] as you know"
    )


@pytest.mark.parametrize("cut", range(len(SECRET) + 9))
def test_a_secret_in_arguments_is_masked_wherever_they_are_split(cut: int) -> None:
    text = json.dumps({"a": SECRET})
    data = sse([text_chunk("look"), *called([text[:cut], text[cut:]]), ended("tool_calls")])
    out = redacted(data)
    assert calls_of(out) == [("read_file", '{"a":"[KEY]"}')]
    assert (text_of(out), reason_of(out)) == ("look", "tool_calls")


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_secret_is_masked_in_each_of_several_choices(cut: int) -> None:
    choices = [chunk({"content": piece}, index=n) for piece in (SECRET[:cut], SECRET[cut:]) for n in (0, 1)]
    out = redacted(sse([*choices, ended(), ended(index=1)]))
    assert (text_of(out), text_of(out, 1)) == ("[KEY]", "[KEY]")


# ---- decisions about calls


def test_a_refused_call_becomes_text_and_the_answer_ends() -> None:
    data = sse([text_chunk("I try. "), *called(['{"a": 1', "}"]), ended("tool_calls"), USAGE])
    out = streamed(data, decided("not allowed"))
    assert (text_of(out), calls_of(out), reason_of(out)) == ("I try. not allowed", [], "stop")
    assert out.endswith(b"data: [DONE]\n\n")
    assert chunks_of(out)[-1] == USAGE


def test_one_of_two_calls_is_refused_and_one_gets_other_arguments() -> None:
    data = sse([*called(['{"a"', ": 1}"]), *called(["{", '"b": 2}'], 1, "shell"), ended("tool_calls")])
    out = streamed(data, decided("not allowed", {"b": 3}))
    assert calls_of(out) == [("shell", '{"b":3}')]
    assert (text_of(out), reason_of(out)) == ("not allowed", "tool_calls")


def test_calls_whose_pieces_alternate_are_judged_whole() -> None:
    first, second = called(['{"a"', ": 1}"]), called(["{", '"b": 2}'], 1, "shell")
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    seen: list[Json] = []

    def note(response: Json) -> Json:
        seen.extend(ToolCallFilter().starting_calls(response))
        return response

    data = sse([*mixed, ended("tool_calls")])
    assert calls_of(streamed(data, note)) == [("read_file", '{"a": 1}'), ("shell", '{"b": 2}')]
    assert [(call["name"], call["args"]) for call in seen] == [("read_file", {"a": 1}), ("shell", {"b": 2})]


def begun(index: int | None, name: str, arguments: str = "", id_: str = "c1") -> Json:
    """A chunk with a call that begins."""
    return chunk({"tool_calls": [{"index": index, **tool_call(arguments, id_, name)}]})


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        ([begun(0, "de"), begun(0, "lete", "{}")], [("de", ""), ("lete", "{}")]),
        ([begun(0, "shell"), begun(0, "ls", "{}", "c2")], [("shell", ""), ("ls", "{}")]),
        ([begun(0, "shell"), begun(None, "ls", "{}")], [("shell", ""), ("ls", "{}")]),
        ([begun(None, "shell"), begun(0, "ls", "{}")], [("shell", ""), ("ls", "{}")]),
        ([begun(0, "shell"), ended("tool_calls"), begun(0, "ls", "{}")], [("shell", ""), ("ls", "{}")]),
        (
            [begun(0, "a"), *called(['{"x":'], name="b"), begun(1, "c"), *called(["1}"])[1:]],
            [("a", ""), ("b", '{"x":1}'), ("c", "")],
        ),
    ],
)
def test_no_call_shares_its_index_with_another_whose_name_or_arguments_a_client_would_add(
    chunks: list[Json], calls: list[tuple[str, str]]
) -> None:
    assert calls_of(streamed(sse([*chunks, ended("tool_calls")]), lambda response: response)) == calls


def test_a_call_in_one_chunk_is_judged_without_an_index_too() -> None:
    data = sse([chunk({"tool_calls": [tool_call('{"a": 1}')]}, "tool_calls")])
    assert text_of(streamed(data, decided("not allowed"))) == "not allowed"
    assert reason_of(streamed(data, decided("not allowed"))) == "stop"


def test_other_fields_of_chunks_stay_when_a_call_is_edited() -> None:
    first, *rest = called(['{"a": 1}'])
    data = sse([{**first, "future": 1}, *rest, {**ended("tool_calls"), "usage": USAGE["usage"]}])
    out = chunks_of(streamed(data, decided({"a": 2})))
    assert any(each.get("future") == 1 for each in out)
    assert out[-1]["usage"] == USAGE["usage"]


# ---- what hooks could not judge


@pytest.mark.parametrize(
    "chunks",
    [
        called(["{}"])[1:],
        [*called(['{"a": 1']), ended("tool_calls")],
        [*called(["{}"]), chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}), ended()],
        [*called(["{}"]), chunk({"tool_calls": [{"index": 0, "id": "other", "function": {}}]}), ended()],
        [chunk({"tool_calls": ["hi"]}), ended()],
        [chunk({"content": 7})],
        [{**text_chunk("hi"), "chunks": []}],
    ],
)
def test_a_stream_that_hooks_could_not_judge_is_refused(chunks: list[Json]) -> None:
    with pytest.raises(BodyError):
        streamed(sse(chunks))


def test_a_stream_that_ends_in_the_middle_of_a_call_is_refused() -> None:
    data = sse(called(['{"a": 1}'])).removesuffix(b"data: [DONE]\n\n")
    with pytest.raises(BodyError, match="middle of a function call"):
        streamed(data)


def test_a_call_without_end_is_refused_before_it_fills_the_memory() -> None:
    framing = CompletionChunks()
    piece = b"data: " + dumps(called(["x" * 1_000_000])[1]) + b"\n\n"
    framing.feed(b"data: " + dumps(called([])[0]) + b"\n\n")
    for _ in range(MAX_EVENT // len(piece)):
        framing.feed(piece)
    with pytest.raises(BodyError, match="larger than"):
        framing.feed(piece)


# ---- answers in the model's place


def test_a_synthetic_answer_is_a_stream_that_the_sdk_reads() -> None:
    call = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}
    response = {"candidates": [{"content": {"parts": [{"text": "look"}, call]}, "finishReason": "STOP"}]}
    out = CompletionChunks().event(dumps(new_completion(response, MODEL, 1)))
    for each in chunks_of(out):
        ChatCompletionChunk.model_validate(each, strict=True)
    assert (text_of(out), calls_of(out)) == ("look", [("read_file", '{"path":"a"}')])
    assert reason_of(out) == "tool_calls"
    assert out.endswith(b"data: [DONE]\n\n")
