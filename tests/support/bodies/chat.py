"""Generated bodies of chat completions: what clients send and models answer, and what they could.

Every string that could carry text holds a number of its own (see `support.bodies.interactions.numbered`).
"""

import json
from typing import Any

from hypothesis import strategies as st
from support.bodies.interactions import Json, numbered, texts

MODEL = "gemini-2.5-flash"
IMAGE = "data:image/png;base64,iVBORw=="
HI = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
FUTURE = [{}, {}, {"future": {"a_b": "§", "list": ["§", 1]}}]


def declared(name: str = "read_file", **more: Any) -> Json:
    """A function among the tools of a request."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def tool_call(arguments: str, id_: str = "c1", name: str = "read_file", **more: Any) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def contents() -> st.SearchStrategy[Any]:
    items = [
        {"type": "text", "text": "§", "cache_control": {"note": "§"}},
        {"type": "image_url", "image_url": {"url": IMAGE, "detail": "§"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/§.png"}},
        {"type": "input_audio", "input_audio": {"data": "iVBORw==", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,iVBORw==", "filename": "§"}},
        {"type": "file", "file": {"file_id": "§"}},
    ]
    return st.one_of(texts().map("{}§".format), st.lists(st.sampled_from(items), max_size=3))


def messages() -> st.SearchStrategy[Json]:
    listed = st.lists(
        st.sampled_from([{"type": "text", "text": "§"}, {"type": "refusal", "refusal": "§"}]), min_size=1
    )
    signed = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}
    calls = [
        tool_call('{"a": "§",  "b": 1.0}', **signed),
        tool_call(' {"a": "§"}', "c2"),
        tool_call("", "c3"),
    ]
    assistant: dict[str, st.SearchStrategy[Any]] = {
        "content": st.one_of(st.none(), st.just("§"), listed),
        "refusal": st.sampled_from([None, "§"]),
        "reasoning_content": st.just("§"),
        "tool_calls": st.lists(st.sampled_from(calls), max_size=2),
        "name": st.just("§"),
    }
    own = st.one_of(
        st.builds(
            lambda role, c: {"role": role, "content": c},
            st.sampled_from(["system", "developer"]),
            st.just("§"),
        ),
        st.just(
            {
                "role": "system",
                "content": [{"type": "text", "text": "§"}, {"type": "text", "text": "§"}],
                "name": "§",
            }
        ),
        st.builds(lambda c: {"role": "user", "content": c, "name": "§"}, contents()),
        st.fixed_dictionaries({"role": st.just("assistant")}, optional=assistant),
        st.sampled_from(
            [
                {"role": "tool", "tool_call_id": "c1", "content": "§"},
                {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "§"}]},
                {"role": "tool", "tool_call_id": "c2", "name": "§", "content": '{"result": "§"}'},
            ]
        ),
    )
    return st.builds(lambda message, more: {**message, **more}, own, st.sampled_from(FUTURE))


def requests() -> st.SearchStrategy[Json]:
    choice = {"type": "function", "function": {"name": "read_file"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [choice]}}
    optional: dict[Any, Any] = {
        "tools": st.lists(
            st.sampled_from([declared(description="§"), declared("shell", strict=True)]), max_size=2
        ),
        "tool_choice": st.sampled_from(["auto", "none", "required", choice, allowed]),
        "temperature": st.sampled_from([None, 0.5]),
        "max_tokens": st.just(7),
        "stop": st.sampled_from(["§", ["§", "§"]]),
        "n": st.just(2),
        "response_format": st.sampled_from(
            [
                {"type": "text"},
                {"type": "json_schema", "json_schema": {"name": "§", "schema": {"title": "§"}}},
            ]
        ),
        "metadata": st.just({"team": "§"}),
        "extra_body": st.just({"google": {"thinking_config": {"include_thoughts": True}, "note": "§"}}),
        "stream": st.booleans(),
        "stream_options": st.just({"include_usage": True}),
        "user": st.just("§"),
        "future_field": st.just({"deep": [{"er": "§"}]}),
    }
    listed = st.lists(messages(), min_size=1, max_size=5)
    body = st.fixed_dictionaries({"model": st.just(MODEL), "messages": listed}, optional=optional)
    return body.map(numbered)


def completions() -> st.SearchStrategy[Json]:
    message = st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.sampled_from([None, "§", ""])},
        optional={
            "refusal": st.sampled_from([None, "§"]),
            "reasoning_content": st.just("§"),
            "tool_calls": st.lists(
                st.sampled_from([tool_call('{"a": "§"}'), tool_call("{}", "c2")]), max_size=2
            ),
            "annotations": st.just([{"type": "url_citation", "url_citation": {"title": "§"}}]),
            "extra_content": st.just({"google": {"thought": True, "note": "§"}}),
        },
    )
    logprobs = {"content": [{"token": "§", "logprob": -0.1, "bytes": None, "top_logprobs": []}]}
    choice = st.fixed_dictionaries(
        {
            "message": message,
            "finish_reason": st.sampled_from(["stop", "length", "tool_calls", "content_filter", None]),
        },
        optional={"logprobs": st.sampled_from([None, logprobs]), "future": st.just("§")},
    )
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8, "future_tokens": 1}
    body = st.fixed_dictionaries(
        {
            "id": st.just("§"),
            "object": st.just("chat.completion"),
            "choices": st.lists(choice, min_size=1, max_size=2).map(
                lambda choices: [{"index": n, **each} for n, each in enumerate(choices)]
            ),
        },
        optional={
            "usage": st.sampled_from([None, usage]),
            "model": st.just(MODEL),
            "future_field": st.just(["§"]),
        },
    )
    return body.map(numbered)


JUNK = st.sampled_from(
    [None, True, -1, 10**20, "", "x", [], {}, [None], [[]], {"type": []}, [{"type": "text"}]]
)


def misshapen(body: Json, number: int, junk: Any) -> Json:
    """A copy of the body with junk in place of one of its values."""
    copy = json.loads(json.dumps(body))
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(copy)
    holder, key = places[number % len(places)]
    holder[key] = junk
    return dict(copy)


def chunk(delta: Json, reason: str | None = None, index: int = 0, **more: Any) -> Json:
    """A chunk of a streamed completion with one choice."""
    choice = {"index": index, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice], **more}


def text_chunk(text: str, **more: Any) -> Json:
    return chunk({"content": text, **more})


def called(pieces: list[str], index: int = 0, name: str = "read_file", choice: int = 0) -> list[Json]:
    """The chunks of a function call whose arguments come in pieces."""
    first = {"index": index, **tool_call("", f"c{index}", name)}
    rest = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return [chunk({"tool_calls": [call]}, index=choice) for call in (first, *rest)]


def ended(reason: str = "stop", index: int = 0) -> Json:
    return chunk({}, reason, index)


def sse(chunks: list[Json]) -> bytes:
    """The bytes of a stream with these chunks, as the API sends them."""
    return "".join([*(f"data: {json.dumps(each)}\n\n" for each in chunks), "data: [DONE]\n\n"]).encode()


def planted(value: Any, secret: str) -> list[Any]:
    """Copies of a value, each with the secret in one of its strings, or in its place."""
    if isinstance(value, str):
        return [f"{value} {secret}", secret]
    items: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    copies = []
    for key, item in items:
        for changed in planted(item, secret):
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = changed
            copies.append(copy)
    return copies
