"""Texts of an answer by their source: hooks judge all as one text, and clients show only some."""

from typing import Any

import pytest

from hookgate.translator.chat import completion_sources
from hookgate.translator.fields import BodyError
from hookgate.translator.interactions import InteractionSources
from hookgate.translator.responses import response_sources
from hookgate.translator.streaming.events import TextChannel
from hookgate.translator.streaming.sources import TextOrder

Json = dict[str, Any]


CHANNEL, OTHER = TextChannel(0, thought=False), TextChannel(1, thought=False)


def test_a_text_that_continues_after_one_of_another_source_is_refused() -> None:
    order = TextOrder()
    order.note(
        [
            (CHANNEL, "content"),
            (CHANNEL, "content"),
            (OTHER, "refusal"),
            (CHANNEL, "refusal"),
            (OTHER, "content"),
        ]
    )
    with pytest.raises(BodyError, match="its content goes on after refusal, which some clients leave out"):
        order.note([(CHANNEL, "content")])
    with pytest.raises(BodyError, match="its refusal goes on after content"):
        order.note([(OTHER, "refusal")])


def test_the_number_of_sources_is_limited() -> None:
    order = TextOrder()
    with pytest.raises(BodyError, match="goes on"):
        order.note((CHANNEL, str(number)) for number in range(1000))


def choice(**message: Any) -> Json:
    return {"choices": [{"index": 0, **message}]}


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        (choice(delta={"content": "a"}), ["delta.content"]),
        (choice(delta={"content": "", "refusal": "a"}), ["delta.refusal"]),
        (choice(message={"content": "a", "refusal": "b"}), ["message.content", "message.refusal"]),
        (choice(delta={"reasoning_content": "a", "tool_calls": []}), ["delta.reasoning_content"]),
        (
            choice(delta={"reasoning_content": "a", "reasoning": "b"}),
            ["delta.reasoning_content", "delta.reasoning"],
        ),
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


SUMMARY = {"type": "summary_text", "text": "a"}
TEXT, REFUSAL = {"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "a"}


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        ({"type": "response.output_text.delta", "delta": "a"}, ["output_text"]),
        ({"type": "response.refusal.delta", "delta": "a"}, ["refusal"]),
        ({"type": "response.future.delta", "delta": "a"}, ["response.future.delta"]),
        ({"type": "response.reasoning_text.delta", "delta": "a"}, ["reasoning_text"]),
        ({"type": "response.reasoning_summary_text.delta", "delta": "a"}, ["summary_text"]),
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
            ["future", "reasoning_text"],
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
OUTPUT = {"type": "model_output"}


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        (delta(**WORDS), ["text in model_output"]),
        (delta(type="future", text="a"), ["future in model_output"]),
        (delta(type="future", content="a"), ["future in model_output"]),
        (delta(type="future", content=[WORDS]), ["future with text in model_output"]),
        (delta("step.future", **WORDS), ["text in model_output of step.future"]),
        (delta(type="thought_summary", content=WORDS), ["thought_summary with text in model_output"]),
        (
            delta(type="thought_summary", content={**WORDS, "type": "future"}),
            ["thought_summary with future in model_output"],
        ),
        (delta(type="arguments_delta", arguments="a"), []),
        (
            {"event_type": "step.start", "step": {"type": "future", "content": [WORDS]}},
            ["text in future at its beginning"],
        ),
        (
            {"steps": [{"type": "model_output", "content": [WORDS, {"type": "future", "text": "a"}]}]},
            ["text in model_output", "future in model_output"],
        ),
        (
            {"steps": [{"type": "thought", "summary": [WORDS]}, {"type": "user_input", "content": [WORDS]}]},
            ["text in thought", "text in user_input"],
        ),
        ({"events": [delta(**WORDS)]}, ["text in model_output"]),
    ],
)
def test_sources_of_interactions(body: Json, sources: list[str]) -> None:
    known = InteractionSources()
    assert (
        list(known.sources_in({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}))
        == []
    )
    assert [source for _, source in known.sources_in(body)] == sources


@pytest.mark.parametrize(
    ("sources", "body"),
    [
        (completion_sources, choice(delta={"reasoning_content": "a", "content": "b"})),
        (response_sources, {"output": [{"type": "reasoning", "summary": [SUMMARY]}, message(TEXT)]}),
        (
            InteractionSources().sources_in,
            {
                "steps": [
                    {"type": "thought", "summary": [WORDS]},
                    {"type": "model_output", "content": [WORDS]},
                ]
            },
        ),
    ],
)
def test_thoughts_and_texts_may_alternate(sources: Any, body: Json) -> None:
    order = TextOrder()
    for _ in range(3):
        order.note(sources(body))
