"""Hooks from the Gemini CLI hook documents run unmodified, in a project with the documented layout."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.clients.node import need_node
from support.conversation import answer_text
from support.gateway.loopback import RunningGateway, running_gateway

MODEL = "gemini-2.5-flash"
TOOLS = ["read_file", "write_file", "replace", "run_shell_command"]
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="

ADJUST_TEMPERATURE = """\
#!/usr/bin/env node
const event = JSON.parse(require('fs').readFileSync(0, 'utf-8'));

// Is the conversation about code right now?
const recent = (event.llm_request?.messages || [])
  .slice(-3)
  .map((message) => (typeof message.content === 'string' ? message.content : ''))
  .join(' ')
  .toLowerCase();

if (['write', 'code', 'function'].some((word) => recent.includes(word))) {
  console.log(JSON.stringify({
    hookSpecificOutput: { llm_request: { config: { temperature: 0.2, topP: 0.8 } } },
    systemMessage: '🎯 Cooler for code',
  }));
} else {
  console.log('{}');
}
"""

MOCK_RESPONSE = """\
#!/bin/bash
cat <<'EOF'
{
  "hookSpecificOutput": {
    "llm_response": {
      "candidates": [
        {"content": {"role": "model", "parts": [{"text": "A mocked response, for a test."}]}}
      ]
    }
  }
}
EOF
"""

FILTER_TOOLS = """\
#!/bin/bash
cat > /dev/null
echo '{
  "hookSpecificOutput": {
    "hookEventName": "BeforeToolSelection",
    "toolConfig": {
      "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file", "write_file", "replace"]}
    }
  }
}'
"""

ADD_INSTRUCTIONS = """\
#!/usr/bin/env python3
import json, sys
event = json.load(sys.stdin)
messages = [{"role": "system", "content": "Answer in one sentence."}]
messages += [m for m in event["llm_request"]["messages"] if m["role"] != "system"]
json.dump({
    "decision": "allow",
    "hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": {"messages": messages}},
}, sys.stdout)
"""

BLOCK = """\
#!/bin/bash
input=$(cat)
if [[ "$input" == *password* ]]; then
  echo "Passwords stay out of prompts" >&2
  exit 2
