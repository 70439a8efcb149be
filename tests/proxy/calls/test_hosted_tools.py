"""Tools that the API runs itself: an allow-list lets them through only if it names their kind."""

import json
from base64 import b64encode
from typing import Any

import aiohttp
import pytest
from support.bodies.interactions import CREATED, completed, started, stopped, streamed
from support.gateway.live import LIVE, ScriptedModel, live
from support.gateway.loopback import gateway_before, running_gateway, runs, says
from support.wire import KEY, SSE, UNARY, ask, ok, peer, post

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


# ---- by target

GOOD = "https://mcp.good.example/mcp"


def server(url: str | None) -> Json:
    return {"name": "a", "streamableHttpTransport": {} if url is None else {"url": url}}


async def tools_left(options: Json, *tools: Json, text: str = "hi") -> Any:
    hook = {"type": "builtin", "builtin": "tools", "options": options}
    turns = [{"role": "user", "parts": [{"text": text}]}]
    body = {"contents": turns, "tools": [{"functionDeclarations": [READ]}, *tools]}
    left = await upstream_body({"BeforeToolSelection": [hook]}, UNARY, body)
    return left["tools"][1:]


HOSTS = {"hosts": ["*.good.example", "docs.example"]}
ODD_URLS = [
    *(
        None,
        EVIL,
        "https://mcp.good.example:80@evil.example/",
        "https://mcp.good.example@evil.example/",
        "https:/evil.example",
    ),
    *("https://evil.example\\@mcp.good.example/", "https://evil.example\t.good.example/", "//evil.example"),
    *("https://evil.example#.good.example", "https://evil.example?.good.example", "https://good.example"),
    *(
        "https://mcp.good.example.evil.example",
        "https://[::1]/",
        "file:///etc/passwd",
        "https://ⓔvil.example",
    ),
    *("https://evil.example%2f.good.example", " https://mcp.good.example", "https:evil.example", ""),
]


@pytest.mark.parametrize("url", ODD_URLS)
async def test_of_several_servers_only_those_on_allowed_hosts_stay(url: str | None) -> None:
    good = server(GOOD)
    for allow in ({}, {"allow": ["read_file", "mcpServers"]}):
        for servers in ([server(url), good], [good, server(url), server(url)]):
            left = await tools_left({**HOSTS, **allow}, {"mcpServers": servers})
            assert left == [{"mcpServers": [good]}]
        assert await tools_left({**HOSTS, **allow}, {"mcp_servers": [server(url)]}) == []


@pytest.mark.parametrize("url", [GOOD, "HTTPS://MCP.GOOD.EXAMPLE:8443/x?y#z", "wss://docs.example"])
async def test_a_server_on_an_allowed_host_stays(url: str) -> None:
    tools = [{"mcpServers": [server(url)]}, {"mcp_servers": server(url)}, {"googleSearch": {}}]
    assert await tools_left(HOSTS, *tools) == tools


async def test_a_url_in_any_field_of_any_tool_is_judged() -> None:
    odd = {"deep": [{"target": f"see {EVIL}"}]}
    endpoint = {"externalApi": {"endpoint": "evil.example:9200/index"}}
    fine = {"retrieval": {"externalApi": {"endpoint": "mcp.good.example:9200"}}}
    tools = [{"retrieval": {}}, {"notKnownYet": odd}, {"retrieval": endpoint}, fine]
    assert await tools_left(HOSTS, *tools) == [fine]


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("hi", True),
        ("read https://docs.example/a, (http://docs.example).", True),
        ("read https://evil.example/a", False),
        ("read https://docs.example/a and HTTPS://EVIL.example", False),
        ("read https://docs.example@evil.example/", False),
        ("read https:\\\\evil.example/", False),
    ],
)
async def test_url_context_stays_if_all_urls_of_the_turns_are_on_allowed_hosts(
    text: str, stays: bool
) -> None:
    left = await tools_left(HOSTS, {"urlContext": {}}, {"googleSearch": {}}, text=text)
    assert left == [*([{"urlContext": {}}] if stays else []), {"googleSearch": {}}]


