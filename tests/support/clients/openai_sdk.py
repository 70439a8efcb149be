"""OpenAI's SDKs as an application uses them, with a gateway as the base URL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from openai import APIError, APIStatusError, AsyncOpenAI
from support.clients.node import run_script
from support.clients.python_sdk import MODEL

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Any = {"name": "get_weather", "parameters": PARAMETERS}
WEATHER: Any = {"type": "function", "function": FUNCTION}
FLAT_WEATHER: Any = {"type": "function", "strict": False, **FUNCTION}
"""The same tool, as the Responses API declares it."""

Printed = list[dict[str, Any]]
"""What a program prints: `{"text"}`, `{"call"}`, `{"status"}` and `{"error"}`, in order."""


@asynccontextmanager
async def openai_client(
    base_url: str, key: str = "any", path: str = "/v1beta/openai/"
) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key=key, base_url=f"{base_url}{path}") as client:
        yield client


async def chat_with(client: str, base_url: str, prompt: str, *, stream: bool, key: str = "any") -> Printed:
    """What a program printed that asked for a chat completion."""
    if client == "node":
        return await _run_node("chat.mjs", base_url, prompt, key, stream=stream)
    return await _run_python(_stream_chat if stream else _chat, base_url, prompt, key)


async def respond_with(client: str, base_url: str, prompt: str, *, stream: bool, key: str = "any") -> Printed:
    """What a program printed that asked for a response."""
    if client == "node":
        return await _run_node("responses.mjs", base_url, prompt, key, stream=stream)
    return await _run_python(_stream_response if stream else _respond, base_url, prompt, key)


async def _run_node(script: str, base_url: str, prompt: str, key: str, *, stream: bool) -> Printed:
    ran = await run_script(script, "stream" if stream else "whole", base_url, prompt, key)
    assert (ran.exit_code, ran.stderr) == (0, "")
    return [each for each in ran.lines if isinstance(each, dict)]


async def _run_python(
    ask: Callable[[AsyncOpenAI, str, Printed], Awaitable[None]], base_url: str, prompt: str, key: str
) -> Printed:
    printed: Printed = []
    try:
        async with openai_client(base_url, key) as sdk:
            await ask(sdk, prompt, printed)
    except APIError as error:
        status = error.status_code if isinstance(error, APIStatusError) else None
        described = {"name": type(error).__name__, "status": status, "message": error.message}
        printed.append({"error": described})
    return printed


# ---- chat completions


async def _chat(sdk: AsyncOpenAI, prompt: str, printed: Printed) -> None:
    messages: Any = [{"role": "user", "content": prompt}]
    answer = await sdk.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    _print_end(answer.choices[0], printed, [{"text": answer.choices[0].message.content or ""}])


async def _stream_chat(sdk: AsyncOpenAI, prompt: str, printed: Printed) -> None:
    messages: Any = [{"role": "user", "content": prompt}]
    async with sdk.chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER]) as events:
        printed += [{"text": event.delta} async for event in events if event.type == "content.delta"]
        _print_end((await events.get_final_completion()).choices[0], printed, [])


def _print_end(choice: Any, printed: Printed, texts: Printed) -> None:
    calls = choice.message.tool_calls or []
    printed += [{"call": {"name": each.function.name}} for each in calls]
    printed += [*texts, {"status": choice.finish_reason}]


# ---- responses


async def _respond(sdk: AsyncOpenAI, prompt: str, printed: Printed) -> None:
    answer = await sdk.responses.create(model=MODEL, input=prompt, tools=[FLAT_WEATHER])
    _print_response(answer, printed, [{"text": answer.output_text}])


async def _stream_response(sdk: AsyncOpenAI, prompt: str, printed: Printed) -> None:
    async with sdk.responses.stream(model=MODEL, input=prompt, tools=[FLAT_WEATHER]) as events:
        kind = "response.output_text.delta"
        printed += [{"text": event.delta} async for event in events if event.type == kind]
        answer = await events.get_final_response()
    assert answer.output_text == "".join(each["text"] for each in printed)
    _print_response(answer, printed, [])


def _print_response(answer: Any, printed: Printed, texts: Printed) -> None:
    calls = [each for each in answer.output if each.type == "function_call"]
    printed += [{"call": {"name": each.name}} for each in calls]
    printed += [*texts, {"status": answer.status}]
