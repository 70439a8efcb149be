"""The code that `hookgate agents show NAME` prints is run. Gemini CLI's settings are those of its tests."""

import sys
from pathlib import Path

import pytest
from support.clients.environments import ADK, ANTIGRAVITY, FRAMEWORKS, OLDER_SDK
from support.clients.node import FRAMEWORKS_DIR, NODE_DIR, need_frameworks, need_node
from support.gateway.loopback import listens, running_gateway
from support.programs.commands import run_command

from hookgate.proxy.cli.agents.known import find_agent

PROMPT = "Say good morning."
RUN_ADK = """
import asyncio
from google.adk.runners import InMemoryRunner

async def main():
    runner = InMemoryRunner(agent=agent, app_name="app")
    for event in await runner.run_debug("Say good morning.", quiet=True):
        print(event.content.parts[0].text)

asyncio.run(main())
"""
RUN_ANTIGRAVITY = """
import asyncio
from google.antigravity import Agent

async def main():
    async with Agent(config) as agent:
        print(await (await agent.chat("Say good morning.")).text())

asyncio.run(main())
"""
RUNS_IT = {
    "google-genai": "",
    "google-genai-js": "",
    "google-adk": RUN_ADK,
    "google-adk-apigee": RUN_ADK,
    "antigravity-sdk": RUN_ANTIGRAVITY,
    "langchain": "",
    "litellm": "",
    "pydantic-ai": "",
    "llama-index": "",
    "langchain-js": "",
    "langchain-google-js": "",
    "genkit-js": "",
    "ai-sdk-js": "",
    "mastra-js": "",
    "generative-ai-js": "",
    "openai": "",
    "openai-js": "",
}
"""What makes a call with the printed code, behind it."""

PYTHONS = {
    "google-adk": ADK.python,
    "google-adk-apigee": ADK.python,
    "antigravity-sdk": ANTIGRAVITY.python,
    "langchain": FRAMEWORKS.python,
    "litellm": FRAMEWORKS.python,
    "pydantic-ai": OLDER_SDK.python,
    "llama-index": OLDER_SDK.python,
}
ON_NODE = (
    *("langchain-js", "langchain-google-js", "genkit-js", "ai-sdk-js", "mastra-js"),
    "generative-ai-js",
)
SLOW = ("langchain", "litellm", "pydantic-ai", "llama-index", *ON_NODE)


def program(name: str, code: str, folder: Path) -> tuple[list[str], Path]:
    """The command that runs an agent's program, and the folder to run it in."""
    if name in ON_NODE:
        need_frameworks()
        return ["node", "--input-type=module", "--eval", code], FRAMEWORKS_DIR
    if name.endswith("-js"):
        need_node()
        return ["node", "--input-type=module", "--eval", code], NODE_DIR
    return [PYTHONS.get(name, lambda: sys.executable)(), "-c", code], folder


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in RUNS_IT]
)
async def test_the_printed_settings_bring_the_agents_calls_to_the_hooks(name: str, tmp_path: Path) -> None:
    agent = find_agent(name)
    seen: list[dict[str, object]] = []
    async with running_gateway({"BeforeModel": [listens(seen)]}) as gateway:
        code = agent.program(gateway.url, "any-key") + RUNS_IT[name]
        command, folder = program(name, code, tmp_path)
        variables = {
            **agent.variables(gateway.url, "any-key"),
            "HOME": str(tmp_path),
            **({} if name == "antigravity-sdk" else {"GEMINI_API_KEY": "any"}),
            **dict(FRAMEWORKS.variables),
        }
        ran = await run_command(command, folder, variables)
        [call] = gateway.generated
    assert ran.exit_code == 0, ran.stderr
    assert "You said: " in ran.stdout
    assert PROMPT in ran.stdout
    assert len(seen) == 1
    assert agent.recognizes(call.headers["user-agent"].partition("/")[0], call.path_qs)


WITH_VARIABLES = {
    "google-genai": (
        "from google import genai\nclient = genai.Client()\nprint(client.models.list()[0].name)",
        "/v1/models",
    ),
    "openai": (
        "from openai import OpenAI\nprint(OpenAI().models.list().data[0].id)",
        "/v1beta/openai/models",
    ),
    "openai-js": (
        'import OpenAI from "openai";\nconsole.log((await new OpenAI().models.list()).data[0].id);',
        "/v1beta/openai/models",
    ),
}


@pytest.mark.parametrize("name", WITH_VARIABLES)
async def test_the_variables_suffice(name: str, tmp_path: Path) -> None:
    code, path = WITH_VARIABLES[name]
    agent = find_agent(name)
    async with running_gateway() as gateway:
        command, folder = program(name, code, tmp_path)
        ran = await run_command(command, folder, agent.variables(gateway.url, "any-key"))
    assert ran.exit_code == 0, ran.stderr
    assert [call.path_qs.partition("?")[0] for call in gateway.recorded] == [path]
