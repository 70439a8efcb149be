"""The real LiteLLM proxy as a client of the guardrail service, configured as docs/guardrails.md says."""

import asyncio
import json
import os
import re
import socket
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.clients.environments import FRAMEWORKS
from support.gateway.loopback import gateway_before, listens, running_upstream, runs
from support.hooks.policies import REFUSAL, no_rockets
from support.places import DOCS

pytestmark = pytest.mark.slow

REDACT = {"type": "builtin", "builtin": "redact", "options": {"detect": ["EMAIL"]}}
TOOLS = {"type": "builtin", "builtin": "tools", "options": {"allow": ["get_weather"]}}
SEA = "The sea is wide and blue. " * 20
MASTER = "sk-master"
MODEL = """\
model_list:
  - model_name: gemini
    litellm_params: {{model: openai/gemini-3.8-flash, api_base: "{url}/v1beta/openai", api_key: any}}
"""


def guardrails(gateway_url: str) -> str:
    """The configuration on the page, for this gateway."""
    page = (DOCS / "guardrails.md").read_text()
    [block] = re.findall(r"^ {4}guardrails:\n(?: {4}.*\n)+", page, re.MULTILINE)
    return textwrap.dedent(block).replace("http://127.0.0.1:8787", gateway_url)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@asynccontextmanager
async def litellm(folder: Path, gateway_url: str, upstream_url: str) -> AsyncIterator[str]:
    """LiteLLM's proxy before an upstream, with the gateway as its guardrail; gives its base URL."""
    config = folder / "config.yaml"
    config.write_text(MODEL.format(url=upstream_url) + guardrails(gateway_url))
    port = _free_port()
    program = Path(FRAMEWORKS.python()).with_name("litellm")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "HOOKGATE_KEY": "key-of-litellm",
        "LITELLM_MASTER_KEY": MASTER,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    with (folder / "litellm.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(program, "--config", config, "--host", "127.0.0.1", "--port", str(port)),
            env=environment,
            stdout=log,
            stderr=log,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            async with asyncio.timeout(120):
                await _until_alive(url)
            yield url
        finally:
            process.terminate()
            await process.wait()


async def _until_alive(url: str) -> None:
    async with aiohttp.ClientSession() as client:
        while True:
            try:
                async with client.get(f"{url}/health/liveliness") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.5)


async def chat(url: str, text: str, **more: Any) -> tuple[int, str]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    headers = {"Authorization": f"Bearer {MASTER}"}
    body = {"model": "gemini", "messages": messages, **more}
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


def stream_text(answer: str) -> str:
    """The text of a stream."""
    events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: {")]
    choices = [choice for event in events for choice in json.loads(event).get("choices", [])]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def function(name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {}}},
    }


async def test_the_policy_of_the_gateway_holds_for_calls_through_litellm(tmp_path: Path) -> None:
    seen: list[Any] = []
    hooks = {
        "BeforeModel": [listens(seen), runs(no_rockets), REDACT],
        "BeforeToolSelection": [TOOLS],
        "AfterModel": [REDACT],
    }
    said = f"{SEA}Write to anna@example.com today. {SEA}"
    async with (
        running_upstream({"rules": [{"answer": {"text": said}}]}) as (upstream, recorded),
        gateway_before(upstream, hooks) as gateway,
        litellm(tmp_path, gateway, upstream) as url,
    ):
        status, answer = await chat(url, "I am bob@example.com.")
        assert status == 200
        assert "Write to [EMAIL] today." in answer
        assert "anna@" not in answer

        status, answer = await chat(url, "I am bob@example.com.", stream=True)
        assert stream_text(answer) == said.replace("anna@example.com", "[EMAIL]")
        assert "anna" not in answer

        for stream in (False, True):
            status, answer = await chat(url, "How do I build a rocket?", stream=stream)
            assert status == 400
            assert REFUSAL in answer

        tools = [function("get_weather"), function("delete_everything")]
        status, _ = await chat(url, "What is the weather?", tools=tools)
        assert status == 200
        status, _ = await chat(url, "What is the weather?", tools=tools[1:])
        assert status == 400

        bodies = [each.body for each in recorded if each.path_qs.endswith("/chat/completions")]
        assert len(bodies) == 3
        assert "bob@" not in json.dumps(bodies)
        assert [each["function"]["name"] for each in bodies[-1]["tools"]] == ["get_weather"]
    shown = [message["content"] for message in seen[0]["llm_request"]["messages"]]
    assert shown == ["Be brief.", "I am bob@example.com."]


async def test_litellm_refuses_calls_if_the_gateway_is_down(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{_free_port()}"
    async with (
        running_upstream() as (upstream, recorded),
        litellm(tmp_path, nobody, upstream) as url,
    ):
        status, _ = await chat(url, "Good morning.")
        assert status >= 400
        assert not [each for each in recorded if each.path_qs.endswith("/chat/completions")]
