"""An agent of Antigravity's Python SDK, asked one prompt at each base URL: `ask.py PROMPT URL…`.

Its harness runs the agent. GEMINI_API_KEY is the key, and the current folder the workspace. It prints JSON
lines: the text of each answer, or the error. It runs in an environment of its own (`make antigravity`).
"""

import asyncio
import json
import os
import re
import sys

from google.antigravity import Agent, LocalAgentConfig, types
from google.antigravity.hooks import policy


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


async def ask(prompt: str, base_url: str) -> None:
    endpoint = types.GeminiAPIEndpoint(base_url=base_url, api_key=os.environ["GEMINI_API_KEY"])
    config = LocalAgentConfig(
        model=types.ModelTarget(name="gemini-2.5-flash", endpoint=endpoint),
        workspaces=[os.getcwd()],
        tools=[get_weather],
        policies=[policy.allow_all()],
    )
    async with Agent(config) as agent:
        try:
            print(json.dumps({"text": await (await agent.chat(prompt)).text()}))
        except types.AntigravityConnectionError as error:
            status = re.search(r"Error (\d+)", str(error))
            shown = {"name": type(error).__name__, "status": status and status[1], "message": str(error)}
            print(json.dumps({"error": shown}))


async def main(prompt: str, *base_urls: str) -> None:
    for base_url in base_urls:
        await ask(prompt, base_url)


asyncio.run(main(*sys.argv[1:]))
