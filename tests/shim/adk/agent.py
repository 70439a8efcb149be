"""An agent of google-adk with the plugin, at the gateway named first, asked each prompt that follows in turn.

Prints a JSON line for each text, call and result, and `{"ran"}` for each run of its tool.
support/environments.py runs it.
"""

import json
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

from hookgate.shim.adk import HookgatePlugin

APP, USER, SESSION = "weather", "user", "s-1"


def get_weather(city: str) -> str:
    """The weather in a city."""
    print(json.dumps({"ran": city}))
    if city == "Nowhere":
        raise OSError("no way, with key k-123")
    return f"storm in {city}"


def described(part: types.Part) -> dict[str, Any]:
    if part.function_call:
        return {"call": part.function_call.args}
    if part.function_response:
        return {"result": part.function_response.response}
    return {"text": part.text}


async def main(url: str, *prompts: str) -> None:
    agent = LlmAgent(name="helper", model=Gemini(model="gemini-2.5-flash", base_url=url), tools=[get_weather])
    runner = InMemoryRunner(agent=agent, app_name=APP, plugins=[HookgatePlugin(url)])
    await runner.session_service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
    for prompt in prompts:
        events = runner.run_async(user_id=USER, session_id=SESSION, new_message=types.UserContent(prompt))
        async for event in events:
            for part in event.content.parts if event.content else []:
                print(json.dumps(described(part)))
    await runner.close()
