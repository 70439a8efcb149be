"""The Responses API at a whole gateway: what crosses the wire, and what does not."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from support.bodies.chat import planted
from support.bodies.interactions import Json
from support.bodies.planting import SECRET
from support.bodies.responses import (
    HI,
    IMAGE,
    MODEL,
    call_item,
    declared,
    message,
    output_text,
    sse,
    state,
    summary,
    text_events,
    whole,
)
from support.gateway.dialects import BOTH, REDACT, no_shell
from support.gateway.keys import denial_reason, issue, issuing_gateway, key_header
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.hooks.policies import CANNED, REFUSAL, answer_itself
from support.wire import KEY, STREAM_HEAD, Answer, ask, ok, peer, post

from hookgate.proxy.calls import generation
from hookgate.proxy.config import Config
from hookgate.proxy.routes.dialects.openai import check_stored_content
from hookgate.translator.responses.events import response_events

PATH = "/v1beta/openai/responses"
VERTEX = "/v1/projects/p/locations/l/endpoints/openapi/responses"
BEARER = {"Authorization": "Bearer test-key"}
ALLOWS_ALL = Config.model_validate({"routes": {"files": "forward"}})
OPENED = Config.model_validate({"routes": {"unhooked": ["openai"]}})
USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 1},
    "output_tokens": 17,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 20,
}
ANSWER = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "error": None,
    "model": MODEL,
    # A function may have a parameter of the name with which tokens are reported.
    "output": [message(output_text("hello"))],
    "usage": USAGE,
    "tools": [declared(parameters={"type": "object", "properties": {"usage": {"input_tokens": 9}}})],
}


def events_of(answer: Answer) -> list[Json]:
    lines = [line for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


def text_of(answer: Answer) -> str:
    kind = "response.output_text.delta"
    return "".join(event["delta"] for event in events_of(answer) if event["type"] == kind)


def final_text(answer: Answer) -> str:
    """The text of the response as the last event, or the whole answer, has it."""
    response = answer.json if answer.body.startswith(b"{") else events_of(answer)[-1]["response"]
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(content["text"] for item in messages for content in item["content"])


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


# ---- the request


@pytest.mark.parametrize(
    "content",
    [
        {"type": "input_image", "image_url": "https://example.org/a.png"},
        {"type": "input_image", "file_id": "f1"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        {"type": "input_file", "file_id": "f1"},
    ],
)
async def test_files_are_refused_unless_the_operator_allows_them(content: Json) -> None:
    hooks, body = {"BeforeModel": [listens([])]}, {**HI, "input": [user([content])]}
    async with running_gateway(hooks) as gateway, running_gateway(hooks, config=ALLOWS_ALL) as other:
        refused = await post(gateway.url, PATH, body, BEARER)
        await post(other.url, PATH, body, BEARER)
    assert (refused.status, refused.error["details"][0]["reason"]) == (403, "ROUTE_NOT_ALLOWED")
    assert not gateway.recorded
    assert other.recorded[0].body == body


HELD = [
    {"previous_response_id": "resp_1"},
    {"conversation": "conv_1"},
    {"conversation": {"id": "conv_1"}},
    {"prompt": {"id": "pmpt_1", "variables": {"a": "a rocket"}}},
    {"background": True},
]


@pytest.mark.parametrize("change", HELD)
async def test_references_to_stored_items_are_refused_unless_the_operator_allows_them(change: Json) -> None:
    [field] = change
    hooks = {"BeforeModel": [listens([])]}
    async with running_gateway(hooks) as gateway, running_gateway(hooks, config=OPENED) as other:
        refused = await post(gateway.url, PATH, {**HI, **change}, BEARER)
        await post(other.url, PATH, {**HI, **change}, BEARER)
    assert (refused.status, refused.error["details"][0]["reason"]) == (403, "ROUTE_NOT_ALLOWED")
    assert refused.error["message"].startswith(f"{field}: ")
    assert 'routes.unhooked = ["openai"]' in refused.error["message"]
    assert not gateway.recorded
    assert other.recorded[0].body == {**HI, **change}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{PATH}/resp_1"),
        ("GET", f"{PATH}/resp_1?stream=true&starting_after=1"),
        ("DELETE", f"{PATH}/resp_1"),
        ("POST", f"{PATH}/resp_1/cancel"),
        ("GET", f"{PATH}/resp_1/input_items"),
        ("POST", f"{PATH}/input_tokens"),
        ("POST", f"{PATH}/compact"),
        ("GET", f"{VERTEX}/resp_1"),
        ("POST", "/v1beta/openai/conversations"),
    ],
)
async def test_stored_responses_are_refused(method: str, path: str) -> None:
    async with running_gateway() as gateway:
        answer = await ask(gateway.url, method, path, BEARER)
    assert answer.status == 403
    assert not gateway.recorded


async def test_tokens_of_a_stream_are_counted() -> None:
    data = sse(whole(text_events(["hi"]), usage=USAGE, tools=ANSWER["tools"]))
    async with peer(STREAM_HEAD, data) as upstream, gateway_before(upstream.url, BOTH) as url:
        answer = await post(url, PATH, {**HI, "stream": True}, KEY)
        path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        receipt = (await ask(url, "GET", path, KEY)).json
    assert answer.body == data
    assert (receipt["usage"]["input_tokens"], receipt["usage"]["output_tokens"]) == (3, 17)


# ---- answers in the model's place


async def test_a_hook_answers_itself_whole_and_streamed() -> None:
    async with running_gateway({"BeforeModel": [runs(answer_itself)]}) as gateway:
        full, stream = [await post(gateway.url, PATH, {**HI, "stream": way}, KEY) for way in (False, True)]
    assert (final_text(full), full.json["status"], full.json["model"]) == (CANNED, "completed", MODEL)
    assert (text_of(stream), final_text(stream)) == (CANNED, CANNED)
    assert not gateway.recorded


# ---- the answer


async def test_a_denial_in_the_middle_of_a_stream_ends_it_with_the_reason() -> None:
    def no_secret(event: Json) -> Json | None:
        return {"decision": "deny", "reason": REFUSAL} if "secret" in str(event["llm_response"]) else None

    events = whole(text_events(["hello ", "the secret"]))
    async with (
        peer(STREAM_HEAD, sse(events[:5]), 0.2, sse(events[5:])) as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(no_secret, stream="event")]}) as url,
    ):
        answer = await post(url, PATH, {**HI, "stream": True}, KEY)
    assert text_of(answer) == final_text(answer) == f"hello {REFUSAL}"
    assert events_of(answer)[-1]["type"] == "response.completed"
    assert b"secret" not in answer.body


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
        first, *_, call, result = gateway.recorded[1].body["input"]
        assert first == user("hi")
        assert (call["name"], call["arguments"]) == ("shell", "{}")
        assert result == {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": '{"error":"Tool execution blocked: no shell"}',
        }
        assert final_text(answer).endswith("I did not.")
        assert not stream or text_of(answer) == final_text(answer)
        assert b'"function_call"' not in answer.body
        assert answer.body.count(b"event: response.completed") == stream


async def test_a_stream_that_an_error_ends_releases_no_part_of_a_secret() -> None:
    for failure in (
        {"type": "error", "code": "c", "message": "m", "param": None},
        state("failed", error={"code": "c", "message": "m"}),
    ):
        events = whole(text_events(["the key is ", SECRET[:12], SECRET[12:]]))
        async with (
            peer(STREAM_HEAD, sse([*events[:6], failure])) as upstream,
            gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
        ):
            answer = await post(url, PATH, {**HI, "stream": True}, KEY)
        assert SECRET[:12].encode() not in answer.body
        assert b'"c"' in answer.body


# ---- a secret in every field


FULL: Json = {
    **HI,
    "instructions": "a",
    "input": [
        {"role": "system", "content": "a", "name": "b"},
        {"role": "developer", "content": [{"type": "input_text", "text": "a", "future": "b"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}], "id": "b"},
        {"role": "user", "content": [{"type": "input_image", "image_url": IMAGE, "detail": "low"}]},
        message(output_text("a", annotations=[{"type": "url_citation", "title": "a", "url": "b"}])),
        message({"type": "refusal", "refusal": "a"}),
        {"type": "reasoning", "summary": summary("a"), "content": [{"type": "reasoning_text", "text": "a"}]},
        {**call_item('{"a": "b"}'), "future": {"deep": ["e"]}},
        {"type": "function_call_output", "call_id": "c1", "output": "a"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a"}]},
        {"role": "user", "content": "a"},
    ],
    "tools": [declared(description="a")],
    "metadata": {"team": "a"},
    "user": "a",
    "include": ["a"],
    "text": {"format": {"type": "json_schema", "name": "a", "schema": {"title": "b"}}, "verbosity": "c"},
    "future": {"deep": [{"er": "a"}]},
}


async def test_a_secret_in_any_field_of_a_request_does_not_reach_the_upstream() -> None:
    bodies = [body for body in planted(FULL, SECRET) if body["model"] != SECRET]  # hooks judge its name
    assert len(bodies) > 60
    async with running_gateway(BOTH) as gateway:
        statuses = [(await post(gateway.url, PATH, body, KEY)).status for body in bodies]
    assert statuses.count(200) > len(bodies) / 2
    assert [request.body for request in gateway.recorded if SECRET in json.dumps(request.body)] == []


async def test_a_secret_in_any_field_of_an_answer_does_not_reach_the_client() -> None:
    cited = [{"type": "url_citation", "title": "a", "url": "b"}]
    tokens = [{"token": "a", "logprob": -1.0, "bytes": [], "top_logprobs": [{"token": "b"}]}]
    items = [
        message(output_text("a", annotations=cited, logprobs=tokens), future="b"),
        {"type": "reasoning", "id": "r", "summary": summary("a"), "future": ["b"]},
        call_item('{"a": "b"}', future={"c": "d"}),
        {"type": "web_search_call", "id": "w", "action": {"query": "a"}},
        {"type": "from_the_future", "id": "f", "text": "a", "content": [output_text(" b")]},
    ]
    bodies = planted({**ANSWER, "output": items, "instructions": "a", "metadata": {"b": "c"}}, SECRET)
    streams = [sse(response_events(body), counted=False) for body in bodies]
    assert len(bodies) > 30
    for stream, answers in ((False, [json.dumps(body).encode() for body in bodies]), (True, streams)):
        for data in answers:
            sent = [STREAM_HEAD, data] if stream else [ok(data)]
            async with peer(*sent) as upstream, gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url:
                answer = await post(url, PATH, {**HI, "stream": stream}, KEY)
            assert answer.status in (200, 502), answer.body  # 502 for a type that nobody knows
            assert SECRET.encode() not in answer.body, data


# ---- keys of the gateway


@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [listens([])]}], ids=["unread", "judged"])
async def test_an_issued_key_does_not_read_what_other_keys_have_stored(hooks: Json, tmp_path: Path) -> None:
    key = issue(tmp_path, scope={"routes": ["generate", "openai"]})
    async with issuing_gateway(tmp_path, hooks, routes={"unhooked": ["openai"]}) as gateway:
        for change in HELD:
            answer = await post(gateway.url, PATH, {**HI, **change}, key_header(key))
            assert (answer.status, denial_reason(answer)) == (403, "ROUTE_NOT_ALLOWED")
        assert not gateway.recorded
        assert (await post(gateway.url, PATH, HI, key_header(key))).status == 200


async def test_a_large_body_is_checked_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def check(*args: Any, **fields: Any) -> None:
        threads.append(threading.current_thread())
        check_stored_content(*args, **fields)

    monkeypatch.setattr(generation, "check_stored_content", check)
    async with running_gateway({"BeforeModel": [says()]}) as gateway:
        for body in (HI, {**HI, "metadata": {f"x{number}": "y" for number in range(5000)}}):
            assert (await post(gateway.url, PATH, body, BEARER)).status == 200
    assert [thread is threading.main_thread() for thread in threads] == [True, False]
