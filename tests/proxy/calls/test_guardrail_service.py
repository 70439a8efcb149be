"""The guardrail service: other gateways ask for decisions of hooks, in LiteLLM's generic guardrail API."""

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, runs, says
from support.hooks.policies import REFUSAL, no_rockets
from support.wire import HI, KEY, UNARY, Answer, ok, peer, post, prompt, spoken

from hookgate.proxy.calls.guardrail_checks import (
    Check,
    EditBlocked,
    edited_answer,
    edited_request,
    shown_answer,
    shown_request,
)
from hookgate.proxy.config import Config

PATH = "/hookgate/v1/guardrail/beta/litellm_basic_guardrail_api"
REDACT = {"type": "builtin", "builtin": "redact", "options": {"detect": ["EMAIL"]}}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
    },
}
DELETE = {"type": "function", "function": {"name": "delete", "parameters": {"type": "object"}}}
SEARCH = {"type": "web_search", "size": "small"}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


async def check(hooks: Any, input_type: str = "request", prefix: str = "", **fields: Any) -> Any:
    """The decision about one check."""
    answer = await ask(hooks, {"input_type": input_type, "request_data": {}, **fields}, prefix=prefix)
    assert (answer.status, len(answer.headers["x-hookgate-receipt"])) == (200, 32)
    return answer.json


async def ask(
    hooks: Any, body: Any, headers: Any = None, prefix: str = "", config: Config | None = None
) -> Answer:
    async with peer() as upstream, gateway_before(upstream.url, hooks, config) as url:
        answer = await post(url, f"{prefix}{PATH}", body, dict(KEY if headers is None else headers))
        assert not upstream.heard
        return answer


def blocked(reason: str) -> dict[str, str]:
    return {"action": "BLOCKED", "blocked_reason": reason}


async def test_without_an_opinion_of_a_hook_everything_passes() -> None:
    seen: list[Any] = []
    hooks = {"BeforeModel": [listens(seen)], "AfterModel": [listens(seen)]}
    assert await check(hooks, texts=["hi", "there"], model="gpt-4o") == {"action": "NONE"}
    assert await check(hooks, "response", texts=["ho"]) == {"action": "NONE"}
    request, answer = seen
    assert [message["content"] for message in request["llm_request"]["messages"]] == ["hi", "there"]
    assert request["llm_request"]["model"] == "gpt-4o"
    assert answer["llm_response"]["text"] == "ho"


async def test_hooks_see_who_has_written_a_text_if_the_messages_say_so() -> None:
    seen: list[Any] = []
    messages = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a", "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image_url"}]},
    ]
    hooks = {"BeforeModel": [listens(seen)]}
    await check(hooks, texts=["s", "a", "u"], structured_messages=messages)
    await check(hooks, texts=["s", "u"], structured_messages=messages)
    shown = [[message["role"] for message in event["llm_request"]["messages"]] for event in seen]
    assert shown == [["user", "model", "user"], ["user", "user"]]


async def test_what_a_hook_denies_is_blocked_with_its_reason() -> None:
    denies = says({"decision": "deny", "reason": "not here"})
    assert (await check({"BeforeModel": [runs(no_rockets)]}, texts=["a rocket"]))["action"] == "BLOCKED"
    assert await check({"BeforeModel": [denies]}, texts=["x"]) == blocked("not here")
    assert await check({"AfterModel": [denies]}, "response", texts=["x"]) == blocked("not here")
    stops = says({"continue": False, "stopReason": "enough"})
    assert await check({"BeforeModel": [stops]}, texts=["x"]) == blocked("enough")


async def test_edited_texts_are_returned_in_their_order() -> None:
    hooks = {"BeforeModel": [REDACT], "AfterModel": [REDACT]}
    texts = ["I am anna@example.com", "", " and I am not"]
    new = {"action": "GUARDRAIL_INTERVENED", "texts": ["I am [EMAIL]", "", " and I am not"]}
    assert await check(hooks, texts=texts) == new
    assert await check(hooks, "response", texts=texts) == new


