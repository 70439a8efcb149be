"""The policy `models`: which models may be called, and how."""

from typing import Any

import pytest
from support.hooks.builtins import make_policy

from hookgate.hooks.policies.models import models_policy

Json = dict[str, Any]


def judge_request(
    options: Json, model: str = "gemini-2.5-pro", system: str | None = None, **config: Any
) -> Any:
    messages = [{"role": "user", "content": "hi"}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    request = {"model": model, "messages": messages, "config": config}
    return make_policy(models_policy, options)({"hook_event_name": "BeforeModel", "llm_request": request})


def edit(*args: Any, **more: Any) -> Any:
    return judge_request(*args, **more)["hookSpecificOutput"]["llm_request"]


def test_only_listed_models_may_be_called() -> None:
    options = {"allow": ["gemini-*-flash"], "deny": ["*-1.5-*"]}
    assert judge_request(options, "gemini-2.5-flash") is None
    reported = judge_request(options, "gemini-2.5-pro")
    assert reported["decision"] == "deny"
    assert reported["reason"] == "The model 'gemini-2.5-pro' is not allowed here; allowed are gemini-*-flash."
    assert judge_request(options, "gemini-1.5-flash")["decision"] == "deny"
    assert judge_request(options | {"reason": "ask Ada"})["reason"] == "ask Ada"


def test_a_renamed_model_has_to_be_allowed_itself() -> None:
    options = {"allow": ["*-flash"], "rename": {"gemini-2.5-pro": "gemini-2.5-flash"}}
    assert edit(options) == {"model": "gemini-2.5-flash"}
    assert judge_request({"allow": ["*-pro"], "rename": {"gemini-2.5-pro": "x"}})["decision"] == "deny"


@pytest.mark.parametrize(
    ("options", "config", "changed"),
    [
        ({"set": {"temperature": 0}}, {"temperature": 1}, {"temperature": 0}),
        ({"set": {"seed": None}}, {"seed": 7}, {"seed": None}),
        ({"cap": {"maxOutputTokens": 100}}, {"maxOutputTokens": 500}, {"maxOutputTokens": 100}),
        ({"cap": {"maxOutputTokens": 100}}, {}, {"maxOutputTokens": 100}),
        ({"cap": {"maxOutputTokens": 100}}, {"maxOutputTokens": 0}, {"maxOutputTokens": 100}),
        ({"cap": {"candidateCount": 1}}, {"candidateCount": -1}, {"candidateCount": 1}),
        ({"cap": {"temperature": 0.5}}, {"temperature": "hot"}, {"temperature": 0.5}),
        ({"cap": {"topK": 5}}, {"topK": True}, {"topK": 5}),
        ({"set": {"topK": 9}, "cap": {"topK": 5}}, {}, {"topK": 5}),
        ({"set": {"topK": 9}, "cap": {"topK": 5}}, {"topK": 3}, {"topK": 5}),
    ],
)
def test_settings_are_forced_and_capped(options: Json, config: Json, changed: Json) -> None:
    assert edit(options, **config) == {"config": changed}


def test_zero_is_within_the_cap_of_a_setting_that_may_be_zero() -> None:
    assert judge_request({"cap": {"temperature": 0.5}}, temperature=0) is None


def test_a_setting_within_its_cap_stays() -> None:
    assert judge_request({"cap": {"maxOutputTokens": 100}}, maxOutputTokens=50) is None


def test_an_instruction_is_added_once() -> None:
    options = {"instruct": "Be kind."}
    assert edit(options)["messages"][0] == {"role": "system", "content": "Be kind."}
    assert edit(options, system="Be brief.")["messages"][0]["content"] == "Be brief.\n\nBe kind."
    assert edit(options, system="x\n\nBe kind.")["messages"][0]["content"] == "x\n\nBe kind."


def test_wrong_options_are_reported_with_their_place() -> None:
    with pytest.raises(ValueError, match=r"cap\.topK: "):
        make_policy(models_policy, {"cap": {"topK": "many"}})


@pytest.mark.parametrize("option", ["set", "cap"])
def test_settings_are_the_same_in_snake_case(option: str) -> None:
    assert edit({option: {"max_output_tokens": 100}}, maxOutputTokens=500) == {
        "config": {"maxOutputTokens": 100}
    }


def test_a_cap_in_snake_case_raises_nothing() -> None:
    assert judge_request({"cap": {"max_output_tokens": 100}}, maxOutputTokens=50) is None
