"""Each kind of tool that the API runs, in each dialect: allowed, denied, and rewritten by a hook.

The table lists all kinds of the newest SDK. A kind that is new there fails a test until it is in the table.
"""

import json
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from google.genai import interactions, types
from support.gateway.loopback import gateway_before, runs
from support.wire import KEY, UNARY, ok, peer, post

from hookgate.proxy.config import Config
from hookgate.translator import hosted_calls
from hookgate.translator.fields import camel, snake
from hookgate.translator.interactions.steps import RUN_BY_API

Json = dict[str, Any]
GOOD, EVIL = "https://mcp.good.example/mcp", "https://evil.example/mcp"
READ = {"name": "read_file", "description": "Reads a file."}
TURNS = [{"role": "user", "parts": [{"text": "hi"}]}]


@dataclass(frozen=True)
class Kind:
    """A kind of tool. The settings are those of generateContent, and of an interaction if it has the kind."""

    name: str
    settings: Any = field(default_factory=dict)
    type: str = ""
    typed: Json = field(default_factory=dict)


SERVER = {"name": "a", "streamableHttpTransport": {"url": EVIL, "headers": {"Authorization": "Bearer x"}}}
TABLE = [
    Kind("codeExecution", type="code_execution"),
    Kind("computerUse", {"environment": "ENVIRONMENT_BROWSER"}, "computer_use", {"environment": "browser"}),
    Kind("enterpriseWebSearch", {"excludeDomains": ["a.example"]}),
    Kind("exaAiSearch", {"apiKey": "k", "customConfigs": {"text": True}}),
    Kind("fileSearch", {"fileSearchStoreNames": ["fileSearchStores/a"]}, "file_search"),
    Kind("googleMaps", {"enableWidget": True}, "google_maps"),
    Kind("googleSearch", {"excludeDomains": ["a.example"]}, "google_search"),
    Kind("googleSearchRetrieval", {"dynamicRetrievalConfig": {"mode": "MODE_DYNAMIC"}}),
    Kind("mcpServers", [SERVER], "mcp_server", {"name": "a", "url": EVIL, "defer_loading": True}),
    Kind("parallelAiSearch", {"apiKey": "k"}),
    Kind("retrieval", {"externalApi": {"endpoint": EVIL}}, "retrieval", {"retrieval_types": ["rag_store"]}),
    Kind("toolSearch", {"execution": "server"}, "tool_search", {"execution": "server"}),
    Kind("urlContext", type="url_context"),
    Kind("notKnownYet", {"target": EVIL}, "not_known_yet", {"target": EVIL}),
]
BY_NAME = [pytest.param(kind, id=kind.name) for kind in TABLE]
TYPED = [pytest.param(kind, id=kind.type) for kind in TABLE if kind.type]
NOT_IN_GENERATE_CONTENT = {"toolSearch", "notKnownYet"}


def test_the_table_has_every_tool_of_generate_content() -> None:
    known = {camel(name) for name in types.Tool.model_fields} - {"functionDeclarations"}
    assert known == {kind.name for kind in TABLE} - NOT_IN_GENERATE_CONTENT


def discriminators(union: Any) -> set[str]:
    """The values of `type` of the members of a union, except those of unknown types."""
    members = get_args(get_args(union)[0])
    return {
        each.model_fields["type"].default
        for each in members
        if not each.__name__.startswith("Unknown") and "type" in each.model_fields
    }


def test_the_table_has_every_tool_of_interactions() -> None:
    known = discriminators(interactions.Tool) - {"function"}
    assert known == {kind.type for kind in TABLE if kind.type} - {"not_known_yet"}


def test_every_call_of_an_interaction_is_run_by_the_api_or_is_a_function() -> None:
    """A call of a type that is new is judged as one that the client runs, until it is in the list."""
    calls = {name for name in discriminators(interactions.Step) if name.endswith("_call")}
    assert calls - {"function_call"} == RUN_BY_API


