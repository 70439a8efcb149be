"""Chat completions at a whole gateway: what crosses the wire, and what does not."""

import json
from typing import Any

import pytest
from support.bodies.chat import (
    HI,
    IMAGE,
    MODEL,
    called,
    chunk,
    declared,
    ended,
    planted,
    sse,
    text_chunk,
    tool_call,
)
from support.bodies.interactions import Json
from support.bodies.planting import SECRET
from support.gateway.dialects import BOTH, REDACT, no_rockets_at_all, no_shell
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.hooks.policies import CANNED, REFUSAL, answer_itself
from support.wire import KEY, STREAM_HEAD, Answer, ask, ok, peer, post

from hookgate.proxy.config import Config

PATH = "/v1beta/openai/chat/completions"
VERTEX = "/v1/projects/p/locations/l/endpoints/openapi/chat/completions"
BEARER = {"Authorization": "Bearer test-key"}
ALLOWS_ALL = Config.model_validate({"routes": {"files": "forward"}})
USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 20}
ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"},
    ],
    "usage": USAGE,
}


def chunks_of(answer: Answer) -> list[Json]:
    lines = [line for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


def text_of(answer: Answer) -> str:
    choices = [choice for each in chunks_of(answer) for choice in each["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


# ---- the request


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [user([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}])]},
        {"messages": [user([{"type": "file", "file": {"file_id": "f1"}}])]},
    ],
)
async def test_files_are_refused_unless_the_operator_allows_them(change: Json) -> None:
    hooks = {"BeforeModel": [listens([])]}
    async with running_gateway(hooks) as gateway, running_gateway(hooks, config=ALLOWS_ALL) as other:
        refused = await post(gateway.url, PATH, {**HI, **change}, BEARER)
        allowed = await post(other.url, PATH, {**HI, **change}, BEARER)
    assert refused.status == 403
    assert refused.error["details"][0]["reason"] == "ROUTE_NOT_ALLOWED"
    assert not gateway.recorded
    assert other.recorded[0].body == {**HI, **change}
    assert allowed.status in (200, 400)  # the mock upstream knows texts only


@pytest.mark.parametrize(
    "change",
    [
        {"cached_content": "cachedContents/1"},
        {"extra_body": {"google": {"cached_content": "cachedContents/1"}}},
        {"google": {"cachedContent": "cachedContents/1"}},
    ],
)
async def test_hooks_see_that_a_call_uses_a_cache(change: Json) -> None:
    seen: list[Json] = []
    async with running_gateway({"BeforeModel": [listens(seen)]}) as gateway:
        await post(gateway.url, PATH, {**HI, **change}, BEARER)
    assert gateway.recorded[0].body == {**HI, **change}
    request = seen[0]["llm_request"]
    assert (request["cachedContent"], request["history"]) == ("cachedContents/1", "unknown")


