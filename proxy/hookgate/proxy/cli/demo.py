"""`hookgate demo`: a real google-genai client uses the gateway, offline, in checked scenes."""

import argparse
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from google import genai
from google.genai import errors, types
from rich.console import Console
from rich.markup import escape

from hookgate.hooks import Engine, load_settings
from hookgate.proxy import mock_upstream
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.cli.init import command_name, examples_folder
from hookgate.proxy.config import UpstreamSettings
from hookgate.proxy.errors import pluralize
from hookgate.proxy.mock_upstream import MockUpstream
from hookgate.proxy.upstream.client import Upstreams
from hookgate.translator import declared_names


async def run_demo(_: argparse.Namespace) -> int:
    """Start upstream and gateway on free ports and play the scenes. Returns 0 if all checks pass, else 1.

    The agent needs google-genai and rich, which hookgate[demo] installs.
    """
    examples = examples_folder()
    script = mock_upstream.load_script(examples / "upstream-script.json")
    engine = Engine(load_settings([examples / "settings.json"]))
    async with (
        mock_upstream.run_mock_upstream(script) as mock,
        Upstreams(UpstreamSettings(gemini=mock.url)) as upstream,
        serve_on(Gateway(engine, upstream).handle, "127.0.0.1", 0) as url,
    ):
        code = await play_scenes(url, mock)
    if code == 0:
        print("Next:", shlex.join([command_name(), "serve", "--hooks", str(examples / "settings.json")]))
    return code


MODEL = "gemini-3.8-flash"


@dataclass(frozen=True, slots=True)
class ModelRefused:
    """An error that the SDK raised: the HTTP status, and the message for the user."""

    code: int
    message: str


class DemoAgent:
    """A small agent: it asks, streams, and calls tools."""

    def __init__(self, client: genai.Client) -> None:
        self._client = client.aio

    async def ask(self, prompt: str, tools: Sequence[Callable[..., Any]] = ()) -> str | ModelRefused:
        """Return one answer. The SDK itself runs the Python functions that the model calls."""
        chat = self._client.chats.create(
            model=MODEL, config=types.GenerateContentConfig(tools=list(tools)) if tools else None
        )
        try:
            answer = await chat.send_message(prompt)
        except errors.APIError as error:
            return ModelRefused(error.code, error.message or "")
        return answer.text or ""

    async def stream(self, prompt: str) -> list[str]:
        """Return the text of each event of a streamed answer."""
        events = await self._client.models.generate_content_stream(model=MODEL, contents=prompt)
        return [event.text or "" async for event in events]


