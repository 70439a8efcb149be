"""The laws of editing a request, by example."""

from typing import Any

import pytest
from support.translation.inspect import Json
from support.translation.lens import MODEL, edited_request, messages_of

from hookgate.translator import BodyError, EditError, apply_request, check_request, show_request

CALL = {"functionCall": {"name": "shell", "args": {"n": 2.0}}, "thoughtSignature": "c2ln"}
RESULT = {"functionResponse": {"name": "shell", "response": {"ok": True}}}
TOOLS = [{"functionDeclarations": [{"name": "shell"}]}]


def chat() -> Json:
    return {
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "list my files"}]},
            {"role": "model", "parts": [{"text": "I look."}, CALL]},
            {"role": "user", "parts": [RESULT]},
            {"role": "model", "parts": [{"text": "Two files."}]},
        ],
        "tools": TOOLS,
        "generationConfig": {"max_output_tokens": 8192, "topP": 2.0},
    }


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def test_a_hook_sees_the_system_instruction_first_then_every_turn_that_has_text() -> None:
    assert show_request(MODEL, chat()) == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "list my files"},
            {"role": "model", "content": "I look."},
            {"role": "model", "content": "Two files."},
        ],
        "config": {"maxOutputTokens": 8192, "topP": 2.0},
    }


def test_setting_a_temperature_leaves_the_tools_and_the_system_instruction_alone() -> None:
    after = edited_request(chat(), {"config": {"temperature": 0}})
    config = {"max_output_tokens": 8192, "topP": 2.0, "temperature": 0}
    assert after == {**chat(), "generationConfig": config}


def test_a_field_keeps_the_spelling_that_the_client_chose() -> None:
    after = edited_request(chat(), {"config": {"maxOutputTokens": 100}})
    assert after["generationConfig"] == {"max_output_tokens": 100, "topP": 2.0}


def test_a_hook_may_spell_a_setting_in_snake_case() -> None:
    camel = {"contents": [], "generationConfig": {"maxOutputTokens": 8192}}
    after = edited_request(camel, {"config": {"max_output_tokens": 100, "top_k": 5}})
    assert after["generationConfig"] == {"maxOutputTokens": 100, "topK": 5}


def test_null_removes_a_setting() -> None:
    assert edited_request(chat(), {"config": {"maxOutputTokens": None}})["generationConfig"] == {"topP": 2.0}


def test_null_for_a_setting_that_was_null_leaves_it_there() -> None:
    body: Json = {"contents": [], "generationConfig": {"temperature": None}}
    assert edited_request(body, {"config": {"temperature": None}}) is body


@pytest.mark.parametrize("key", ["odd_1", "trailing_", "a__b", "Mixed_case"])
def test_a_setting_whose_name_is_no_snake_case_is_shown_under_its_own_name(key: str) -> None:
    body: Json = {"contents": [], "generationConfig": {key: 1}}
    assert show_request(MODEL, body)["config"] == {key: 1}
    assert edited_request(body, {"config": {key: 2}})["generationConfig"] == {key: 2}


def test_a_removed_message_keeps_its_call() -> None:
    messages = [message for message in messages_of(chat()) if message["content"] != "I look."]
    after = edited_request(chat(), {"messages": messages})
    assert after["contents"][1] == {"role": "model", "parts": [CALL]}
    assert after["contents"][2] == {"role": "user", "parts": [RESULT]}


@pytest.mark.parametrize("place", range(5))
def test_an_inserted_message_never_comes_between_a_call_and_its_response(place: int) -> None:
    messages = messages_of(chat())
    messages.insert(place, user("By the way,"))
    contents = edited_request(chat(), {"messages": messages})["contents"]
    called = next(i for i, content in enumerate(contents) if CALL in content["parts"])
    assert contents[called + 1]["parts"] == [RESULT]


def test_calls_that_were_streamed_in_several_turns_stay_with_their_responses() -> None:
    second = {"functionCall": {"name": "search"}}
    contents = [
        {"role": "model", "parts": [{"text": "First, "}, CALL]},
        {"role": "model", "parts": [{"text": "and then "}, second]},
        {"role": "model", "parts": [{"text": "done asking."}]},
        {"role": "user", "parts": [RESULT]},
        {"role": "user", "parts": [{"functionResponse": {"name": "search"}}]},
    ]
    for place in range(4):
        messages = messages_of({"contents": contents})
        messages.insert(place, user("By the way,"))
        after = edited_request({"contents": contents}, {"messages": messages})["contents"]
        assert [content for content in after if content in contents] == contents
        assert after[0] not in contents or after[-1] not in contents


