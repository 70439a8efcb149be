"""The policy `models` as a router: which model receives a call, and with which settings."""

from typing import Any

import pytest
from support.hooks.builtins import make_policy

from hookgate.hooks.policies.models import models_policy

Json = dict[str, Any]


def judge_request(options: Json, text: str = "hi", **request: Any) -> Any:
    shown = {
        "model": "gemini-2.5-pro",
        "messages": [{"role": "user", "content": text}],
        "config": {},
        **request,
    }
    return make_policy(models_policy, options)({"hook_event_name": "BeforeModel", "llm_request": shown})


def model(options: Json, text: str = "hi", **request: Any) -> str | None:
    """The model that a call of Anna's is sent to; None for the one it came with."""
    answer = judge_request(options, text, **request)
    return answer["hookSpecificOutput"]["llm_request"]["model"] if answer else None


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True),
        ({"models": "gemini-*-pro"}, True),
        ({"models": ["gemini-1.5-*", "*-flash"]}, False),
        ({"keys": ["anna"]}, True),
        ({"keys": ["bert"]}, False),
        ({"teams": "sea*"}, True),
        ({"clients": "GeminiCLI", "teams": "ads"}, False),
        ({"characters_below": 3}, True),
        ({"characters_below": 2}, False),
        ({"characters_above": 1}, True),
        ({"characters_above": 2}, False),
        ({"tools": False}, True),
        ({"tools": True}, False),
    ],
    ids=str,
)
def test_a_rule_applies_to_the_calls_that_it_describes(when: Json, holds: bool) -> None:
    assert model({"route": [{"to": "small", "when": when}]}) == ("small" if holds else None)


@pytest.mark.parametrize(
    "tool", [{"functionDeclarations": [{"name": "read"}]}, {"googleSearch": {}}], ids=str
)
def test_tools_of_every_kind_are_tools(tool: Json) -> None:
    route = [{"to": "small", "when": {"tools": False}}, {"to": "able", "when": {"tools": True}}]
    assert model({"route": route}, tools=[tool]) == "able"


def test_all_messages_make_the_size() -> None:
    messages = [{"role": "system", "content": "12345"}, {"role": "user", "content": "67890"}]
    options = {"route": [{"to": "large", "when": {"characters_above": 9}}]}
    assert model(options, messages=messages) == "large"
    assert model(options, messages=messages[1:]) is None


def test_the_first_matching_rule_counts() -> None:
    route = [{"to": "a", "when": {"characters_below": 5}}, {"to": "b"}]
    assert (model({"route": route}), model({"route": route}, "a long question")) == ("a", "b")


def test_a_routed_call_is_renamed_and_then_has_to_be_allowed() -> None:
    options = {"route": [{"to": "cheap"}], "rename": {"cheap": "gemini-2.5-flash-lite"}, "allow": ["*-lite"]}
    assert model(options) == "gemini-2.5-flash-lite"
    assert judge_request({**options, "allow": ["*-pro"]})["decision"] == "deny"


def test_a_rule_to_the_model_that_was_asked_for_changes_nothing() -> None:
    assert judge_request({"route": [{"to": "gemini-2.5-pro"}, {"to": "b"}]}) is None


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"route": [{"when": {}}]}, r"route\.0\.to"),
        ({"route": [{"to": "x", "when": {"characters_under": 5}}]}, r"route\.0\.when\.characters_under"),
        ({"route": [{"to": "x", "when": {"characters_below": "5"}}]}, r"route\.0\.when\.characters_below"),
    ],
    ids=["no model", "unknown", "no number"],
)
def test_wrong_rules_are_reported_with_their_place(options: Json, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        make_policy(models_policy, options)
