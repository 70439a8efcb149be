"""A client gets what hooks left of a stream, whether its parts were removed, joined or replaced."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bodies import chat, interactions, responses
from support.translation import framing

from hookgate.translator import Framing
from hookgate.translator.chat import CompletionChunks, decode_completion, encode_completion
from hookgate.translator.fields import parts_of, read_list, write
from hookgate.translator.interactions import InteractionEvents, decode_event, encode_event
from hookgate.translator.responses import ResponseEvents, decode_response_event, encode_response_event
from hookgate.translator.strictjson import loads

Json = dict[str, Any]
Item = tuple[str, list[str]]
"""A text or the name of a function, with the pieces of the text or of the arguments."""


@dataclass(frozen=True)
class Dialect:
    """How the streams of a dialect are written, read and encoded."""

    framing: Callable[[], Framing]
    decode: Callable[[Json], Json]
    encode: Callable[[Json, Json], Json]
    stream: Callable[[Sequence[Item]], bytes]


def chat_stream(items: Sequence[Item]) -> bytes:
    chunks: list[Json] = []
    for number, (name, pieces) in enumerate(items):
        if name == "text":
            chunks += map(chat.text_chunk, pieces)
        else:
            chunks += chat.called(pieces, number, name)
    return chat.sse([*chunks, chat.ended("tool_calls")])


def responses_stream(items: Sequence[Item]) -> bytes:
    made = [
        responses.text_events(pieces, number, id_=f"msg_{number}")
        if name == "text"
        else responses.called(pieces, number, name)
        for number, (name, pieces) in enumerate(items)
    ]
    return responses.sse(responses.whole(*made))


def interactions_stream(items: Sequence[Item]) -> bytes:
    events = [interactions.CREATED]
    for number, (name, pieces) in enumerate(items):
        if name == "text":
            events.append(interactions.started({"type": "model_output"}, number))
            events += [interactions.delta(piece, number) for piece in pieces]
            events.append(interactions.stopped(number))
        else:
            events += interactions.called(pieces, number, name)
    return interactions.sse([*events, interactions.completed()])


DIALECTS = {
    "chat": Dialect(CompletionChunks, decode_completion, encode_completion, chat_stream),
    "responses": Dialect(ResponseEvents, decode_response_event, encode_response_event, responses_stream),
    "interactions": Dialect(InteractionEvents, decode_event, encode_event, interactions_stream),
}

TEXTS = st.tuples(st.just("text"), st.lists(st.sampled_from(["a", "b ", "cd"]), min_size=1, max_size=3))
CALLS = st.tuples(st.sampled_from(["read_file", "shell"]), st.just(['{"a"', ": 1}"]))
EDITS = st.lists(st.sampled_from(["keep", "drop", "say", "join", "join"]), min_size=1, max_size=8)


def edited(parts: Sequence[Json], edits: Sequence[str]) -> list[Json]:
    """The parts after an edit of each: texts may be joined to the one before, calls become texts."""
    new: list[Json] = []
    for number, part in enumerate(parts):
        edit = edits[number % len(edits)]
        if edit == "join" and "text" in part and new and "text" in new[-1]:
            new[-1] = {**new[-1], "text": new[-1]["text"] + part["text"]}
        elif edit == "say" or (edit == "drop" and "functionCall" in part):
            new.append({"text": "refused"})
        elif edit != "drop":
            new.append(part)
    return new


def summary(parts: Sequence[Json]) -> tuple[str, list[tuple[str, Json]]]:
    """The joined text of parts, and their calls."""
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    return text, [(call["name"], call["args"]) for call in calls]


def shown_parts(dialect: Dialect, data: bytes) -> list[Json]:
    reader = dialect.framing()
    frames = [frame for frame in [*reader.feed(data), *reader.finish()] if frame.data]
    answers = [dialect.decode(loads(frame.data)) for frame in frames]
    return [part for answer in answers for each in read_list(answer, "candidates") for part in parts_of(each)]


@pytest.mark.parametrize("name", DIALECTS)
@given(items=st.lists(TEXTS | CALLS, min_size=1, max_size=4), edits=EDITS)
@settings(max_examples=max(200, settings.default.max_examples if settings.default else 0))  # small ones
def test_a_client_gets_what_hooks_left_of_a_stream(name: str, items: list[Item], edits: list[str]) -> None:
    dialect, left = DIALECTS[name], list[Json]()

    def change(response: Json) -> Json:
        candidates = read_list(response, "candidates")
        if not candidates:
            return response
        new = edited(parts_of(candidates[0]), edits)
        left.extend(new)
        content = {"role": "model", "parts": new}
        return write(response, "candidates", [{**candidates[0], "content": content}, *candidates[1:]])

    sent = framing.streamed(
        dialect.framing(), dialect.decode, dialect.encode, dialect.stream(items), change=change, cuts=()
    )
    assert summary(shown_parts(dialect, sent)) == summary(left)
