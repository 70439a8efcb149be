"""One policy file for all agents: no `rm -rf` in shell tools, and a note after every file that is read."""

import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from support.clients.environments import ADK
from support.clients.node import GeminiCli, start_script
from support.clients.openai_sdk import openai_client
from support.clients.python_sdk import MODEL, pieces, python_client
from support.gateway.event_service import hookgate
from support.places import PROJECT

from hookgate.shim.genai import instrument

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


Agent = Callable[[str, Path], Awaitable[str]]
"""Runs an agent before the gateway at a URL, its work in the folder's `workspace`; gives its last words."""


def filled(workspace: Path) -> None:
    workspace.mkdir(exist_ok=True)
    (workspace / "notes.txt").write_text("milk and bread")


async def gemini_cli(url: str, folder: Path) -> str:
    """Gemini CLI that knows nothing of hooks: the gateway derives the events from its calls."""
    gemini = GeminiCli(folder)
    filled(gemini.workspace)
    ran = await gemini.ask(url, "clean up, then read", "--approval-mode", "yolo")
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout.strip()


def run_shell_command(command: str) -> str:
    """Run a command in the shell."""
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602  # a shell tool
    return ran.stdout


def read_file(file_path: str) -> str:
    """Read a file."""
    return Path(file_path).read_text()


async def genai_script(url: str, folder: Path) -> str:
    """A google-genai script with automatic function calling and no shim."""
    filled(folder / "workspace")
    async with python_client(url) as client:
        said = await pieces(client, "async", "clean up, then read", tools=[run_shell_command, read_file])
    return "".join(said).strip()


async def gemini_cli_with_shim(url: str, folder: Path) -> str:
    """Gemini CLI whose own hooks tell the gateway of its tools."""
    gemini = GeminiCli(folder)
    filled(gemini.workspace)
    words = ("shim", "install", "gemini-cli", "--yes", "--gateway", url)
    installed = await hookgate(*words, env={"HOME": str(folder / "home")}, folder=gemini.workspace)
    assert installed.code == 0, installed.err
    ran = await gemini.ask(url, "clean up, then read", "--approval-mode", "yolo")
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout.strip()


async def genai_instrumented(url: str, folder: Path) -> str:
    """A google-genai script whose client is instrumented."""
    filled(folder / "workspace")
    async with python_client("http://127.0.0.1:9") as client:
        instrument(client, url)
        said = await pieces(client, "async", "clean up, then read", tools=[run_shell_command, read_file])
    return "".join(said).strip()


async def adk_plugin(url: str, folder: Path) -> str:
    """An agent of google-adk with the plugin."""
    filled(folder / "workspace")
    ran = await ADK.run(PROJECT / "tests" / "e2e" / "adk" / "policy_agent.py", url)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout.strip()


TOOLS = {"run_shell_command": run_shell_command, "read_file": read_file}


async def openai_script(url: str, folder: Path) -> str:
    """A script with OpenAI's SDK for Python that calls tools itself."""
    filled(folder / "workspace")
    parameters = {"run_shell_command": "command", "read_file": "file_path"}
    tools: Any = [function(name, parameter) for name, parameter in parameters.items()]
    messages: list[Any] = [{"role": "user", "content": "clean up, then read"}]
    async with openai_client(url) as client:
        for _ in range(5):
            answer = await client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
            message: Any = answer.choices[0].message
            if not message.tool_calls:
                return str(message.content).strip()
            messages.append(message)
            for call in message.tool_calls:
                result = TOOLS[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "it did not end"


def function(name: str, parameter: str) -> dict[str, Any]:
    """A function with one parameter, as OpenAI's SDK declares it."""
    parameters = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


async def openai_js_script(url: str, folder: Path) -> str:
    """A script with OpenAI's SDK for JavaScript, which calls the tools of a stream."""
    filled(folder / "workspace")
    ran = await start_script("tools.mjs", url, "clean up, then read")
    assert ran.exit_code == 0, ran.stderr
    return str(ran.lines[-1]["text"])


AGENTS: dict[str, Agent] = {
    "gemini-cli with its own hooks": gemini_cli_with_shim,
    "gemini-cli without a shim": gemini_cli,
    "google-adk with the plugin": adk_plugin,
    "google-genai instrumented": genai_instrumented,
    "google-genai without a shim": genai_script,
    "openai for JavaScript": openai_js_script,
    "openai for Python": openai_script,
}


def check_policy(said: str, victim: Path, sent: str) -> None:
    """What the agent says, the folder that it was to remove, and its requests as the upstream sees them."""
    assert said.endswith("I have read it.")
    assert victim.is_dir()
    assert f"Tool execution blocked: {REASON}" in sent
    assert "milk and bread" in sent
    assert NOTE in sent