@pytest.mark.parametrize("media_type", ["text/plain", "image/png"])
async def test_url_context_goes_if_a_file_of_text_names_another_host(media_type: str) -> None:
    data = b64encode(f"Read {EVIL} and more. ".encode() * 3).decode()
    turn = {"role": "user", "parts": [{"inlineData": {"mimeType": media_type, "data": data}}]}
    hook = {"type": "builtin", "builtin": "tools", "options": HOSTS}
    body = {"contents": [turn], "tools": [{"urlContext": {}}, {"googleSearch": {}}]}
    left = await upstream_body({"BeforeToolSelection": [hook]}, UNARY, body)
    assert left["tools"] == [{"googleSearch": {}}]


async def test_a_server_of_an_interaction_is_judged_by_its_host() -> None:
    good = {"type": "mcp_server", "name": "a", "url": GOOD}
    body = {**INTERACTION, "tools": [{**good, "url": EVIL}, good, {"type": "function", **READ}]}
    hook = {"type": "builtin", "builtin": "tools", "options": HOSTS}
    left = await upstream_body({"BeforeToolSelection": [hook]}, "/v1beta/interactions", body)
    assert left["tools"] == [good, {"type": "function", **READ}]


async def test_a_hook_that_returns_one_of_several_servers_removes_the_others() -> None:
    def keep_good(event: Json) -> Json:
        [tool] = event["llm_request"]["tools"]
        kept = [each for each in tool["mcpServers"] if "good" in json.dumps(each)]
        return {"hookSpecificOutput": {"tools": [{"mcpServers": kept}]}}

    def all_of_them(event: Json) -> Json:
        return {"hookSpecificOutput": {"tools": ["mcpServers"]}}

    body = {"contents": TURNS, "tools": [{"mcpServers": [server(EVIL), server(GOOD)]}]}
    for hooks in (
        [runs(keep_good)],
        [runs(keep_good), runs(all_of_them)],
        [runs(all_of_them), runs(keep_good)],
    ):
        left = await upstream_body({"BeforeToolSelection": hooks}, UNARY, body)
        assert left["tools"] == [{"mcpServers": [server(GOOD)]}]


# ---- in answers

