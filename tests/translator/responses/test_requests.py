"""Responses: hooks see everything, an echo changes nothing, and an edit changes what it meant to."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.chat import JUNK, misshapen
from support.bodies.interactions import Json, copied
from support.bodies.responses import (
    HI,
    MODEL,
    call_item,
    declared,
    message,
    output_text,
    requests,
    summary,
)

from hookgate.translator import BodyError, apply_tool_config, check_request, show_request
from hookgate.translator.fields import TooLargeError, strings_in
from hookgate.translator.responses import ResponseRequest, held_content


def edited(body: Json, change: Any) -> Json:
    """The body after a hook that was shown a copy of the request."""
    request = ResponseRequest(body)
    shown = copied(request.shown)
    return request.edited(request.named, change(shown) or shown)


def messages_of(body: Json) -> list[Json]:
    return show_request(MODEL, ResponseRequest(body).shown)["messages"]


def request_with(*items: Json, **more: Any) -> Json:
    return {"model": MODEL, "input": list(items), **more}


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


RESULT = {"type": "function_call_output", "call_id": "c1", "output": "milk"}
THOUGHT = {"type": "reasoning", "id": "r", "summary": summary("hm"), "encrypted_content": "c2ln"}


@given(requests())
def test_an_echo_changes_nothing(body: Json) -> None:
    request = ResponseRequest(body)
    check_request(request.shown)
    assert request.edited(MODEL, request.shown) is body
    assert request.edited(MODEL, copied(request.shown)) is body


@given(requests())
def test_every_string_is_in_what_hooks_are_shown(body: Json) -> None:
    shown = "\n".join(strings_in(ResponseRequest(body).shown))
    assert set(re.findall(r"<\d+>", json.dumps(body))) == set(re.findall(r"<\d+>", shown))


@given(requests())
def test_an_edit_of_all_texts_changes_only_them(body: Json) -> None:
    def upper(value: Any) -> Any:
        return json.loads(re.sub(r"<(\d+)>", r"[\1]", json.dumps(value)))

    new, expected = edited(body, upper), upper(body)
    for one in (new, expected):
        for item in one["input"] if isinstance(one["input"], list) else ():
            if item.get("type") == "function_call":
                item["arguments"] = json.loads(item["arguments"] or "{}")
    assert new == expected


@given(requests(), st.integers(0, 10_000), JUNK)
def test_a_body_of_any_shape_is_shown_or_refused(body: Json, number: int, junk: Any) -> None:
    body = misshapen(body, number, junk)
    try:
        request = ResponseRequest(body)
        check_request(request.shown)
    except BodyError:
        return
    assert request.edited(request.named, copied(request.shown)) is body


def test_hooks_see_a_conversation_as_messages() -> None:
    items = [
        {"role": "developer", "content": "Be kind."},
        user([{"type": "input_text", "text": "read"}]),
        THOUGHT,
        message(output_text("I look.")),
        call_item('{"path": "a"}'),
        RESULT,
        user("thanks"),
    ]
    body = request_with(*items, instructions="Be brief. ")
    assert messages_of(body) == [
        {"role": "system", "content": "Be brief. Be kind."},
        {"role": "user", "content": "read"},
        {"role": "model", "content": "hm"},
        {"role": "model", "content": "I look."},
        {"role": "user", "content": "thanks"},
    ]
    shown = ResponseRequest(body).shown["contents"]
    assert shown[3]["parts"] == [{"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a"}}}]
    assert shown[4]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "read_file", "response": {"result": "milk"}}}
    ]
    assert shown[1]["parts"][-1] == {"thoughtSignature": "c2ln"}


def test_an_edit_of_a_text_leaves_all_other_items() -> None:
    items = [user("a"), THOUGHT, call_item('{"path":  1.0}'), RESULT, user("b")]

    def change(shown: Json) -> None:
        shown["contents"][-1]["parts"][0]["text"] = "c"

    assert edited(request_with(*items), change) == request_with(*items[:-1], user("c"))


def test_turns_that_hooks_add_become_items() -> None:
    call = {"functionCall": {"id": "c9", "name": "read_file", "args": {"a": 1}}}
    result = {"functionResponse": {"id": "c9", "name": "read_file", "response": {"error": "no"}}}

    def add(shown: Json) -> None:
        shown["contents"] += [
            {"role": "model", "parts": [{"text": "I look."}, call]},
            {"role": "user", "parts": [result, {"text": "Go on."}]},
        ]

    expected = [
        user("hi"),
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c9", "name": "read_file", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c9", "output": '{"error":"no"}'},
        user("Go on."),
    ]
    assert edited(HI, add)["input"] == expected
    assert edited(request_with(user("hi")), add)["input"] == expected


def test_a_text_stays_a_text_and_a_system_message_becomes_instructions() -> None:
    def edit(shown: Json) -> None:
        shown["contents"][0]["parts"][0]["text"] = "bye"
        shown["systemInstruction"] = {"parts": [{"text": "Be kind."}]}

    assert edited(HI, edit) == {**HI, "input": "bye", "instructions": "Be kind."}

    def forget(shown: Json) -> None:
        del shown["systemInstruction"]

    assert edited({**HI, "instructions": "Be kind."}, forget) == HI


def test_what_a_hook_adds_to_a_result_does_not_part_the_results_of_one_turn() -> None:
    second = {**RESULT, "call_id": "c2"}
    items = [user("hi"), call_item("{}"), call_item("{}", "c2"), RESULT, second]

    def note(shown: Json) -> None:
        shown["contents"][3]["parts"].append({"text": "Checked."})

    assert edited(request_with(*items), note) == request_with(*items, user("Checked."))


def test_settings_are_shown_by_the_names_of_generate_content() -> None:
    body = {**HI, "max_output_tokens": 7, "text": {"format": {"type": "json_object"}, "verbosity": "low"}}
    config = show_request(MODEL, ResponseRequest(body).shown)["config"]
    assert config == {"maxOutputTokens": 7, "responseMimeType": "application/json"}

    def edit(shown: Json) -> None:
        shown["generationConfig"] = {"maxOutputTokens": 5, "temperature": 0}

    new = {"max_output_tokens": 5, "temperature": 0, "text": {"format": {"type": "text"}, "verbosity": "low"}}
    assert edited(body, edit) == {**HI, **new}


def test_a_setting_that_a_response_does_not_have_is_an_error() -> None:
    with pytest.raises(BodyError, match="stopSequences"):
        edited(HI, lambda shown: {**shown, "generationConfig": {"stopSequences": ["a"]}})


def test_a_selection_of_tools_offers_only_these() -> None:
    body = {**HI, "tools": [declared(), declared("shell"), declared("search")], "tool_choice": "auto"}

    def select(names: list[str], mode: str) -> Any:
        return lambda shown: apply_tool_config(shown, {"mode": mode, "allowedFunctionNames": names})

    one, two = edited(body, select(["shell"], "ANY")), edited(body, select(["shell", "search"], "ANY"))
    assert (one["tools"], one["tool_choice"]) == (
        [declared("shell")],
        {"type": "function", "name": "shell"},
    )
    assert (two["tools"], two["tool_choice"]) == ([declared("shell"), declared("search")], "required")
    auto = edited(body, select(["shell"], "AUTO"))
    assert (auto["tools"], auto["tool_choice"]) == ([declared("shell")], "auto")
    assert edited(body, select([], "NONE")) == {**body, "tool_choice": "none"}


TEXT = {"type": "input_text", "text": "hi"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"input": 7}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"role": "oracle", "content": "hi"}]}, "input[0].role"),
        ({"input": [{"role": "user", "Content": "hi"}]}, "input[0].Content"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "hologram"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": "hi", "parts": []}]}, "input[0].parts"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}]}, "input[0].type"),
        ({"input": [{"type": "custom_tool_call", "input": "x", "name": "f"}]}, "input[0].type"),
        ({"input": [{"type": "mcp_call", "output": "x"}]}, "input[0].type"),
        ({"input": [{"type": "from_the_future", "text": "x"}]}, "input[0].type"),
        ({"input": [call_item("{")]}, "input[0].arguments"),
        ({"input": [call_item('{"a":1,"a":2}')]}, "input[0].arguments"),
        ({"input": [{**call_item("{}"), "callId": "c"}]}, "input[0].callId"),
        ({"input": [call_item("{}", name="f" * 257)]}, "input[0].name"),
        *(
            (
                {"input": [{"role": role, "content": [{**content, media: "x"}]}]},
                f"input[0].content[0].{media}",
            )
            for role in ("system", "user", "assistant")
            for content in (TEXT, {"type": "refusal", "refusal": "no"})
            for media in ("file_data", "file_id", "file_url", "image_url", "input_audio")
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_url": "https://a"}]}]},
            "input[0].content[0].file_url",
        ),
        (
            {"input": [{**RESULT, "output": [{"type": "input_image", "image_url": "https://a"}]}]},
            "input[0].output",
        ),
        ({"input": [{"role": "system", "content": [{**TEXT, "message": "x"}]}]}, "input[0].content"),
        (
            {"input": [message(output_text("a", logprobs=[{"token": "a"}]))]},
            "input[0].content[0].logprobs",
        ),
        (
            {"input": [user([{"type": "input_image", "image_url": "data:image/png,x"}])]},
            "input[0].content[0].image_url",
        ),
        ({"instructions": ["hi"]}, "instructions"),
        ({"contents": []}, "contents"),
        ({"system_instruction": "hi"}, "system_instruction"),
        ({"stream": "true"}, "stream"),
        ({"Stream": True}, "Stream"),
        ({"background": "yes"}, "background"),
        ({"extra_body": {"google": {"tools": [{"googleSearch": {}}]}}}, "extra_body.google.tools"),
        ({"previousResponseId": "resp_1"}, "previousResponseId"),
        ({"modalities": ["audio"]}, "audio"),
        ({"text": "json"}, "text"),
        ({"text": {"format": "json"}}, "text.format"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "mcp", "server_url": "https://example.org"}]}, "tools[0].type"),
        ({"tools": [{"type": "custom", "name": "f"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"model": None}, "model"),
    ],
)
def test_what_hooks_could_not_judge_is_refused_by_its_place(change: Json, place: str) -> None:
    with pytest.raises(BodyError) as refusal:
        ResponseRequest({**HI, **change})
    assert refusal.value.path == place


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"previous_response_id": ""}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"background": True}, "background"),
        ({"background": 0}, "background"),
        ({"background": False, "store": True}, None),
    ],
)
def test_references_to_stored_items_are_found(change: Json, field: str | None) -> None:
    held = held_content({**HI, **change})
    assert (held[0] if held else None) == field


@pytest.mark.parametrize("calls", [1, 2])
def test_arguments_of_calls_have_no_more_values_than_a_body(calls: int) -> None:
    arguments = json.dumps({"a": [0] * (250_000 // calls)})
    with pytest.raises(TooLargeError):
        ResponseRequest(request_with(*[call_item(arguments)] * calls))
