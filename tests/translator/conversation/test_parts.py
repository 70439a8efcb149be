"""The view of typed parts: it shows everything in a turn, and an edit changes the intended part."""

import copy
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from support.bodies.generate_content import requests
from support.translation.inspect import exact

from hookgate.translator import (
    EditError,
    apply_request,
    apply_request_parts,
    show_request_parts,
    show_request_raw,
)

CALL = {"functionCall": {"name": "read", "args": {"path": "a", "size": 2**70}}, "thoughtSignature": "c2ln"}
RESULT = {"functionResponse": {"id": "1", "name": "read", "response": {"output": "secret"}}}
BODY: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be "}, {"text": "brief."}]},
    "contents": [
        {
            "role": "user",
            "parts": [{"text": "look "}, {"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}],
        },
        {"role": "model", "parts": [{"text": "hm", "thought": True}, CALL]},
        {"role": "user", "parts": [RESULT]},
        {
            "role": "model",
            "parts": [
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
                {"fileData": {"mimeType": "text/plain", "fileUri": "files/a"}},
                {"holoData": {"x": 1}},
            ],
        },
    ],
}


def edited(change: Any) -> Any:
    """The contents after a hook changed the messages it was shown."""
    view = copy.deepcopy(show_request_parts("m", BODY))
    change(view["messages"])
    before = copy.deepcopy(BODY)
    _, body = apply_request_parts("m", BODY, view)
    assert before == BODY, "the body that was given must not change"
    return body["contents"]


def test_every_kind_of_part_is_shown_with_its_type() -> None:
    contents = [message["content"] for message in show_request_parts("m", BODY)["messages"]]
    assert contents == [
        [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}],
        [{"type": "text", "text": "look "}, {"type": "inline_data", "mimeType": "image/png", "size": 8}],
        [
            {"type": "thought", "text": "hm"},
            {"type": "function_call", "name": "read", "args": {"path": "a", "size": 2**70}},
        ],
        [{"type": "function_response", "id": "1", "name": "read", "response": {"output": "secret"}}],
        [
            {"type": "code", "language": "PYTHON", "code": "1"},
            {"type": "code_result", "outcome": "OUTCOME_OK", "output": "1\n"},
            {"type": "file_data", "mimeType": "text/plain", "fileUri": "files/a"},
            {"type": "other", "fields": {"holoData": {"x": 1}}},
        ],
    ]


def test_turns_before_are_shown_as_typed_parts_as_well() -> None:
    earlier = {"known": True, "contents": BODY["contents"]}
    later = {"contents": [], "previousInteractionId": "v1_a", "previousInteraction": earlier}
    shown = show_request_parts("m", later)["previousMessages"]
    assert shown == show_request_parts("m", {"contents": BODY["contents"]})["messages"]


@given(requests())
def test_a_hook_that_returns_typed_parts_unchanged_changes_nothing(body: dict[str, Any]) -> None:
    assert apply_request_parts("m", body, copy.deepcopy(show_request_parts("m", body))) == ("m", body)
    _, same = apply_request_parts("m", body, copy.deepcopy(show_request_parts("m", body)))
    assert exact(same) == exact(body)


@given(requests())
def test_a_hook_that_returns_the_raw_view_unchanged_changes_nothing(body: dict[str, Any]) -> None:
    _, same = apply_request("m", body, copy.deepcopy(show_request_raw("m", body)))
    assert same is body


def test_an_edited_tool_result_changes_only_the_result() -> None:
    def hide(messages: Any) -> None:
        messages[3]["content"][0]["response"] = {"output": "[HIDDEN]"}

    want = copy.deepcopy(BODY["contents"])
    want[2]["parts"][0]["functionResponse"]["response"] = {"output": "[HIDDEN]"}
    assert edited(hide) == want


def test_edited_arguments_keep_the_calls_signature() -> None:
    def move(messages: Any) -> None:
        messages[2]["content"][1]["args"]["path"] = "b"

    want = copy.deepcopy(BODY["contents"])
    want[1]["parts"][1]["functionCall"]["args"]["path"] = "b"
    assert edited(move) == want


def test_an_edited_thought_stays_a_thought() -> None:
    def think(messages: Any) -> None:
        messages[2]["content"][0]["text"] = "aha"

    assert edited(think)[1]["parts"][0] == {"text": "aha", "thought": True}


def test_parts_that_a_hook_keeps_among_several_of_a_kind_keep_their_hidden_fields() -> None:
    signed = {**CALL, "functionCall": {"name": "read", "args": {"path": "b"}}, "thoughtSignature": "b25l"}
    texts = [{"text": "one", "thoughtSignature": "MQ=="}, {"text": "two", "thoughtSignature": "Mg=="}]
    body = {"contents": [{"role": "model", "parts": [CALL, *texts, signed]}]}
    view = show_request_parts("m", body)
    del view["messages"][0]["content"][1]
    _, new = apply_request_parts("m", body, view)
    assert new["contents"][0]["parts"] == [CALL, texts[1], signed]