def test_every_call_in_an_answer_is_of_a_kind_of_the_table() -> None:
    names = {kind.name for kind in TABLE} - {"notKnownYet"}
    assert names == hosted_calls.KNOWN_KINDS
    for each in types.ToolType:
        if each is not types.ToolType.TOOL_TYPE_UNSPECIFIED:
            part = {"toolCall": {"toolType": each.value}}
            assert kinds_in({"content": {"parts": [part]}}) <= names
    for step in RUN_BY_API:
        assert kinds_in({"content": {"parts": [{"toolCall": {"type": step}}]}}) <= names


def kinds_in(candidate: Json) -> set[str]:
    return {kind for use in hosted_calls.hosted_uses({"candidates": [candidate]}) for kind in use.kinds}


async def bodies_upstream(hooks: Json, path: str, bodies: list[Json]) -> list[Any]:
    """The bodies that go upstream."""
    config = Config.model_validate({"routes": {"files": "forward"}})
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks, config) as url:
        for number, body in enumerate(bodies, 1):
            reply = await post(url, path, body, KEY)
            assert len(upstream.heard) == number, (body, reply.body)
    return [json.loads(heard.partition(b"\r\n\r\n")[2]) for heard in upstream.heard]


def policy(**options: Any) -> Json:
    return {"BeforeToolSelection": [{"type": "builtin", "builtin": "tools", "options": options}]}


def drops(kind: Kind) -> Json:
    """A hook that rewrites the tools: it returns all but those of one kind."""

    def rewrite(event: Json) -> Json:
        tools = event["llm_request"]["tools"]
        left = [{key: value for key, value in tool.items() if camel(key) != kind.name} for tool in tools]
        return {"hookSpecificOutput": {"tools": [tool for tool in left if tool]}}

    return {"BeforeToolSelection": [runs(rewrite)]}


def generate(*tools: Json) -> Json:
    return {"contents": TURNS, "tools": list(tools)}


def spellings(kind: Kind) -> list[list[Json]]:
    """The tool, in each spelling, alone and in one object with functions, and twice."""
    declared = {"functionDeclarations": [READ]}
    written = []
    for name in dict.fromkeys([kind.name, snake(kind.name)]):
        tool = {name: kind.settings}
        written += [[declared, tool], [{**declared, **tool}], [{**tool, **declared}], [tool, declared, tool]]
    return [*written, [{snake("functionDeclarations"): [READ], kind.name: kind.settings}]]


@pytest.mark.parametrize("kind", BY_NAME)
async def test_generate_content(kind: Kind) -> None:
    requests = [generate(*tools) for tools in spellings(kind)]
    for listed in (kind.name, snake(kind.name), "*"):
        assert await bodies_upstream(policy(allow=["read_file", listed]), UNARY, requests) == requests
    for hooks in (policy(allow=["read_file"]), policy(deny=[{"tool": kind.name}]), drops(kind)):
        for sent in await bodies_upstream(hooks, UNARY, requests):
            [left] = sent["tools"]
            assert [*map(camel, left)] == ["functionDeclarations"]


@pytest.mark.parametrize("kind", TYPED)
async def test_interactions(kind: Kind) -> None:
    path, function = "/v1beta/interactions", {"type": "function", **READ}
    tool = {"type": kind.type, **kind.typed}
    requests = [
        {"model": "gemini-2.5-flash", "input": "hi", "tools": tools}
        for tools in ([function, tool], [tool, function, tool])
    ]
    for listed in (kind.name, snake(kind.name), "*"):
        assert await bodies_upstream(policy(allow=["read_file", listed]), path, requests) == requests
    for hooks in (policy(allow=["read_file"]), policy(deny=[{"tool": kind.name}]), drops(kind)):
        assert [sent["tools"] for sent in await bodies_upstream(hooks, path, requests)] == [[function]] * 2


