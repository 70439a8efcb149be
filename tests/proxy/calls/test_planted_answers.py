"""A text anywhere in an answer, in a field of any name, is shown to hooks, refused, or not sent."""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.bodies import chat, interactions, responses

from hookgate.translator import BatchState, BodyError, Framing, check_response
from hookgate.translator.chat import CompletionChunks, decode_completion, encode_completion
from hookgate.translator.interactions import (
    InteractionEvents,
    decode_event,
    decode_interaction,
    encode_event,
    encode_interaction,
)
from hookgate.translator.responses import (
    ResponseEvents,
    decode_response,
    decode_response_event,
    encode_response,
    encode_response_event,
)
from hookgate.translator.strictjson import dumps, loads

Json = dict[str, Any]
Open = Callable[[Json], Json]
Close = Callable[[Json, Json], Json]
PLANTED = "planted text"
NAMES = (
    *("annotations", "arguments", "choices", "content", "delta", "error", "function", "index", "interaction"),
    *(
        "item",
        "logprobs",
        "name",
        "note",
        "output",
        "output_text",
        "role",
        "step",
        "steps",
        "summary",
        "text",
    ),
    *("tool_calls", "type", "usage", PLANTED),
)
"""Fields to plant the text in: known ones where they do not belong, an unknown one, and the text itself."""

STEP = {"type": "model_output", "content": [{"type": "text", "text": PLANTED}]}


def objects_in(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(each)


def planted(body: Json) -> Iterator[tuple[str, Json]]:
    """Copies of a body, each with the text in one place, and the name of the field."""
    for number, original in enumerate(objects_in(body)):
        for name in {*original, *NAMES}:
            values = [PLANTED, [PLANTED]] if name in original else [PLANTED, {"text": PLANTED}]
            for value in (
                [*values, STEP] if name == "step" else [*values, [STEP]] if name == "steps" else values
            ):
                new = copy.deepcopy(body)
                place = next(each for at, each in enumerate(objects_in(new)) if at == number)
                place[name] = value
                yield name, new


def unseen(shown: Sequence[Json], sent: bytes) -> bool:
    return PLANTED in sent.decode() and PLANTED not in json.dumps(shown)


WHOLE: list[tuple[str, Json, Open, Close]] = [
    (
        "interaction",
        {
            **interactions.ANSWER,
            "steps": [
                {"type": "user_input", "content": [{"type": "text", "text": "a"}]},
                {"type": "function_call", "id": "1", "name": "f", "arguments": {"a": "b"}},
                {"type": "function_result", "call_id": "1", "name": "f", "result": {"x": "y"}},
                {"type": "google_search_call", "id": "2", "arguments": {"q": "z"}},
                {"type": "thought", "summary": [{"type": "text", "text": "t"}], "signature": "c2ln"},
                {"type": "model_output", "content": [{"type": "text", "text": "u"}]},
            ],
        },
        decode_interaction,
        encode_interaction,
    ),
    (
        "response",
        {
            **responses.state("completed")["response"],
            "output": [
                responses.message(responses.output_text("a"), id="m"),
                {"type": "reasoning", "id": "q", "summary": responses.summary("b")},
                responses.call_item("{}"),
                {"type": "web_search_call", "id": "w", "action": {"query": "q"}},
                {"type": "future", "content": [responses.output_text("q")]},
            ],
        },
        decode_response,
        encode_response,
    ),
    (
        "completion",
        {
            "id": "x",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "a", "tool_calls": [chat.tool_call("{}")]},
                }
            ],
            "usage": {"prompt_tokens": 1},
        },
        decode_completion,
        encode_completion,
    ),
]


@pytest.mark.parametrize(("body", "open_", "close"), [each[1:] for each in WHOLE], ids=[e[0] for e in WHOLE])
def test_a_text_planted_in_a_whole_answer_is_seen(body: Json, open_: Open, close: Close) -> None:
    found = []
    for name, each in planted(body):
        try:
            shown = check_response(open_(each))
            sent = dumps(close(each, shown))
        except BodyError:
            continue
        if unseen([shown], sent):
            found.append((name, each))
    assert found == []