def test_a_new_first_message_becomes_the_first_content() -> None:
    after = edited_request(chat(), {"messages": [user("Context."), *messages_of(chat())]})
    assert after["contents"] == [{"role": "user", "parts": [{"text": "Context."}]}, *chat()["contents"]]


def test_an_empty_system_message_removes_the_instruction() -> None:
    messages = [{"role": "system", "content": ""}, *messages_of(chat())[1:]]
    after = edited_request(chat(), {"messages": messages})
    assert after == {key: value for key, value in chat().items() if key != "system_instruction"}


def test_an_empty_system_message_where_there_was_no_instruction_changes_nothing() -> None:
    body: Json = {"contents": []}
    assert edited_request(body, {"messages": [{"role": "system", "content": ""}]}) is body


def test_a_second_system_message_becomes_a_part_of_the_instruction() -> None:
    messages = [*messages_of(chat()), {"role": "system", "content": "And kind."}]
    after = edited_request(chat(), {"messages": messages})
    assert after == {
        **chat(),
        "system_instruction": {"parts": [{"text": "Be brief."}, {"text": "And kind."}]},
    }


IMAGE: Json = {"inlineData": {"mimeType": "image/png", "data": ""}}


@pytest.mark.parametrize(
    ("parts", "messages", "expected"),
    [
        ([{"text": "Be "}, {"text": "brief."}], ["Be kind."], [{"text": "Be "}, {"text": "kind."}]),
        (
            [{"text": "Be "}, {"text": "brief."}],
            ["First.", "Be brief.", "Last."],
            [{"text": "First."}, {"text": "Be "}, {"text": "brief."}, {"text": "Last."}],
        ),
        ([{"text": "Be brief."}, IMAGE], [""], [{"text": ""}, IMAGE]),
        ([IMAGE], ["Be brief."], [IMAGE, {"text": "Be brief."}]),
        ([IMAGE], ["", "Be brief."], [IMAGE, {"text": "Be brief."}]),
        ({"text": "Be brief."}, ["Be kind."], {"text": "Be kind."}),
        ({"text": "Be brief."}, ["Be brief.", "Be kind."], [{"text": "Be brief."}, {"text": "Be kind."}]),
        ({"text": "Be brief."}, [""], None),
        (None, ["Be brief."], [{"text": "Be brief."}]),
    ],
)
def test_system_messages_become_the_parts_of_the_instruction(
    parts: Any, messages: list[str], expected: Any
) -> None:
    turns: list[Json] = [{"role": "user", "parts": [{"text": "hi"}]}]
    body: Json = (
        {"contents": turns} if parts is None else {"systemInstruction": {"parts": parts}, "contents": turns}
    )
    edit = {"messages": [*({"role": "system", "content": text} for text in messages), user("hi")]}
    new = edited_request(body, edit)
    assert new["contents"] == turns
    assert new.get("systemInstruction") == (None if expected is None else {"parts": expected})


def test_a_bare_part_stays_a_bare_part() -> None:
    body: Json = {"contents": {"parts": {"text": "hello"}}}
    assert edited_request(body, {"messages": [user("bye")]}) == {"contents": {"parts": {"text": "bye"}}}


def test_a_raw_edit_and_a_message_edit_both_apply() -> None:
    raw = {"contents": [{"role": "user", "parts": [{"text": "new"}]}]}
    after = edited_request(chat(), {**raw, "systemInstruction": {"parts": [{"text": "S"}]}})
    assert after == {**chat(), **raw, "system_instruction": {"parts": [{"text": "S"}]}}


