"""Chat completions: hooks see everything, an echo changes nothing, and an edit changes what it meant to."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.chat import HI, IMAGE, JUNK, MODEL, declared, misshapen, requests, tool_call
from support.bodies.interactions import Json, copied

from hookgate.translator import BodyError, apply_tool_config, check_request, show_request
from hookgate.translator.chat import ChatRequest
from hookgate.translator.fields import TooLargeError, strings_in


def edited(body: Json, change: Any) -> Json:
    """The body after a hook that was shown a copy of the request."""
    request = ChatRequest(body)
    shown = copied(request.shown)
    return request.edited(request.named, change(shown) or shown)


def messages_of(body: Json) -> list[Json]:
    return show_request(MODEL, ChatRequest(body).shown)["messages"]


def chat(*messages: Json, **more: Any) -> Json:
    return {"model": MODEL, "messages": list(messages), **more}


USER = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [tool_call('{"path": "a",  "n": 1.0}')]}
TEXT = {"type": "text", "text": "hi"}
ARGUMENTS = "messages[0].tool_calls[0].function.arguments"
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "milk"}


@given(requests())
def test_an_echo_changes_nothing(body: Json) -> None:
    request = ChatRequest(body)
    check_request(request.shown)
    assert request.edited(MODEL, request.shown) is body
    assert request.edited(MODEL, copied(request.shown)) is body


@given(requests())
def test_every_string_is_in_what_hooks_are_shown(body: Json) -> None:
    shown = "\n".join(strings_in(ChatRequest(body).shown))
    assert set(re.findall(r"<\d+>", json.dumps(body))) == set(re.findall(r"<\d+>", shown))


@given(requests())
def test_an_edit_of_each_text_changes_only_that_text(body: Json) -> None:
    def upper(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: upper(item) for key, item in value.items()}
        if isinstance(value, list):
            return [upper(item) for item in value]
        return re.sub(r"<(\d+)>", r"[\1]", value) if isinstance(value, str) else value

    new = edited(body, upper)
    assert "<" not in re.sub(r"<(?!\d+>)", "", json.dumps(new))
    expected = upper(body)
    for message in [*new["messages"], *expected["messages"]]:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"] or "{}")
    assert new == expected


@given(requests())
def test_a_turn_that_is_added_does_not_change_the_others(body: Json) -> None:
    def add(shown: Json) -> None:
        shown["contents"] = [*shown.get("contents", []), {"role": "user", "parts": [{"text": "more"}]}]

    new = edited(body, add)
    assert [each for each in new["messages"] if each != {"role": "user", "content": "more"}] == body[
        "messages"
    ]
    assert {**new, "messages": 0} == {**body, "messages": 0}


@given(requests(), st.integers(0, 10_000), JUNK)
def test_a_body_of_any_shape_is_shown_or_refused(body: Json, number: int, junk: Any) -> None:
    body = misshapen(body, number, junk)
    try:
        request = ChatRequest(body)
        check_request(request.shown)
    except BodyError:
        return
    assert request.edited(request.named, copied(request.shown)) is body


def test_messages_are_shown_with_the_roles_of_generate_content() -> None:
    body = chat(
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": " and kind"},
        USER,
        {"role": "assistant", "content": "hello"},
    )
    assert messages_of(body) == [
        {"role": "system", "content": "be brief and kind"},
        {"role": "user", "content": "hi"},
        {"role": "model", "content": "hello"},
    ]


def test_a_result_has_the_name_of_its_call() -> None:
    contents = ChatRequest(chat(USER, CALLED, RESULT)).shown["contents"]
    assert contents[1]["parts"][0]["functionCall"] == {
        "id": "c1",
        "type": "function",
        "name": "read_file",
        "args": {"path": "a", "n": 1.0},
    }
    response = {"id": "c1", "name": "read_file", "response": {"result": "milk"}}
    assert contents[2]["parts"] == [{"functionResponse": response}]


def test_an_edit_of_a_message_keeps_the_text_of_its_calls() -> None:
    body = chat(USER, {**CALLED, "content": "reading"}, RESULT)

    def edit(shown: Json) -> None:
        shown["contents"][1]["parts"][0]["text"] = "READING"

    assert edited(body, edit)["messages"] == [USER, {**CALLED, "content": "READING"}, RESULT]


def test_what_is_added_to_a_result_follows_all_results_of_the_turn() -> None:
    calls = [tool_call("{}", "c1"), tool_call("{}", "c2")]
    results = [{**RESULT, "tool_call_id": each["id"]} for each in calls]
    body = chat(USER, {**CALLED, "tool_calls": calls}, *results, USER)

    def add(shown: Json) -> None:
        shown["contents"][2]["parts"].append({"text": "checked"})

    added = {"role": "user", "content": "checked"}
    assert edited(body, add)["messages"] == [*body["messages"][:4], added, USER]


def test_an_edited_result_keeps_its_form() -> None:
    def edit(shown: Json) -> None:
        shown["contents"][2]["parts"][0]["functionResponse"]["response"]["result"] = "bread"

    assert edited(chat(USER, CALLED, RESULT), edit)["messages"][2] == {**RESULT, "content": "bread"}


def test_turns_for_a_refused_call_become_messages() -> None:
    call = {"functionCall": {"id": "c9", "name": "shell", "args": {"command": "rm"}, "index": 0}}
    result = {"id": "c9", "name": "shell", "response": {"error": "Tool execution blocked: no"}}
    turns = [
        {"role": "model", "parts": [{"text": "I "}, {"text": "run it"}, call]},
        {"role": "user", "parts": [{"functionResponse": result}]},
    ]
    new = edited(HI, lambda shown: {**shown, "contents": [*shown["contents"], *turns]})
    assert new["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I run it",
            "tool_calls": [tool_call('{"command":"rm"}', "c9", "shell")],
        }
        | {"tool_calls": [{**tool_call('{"command":"rm"}', "c9", "shell")}]},
        {"role": "tool", "tool_call_id": "c9", "content": '{"error":"Tool execution blocked: no"}'},
    ]


def test_instructions_between_messages_keep_their_places() -> None:
    system = {"role": "system", "content": "one"}
    other = {"role": "developer", "content": "two", "name": "ops"}
    body = chat(system, USER, other, {"role": "user", "content": "more"})

    def edit(shown: Json) -> None:
        shown["systemInstruction"]["parts"][1]["text"] = "TWO"
        shown["contents"][0]["parts"][0]["text"] = "HI"

    assert edited(body, edit)["messages"] == [
        system,
        {"role": "user", "content": "HI"},
        {**other, "content": "TWO"},
        {"role": "user", "content": "more"},
    ]


def test_texts_of_one_instruction_are_edited_and_removed_without_a_loss_of_its_fields() -> None:
    system = {"role": "developer", "name": "ops", "content": [{**TEXT, "text": text} for text in "abc"]}

    def without(*removed: int) -> Json:
        def remove(shown: Json) -> None:
            parts = shown["systemInstruction"]["parts"]
            shown["systemInstruction"]["parts"] = [part for n, part in enumerate(parts) if n not in removed]

        message: Json = edited(chat(system, USER), remove)["messages"][0]
        return message

    a, b, c = system["content"]
    assert without(1) == {**system, "content": [a, c]}
    assert without(0) == {
        "role": "developer",
        "content": [b, c],
    }  # a hook that removes fields removes them all

    def turn_around(shown: Json) -> None:
        shown["systemInstruction"]["parts"].reverse()

    assert edited(chat(system, USER), turn_around)["messages"][0] == {**system, "content": [c, b, a]}


def test_an_instruction_is_added_and_removed() -> None:
    added = edited(HI, lambda shown: {**shown, "systemInstruction": {"parts": [{"text": "be brief"}]}})
    assert added["messages"] == [{"role": "system", "content": "be brief"}, USER]
    removed = edited(added, lambda shown: {"contents": shown["contents"]})
    assert removed == HI


def test_images_are_shown_as_data_and_other_urls_as_files() -> None:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in (IMAGE, "gs://bucket/a.png")]
    parts = ChatRequest(chat({"role": "user", "content": images})).shown["contents"][0]["parts"]
    assert parts[0]["inlineData"] == {"mimeType": "image/png", "data": "iVBORw=="}
    assert parts[1]["fileData"] == {"fileUri": "gs://bucket/a.png"}


def test_settings_are_shown_by_the_names_of_generate_content() -> None:
    body = {**HI, "max_tokens": 7, "stop": "end", "response_format": {"type": "json_object"}}
    config = show_request(MODEL, ChatRequest(body).shown)["config"]
    assert config == {"maxOutputTokens": 7, "stopSequences": ["end"], "responseMimeType": "application/json"}

    def edit(shown: Json) -> None:
        shown["generationConfig"] = {"maxOutputTokens": 5, "stopSequences": ["end"], "temperature": 0}

    assert edited(body, edit) == {**HI, "max_tokens": 5, "stop": "end", "temperature": 0}


def test_a_selection_of_tools_offers_only_these() -> None:
    body = {**HI, "tools": [declared(), declared("shell"), declared("search")], "tool_choice": "auto"}

    def select(names: list[str], mode: str) -> Any:
        return lambda shown: apply_tool_config(shown, {"mode": mode, "allowedFunctionNames": names})

    one, two = edited(body, select(["shell"], "ANY")), edited(body, select(["shell", "search"], "ANY"))
    assert (one["tools"], one["tool_choice"]) == (
        [declared("shell")],
        {"type": "function", "function": {"name": "shell"}},
    )
    assert (two["tools"], two["tool_choice"]) == ([declared("shell"), declared("search")], "required")
    auto = edited(body, select(["shell"], "AUTO"))
    assert (auto["tools"], auto["tool_choice"]) == ([declared("shell")], "auto")
    none = edited(body, select([], "NONE"))
    assert none == {**body, "tool_choice": "none"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "oracle", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "Content": "hi"}]}, "messages[0].Content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}, "messages[0].content[0].type"),
        *(
            (
                {"messages": [{"role": role, "content": [{**content, media: {"file_id": "files/abc"}}]}]},
                f"messages[0].content[0].{media}",
            )
            for role in ("system", "user", "assistant", "tool")
            for content in (TEXT, {"type": "refusal", "refusal": "no"}, {"type": "video"})
            for media in ("file", "image_url", "input_audio")
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {}, "image_url": {}}]}]},
            "messages[0].content[0].image_url",
        ),
        ({"messages": [{"role": "user", "content": "hi", "parts": []}]}, "messages[0].parts"),
        ({"messages": [{**CALLED, "tool_calls": [tool_call("{")]}]}, ARGUMENTS),
        ({"messages": [{**CALLED, "tool_calls": [tool_call('{"a":1,"a":2}')]}]}, ARGUMENTS),
        (
            {"messages": [{**CALLED, "tool_calls": [tool_call("{}", name="f" * 257)]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"messages": [{**CALLED, "function_call": {"name": "f"}}]}, "messages[0].function_call"),
        ({"messages": [{**CALLED, "toolCalls": []}]}, "messages[0].toolCalls"),
        ({"messages": [{**CALLED, "role": "user"}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "system", "content": [{**TEXT, "message": "x"}]}]}, "messages[0].content"),
        ({"extra_body": {"messages": []}}, "extra_body"),
        *(
            (change, f"{path}.{field}")
            for field in (
                "contents",
                "generation_config",
                "systemInstruction",
                "tool_config",
                "tools",
                "Tools",
                "max_output_tokens",
                "n",
            )
            for change, path in (
                ({"extra_body": {"google": {field: []}}}, "extra_body.google"),
                ({"google": {field: []}}, "google"),
            )
        ),
        ({"contents": []}, "contents"),
        ({"functions": []}, "functions"),
        ({"stream": "true"}, "stream"),
        ({"streamOptions": {"include_usage": False}}, "streamOptions"),
        ({"modalities": ["audio"]}, "audio"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type"),
        ({"tool_choice": {"mode": "auto"}}, "tool_choice"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
        ({"model": None}, "model"),
    ],
)
def test_what_hooks_could_not_judge_is_refused_by_its_place(change: Json, place: str) -> None:
    with pytest.raises(BodyError) as refusal:
        ChatRequest({**HI, **change})
    assert refusal.value.path == place


@pytest.mark.parametrize("field", ["cached_content", "cachedContent"])
def test_cached_content_is_found_wherever_it_is_named(field: str) -> None:
    for more in ({field: "cachedContents/1"}, {"extra_body": {"google": {field: "cachedContents/1"}}}):
        assert ChatRequest({**HI, **more}).shown.get("cachedContent") or field in more


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": [TEXT] * 300, "x": ["f" * 9000]}],
        [{"role": "user", "content": [TEXT] * 300, "x": ["f" * 9000]}],
        [{"role": "assistant", "content": [TEXT] * 300, "x": ["f" * 9000]}],
        [{"role": "assistant", "tool_calls": [tool_call("{}")] * 100, "x": ["f" * 9000]}, *[RESULT] * 300],
        [{**RESULT, "content": [TEXT] * 300, "x": ["f" * 9000]}],
    ],
    ids=["system", "user", "assistant", "calls", "tool"],
)
def test_hooks_are_shown_no_more_than_a_few_times_the_request(messages: list[Json]) -> None:
    body = chat(*messages)
    assert len(json.dumps(ChatRequest(body).shown)) < 4 * len(json.dumps(body))


def test_an_edit_costs_no_more_than_its_request() -> None:
    refusals = [{**TEXT, "text": "a" * 300, "refusal": True}] * 30_000
    request = ChatRequest(chat({"role": "assistant", "content": refusals}))
    shown = copied(request.shown)
    shown["contents"][0]["parts"][0]["text"] = "bye"
    began = time.process_time()
    request.edited(request.named, shown)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("calls", [1, 2])
def test_arguments_of_calls_have_no_more_values_than_a_body(calls: int) -> None:
    arguments = json.dumps({"a": [0] * (250_000 // calls)})
    messages = [{**CALLED, "tool_calls": [tool_call(arguments)]}] * calls
    with pytest.raises(TooLargeError):
        ChatRequest(chat(*messages))
