"""What agents and other gateways are told is on record, also if it is not what hooks have decided."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from support.gateway.loopback import says
from support.gateway.panel import BEARER, panel_gateway
from support.wire import KEY, post

Json = dict[str, Any]
CURSOR = {"conversation_id": "c-1", "cwd": "/work", "workspace_roots": ["/work"]}
COMMAND = {**CURSOR, "hook_event_name": "beforeShellExecution", "command": "ls"}
RESULT = {
    **CURSOR,
    "hook_event_name": "postToolUse",
    "tool_name": "Read",
    "tool_input": {},
    "tool_output": "x",
}
AGENTS, GUARDRAIL = "/hookgate/v1/agents/cursor", "/hookgate/v1/guardrail/beta/litellm_basic_guardrail_api"


async def ask(folder: Path, hooks: Json, path: str, body: Json) -> tuple[Any, Json]:
    """The answer to a request, and what the panel shows of it."""
    async with panel_gateway(folder, hooks) as operated:
        answer = await post(operated.url, path, body, dict(KEY))
        receipt = answer.headers["x-hookgate-receipt"]
        async with (
            ClientSession() as client,
            client.get(f"{operated.admin}/api/calls/{receipt}", headers=BEARER) as shown,
        ):
            return answer, (await shown.json())["facts"]


async def test_a_denial_in_place_of_changed_arguments_is_recorded_as_one(tmp_path: Path) -> None:
    hooks = {"BeforeTool": [says(tool_input={"command": "ls -a"})]}
    answer, facts = await ask(tmp_path, hooks, AGENTS, COMMAND)
    assert answer.json["permission"] == "deny"
    assert facts["outcome"] == "blocked"
    [blocked] = facts["blocked"]
    assert (blocked["event"], blocked["tool"]) == ("BeforeTool", "run_shell_command")
    assert "changed the arguments" in blocked["reason"]


async def test_what_the_agent_cannot_apply_is_recorded(tmp_path: Path) -> None:
    hooks = {"AfterTool": [says(tool_result={"llmContent": "y"})]}
    answer, facts = await ask(tmp_path, hooks, AGENTS, RESULT)
    assert answer.headers["x-hookgate-not-applied"] == "the changed result"
    assert facts["not_applied"] == ["the changed result"]


@pytest.mark.parametrize(
    ("specific", "not_applied"),
    [
        ({"llm_request": {"config": {"temperature": 0}}}, ["generationConfig"]),
        ({"llm_response": {"text": "no"}}, None),
    ],
)
async def test_a_check_that_is_blocked_for_what_litellm_cannot_apply_is_a_denial(
    specific: Json, not_applied: Any, tmp_path: Path
) -> None:
    body = {"input_type": "request", "texts": ["hi"]}
    answer, facts = await ask(tmp_path, {"BeforeModel": [says(**specific)]}, GUARDRAIL, body)
    assert answer.json["action"] == "BLOCKED"
    assert facts["outcome"] == "denied"
    assert facts.get("not_applied") == not_applied