@pytest.mark.parametrize("asks", [False, True])
async def test_tokens_of_a_stream_are_counted_and_reported_only_to_a_client_that_asks(asks: bool) -> None:
    body = {**HI, "stream": True, **({"stream_options": {"include_usage": True}} if asks else {})}
    async with running_gateway({"BeforeModel": [listens([])]}) as gateway:
        answer = await post(gateway.url, PATH, body, KEY)
        path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        receipt = (await ask(gateway.url, "GET", path, KEY)).json
    assert gateway.recorded[0].body == {**body, "stream_options": {"include_usage": True}}
    assert receipt["usage"]["output_tokens"] > 0
    assert (b'"usage"' in answer.body) is asks
    assert all(each["choices"] for each in chunks_of(answer)) is not asks


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_usage_with_details_passes_hooks(streamed: bool) -> None:
    usage = {
        **USAGE,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    if streamed:
        data = STREAM_HEAD + sse([text_chunk("hello"), ended(), {**ended(), "choices": [], "usage": usage}])
    else:
        data = ok(json.dumps({**ANSWER, "usage": usage}).encode())
    body = {**HI, "stream": streamed, **({"stream_options": {"include_usage": True}} if streamed else {})}
    async with peer(data) as upstream, gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url:
        answer = await post(url, PATH, body, KEY)
    assert answer.status == 200
    last = chunks_of(answer)[-1] if streamed else answer.json
    assert last["usage"] == usage


# ---- answers in the model's place


async def test_a_hook_answers_itself_whole_and_streamed() -> None:
    async with running_gateway({"BeforeModel": [runs(answer_itself)]}) as gateway:
        whole, stream = [await post(gateway.url, PATH, {**HI, "stream": way}, KEY) for way in (False, True)]
    [choice] = whole.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (CANNED, "stop")
    assert text_of(stream) == CANNED
    assert stream.body.endswith(b"data: [DONE]\n\n")
    assert not gateway.recorded


# ---- the answer


async def test_a_denial_in_the_middle_of_a_stream_ends_it_with_the_reason() -> None:
    def no_secret(event: Json) -> Json | None:
        return {"decision": "deny", "reason": REFUSAL} if "secret" in str(event["llm_response"]) else None

    data = sse([text_chunk("hello "), text_chunk("the secret"), ended()])
    async with (
        peer(STREAM_HEAD, sse([text_chunk("hello ")]).removesuffix(b"data: [DONE]\n\n"), data) as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(no_secret)]}) as url,
    ):
        answer = await post(url, PATH, {**HI, "stream": True}, KEY)
    if answer.status == 200:
        assert text_of(answer).endswith(REFUSAL)
        assert chunks_of(answer)[-1]["choices"][0]["finish_reason"] == "stop"
        assert answer.body.endswith(b"data: [DONE]\n\n")
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    "others",
    [
        called(['{"command": "rm"}'], name="read_file"),
        [*called(['{"command": "rm"}'], name="read_file"), ended("tool_calls")],
        called(['{"command": "rm"}'], name="read_file", choice=1),
    ],
)
async def test_a_client_does_not_add_the_arguments_of_one_call_to_another(others: list[Json]) -> None:
    def no_rm(event: Json) -> Json | None:
        denied = event["tool_name"] == "shell" and "command" in event["tool_input"]
        return {"decision": "deny", "reason": "no rm"} if denied else None

    first = called([], name="shell")
    first[0]["choices"][0]["delta"]["tool_calls"][0]["id"] = "c9"
    data = sse([*first, *others, ended("tool_calls"), ended("tool_calls", 1)])
    async with (
        peer(STREAM_HEAD, data) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(no_rm)]}) as url,
    ):
        answer = await post(url, PATH, {**HI, "stream": True}, KEY)
    if answer.status == 502:
        return
    # As the AI SDK does it: the first choice of a chunk, and the first name of each index.
    deltas = [each["choices"][0]["delta"] for each in chunks_of(answer) if "choices" in each]
    calls: dict[int, Json] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls") or ()):
        own = calls.setdefault(call["index"], {**call["function"], "arguments": ""})
        own["arguments"] += call["function"]["arguments"]
    assert [(each["name"], each["arguments"]) for each in calls.values()] == [
        ("shell", ""),
        ("read_file", '{"command": "rm"}'),
    ]


async def test_a_stream_with_as_many_choices_as_the_request_asks_for_passes() -> None:
    data = sse([*called(["{}"]), *called(["{}"], choice=1), ended("tool_calls"), ended("tool_calls", 1)])
    hooks = {"BeforeTool": [listens([])]}
    async with peer(STREAM_HEAD, data) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, PATH, {**HI, "stream": True, "n": 2}, KEY)
    choices = [choice for each in chunks_of(answer) for choice in each["choices"]]
    assert [choice["index"] for choice in choices if choice["delta"].get("tool_calls")] == [0, 1]


async def test_a_refused_call_is_reported_to_the_model_which_answers_again() -> None:
    config = Config.model_validate({"tools": {"refused": "ask_again", "ask_again_at_most": 2}})
    tools = [declared("shell"), declared("read_file")]
    script = {
        "rules": [
            {"when": {"tool_response": "shell"}, "answer": {"text": "I did not."}},
            {"answer": {"parts": [{"text": "Running. "}, {"functionCall": {"name": "shell", "args": {}}}]}},
        ]
    }
    for stream in (False, True):
        async with running_gateway({"BeforeTool": [runs(no_shell)]}, script, config) as gateway:
            answer = await post(gateway.url, PATH, {**HI, "tools": tools, "stream": stream}, KEY)
        again = gateway.recorded[1].body["messages"]
        assert again[1]["tool_calls"][0]["function"] == {"name": "shell", "arguments": "{}"}
        assert again[2] == {
            "role": "tool",
            "tool_call_id": again[1]["tool_calls"][0]["id"],
            "content": '{"error":"Tool execution blocked: no shell"}',
        }
        text = text_of(answer) if stream else answer.json["choices"][0]["message"]["content"]
        assert text.endswith("I did not.")
        assert b"tool_calls" not in answer.body
        assert answer.body.count(b"[DONE]") == stream


# ---- embeddings

EMBEDDINGS = "/v1beta/openai/embeddings"
VERTEX_EMBEDDINGS = VERTEX.replace("chat/completions", "embeddings")
PATHS = pytest.mark.parametrize("path", [EMBEDDINGS, VERTEX_EMBEDDINGS])