def chunks() -> list[Json]:
    return [chat.text_chunk("a", role="assistant"), *chat.called(['{"a":', '"b"}']), chat.ended("tool_calls")]


def response_events() -> list[Json]:
    return responses.whole(responses.text_events(["a"]), responses.called(["{", "}"], 1))


def interaction_events() -> list[Json]:
    return [
        interactions.CREATED,
        interactions.started(interactions.TEXT_STEP),
        interactions.delta("a"),
        interactions.stopped(),
        *interactions.called(["{}"], 1),
        {"event_type": "interaction.status_update", "status": "in_progress"},
        {"event_type": "future.event"},
        {"event_type": "interaction.future", "interaction": {"id": "a"}},
        interactions.completed(usage={"total_tokens": 3}),
    ]


Stream = tuple[list[Json], Callable[[], Framing], Open, Close, Callable[[list[Json]], bytes]]
STREAMS: dict[str, Stream] = {
    "chunks": (chunks(), CompletionChunks, decode_completion, encode_completion, chat.sse),
    "responses": (
        response_events(),
        ResponseEvents,
        decode_response_event,
        encode_response_event,
        responses.sse,
    ),
    "interactions": (interaction_events(), InteractionEvents, decode_event, encode_event, interactions.sse),
}


def streamed(events: list[Json], kind: str) -> tuple[list[Json], bytes]:
    """What hooks are shown of a stream's events, and what is sent. Raises BodyError."""
    _, framings, open_, close, sse = STREAMS[kind]
    framing, shown, sent = framings(), list[Json](), b""
    for frame in [*framing.feed(sse(events)), *framing.finish()]:
        data = frame.data
        if data.strip():
            body = loads(data)
            shown.append(check_response(open_(body)))
            closed = close(body, shown[-1])
            data = data if closed is body else dumps(closed)
        sent += framing.encode(frame, data)
    return shown, sent


@pytest.mark.parametrize("kind", STREAMS)
def test_a_text_planted_in_a_stream_is_seen(kind: str) -> None:
    events, found = STREAMS[kind][0], []
    for number, event in enumerate(events):
        for name, each in planted(event):
            if not isinstance(each.get("type", ""), str) or not isinstance(each.get("event_type", ""), str):
                continue  # the name of an event is text in a frame
            try:
                shown, sent = streamed([*events[:number], each, *events[number + 1 :]], kind)
            except BodyError:
                continue
            if unseen(shown, sent):
                found.append((name, each))
    assert found == []


def test_a_text_planted_in_the_state_of_a_batch_is_seen() -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}
    inlined = [{"response": answer, "metadata": {"key": "k"}}, {"error": {"code": 3, "message": "m"}}]
    body = {
        "name": "batches/b",
        "metadata": {"displayName": "d", "batchStats": {"requestCount": "2"}},
        "response": {"inlinedResponses": {"inlinedResponses": inlined}},
    }
    for name, each in planted(body):
        state = BatchState(each)
        shown = [*state.answers, state.rest()]
        assert not unseen(shown, dumps(state.edited(state.answers, state.rest()))), name


def test_the_step_of_an_unknown_event_is_judged_as_text() -> None:
    event = {"event_type": "future.event", "step": STEP}
    shown = decode_event(event)
    assert shown["candidates"][0]["content"]["parts"] == [{"text": PLANTED}]
    edited = {**shown, "candidates": [{"content": {"role": "model", "parts": [{"text": "no"}]}}]}
    assert encode_event(event, edited)["step"]["content"] == [{"type": "text", "text": "no"}]
    later = {"event_type": "future.event", "index": 0, "delta": interactions.text(PLANTED)}
    in_a_call = [*interactions.called(["{}"]), later]
    with pytest.raises(BodyError, match="no such delta"):
        decode_event({"events": in_a_call})
    with pytest.raises(BodyError, match="no step"):
        decode_event({"event_type": "interaction.future", "step": STEP})


def test_an_event_keeps_lists_that_are_empty() -> None:
    created = {**interactions.CREATED, "interaction": {**interactions.CREATED["interaction"], "steps": []}}
    assert streamed([created], "interactions")[1] == interactions.sse([created])
