"""The Interactions API as an application uses it, with SDKs whose base URL is a gateway."""

from typing import Any

from support.clients.node import run_script
from support.clients.python_sdk import MODEL, python_client

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}


async def interact_with(client: str, base_url: str, prompt: str, *, stream: bool) -> list[dict[str, Any]]:
    """What a program printed: `{"text"}`, `{"call"}`, `{"status"}` and `{"error"}`, in order."""
    if client == "node":
        ran = await run_script("interact.mjs", "stream" if stream else "whole", base_url, prompt)
        assert (ran.exit_code, ran.stderr) == (0, "")
        return [each for each in ran.lines if isinstance(each, dict)]
    try:
        return await _interact(base_url, prompt, stream=stream)
    except Exception as error:
        if not hasattr(error, "status_code"):
            raise
        return [{"error": {"status": error.status_code, "message": str(error)}}]


async def _interact(base_url: str, prompt: str, *, stream: bool) -> list[dict[str, Any]]:
    printed: list[dict[str, Any]] = []
    async with python_client(base_url) as sdk:
        asked: dict[str, Any] = {"model": MODEL, "input": prompt, "tools": [WEATHER]}
        if not stream:
            answer = await sdk.aio.interactions.create(**asked)
            calls = [step for step in answer.steps or [] if step.type == "function_call"]
            printed += [{"call": {"name": call.name, "arguments": call.arguments}} for call in calls]
            return [*printed, {"text": answer.output_text or ""}, {"status": answer.status}]
        async for event in await sdk.aio.interactions.create(**asked, stream=True):
            if event.event_type == "step.delta" and event.delta.type == "text":
                printed.append({"text": event.delta.text})
            elif event.event_type == "step.start" and event.step.type == "function_call":
                printed.append({"call": {"name": event.step.name}})
            elif event.event_type == "interaction.completed":
                printed.append({"status": event.interaction.status})
    return printed


def text_of(printed: list[dict[str, Any]]) -> str:
    return "".join(each.get("text", "") for each in printed)
