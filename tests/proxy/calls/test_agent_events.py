"""One policy for the hooks of all agents: events in their documented shapes, answers in their dialects."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.wire import KEY, UNARY, Answer, peer, post

from hookgate.hooks.agents import AGENT_DIALECTS
from hookgate.proxy.config import Config, LimitSettings
from hookgate.proxy.config.models import ListenSettings, NamedKey

Json = dict[str, Any]
SECRET = "AIzaSy" + "A1234567890abcdefghijklmnopqrstuv"
"""Like an API key of Google's. In one piece, it would be found in this file."""
MASKED = "[GOOGLE_API_KEY]"

CLAUDE = {"session_id": "s-1", "transcript_path": "/t.jsonl", "cwd": "/p", "permission_mode": "default"}
CODEX = {**CLAUDE, "transcript_path": None, "model": "gpt-6", "turn_id": "t"}
CURSOR = {
    "conversation_id": "s-1",
    "generation_id": "g",
    "model": "composer-2.5",
    "cursor_version": "2026.09.18",
    "workspace_roots": ["/p"],
    "transcript_path": None,
}
COPILOT = {"sessionId": "s-1", "timestamp": 1704614600000, "cwd": "/p"}
ANTIGRAVITY = {
    "conversationId": "s-1",
    "workspacePaths": ["/p"],
    "transcriptPath": "/t.jsonl",
    "artifactDirectoryPath": "/a",
    "modelName": "auto",
}


def claude(event: str, **fields: Any) -> tuple[str, Json]:
    return "", {**CLAUDE, "hook_event_name": event, **fields}


def codex(event: str, **fields: Any) -> tuple[str, Json]:
    return "", {**CODEX, "hook_event_name": event, **fields}


def cursor(event: str, **fields: Any) -> tuple[str, Json]:
    return "", {**CURSOR, "hook_event_name": event, **fields}


def copilot(event: str, **fields: Any) -> tuple[str, Json]:
    return event, {**COPILOT, **fields}


def antigravity(event: str, **fields: Any) -> tuple[str, Json]:
    return event, {**ANTIGRAVITY, **fields}


@dataclass(frozen=True)
class Agent:
    """What an agent posts, and what it reads: by what the policy decides about it."""

    name: str
    prompt: Any
    """Posts a prompt."""
    call: Any
    """Posts a call of the shell with a command."""
    result: Any
    """Posts the result of reading a file."""
    start: tuple[str, Json]
    """The start of a session."""
    denied_prompt: Json
    denied_call: Json
    masked_call: Json
    masked_result: Json
    lost: frozenset[str] = frozenset()
    """What the agent cannot apply in these answers."""


def specific(event: str, **fields: Any) -> Json:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


PHRASE = "Nothing about moonshot."
NO_RM = "Nothing is deleted here."
CHANGED = "The gateway's hooks changed the arguments."
SHOWN = f"curl -H {MASKED} x"

