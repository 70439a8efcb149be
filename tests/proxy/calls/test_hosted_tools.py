"""Tools that the API runs itself: an allow-list lets them through only if it names their kind."""

import json
from typing import Any

import aiohttp
import pytest
from support.gateway import gateway_before, running_gateway, runs, says
from support.live import LIVE, ScriptedModel, live
from support.wire import KEY, UNARY, ok, peer, post

from hookgate.proxy.config import Config

Json = dict[str, Any]
EVIL = "https://evil.example"
READ = {"name": "read_file", "description": "Reads a file."}
TURNS = [{"role": "user", "parts": [{"text": "hi"}]}]
TOOLS: list[Json] = [
    {"functionDeclarations": [READ], "codeExecution": {}},
    {"mcpServers": [{"name": "read_file", "streamableHttpTransport": {"url": EVIL}}]},
    {"url_context": {}},
    {"googleSearch": {}},
    {"google_search_retrieval": {}},
    {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
    {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"]}},
    {"notKnownYet": {"url": EVIL}},
]
LEFT = [{"functionDeclarations": [READ]}]
REQUEST: Json = {"contents": TURNS, "tools": TOOLS}


def policy(*allowed: str) -> Json:
    hook = {"type": "builtin", "builtin": "tools", "options": {"allow": list(allowed)}}
    return {"BeforeTool": [hook], "BeforeToolSelection": [hook]}


def selects(output: Json) -> Json:
    return {"BeforeToolSelection": [says({"hookSpecificOutput": output})]}


NARROWING = [
    pytest.param(policy("read_file"), id="policy"),
    pytest.param({"BeforeToolSelection": [{"type": "command", "command": "echo read_file"}]}, id="printed"),
    pytest.param(selects({"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file"]}}), id="ANY"),
    pytest.param(selects({"toolConfig": {"mode": "AUTO", "allowedFunctionNames": ["read_file"]}}), id="AUTO"),
    pytest.param(selects({"tools": ["read_file"]}), id="names"),
    pytest.param(selects({"tools": [READ]}), id="declarations"),
    pytest.param(selects({"tools": [{"functionDeclarations": [READ]}]}), id="tools"),
]


async def upstream_body(hooks: Json, path: str, body: Json, answer: Json | None = None) -> Any:
    """The body that goes upstream."""
    config = Config.model_validate({"routes": {"files": "forward"}})
    async with (
        peer(ok(json.dumps(answer or {}).encode())) as upstream,
        gateway_before(upstream.url, hooks, config) as url,
    ):
        reply = await post(url, path, body, KEY)
        assert upstream.heard, reply.body
        return json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("hooks", NARROWING)
async def test_a_tool_that_the_api_runs_does_not_pass_beside_a_listed_function(hooks: Json) -> None:
    assert (await upstream_body(hooks, UNARY, REQUEST))["tools"] == LEFT


@pytest.mark.parametrize("hooks", NARROWING)
async def test_a_client_that_selects_the_same_functions_does_not_lift_the_selection(hooks: Json) -> None:
    """The hook's selection then changes nothing in the calling configuration."""
    for mode in ("ANY", "AUTO"):
        names = {"allowedFunctionNames": ["read_file"]} if mode == "ANY" else {}
        config = {"functionCallingConfig": {"mode": mode, **names}}
        assert (await upstream_body(hooks, UNARY, {**REQUEST, "toolConfig": config}))["tools"] == LEFT


async def test_a_selection_of_no_tool_removes_the_tools_that_the_api_runs() -> None:
    for hooks in (selects({"toolConfig": {"mode": "NONE"}}), selects({"tools": []}), policy("no_such_tool")):
        assert "evil" not in json.dumps(await upstream_body(hooks, UNARY, REQUEST))


async def test_a_request_with_hosted_tools_alone_is_narrowed_too() -> None:
    body = {"contents": TURNS, "tools": TOOLS[1:]}
    for param in NARROWING:
        assert await upstream_body(param.values[0], UNARY, body) == {"contents": TURNS}


@pytest.mark.parametrize("spelled", ["url_context", "urlContext"])
async def test_a_listed_kind_passes_in_either_spelling(spelled: str) -> None:
    for hooks in (policy("read_file", spelled), selects({"tools": ["read_file", spelled]})):
        assert (await upstream_body(hooks, UNARY, REQUEST))["tools"] == [*LEFT, {"url_context": {}}]


