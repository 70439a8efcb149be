"""An agent of google-adk whose turns and tools run through a gateway's hooks.

GOOGLE_API_KEY=… python examples/shim_adk.py http://127.0.0.1:8787 "What is the weather in Oslo?"
"""

import asyncio
import sys

from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner

from hookgate.shim.adk import HookgatePlugin


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


async def main(url: str, prompt: str) -> None:
    model = Gemini(model="gemini-3.8-flash", base_url=url)
    agent = LlmAgent(name="helper", model=model, tools=[get_weather])
    runner = InMemoryRunner(agent=agent, app_name="weather", plugins=[HookgatePlugin(url)])
    await runner.run_debug(prompt)
    await runner.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
