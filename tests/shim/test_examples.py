"""The examples of docs/shim.md run unmodified under one policy, and the page quotes them exactly."""

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.clients.environments import ADK, ANTIGRAVITY
from support.gateway.loopback import running_gateway, runs, says
from support.places import PROJECT
from support.programs.commands import Ran, run_command

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

EXAMPLES = PROJECT / "examples"

HOOK = """\
import json, sys
call = json.load(sys.stdin)
if call["hook_event_name"] == "BeforeTool":
    print(json.dumps({"decision": "ask", "reason": "Really?"}))
else:
    print(json.dumps({"hookSpecificOutput": {"additionalContext": "A note."}}))
"""


def policy(call: Json) -> Json | None:
    """No `rm -rf` in shells, no weather of Oslo."""
    if "rm -rf" in str(call["tool_input"]):
        return {"decision": "deny", "reason": "No removals."}
    return {"decision": "deny", "reason": "Not Oslo."} if call["tool_input"].get("city") == "Oslo" else None


HOOKS: Json = {"BeforeTool": [runs(policy)], "AfterTool": [says(additionalContext="A note.")]}


async def example(python: str, name: str, folder: Path, *arguments: str) -> Ran:
    keys = {"GEMINI_API_KEY": "any", "GOOGLE_API_KEY": "any"}
    environment = {**keys, "PYTHONPATH": f"{PROJECT / 'shim'}", "HOME": str(folder)}
    ran = await run_command([python, str(EXAMPLES / name), *arguments], folder, environment)
    assert ran.exit_code == 0, ran.stderr
    return ran


async def test_an_agent_of_ones_own(tmp_path: Path) -> None:
    async with running_gateway(HOOKS) as gateway:
        for prompt, shown in (
            ("run echo hello", "hello\n\n\nA note.\n"),
            ("run rm -rf /nowhere", "Tool execution blocked: No removals.\n"),
        ):
            ran = await example(sys.executable, "shim_agent.py", tmp_path, gateway.url, prompt)
            assert ran.stdout == shown


async def test_the_same_synchronously_and_in_process(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text(HOOK)
    (tmp_path / "note.txt").write_text("hello")
    hook = {"type": "command", "command": f"{sys.executable} hook.py"}
    groups = {event: [{"hooks": [hook]}] for event in ("SessionStart", "BeforeAgent", "BeforeTool")}
    (tmp_path / "settings.json").write_text(json.dumps({"hooks": groups}))
    program = f"echo y | {sys.executable} {EXAMPLES / 'shim_sync.py'} settings.json note.txt"
    ran = await run_command(["/bin/sh", "-c", program], tmp_path)
    assert ran.stdout.split("\n") == [
        "context: A note.",
        "context of the turn: A note.",
        "read_file {'file_path': 'note.txt'}: Really? [y/n] allow: hello",
        "",
    ], ran.stderr


@pytest.mark.parametrize("name", ["shim_genai.py", "shim_adk.py"])
@pytest.mark.parametrize(
    ("city", "expected"),
    [
        ("Oslo", {"error": "Tool execution blocked: Not Oslo."}),
        ("Bergen", {"result": "storm in Bergen\n\nA note."}),
    ],
)
async def test_agents_of_google(tmp_path: Path, name: str, city: str, expected: Json) -> None:
    python = sys.executable if name == "shim_genai.py" else ADK.python()
    call = {"functionCall": {"name": "get_weather", "args": {"city": city}}}
    script = {"rules": [{"times": 1, "answer": {"chunks": [[call]]}}]}
    async with running_gateway(HOOKS, script) as gateway:
        ran = await example(python, name, tmp_path, gateway.url, "the weather?")
    (result,) = gateway.generated[-1].body["contents"][-1]["parts"]
    assert result["functionResponse"]["response"] == expected
    assert next(iter(expected.values())).split("\n")[0] in ran.stdout


@pytest.mark.parametrize(
    ("city", "expected"),
    [("Oslo", "Tool execution blocked: Not Oslo."), ("Bergen", "storm in Bergen")],
)
async def test_an_agent_of_antigravity(tmp_path: Path, city: str, expected: str) -> None:
    call = {"functionCall": {"name": "get_weather", "args": {"city": city}}}
    script = {"rules": [{"times": 1, "answer": {"chunks": [[call]]}}]}
    async with running_gateway(HOOKS, script) as gateway:
        ran = await example(
            ANTIGRAVITY.python(), "shim_antigravity.py", tmp_path, gateway.url, "the weather?"
        )
    assert expected in str(gateway.generated[-1].body["contents"][-1])
    assert expected in ran.stdout


def test_the_page_quotes_the_examples() -> None:
    page = (PROJECT / "docs" / "shim.md").read_text()
    quoted = [
        textwrap.dedent(block).strip("\n")
        for block in re.findall(r"(?:(?:    .*)?\n)+", page)
        if "    " in block
    ]
    examples = [textwrap.dedent(path.read_text()) for path in EXAMPLES.glob("shim_*.py")]
    assert len(quoted) == 5
    for block in quoted:
        assert any(
            block in textwrap.dedent(text) or textwrap.indent(block, "    ") in text for text in examples
        ), block