AGENTS = [
    Agent(
        "claude-code",
        lambda prompt: claude("UserPromptSubmit", prompt=prompt),
        lambda command: claude("PreToolUse", tool_name="Bash", tool_input={"command": command}),
        lambda text: claude(
            "PostToolUse", tool_name="Read", tool_input={"file_path": "f"}, tool_response=text
        ),
        claude("SessionStart", source="startup"),
        {"decision": "block", "reason": PHRASE},
        specific("PreToolUse", permissionDecision="deny", permissionDecisionReason=NO_RM),
        specific(
            "PreToolUse",
            permissionDecision="ask",
            permissionDecisionReason=CHANGED,
            updatedInput={"command": SHOWN},
        ),
        specific("PostToolUse", updatedToolOutput=f"key {MASKED}"),
    ),
    Agent(
        "codex",
        lambda prompt: codex("UserPromptSubmit", prompt=prompt),
        lambda command: codex("PreToolUse", tool_name="Bash", tool_input={"command": command}),
        lambda text: codex(
            "PostToolUse", tool_name="Bash", tool_input={"command": "cat f"}, tool_response=text
        ),
        codex("SessionStart", source="startup"),
        {"decision": "block", "reason": PHRASE},
        specific("PreToolUse", permissionDecision="deny", permissionDecisionReason=NO_RM),
        specific("PreToolUse", permissionDecision="allow", updatedInput={"command": SHOWN}),
        {"decision": "block", "reason": f"key {MASKED}"},
    ),
    Agent(
        "cursor",
        lambda prompt: cursor("beforeSubmitPrompt", prompt=prompt, attachments=[]),
        lambda command: cursor("preToolUse", tool_name="Shell", tool_input={"command": command}),
        lambda text: cursor("beforeReadFile", file_path="f", content=text),
        cursor("sessionStart"),
        {"continue": False, "user_message": PHRASE},
        {"permission": "deny", "user_message": NO_RM, "agent_message": NO_RM},
        {"updated_input": {"command": SHOWN}},
        {
            "permission": "deny",
            "user_message": "The gateway's hooks changed this result, which Cursor cannot apply here, so it "
            "is withheld.",
        },
    ),
    Agent(
        "copilot",
        lambda prompt: copilot("userPromptSubmitted", prompt=prompt),
        lambda command: copilot("preToolUse", toolName="bash", toolArgs=json.dumps({"command": command})),
        lambda text: copilot(
            "postToolUse",
            toolName="view",
            toolArgs={"path": "f"},
            toolResult={"resultType": "success", "textResultForLlm": text},
        ),
        copilot("sessionStart", source="new"),
        {},
        {"permissionDecision": "deny", "permissionDecisionReason": NO_RM},
        {"modifiedArgs": {"command": SHOWN}},
        {"modifiedResult": {"resultType": "success", "textResultForLlm": f"key {MASKED}"}},
        frozenset({"the denial"}),
    ),
    Agent(
        "antigravity",
        lambda prompt: antigravity("PreInvocation", invocationNum=0, initialNumSteps=1),
        lambda command: antigravity(
            "PreToolUse",
            toolCall={"name": "run_command", "args": {"CommandLine": command, "Cwd": "/p"}},
            stepIdx=1,
        ),
        lambda text: antigravity(
            "PostToolUse",
            toolCall={"name": "run_command", "args": {"CommandLine": "x"}},
            stepIdx=1,
            error=text,
        ),
        antigravity("SessionStart"),
        {},
        {"decision": "deny", "reason": NO_RM},
        {"decision": "ask", "overwrite": {"CommandLine": SHOWN}},
        {},
        frozenset({"the changed result"}),
    ),
]
BY_NAME = {agent.name: agent for agent in AGENTS}


def policy() -> dict[str, list[Json]]:
    """A phrase is denied, a key masked, a tool forbidden, calls are capped, and one prompt is answered."""
    calls: Counter[str] = Counter()

    def judge_prompt(event: Json) -> Json | None:
        if "opening hours" in event["prompt"]:
            return {"continue": False, "stopReason": "We open at nine."}
        return {"decision": "deny", "reason": PHRASE} if "moonshot" in event["prompt"] else None

    def cap(event: Json) -> Json | None:
        calls[event["session_id"]] += 1
        return (
            {"decision": "deny", "reason": "Three calls are enough."}
            if calls[event["session_id"]] > 3
            else None
        )

    rm = {"tool": "run_shell_command", "when": {"/command": {"runs": {"program": "rm"}}}, "reason": NO_RM}
    redact = {"type": "builtin", "builtin": "redact"}
    return {
        "BeforeAgent": [runs(judge_prompt)],
        "BeforeTool": [{"type": "builtin", "builtin": "tools", "options": {"deny": [rm]}}, redact, runs(cap)],
        "AfterTool": [redact],
    }


async def post_event(
    url: str, agent: str, posted: tuple[str, Any], headers: Mapping[str, str] | None = None
) -> Answer:
    event, document = posted
    query = f"?event={event}" if event else ""
    return await post(url, f"/hookgate/v1/agents/{agent}{query}", document, dict(headers or KEY))


def lost(answer: Answer) -> set[str]:
    return set(filter(None, answer.headers.get("x-hookgate-not-applied", "").split(", ")))


