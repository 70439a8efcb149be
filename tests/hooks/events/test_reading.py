"""Reading events from the inputs that agents and documents write."""

from typing import Any

import pytest

from hookgate.hooks import AfterAgent, BeforeModel
from hookgate.hooks.events.reading import read_event


def test_an_unknown_event_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"^there is no event 'BeforeModle'$"):
        read_event("BeforeModle", {})


@pytest.mark.parametrize(
    ("document", "prompt"),
    [
        ({"prompt": "hi"}, "hi"),
        ({"user_message": "hi"}, "hi"),
        ({"prompt": None, "user_message": "hi"}, "hi"),
        ({"prompt": "", "user_message": "hi"}, ""),
        ({}, ""),
    ],
)
def test_a_prompt_that_is_null_is_absent(document: dict[str, Any], prompt: str) -> None:
    event = read_event("AfterAgent", {**document, "prompt_response": "done"})
    assert isinstance(event, AfterAgent)
    assert event.fields("text")["prompt"] == prompt


def test_a_model_that_is_null_is_the_default() -> None:
    request = {"model": None, "messages": [{"role": "user", "content": "hi"}]}
    for document in ({"llm_request": request}, {"model": None, "contents": [{"parts": [{"text": "hi"}]}]}):
        event = read_event("BeforeModel", document)
        assert isinstance(event, BeforeModel)
        assert event.model.startswith("gemini-")
