"""One policy file for all agents: no `rm -rf` in shell tools, and a note after every file that is read."""

import json
import sys
from pathlib import Path

import pytest
from support.clients.one_policy import AGENTS, NOTE, POLICY, REASON, Agent, check_policy, filled, model_calls
from support.clients.python_sdk import sdk_warnings
from support.gateway.loopback import running_gateway
from support.programs.commands import run_command

pytestmark = sdk_warnings


@pytest.mark.parametrize("agent", [pytest.param(agent, id=name) for name, agent in AGENTS.items()])
async def test_the_policy_holds(agent: Agent, tmp_path: Path) -> None:
    victim, policy = tmp_path / "victim", tmp_path / "policy.json"
    victim.mkdir()
    policy.write_text(json.dumps(POLICY))
    model = model_calls(victim, tmp_path / "workspace" / "notes.txt")
    async with running_gateway(policy, model) as gateway:
        said = await agent(gateway.url, tmp_path)
        sent = json.dumps([request.body for request in gateway.generated])
    check_policy(said, victim, sent)


async def test_the_policy_applies_to_a_script_that_uses_exit_codes(tmp_path: Path) -> None:
    victim, policy = tmp_path / "victim", tmp_path / "policy.json"
    victim.mkdir()
    policy.write_text(json.dumps(POLICY))
    filled(tmp_path / "workspace")
    script = """
ask() { "$PYTHON" -m hookgate.proxy event "$1" --gateway "$GATEWAY"; }
remove='{"tool_name": "run_shell_command", "tool_input": {"command": "rm -rf victim"}}'
if echo "$remove" | ask BeforeTool; then rm -rf victim; fi
echo '{"tool_name": "read_file", "tool_input": {}, "tool_response": {"llmContent": "milk"}}' | ask AfterTool
"""
    async with running_gateway(policy) as gateway:
        variables = {"PYTHON": sys.executable, "GATEWAY": gateway.url, "HOOKGATE_SESSION": "script"}
        ran = await run_command(["bash", "-c", script], tmp_path, variables)
    assert victim.is_dir()
    assert REASON in ran.stderr
    assert NOTE in ran.stdout
    assert ran.exit_code == 0
