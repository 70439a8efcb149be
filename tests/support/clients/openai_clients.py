"""OpenAI's SDKs as clients of the matrix: they stream chat completions, and run their tools."""

import json as jsonlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from openai import APIError, APIStatusError, AsyncOpenAI
from support.clients.interface import Client, Json, Shown, deleted_by, get_weather, shown_by
from support.clients.node import NODE_DIR, run_script
from support.clients.openai_sdk import WEATHER, openai_client
from support.clients.python_sdk import MODEL
from support.clients.versions import node_version, python_version


class _OpenAI:
    denial: ClassVar[str] = "PermissionDeniedError 403"
    traits: ClassVar[set[str]] = {"json", "stream", "tools", "delete"}
    call: ClassVar[Json] = {"name": "get_weather", "args": {"city": "Oslo"}}


@dataclass(frozen=True)
class OpenAIPython(_OpenAI):
    """OpenAI's SDK for Python. It runs no tools by itself."""

    @property
    def version(self) -> str:
        return python_version("openai")

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        options: Json = {"response_format": {"type": "json_object"}} if json else {"tools": [WEATHER]}
        try:
            async with openai_client(base_url) as sdk:
                return Shown(await _chat(sdk, prompt, options))
        except APIError as error:
            status = error.status_code if isinstance(error, APIStatusError) else None
            return Shown(error.message, f"{type(error).__name__} {status}")

    async def delete(self, base_url: str) -> int:
        async with openai_client(base_url) as sdk:
            await sdk.files.delete("file-1")
            await sdk.responses.delete("resp_1")
        return 2


async def _chat(sdk: AsyncOpenAI, prompt: str, options: Json) -> str:
    """The texts of all answers, until one calls no tool."""
    messages: list[Any] = [{"role": "user", "content": prompt}]
    text = ""
    while True:
        async with sdk.chat.completions.stream(model=MODEL, messages=messages, **options) as events:
            text += "".join([event.delta async for event in events if event.type == "content.delta"])
            message = (await events.get_final_completion()).choices[0].message
        if not message.tool_calls:
            return text
        messages.append(message)
        for call in message.tool_calls:
            result = get_weather(**jsonlib.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


@dataclass(frozen=True)
class OpenAIJavaScript(_OpenAI):
    """OpenAI's SDK for JavaScript, which runs tools by itself."""

    @property
    def version(self) -> str:
        return node_version("openai", NODE_DIR)

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        return shown_by(await run_script("openai.mjs", base_url, prompt, *(["json"] if json else [])))

    async def delete(self, base_url: str) -> int:
        return deleted_by(await run_script("openai_deletes.mjs", base_url))


OPENAI_CLIENTS: dict[str, Client] = {"openai": OpenAIPython(), "openai-js": OpenAIJavaScript()}