def test_media_may_be_removed_and_texts_added() -> None:
    def strip(messages: Any) -> None:
        messages[1]["content"][1] = {"type": "text", "text": "[an image was here]"}

    assert edited(strip)[0]["parts"] == [{"text": "look "}, {"text": "[an image was here]"}]


def test_calls_and_results_stay_whatever_is_removed() -> None:
    def forget(messages: Any) -> None:
        del messages[2:]

    assert edited(forget) == [
        BODY["contents"][0],
        {"role": "model", "parts": [CALL]},
        {"role": "user", "parts": [RESULT]},
    ]


def test_a_string_is_the_same_as_one_text_part() -> None:
    def say(messages: Any) -> None:
        messages.append({"role": "user", "content": "and now?"})

    assert edited(say)[-1] == {"role": "user", "parts": [{"text": "and now?"}]}


def test_the_system_message_is_edited_part_by_part() -> None:
    view = copy.deepcopy(show_request_parts("m", BODY))
    view["messages"][0]["content"][1]["text"] = "kind."
    _, body = apply_request_parts("m", BODY, view)
    assert body["systemInstruction"] == {"parts": [{"text": "Be "}, {"text": "kind."}]}


@pytest.mark.parametrize(
    ("place", "part", "expected"),
    [
        (2, {"type": "robot"}, "messages[2].content[2].type: expected one of text, thought, "),
        (2, {"type": "text"}, "messages[2].content[2].text: expected a string, got null"),
        (2, {"type": "function_call", "args": 1}, "messages[2].content[2].args: expected an object, got 1"),
        (
            2,
            {"type": "function_call", "name": "x"},
            "messages[2].content[2].type: expected 'text': only texts",
        ),
        (3, 7, "messages[3].content[1]: expected a string or a typed part"),
    ],
)
def test_a_part_that_does_not_fit_is_named_by_its_place(place: int, part: Any, expected: str) -> None:
    view = copy.deepcopy(show_request_parts("m", BODY))
    view["messages"][place]["content"].append(part)
    with pytest.raises(EditError) as error:
        apply_request_parts("m", BODY, view)
    assert str(error.value).startswith(expected)


def test_what_only_describes_a_part_cannot_be_changed() -> None:
    view = copy.deepcopy(show_request_parts("m", BODY))
    view["messages"][1]["content"][1]["mimeType"] = "image/gif"
    with pytest.raises(EditError, match=r"^messages\[1\]\.content\[1\]\.mimeType: expected what was shown"):
        apply_request_parts("m", BODY, view)


@pytest.mark.parametrize(
    ("message", "part", "left"),
    [
        (1, 1, {"type": "inline_data"}),
        (2, 1, {"type": "function_call", "name": "read"}),
        (2, 1, {"type": "function_call", "name": "read", "args": {"path": "a", "size": 2**70}}),
        (3, 0, {"type": "function_response", "name": "read", "response": {"output": "secret"}}),
    ],
)
def test_what_only_describes_a_part_may_be_left_out(message: int, part: int, left: Any) -> None:
    view = copy.deepcopy(show_request_parts("m", BODY))
    view["messages"][message]["content"][part] = left
    assert apply_request_parts("m", BODY, view)[1] == BODY


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["b"], {"text": "b"}),
        (["a", "b"], [{"text": "a"}, {"text": "b"}]),
        (["b", "a"], [{"text": "b"}, {"text": "a"}]),
    ],
)
def test_a_part_outside_of_a_list_is_edited_as_in_one(texts: list[str], expected: Any) -> None:
    body = {"contents": [{"role": "user", "parts": {"text": "a"}}, {"role": "user", "parts": []}]}
    content = [{"type": "text", "text": text} for text in texts]
    _, new = apply_request_parts("m", body, {"messages": [{"role": "user", "content": content}]})
    assert new["contents"] == [{"role": "user", "parts": expected}, {"role": "user", "parts": []}]


def test_raw_contents_replace_the_conversation_though_the_messages_came_back() -> None:
    view = show_request_raw("m", BODY)
    only = [{"role": "user", "parts": [{"text": "only this"}]}]
    _, body = apply_request("m", BODY, {**view, "contents": only})
    assert body == {**BODY, "contents": only}


def test_raw_contents_count_beside_typed_messages_that_came_back() -> None:
    only = [{"role": "user", "parts": [{"text": "only this"}]}]
    _, body = apply_request_parts("m", BODY, {**show_request_parts("m", BODY), "contents": only})
    assert body == {**BODY, "contents": only}


def test_many_parts_whose_every_other_one_is_edited_take_little_time() -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "ab"[i % 2]} for i in range(1_000)]}]}
    view = show_request_parts("m", body)
    for part in view["messages"][0]["content"][::2]:
        part["text"] = "X"
    began = process_time()
    _, edited = apply_request_parts("m", body, view)
    assert process_time() - began < 2
    assert [part["text"] for part in edited["contents"][0]["parts"]] == ["X", "b"] * 500
