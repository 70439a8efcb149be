"""An agent of Antigravity's Python SDK, which works in a folder, asked one prompt at each base URL.

Its harness runs the agent. It prints JSON lines: the text of each answer, or the error.
support/environments.py runs it.
"""

import json
import re

from google.antigravity import Agent, LocalAgentConfig, types
from google.antigravity.hooks import policy


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


async def ask(folder: str, key: str, prompt: str, base_url: str) -> None:
    endpoint = types.GeminiAPIEndpoint(base_url=base_url, api_key=key)
    config = LocalAgentConfig(
        model=types.ModelTarget(name="gemini-2.5-flash", endpoint=endpoint),
        workspaces=[folder],
        app_data_dir=folder,
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


async def main(folder: str, key: str, prompt: str, *base_urls: str) -> None:
    for base_url in base_urls:
        await ask(folder, key, prompt, base_url)
