"""An agent of Antigravity's Python SDK in a session of a gateway.

GEMINI_API_KEY=… python examples/shim_antigravity.py http://127.0.0.1:8787 "What is the weather in Oslo?"
"""

import asyncio
import os
import sys

from google.antigravity import Agent, LocalAgentConfig, types
from google.antigravity.hooks import policy

from hookgate.shim.antigravity import HookgateHooks


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


async def main(url: str, prompt: str) -> None:
    gate = HookgateHooks(url)
    endpoint = types.GeminiAPIEndpoint(base_url=gate.base_url, api_key=os.environ["GEMINI_API_KEY"])
    text = types.ModelTarget(name="gemini-3.8-flash", endpoint=endpoint)
    kinds = [types.ModelType.IMAGE]
    image = types.ModelTarget(name="gemini-3.1-flash-lite-image", types=kinds, endpoint=endpoint)
    allowed = [policy.allow_all()]
    config = LocalAgentConfig(models=[text, image], tools=[get_weather], hooks=gate.hooks, policies=allowed)
    async with Agent(config) as agent:
        print(await (await agent.chat(prompt)).text())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