@asynccontextmanager
async def gateway(hooks: dict[str, list[Json]], config: Config | None = None) -> AsyncIterator[str]:
    async with peer() as upstream, gateway_before(upstream.url, hooks, config) as url:
        yield url


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
async def test_one_policy_holds_for_the_hooks_of_every_agent(agent: Agent) -> None:
    cannot: set[str] = set()
    async with gateway(policy()) as url:
        for posted, expected in (
            (agent.call("rm -rf /"), agent.denied_call),
            (agent.call(f"curl -H {SECRET} x"), agent.masked_call),
            (agent.result(f"key {SECRET}"), agent.masked_result),
        ):
            answer = await post_event(url, agent.name, posted)
            assert (answer.status, answer.json) == (200, expected)
            assert SECRET not in answer.body.decode()
            cannot |= lost(answer)
        if agent.name != "antigravity":  # whose hooks do not show the prompt
            answer = await post_event(url, agent.name, agent.prompt("About moonshot"))
            assert (answer.status, answer.json) == (200, agent.denied_prompt)
            cannot |= lost(answer)
    assert cannot == agent.lost


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
async def test_calls_of_agents_tools_are_capped(agent: Agent) -> None:
    async with gateway(policy()) as url:
        answers = [(await post_event(url, agent.name, agent.call("ls"))).body.decode() for _ in range(5)]
    assert ["Three calls are enough." in answer for answer in answers] == [False] * 3 + [True] * 2


@pytest.mark.parametrize(
    "agent", [each for each in AGENTS if each.name != "antigravity"], ids=lambda a: a.name
)
async def test_hook_that_answers_itself_ends_the_turn_and_its_tools(agent: Agent) -> None:
    async with gateway(policy()) as url:
        answer = await post_event(url, agent.name, agent.prompt("What are your opening hours?"))
        started = await post_event(url, agent.name, agent.start)  # which Copilot reports late
        tool = await post_event(url, agent.name, agent.call("ls"))
        again = await post_event(url, agent.name, agent.prompt("Something else"))
        allowed = await post_event(url, agent.name, agent.call("ls"))
    assert ("We open at nine." in answer.body.decode()) == (agent.name != "copilot")
    assert started.status == 200
    assert "We open at nine." in tool.body.decode()  # whatever the agent has done with the answer
    assert (again.status, "nine" in allowed.body.decode()) == (200, False)


async def test_stopped_session_of_antigravity_is_terminated_after_its_invocation() -> None:
    stop = {"BeforeTool": [says({"continue": False, "stopReason": "Enough."})]}
    async with gateway(stop) as url:
        before = await post_event(url, "antigravity", antigravity("PostInvocation", invocationNum=0))
        denied = await post_event(url, "antigravity", BY_NAME["antigravity"].call("ls"))
        after = await post_event(url, "antigravity", antigravity("PostInvocation", invocationNum=1))
        later = await post_event(url, "antigravity", antigravity("PreInvocation", invocationNum=1))
        still = await post_event(url, "antigravity", antigravity("PostInvocation", invocationNum=1))
        turn = await post_event(url, "antigravity", antigravity("PreInvocation", invocationNum=0))
        new = await post_event(url, "antigravity", antigravity("PostInvocation", invocationNum=0))
    assert denied.json == {"decision": "deny", "reason": "Enough."}
    terminated = {"terminationBehavior": "terminate"}
    assert [each.json for each in (before, after, later, still, turn, new)] == [
        {},
        terminated,
        {},
        terminated,
        {},
        {},
    ]


# ---- what cannot be judged is denied


DENIES = {
    "claude-code": ("PreToolUse", lambda a: a["hookSpecificOutput"]["permissionDecision"]),
    "codex": ("PreToolUse", lambda a: a["hookSpecificOutput"]["permissionDecision"]),
    "cursor": ("preToolUse", lambda a: a["permission"]),
    "copilot": ("preToolUse", lambda a: a["permissionDecision"]),
    "antigravity": ("PreToolUse", lambda a: a["decision"]),
}


@pytest.mark.parametrize("agent", DENIES)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="not JSON"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", id="nested too deeply"),
        pytest.param({}, id="no fields"),
        pytest.param(
            {"tool_name": "x", "tool_input": "rm", "toolName": "x", "toolArgs": "rm"}, id="no arguments"
        ),
        pytest.param({"toolCall": {"name": "run_command", "args": 7}}, id="no arguments of Antigravity's"),
    ],
)
async def test_call_that_cannot_be_read_is_denied(agent: str, body: Any) -> None:
    event, decision = DENIES[agent]
    seen: list[Json] = []
    async with gateway({"BeforeTool": [listens(seen)]}) as url:
        answer = await post_event(url, agent, (event, body))
    assert (answer.status, decision(answer.json), seen) == (200, "deny", [])