async def test_tools_that_no_hook_offers_are_removed_or_the_call_is_blocked() -> None:
    policy = {"type": "builtin", "builtin": "tools", "options": {"allow": ["get_weather"]}}
    hooks = {"BeforeToolSelection": [policy], "BeforeTool": [policy]}
    told = await check(hooks, texts=["hi"], tools=[WEATHER, DELETE, SEARCH])
    assert told == {"action": "GUARDRAIL_INTERVENED", "texts": ["hi"], "tools": [WEATHER]}
    assert await check(hooks, texts=["hi"], tools=[WEATHER]) == {"action": "NONE"}
    # Its client would keep all tools if the list were empty.
    assert (await check(hooks, texts=["hi"], tools=[DELETE]))["action"] == "BLOCKED"
    assert await check(hooks, "response", tool_calls=[call("get_weather", "{}")]) == {"action": "NONE"}
    assert (await check(hooks, "response", tool_calls=[call("delete", "{}")]))["action"] == "BLOCKED"


async def test_arguments_that_hooks_cannot_read_are_blocked_if_a_hook_judges_tools() -> None:
    seen: list[Any] = []
    hooks = {"BeforeTool": [listens(seen)]}
    told = await check(hooks, "response", tool_calls=[call("f", '{"path": "/etc"}')])
    assert told == {"action": "NONE"}
    assert seen[0]["tool_input"] == {"path": "/etc"}
    for broken in ('{"path": "/e', "['x']", '{"a": 1, "a": 2}', "7"):
        assert (await check(hooks, "response", tool_calls=[call("f", broken)]))["action"] == "BLOCKED"
        assert await check({}, "response", tool_calls=[call("f", broken)]) == {"action": "NONE"}


