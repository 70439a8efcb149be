"""The real Gemini CLI with `hookgate shim install gemini-cli`: its own hooks ask the gateway."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.clients.node import NODE_DIR, GeminiCli
from support.gateway.event_service import hookgate
from support.gateway.loopback import RunningGateway, listens, running_gateway, says
from support.gateway.sent import sent_parts

from hookgate.hooks.settings import EVENTS

pytestmark = pytest.mark.e2e

DENY = {"decision": "deny", "reason": "rm is not for agents."}
CALL = {"functionCall": {"name": "run_shell_command", "args": {"command": "rm -rf /tmp/none"}}}
SCRIPT = {
    "rules": [
        {"when": {"tool_response": "run_shell_command"}, "answer": {"text": "I could not."}},
        {"answer": {"chunks": [[CALL]]}},
    ]
}


@pytest.fixture
def gemini(tmp_path: Path) -> GeminiCli:
    """Gemini CLI in a home of its own."""
    return GeminiCli(tmp_path)


async def installed_hooks(folder: Path, *words: str) -> None:
    """Have the Gemini CLI of `folder` tell the gateway of its events."""
    env = {"HOME": str(folder / "home")}
    ended = await hookgate(
        "shim", "install", "gemini-cli", "--yes", *words, env=env, folder=folder / "workspace"
    )
    assert ended.code == 0, ended.err


def tool_results(gateway: RunningGateway) -> list[Any]:
    return [
        part["functionResponse"]["response"] for part in sent_parts(gateway) if "functionResponse" in part
    ]


async def test_a_policy_s_denial_of_a_tool_reaches_the_model_from_hooks_of_the_project(
    gemini: GeminiCli, tmp_path: Path
) -> None:
    """tests/e2e/test_one_policy.py has the same with hooks of the user."""
    async with running_gateway({"BeforeTool": [says(DENY)]}, SCRIPT) as gateway:
        await installed_hooks(tmp_path, "--project", "--gateway", gateway.url)
        ran = await gemini.ask(gateway.url, "remove it", "--approval-mode", "yolo")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "I could not."), ran.stderr
    assert {"error": "Tool execution blocked: rm is not for agents."} in tool_results(gateway)


async def test_its_events_arrive_in_order_and_in_one_session_with_its_model_calls(
    gemini: GeminiCli, tmp_path: Path
) -> None:
    seen: list[dict[str, Any]] = []
    call = {"functionCall": {"name": "list_directory", "args": {"dir_path": "."}}}
    script = {
        "rules": [
            {"when": {"tool_response": "list_directory"}, "answer": {"text": "Done."}},
            {"answer": {"chunks": [[call]]}},
        ]
    }
    async with running_gateway({event: [listens(seen)] for event in EVENTS}, script) as gateway:
        await installed_hooks(tmp_path)
        env = {"HOOKGATE_URL": gateway.url, "HOOKGATE_SESSION": "abc"}
        ran = await gemini.ask(f"{gateway.url}/s/abc", "list it", "--approval-mode", "yolo", **env)
    assert (ran.exit_code, ran.stdout.strip()) == (0, "Done."), ran.stderr
    events = [each["hook_event_name"] for each in seen if each["hook_event_name"] != "PreCompress"]
    turn = ["BeforeModel", "AfterModel"]
    assert [event for event in events if event != "BeforeToolSelection"] == [
        *("SessionStart", "BeforeAgent", *turn, "BeforeTool", "AfterTool", *turn, "AfterAgent", "SessionEnd")
    ], json.dumps(events)
    assert {each["session_id"] for each in seen} == {"abc"}


async def test_a_stopped_turn_ends_with_the_reason(gemini: GeminiCli, tmp_path: Path) -> None:
    stop = {"continue": False, "stopReason": "Enough for today."}
    async with running_gateway({"BeforeAgent": [says(stop)]}) as gateway:
        await installed_hooks(tmp_path, "--gateway", gateway.url)
        ran = await gemini.ask(gateway.url, "go on")
    assert gateway.generated == []
    assert "Enough for today." in ran.stdout + ran.stderr


async def test_without_the_gateway_the_agent_continues(gemini: GeminiCli, tmp_path: Path) -> None:
    async with running_gateway() as gateway:
        await installed_hooks(tmp_path, "--gateway", "http://127.0.0.1:9")
        ran = await gemini.ask(gateway.url, "hello")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "You said: hello"), ran.stderr


async def test_in_a_session_of_its_own_each_event_is_reported_once(gemini: GeminiCli, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    async with running_gateway({event: [listens(seen)] for event in EVENTS}) as gateway:
        await installed_hooks(tmp_path)
        env = {
            "HOME": str(tmp_path / "home"),
            "TMPDIR": str(tmp_path / "home"),
            "HOOKGATE_URL": gateway.url,
            "GEMINI_API_KEY": "any",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }
        program = str(NODE_DIR / "node_modules" / ".bin" / "gemini")
        words = (program, "--model", "gemini-2.5-flash", "--prompt", "hello")
        ended = await hookgate("run", "--session", "abc", "--", *words, env=env, folder=gemini.workspace)
    assert (ended.code, ended.out.strip()) == (0, "You said: hello"), ended.err
    events = [each["hook_event_name"] for each in seen]
    assert events[0] == "SessionStart"
    assert events[-1] == "SessionEnd"
    assert events.count("SessionStart") == events.count("SessionEnd") == events.count("BeforeAgent") == 1
    assert {each["session_id"] for each in seen} == {"abc"}
    assert [request.headers.get("x-hookgate-session") for request in gateway.generated] == [None]
