"""Bodies are counted by their items, which cost more than their bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.translator.checks import check_items
from hookgate.translator.fields import TooLargeError

PART = {"text": "a"}
TURN = {"role": "user", "parts": [PART]}
CALL = {"functionCall": {"name": "f", "args": {}}}

BODIES: dict[str, Any] = {
    "contents": {"contents": [TURN] * 6},
    "contents[1].parts": {"contents": [TURN, {"parts": [PART] * 4}]},
    "systemInstruction.parts": {"system_instruction": {"parts": [PART] * 6}},
    "request.contents": {"request": {"contents": [TURN] * 6}},
    "tools": {"tools": [{"functionDeclarations": []}] * 6},
    "tools[0].functionDeclarations": {"tools": [{"functionDeclarations": [{"name": "f"}] * 6}]},
    "contents[0].parts[0].functionResponse.parts": {
        "contents": [{"parts": [{"functionResponse": {"name": "f", "parts": [PART] * 6}}]}]
    },
    "batch.inputConfig.requests.requests": {
        "batch": {"inputConfig": {"requests": {"requests": [{"request": {}}] * 6}}}
    },
    "messages": {"messages": [{"role": "user", "content": "a"}] * 6},
    "messages[0].content": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 6}]},
    "messages[0].tool_calls": {"messages": [{"role": "assistant", "tool_calls": [{}] * 6}]},
    "input": {"input": ["a"] * 6},
    "input[0].content": {"input": [{"role": "user", "content": [PART] * 6}]},
    "steps": {"steps": [{"type": "user_input"}] * 6},
    "input[0].result": {"input": [{"type": "function_result", "result": [{"type": "image"}] * 6}]},
    "candidates[0].content.parts": {"candidates": [{"content": {"parts": [CALL] * 6}}]},
    "choices[0].message.tool_calls": {"choices": [{"message": {"tool_calls": [{}] * 6}}]},
    "llm_request.messages": {"llm_request": {"messages": [{"role": "user", "content": "a"}] * 6}},
    "llm_response.candidates[0].content.parts": {
        "llm_response": {"candidates": [{"content": {"parts": ["a"] * 6}}]}
    },
    "response.output": {"type": "response.completed", "response": {"output": [{}] * 6}},
}


@pytest.mark.parametrize("place", BODIES)
def test_the_list_with_the_first_item_that_is_too_many_is_named(place: str) -> None:
    with pytest.raises(TooLargeError, match="more than 5 items; send fewer") as refused:
        check_items(BODIES[place], 5, "send fewer")
    expected = place.replace("systemInstruction", "system_instruction")
    assert (refused.value.path, refused.value.status) == (expected, 413)


LONG = list(range(100))


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"name": "f", "args": {"contents": LONG, "parts": LONG}}},
        {"functionResponse": {"name": "f", "response": {"output": LONG, "content": LONG}}},
        {"function_response": {"name": "f", "response": {"output": LONG}}},
    ],
    ids=["arguments", "result", "result in snake_case"],
)
def test_lists_in_free_form_json_do_not_count(part: dict[str, Any]) -> None:
    check_items({"contents": [{"parts": [part]}]}, 2, "")


@given(st.lists(st.integers(0, 5), max_size=10))
def test_as_many_items_as_there_are_pass_and_one_less_does_not(parts: list[int]) -> None:
    body = {"contents": [{"parts": [PART] * number} for number in parts]}
    items = len(parts) + sum(parts)
    check_items(body, items, "")
    if items:
        with pytest.raises(TooLargeError):
            check_items(body, items - 1, "")
