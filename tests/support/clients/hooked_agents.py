"""Claude Code, Codex and GitHub Copilot, headless: a scripted model, and the hooks of `shim install`."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from support.gateway.event_service import hookgate
from support.programs.commands import missing, run_command

_FOLDER = Path(__file__).parents[2] / "e2e" / "hooked_agents"
_PROGRAMS = _FOLDER / "node_modules" / ".bin"
_NOWHERE = "http://127.0.0.1:9"
Json = dict[str, Any]

_CODEX_CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
_CODEX = ("exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust")
_SHELLS = {"Bash": "command", "bash": "command", "exec_command": "cmd"}
"""The tools that run a command, and the argument that has it."""


@dataclass
class ScriptedModel:
    """A model of Anthropic's and OpenAI's APIs, which calls the shell once, then has finished."""

    command: str
    url: str = ""
    results: list[str] = field(default_factory=list)
    """The results of tools that reached it, as JSON."""

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/messages`, streamed."""
        body = await request.json()
        contents = [each["content"] for each in body["messages"] if isinstance(each["content"], list)]
        done = [part for content in contents for part in content if part["type"] == "tool_result"]
        call = self._call(body, done)
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
        }
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": "Finished."}
        if call is not None:
            name, arguments = call
            block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        end = {"stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None}
        return await _streamed(
            request,
            {"type": "message_start", "message": {**message, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": usage},
            {"type": "message_stop"},
        )

    async def responses(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/responses`, streamed."""
        body = await request.json()
        done = [item for item in body["input"] if item.get("type") == "function_call_output"]
        call = self._call(body, done)
        text = {"type": "output_text", "text": "Finished.", "annotations": []}
        item: Json = {"type": "message", "id": "m1", "role": "assistant", "content": [text]}
        if call is not None:
            name, arguments = call
            called = {"id": "f1", "call_id": "c1", "name": name, "arguments": json.dumps(arguments)}
            item = {"type": "function_call", **called}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return await _streamed(
            request,
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
        )

    def _call(self, body: Json, done: list[Json]) -> tuple[str, Json] | None:
        """Return the call of the shell with its arguments, or None if there is a result, or no shell."""
        self.results.extend(json.dumps(result) for result in done)
        shells = [tool.get("name") for tool in body.get("tools", ()) if tool.get("name") in _SHELLS]
        if done or not shells:
            return None
        return shells[0], {_SHELLS[shells[0]]: self.command, "description": "A command"}


async def _streamed(request: web.Request, *events: Json) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    return response


@asynccontextmanager
async def scripted_model(command: str) -> AsyncIterator[ScriptedModel]:
    """A scripted model on a free port of 127.0.0.1."""
    model = ScriptedModel(command)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/messages", model.messages)
    app.router.add_post("/v1/responses", model.responses)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield model
    finally:
        await runner.cleanup()


async def ask_agent(
    name: str, prompt: str, model: ScriptedModel, gateway: str, folder: Path, *, settings: Json | None = None
) -> str:
    """Ask an agent of a user whose home is in the folder, and return what it prints.

    Its hooks are those that `hookgate shim install` writes, or those in `settings` for Claude Code.
    """
    if not (_FOLDER / "node_modules" / ".installed").exists():
        missing("needs Claude Code, Codex and Copilot: run `make hooked-agents`")
    home, project = folder / "home", folder / "project"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text(_CODEX_CONFIG.format(url=model.url))
    project.mkdir()
    env = {"HOME": str(home), "HOOKGATE_STATE": str(folder / "state")}
    if settings is None:
        installed = await hookgate("shim", "install", name, "--yes", "--gateway", gateway, env=env)
        assert installed.code == 0, installed
    else:
        (home / ".claude").mkdir()
        (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    command, variables = _COMMANDS[name](prompt, model.url)
    proxies = {"HTTPS_PROXY": _NOWHERE, "HTTP_PROXY": _NOWHERE, "NO_PROXY": "127.0.0.1"}
    own = {"PATH": os.environ["PATH"], "HOME": str(home), **proxies, **variables}
    ran = await run_command([str(_PROGRAMS / command[0]), *command[1:]], project, own)
    return ran.stdout


_COMMANDS = {
    "claude-code": lambda prompt, url: (
        ["claude", "-p", prompt, "--model", "claude-sonnet-5", "--allowedTools", "Bash"],
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "k",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    ),
    "codex": lambda prompt, url: (["codex", *_CODEX, prompt], {"OPENAI_API_KEY": "k"}),
    "copilot": lambda prompt, url: (
        ["copilot", "-p", prompt, "--allow-all-tools"],
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": url,
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "k",
            "COPILOT_MODEL": "claude-sonnet-4",
        },
    ),
}
HOOKED_AGENTS = tuple(_COMMANDS)
