"""Generated bodies of the Interactions API: what clients send and models answer, and what they could.

Every string that could carry text holds a number of its own, so that laws can tell where each went.
"""

import json
from itertools import count
from typing import Any

from hypothesis import strategies as st
from support.wire import STREAM_HEAD, Answer

Json = dict[str, Any]

MODEL = "gemini-2.5-flash"
PNG = {"mime_type": "image/png", "data": "iVBORw=="}
SIGNATURE = "c2lnbmVk"


def texts() -> st.SearchStrategy[str]:
    return st.sampled_from(["", "hi", "hi\n", "ab ab", "ends. ", "{é}", '"😀\\', "two\n\nlines"])


def annotated() -> st.SearchStrategy[Json]:
    return st.sampled_from([{}, {}, {"annotations": [{"type": "url_citation", "title": "§", "url": "§"}]}])


def text_contents() -> st.SearchStrategy[Json]:
    return st.builds(lambda text, more: {"type": "text", "text": f"{text}§", **more}, texts(), annotated())


def contents() -> st.SearchStrategy[Json]:
    others = [
        {"type": "image", **PNG},
        {"type": "audio", "data": "iVBORw==", "mime_type": "audio/wav", "channels": 1},
        {"type": "document", "uri": "§", "mime_type": "application/pdf"},
        {"type": "video", "uri": "§", "data": "iVBORw==", "future": {"deep": ["§"]}},
        {"type": "hologram", "shape": "§", "text": "§"},
    ]
    return st.one_of(text_contents(), st.sampled_from(others))


RESULTS: list[Any] = [
    "§",
    {"answer": "§"},
    {"result": "§"},
    {"result": {"result": "§"}},
    [{"type": "text", "text": "§"}, {"type": "image", **PNG}],
    {"type": "image", **PNG},
    [{"type": "hologram", "shape": "§"}],
    ["§"],
    {"part": 0},
]


def steps() -> st.SearchStrategy[Json]:
    signature = st.sampled_from([{}, {"signature": SIGNATURE}])
    future = st.sampled_from([{}, {}, {"future": {"a_b": "§", "list": ["§", 1]}}])
    listed = st.lists(contents(), max_size=3)
    own = st.one_of(
        st.builds(lambda c: {"type": "user_input", "content": c}, listed),
        st.builds(lambda c: {"type": "model_output", "content": c}, listed),
        st.builds(
            lambda c, s: {"type": "thought", "summary": c, **s},
            st.lists(text_contents(), min_size=1),
            signature,
        ),
        st.just({"type": "thought", "signature": SIGNATURE}),
        st.builds(
            lambda s: {"type": "function_call", "id": "§", "name": "read_file", "arguments": {"a": "§"}, **s},
            signature,
        ),
        st.builds(
            lambda r: {"type": "function_result", "call_id": "§", "name": "read_file", "result": r},
            st.sampled_from(RESULTS),
        ),
        st.just({"type": "google_search_call", "id": "§", "arguments": {"queries": ["§"]}}),
        st.builds(
            lambda r: {"type": "mcp_server_tool_result", "call_id": "§", "server_name": "§", "result": r},
            st.sampled_from(RESULTS),
        ),
        st.just({"type": "code_execution_call", "id": "§", "arguments": {"language": "python", "code": "§"}}),
        st.just({"type": "from_the_future", "said": ["§", {"text": "§"}]}),
        st.builds(lambda c: {"type": "from_the_future", "content": c}, listed),
    )
    return st.builds(lambda step, more: {**step, **more}, own, future)


def requests() -> st.SearchStrategy[Json]:
    given: st.SearchStrategy[Any] = st.one_of(
        st.just("§"),
        contents(),
        st.lists(contents(), min_size=1, max_size=3),
        st.lists(steps(), min_size=1, max_size=5),
    )
    function = {"type": "function", "name": "read_file", "description": "§", "parameters": {"type": "object"}}
    tools = [function, {"type": "google_search"}, {"type": "file_search", "file_search_store_names": ["§"]}]
    choices = ["auto", "any", {"allowed_tools": {"mode": "any", "tools": ["read_file"]}}]
    optional: dict[Any, Any] = {
        "system_instruction": st.just("§"),
        "tools": st.lists(st.sampled_from(tools), max_size=3),
        "generation_config": st.fixed_dictionaries(
            {},
            optional={
                "temperature": st.just(0.5),
                "stop_sequences": st.just(["§"]),
                "tool_choice": st.sampled_from(choices),
            },
        ),
        "response_format": st.sampled_from(
            [{"type": "text", "mime_type": "application/json", "schema": {"title": "§"}}, {"type": "image"}]
        ),
        "previous_interaction_id": st.just("§"),
        "labels": st.just({"team": "§"}),
        "store": st.booleans(),
        "stream": st.booleans(),
        "future_field": st.just({"deep": [{"er": "§"}]}),
    }
    body = st.fixed_dictionaries({"model": st.just(MODEL), "input": given}, optional=optional)
    return body.map(numbered)


