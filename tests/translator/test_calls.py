"""Calls in an answer, compared with the allowed tools."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.bodies.generate_content import responses
from support.translation.inspect import all_parts

from hookgate.translator import ToolCallFilter, callable_names

NO = "not this one"


def calling(*names: str | None, **more: Any) -> dict[str, Any]:
    parts = [{"functionCall": {**({"name": name} if name else {}), **more}} for name in names]
    return {"candidates": [{"content": {"parts": [{"text": "so:"}, *parts]}, "index": 0}]}


def parts(body: dict[str, Any]) -> Any:
    return body["candidates"][0]["content"]["parts"]


def decided(gate: ToolCallFilter, body: dict[str, Any], *allowed: str) -> dict[str, Any]:
    """The body after a gate that lets calls of some names pass."""
    return gate.apply_decisions(
        body, [None if call.get("name") in allowed else NO for call in gate.starting_calls(body)]
    )


def test_a_refused_call_becomes_a_text_and_the_others_stay() -> None:
    gate = ToolCallFilter()
    body = calling("read", "write")
    assert parts(decided(gate, body, "read")) == [*parts(body)[:2], {"text": NO}]
    assert gate.passed


def test_an_answer_whose_calls_pass_is_the_very_object() -> None:
    body = calling("read")
    assert decided(ToolCallFilter(), body, "read") is body


def test_other_arguments_take_the_place_of_the_models() -> None:
    gate, body = ToolCallFilter(), calling("read", id="c-1")
    assert parts(gate.apply_decisions(body, [{"a": 1}]))[1] == {
        "functionCall": {"name": "read", "id": "c-1", "args": {"a": 1}}
    }


def test_the_arguments_of_a_refused_call_that_continue_in_later_events_are_left_out() -> None:
    gate = ToolCallFilter()
    begun = decided(gate, calling("write", willContinue=True), "read")
    on = decided(gate, calling(None, partialArgs=[{"jsonPath": "$.a"}]), "read")
    assert parts(begun)[1] == {"text": NO}
    assert parts(on) == [{"text": "so:"}]
    assert not gate.passed
    decided(gate, calling("read", willContinue=True), "read")
    more = calling(None, partialArgs=[])
    assert gate.starting_calls(more) == []
    assert decided(gate, more) is more


def test_a_call_that_continues_within_one_event_begins_once() -> None:
    more = [{"functionCall": {"willContinue": True}}, {"functionCall": {}}, {"functionCall": {}}]
    call = {"functionCall": {"name": "shell", "willContinue": True}}
    body = {"candidates": [{"content": {"parts": [call, *more]}}]}
    gate = ToolCallFilter()
    assert gate.starting_calls(body) == [
        call["functionCall"],
        {},
    ]  # the last one begins another without a name
    assert parts(gate.apply_decisions(body, [NO, None])) == [{"text": NO}, more[2]]


def test_a_call_without_a_name_that_continues_no_other_is_judged() -> None:
    assert parts(decided(ToolCallFilter(), calling(None), "read"))[1] == {"text": NO}


@given(st.lists(responses(), max_size=4), st.frozensets(st.sampled_from(["f", "g", "h"])))
def test_no_refused_call_is_left(events: list[dict[str, Any]], allowed: frozenset[str]) -> None:
    gate = ToolCallFilter()
    for event in events:
        for part in all_parts(decided(gate, event, *allowed)):
            call = part.get("functionCall", part.get("function_call"))
            assert call is None or call["name"] in allowed


def test_the_callable_names_are_those_declared_within_the_calling_config() -> None:
    tools = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]
    for config, names in [
        ({}, {"a", "b"}),
        ({"mode": "NONE"}, set()),
        ({"mode": "ANY"}, {"a", "b"}),
        ({"mode": "ANY", "allowedFunctionNames": ["b", "c"]}, {"b"}),
        ({"mode": "VALIDATED", "allowed_function_names": ["a"]}, {"a"}),
        ({"mode": "AUTO"}, {"a", "b"}),
        ({"mode": "AUTO", "allowedFunctionNames": ["a"]}, {"a", "b"}),
    ]:
        body = {"tools": tools, "toolConfig": {"functionCallingConfig": config}}
        assert callable_names(body) == names
