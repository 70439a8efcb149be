"""Whatever field an answer of another dialect has, hooks see its value, or the answer is refused.

Secrets are planted under all names that the code of a dialect mentions, alone and beside each other, since a
field that is shown under another name could hide one that has that name.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import hookgate.translator
from hookgate.translator.batches import BatchBody, BatchState
from hookgate.translator.chat.answer import decode_completion
from hookgate.translator.chat.request import ChatRequest
from hookgate.translator.fields import BodyError
from hookgate.translator.interactions.answer import decode_interaction
from hookgate.translator.interactions.events import decode_event
from hookgate.translator.interactions.request import InteractionRequest
from hookgate.translator.responses.answer import decode_response
from hookgate.translator.responses.events import decode_response_event
from hookgate.translator.responses.request import ResponseRequest

Json = dict[str, Any]
Decode = Callable[[Json], Json]

SECRET = "AKIAIOSFODNN7EXAMPLE"  # noqa: S105  # made up
HOLDERS = (SECRET, {"text": SECRET}, [{"type": "text", "text": SECRET}])
BESIDE = (1, "x", {"a": 1})
_PACKAGE = Path(hookgate.translator.__path__[0])
_NAME = re.compile(r'"([A-Za-z_]{2,32})"')


def names_of(*parts: str) -> list[str]:
    """Return the words in quotes in the modules of a dialect, and in those that all dialects share."""
    modules = [
        path for part in (*parts, "conversation") for path in sorted(_PACKAGE.glob(f"{part}*/**/*.py"))
    ]
    modules += [_PACKAGE / f"{part}.py" for part in parts if (_PACKAGE / f"{part}.py").exists()]
    return sorted({name for module in modules for name in _NAME.findall(module.read_text())})


# ---- chat completions

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":"b"}'}}
MESSAGE = {
    "role": "assistant",
    "content": "ok",
    "reasoning_content": "r",
    "refusal": "n",
    "tool_calls": [CALL],
}
COMPLETION: Json = {
    "id": "c",
    "model": "m",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop", "logprobs": {"content": []}}],
    "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
}
USED = {"prompt_tokens": 1}
PIECES = [
    {"index": 0, "delta": {"content": "x", "tool_calls": [{"index": 0, **CALL}]}},
    {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
]
CHUNKS: list[Json] = [
    {"id": "c", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]},
    {"chunks": [{"id": "c", "choices": [piece], "usage": USED} for piece in PIECES]},
]

# ---- responses

TEXT = {"type": "output_text", "text": "t", "annotations": [{"url": "u"}], "logprobs": []}
OUTPUT: list[Json] = [
    {"type": "reasoning", "id": "x", "summary": [{"type": "summary_text", "text": "t"}]},
    {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [TEXT, {"type": "refusal", "refusal": "n"}],
    },
    {"type": "function_call", "id": "a", "call_id": "1", "name": "f", "arguments": '{"a":"b"}'},
    {"type": "web_search_call", "id": "a", "action": {"query": "q"}},
]
RESPONSE: Json = {
    "id": "r",
    "status": "completed",
    "output": OUTPUT,
    "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}},
    "error": None,
}
AT = {"item_id": "m", "output_index": 0}
FAILED = {"code": "c", "message": "m"}
RESPONSE_EVENTS: list[Json] = [
    {"type": "response.created", "response": {"id": "r", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": OUTPUT[1]},
    {"type": "response.content_part.added", **AT, "content_index": 0, "part": TEXT},
    {"type": "response.output_text.delta", **AT, "content_index": 0, "delta": "x", "logprobs": []},
    {"type": "response.web_search_call.searching", **AT},
    {"type": "response.unknown.delta", "delta": {"a": "b"}},
    {"type": "error", **FAILED, "param": None},
    {"type": "error", "error": FAILED},
    {"type": "response.failed", "response": {"id": "r", "status": "failed", "error": FAILED, "output": []}},
    {
        "type": "response.completed",
        "response": {"id": "r", "status": "completed", "usage": {"input_tokens": 1}},
    },
]

# ---- interactions

CONTENTS: list[Json] = [
    {"type": "text", "text": "ok", "annotations": [{"url": "u"}]},
    {"type": "image", "uri": "u", "mime_type": "image/png"},
    {"type": "image", "data": "QUJD", "mime_type": "image/png"},
    {"type": "unknown", "text": "x"},
]
STEPS: list[Json] = [
    {"type": "thought", "summary": [CONTENTS[0]], "signature": "QUJD"},
    {"type": "function_call", "id": "1", "name": "f", "arguments": {"p": "q"}, "signature": "QUJD"},
    {"type": "mcp_server_tool_call", "id": "1", "name": "f", "server_name": "s", "arguments": {"p": "q"}},
    {"type": "mcp_server_tool_result", "call_id": "1", "name": "n", "result": {"a": "b"}},
    {"type": "google_search_result", "call_id": "1", "result": [*CONTENTS[:3], {"url": "u"}]},
    {"type": "shell_call", "x": "y"},
    {"type": "model_output", "content": CONTENTS},
    {"type": "unknown", "content": CONTENTS[:1], "k": "v"},
]
INTERACTION: Json = {"id": "v1", "status": "completed", "steps": STEPS, "usage": {"total_tokens": 1}}
INTERACTION_EVENTS: list[Json] = [
    {"event_type": "interaction.created", "interaction": {"id": "v", "status": "in_progress"}},
    {"event_type": "interaction.completed", "interaction": {"id": "v", "usage": {"total_tokens": 1}}},
    *({"event_type": "step.start", "index": 0, "step": step} for step in (STEPS[0], *STEPS[2:5])),
    *({"event_type": "step.delta", "index": 0, "delta": content} for content in CONTENTS[:2]),
    {"event_type": "step.delta", "index": 0, "delta": {"type": "thought_summary", "content": CONTENTS[0]}},
    {"event_type": "step.delta", "index": 0, "delta": {**STEPS[3], "type": "google_search_result"}},
    {"event_type": "step.stop", "index": 0, "usage": {"total_tokens": 1}},
    {"event_type": "error", "error": FAILED},
]

# ---- batches

ANSWER: Json = {
    "candidates": [{"content": {"parts": [{"text": "t"}]}}],
    "usageMetadata": {"promptTokenCount": 1},
}
BATCH: Json = {
    "name": "b",
    "metadata": {"state": "BATCH_STATE_SUCCEEDED"},
    "response": {"inlinedResponses": {"inlinedResponses": [{"response": ANSWER, "metadata": {"key": "k"}}]}},
}


def decode_batch(body: Json) -> Json:
    """Return all that hooks are shown of the state of a batch."""
    state = BatchState(body)
    return {"answers": state.answers, "rest": state.rest()}


# ---- requests

DECLARED = {"name": "f", "description": "d", "parameters": {"type": "object"}}
CHAT_REQUEST: Json = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {"role": "assistant", "content": "ok", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "r"},
    ],
    "tools": [{"type": "function", "function": DECLARED}],
    "tool_choice": "auto",
    "response_format": {"type": "json_object"},
}
RESPONSE_REQUEST: Json = {
    "model": "m",
    "instructions": "i",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "t"}]},
        *OUTPUT[:3],
        {"type": "function_call_output", "call_id": "1", "output": "r"},
    ],
    "tools": [{"type": "function", **DECLARED}],
    "text": {"format": {"type": "json_object"}},
}
INTERACTION_REQUEST: Json = {
    "model": "m",
    "system_instruction": "s",
    "input": [
        {"type": "user_input", "content": CONTENTS[:3]},
        *STEPS[:4],
        {"type": "function_result", "call_id": "1", "name": "f", "result": "r"},
    ],
    "tools": [{"type": "function", **DECLARED}],
    "generation_config": {"temperature": 1},
}
BATCH_REQUEST: Json = {
    "batch": {
        "displayName": "n",
        "inputConfig": {
            "requests": {
                "requests": [
                    {"request": {"contents": [{"parts": [{"text": "t"}]}]}, "metadata": {"key": "k"}}
                ]
            }
        },
    }
}


def decode_request(read: Callable[[Json], Any]) -> Decode:
    """Return a function that returns all that hooks are shown of a request."""

    def decode(body: Json) -> Json:
        request = read(body)
        if not request.named:
            raise BodyError("model", "the gateway refuses requests without the name of a model")
        return {"model": request.named, **request.shown}

    return decode


def decode_new_batch(body: Json) -> Json:
    """Return all that hooks are shown of a request for a batch."""
    batch = BatchBody(body)
    return {"requests": batch.requests, "labels": batch.labels(), "model": batch.batch.get("model")}


CASES: list[tuple[str, Decode, list[Json], list[str]]] = [
    ("chat", decode_completion, [COMPLETION, *CHUNKS], names_of("chat", "openai")),
    ("responses", decode_response, [RESPONSE], names_of("responses", "openai")),
    ("response events", decode_response_event, RESPONSE_EVENTS, names_of("responses", "openai")),
    ("interaction", decode_interaction, [INTERACTION], names_of("interactions")),
    ("interaction events", decode_event, INTERACTION_EVENTS, names_of("interactions")),
    ("batch", decode_batch, [BATCH], names_of("batches")),
    ("chat request", decode_request(ChatRequest), [CHAT_REQUEST], names_of("chat", "openai")),
    (
        "response request",
        decode_request(ResponseRequest),
        [RESPONSE_REQUEST],
        names_of("responses", "openai"),
    ),
    (
        "interaction request",
        decode_request(InteractionRequest),
        [INTERACTION_REQUEST],
        names_of("interactions"),
    ),
    ("batch request", decode_new_batch, [BATCH_REQUEST], names_of("batches")),
]
every_dialect = pytest.mark.parametrize(
    ("decode", "bodies", "names"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)


def objects_in(value: Any) -> Iterator[Json]:
    """Yield the objects in a JSON value, itself included."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(item)


