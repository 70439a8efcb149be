"""The real hooks of Claude Code, Codex and Copilot at a gateway, which none of them calls for a model."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.clients.hooked_agents import HOOKED_AGENTS, ask_agent, scripted_model
from support.gateway.loopback import gateway_before, listens, runs
from support.wire import peer

pytestmark = pytest.mark.slow  # the agents take 850 MB

SECRET = "AIzaSy" + "A1234567890abcdefghijklmnopqrstuv"
"""Like an API key of Google's. In one piece, it would be found in this file."""
NO_RM = "Nothing is deleted here."
PHRASE = "Nothing about moonshot."


def policy(seen: list[dict[str, Any]]) -> dict[str, Any]:
    rm = {"tool": "run_shell_command", "when": {"/command": {"runs": {"program": "rm"}}}, "reason": NO_RM}

    def judge_prompt(event: dict[str, Any]) -> Any:
        return {"decision": "deny", "reason": PHRASE} if "moonshot" in event["prompt"] else None

    return {
        "BeforeAgent": [runs(judge_prompt)],
        "BeforeTool": [{"type": "builtin", "builtin": "tools", "options": {"deny": [rm]}}],
        "AfterTool": [{"type": "builtin", "builtin": "redact"}, listens(seen)],
    }


@pytest.mark.parametrize("agent", HOOKED_AGENTS)
async def test_forbidden_command_does_not_run(agent: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.touch()
    async with (
        peer() as upstream,
        gateway_before(upstream.url, policy([])) as url,
        scripted_model(f"rm -f {kept}") as model,
    ):
        await ask_agent(agent, "Do it.", model, url, tmp_path)
    assert kept.exists()
    assert any(NO_RM in result for result in model.results), model.results


@pytest.mark.parametrize("agent", HOOKED_AGENTS)
async def test_key_in_result_does_not_reach_the_model(agent: str, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    command = f"printf 'key %s%s' {SECRET[:20]} {SECRET[20:]}"
    async with (
        peer() as upstream,
        gateway_before(upstream.url, policy(seen)) as url,
        scripted_model(command) as model,
    ):
        await ask_agent(agent, "Do it.", model, url, tmp_path)
    assert [event["tool_name"] for event in seen] == ["run_shell_command"]
    assert model.results
    assert "key [GOOGLE_API_KEY]" in json.dumps(model.results)
    assert SECRET not in json.dumps(model.results)


def http_hooks(url: str) -> dict[str, Any]:
    """Settings of Claude Code with hooks of the type http, like those in docs/agent-hooks.md."""
    target = f"{url}/hookgate/v1/agents/claude-code"
    hook = {"type": "http", "onFailure": "block", "timeout": 60}
    events = ("UserPromptSubmit", "PreToolUse", "PostToolUse")
    return {"hooks": {event: [{"hooks": [{**hook, "url": f"{target}?event={event}"}]}] for event in events}}


async def test_http_hooks_of_claude_code(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.touch()
    folders = [tmp_path / name for name in ("denied", "masked", "unreachable")]
    for folder in folders:
        folder.mkdir()
    async with peer() as upstream, gateway_before(upstream.url, policy([])) as url:
        async with scripted_model(f"rm -f {kept}") as model:
            await ask_agent("claude-code", "Do it.", model, url, folders[0], settings=http_hooks(url))
            assert any(NO_RM in result for result in model.results), model.results
        async with scripted_model(f"printf 'key %s%s' {SECRET[:20]} {SECRET[20:]}") as model:
            await ask_agent("claude-code", "Do it.", model, url, folders[1], settings=http_hooks(url))
            assert "key [GOOGLE_API_KEY]" in json.dumps(model.results)
            assert SECRET not in json.dumps(model.results)
    async with scripted_model(f"rm -f {kept}") as model:
        nowhere = {"hooks": {"PreToolUse": http_hooks("http://127.0.0.1:9")["hooks"]["PreToolUse"]}}
        await ask_agent("claude-code", "Do it.", model, url, folders[2], settings=nowhere)
        assert model.results
    assert kept.exists()


@pytest.mark.parametrize("agent", HOOKED_AGENTS)
async def test_denied_prompt_runs_no_tool(agent: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    async with (
        peer() as upstream,
        gateway_before(upstream.url, policy([])) as url,
        scripted_model(f"touch {made}") as model,
    ):
        await ask_agent(agent, "About moonshot", model, url, tmp_path)
        # Copilot's hooks cannot deny a prompt, so the tools of the turn are denied.
        assert all(PHRASE in result for result in model.results)
    assert not made.exists()
    assert bool(model.results) == (agent == "copilot")
