"""The arguments of calls in an answer, which are JSON in strings: all of them together have a bound."""

from collections.abc import Callable
from typing import Any

import pytest
from support.bodies import chat, interactions, responses

from hookgate.translator import strictjson
from hookgate.translator.chat.answer import decode_completion
from hookgate.translator.fields import TooLargeError
from hookgate.translator.interactions.events import decode_event
from hookgate.translator.responses.answer import decode_response
from hookgate.translator.responses.events import decode_response_event

MANY = '{"a":[' + "[]," * 110_000 + "1]}"
HALF = len(MANY) // 2
CALLS = [chat.tool_call(MANY), chat.tool_call(MANY, "c2")]
CHOICE = {"index": 0, "message": {"role": "assistant", "tool_calls": CALLS}}
ANSWERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a completion": (decode_completion, {"choices": [CHOICE]}),
    "choices": (
        decode_completion,
        {
            "choices": [
                {"index": n, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
                for n, call in enumerate(CALLS)
            ]
        },
    ),
    "a chunk": (decode_completion, {"choices": [{"index": 0, "delta": {"tool_calls": CALLS}}]}),
    "chunks": (
        decode_completion,
        {"chunks": [each for n in (0, 1) for each in chat.called([MANY[:HALF], MANY[HALF:]], n)]},
    ),
    "a response": (
        decode_response,
        {"output": [responses.call_item(MANY), responses.call_item(MANY, "c2")], "status": "completed"},
    ),
    "events of a response": (
        decode_response_event,
        {"events": [each for n in (0, 1) for each in responses.called([MANY[:HALF], MANY[HALF:]], n)[0]]},
    ),
    "events of an interaction": (
        decode_event,
        {"events": [each for n in (0, 1) for each in interactions.called([MANY[:HALF], MANY[HALF:]], n)]},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_arguments_with_too_many_values_are_not_parsed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decode, answer = ANSWERS[name]
    parsed: list[int] = []
    monkeypatch.setattr(strictjson, "_loads_exactly", lambda data, *_: parsed.append(len(data)))
    with pytest.raises(TooLargeError, match="more than 200000 JSON values"):
        decode(answer)
    assert parsed == []
