"""An agent of google-adk at the base URL named first, asked a prompt. Prints a JSON line for each piece.

A third argument, "json", gives it an output schema. support/environments.py runs it.
"""

import json
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import errors, types
from pydantic import BaseModel

APP, USER, SESSION = "weather", "user", "session"


class Answer(BaseModel):
    answer: str


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


async def main(base_url: str, prompt: str, kind: str = "") -> None:
    model = Gemini(model="gemini-2.5-flash", base_url=base_url)
    does: dict[str, Any] = {"output_schema": Answer} if kind == "json" else {"tools": [get_weather]}
    runner = InMemoryRunner(agent=LlmAgent(name="helper", model=model, **does), app_name=APP)
    await runner.session_service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
    events = runner.run_async(
        user_id=USER,
        session_id=SESSION,
        new_message=types.UserContent(prompt),
        run_config=RunConfig(streaming_mode=StreamingMode.SSE),
    )
    try:
        async for event in events:
            # The last event of an answer repeats the whole of it.
            if event.partial and event.content:
                print(json.dumps({"text": "".join(part.text or "" for part in event.content.parts or [])}))
    except errors.APIError as error:
        name = type(error).__name__
        print(json.dumps({"error": {"name": name, "status": error.code, "message": error.message}}))