@pytest.mark.parametrize(
    ("event", "specific", "fields"),
    [
        ("BeforeModel", {"llm_request": {"model": "other"}}, {"texts": ["hi"]}),
        ("BeforeModel", {"llm_request": {"config": {"temperature": 0}}}, {"texts": ["hi"]}),
        ("BeforeModel", {"llm_request": {"messages": []}}, {"texts": ["hi"]}),
        (
            "BeforeModel",
            {"llm_request": {"messages": [{"role": "model", "content": "hi"}]}},
            {"texts": ["hi"]},
        ),
        (
            "BeforeModel",
            {"llm_request": {"toolConfig": {"mode": "ANY"}}},
            {"texts": ["hi"], "tools": [WEATHER]},
        ),
        ("BeforeToolSelection", {"toolConfig": {"mode": "ANY"}}, {"texts": ["hi"], "tools": [WEATHER]}),
        (
            "BeforeToolSelection",
            {"toolConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["get_weather"]}},
            {"texts": ["hi"], "tools": [WEATHER, DELETE]},
        ),
        ("BeforeModel", {"llm_response": {"text": "I answer"}}, {"texts": ["hi"]}),
        ("BeforeTool", {"tool_input": {"a": 2}}, {"tool_calls": [call("f", '{"a": 1}')]}),
    ],
)
async def test_what_this_api_cannot_express_is_blocked(event: str, specific: Any, fields: Any) -> None:
    kind = "response" if event == "BeforeTool" else "request"
    told = await check({event: [says(**specific)]}, kind, **fields)
    assert told["action"] == "BLOCKED"
    assert "gateway" in told["blocked_reason"] or "not possible" in told["blocked_reason"]


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize(
    "fields",
    [
        {"images": ["https://example.com/?who=anna@example.com"]},
        {"tool_calls": [call("send", '{"to": "anna@example.com"}')]},
    ],
)
async def test_what_cannot_be_edited_is_blocked_if_a_hook_would_edit_it(kind: str, fields: Any) -> None:
    told = await check({"BeforeModel": [REDACT], "AfterModel": [REDACT]}, kind, texts=["hi"], **fields)
    assert told["action"] == "BLOCKED"


@pytest.mark.parametrize(
    "edit",
    [
        {"tools": [{"functionDeclarations": [WEATHER["function"]]}, {"googleSearch": {}}]},
        {"tools": [{"functionDeclarations": [{"name": "get_weather"}]}]},
        {"toolConfig": {"retrievalConfig": {"languageCode": "de"}}},
        {"contents": [{"role": "user", "parts": [{"text": "hi", "thought": True}]}]},
        {"labels": {"a": "b"}},
    ],
)
def test_an_edit_of_a_request_that_the_answer_cannot_express_does_not_vanish(edit: Any) -> None:
    asked = Check.model_validate({"input_type": "request", "texts": ["hi"], "tools": [WEATHER]})
    shown = shown_request(asked)
    assert edited_request(asked, shown, {**shown}) == {"action": "NONE"}
    with pytest.raises(EditBlocked):
        edited_request(asked, shown, {**shown, **edit})


@pytest.mark.parametrize(
    "edit",
    [
        {"content": {"role": "model", "parts": [{"text": "hi", "thought": True}]}},
        {"content": {"role": "model", "parts": [{"text": "hi"}, {"text": "there"}]}},
        {"content": {"role": "model", "parts": []}},
        {"content": {"role": "user", "parts": [{"text": "hi"}]}},
        {"finishReason": "SAFETY"},
    ],
)
def test_an_edit_of_an_answer_that_the_answer_cannot_express_does_not_vanish(edit: Any) -> None:
    asked = Check.model_validate({"input_type": "response", "texts": ["hi"]})
    [candidate] = shown_answer(asked, [])["candidates"]
    assert edited_answer(asked, [], {"candidates": [candidate]}) == {"action": "NONE"}
    with pytest.raises(EditBlocked):
        edited_answer(asked, [], {"candidates": [{**candidate, **edit}]})


async def test_functions_of_one_name_pass_and_are_selected_together() -> None:
    other = {"type": "function", "function": {**WEATHER["function"], "description": "e"}}
    tools = [WEATHER, DELETE, other, SEARCH]
    policy = {"type": "builtin", "builtin": "tools", "options": {"allow": ["get_weather", "googleSearch"]}}
    auto = says(toolConfig={"mode": "AUTO", "allowedFunctionNames": ["get_weather", "googleSearch"]})
    kept = [WEATHER, other, SEARCH]
    for selects in (policy, auto):
        hooks = {"BeforeToolSelection": [selects]}
        assert (await check(hooks, texts=["hi"], tools=tools))["tools"] == kept
        assert await check(hooks, texts=["hi"], tools=kept) == {"action": "NONE"}
    none = {"BeforeToolSelection": [says(toolConfig={"mode": "NONE"})]}
    assert (await check(none, texts=["hi"], tools=tools))["action"] == "BLOCKED"


async def test_roles_count_only_if_the_messages_contain_just_these_texts() -> None:
    seen: list[Any] = []
    messages = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "u"}]
    await check({"BeforeModel": [listens(seen)]}, texts=["other", "u"], structured_messages=messages)
    roles = {message["content"]: message["role"] for message in seen[0]["llm_request"]["messages"]}
    assert roles["other"] == "user"