# ---- errors name the place


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        ([], ""),
        ({"model": 5}, "model"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [user("a"), "hi"]}, "messages[1]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["a", 5]}]}, "messages[0].content[1]"),
        ({"messages": [{"role": "user", "content": [{"text": None}]}]}, "messages[0].content[0].text"),
        ({"config": 5}, "config"),
        ({"contents": "hi"}, "contents"),
        ({"systemInstruction": "hi"}, "systemInstruction"),
        ({"toolConfig": "NONE"}, "toolConfig"),
        ({"toolConfig": {"functionCallingConfig": 5}}, "toolConfig.functionCallingConfig"),
        ({"toolConfig": {"mode": "SOME"}}, "toolConfig.mode"),
        ({"toolConfig": {"allowedFunctionNames": [5]}}, "toolConfig.allowedFunctionNames"),
    ],
)
def test_an_edit_that_cannot_be_applied_names_the_place_and_changes_nothing(edit: Any, path: str) -> None:
    if isinstance(edit, dict):  # what could be applied comes first, and is not applied either
        edit = {"generationConfig": {"temperature": 1}, **edit}
    with pytest.raises(EditError) as raised:
        edited_request(chat(), edit)
    assert raised.value.path == path
    assert str(raised.value).startswith(f"{path}: expected " if path else "expected ")


def test_an_edit_error_says_what_was_expected_and_what_came() -> None:
    with pytest.raises(EditError) as raised:
        apply_request(MODEL, chat(), {"messages": [{"role": "user", "content": 5}]})
    assert str(raised.value) == "messages[0].content: expected a string or a list of parts, got 5"


# ---- law 9: a field spelled twice


TWICE: list[tuple[Json, str]] = [
    ({"systemInstruction": {}, "system_instruction": {}}, "systemInstruction"),
    ({"generationConfig": {"topP": 1, "top_p": 2}}, "generationConfig.topP"),
    (
        {"systemInstruction": {"parts": [{"thoughtSignature": "", "thought_signature": ""}]}},
        "systemInstruction.parts[0].thoughtSignature",
    ),
    (
        {"contents": [{"parts": []}, {"parts": {"inlineData": {}, "inline_data": {}}}]},
        "contents[1].parts.inlineData",
    ),
    ({"contents": {"newField": 1, "new_field": 1}}, "contents.newField"),
    ({"tools": [{"functionDeclarations": [], "function_declarations": []}]}, "tools[0].functionDeclarations"),
    (
        {"tools": {"function_declarations": [{"parametersJsonSchema": {}, "parameters_json_schema": {}}]}},
        "tools.function_declarations[0].parametersJsonSchema",
    ),
    ({"tool_config": {"retrievalConfig": {}, "retrieval_config": {}}}, "tool_config.retrievalConfig"),
    (
        {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": [], "allowed_function_names": []}}},
        "toolConfig.functionCallingConfig.allowedFunctionNames",
    ),
]


@pytest.mark.parametrize(("body", "path"), TWICE)
def test_a_field_in_both_spellings_is_refused(body: Json, path: str) -> None:
    with pytest.raises(BodyError) as raised:
        check_request(body)
    assert raised.value.path == path
    assert "given twice" in raised.value.message


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ([], ""),
        ({"contents": ["hi"]}, "contents[0]"),
        ({"contents": [{"parts": ["hi"]}]}, "contents[0].parts[0]"),
        ({"tools": ["shell"]}, "tools[0]"),
        ({"contents": "hi"}, "contents"),
        ({"systemInstruction": "be brief"}, "systemInstruction"),
        ({"contents": [{"parts": "hi"}]}, "contents[0].parts"),
        ({"contents": [{"parts": [{"text": ["hi"]}]}]}, "contents[0].parts[0].text"),
        ({"system_instruction": {"parts": [{"text": 5}]}}, "systemInstruction.parts[0].text"),
        ({"contents": [{"parts": {"text": 5}}]}, "contents[0].parts[0].text"),
        ({"generation_config": []}, "generationConfig"),
        ({"toolConfig": "NONE"}, "toolConfig"),
        ({"tools": "shell"}, "tools"),
        ({"contents": [{}, {"role": "a" * 33}]}, "contents[1].role"),
    ],
)
def test_a_body_that_no_api_would_read_is_refused(body: Any, path: str) -> None:
    with pytest.raises(BodyError) as raised:
        check_request(body)
    assert raised.value.path == path


def test_keys_that_belong_to_the_caller_may_look_alike() -> None:
    args = {"max_n": 1, "maxN": 2}
    call = {"functionCall": {"name": "f", "args": args}}
    tool = {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"properties": args}}]}
    body: Json = {"contents": [{"parts": [call]}], "tools": [tool]}
    assert check_request(body) is body
