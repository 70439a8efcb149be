"""Generated bodies of the Responses API: what clients send and models answer, and what they could.

Every string that could carry text holds a number of its own (see `support.bodies.interactions.numbered`).
"""

import json
from typing import Any

from hypothesis import strategies as st
from support.bodies.interactions import Json, numbered, texts

MODEL = "gemini-2.5-flash"
IMAGE = "data:image/png;base64,iVBORw=="
HI = {"model": MODEL, "input": "hi"}
FUTURE = [{}, {}, {"future": {"a_b": "§", "list": ["§", 1]}}]
TOKENS = [{"token": "§", "logprob": -0.1, "bytes": [1], "top_logprobs": []}]


def declared(name: str = "read_file", **more: Any) -> Json:
    """A function among the tools of a request."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"type": "function", "name": name, "parameters": parameters, "strict": None, **more}


def call_item(arguments: str, call_id: str = "c1", name: str = "read_file", **more: Any) -> Json:
    called = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    return {**called, "arguments": arguments, "status": "completed", **more}


def message(*contents: Json, **more: Any) -> Json:
    own = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    return {**own, "content": list(contents), **more}


def output_text(text: str, **more: Any) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], **more}


def summary(*found: str) -> list[Json]:
    return [{"type": "summary_text", "text": text} for text in found]


def contents() -> st.SearchStrategy[Any]:
    items = [
        {"type": "input_text", "text": "§", "cache_control": {"note": "§"}},
        {"type": "input_image", "image_url": IMAGE, "detail": "§"},
        {"type": "input_image", "image_url": "https://example.org/§.png", "file_id": None},
        {"type": "input_image", "file_id": "§"},
        {"type": "input_audio", "input_audio": {"data": "iVBORw==", "format": "wav"}},
        {"type": "input_file", "file_data": "data:text/plain;base64,iVBORw==", "filename": "§"},
        {"type": "input_file", "file_url": "https://example.org/§"},
    ]
    return st.one_of(texts().map("{}§".format), st.lists(st.sampled_from(items), max_size=3))


def input_items() -> st.SearchStrategy[Json]:
    said = st.lists(
        st.sampled_from(
            [output_text("§"), {"type": "refusal", "refusal": "§"}, output_text("§", logprobs=[])]
        ),
        min_size=1,
        max_size=3,
    )
    results: list[Any] = ["§", '{"result": "§"}', [{"type": "input_text", "text": "§"}], None]
    own = st.one_of(
        st.builds(lambda role: {"role": role, "content": "§"}, st.sampled_from(["system", "developer"])),
        st.just({"type": "message", "role": "system", "content": [{"type": "input_text", "text": "§"}] * 2}),
        st.builds(lambda c: {"role": "user", "content": c}, contents()),
        st.builds(lambda c: {"type": "message", "role": "user", "content": c, "id": "§"}, contents()),
        st.just({"role": "assistant", "content": "§", "phase": "§"}),
        st.builds(lambda c: message(*c), said),
        st.sampled_from([call_item('{"a": "§",  "b": 1.0}'), call_item("", "c2"), call_item(' {"a": "§"}')]),
        st.builds(
            lambda output: {"type": "function_call_output", "call_id": "c1", "output": output},
            st.sampled_from(results),
        ),
        st.sampled_from(
            [
                {"type": "reasoning", "id": "§", "summary": summary("§", "§"), "encrypted_content": "c2ln"},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "§"}]},
                {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "c2ln"},
            ]
        ),
    )
    return st.builds(lambda item, more: {**item, **more}, own, st.sampled_from(FUTURE))


def requests() -> st.SearchStrategy[Json]:
    choice = {"type": "function", "name": "read_file"}
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [choice]}
    formats = [
        {"type": "text"},
        {"type": "json_schema", "name": "§", "schema": {"title": "§"}},
        {"type": "json_object"},
    ]
    optional: dict[Any, Any] = {
        "instructions": st.just("§"),
        "tools": st.lists(
            st.sampled_from([declared(description="§"), declared("shell", strict=True)]), max_size=2
        ),
        "tool_choice": st.sampled_from(["auto", "none", "required", choice, allowed]),
        "temperature": st.sampled_from([None, 0.5]),
        "max_output_tokens": st.just(7),
        "text": st.builds(lambda form: {"format": form, "verbosity": "§"}, st.sampled_from(formats)),
        "metadata": st.just({"team": "§"}),
        "reasoning": st.just({"effort": "§"}),
        "include": st.just(["§"]),
        "store": st.booleans(),
        "stream": st.booleans(),
        "background": st.just(False),
        "user": st.just("§"),
        "previous_response_id": st.none(),
        "future_field": st.just({"deep": [{"er": "§"}]}),
    }
    given = st.one_of(st.just("§"), st.lists(input_items(), min_size=1, max_size=5))
    body = st.fixed_dictionaries({"model": st.just(MODEL), "input": given}, optional=optional)
    return body.map(numbered)


def output_items() -> st.SearchStrategy[Json]:
    cited = [{"type": "url_citation", "title": "§", "url": "§", "start_index": 0, "end_index": 1}]
    own = st.sampled_from(
        [
            message(output_text("§")),
            message(output_text("§", annotations=cited, logprobs=TOKENS), output_text("§")),
            message({"type": "refusal", "refusal": "§"}, phase="§"),
            message({"type": "hologram", "shape": "§"}, output_text("§")),
            message(),
            call_item('{"a":"§"}'),
            call_item("{}", "c2", namespace="§"),
            {"type": "reasoning", "id": "§", "summary": summary("§"), "encrypted_content": "c2ln"},
            {"type": "reasoning", "id": "§", "summary": []},
            {"type": "web_search_call", "id": "§", "action": {"query": "§"}, "status": "§"},
            {"type": "from_the_future", "text": "§", "said": ["§"]},
            {"type": "from_the_future", "content": [output_text("§")]},
        ]
    )
    return st.builds(lambda item, more: {**item, **more}, own, st.sampled_from(FUTURE))


def responses() -> st.SearchStrategy[Json]:
    usage = {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens": 5,
        "total_tokens": 8,
        "future_tokens": 1,
    }
    ends = [
        {"status": "completed"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"status": "failed", "error": {"code": "§", "message": "§"}},
        {"status": "in_progress"},
    ]
    body = st.fixed_dictionaries(
        {
            "id": st.just("§"),
            "object": st.just("response"),
            "output": st.lists(output_items(), max_size=3).map(identified),
        },
        optional={
            "usage": st.sampled_from([None, usage]),
            "model": st.just(MODEL),
            "instructions": st.just("§"),
            "tools": st.just([declared(description="§")]),
            "future_field": st.just(["§"]),
        },
    )
    return st.builds(lambda one, end: numbered({**one, **end}), body, st.sampled_from(ends))


def identified(items: list[Json]) -> list[Json]:
    """The items, each with an ID of its own if it has one."""
    return [{**item, "id": f"{item['id']}{n}"} if "id" in item else item for n, item in enumerate(items)]


# ---- streams


def state(kind: str, output: list[Json] | None = None, **more: Any) -> Json:
    """An event about the whole response."""
    status = kind if kind in ("completed", "failed", "incomplete") else "in_progress"
    found = {"id": "resp_1", "object": "response", "created_at": 1.0, "model": MODEL, "status": status}
    settings = {"error": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {"type": f"response.{kind}", "response": {**found, "output": output or [], **settings, **more}}


def added(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text_events(
    pieces: list[str], index: int = 0, kind: str = "output_text", id_: str = "msg_1"
) -> tuple[list[Json], Json]:
    """The events of a message, or of a thought, whose text comes in pieces, and the item."""
    text = "".join(pieces)
    names = {
        "output_text": ("response.content_part", "response.output_text", "content", "text"),
        "refusal": ("response.content_part", "response.refusal", "content", "refusal"),
        "reasoning_text": ("response.content_part", "response.reasoning_text", "content", "text"),
        "summary_text": (
            "response.reasoning_summary_part",
            "response.reasoning_summary_text",
            "summary",
            "text",
        ),
    }
    part_name, name, listed, field = names[kind]
    more: Json = {"annotations": []} if kind == "output_text" else {}
    logprobs: Json = {"logprobs": []} if kind == "output_text" else {}
    at = {"item_id": id_, "output_index": index, f"{listed}_index": 0}
    content = {"type": kind, field: text, **more}
    item = {**message(content), "id": id_}
    if kind in ("reasoning_text", "summary_text"):
        item = {"id": id_, "type": "reasoning", "summary": [], listed: [content]}
    begun = {**item, listed: []} | ({"status": "in_progress"} if "status" in item else {})
    events = [
        added(begun, index),
        {"type": f"{part_name}.added", **at, "part": {**content, field: ""}},
        *({"type": f"{name}.delta", **at, "delta": piece, **logprobs} for piece in pieces),
        {"type": f"{name}.done", **at, field: text, **logprobs},
        {"type": f"{part_name}.done", **at, "part": content},
        done(item, index),
    ]
    return events, item


def called(pieces: list[str], index: int = 0, name: str = "read_file") -> tuple[list[Json], Json]:
    """The events of a function call whose arguments come in pieces, and the item."""
    item = call_item("".join(pieces), f"c{index}", name)
    at, kind = {"item_id": item["id"], "output_index": index}, "response.function_call_arguments"
    events = [
        added({**item, "arguments": "", "status": "in_progress"}, index),
        *({"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces),
        {"type": f"{kind}.done", **at, "name": name, "arguments": item["arguments"]},
        done(item, index),
    ]
    return events, item


def whole(*items: tuple[list[Json], Json], **more: Any) -> list[Json]:
    """All events of a response with these items."""
    own = [event for events, _ in items for event in events]
    return [state("created"), state("in_progress"), *own, state("completed", [i for _, i in items], **more)]


def sse(events: list[Json], *, counted: bool = True) -> bytes:
    """The bytes of a stream with these events, as the API sends them."""
    found = [
        {**event, "sequence_number": number} if counted else event for number, event in enumerate(events)
    ]
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in found).encode()
