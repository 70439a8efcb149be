"""Texts of an answer by their source: hooks judge all as one text, and clients show only some."""

from typing import Any

import pytest

from hookgate.translator.chat import completion_sources
from hookgate.translator.fields import BodyError
from hookgate.translator.interactions import interaction_sources
from hookgate.translator.responses import response_sources
from hookgate.translator.streaming.sources import TextOrder

Json = dict[str, Any]


def test_a_text_that_continues_after_one_of_another_source_is_refused() -> None:
    order = TextOrder()
    order.note([(0, "content"), (0, "content"), (1, "refusal"), (0, "refusal"), (1, "content")])
    with pytest.raises(BodyError, match="its content goes on after refusal, which some clients leave out"):
        order.note([(0, "content")])
    with pytest.raises(BodyError, match="its refusal goes on after content"):
        order.note([(1, "refusal")])


def test_the_number_of_sources_is_limited() -> None:
    order = TextOrder()
    with pytest.raises(BodyError, match="goes on"):
        order.note((0, str(number)) for number in range(1000))


def choice(**message: Any) -> Json:
    return {"choices": [{"index": 0, **message}]}


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        (choice(delta={"content": "a"}), ["delta.content"]),
        (choice(delta={"content": "", "refusal": "a"}), ["delta.refusal"]),
        (choice(message={"content": "a", "refusal": "b"}), ["message.content", "message.refusal"]),
        (choice(delta={"reasoning_content": "a", "tool_calls": []}), []),
        (
            {"chunks": [choice(delta={"content": "a"}), choice(delta={"refusal": "a"})]},
            ["delta.content", "delta.refusal"],
        ),
        (choice(delta=None), []),
    ],
)
def test_sources_of_chat_completions(body: Json, sources: list[str]) -> None:
    assert [source for _, source in completion_sources(body)] == sources


def message(*contents: Json) -> Json:
    return {"type": "message", "content": [*contents]}


TEXT, REFUSAL = {"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "a"}


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        ({"type": "response.output_text.delta", "delta": "a"}, ["output_text"]),
        ({"type": "response.refusal.delta", "delta": "a"}, ["refusal"]),
        ({"type": "response.future.delta", "delta": "a"}, ["response.future.delta"]),
        ({"type": "response.reasoning_text.delta", "delta": "a"}, []),
        ({"type": "response.output_text.delta", "delta": ""}, []),
        ({"type": "response.function_call_arguments.delta", "delta": "a"}, []),
        ({"output": [message(TEXT, REFUSAL), message(TEXT)]}, ["output_text", "refusal", "output_text"]),
        (
            {
                "output": [
                    {"type": "future", "text": "a"},
                    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "a"}]},
                ]
            },
            ["future"],
        ),
        ({"output": [message({"type": "future", "text": "a"})]}, ["future"]),
        ({"events": [{"type": "response.output_text.delta", "delta": "a"}]}, ["output_text"]),
    ],
)
def test_sources_of_responses(body: Json, sources: list[str]) -> None:
    assert [source for _, source in response_sources(body)] == sources


def delta(event: str = "step.delta", **fields: Any) -> Json:
    return {"event_type": event, "index": 0, "delta": fields}


WORDS = {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        (delta(**WORDS), ["text"]),
        (delta(type="future", text="a"), ["future"]),
        (delta(type="future", content="a"), ["future"]),
        (delta(type="future", content=[WORDS]), ["future"]),
        (delta("step.future", **WORDS), ["step.future"]),
        (delta(type="thought_summary", content=WORDS), []),
        (delta(type="arguments_delta", arguments="a"), []),
        ({"event_type": "step.start", "step": {"type": "model_output", "content": [WORDS]}}, ["text"]),
        (
            {"steps": [{"type": "model_output", "content": [WORDS, {"type": "future", "text": "a"}]}]},
            ["text", "future"],
        ),
        (
            {"steps": [{"type": "future", "content": [WORDS]}, {"type": "user_input", "content": [WORDS]}]},
            ["future"],
        ),
        ({"events": [delta(**WORDS)]}, ["text"]),
    ],
)
def test_sources_of_interactions(body: Json, sources: list[str]) -> None:
    assert [source for _, source in interaction_sources(body)] == sources
