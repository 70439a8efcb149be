"""An agent of Antigravity's Python SDK with the shim's hooks, asked each prompt in turn.

The first word is a folder to work in, the second the URL at which it calls the model. If the third is a
settings file, its hooks run in this process; if it is empty, a gateway is at the URL. Prints a JSON line for
each answer or error, and `{"ran"}` for each run of its tool. support/environments.py runs it.
"""

import json
from pathlib import Path

from google.antigravity import Agent, LocalAgentConfig, types
from google.antigravity.hooks import policy

from hookgate.hooks import Engine, load_settings
from hookgate.shim import Shim
from hookgate.shim.antigravity import HookgateHooks

KEY = "any"


def get_weather(city: str) -> str:
    """The weather in a city."""
    print(json.dumps({"ran": city}))
    if city == "Nowhere":
        raise OSError("no way, with key k-123")
    return f"storm in {city}"


def shim(url: str, settings: str) -> Shim:
    if not settings:
        return Shim(url, KEY)
    return Shim(Engine(load_settings([Path(settings)])))


async def main(folder: str, url: str, settings: str, *prompts: str) -> None:
    gate = HookgateHooks(shim(url, settings), session_id="s-1")
    endpoint = types.GeminiAPIEndpoint(base_url=gate.base_url or url, api_key=KEY)
    config = LocalAgentConfig(
        model=types.ModelTarget(name="gemini-2.5-flash", endpoint=endpoint),
        workspaces=[folder],
        app_data_dir=folder,
        tools=[get_weather],
        policies=[policy.allow_all()],
        hooks=gate.hooks,
    )
    async with Agent(config) as agent:
        for prompt in prompts:
            try:
                print(json.dumps({"text": await (await agent.chat(prompt)).text()}))
            except (types.AntigravityConnectionError, types.AntigravityExecutionError) as error:
                print(json.dumps({"error": str(error)}))