@pytest.mark.parametrize("kind", ["request", "response"])
async def test_checks_of_a_session_that_hooks_have_stopped_are_blocked(kind: str) -> None:
    hooks = {"AfterTool": [says({"continue": False, "stopReason": "enough"})]}
    event = {"tool_name": "f", "tool_input": {}, "tool_response": {"llmContent": "x"}}
    body = {"input_type": kind, "texts": ["hi"]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        stopped = await post(url, "/s/mine/hookgate/v1/events/AfterTool", event, dict(KEY))
        assert stopped.json["continue"] is False
        assert (await post(url, f"/s/mine{PATH}", body, dict(KEY))).json == blocked("enough")
        assert (await post(url, f"/s/other{PATH}", body, dict(KEY))).json == {"action": "NONE"}


FUNCTION = {"name": "read_file"}
SECRET = "AKIA" + "QYLPMN5HHHFPZAM2"


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "mcp", "server_url": "https://mcp.example", "function": FUNCTION},
        {"type": "web_search_20250305", "name": "web_search", "function": FUNCTION},
        {"type": "function", "name": "shell", "function": FUNCTION},
        {"name": "shell", "input_schema": {}, "function": FUNCTION},
        {"functionDeclarations": [{"name": "shell"}], "function": FUNCTION},
        {"function_declarations": [{"name": "shell"}]},
        {"type": "read_file", "name": "shell"},
        {"type": "function", "name": "shell"},
        {"name": "shell", "input_schema": {}},
        {"type": "custom", "custom": {"name": "shell"}},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "namespace", "tools": [{"type": "function", "name": "read_file"}]},
        {"googleSearch": {}},
        {"type": "function", "function": None},
        {},
    ],
)
async def test_a_tool_passes_only_as_what_it_is(tool: Any) -> None:
    allows = {"type": "builtin", "builtin": "tools", "options": {"allow": ["read_file"]}}
    hooks = {"BeforeToolSelection": [allows]}
    read_file = {"type": "function", "function": FUNCTION}
    told = await check(hooks, texts=["hi"], tools=[read_file, tool])
    assert told["action"] == "BLOCKED" or told["tools"] == [read_file]
    assert await check(hooks, texts=["hi"], tools=[read_file]) == {"action": "NONE"}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_preview"},
        {"type": "web_search_20250305", "name": "web_search"},
        {"googleSearch": {}},
        {"google_search": {}},
        {"type": "function", "name": "shell"},
        {"name": "shell", "input_schema": {}},
        {"type": "custom", "name": "shell"},
        {"type": "mcp", "server_url": "https://mcp.example"},
    ],
)
async def test_a_denied_tool_is_found_in_all_its_forms(tool: Any) -> None:
    options = {"deny": [{"tool": "googleSearch"}, {"tool": "shell"}, {"tool": "mcp*"}]}
    hooks = {"BeforeToolSelection": [{"type": "builtin", "builtin": "tools", "options": options}]}
    assert (await check(hooks, texts=["hi"], tools=[tool]))["action"] == "BLOCKED"


ANTHROPIC = {"name": "get_weather", "description": "d", "input_schema": WEATHER["function"]["parameters"]}
FLAT = {"type": "function", **WEATHER["function"]}
CHAT = "/v1beta/openai/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}
RESPONSES = "/v1beta/openai/responses", {"input": "hi"}


@pytest.mark.parametrize(("path", "body", "tool"), [(*CHAT, WEATHER), (*RESPONSES, FLAT)])
async def test_a_function_that_a_call_has_pinned_is_known_in_a_check(path: str, body: Any, tool: Any) -> None:
    pins = {"type": "builtin", "builtin": "tools", "options": {"pin": "refuse"}}
    request = {"model": "gemini-2.5-flash", **body, "tools": [tool]}
    function = {**WEATHER["function"], "description": "Sends all files."}
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeToolSelection": [pins]}) as url:
        await post(url, path, request, {"Authorization": "Bearer test-key"})
        actions = [
            (await post(url, PATH, {"input_type": "request", "texts": ["hi"], "tools": [each]}, KEY)).json
            for each in (WEATHER, FLAT, ANTHROPIC, {"type": "function", "function": function})
        ]
    assert [action["action"] for action in actions] == ["NONE", "NONE", "NONE", "BLOCKED"]


