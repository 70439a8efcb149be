"""The default answers, and how a script's answers become chunks: pure functions of the request."""

import base64
from typing import Any

import pytest
from support.conversation import user_turn

from hookgate.proxy.mock_upstream.answers import ModelCall, embedding, respond
from hookgate.proxy.mock_upstream.requests import canonical_request
from hookgate.proxy.mock_upstream.script import ScriptedAnswer

WEATHER = {
    "name": "get_weather",
    "parameters": {
        "type": "OBJECT",
        "properties": {"city": {"type": "STRING"}, "days": {"type": "INTEGER"}},
        "required": ["city"],
    },
}
TIME = {"name": "get_time"}


def call(*contents: dict[str, Any], stream: bool = True, **fields: Any) -> ModelCall:
    return ModelCall("gemini-2.5-flash", stream, canonical_request({"contents": list(contents), **fields}))


def parts(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]


def answer_parts(*contents: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return parts(respond(call(*contents, **fields), None))


def text(chunks: list[dict[str, Any]]) -> str:
    return "".join(part["text"] for part in parts(chunks))


def tools(*declarations: dict[str, Any], **calling: Any) -> dict[str, Any]:
    return {
        "tools": [{"functionDeclarations": [each]} for each in declarations],
        "toolConfig": {"functionCallingConfig": calling},
    }


def test_the_answer_echoes_the_last_user_text() -> None:
    chunks = respond(
        call(user_turn("first"), {"role": "model", "parts": [{"text": "no"}]}, user_turn("a b c")), None
    )
    assert text(chunks) == "You said: a b c"


def test_the_last_of_several_parts_is_echoed() -> None:
    assert text(respond(call(user_turn("<context of the client>", "say hi")), None)) == "You said: say hi"


def test_an_echo_is_at_most_200_characters_long() -> None:
    assert text(respond(call(user_turn("x" * 300)), None)) == "You said: " + "x" * 200


def test_a_content_without_text_is_answered_too() -> None:
    image = {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": ""}}]}
    assert text(respond(call(image), None)) == "You said: "


@pytest.mark.parametrize("words", [1, 2, 3, 7, 50])
def test_a_text_of_several_words_takes_three_events_or_more(words: int) -> None:
    said = " ".join(f"w{index}" for index in range(words))
    chunks = respond(call(user_turn(said)), None)
    assert len(chunks) >= 3
    assert text(chunks) == f"You said: {said}"


def test_white_space_survives_the_cutting_into_events() -> None:
    said = "\n  two\t\tlines \n\n of text  "
    assert text(respond(call(user_turn(said)), None)) == f"You said: {said}"


def test_only_the_last_event_has_a_finish_reason() -> None:
    chunks = respond(call(user_turn("a b c d")), None)
    reasons = [chunk["candidates"][0].get("finishReason") for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["STOP"]


def test_a_unary_answer_is_one_response_with_the_whole_text_in_one_part() -> None:
    chunks = respond(call(user_turn("one two three four five"), stream=False), None)
    assert len(chunks) == 1
    assert parts(chunks) == [{"text": "You said: one two three four five"}]
    assert chunks[0]["candidates"][0]["finishReason"] == "STOP"


def test_usage_is_cumulative_and_ends_where_the_unary_answer_is() -> None:
    said = user_turn("one two three four five six seven")
    usages = [chunk["usageMetadata"] for chunk in respond(call(said), None)]
    counts = [usage["candidatesTokenCount"] for usage in usages]
    assert counts == sorted(set(counts))
    assert all(u["totalTokenCount"] == u["promptTokenCount"] + u["candidatesTokenCount"] for u in usages)
    assert usages[-1] == respond(call(said, stream=False), None)[0]["usageMetadata"]


def test_a_longer_prompt_counts_more_tokens_wherever_it_is() -> None:
    def prompt(**fields: Any) -> int:
        usage: dict[str, int] = respond(call(user_turn("hi"), **fields), None)[0]["usageMetadata"]
        return usage["promptTokenCount"]

    assert prompt(systemInstruction=user_turn("be brief")) > prompt()
    assert prompt(tools=[{"functionDeclarations": [WEATHER]}]) > prompt()


def test_the_same_request_gets_the_same_bytes_in_either_spelling() -> None:
    camel = respond(call(user_turn("hi"), generationConfig={"responseMimeType": "application/json"}), None)
    snake = respond(call(user_turn("hi"), generation_config={"response_mime_type": "application/json"}), None)
    assert camel == snake
    assert text(camel) == '{"answer":"You said: hi"}'


def test_another_request_gets_another_response_id() -> None:
    ids = {respond(call(user_turn(said)), None)[0]["responseId"] for said in ("a", "b", "a")}
    assert len(ids) == 2


def test_the_order_of_a_requests_fields_changes_nothing() -> None:
    said = user_turn("hi")
    assert respond(call(said), None) == respond(call(dict(reversed(said.items()))), None)


def test_the_model_version_is_the_model_that_was_called() -> None:
    assert {chunk["modelVersion"] for chunk in respond(call(user_turn("hi")), None)} == {"gemini-2.5-flash"}


def test_thoughts_come_first_and_are_counted_and_signed() -> None:
    chunks = respond(
        call(user_turn("a b c"), generationConfig={"thinkingConfig": {"includeThoughts": True}}), None
    )
    first, *rest = parts(chunks)
    assert first["thought"] is True
    assert not any(part.get("thought") for part in rest)
    assert "candidatesTokenCount" not in chunks[0]["usageMetadata"]
    assert all(chunk["usageMetadata"]["thoughtsTokenCount"] > 0 for chunk in chunks)
    assert [part for part in rest if "thoughtSignature" in part] == [rest[-1]]
    assert base64.b64decode(rest[-1]["thoughtSignature"], validate=True)


def test_a_unary_answer_separates_the_thought_from_the_text() -> None:
    thinking = {"thinking_config": {"include_thoughts": True}}
    thought, said = answer_parts(user_turn("a b c"), stream=False, generation_config=thinking)
    assert thought["thought"] is True
    assert said["text"] == "You said: a b c"
    assert "thoughtSignature" in said


def test_without_include_thoughts_there_are_none() -> None:
    chunks = respond(call(user_turn("a"), generationConfig={"thinkingConfig": {"thinkingBudget": 9}}), None)
    assert "thoughtsTokenCount" not in chunks[-1]["usageMetadata"]
    assert all(part.keys() == {"text"} for part in parts(chunks))


@pytest.mark.parametrize("spelling", ["responseSchema", "response_schema", "responseJsonSchema"])
def test_a_schema_gets_a_minimal_instance(spelling: str) -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "name": {"type": "STRING"},
            "size": {"type": "STRING", "enum": ["small", "large"]},
            "score": {"type": "NUMBER"},
            "good": {"type": "BOOLEAN"},
            "tags": {"type": "ARRAY", "items": {"type": "STRING"}},
            "inner": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            "optional": {"type": "STRING"},
        },
        "required": ["name", "size", "score", "good", "tags", "inner"],
    }
    config = {"responseMimeType": "application/json", spelling: schema}
    assert call(user_turn("hi"), generationConfig=config).scene.requires_json
    assert not call(user_turn("hi")).scene.requires_json
    expected = '{"name":"example","size":"small","score":1,"good":true,"tags":[],"inner":{"n":1}}'
    assert text(respond(call(user_turn("hi"), generationConfig=config), None)) == expected


def test_references_and_alternatives_of_json_schema_are_followed() -> None:
    schema = {
        "type": "object",
        "$defs": {"Kind": {"const": "cat"}},
        "properties": {
            "kind": {"$ref": "#/$defs/Kind"},
            "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "note": {"type": ["string", "null"]},
        },
        "required": ["kind", "age", "note", "undescribed"],
    }
    config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    expected = '{"kind":"cat","age":1,"note":"example","undescribed":"example"}'
    assert text(respond(call(user_turn("hi"), generationConfig=config), None)) == expected


def test_a_schema_without_a_finite_instance_is_answered_all_the_same() -> None:
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert text(respond(call(user_turn("hi"), generationConfig=config), None)).startswith('{"next":{')


@pytest.mark.parametrize("mode", [{}, {"mode": "AUTO"}, {"mode": "VALIDATED"}])
def test_a_function_that_the_text_names_is_called(mode: dict[str, str]) -> None:
    (part,) = answer_parts(user_turn("call get_weather please"), **tools(TIME, WEATHER, **mode))
    assert part["functionCall"] == {"name": "get_weather", "args": {"city": "example"}}
    assert base64.b64decode(part["thoughtSignature"], validate=True)


def test_the_phrase_use_a_tool_calls_the_first_function() -> None:
    (part,) = answer_parts(user_turn("Use a tool!"), **tools(TIME, WEATHER))
    assert part["functionCall"] == {"name": "get_time", "args": {}}


def test_a_text_that_asks_for_no_function_gets_text() -> None:
    assert "functionCall" not in answer_parts(user_turn("hi"), **tools(WEATHER))[0]


def test_mode_none_forbids_calls() -> None:
    assert "functionCall" not in answer_parts(user_turn("get_weather"), **tools(WEATHER, mode="NONE"))[0]


@pytest.mark.parametrize(
    ("said", "allowed", "called"),
    [
        ("hi", [], "get_time"),
        ("hi", ["get_weather"], "get_weather"),
        ("get_weather", ["get_time", "get_weather"], "get_weather"),
        ("get_weather", ["get_time"], "get_time"),
    ],
)
def test_mode_any_calls_an_allowed_function(said: str, allowed: list[str], called: str) -> None:
    config = tools(TIME, WEATHER, mode="ANY", allowedFunctionNames=allowed)
    assert answer_parts(user_turn(said), **config)[0]["functionCall"]["name"] == called


def test_validated_with_allowed_names_does_not_call_another_function() -> None:
    config = tools(TIME, WEATHER, mode="VALIDATED", allowedFunctionNames=["get_time"])
    assert "functionCall" not in answer_parts(user_turn("get_weather"), **config)[0]


def test_the_longest_name_in_the_text_is_meant() -> None:
    (part,) = answer_parts(user_turn("forget_weather"), **tools(WEATHER, {"name": "forget_weather"}))
    assert part["functionCall"]["name"] == "forget_weather"


def test_snake_case_declarations_are_understood() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    declared = [{"function_declarations": [{"name": "read_file", "parameters_json_schema": schema}]}]
    config = {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["read_file"]}}
    (part,) = answer_parts(user_turn("hi"), tools=declared, tool_config=config)
    assert part["functionCall"] == {"name": "read_file", "args": {"path": "example"}}