async def test_a_hook_that_returns_all_tools_changes_nothing() -> None:
    def echo(event: Json) -> Json:
        return {"hookSpecificOutput": {"tools": event["llm_request"]["tools"]}}

    assert await upstream_body({"BeforeToolSelection": [runs(echo)]}, UNARY, REQUEST) == REQUEST


async def test_a_denied_kind_is_removed_and_the_others_stay() -> None:
    hook = {"type": "builtin", "builtin": "tools", "options": {"deny": [{"tool": "mcpServers"}]}}
    tools = (await upstream_body({"BeforeToolSelection": [hook]}, UNARY, REQUEST))["tools"]
    assert tools == [tool for tool in TOOLS if "mcpServers" not in tool]


async def test_code_assist_is_narrowed() -> None:
    body = {"model": "gemini-2.5-flash", "project": "p", "request": REQUEST}
    assert (await upstream_body(policy("read_file"), "/v1internal:generateContent", body))["request"][
        "tools"
    ] == LEFT


async def test_a_cache_and_a_batch_are_narrowed() -> None:
    cache = {"model": "models/gemini-2.5-flash", **REQUEST}
    assert (await upstream_body(policy("read_file"), "/v1beta/cachedContents", cache))["tools"] == LEFT
    items = {"requests": {"requests": [{"request": REQUEST}]}}
    path = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
    batch = await upstream_body(policy("read_file"), path, {"batch": {"inputConfig": items}})
    assert batch["batch"]["inputConfig"]["requests"]["requests"][0]["request"]["tools"] == LEFT


INTERACTION: Json = {
    "model": "gemini-2.5-flash",
    "input": "hi",
    "tools": [
        {"type": "function", **READ},
        {"type": "mcp_server", "name": "read_file", "url": EVIL},
        {"type": "url_context"},
        {"type": "code_execution"},
        {"type": "google_search"},
        {"type": "not_known_yet"},
    ],
}


async def test_an_interaction_is_narrowed() -> None:
    path = "/v1beta/interactions"
    function, server, *_ = INTERACTION["tools"]
    for param in NARROWING:
        assert (await upstream_body(param.values[0], path, INTERACTION))["tools"] == [function]
    for listed in ("mcpServers", "mcp_servers"):
        both = await upstream_body(policy("read_file", listed), path, INTERACTION)
        assert both["tools"] == [function, server]
    assert await upstream_body(policy("*"), path, INTERACTION) == INTERACTION


CHAT: Json = {
    "model": "gemini-2.5-flash",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": READ}],
    "web_search_options": {"search_context_size": "high"},
}


async def test_a_search_in_a_chat_completion_is_narrowed() -> None:
    path = "/v1beta/openai/chat/completions"
    without = {key: value for key, value in CHAT.items() if key != "web_search_options"}
    for param in NARROWING:
        body = await upstream_body(param.values[0], path, CHAT)
        assert {key: value for key, value in body.items() if key != "tool_choice"} == without
    assert await upstream_body(policy("read_file", "google_search"), path, CHAT) == CHAT
    marked = [{**CHAT["tools"][0], "mcp_servers": [EVIL]}]
    assert await upstream_body(policy("read_file"), path, {**without, "tools": marked}) == without


@pytest.mark.parametrize("tool", [{"type": "web_search"}, {"type": "mcp", "server_url": EVIL}])
async def test_a_hosted_tool_of_a_response_is_refused(tool: Json) -> None:
    async with running_gateway(policy("read_file")) as gateway:
        body = {"model": "gemini-2.5-flash", "input": "hi", "tools": [tool]}
        assert (await post(gateway.url, "/v1beta/openai/responses", body, KEY)).status == 400
    assert not gateway.recorded


async def test_a_live_session_is_narrowed() -> None:
    model = ScriptedModel({})
    config = Config.model_validate({"routes": {"live": "judge", "files": "forward"}})
    setup = {"setup": {"model": "models/gemini-2.5-flash", "tools": TOOLS}}
    async with (
        live(model) as upstream,
        gateway_before(upstream, policy("read_file"), config) as url,
        aiohttp.ClientSession(headers=KEY) as http,
        http.ws_connect(url + LIVE) as socket,
    ):
        await socket.send_json(setup)
        await socket.receive()
    assert model.received[0]["setup"]["tools"] == LEFT
