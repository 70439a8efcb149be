"""Completions: hooks see everything, an echo changes nothing, and an edit changes what it meant to."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from support.bodies.chat import JUNK, MODEL, completions, misshapen, tool_call
from support.bodies.interactions import Json, copied

from hookgate.translator import BodyError, ToolCallFilter, check_response, synthetic_response, text_response
from hookgate.translator.chat import decode_completion, encode_completion, new_completion
from hookgate.translator.fields import strings_in


def completion(message: Json, reason: str = "stop", **more: Any) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason, **more}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}


@given(completions())
def test_an_echo_changes_nothing(body: Json) -> None:
    response = decode_completion(body)
    check_response(response)
    assert encode_completion(body, response) is body
    assert encode_completion(body, copied(response)) is body


@given(completions())
def test_every_string_is_in_what_hooks_are_shown(body: Json) -> None:
    shown = "\n".join(strings_in(decode_completion(body)))
    assert set(re.findall(r"<\d+>", json.dumps(body))) == set(re.findall(r"<\d+>", shown))


@given(completions())
def test_an_edit_of_all_texts_changes_only_them(body: Json) -> None:
    def upper(value: Any) -> Any:
        return json.loads(re.sub(r"<(\d+)>", r"[\1]", json.dumps(value)))

    new = encode_completion(body, upper(decode_completion(body)))
    expected = upper(body)
    for choice in [*new["choices"], *expected["choices"]]:
        for call in choice["message"].get("tool_calls") or ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    assert new == expected


@given(completions(), st.integers(0, 10_000), JUNK)
def test_an_answer_of_any_shape_is_shown_or_refused(body: Json, number: int, junk: Any) -> None:
    body = misshapen(body, number, junk)
    try:
        response = check_response(decode_completion(body))
    except BodyError:
        return
    assert encode_completion(body, copied(response)) is body


def test_a_refused_call_becomes_text_and_the_answer_ends() -> None:
    body = completion({"content": "I run it. ", "tool_calls": [tool_call('{"a": 1}')]}, "tool_calls")
    gate = ToolCallFilter()
    response = decode_completion(body)
    [call] = gate.starting_calls(response)
    assert call["args"] == {"a": 1}
    new = encode_completion(body, gate.apply_decisions(response, ["not allowed"]))
    assert new == completion({"content": "I run it. not allowed"}, "stop")


def test_a_call_gets_other_arguments_and_the_others_stay() -> None:
    calls = [tool_call('{"a":  1}', "c1"), tool_call('{"b":  2}', "c2")]
    body = completion({"content": None, "tool_calls": [*calls]}, "tool_calls")
    response = ToolCallFilter().apply_decisions(decode_completion(body), [None, {"b": 3}])
    calls[1] = tool_call('{"b":3}', "c2")
    assert encode_completion(body, response) == completion(
        {"content": None, "tool_calls": calls}, "tool_calls"
    )


def test_a_finish_reason_is_that_of_generate_content() -> None:
    shown = {
        reason: decode_completion(completion({"content": "hi"}, reason))["candidates"][0]["finishReason"]
        for reason in ("stop", "length", "tool_calls", "content_filter", "from_the_future")
    }
    assert [*shown.values()] == ["STOP", "MAX_TOKENS", "STOP", "SAFETY", "OTHER"]


@pytest.mark.parametrize(
    "body",
    [
        completion({"content": ["hi"]}),
        completion({"content": "hi", "audio": {"transcript": "hi"}}),
        completion({"content": "hi", "function_call": {"name": "f", "arguments": "{}"}}),
        completion({"tool_calls": [tool_call("[]")]}),
        completion({"tool_calls": [tool_call('{"a": 1, "a": 2}')]}),
        completion({"tool_calls": {}}),
        {**completion({"content": "hi"}), "candidates": []},
        {"choices": "hi"},
        {"choices": [{"message": {"content": "a"}, "delta": {"content": "b"}}]},
    ],
)
def test_an_answer_that_hooks_could_not_judge_is_refused(body: Json) -> None:
    with pytest.raises(BodyError):
        decode_completion(body)


def test_a_synthetic_answer_is_one_that_the_sdk_reads() -> None:
    body = new_completion(text_response("no"), MODEL, 1)
    read = ChatCompletion.model_validate(body, strict=True)
    assert (read.choices[0].message.content, read.choices[0].finish_reason) == ("no", "stop")
    call = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}
    spoken = {"content": {"parts": ["look", call]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3}
    body = new_completion(synthetic_response({"candidates": [spoken], "usageMetadata": usage}), MODEL, 1)
    read = ChatCompletion.model_validate(body, strict=True)
    message = read.choices[0].message
    assert (message.content, read.choices[0].finish_reason) == ("look", "tool_calls")
    assert message.tool_calls is not None
    assert message.tool_calls[0].model_dump() == tool_call('{"path":"a"}', "call-0")
    assert read.usage is not None
    assert read.usage.total_tokens == 3