def interactions() -> st.SearchStrategy[Json]:
    usage = {"total_input_tokens": 3, "total_output_tokens": 5, "total_tokens": 8, "future_tokens": 1}
    body = st.fixed_dictionaries(
        {
            "id": st.just("§"),
            "status": st.sampled_from(["completed", "requires_action", "failed", "in_progress"]),
            "steps": st.lists(steps(), max_size=5),
        },
        optional={"usage": st.just(usage), "model": st.just(MODEL), "future_field": st.just(["§"])},
    )
    return body.map(numbered)


def numbered(body: Any) -> Any:
    """The body with a number in place of each `§`, so that no two strings are alike."""
    numbers = count(1)

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("§", f"<{next(numbers)}>") if "§" in value else value
        if isinstance(value, list):
            return [walk(item) for item in value]
        return {key: walk(item) for key, item in value.items()} if isinstance(value, dict) else value

    return walk(body)


def copied(value: Any) -> Any:
    """The value as a program that reads and writes JSON would return it."""
    return json.loads(json.dumps(value))


def sse(events: list[Json]) -> bytes:
    """The bytes of a stream with these events, as the API sends them."""
    framed = [f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join([*framed, "event: done\ndata: [DONE]\n\n"]).encode()


def delta(text: str, index: int = 0) -> Json:
    """An event with a piece of the answer's text."""
    return {"index": index, "delta": {"type": "text", "text": text}, "event_type": "step.delta"}


def started(step: Json, index: int = 0) -> Json:
    return {"index": index, "step": step, "event_type": "step.start"}


def stopped(index: int = 0) -> Json:
    return {"index": index, "event_type": "step.stop"}


def called(arguments: list[str], index: int = 0, name: str = "read_file") -> list[Json]:
    """The events of a function call whose arguments come in pieces."""
    step = {"type": "function_call", "id": f"c{index}", "name": name, "arguments": {}}
    pieces = [{"type": "arguments_delta", "arguments": piece} for piece in arguments]
    return [
        started(step, index),
        *({"index": index, "delta": piece, "event_type": "step.delta"} for piece in pieces),
        stopped(index),
    ]


CREATED = {
    "interaction": {"id": "v1_1", "status": "in_progress", "object": "interaction", "model": MODEL},
    "event_type": "interaction.created",
}


def completed(status: str = "completed", **fields: Any) -> Json:
    interaction = {"id": "v1_1", "status": status, "model": MODEL, **fields}
    return {"interaction": interaction, "event_type": "interaction.completed"}


# ---- at a whole gateway

PATH = "/v1beta/interactions"
HI = {"model": "gemini-2.5-flash", "input": "hi"}
TEXT_STEP = {"type": "model_output"}
ANSWER = {
    "id": "v1_1",
    "status": "completed",
    "model": "gemini-2.5-flash",
    "steps": [
        {"type": "thought", "summary": [{"type": "text", "text": "hm"}], "signature": "c2ln"},
        {"type": "model_output", "content": [{"type": "text", "text": "hello"}]},
    ],
    "usage": {"total_input_tokens": 3, "total_output_tokens": 5, "total_thought_tokens": 2},
}


def streamed(events: list[Json]) -> list[bytes]:
    return [STREAM_HEAD, sse(events)]


def events_of(answer: Answer) -> list[Json]:
    lines = [line for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


def text_of(answer: Answer) -> str:
    return "".join(event.get("delta", {}).get("text", "") for event in events_of(answer))


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def no_shell(event: Json) -> Json | None:
    """BeforeTool: deny a call of the shell that touches /etc."""
    denied = "/etc" in event["tool_input"].get("command", "")
    return {"decision": "deny", "reason": "not there"} if denied else None
