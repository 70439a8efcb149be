"""An agent of google-adk with the plugin, at the gateway named first, asked each prompt that follows in turn.

The prompt `(result)` sends a result of the latest call, as a user interface does when a long run has ended.
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
    latest = types.FunctionCall()
    for prompt in prompts:
        result = types.FunctionResponse(id=latest.id, name=latest.name, response={"result": "no storm"})
        parts = [types.Part(function_response=result) if prompt == "(result)" else types.Part(text=prompt)]
        events = runner.run_async(user_id=USER, session_id=SESSION, new_message=types.UserContent(parts))
        async for event in events:
            for part in event.content.parts if event.content else []:
                latest = part.function_call or latest
                print(json.dumps(described(part)))
    await runner.close()
