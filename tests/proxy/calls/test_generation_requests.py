"""The request of a judged call: what reaches the upstream, and what hooks see."""

import copy
import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.wire import SSE, STREAM, UNARY, Answer, connected, ok, peer, post

from hookgate.proxy.routes.table import match
from hookgate.translator import show_request

TOOLS = [{"name": name, "parametersJsonSchema": {"type": "object"}} for name in ("read", "write")]
BODY: dict[str, Any] = {
    "system_instruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {
            "role": "user",
            "parts": [{"text": "hi there"}, {"inlineData": {"mimeType": "image/png", "data": "iVA="}}],
        },
    ],
    "generationConfig": {"topP": 0.5, "temperature": 1.0, "seed": 9007199254740993},
    "tools": [{"functionDeclarations": TOOLS}],
    "future_field": {"b": 1, "a": [2.0, None]},
}
EVERY_WAY = pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["unary", "sse", "array"])


async def forward_request(target: str, body: Any, **hooks: Any) -> tuple[str, Any, Answer]:
    """Path and body of the one call that reached the upstream, and the answer to it."""
    async with running_gateway({event: [hook] for event, hook in hooks.items()}) as gateway:
        answer = await post(gateway.url, target, body)
        [request] = gateway.recorded
        return request.path_qs, request.body, answer


# ---- unchanged and edited


@EVERY_WAY
async def test_a_request_that_no_hook_changes_arrives_equal(target: str) -> None:
    path, body, answer = await forward_request(target, BODY, BeforeModel=says(), BeforeToolSelection=says())
    assert (path, answer.status) == (target, 200)
    assert json.dumps(body) == json.dumps(BODY)  # key order and number kinds included


@EVERY_WAY
async def test_another_model_changes_only_the_path(target: str) -> None:
    path, body, answer = await forward_request(
        target, BODY, BeforeModel=says(llm_request={"model": "gemini-2.5-pro"})
    )
    assert path == target.replace("gemini-2.5-flash", "gemini-2.5-pro")
    assert (body, answer.status) == (BODY, 200)


@pytest.mark.parametrize("model", ["../x", "a b", "a/b", "a\r\nX: y", "é", "x:countTokens?", ".", "x" * 129])
async def test_a_hook_cannot_name_a_model_that_changes_the_path(model: str) -> None:
    leads = {**says(llm_request={"model": model}), "on_error": "allow"}
    path, _, _ = await forward_request(UNARY, BODY, BeforeModel=leads)
    assert path == UNARY


async def test_another_temperature_leaves_everything_else_equal() -> None:
    _, body, _ = await forward_request(
        UNARY, BODY, BeforeModel=says(llm_request={"config": {"temperature": 0}})
    )
    expected = copy.deepcopy(BODY)
    expected["generationConfig"]["temperature"] = 0
    assert json.dumps(body) == json.dumps(expected)


async def test_a_redacted_prompt_is_all_the_upstream_gets() -> None:
    def redact(event: dict[str, Any]) -> dict[str, Any]:
        request = event["llm_request"]
        for message in request["messages"]:
            message["content"] = message["content"].replace("hi", "**")
        return {"hookSpecificOutput": {"llm_request": request}}

    _, body, _ = await forward_request(UNARY, BODY, BeforeModel=runs(redact))
    assert body == json.loads(json.dumps(BODY).replace("hi there", "** there"))


async def test_a_tool_selection_reaches_the_upstream() -> None:
    chosen = {"mode": "ANY", "allowedFunctionNames": ["read", "undeclared"]}
    _, body, answer = await forward_request(UNARY, BODY, BeforeToolSelection=says(toolConfig=chosen))
    calling = {"mode": "ANY", "allowedFunctionNames": ["read"]}
    assert body == {**BODY, "toolConfig": {"functionCallingConfig": calling}}
    called = answer.json["candidates"][0]["content"]["parts"][0]["functionCall"]
    assert called["name"] == "read"


async def test_tools_that_a_hook_filters_out_are_not_declared() -> None:
    _, body, _ = await forward_request(UNARY, BODY, BeforeToolSelection=says(tools=["write"]))
    assert body == {**BODY, "tools": [{"functionDeclarations": [TOOLS[1]]}]}