RETRIEVED = {"retrievedUrl": EVIL, "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}
ANSWERED = [
    pytest.param("codeExecution", {"parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}]}, {}),
    pytest.param("codeExecution", {"parts": [{"code_execution_result": {"outcome": "OUTCOME_OK"}}]}, {}),
    pytest.param("googleMaps", {}, {"groundingMetadata": {"groundingChunks": [{"maps": {"uri": EVIL}}]}}),
    pytest.param("googleSearch", {}, {"groundingMetadata": {"webSearchQueries": ["a"]}}),
    pytest.param("googleSearch", {}, {"grounding_metadata": {"grounding_chunks": [{"web": {"uri": EVIL}}]}}),
    pytest.param("googleSearch", {"parts": [{"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH_WEB"}}]}, {}),
    pytest.param("fileSearch", {"parts": [{"toolResponse": {"id": "1", "toolType": "FILE_SEARCH"}}]}, {}),
    pytest.param("urlContext", {}, {"urlContextMetadata": {"urlMetadata": [RETRIEVED]}}),
    pytest.param("notKnownYet", {"parts": [{"toolCall": {"id": "1", "toolType": "NOT_KNOWN_YET"}}]}, {}),
]


@pytest.mark.parametrize(("kind", "content", "fields"), ANSWERED)
async def test_an_answer_that_used_a_tool_is_withheld_unless_its_kind_is_listed(
    kind: str, content: Json, fields: Json
) -> None:
    parts = [*content.get("parts", ()), {"text": "found it"}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", **fields}
    answer = json.dumps({"candidates": [candidate]}).encode()
    for allowed in (False, True):
        options = {"allow": ["read_file", *([kind] if allowed else [])]}
        hook = {"type": "builtin", "builtin": "tools", "options": options}
        async with (
            peer(ok(answer)) as upstream,
            gateway_before(upstream.url, {"AfterModel": [hook]}) as url,
        ):
            reply = await post(url, UNARY, {"contents": TURNS}, KEY)
            receipt = (
                await ask(url, "GET", f"/hookgate/v1/receipts/{reply.headers['x-hookgate-receipt']}", KEY)
            ).json
        assert (b"found it" in reply.body) is allowed
        if allowed:
            assert reply.body == answer
            assert receipt["hooks"][0]["findings"] == {"other" if kind == "notKnownYet" else kind: 1}
        else:
            assert receipt["outcome"] == "denied"
            assert repr(kind).encode() in reply.body


@pytest.mark.parametrize(
    "fields",
    [
        {"groundingMetadata": {}},
        {"groundingMetadata": {"groundingChunks": [], "retrievalMetadata": {}}},
        {"urlContextMetadata": {"urlMetadata": []}},
    ],
)
async def test_an_answer_with_empty_metadata_used_no_tool(fields: Json) -> None:
    content = {"role": "model", "parts": [{"text": "hello"}]}
    answer = json.dumps({"candidates": [{"content": content, **fields}]}).encode()
    hook = {"type": "builtin", "builtin": "tools", "options": {"hosted": []}}
    async with peer(ok(answer)) as upstream, gateway_before(upstream.url, {"AfterModel": [hook]}) as url:
        assert (await post(url, UNARY, {"contents": TURNS}, KEY)).body == answer


async def test_an_answer_for_which_a_url_on_another_host_was_fetched_is_withheld() -> None:
    hook = {"type": "builtin", "builtin": "tools", "options": HOSTS}
    for url, passes in (("https://docs.example/a", True), (EVIL, False)):
        fetched = {"urlMetadata": [{"retrievedUrl": url}]}
        content = {"role": "model", "parts": [{"text": "found it"}]}
        answer = {"candidates": [{"content": content, "urlContextMetadata": fetched}]}
        async with (
            peer(ok(json.dumps(answer).encode())) as upstream,
            gateway_before(upstream.url, {"AfterModel": [hook]}) as gateway,
        ):
            reply = await post(gateway, UNARY, {"contents": TURNS}, KEY)
        assert (b"found it" in reply.body) is passes


def event(fields: Json) -> bytes:
    content = {"role": "model", "parts": [{"text": "found it"}]}
    return b"data: %b\n\n" % json.dumps({"candidates": [{"content": content, **fields}]}).encode()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"groundingMetadata": {"webSearchQueries": ["a"]}}, {"groundingMetadata": {}}),
        ({"urlContextMetadata": {"urlMetadata": [RETRIEVED]}}, {"urlContextMetadata": {"urlMetadata": []}}),
    ],
)
async def test_an_event_does_not_hide_the_tool_that_another_event_shows(first: Json, second: Json) -> None:
    """Events that arrive together are judged together."""
    hook = {"type": "builtin", "builtin": "tools", "options": {"allow": ["read_file"]}}
    stream = ok(event(first) + event(second), "text/event-stream")
    async with peer(stream) as upstream, gateway_before(upstream.url, {"AfterModel": [hook]}) as url:
        reply = await post(url, SSE, {"contents": TURNS}, KEY)
    assert b"found it" not in reply.body
    assert b"not allowed" in reply.body


ITEMS: list[Json] = [
    {"type": "mcp_call", "id": "c", "name": "n", "server_label": "s", "arguments": "{}", "output": "found"},
    {"type": "mcp_approval_request", "id": "c", "name": "found", "server_label": "s", "arguments": "{}"},
    {"type": "web_search_call", "id": "c", "action": {"type": "search", "query": "found"}},
    {"type": "not_known_yet_result", "id": "c", "result": "found"},
]


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_item_of_a_response_of_a_tool_that_is_not_listed_is_withheld(
    item: Json, stream: bool
) -> None:
    hook = {"type": "builtin", "builtin": "tools", "options": {"allow": ["read_file"]}}
    body, _ = await response_with(item, {"AfterModel": [hook]}, stream=stream)
    assert b"found" not in body
    body, _ = await response_with(item, {}, stream=stream)
    assert b"found" in body


@pytest.mark.parametrize("stream", [False, True])
async def test_an_item_of_a_response_of_a_listed_tool_is_counted_once(stream: bool) -> None:
    hook = {"type": "builtin", "builtin": "tools", "options": {"allow": ["mcpServers"]}}
    body, receipt = await response_with(ITEMS[0], {"AfterModel": [hook]}, stream=stream)
    assert b"found" in body
    assert receipt["hooks"][0]["findings"] == {"mcpServers": 1}


