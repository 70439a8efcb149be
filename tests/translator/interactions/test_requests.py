"""The laws of editing a body that creates an interaction: what no hook changed stays unchanged."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.bodies.interactions import MODEL, Json, copied, numbered, requests, steps

from hookgate.translator import (
    BodyError,
    apply_request,
    apply_tool_config,
    check_request,
    fields,
    show_request,
)
from hookgate.translator.fields import strings_in
from hookgate.translator.interactions import InteractionRequest
from hookgate.translator.interactions.steps import decode_step, encode_turn


def opened(body: Json) -> InteractionRequest:
    request = InteractionRequest(body)
    check_request(request.shown)
    return request


@given(requests())
def test_an_echo_of_any_view_returns_the_same_body(body: Json) -> None:
    request = opened(body)
    assert request.edited(MODEL, request.shown) is body
    assert request.edited(MODEL, copied(request.shown)) is body
    view = show_request(MODEL, request.shown)
    assert request.edited(*apply_request(MODEL, request.shown, copied(view))) is body


@given(steps())
def test_a_turn_alone_tells_the_step_that_it_came_from(step: Json) -> None:
    turn = decode_step(step, "")
    assert encode_turn(copied(turn)) == [step]


@given(requests())
def test_every_string_of_the_body_is_in_what_hooks_are_shown(body: Json) -> None:
    shown = "\n".join(strings_in(opened(body).shown))
    hidden = [text for text in strings_in(body) if "<" in text and text not in shown]
    assert hidden == []


def upper(value: Any) -> Any:
    """Each `text` of the value in capitals."""
    if isinstance(value, list):
        return [upper(item) for item in value]
    if isinstance(value, dict):
        changed = {key: upper(item) for key, item in value.items()}
        return {**changed, **({"text": value["text"].upper()} if isinstance(value.get("text"), str) else {})}
    return value


@given(requests())
def test_an_edit_of_all_texts_changes_nothing_else(body: Json) -> None:
    request = opened(body)
    edited = request.edited(MODEL, upper(copied(request.shown)))
    expected = upper(copied(body))
    if isinstance(body["input"], str):
        expected["input"] = body["input"].upper()
    if "system_instruction" in body:
        expected["system_instruction"] = body["system_instruction"].upper()
    assert edited == expected
    assert list(edited) == list(expected)


@given(requests())
def test_another_model_changes_only_the_model(body: Json) -> None:
    request = opened(body)
    edited = request.edited("gemini-2.5-pro", request.shown)
    assert edited == {**body, "model": "gemini-2.5-pro"}
    assert list(edited) == list(body)


def test_an_untouched_step_is_the_same_object() -> None:
    body = {"model": MODEL, "input": [user("one"), thought(), user("two")]}
    request = opened(body)
    view = show_request(MODEL, request.shown)
    view["messages"][-1]["content"] = "2"
    edited = request.edited(*apply_request(MODEL, request.shown, view))
    assert edited["input"][0] is body["input"][0]
    assert edited["input"][1] is body["input"][1]
    assert edited["input"][2] == user("2")


def test_a_message_that_a_hook_adds_becomes_a_step() -> None:
    request = opened({"model": MODEL, "input": "hello"})
    view = show_request(MODEL, request.shown)
    view["messages"] = [{"role": "model", "content": "before"}, *view["messages"]]
    edited = request.edited(*apply_request(MODEL, request.shown, view))
    assert edited["input"] == [
        {"type": "model_output", "content": [{"type": "text", "text": "before"}]},
        user("hello"),
    ]


@pytest.mark.parametrize(
    ("selection", "tools", "choice"),
    [
        ({"mode": "NONE"}, ["read_file", "shell"], "none"),
        (
            {"mode": "ANY", "allowedFunctionNames": ["shell"]},
            ["read_file", "shell"],
            {"allowed_tools": {"mode": "any", "tools": ["shell"]}},
        ),
        ({"allowedFunctionNames": ["shell"]}, ["shell"], None),
    ],
)
def test_a_selection_of_tools_is_written_as_the_api_takes_it(
    selection: Json, tools: list[str], choice: Any
) -> None:
    functions = [{"type": "function", "name": name} for name in ("read_file", "shell")]
    body = {"model": MODEL, "input": "hi", "tools": [*functions, {"type": "google_search"}]}
    request = opened(body)
    edited = request.edited(MODEL, apply_tool_config(request.shown, selection))
    assert [tool["name"] for tool in edited["tools"] if tool["type"] == "function"] == tools
    assert edited["tools"][-1] is body["tools"][-1]  # type: ignore[index]  # JSON, of known form
    assert edited.get("generation_config", {}).get("tool_choice") == choice


@given(requests())
def test_a_body_that_the_sdk_could_have_sent_still_is_one_after_an_edit(body: Json) -> None:
    assume(sdk_reads(body))
    request = opened(body)
    assert sdk_reads(request.edited("gemini-2.5-pro", upper(copied(request.shown))))


def sdk_reads(body: Json) -> bool:
    from google.genai._gaos.types.interactions import CreateModelInteraction  # noqa: PLC0415  # takes a second

    try:
        CreateModelInteraction.model_validate_json(json.dumps(body))
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"input": [{"type": "text", "text": "a"}, {"type": "user_input", "content": []}]}, "input[0]"),
        ({"input": [{"type": "user_input", "content": "not a list"}]}, "input[0].content"),
        ({"input": [{"type": "user_input", "content": [{"type": "text", "text": 1}]}]}, "text"),
        ({"input": [{"type": "user_input", "content": [], "parts": [{"text": "a"}]}]}, "input[0].parts"),
        ({"input": [{"type": "function_result", "call_id": "1", "callId": "2"}]}, "callId"),
        ({"input": [{"type": "function_call", "arguments": "text"}]}, "input[0].arguments"),
        ({"input": [{"content": [{"type": "text", "text": "a"}], "type": 1}]}, "input[0].type"),
        ({"input": [{"type": "text", "text": "a", "thought": True}]}, "input[0].thought"),
        ({"input": [{"type": "text", "text": "a", "uri": "gs://b/x"}]}, "input[0].uri"),
        ({"input": {"text": "a", "data": "aGk="}}, "input[0].data"),
        (
            {
                "input": [
                    {"type": "model_output", "content": [{"type": "text", "text": "a", "uri": "gs://b/x"}]}
                ]
            },
            "input[0].content[0].uri",
        ),
        (
            {"input": [{"type": "thought", "summary": [{"type": "text", "text": "a", "data": "aGk="}]}]},
            "input[0].summary[0].data",
        ),
        (
            {
                "input": [
                    {"type": "function_result", "result": [{"type": "text", "text": "a", "uri": "gs://b/x"}]}
                ]
            },
            "input[0].result[0].uri",
        ),
        ({"input": {"type": "user_input", "content": []}}, "input"),
        ({"input": 7}, "input"),
        ({"contents": [{"parts": [{"text": "a"}]}]}, "contents"),
        ({"input": "a", "systemInstruction": "a", "system_instruction": "b"}, "systemInstruction"),
        ({"input": "a", "system_instruction": {"parts": []}}, "system_instruction"),
        ({"input": "a", "stream": "true"}, "stream"),
        ({"input": "a", "tools": {"type": "function"}}, "tools"),
        ({"input": "a", "tools": [{"functionDeclarations": [{"name": "shell"}]}]}, "tools[0].type"),
        ({"input": "a", "tools": [{"type": "function_declarations", "name": "shell"}]}, "tools[0].type"),
        ({"input": "a", "tools": [{"type": "Read file"}]}, "tools[0].type"),
        (
            {"input": "a", "generation_config": {"tool_choice": {"allowed_tools": {"names": []}}}},
            "tool_choice",
        ),
        ({"input": "a", "generation_config": {"tool_choice": 1}}, "tool_choice"),
        ({"input": "a", "generation_config": {"tool_choice": {"allowed_tools": {"mode": 1}}}}, "tool_choice"),
        (
            {"input": "a", "generation_config": {"tool_choice": {"allowed_tools": {"tools": 1}}}},
            "tool_choice",
        ),
        (
            {
                "input": "a",
                "generation_config": {"response_mime_type": "text/plain"},
                "response_format": {"type": "text", "mime_type": "application/json"},
            },
            "generation_config",
        ),
        ({"input": [{"type": "user_input", "content": []}, {"content": []}]}, "input[1].type"),
        ({"input": [{"type": "function_call", "name": 1, "arguments": {}}]}, "input[0].name"),
        (
            {"input": [{"type": "function_result", "call_id": "1", "result": [{"part": 0}]}]},
            "input[0].result[0].part",
        ),
        ({"input": "a", "generation_config": "text"}, "generation_config"),
        ({"input": "a", "model": "m", "agent": "b"}, "agent"),
        ({"input": [{"type": "image", "data": "not base64!"}]}, "data"),
    ],
)
def test_what_hooks_and_the_api_could_read_differently_is_refused(body: Json, place: str) -> None:
    with pytest.raises(BodyError) as refused:
        opened({"model": MODEL, **body})
    assert place in refused.value.path


def user(text: str) -> Json:
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


def thought() -> Json:
    return {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "hm"}]}


def test_names_that_clients_invent_are_not_kept_in_memory() -> None:
    long = {f"{'k' * 100}_{number}": 1 for number in range(10)}
    InteractionRequest({"model": "m", "input": [{"type": "text", "text": "hi", **long}], **long})
    assert fields.snake.cache_info().maxsize == fields._camel.cache_info().maxsize == 4096
    before = fields.snake.cache_info().currsize, fields._camel.cache_info().currsize
    InteractionRequest({"model": "m", "input": "hi", **{f"n{name}": 1 for name in long}})
    assert (fields.snake.cache_info().currsize, fields._camel.cache_info().currsize) == before


def test_a_file_in_a_content_of_an_unknown_type_is_shown_as_a_file() -> None:
    content = {"type": "hologram", "uri": "https://files.example/a", "mime_type": "text/plain"}
    request = InteractionRequest({"model": "m", "input": [content]})
    [turn] = request.shown["contents"]
    assert turn["parts"][0]["fileData"]["fileUri"] == "https://files.example/a"
    assert request.edited("n", request.shown)["input"] == [content]


@given(st.lists(steps(), min_size=2, max_size=6), st.integers(0, 5), st.booleans())
def test_a_step_that_is_added_or_removed_does_not_change_the_others(
    given_steps: list[Json], number: int, adds: bool
) -> None:
    body = numbered({"model": MODEL, "input": given_steps})
    request, all_steps = InteractionRequest(body), body["input"]
    turns, at = copied(request.shown["contents"]), number % len(all_steps)
    added = [{"role": "user", "parts": [{"text": "more"}]}] if adds else []
    left = [*turns[:at], *added, *turns[at + (not adds) :]]
    assume(len(turns) == len(all_steps))  # otherwise, the input is a list of contents
    assume(adds or turns.count(turns[at]) == 1)
    new = request.edited(request.named, {**copied(request.shown), "contents": left})["input"]
    others = [*all_steps[:at], *all_steps[at + (not adds) :]]
    assert [step for step in new if step != user("more")] == others
    assert len(new) == len(others) + adds


def test_the_place_in_an_error_is_that_in_the_input() -> None:
    request = InteractionRequest({"model": "m", "input": [thought(), user("hi")]})
    assert request.place("contents[1].parts[0]") == "input[1].content[0]"
    assert request.place("tools") == "tools"