# ---- what hooks are shown


@EVERY_WAY
async def test_hooks_after_the_model_are_shown_the_request_as_it_was_sent(target: str) -> None:
    seen: list[Any] = []
    hooks = {
        "BeforeModel": [says(llm_request={"model": "gemini-2.5-pro", "config": {"temperature": 0}})],
        "BeforeToolSelection": [says(toolConfig={"mode": "ANY", "allowedFunctionNames": ["read"]})],
        "AfterModel": [listens(seen)],
    }
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, target, BODY)
        [request] = gateway.recorded
    assert match("POST", request.path_qs).model == "gemini-2.5-pro"
    assert seen
    for event in seen:
        assert event["llm_request"] == show_request("gemini-2.5-pro", request.body)


async def test_each_hook_is_shown_what_the_one_before_it_decided() -> None:
    seen: list[Any] = []
    hooks = {
        "BeforeModel": [says(llm_request={"config": {"temperature": 0}})],
        "BeforeToolSelection": [listens(seen)],
    }
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, UNARY, BODY)
    assert seen[0]["llm_request"]["config"]["temperature"] == 0
    assert seen[0]["hook_event_name"] == "BeforeToolSelection"
    assert seen[0]["llm_request"]["tools"] == BODY["tools"]


async def test_all_events_of_a_call_and_its_conversation_name_one_session() -> None:
    seen: list[Any] = []
    hooks = {event: [listens(seen)] for event in ("BeforeModel", "BeforeToolSelection", "AfterModel")}
    later = {"contents": [*BODY["contents"], {"role": "model", "parts": [{"text": "ho"}]}, *BODY["contents"]]}
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, UNARY, BODY)
        await post(gateway.url, SSE, later)
        await post(gateway.url, f"/s/mine{UNARY}", BODY)
        await post(gateway.url, UNARY, BODY, {"x-goog-api-key": "k", "X-Hookgate-Session": "header"})
    named = [event["session_id"] for event in seen]
    assert len(seen) > 9
    assert len(set(named[:-6])) == 1
    assert named[-6:] == ["mine"] * 3 + ["header"] * 3


# ---- on the wire


async def test_the_upstream_gets_the_clients_headers_and_one_content_type() -> None:
    headers = {"content-type": "text/plain", "x-goog-api-key": "k", "user-agent": "cli/1", "cookie": "c=1"}
    headers["x-request-id"] = "r-1"
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, {"BeforeModel": [says()]}) as url:
        await post(url, f"/s/abc{UNARY}", {"contents": []}, headers)
    head, _, body = upstream.heard[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == f"POST {UNARY} HTTP/1.1"
    assert dict(line.lower().split(": ", 1) for line in lines) == {
        "host": upstream.url.removeprefix("http://"),
        "content-type": "application/json",
        "x-goog-api-key": "k",
        "user-agent": "cli/1",
        "x-request-id": "r-1",
        "accept-encoding": "identity",
        "content-length": str(len(body)),
    }
    assert len(lines) == 7  # each of them once


async def test_without_hooks_the_body_is_forwarded_byte_for_byte() -> None:
    odd = b'{ "contents" : [],\n "contents": [] }'
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url) as url:
        await post(url, UNARY, odd)
    assert odd in upstream.heard[0]


async def test_headers_of_any_bytes_do_no_harm() -> None:
    headers = {"x-goog-api-key": "k\xff", "User-Agent": "caf\xe9"}
    async with running_gateway({"BeforeModel": [says()]}) as gateway:
        answer = await post(gateway.url, UNARY, BODY, headers)
    assert answer.status == 200


@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [says()]}], ids=["copied", "judged"])
async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(hooks: Any) -> None:
    data = json.dumps(BODY).encode()
    headers = {"x-goog-api-key": "k", "Expect": "100-continue", "Content-Length": str(len(data))}
    async with running_gateway(hooks) as gateway, connected(gateway.url) as wire:
        await wire.post(UNARY, b"", headers)
        assert await wire.head() == (100, {})
        await wire.write(data)
        assert (await wire.answer()).status == 200