async def response_with(item: Json, hooks: Json, *, stream: bool) -> tuple[bytes, Json]:
    """The client's answer if the output of a response has this item, and its receipt."""
    body = {"id": "r", "status": "completed", "output": [item]}
    events = [
        {"type": "response.created", "response": {**body, "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": body},
    ]
    lines = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events)
    answer = ok(lines, "text/event-stream") if stream else ok(json.dumps(body).encode())
    async with peer(answer) as upstream, gateway_before(upstream.url, hooks) as url:
        asked = {"model": "gemini-2.5-flash", "input": "hi", "stream": stream}
        reply = await post(url, "/v1beta/openai/responses", asked, KEY)
        receipt = await ask(url, "GET", f"/hookgate/v1/receipts/{reply.headers['x-hookgate-receipt']}", KEY)
        return reply.body, receipt.json if hooks else {}


STEPS: list[Json] = [
    {"type": "mcp_server_tool_call", "id": "c", "name": "n", "server_name": "s", "arguments": {"q": "found"}},
    {"type": "mcp_server_tool_result", "call_id": "c", "result": "found"},
    {"type": "tool_search_call", "id": "c", "arguments": {"query": "found"}},
    {"type": "google_search_call", "id": "c", "arguments": {"queries": ["found"]}},
    {"type": "not_known_yet_result", "call_id": "c", "result": "found"},
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_step_of_a_tool_that_is_not_listed_is_withheld(step: Json, stream: bool) -> None:
    hook = {"type": "builtin", "builtin": "tools", "options": {"allow": ["read_file"]}}
    reply = await interaction_with(step, {"AfterModel": [hook]}, stream=stream)
    assert b"found" not in reply.body
    assert b"found" in (await interaction_with(step, {}, stream=stream)).body


async def interaction_with(step: Json, hooks: Json, *, stream: bool) -> Any:
    """The client's answer if the interaction has this step."""
    whole = ok(json.dumps({"id": "v1_1", "status": "requires_action", "steps": [step]}).encode())
    events = [CREATED, started(step), stopped(), completed("requires_action")]
    async with (
        peer(*(streamed(events) if stream else [whole])) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        body = {"model": "gemini-2.5-flash", "input": "hi", "stream": stream}
        return await post(url, "/v1beta/interactions", body, KEY)


UNKNOWN = {"type": "shell_call", "id": "c", "name": "read_file", "arguments": {"command": "rm -rf /"}}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_of_an_unknown_type_is_judged_as_one_that_the_client_runs(stream: bool) -> None:
    """Its own name does not count: nobody knows what it means."""
    shown: list[Json] = []
    for hooks in (policy("read_file"), {"BeforeTool": policy("read_file")["BeforeTool"]}):
        reply = await interaction_with(UNKNOWN, hooks, stream=stream)
        assert b"rm -rf" not in reply.body
        assert b"requires_action" not in reply.body
    for hooks in (policy("shell_call"), {"BeforeTool": [runs(shown.append)]}, {}):
        reply = await interaction_with(UNKNOWN, hooks, stream=stream)
        assert b"rm -rf" in reply.body
        assert b"requires_action" in reply.body
    assert [(each["tool_name"], each["tool_input"]) for each in shown] == [("shell_call", UNKNOWN)]


async def test_a_kind_that_is_named_like_a_function_does_not_keep_the_function() -> None:
    options = {"allow": ["read_*"], "hosted": ["*"]}
    hooks = {"BeforeToolSelection": [{"type": "builtin", "builtin": "tools", "options": options}]}
    for kind in ("runShell", "run_shell"):
        body = {
            "contents": TURNS,
            "tools": [{kind: {}}, {"functionDeclarations": [READ, {"name": "runShell"}]}],
        }
        assert (await upstream_body(hooks, UNARY, body))["tools"] == LEFT


@pytest.mark.parametrize("kept", ["mcpServers", "run_shell"])
async def test_a_tool_in_the_form_of_a_hooks_declaration_is_refused(kept: str) -> None:
    """The policy would return one of several tools with its settings, which here are another tool's name."""
    options = {"hosts": ["good.example"], "deny": [{"tool": "run_shell"}]}
    hooks = {"BeforeToolSelection": [{"type": "builtin", "builtin": "tools", "options": options}]}
    tools = [{"name": kept}, {"name": EVIL}, *TOOLS[:2], {"functionDeclarations": [{"name": "run_shell"}]}]
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        reply = await post(url, UNARY, {"contents": TURNS, "tools": tools}, KEY)
    assert (reply.status, upstream.heard) == (400, [])
    assert b"tools[0].name: a tool has no name" in reply.body
