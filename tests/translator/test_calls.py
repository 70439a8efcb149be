"""Calls in an answer, held against the tools that were allowed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.bodies import responses
from support.inspect import all_parts

from hookgate.translator import CallGate, callable_names


def calling(*names: str | None, **more: Any) -> dict[str, Any]:
    parts = [{"functionCall": {**({"name": name} if name else {}), **more}} for name in names]
    return {"candidates": [{"content": {"parts": [{"text": "so:"}, *parts]}, "index": 0}]}


def parts(body: dict[str, Any]) -> Any:
    return body["candidates"][0]["content"]["parts"]


def test_a_call_that_was_not_allowed_becomes_a_text_and_the_others_stay() -> None:
    gate = CallGate(frozenset({"read"}))
    body = calling("read", "write")
    said = "The tool 'write' was not allowed here, so it was not called."
    assert parts(gate.judged(body)) == [*parts(body)[:2], {"text": said}]
    assert gate.passed


def test_an_answer_whose_calls_are_allowed_is_the_very_object() -> None:
    body = calling("read")
    assert CallGate(frozenset({"read"})).judged(body) is body


def test_the_arguments_of_a_refused_call_that_go_on_in_later_events_are_left_out() -> None:
    gate = CallGate(frozenset({"read"}))
    begun = gate.judged(calling("write", willContinue=True))
    on = gate.judged(calling(None, partialArgs=[{"jsonPath": "$.a"}]))
    assert "not allowed" in parts(begun)[1]["text"]
    assert parts(on) == [{"text": "so:"}]
    assert not gate.passed
    gate.judged(calling("read", willContinue=True))
    more = calling(None, partialArgs=[])
    assert gate.judged(more) is more


def test_a_call_without_a_name_is_refused() -> None:
    assert "not allowed" in parts(CallGate(frozenset({"read"})).judged(calling(None)))[1]["text"]


@given(st.lists(responses(), max_size=4), st.frozensets(st.sampled_from(["f", "g", "h"])))
def test_no_call_passes_that_is_not_allowed(events: list[dict[str, Any]], allowed: frozenset[str]) -> None:
    gate = CallGate(allowed)
    for event in events:
        for part in all_parts(gate.judged(event)):
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
    ]:
        body = {"tools": tools, "toolConfig": {"functionCallingConfig": config}}
        assert callable_names(body) == names
