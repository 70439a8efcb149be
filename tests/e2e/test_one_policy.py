"""One policy file, whatever the agent: no `rm -rf` in a shell tool, a note behind every file that is read."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.adk import run_agent
from support.commands import run_command
from support.event_service import hookgate
from support.gateway import RunningGateway, running_gateway
from support.node import GeminiCli
from support.python_sdk import pieces, python_client, sdk_warnings

from hookgate.shim.genai import instrument

pytestmark = sdk_warnings

REASON = "nothing is removed recursively here"
NOTE = "Checked by the house."
POLICY = {
    "hooks": {
        "BeforeTool": [
            {
                "matcher": "run_shell_command",
                "hooks": [
                    {
                        "name": "no-rm",
                        "type": "command",
                        "command": f"grep -q 'rm -rf' && {{ echo '{REASON}' >&2; exit 2; }}; exit 0",
                        "on_error": "deny",
                    }
                ],
            }
        ],
        "AfterTool": [
            {
                "matcher": "read_file",
                "hooks": [
                    {
                        "name": "note",
                        "type": "command",
                        "command": "cat > /dev/null; echo "
                        + f"""'{{"hookSpecificOutput": {{"additionalContext": "{NOTE}"}}}}'""",
                    }
                ],
            }
        ],
    }
}


def model_calls(victim: Path, readable: Path) -> dict[str, Any]:
    """A model that removes a folder, then reads a file, then says so."""
    remove = {"name": "run_shell_command", "args": {"command": f"rm -rf {victim}"}}
    read = {"name": "read_file", "args": {"file_path": str(readable)}}
    return {
        "rules": [
            {"when": {"tool_response": "read_file"}, "answer": {"text": "I have read it."}},
            {
                "when": {"tool_response": "run_shell_command"},
                "answer": {"parts": [{"functionCall": read}]},
            },
            {"answer": {"parts": [{"functionCall": remove}]}},
        ]
    }


Agent = Callable[[RunningGateway, Path], Awaitable[str]]
"""Runs an agent before a gateway, its work in the folder's `workspace`, and gives what it says at last."""


def filled(workspace: Path) -> None:
    workspace.mkdir(exist_ok=True)
    (workspace / "notes.txt").write_text("milk and bread")


async def gemini_cli(gateway: RunningGateway, folder: Path) -> str:
    """Gemini CLI that knows nothing of hooks: the gateway derives the events from its calls."""
    gemini = GeminiCli(folder)
    filled(gemini.workspace)
    ran = await gemini.ask(gateway.url, "clean up, then read", "--approval-mode", "yolo")
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout.strip()


def run_shell_command(command: str) -> str:
    """Run a command in the shell."""
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602  # a shell tool
    return ran.stdout


def read_file(file_path: str) -> str:
    """Read a file."""
    return Path(file_path).read_text()


async def genai_script(gateway: RunningGateway, folder: Path) -> str:
    """A google-genai script with automatic function calling and no shim."""
    filled(folder / "workspace")
    async with python_client(gateway.url) as client:
        said = await pieces(client, "async", "clean up, then read", tools=[run_shell_command, read_file])
    return "".join(said).strip()


async def gemini_cli_with_shim(gateway: RunningGateway, folder: Path) -> str:
    """Gemini CLI whose own hooks tell the gateway of its tools."""
    gemini = GeminiCli(folder)
    filled(gemini.workspace)
    words = ("shim", "install", "gemini-cli", "--yes", "--gateway", gateway.url)
    installed = await hookgate(*words, env={"HOME": str(folder / "home")}, folder=gemini.workspace)
    assert installed.code == 0, installed.err
    ran = await gemini.ask(gateway.url, "clean up, then read", "--approval-mode", "yolo")
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout.strip()


async def genai_instrumented(gateway: RunningGateway, folder: Path) -> str:
    """A google-genai script whose client is instrumented."""
    filled(folder / "workspace")
    async with python_client("http://127.0.0.1:9") as client:
        instrument(client, gateway.url)
        said = await pieces(client, "async", "clean up, then read", tools=[run_shell_command, read_file])
    return "".join(said).strip()


async def adk_plugin(gateway: RunningGateway, folder: Path) -> str:
    """An agent of google-adk with the plugin."""
    filled(folder / "workspace")
    ran = await run_agent(Path(__file__).parent / "adk" / "policy_agent.py", gateway.url)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout.strip()


AGENTS: dict[str, Agent] = {
    "gemini-cli with its own hooks": gemini_cli_with_shim,
    "gemini-cli without a shim": gemini_cli,
    "google-adk with the plugin": adk_plugin,
    "google-genai instrumented": genai_instrumented,
    "google-genai without a shim": genai_script,
}


@pytest.mark.parametrize("agent", [pytest.param(agent, id=name) for name, agent in AGENTS.items()])
async def test_the_policy_holds(agent: Agent, tmp_path: Path) -> None:
    victim, policy = tmp_path / "victim", tmp_path / "policy.json"
    victim.mkdir()
    policy.write_text(json.dumps(POLICY))
    model = model_calls(victim, tmp_path / "workspace" / "notes.txt")
    async with running_gateway(policy, model) as gateway:
        said = await agent(gateway, tmp_path)
        sent = json.dumps([request.body for request in gateway.generated])
    assert said.endswith("I have read it.")
    assert victim.is_dir()
    assert f"Tool execution blocked: {REASON}" in sent
    assert "milk and bread" in sent
    assert NOTE in sent


async def test_the_policy_holds_for_a_script_that_asks_with_exit_codes(tmp_path: Path) -> None:
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