@asynccontextmanager
async def demo_agent(base_url: str) -> AsyncIterator[DemoAgent]:
    """Yield an agent whose base URL is the gateway: nothing else of a client must change."""
    # The SDK's own session would send calls to this machine to a proxy that the environment names.
    async with aiohttp.ClientSession(trust_env=False) as session:
        options = types.HttpOptions(base_url=base_url, aiohttp_client=session)
        client = genai.Client(api_key="demo-needs-no-key", vertexai=False, http_options=options)
        try:
            yield DemoAgent(client)
        finally:
            await client.aio.aclose()
            client.close()


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of a scene: the dialogue, and each check with its result."""

    lines: list[tuple[str, str]]
    checks: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DemoScene:
    """One scene, with its title and a description of its hook."""

    title: str
    hook: str
    play: Callable[[DemoAgent, MockUpstream], Awaitable[Shown]]


async def _plain(agent: DemoAgent, upstream: MockUpstream) -> Shown:
    answer = await agent.ask("What is a hook?")
    return Shown(
        [("asks", "What is a hook?"), ("gets", str(answer))],
        {
            "the agent received the upstream's answer unchanged": answer == "You said: What is a hook?",
            "the upstream was asked once": len(upstream.recorded) == 1,
        },
    )


async def _redacted_stream(agent: DemoAgent, upstream: MockUpstream) -> Shown:
    events = await agent.stream("Who looks after the staging database?")
    text = "".join(events)
    return Shown(
        [("asks", "Who looks after the staging database?"), *(("gets", event) for event in events)],
        {
            "the email address and the password are masked": text.count("[REDACTED]") == 2,
            "neither of them reached the agent": "@example.com" not in text and "hunter2" not in text,
            "the answer arrived as a stream": len(events) == 4,
        },
    )


async def _synthetic(agent: DemoAgent, upstream: MockUpstream) -> Shown:
    before = len(upstream.recorded)
    answer = await agent.ask("Hello, are you there?")
    return Shown(
        [("asks", "Hello, are you there?"), ("gets", str(answer))],
        {
            "the hook answered": answer == "The gateway is here. No model was asked.",
            "the upstream was not asked": len(upstream.recorded) == before,
        },
    )


async def _denied(agent: DemoAgent, upstream: MockUpstream) -> Shown:
    before = len(upstream.recorded)
    prompt = "What is wrong with this key? -----BEGIN PRIVATE KEY----- MIIEvQ…"
    answer = await agent.ask(prompt)
    refused = answer if isinstance(answer, ModelRefused) else ModelRefused(200, "")
    return Shown(
        [("asks", prompt), ("gets", f"error {refused.code}: {refused.message}")],
        {
            "the SDK raised 403 with the hook's reason": refused
            == ModelRefused(403, "This prompt contains a private key. Remove it and ask again."),
            "the key never reached the upstream": len(upstream.recorded) == before,
        },
    )


async def _narrowed(agent: DemoAgent, upstream: MockUpstream) -> Shown:
    ran: list[str] = []

    def write_file(file_path: str, content: str) -> str:
        """Write a file."""
        ran.append("write_file")
        return f"wrote {len(content)} bytes to {file_path}"

    def read_file(file_path: str) -> str:
        """Read a file."""
        ran.append("read_file")
        return f"the content of {file_path}"

    tools: list[Callable[..., Any]] = [write_file, read_file]
    answer = await agent.ask("Use a tool.", tools)
    request = upstream.recorded[-1].body or {}
    return Shown(
        [
            ("asks", f"Use a tool. (It offers {', '.join(tool.__name__ for tool in tools)}.)"),
            ("runs", ", ".join(ran)),
            ("gets", str(answer)),
        ],
        {
            "the model was offered only read_file": list(declared_names(request)) == ["read_file"],
            "the SDK ran read_file, and nothing else": ran == ["read_file"],
            "the client returned the function call with its thought signature": "thoughtSignature"
            in str(request.get("contents")),
            "the tool's result reached the answer": "the content of" in str(answer),
        },
    )


SCENES = (
    DemoScene("A plain call", "no hook has anything to do", _plain),
    DemoScene("A redacted stream", "redact.py, a runtime hook on AfterModel", _redacted_stream),
    DemoScene("A synthetic answer", "canned_answer.sh, a command hook on BeforeModel", _synthetic),
    DemoScene("A denied prompt", "deny_private_keys.py, exit code 2 on BeforeModel", _denied),
    DemoScene(
        "Narrowed tools", "read_only_tools.json, printed by a command hook on BeforeToolSelection", _narrowed
    ),
)


async def play_scenes(gateway_url: str, upstream: MockUpstream) -> int:
    """Play every scene. Returns 0 if all checks pass, else 1."""
    console = Console(file=getattr(sys.stdout, "unescaped", sys.stdout), highlight=False, soft_wrap=True)
    console.print(f"A google-genai client -> hookgate on {gateway_url} -> mock upstream (not a model)\n")
    failed = 0
    async with demo_agent(gateway_url) as client:
        for number, scene in enumerate(SCENES, 1):
            shown = await scene.play(client, upstream)
            _print(console, number, scene, shown)
            failed += sum(not holds for holds in shown.checks.values())
    if failed:
        console.print(f"[bold red]{pluralize(failed, 'check')} failed[/]")
        return 1
    console.print(f"[bold green]All {len(SCENES)} scenes passed.[/]")
    return 0


def _print(console: Console, number: int, scene: DemoScene, shown: Shown) -> None:
    console.print(f"[bold]{number}. {escape(scene.title)}[/] [dim]({escape(scene.hook)})[/]")
    for who, text in shown.lines:
        console.print(f"   [cyan]agent {who}:[/] {escape(text)}")
    for check, holds in shown.checks.items():
        mark = "[green]ok[/]    " if holds else "[bold red]FAILED[/]"
        console.print(f"   {mark} {escape(check)}")
    console.print()