@PATHS
@pytest.mark.parametrize("given", ["a rocket", ["hi", "a rocket"]])
async def test_a_text_to_embed_is_judged(given: Any, path: str) -> None:
    async with running_gateway({"BeforeModel": [runs(no_rockets_at_all)]}) as gateway:
        answer = await post(gateway.url, path, {"model": MODEL, "input": given}, BEARER)
    assert (answer.status, answer.error["message"].endswith(REFUSAL)) == (403, True)
    assert not gateway.recorded


@pytest.mark.parametrize(
    ("path", "collection"), [(EMBEDDINGS, ""), (EMBEDDINGS, "models/"), (VERTEX_EMBEDDINGS, "google/")]
)
async def test_texts_to_embed_are_edited_one_by_one_and_their_tokens_are_counted(
    path: str, collection: str
) -> None:
    body = {
        "model": f"{collection}gemini-embedding-001",
        "input": ["hi", f"the key {SECRET}"],
        "dimensions": 4,
    }
    async with running_gateway({"BeforeModel": [REDACT]}) as gateway:
        answer = await post(gateway.url, path, body, KEY)
        receipt_path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        receipt = (await ask(gateway.url, "GET", receipt_path, KEY)).json
    assert gateway.recorded[0].body == {**body, "input": ["hi", "the key [AWS_ACCESS_KEY]"]}
    assert [len(each["embedding"]) for each in answer.json["data"]] == [4, 4]
    assert receipt["usage"]["input_tokens"] > 0
    assert receipt["model"] == "gemini-embedding-001"


@PATHS
async def test_a_model_that_a_hook_chooses_for_embeddings_keeps_its_prefix(path: str) -> None:
    hooks = {"BeforeModel": [says(llm_request={"model": "other"})]}
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, path, {"model": "google/m", "input": "hi"}, BEARER)
    assert gateway.recorded[0].body == {"model": "google/other", "input": "hi"}


@PATHS
@pytest.mark.parametrize(
    "change", [{"input": [[1, 2]]}, {"input": 7}, {"note": "a rocket"}, {"user": ["a rocket"]}, {"input": []}]
)
async def test_what_is_no_text_to_embed_is_refused(change: Json, path: str) -> None:
    async with running_gateway({"BeforeModel": [listens([])]}) as gateway:
        answer = await post(gateway.url, path, {"model": MODEL, "input": "hi", **change}, BEARER)
    assert answer.status == 400
    assert not gateway.recorded


@PATHS
@pytest.mark.parametrize("given", ["hi", ["hi", "ho"]])
async def test_the_user_of_an_embedding_is_judged_as_a_text(given: Any, path: str) -> None:
    body = {"model": MODEL, "input": given, "user": SECRET, "dimensions": 4}
    async with running_gateway({"BeforeModel": [REDACT]}) as gateway:
        assert (await post(gateway.url, path, body, KEY)).status == 200
    assert gateway.recorded[0].body == {**body, "user": "[AWS_ACCESS_KEY]"}
    async with running_gateway({"BeforeModel": [runs(no_rockets_at_all)]}) as gateway:
        assert (await post(gateway.url, path, {**body, "user": "rocket-7"}, KEY)).status == 403
    assert not gateway.recorded


# ---- a secret in every field


CALLS = {"role": "assistant", "content": "a", "refusal": "b", "reasoning_content": "c", "name": "d"}
FULL: Json = {
    **HI,
    "messages": [
        {"role": "system", "content": "a", "name": "b"},
        {"role": "developer", "content": [{"type": "text", "text": "a", "future": "b"}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "b"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}]},
        {**CALLS, "tool_calls": [tool_call('{"a": "b"}')], "future": {"deep": ["e"]}},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": "a"},
    ],
    "tools": [declared(description="a")],
    "stop": ["a"],
    "metadata": {"team": "a"},
    "user": "a",
    "extra_body": {"google": {"note": "a"}},
    "prediction": {"type": "content", "content": "a"},
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"title": "b"}}},
    "future": {"deep": [{"er": "a"}]},
}


FULL_EMBEDDING: Json = {"model": MODEL, "input": ["a", "b"], "user": "c", "encoding_format": "float"}