DATA = "data:text/plain;base64," + b64encode(f"key {SECRET}".encode()).decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"images": [DATA]},
        {"images": [DATA.replace("text/plain", "image/png")]},
        {"structured_messages": [{"role": "user", "content": [{"type": "file", "file": {"data": SECRET}}]}]},
        {"structured_messages": [{"role": "assistant", "content": None, "reasoning_content": SECRET}]},
        {"structured_messages": [{"role": "assistant", "thinking_blocks": [{"thinking": SECRET}]}]},
        {"structured_messages": [{"role": "user", "content": [{"type": "tool_result", "content": SECRET}]}]},
        {"structured_messages": [{"role": "user", "name": SECRET, "content": "hi"}]},
        {"structured_messages": [{"role": SECRET, "content": "hi"}]},
        {"structured_messages": [{"role": "user", "content": [{"type": SECRET, "text": "hi"}]}]},
        {"structured_messages": [{"role": "user", "content": [{"type": "text", "text": {"type": SECRET}}]}]},
        {"structured_messages": [{"role": "user", "content": [{"type": "file", "file": {"type": SECRET}}]}]},
        {"tools": [{"type": f"web_search {SECRET}"}]},
        {"tools": [{f"web_search {SECRET}": {}}]},
        {"tools": [{"type": SECRET, "name": "f"}]},
        {"tools": [{"type": "function", "function": {"name": "f"}, "cache_control": {"type": SECRET}}]},
        {"tools": [{"type": "custom", "name": SECRET, "custom": {"name": "f"}}]},
        {"tools": [{"type": "custom", "name": "f", "custom": SECRET}]},
        {"tool_calls": [{"type": SECRET, "function": {"name": "f", "arguments": "{}"}}]},
        {"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "", "more": SECRET}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "examples": SECRET}}]},
        {"tools": [{"type": "mcp", "headers": {"authorization": SECRET}}]},
        {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}, "extra": SECRET}]},
        {"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": SECRET}}]},
        {"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": SECRET}}]},
    ],
)
async def test_a_secret_anywhere_in_a_check_blocks_the_call(fields: Any) -> None:
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact"}]}
    assert (await check(hooks, texts=["hi"], **fields))["action"] == "BLOCKED"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": f"key {SECRET}", "reasoning_content": f"key {SECRET}"}],
        [{"role": "user", "content": f"key {SECRET}"}, {"role": "user", "content": f"key {SECRET}"}],
        [{"role": "user", "content": [{"type": "file", "file": f"key {SECRET}"}]}],
    ],
)
async def test_a_secret_is_not_passed_on_because_it_is_also_in_a_text(messages: Any) -> None:
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact"}]}
    told = await check(hooks, texts=[f"key {SECRET}"], structured_messages=messages)
    assert told["action"] == "BLOCKED"


async def test_arguments_with_too_many_values_are_refused() -> None:
    arguments = json.dumps({"a": [[]] * 250_000})
    body = {"input_type": "response", "texts": [], "tool_calls": [call("f", arguments)]}
    assert (await ask({"AfterModel": [runs(no_rockets)]}, body)).status == 413


async def test_a_hook_that_fails_blocks_where_the_table_says_so() -> None:
    fails = {"type": "command", "command": "exit 1", "name": "guard", "on_error": "deny"}
    told = await check({"BeforeModel": [fails]}, texts=["hi"])
    assert told == blocked("The hook 'guard' failed; see the gateway's log.")


async def test_the_session_is_that_of_the_path_or_the_trace() -> None:
    seen: list[Any] = []
    hooks = {"BeforeModel": [listens(seen)]}
    await check(hooks, texts=["hi"], litellm_trace_id="trace-1")
    await check(hooks, texts=["hi"], litellm_trace_id="trace-1", prefix="/s/mine")
    await check(hooks, texts=["hi"], litellm_trace_id="not a name")
    assert [event["session_id"] for event in seen[:2]] == ["trace-1", "mine"]
    assert seen[2]["session_id"]