fi
echo '{"decision": "allow"}'
"""


def project(folder: Path, event: str, command: str, **scripts: str) -> Path:
    """A project whose settings run one command on one event, and whose `.gemini/hooks` holds scripts."""
    hooks = folder / ".gemini" / "hooks"
    hooks.mkdir(parents=True)
    for name, source in scripts.items():
        (hooks / name).write_text(source)
        (hooks / name).chmod(0o755)
    settings = {
        "tools": {"enableHooks": True},
        "hooks": {event: [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]},
    }
    path = folder / ".gemini" / "settings.json"
    path.write_text(json.dumps(settings))
    return path


def conversation(prompt: str) -> dict[str, Any]:
    """A request of an agent in mid-work, with what hooks do not see: calls, signatures, schemas, settings."""
    call = {"functionCall": {"name": "read_file", "args": {"path": "a.txt", "limit": 2.0}}}
    result = {"functionResponse": {"name": "read_file", "response": {"output": "1\n2\n"}}}
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "Read a.txt."}]},
            {"role": "model", "parts": [{**call, "thoughtSignature": SIGNATURE}]},
            {"role": "user", "parts": [result]},
            {"role": "model", "parts": [{"text": "It holds two lines."}]},
            {"role": "user", "parts": [{"text": prompt}]},
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "You are careful."}]},
        "tools": [
            {"functionDeclarations": [{"name": name, "parametersJsonSchema": {"type": "object"}}]}
            for name in TOOLS
        ],
        "generationConfig": {"temperature": 1, "topK": 64, "thinkingConfig": {"thinkingBudget": 512}},
    }


@asynccontextmanager
async def gateway_after_request(
    settings: Path, body: Any, session: str = ""
) -> AsyncIterator[tuple[RunningGateway, int, Any]]:
    """The gateway after one request: with its status and its answer."""
    async with running_gateway(settings) as gateway, aiohttp.ClientSession() as http:
        url = f"{gateway.url}{session}/v1beta/models/{MODEL}:generateContent"
        async with http.post(url, json=body, headers={"x-goog-api-key": "any"}) as response:
            yield gateway, response.status, await response.json()


async def test_the_temperature_is_lowered_for_code_and_nothing_else_changes(tmp_path: Path) -> None:
    need_node(packages=False)
    settings = project(
        tmp_path,
        "BeforeModel",
        "node .gemini/hooks/adjust_temperature.js",
        **{"adjust_temperature.js": ADJUST_TEMPERATURE},
    )
    body = conversation("Now write a function that adds them up.")
    expected = deepcopy(body)
    expected["generationConfig"] |= {"temperature": 0.2, "topP": 0.8}
    async with gateway_after_request(settings, body) as (gateway, status, _):
        assert status == 200
        assert gateway.generated[0].body == expected


async def test_the_temperature_is_unchanged_for_other_subjects(tmp_path: Path) -> None:
    need_node(packages=False)
    settings = project(
        tmp_path,
        "BeforeModel",
        "node .gemini/hooks/adjust_temperature.js",
        **{"adjust_temperature.js": ADJUST_TEMPERATURE},
    )
    async with gateway_after_request(settings, conversation("Thank you.")) as (gateway, _, _):
        assert gateway.generated[0].body == conversation("Thank you.")


async def test_a_mocked_response_is_the_answer_and_the_model_is_not_called(tmp_path: Path) -> None:
    command = "$GEMINI_PROJECT_DIR/.gemini/hooks/mock-response.sh"
    settings = project(tmp_path, "BeforeModel", command, **{"mock-response.sh": MOCK_RESPONSE})
    async with gateway_after_request(settings, conversation("Hello?")) as (gateway, status, answer):
        assert (status, answer_text(answer)) == (200, "A mocked response, for a test.")
        assert answer["candidates"][0]["finishReason"] == "STOP"
        assert not gateway.recorded


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        (".gemini/hooks/filter-tools.sh", {"filter-tools.sh": FILTER_TOOLS}),
        ('echo "read_file,write_file,replace"', {}),
    ],
    ids=["nested JSON", "plain names"],
)
async def test_only_the_tools_that_the_hook_names_can_be_called(
    tmp_path: Path, command: str, scripts: dict[str, str]
) -> None:
    settings = project(tmp_path, "BeforeToolSelection", command, **scripts)
    body = conversation("Please run_shell_command now.")
    async with gateway_after_request(settings, body) as (gateway, status, answer):
        assert status == 200
        # The upstream calls the tool that the prompt names, as long as it may.
        [call] = answer["candidates"][0]["content"]["parts"]
        assert call["functionCall"]["name"] == "read_file"
        sent = gateway.generated[0].body
        calling = sent.pop("toolConfig")["functionCallingConfig"]
        assert (calling["mode"], set(calling["allowedFunctionNames"])) == ("ANY", set(TOOLS[:3]))
        assert sent == body


async def test_instructions_that_a_hook_adds_become_the_system_instruction(tmp_path: Path) -> None:
    command = "$GEMINI_PROJECT_DIR/.gemini/hooks/instructions.py"
    settings = project(tmp_path, "BeforeModel", command, **{"instructions.py": ADD_INSTRUCTIONS})
    body = conversation("What is in it?")
    async with gateway_after_request(settings, body) as (gateway, status, _):
        assert status == 200
        sent = gateway.generated[0].body
        assert "Answer in one sentence." in [part["text"] for part in sent["systemInstruction"]["parts"]]
        assert {**sent, "systemInstruction": body["systemInstruction"]} == body


async def test_exit_code_2_blocks_the_call_and_stderr_is_the_reason(tmp_path: Path) -> None:
    settings = project(tmp_path, "BeforeModel", "bash .gemini/hooks/block.sh", **{"block.sh": BLOCK})
    async with gateway_after_request(settings, conversation("My password is 1234.")) as (
        gateway,
        status,
        answer,
    ):
        assert (status, answer["error"]["message"]) == (403, "Passwords stay out of prompts")
        assert not gateway.recorded


async def test_the_same_hook_lets_other_calls_through_unchanged(tmp_path: Path) -> None:
    settings = project(tmp_path, "BeforeModel", "bash .gemini/hooks/block.sh", **{"block.sh": BLOCK})
    async with gateway_after_request(settings, conversation("My name is Ada.")) as (gateway, status, _):
        assert status == 200
        assert gateway.generated[0].body == conversation("My name is Ada.")


async def test_a_hook_finds_its_project_its_session_and_its_input_as_documented(tmp_path: Path) -> None:
    command = 'cat > "$GEMINI_CWD/input.json"; env > env.txt'
    settings = project(tmp_path, "BeforeModel", command)
    async with gateway_after_request(settings, conversation("Hello?"), session="/s/abc") as (_, status, _):
        assert status == 200
    shown = json.loads((tmp_path / "input.json").read_text())
    assert shown.keys() >= {"session_id", "transcript_path", "cwd", "hook_event_name", "timestamp"}
    assert (shown["hook_event_name"], shown["session_id"]) == ("BeforeModel", "abc")
    assert shown["llm_request"]["messages"][-1] == {"role": "user", "content": "Hello?"}
    environment = dict(
        line.split("=", 1) for line in (tmp_path / "env.txt").read_text().splitlines() if "=" in line
    )
    assert environment["GEMINI_PROJECT_DIR"] == environment["CLAUDE_PROJECT_DIR"] == str(tmp_path)
    assert environment["GEMINI_SESSION_ID"] == "abc"