@pytest.mark.parametrize(
    ("path", "full", "fields"),
    [
        (PATH, FULL, 40),
        (VERTEX, FULL, 40),
        (EMBEDDINGS, FULL_EMBEDDING, 8),
        (VERTEX_EMBEDDINGS, {**FULL_EMBEDDING, "input": "a"}, 6),
    ],
)
async def test_a_secret_in_any_field_of_a_request_does_not_reach_the_upstream(
    path: str, full: Json, fields: int
) -> None:
    bodies = [body for body in planted(full, SECRET) if body["model"] != SECRET]  # hooks judge its name
    assert len(bodies) > fields
    async with running_gateway(BOTH) as gateway:
        statuses = [(await post(gateway.url, path, body, KEY)).status for body in bodies]
    assert statuses.count(200) >= (len(bodies) / 2 if full is FULL else 4)
    assert [request.body for request in gateway.recorded if SECRET in json.dumps(request.body)] == []


async def test_a_secret_in_any_field_of_an_answer_does_not_reach_the_client() -> None:
    message = {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "c",
        "tool_calls": [tool_call('{"a": "b"}', extra_content={"google": {"note": "a"}})],
        "annotations": [{"type": "url_citation", "url_citation": {"title": "a", "url": "b"}}],
        "extra_content": {"google": {"note": "a"}},
    }
    logprobs = {"content": [{"token": "a", "logprob": -1.0}]}
    refusal = {"role": "assistant", "refusal": "a", "tool_calls": []}
    bodies = [
        {**ANSWER, "choices": [choice]}
        for each in (message, refusal)
        for choice in planted(
            {"index": 0, "message": each, "finish_reason": "stop", "logprobs": logprobs}, SECRET
        )
    ]
    streams = []
    for body in bodies:
        choice = body["choices"][0]
        delta = dict(choice["message"])
        delta["tool_calls"] = [{"index": 0, **call} for call in delta["tool_calls"]]
        first = {**chunk(delta), "object": body["object"]}
        first["choices"][0]["logprobs"] = choice["logprobs"]
        streams.append(sse([first, ended(choice["finish_reason"])]))
    for stream, answers in ((False, [json.dumps(body).encode() for body in bodies]), (True, streams)):
        for data in answers:
            sent = [STREAM_HEAD, data] if stream else [ok(data)]
            async with peer(*sent) as upstream, gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url:
                answer = await post(url, VERTEX if stream else PATH, {**HI, "stream": stream}, KEY)
            assert answer.status in (200, 502), answer.body  # 502 for a type that nobody knows
            assert SECRET.encode() not in answer.body, data


async def test_the_mock_upstream_knows_each_choice_of_tools() -> None:
    shell = {"type": "function", "function": {"name": "shell"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [shell]}}
    async with running_gateway() as gateway:
        answers = [
            await post(gateway.url, PATH, {**HI, "tools": [declared("shell")], "tool_choice": choice}, BEARER)
            for choice in ("auto", shell, allowed)
        ]
    assert [answer.status for answer in answers] == [200, 200, 200]


async def test_log_probabilities_do_not_spell_a_secret_beside_a_call() -> None:
    """From the first call on, chunks are judged together, and the tokens would be apart from their text."""
    tokens = ["my key is AKIA", "Q3EGRYH7", "XJ4WPL2D", " ok"]
    probable = [{"content": [{"token": token, "logprob": -0.1, "top_logprobs": []}]} for token in tokens]
    texts = [
        {"choices": [{"index": 0, "delta": {"content": token}, "logprobs": each}]}
        for token, each in zip(tokens, probable, strict=True)
    ]
    data = sse([*called([], name="shell"), *texts, ended("tool_calls")])
    hooks = {"AfterModel": [{"type": "builtin", "builtin": "redact"}], "BeforeTool": [runs(lambda _: None)]}
    async with peer(STREAM_HEAD, data) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, PATH, {**HI, "stream": True, "logprobs": True}, KEY)
    assert answer.status == 200
    assert not any(piece in answer.body for piece in (b"Q3EGRYH7", b"XJ4WPL2D"))


@pytest.mark.parametrize("filler", [{"delta": {"refusal": "~"}}, {"message": {"content": "~"}}], ids=str)
async def test_a_text_that_clients_leave_out_cannot_stand_between_two_others(filler: Json) -> None:
    def is_clean(event: Json) -> Json | None:
        return {"decision": "deny", "reason": "no"} if "rocket" in event["llm_response"]["text"] else None

    one, two = ({"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("roc", "ket"))
    other = {"choices": [{"index": 0, **filler}]}
    stream = [b"data: %b\n\n" % json.dumps(each).encode() for each in (one, other, two)]
    async with (
        peer(STREAM_HEAD, *stream, b"data: [DONE]\n\n") as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(is_clean)]}) as url,
    ):
        answer = await post(
            url, PATH, {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}, BEARER
        )
    assert "goes on after" in answer.body.decode()
    assert "ket" not in answer.body.decode().replace("rocket", "")