@pytest.mark.parametrize("header", ["x-api-key", "x-goog-api-key", "authorization"])
async def test_the_caller_is_known_by_any_header_that_litellm_can_send(header: str) -> None:
    seen: list[Any] = []
    when = {"keys": ["litellm"]}
    value = "Bearer key-of-litellm" if header == "authorization" else "key-of-litellm"
    body = {"input_type": "request", "texts": ["hi"]}
    hooks = {"BeforeModel": [{**listens(seen), "when": when}]}
    answer = await ask(hooks, body, {header: value}, config=_accepting("key-of-litellm"))
    assert answer.json == {"action": "NONE"}
    assert len(seen) == 1
    refused = await ask(hooks, body, {header: "another"}, config=_accepting("key-of-litellm"))
    assert refused.status == 403
    assert len(seen) == 1


def _accepting(key: str) -> Config:
    """The settings of a gateway that accepts this key alone."""
    digest = sha256(key.encode()).hexdigest()
    return Config.model_validate(
        {"clients": {"unknown_keys": "refuse"}, "keys": {"litellm": {"sha256": digest}}}
    )


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"texts": ["hi"]}, "input_type"),
        ({"input_type": "both", "texts": []}, "input_type"),
        ({"input_type": "request", "texts": "hi"}, "texts"),
        ({"input_type": "request", "texts": [1]}, "texts.0"),
        ({"input_type": "request", "tools": ["x"]}, "tools.0"),
    ],
)
async def test_a_check_that_cannot_be_read_is_an_error(body: Any, place: str) -> None:
    answer = await ask({}, body)
    assert answer.status == 400
    assert place in answer.error["message"]


async def test_pages_and_callers_that_ask_too_often_are_refused() -> None:
    body = {"input_type": "request", "texts": ["hi"]}
    answer = await ask({}, body, {**KEY, "origin": "https://evil.example"})
    assert (answer.status, "web pages" in answer.error["message"]) == (403, True)
    config = Config.model_validate({"limits": {"events": 1}})
    async with peer() as upstream, gateway_before(upstream.url, {}, config) as url:
        statuses = [(await post(url, PATH, body, KEY)).status for _ in range(4)]
    assert statuses[0] == 200
    assert 429 in statuses


async def test_a_check_of_many_tools_and_texts_takes_as_long_as_it_is() -> None:
    tools = [{"type": "function", "function": {"name": f"f{n}"}} for n in range(2000)]
    policy = {"type": "builtin", "builtin": "tools", "options": {"allow": ["f1*"]}}
    told = await check({"BeforeToolSelection": [policy]}, texts=["x"] * 2000, tools=tools)
    assert told["action"] == "GUARDRAIL_INTERVENED"
    assert len(told["tools"]) == sum(tool["function"]["name"].startswith("f1") for tool in tools)
    assert json.dumps(told["texts"]) == json.dumps(["x"] * 2000)


async def test_the_policy_of_one_gateway_asks_the_service_of_another() -> None:
    asks = {"type": "builtin", "builtin": "guardrail", "name": "guard"}
    answer = ok(json.dumps(spoken("Write to anna@example.com.")).encode())
    decides = {"BeforeModel": [runs(no_rockets)], "AfterModel": [REDACT]}
    async with peer(answer) as upstream, gateway_before(upstream.url, decides) as other:
        options = {"url": f"{other}/hookgate/v1/guardrail", "headers": {"x-api-key": "k"}, "edit": True}
        hooks = {event: [{**asks, "options": options}] for event in ("BeforeModel", "AfterModel")}
        async with gateway_before(upstream.url, hooks) as url:
            denied = await post(url, UNARY, prompt("of a rocket"))
            edited = await post(url, UNARY, HI)
    assert REFUSAL in denied.error["message"]
    assert "Write to [EMAIL]." in edited.body.decode()
