"""`hookgate event --from AGENT`: a hook of an agent, whose answer the gateway writes."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.gateway.event_service import NOWHERE, event_service, hookgate

from hookgate.hooks.agents import AGENT_DIALECTS
from hookgate.hooks.settings import ADVISORY
from hookgate.hooks.settings.editing import value_of
from hookgate.shim.command.edits import AGENTS
from hookgate.shim.command.event import AGENTS as NAMES

TOOLS = {
    "claude-code": "PreToolUse",
    "codex": "PreToolUse",
    "cursor": "preToolUse",
    "copilot": "preToolUse",
    "antigravity": "PreToolUse",
}
DENIED = {
    "claude-code": ["hookSpecificOutput", "permissionDecision"],
    "codex": ["hookSpecificOutput", "permissionDecision"],
    "cursor": ["permission"],
    "copilot": ["permissionDecision"],
    "antigravity": ["decision"],
}
UNDECIDED = {name: {"decision": "ask"} if name == "antigravity" else {} for name in TOOLS}
"""The answers that leave a tool to the agent. Antigravity denies a tool without a decision."""


def decision(agent: str, printed: str) -> Any:
    value = json.loads(printed)
    for key in DENIED[agent]:
        value = value[key]
    return value


def test_every_dialect_has_a_command_and_an_installer() -> None:
    assert tuple(AGENT_DIALECTS) == NAMES
    assert [agent.dialect for agent in AGENTS.values() if agent.dialect] == list(NAMES)
    for agent in AGENTS.values():
        if agent.dialect:
            assert {*agent.events} <= {*AGENT_DIALECTS[agent.dialect].rows}


@pytest.mark.parametrize("agent", NAMES)
async def test_input_is_posted_as_it_is_and_answer_printed_as_it_is(agent: str) -> None:
    given = b'{"session_id":  "s", "x": 1.50}'
    async with event_service() as service:
        service.answers[agent] = {"any": "answer"}
        words = ("event", TOOLS[agent], "--from", agent, "--gateway", service.url)
        ended = await hookgate(*words, given=given, env={"GEMINI_API_KEY": "k", "HOOKGATE_SESSION": "mine"})
    assert (ended.code, json.loads(ended.out), ended.err) == (0, {"any": "answer"}, "")
    [(path, headers, _)] = service.reported
    assert path == f"/s/mine/hookgate/v1/agents/{agent}"
    assert (headers["user-agent"], headers["x-goog-api-key"]) == (agent, "k")
    assert service.raw == [given]


@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize("status", [400, 401, 403, 413, 429])
async def test_refused_event_is_denied_whatever_happens_to_unreachable_gateways(
    agent: str, status: int
) -> None:
    async with event_service() as service:
        service.status = status
        words = (
            "event",
            TOOLS[agent],
            "--from",
            agent,
            "--gateway",
            service.url,
            "--on-unreachable",
            "allow",
        )
        ended = await hookgate(*words, given={"tool_name": "x"})
    assert (ended.code, decision(agent, ended.out)) == (0, "deny")
    assert "Not this one." in ended.out


@pytest.mark.parametrize("agent", NAMES)
async def test_unreachable_gateway_is_decided_by_the_flag(agent: str) -> None:
    words = ("event", TOOLS[agent], "--from", agent, "--gateway", NOWHERE)
    allowed = await hookgate(*words, given={"tool_name": "x"})
    assert (allowed.code, json.loads(allowed.out)) == (0, UNDECIDED[agent])
    assert "is allowed without being judged" in allowed.err
    denied = await hookgate(*words, "--on-unreachable", "deny", given=b"not JSON")
    assert (denied.code, decision(agent, denied.out)) == (0, "deny")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["PreToolUse", "--from", "lunch"], "must be one of claude-code"),
        (["PreLunch", "--from=codex", "--gateway", NOWHERE, "--on-unreachable", "deny"], "not reachable"),
        (["../x", "--from", "codex"], "is not the name of an event"),
        (["PreToolUse", "--from", "codex", "--key-env", "NONE"], "NONE is not set"),
    ],
)
async def test_command_that_cannot_work_blocks(words: list[str], expected: str) -> None:
    ended = await hookgate("event", *words, given={})
    assert (ended.code, ended.out, expected in ended.err) == (2, "", True)


# ---- installers


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_installed_hooks_run_the_command_that_they_should(agent: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = tmp_path / "my bin" / "hookgate"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {shlex.quote(str(log))}\n')
    program.chmod(0o755)
    settings = AGENTS[agent]
    text = settings.with_hooks_of_agent("", str(program), "https://gate.example/x", denies=True)
    assert settings.double_slashes or "//" not in text
    section = value_of(text)[settings.section]
    assert list(section) == list(settings.events)
    for event in settings.events:
        [entry] = section[event]
        [hook] = entry.get("hooks", [entry])
        subprocess.run(["/bin/sh", "-c", hook["command"]], check=True)
        assert hook.items() >= settings.closed.items()
    assert log.read_text().splitlines() == [
        f"event {event}{f' --from {settings.dialect}' if settings.dialect else ''}"
        " --gateway https://gate.example/x --on-unreachable deny"
        for event in settings.events
    ]


def test_forms_of_settings_are_those_of_the_agents() -> None:
    def hook(agent: str, event: str) -> Any:
        value = value_of(AGENTS[agent].with_hooks_of_agent("", "hookgate", None, denies=False))
        return {**value, AGENTS[agent].section: {event: value[AGENTS[agent].section][event]}}

    def command(event: str, agent: str) -> str:
        return f"hookgate event {event} --from {agent}"

    grouped = {"type": "command", "timeout": 60, "command": command("PreToolUse", "codex")}
    assert hook("codex", "PreToolUse") == {"hooks": {"PreToolUse": [{"hooks": [grouped]}]}}
    flat = {"timeout": 60, "command": command("preToolUse", "cursor")}
    assert hook("cursor", "preToolUse") == {"version": 1, "hooks": {"preToolUse": [flat]}}
    flat = {"type": "command", "timeoutSec": 60, "command": command("preToolUse", "copilot")}
    assert hook("copilot", "preToolUse") == {"version": 1, "hooks": {"preToolUse": [flat]}}
    grouped = {"type": "command", "timeout": 60, "command": command("PreToolUse", "antigravity")}
    named = {"hookgate": {"PreToolUse": [{"matcher": "*", "hooks": [grouped]}]}}
    assert hook("antigravity", "PreToolUse") == named
    flat = {"type": "command", "timeout": 60, "command": command("Stop", "antigravity")}
    assert hook("antigravity", "Stop") == {"hookgate": {"Stop": [flat]}}


def test_answer_is_denied_only_where_agents_can() -> None:
    for dialect in AGENT_DIALECTS.values():
        for name, row in dialect.rows.items():
            denial = dialect.denial(name, {}, "r")
            assert (denial is not None) == (
                row.event not in ADVISORY and bool(row.expressible & {"deny", "stop"})
            )
            assert dialect.denial("PreLunch", {}, "r") is None
    result = {"tool_name": "MCP:query"}
    assert AGENT_DIALECTS["cursor"].denial("postToolUse", result, "r") == {"updated_mcp_tool_output": "r"}
