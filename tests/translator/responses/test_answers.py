"""Responses: hooks see everything, an echo changes nothing, and an edit changes what it meant to."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response
from support.bodies.chat import JUNK, misshapen
from support.bodies.interactions import Json, copied
from support.bodies.responses import MODEL, TOKENS, call_item, message, output_text, responses, summary

from hookgate.translator import BodyError, ToolCallFilter, check_response, synthetic_response, text_response
from hookgate.translator.fields import strings_in
from hookgate.translator.responses import decode_response, encode_response, new_response


def response_with(*items: Json, **more: Any) -> Json:
    return {"id": "r", "object": "response", "status": "completed", "output": list(items), **more}


@given(responses())
def test_an_echo_changes_nothing(body: Json) -> None:
    response = decode_response(body)
    check_response(response)
    assert encode_response(body, response) is body
    assert encode_response(body, copied(response)) is body


@given(responses())
def test_every_string_is_in_what_hooks_are_shown(body: Json) -> None:
    shown = "\n".join(strings_in(decode_response(body)))
    assert set(re.findall(r"<\d+>", json.dumps(body))) == set(re.findall(r"<\d+>", shown))


@given(responses())
def test_an_edit_of_all_texts_changes_only_them(body: Json) -> None:
    def upper(value: Any) -> Any:
        return json.loads(re.sub(r"<(\d+)>", r"[\1]", json.dumps(value)))

    assert encode_response(body, upper(decode_response(body))) == upper(body)


@given(responses(), st.integers(0, 10_000), JUNK)
def test_an_answer_of_any_shape_is_shown_or_refused(body: Json, number: int, junk: Any) -> None:
    body = misshapen(body, number, junk)
    try:
        response = check_response(decode_response(body))
    except BodyError:
        return
    assert encode_response(body, copied(response)) is body


def test_a_refused_call_becomes_a_message() -> None:
    body = response_with(message(output_text("I run it.")), call_item('{"a": 1}'))
    gate, response = ToolCallFilter(), decode_response(body)
    [call] = gate.starting_calls(response)
    assert call["args"] == {"a": 1}
    new = encode_response(body, gate.apply_decisions(response, ["not allowed"]))
    added = {"id": "msg_hookgate_1", "type": "message", "role": "assistant", "status": "completed"}
    assert new["output"] == [body["output"][0], {**added, "content": [output_text("not allowed")]}]


def test_a_call_gets_other_arguments_and_the_others_stay() -> None:
    body = response_with(call_item('{"a":  1}'), call_item('{"b":  2}', "c2"))
    new = encode_response(body, ToolCallFilter().apply_decisions(decode_response(body), [None, {"b": 3}]))
    assert new == response_with(body["output"][0], call_item('{"b":3}', "c2"))


def test_a_text_that_hooks_changed_has_no_tokens_of_the_former_text() -> None:
    body = response_with(
        message(output_text("secret", logprobs=TOKENS), output_text("other", logprobs=TOKENS))
    )
    response = copied(decode_response(body))
    response["candidates"][0]["content"]["parts"][0]["text"] = "[KEY]"
    expected = message(output_text("[KEY]", logprobs=[]), output_text("other", logprobs=TOKENS))
    assert encode_response(body, response)["output"] == [expected]
    del response["candidates"][0]["logprobsResult"]
    expected = message(output_text("[KEY]", logprobs=[]), output_text("other", logprobs=[]))
    assert encode_response(body, response)["output"] == [expected]


def test_the_text_of_the_whole_output_is_not_sent_if_it_was_edited() -> None:
    body = response_with(message(output_text("secret")), output_text="secret")
    response = copied(decode_response(body))
    response["candidates"][0]["content"]["parts"][0]["text"] = "[KEY]"
    assert "secret" not in json.dumps(encode_response(body, response))


def test_a_finish_reason_is_that_of_generate_content() -> None:
    ends: list[Json] = [
        {"status": "completed"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        {"status": "failed"},
        {"status": "in_progress"},
    ]
    shown = [decode_response(response_with(**end))["candidates"][0].get("finishReason") for end in ends]
    assert shown == ["STOP", "MAX_TOKENS", "SAFETY", "OTHER", None]


@pytest.mark.parametrize(
    "body",
    [
        response_with(message(output_text(["hi"]))),  # type: ignore[arg-type]  # as an upstream might answer
        response_with({**message(), "Content": [output_text("hi")]}),
        response_with(call_item("[]")),
        response_with(call_item('{"a": 1, "a": 2}')),
        response_with({"type": "custom_tool_call", "name": "shell", "input": "ls"}),
        response_with({"type": "local_shell_call", "action": {"command": ["ls"]}}),
        response_with("hi"),  # type: ignore[arg-type]  # as an upstream might answer
        {**response_with(), "output": {}},
        {**response_with(), "candidates": []},
        {**response_with(), "output_fields": []},
        {**response_with(), "usage": 7},
    ],
)
def test_an_answer_that_hooks_could_not_judge_is_refused(body: Json) -> None:
    with pytest.raises(BodyError):
        decode_response(body)


def test_a_synthetic_answer_is_one_that_the_sdk_reads() -> None:
    body = new_response(text_response("no"), MODEL, 1)
    read = Response.model_validate(body, strict=True)
    assert (read.output_text, read.status) == ("no", "completed")
    call = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}
    spoken = {"content": {"parts": ["look", call]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3}
    body = new_response(synthetic_response({"candidates": [spoken], "usageMetadata": usage}), MODEL, 1)
    read = Response.model_validate(body)
    assert (read.output_text, [item.type for item in read.output]) == ("look", ["message", "function_call"])
    called: Any = read.output[1]
    assert (called.name, called.arguments, bool(called.call_id)) == ("read_file", '{"path":"a"}', True)
    assert read.usage is not None
    assert read.usage.total_tokens == 3


def test_what_a_response_thought_is_a_thought() -> None:
    body = response_with(
        {"type": "reasoning", "id": "r", "summary": summary("hm")}, message(output_text("hi"))
    )
    parts = decode_response(body)["candidates"][0]["content"]["parts"]
    assert [(part["text"], bool(part.get("thought"))) for part in parts] == [("hm", True), ("hi", False)]