async def test_chat() -> None:
    """A chat completion has one kind as a field of its own. A tool of another type is refused."""
    path = "/v1beta/openai/chat/completions"
    kind = next(each for each in TABLE if each.name == "googleSearch")
    plain = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}]}
    plain["tools"] = [{"type": "function", "function": READ}]
    searching = {**plain, "web_search_options": {}}
    assert await bodies_upstream(policy(allow=["read_file", "googleSearch"]), path, [searching]) == [
        searching
    ]
    for hooks in (policy(allow=["read_file"]), policy(deny=[{"tool": "googleSearch"}]), drops(kind)):
        assert await bodies_upstream(hooks, path, [searching]) == [plain]


TOOL = {"mcpServers": [SERVER]}
TYPED_TOOL = {"type": "mcp_server", "name": "a", "url": EVIL}
INTERACTION = {"model": "gemini-2.5-flash", "input": "hi"}
CHAT = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}]}
ODD = [
    *(
        (UNARY, {"contents": TURNS, name: [TOOL]})
        for name in ("Tools", "TOOLS", "tools ", "_tools", "to_ols")
    ),
    (UNARY, {"contents": TURNS, "tools": TOOL}),
    (UNARY, {"contents": TURNS, "tools": [{"MCPServers": [SERVER]}, {"mcp_Servers": SERVER}]}),
    *(("/v1beta/interactions", {**INTERACTION, name: [TYPED_TOOL]}) for name in ("Tools", "to_ols")),
    ("/v1beta/interactions", {**INTERACTION, "tools": TYPED_TOOL}),
    *(
        ("/v1beta/interactions", {**INTERACTION, "tools": [{**TYPED_TOOL, "type": name}]})
        for name in ("mcpServer", "MCP_SERVER", "mcp-server", "mcp_servers", " mcp_server", "mcp_server ", "")
    ),
    *(
        ("/v1beta/openai/chat/completions", {**CHAT, name: {"url": EVIL}})
        for name in ("webSearchOptions", "Web_Search_Options", "web_search_options")
    ),
    *(
        (UNARY, {"contents": TURNS, place: {name: [SERVER]}})
        for place in ("generationConfig", "generation_config", "toolConfig", "tool_config")
        for name in ("mcpServers", "mcp_servers", "MCPServers", "tools")
    ),
    *(
        ("/v1beta/interactions", {**INTERACTION, "generation_config": {name: [TYPED_TOOL]}})
        for name in ("tools", "mcp_servers")
    ),
]


@pytest.mark.parametrize(("path", "body"), ODD)
async def test_no_other_spelling_brings_a_tool_past_the_policy(path: str, body: Json) -> None:
    hooks = policy(allow=["read_file"])
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        reply = await post(url, path, body, KEY)
    assert (reply.status == 400) is not upstream.heard
    assert not any(b"evil" in sent for sent in upstream.heard)


OPENAI_TYPES = (
    *("code_interpreter", "computer_use_preview", "custom", "file_search", "image_generation", "local_shell"),
    *("mcp", "not_known_yet", "shell", "web_search", "web_search_preview"),
)


@pytest.mark.parametrize("name", [*OPENAI_TYPES, *(kind.type for kind in TABLE if kind.type)])
@pytest.mark.parametrize("spelled", ["type", "field"])
async def test_no_other_tool_passes_in_the_dialects_of_openai(name: str, spelled: str) -> None:
    tool = {"type": name, "server_url": EVIL} if spelled == "type" else {name: {"server_url": EVIL}}
    chat = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}]}
    response = {"model": "gemini-2.5-flash", "input": "hi"}
    places: list[Json] = [{"tools": [tool]}, {"extra_body": {"google": {"tools": [tool]}}}]
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, policy(allow=["read_file"])) as url:
        for path, body in (("chat/completions", chat), ("responses", response)):
            for place in places:
                reply = await post(url, f"/v1beta/openai/{path}", {**body, **place}, KEY)
                assert reply.status == 400, reply.body
    assert not upstream.heard