@pytest.mark.parametrize("agent", DENIES)
async def test_call_without_session_and_one_too_many_are_denied(agent: str) -> None:
    event, decision = DENIES[agent]
    _, document = BY_NAME[agent].call("ls")
    nameless = {key: value for key, value in document.items() if not key.lower().endswith("id")}
    async with gateway({}, Config(limits=LimitSettings(events=2))) as url:
        answer = await post_event(url, agent, (event, nameless))
        assert "session_id: missing" in answer.body.decode()
        assert decision(answer.json) == "deny"
        answers = [(await post_event(url, agent, (event, document))).body.decode() for _ in range(3)]
    assert "at most 2 events per second" in answers[-1]


@pytest.mark.parametrize("agent", DENIES)
async def test_unknown_event_is_refused(agent: str) -> None:
    _, document = BY_NAME[agent].call("ls")
    unnamed = {key: value for key, value in document.items() if key != "hook_event_name"}
    async with gateway({}) as url:
        unknown = await post_event(url, agent, ("PreLunch", unnamed))
        nameless = await post_event(url, agent, ("", unnamed))
    assert (unknown.status, "'PreLunch' of" in unknown.error["message"]) == (400, True)
    assert (nameless.status, "append ?event=NAME" in nameless.error["message"]) == (400, True)


async def test_unknown_agent_is_no_route() -> None:
    async with gateway({}) as url:
        assert (await post_event(url, "lunch", claude("PreToolUse"))).status == 403


@pytest.mark.parametrize("agent", DENIES)
@pytest.mark.parametrize(
    "listen",
    [ListenSettings(address="10.0.0.1:8787"), ListenSettings(url="https://gate.example")],
    ids=["its own address", "a proxy's"],
)
async def test_event_without_known_key_is_refused_on_network(agent: str, listen: ListenSettings) -> None:
    named = {"alice": NamedKey(sha256=sha256(b"alice-key").hexdigest())}
    async with gateway({"BeforeTool": [says()]}, Config(listen=listen, keys=named)) as url:
        for headers in ({"x-goog-api-key": "other"}, {"accept": "*/*"}):
            answer = await post_event(url, agent, BY_NAME[agent].call("ls"), headers)
            assert (answer.status, answer.error["details"][0]["reason"]) == (403, "KEY_UNKNOWN")
        known = await post_event(url, agent, BY_NAME[agent].call("ls"), {"authorization": "Bearer alice-key"})
        assert known.status == 200


@pytest.mark.parametrize("agent", DENIES)
@pytest.mark.parametrize(("on_error", "expected"), [("deny", True), ("allow", False)])
async def test_hook_that_fails_denies_if_it_shall(agent: str, on_error: str, expected: bool) -> None:
    def fail(event: Json) -> None:
        raise RuntimeError("broken")

    async with gateway({"BeforeTool": [runs(fail, on_error=on_error)]}) as url:
        answer = await post_event(url, agent, BY_NAME[agent].call("ls"))
    denied = answer.json and "deny" in answer.body.decode()
    assert (answer.status, bool(denied)) == (200, expected)