def test_a_tool_response_is_answered_with_text_even_in_mode_any() -> None:
    turn = {"role": "model", "parts": [{"functionCall": {"name": "get_weather", "args": {}}}]}
    response = {"functionResponse": {"name": "get_weather", "response": {"weather": "sunny", "n": [1, 2]}}}
    history = (user_turn("get_weather"), turn, {"role": "user", "parts": [response]})
    chunks = respond(call(*history, **tools(WEATHER, mode="ANY")), None)
    assert text(chunks) == 'The tool get_weather answered: {"weather":"sunny","n":[1,2]}'


def scripted(stream: bool, **answer: Any) -> list[dict[str, Any]]:
    return respond(call(user_turn("hi"), stream=stream), ScriptedAnswer.model_validate(answer))


def test_a_scripted_text_is_streamed_in_words() -> None:
    chunks = scripted(True, text="one two three")
    assert [part["text"] for part in parts(chunks)] == ["one ", "two ", "three"]


def test_every_scripted_chunk_is_one_event() -> None:
    call_part = {"functionCall": {"name": "f", "args": {}}}
    chunks = scripted(True, chunks=["a", [{"text": "b"}, call_part]], finishReason="MAX_TOKENS")
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in chunks] == [
        [{"text": "a"}],
        [{"text": "b"}, call_part],
    ]
    assert chunks[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert parts(scripted(False, chunks=["a", [{"text": "b"}, call_part]])) == [{"text": "ab"}, call_part]


def test_scripted_parts_are_one_event_and_unchanged() -> None:
    given = [{"text": "a"}, {"text": "b"}]
    for stream in (True, False):
        (chunk,) = scripted(stream, parts=given)
        assert chunk["candidates"][0]["content"]["parts"] == given


def test_scripted_responses_are_given_verbatim() -> None:
    given = [{"candidates": [], "odd": 1}, {"promptFeedback": {"blockReason": "SAFETY"}}]
    assert scripted(True, responses=given) == given
    assert scripted(False, responses=given) == given[:1]


def test_an_embedding_depends_only_on_the_content() -> None:
    one, same, other = (embedding(user_turn(said), 16)["values"] for said in ("a", "a", "b"))
    assert one == same != other
    assert len(one) == 16
    assert all(-1 <= number <= 1 for number in one)