NOT_SENT = frozenset({"steps", "output_text", "output_audio", "output_image", "output_video"})
"""Fields of interactions in streams that repeat what other events contain. The framing removes them."""

REPEATED = (("output_text", "text"), ("refusal", "refusal"))
"""Texts in events that repeat those of others. The framing writes what the client has received."""


def is_replaced(decode: Decode, owner: Json, name: str) -> bool:
    """Return whether the client never receives a field of an object as the upstream sent it."""
    if decode is decode_event:
        return name in NOT_SENT
    return decode is decode_response_event and (owner.get("type"), name) in REPEATED


def hides(decode: Decode, body: Json) -> bool:
    """Return whether the answer is neither refused nor shown with its secret."""
    try:
        return SECRET not in json.dumps(decode(body))
    except BodyError:
        return False


@every_dialect
def test_the_bodies_themselves_are_shown(decode: Decode, bodies: list[Json], names: list[str]) -> None:
    assert names
    for body in bodies:
        decode(body)


@every_dialect
def test_a_field_of_any_name_is_shown(decode: Decode, bodies: list[Json], names: list[str]) -> None:
    hidden = []
    for body in json.loads(json.dumps(bodies)):
        for owner in list(objects_in(body)):
            original = dict(owner)
            for name in names:
                if is_replaced(decode, owner, name):
                    continue
                for holder in HOLDERS:
                    owner[name] = holder
                    if hides(decode, body):
                        hidden.append((name, holder, original))
                owner.clear()
                owner.update(original)
    assert hidden == []


@every_dialect
def test_no_field_hides_another(decode: Decode, bodies: list[Json], names: list[str]) -> None:
    hidden = []
    for body in json.loads(json.dumps(bodies)):
        for owner in list(objects_in(body)):
            original = dict(owner)
            others = [(name, value) for name in names if name not in original for value in BESIDE]
            for own, holder in product(original, HOLDERS[:2]):
                if is_replaced(decode, original, own):
                    continue
                owner[own] = holder
                for name, value in others:
                    owner[name] = value
                    if hides(decode, body):
                        hidden.append((own, holder, name, value))
                    del owner[name]
                owner[own] = original[own]
    assert hidden == []