async def test_event_that_fails_inside_the_gateway_is_denied(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_(*_: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr("hookgate.proxy.calls.agent_events._event_of", break_)
    async with gateway({}) as url:
        answer = await post_event(url, "cursor", ("preToolUse", BY_NAME["cursor"].call("ls")[1]))
    assert answer.json["permission"] == "deny"
    assert "please report this" in caplog.text


async def test_both_names_of_an_argument_are_refused() -> None:
    call = {"name": "run_command", "args": {"CommandLine": "rm -rf /", "command": "ls"}}
    async with gateway(policy()) as url:
        answer = await post_event(url, "antigravity", antigravity("PreToolUse", toolCall=call))
    assert answer.json["decision"] == "deny"
    assert "has the arguments 'CommandLine' and 'command'" in answer.json["reason"]


@pytest.mark.parametrize("name", ["commandline", "COMMANDLINE", "Command"])
async def test_argument_in_another_case_is_refused(name: str) -> None:
    call = {"name": "run_command", "args": {name: "rm -rf /"}}
    async with gateway(policy()) as url:
        answer = await post_event(url, "antigravity", antigravity("PreToolUse", toolCall=call))
    assert answer.json["decision"] == "deny"
    assert f"has the argument {name!r}" in answer.json["reason"]


async def test_web_page_may_not_post_events() -> None:
    async with gateway({}) as url:
        headers = {**KEY, "origin": "https://evil.example"}
        assert (await post_event(url, "cursor", BY_NAME["cursor"].call("ls"), headers)).status == 403


async def test_cursor_that_runs_claude_code_s_hooks_is_answered_in_its_own_dialect() -> None:
    async with gateway(policy()) as url:
        answer = await post_event(url, "claude-code", BY_NAME["cursor"].call("rm -rf /"))
    assert answer.json["permission"] == "deny"


async def test_results_of_cursor_s_mcp_tools_are_replaced_and_those_of_its_own_are_reported_as_lost() -> None:
    redact = {"AfterTool": [{"type": "builtin", "builtin": "redact"}]}
    async with gateway(redact) as url:
        for tool, expected, cannot in (
            ("MCP:query", {"updated_mcp_tool_output": f"key {MASKED}"}, set()),
            ("Shell", {}, {"the changed result"}),
        ):
            result = cursor("postToolUse", tool_name=tool, tool_input="{}", tool_output=f"key {SECRET}")
            answer = await post_event(url, "cursor", result)
            assert (answer.json, lost(answer)) == (expected, cannot)


async def test_events_are_still_derived_from_calls_of_an_agent_whose_hooks_show_less() -> None:
    seen: list[Json] = []
    async with running_gateway({"AfterTool": [listens(seen)]}) as running:
        for posted in (antigravity("PreInvocation"), BY_NAME["antigravity"].call("ls")):
            assert (await post_event(running.url, "antigravity", posted)).status == 200
        call = {"functionCall": {"name": "run_command", "args": {}}}
        result = {"functionResponse": {"name": "run_command", "response": {"output": "shown"}}}
        turns = [("user", {"text": "hi"}), ("model", call), ("user", result)]
        body = {"contents": [{"role": role, "parts": [part]} for role, part in turns]}
        await post(running.url, UNARY, body, {**KEY, "x-hookgate-session": "s-1"})
    assert [event["tool_response"]["llmContent"] for event in seen] == ["shown"]


async def test_sessions_of_agents_end() -> None:
    refuse = {"SessionStart": [says({"continue": False, "stopReason": "Closed."})]}
    async with gateway(refuse) as url:
        start = await post_event(url, "cursor", cursor("sessionStart"))
        denied = await post_event(url, "cursor", BY_NAME["cursor"].call("ls"))
        await post_event(url, "cursor", cursor("sessionEnd", reason="exit"))
        await asyncio.sleep(0)
        allowed = await post_event(url, "cursor", BY_NAME["cursor"].call("ls"))
    assert (start.json, lost(start)) == ({}, {"the denial"})
    assert (denied.json["agent_message"], allowed.json) == ("Closed.", {})


@pytest.mark.parametrize("dialect", AGENT_DIALECTS.values(), ids=AGENT_DIALECTS)
def test_every_event_has_an_answer_to_every_decision(dialect: Any) -> None:
    decisions: list[Json] = [
        {},
        {"decision": "deny"},
        {"decision": "ask", "reason": "r"},
        {"continue": False},
        {"hookSpecificOutput": {"tool_input": {"command": "x"}, "additionalContext": "c"}},
        {"hookSpecificOutput": {"tool_result": {"llmContent": "x"}}, "systemMessage": "m"},
    ]
    for name, row in dialect.rows.items():
        for output in decisions:
            answer = dialect.answer(name, {}, output)
            json.dumps(answer.document)
            if output.get("decision") == "deny" and "deny" in row.expressible:
                assert answer.document
                assert not answer.not_applied
            elif output.get("decision") == "deny":
                assert "the denial" in answer.not_applied
        if row.event == "BeforeTool":
            assert "deny" in row.expressible
