"""OpenAI's SDKs as an application uses them, with a gateway as the base URL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import APIError, APIStatusError, AsyncOpenAI
from support.node import run_script
from support.python_sdk import MODEL

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}


@asynccontextmanager
async def openai_client(base_url: str, path: str = "/v1beta/openai/") -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="any", base_url=f"{base_url}{path}") as client:
        yield client


async def chat_with(client: str, base_url: str, prompt: str, *, stream: bool) -> list[dict[str, Any]]:
    """What a program printed: `{"text"}`, `{"call"}`, `{"status"}` and `{"error"}`, in order."""
    if client == "node":
        ran = await run_script("chat.mjs", "stream" if stream else "whole", base_url, prompt)
        assert (ran.exit_code, ran.stderr) == (0, "")
        return [each for each in ran.lines if isinstance(each, dict)]
    printed: list[dict[str, Any]] = []
    try:
        async with openai_client(base_url) as sdk:
            await (_stream if stream else _ask)(sdk, prompt, printed)
    except APIError as error:
        status = error.status_code if isinstance(error, APIStatusError) else None
        printed.append({"error": {"status": status, "message": error.message}})
    return printed


async def _ask(sdk: AsyncOpenAI, prompt: str, printed: list[dict[str, Any]]) -> None:
    messages: Any = [{"role": "user", "content": prompt}]
    answer = await sdk.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    _print_end(answer.choices[0], printed, [{"text": answer.choices[0].message.content or ""}])


async def _stream(sdk: AsyncOpenAI, prompt: str, printed: list[dict[str, Any]]) -> None:
    messages: Any = [{"role": "user", "content": prompt}]
    async with sdk.chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER]) as events:
        printed += [{"text": event.delta} async for event in events if event.type == "content.delta"]
        _print_end((await events.get_final_completion()).choices[0], printed, [])


def _print_end(choice: Any, printed: list[dict[str, Any]], texts: list[dict[str, Any]]) -> None:
    calls = choice.message.tool_calls or []
    printed += [{"call": {"name": each.function.name}} for each in calls]
    printed += [*texts, {"status": choice.finish_reason}]
