"""The laws of editing an interaction's answer: what no hook changed stays unchanged."""

import json
from typing import Any

import pytest
from hypothesis import given
from support.bodies.interactions import Json, copied, interactions

from hookgate.translator import BodyError, apply_response, show_response, synthetic_response
from hookgate.translator.fields import strings_in
from hookgate.translator.interactions import decode_interaction, encode_interaction, new_interaction

MODEL_STEPS = [
    {"type": "thought", "summary": [{"type": "text", "text": "hm"}], "signature": "c2ln"},
    {"type": "model_output", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]},
]
CALL = {"type": "function_call", "id": "1", "name": "shell", "arguments": {"command": "ls"}}


def parsed(body: Json) -> Any:
    from google.genai._gaos.types.interactions import Interaction  # noqa: PLC0415  # takes a second

    return Interaction.model_validate_json(json.dumps(body))


@given(interactions())
def test_an_echo_returns_the_same_body(body: Json) -> None:
    response = decode_interaction(body)
    assert encode_interaction(body, response) is body
    assert encode_interaction(body, copied(response)) is body
    assert encode_interaction(body, apply_response(response, copied(show_response(response)))) is body


@given(interactions())
def test_every_string_of_the_answer_is_in_what_hooks_are_shown(body: Json) -> None:
    shown = "\n".join(strings_in(decode_interaction(body)))
    assert [text for text in strings_in(body) if "<" in text and text not in shown] == []


@given(interactions())
def test_an_edit_of_all_strings_reaches_each_of_them_and_nothing_else(body: Json) -> None:
    def marked(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("<", "[")
        if isinstance(value, list):
            return [marked(item) for item in value]
        return {key: marked(item) for key, item in value.items()} if isinstance(value, dict) else value

    edited = encode_interaction(body, marked(copied(decode_interaction(body))))
    assert edited == marked(copied(body))


def test_an_edited_text_changes_only_that_step() -> None:
    body = {"id": "1", "status": "completed", "steps": MODEL_STEPS, "output_text": "one two"}
    response = decode_interaction(body)
    edited = encode_interaction(body, apply_response(response, {"text": "one 2"}))
    assert edited["steps"][0] is MODEL_STEPS[0]
    assert edited["steps"][1]["content"] == [{"type": "text", "text": "one "}, {"type": "text", "text": "2"}]
    assert "output_text" not in edited
    assert parsed(edited).output_text == "one 2"


def test_an_interaction_whose_calls_were_all_refused_waits_for_none() -> None:
    body = {"id": "1", "status": "requires_action", "steps": [*MODEL_STEPS, CALL]}
    response = copied(decode_interaction(body))
    response["candidates"][0]["content"]["parts"][-1] = {"text": "No."}
    edited = encode_interaction(body, response)
    assert edited["status"] == "completed"
    assert edited["steps"][:2] == MODEL_STEPS
    assert edited["steps"][2] == {"type": "model_output", "content": [{"type": "text", "text": "No."}]}


def test_a_call_with_other_arguments_keeps_its_id() -> None:
    body = {"id": "1", "status": "requires_action", "steps": [CALL]}
    response = copied(decode_interaction(body))
    response["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] = {"command": "pwd"}
    edited = encode_interaction(body, response)
    assert edited == {**body, "steps": [{**CALL, "arguments": {"command": "pwd"}}]}


def test_removed_texts_leave_the_thought_and_its_signature() -> None:
    body = {"id": "1", "status": "completed", "steps": MODEL_STEPS}
    response = copied(decode_interaction(body))
    parts = response["candidates"][0]["content"]["parts"]
    response["candidates"][0]["content"]["parts"] = [part for part in parts if part.get("text") != "one "][:2]
    assert encode_interaction(body, response)["steps"] == MODEL_STEPS[:1]


@pytest.mark.parametrize(
    ("llm_response", "status", "kinds"),
    [
        ({"text": "hello"}, "completed", ["model_output"]),
        (
            {
                "candidates": [
                    {"content": {"parts": ["a", {"functionCall": {"name": "f", "args": {"x": 1}}}]}}
                ]
            },
            "requires_action",
            ["model_output", "function_call"],
        ),
    ],
)
def test_a_synthetic_answer_is_one_that_the_sdk_reads(
    llm_response: Json, status: str, kinds: list[str]
) -> None:
    body = new_interaction(synthetic_response(llm_response), "gemini-2.5-flash")
    answer = parsed(body)
    assert (answer.status, answer.model) == (status, "gemini-2.5-flash")
    assert [step.type for step in answer.steps] == kinds


def test_a_whole_interaction_of_a_hook_is_sent_unchanged() -> None:
    body = {"id": "mine", "status": "completed", "steps": MODEL_STEPS}
    assert new_interaction(synthetic_response({"raw": body})) is body


@pytest.mark.parametrize(
    "body",
    [
        {"id": "1", "outputs": [{"type": "text", "text": "of an older revision"}]},
        {"id": "1", "candidates": [{"content": {"parts": [{"text": "not of this API"}]}}]},
        {"id": "1", "steps": {"type": "model_output"}},
        {"id": "1", "steps": [{"type": "model_output", "content": "text"}]},
        {"id": "1", "steps": [{"type": "function_call", "name": "f", "arguments": "[]"}]},
        {"id": "1", "steps": ["text"]},
    ],
)
def test_an_answer_that_hooks_could_not_read_is_refused(body: Json) -> None:
    with pytest.raises(BodyError):
        decode_interaction(body)
