"""The demo's agent: a real google-genai client. The only module of the gateway that imports the SDK."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from google import genai
from google.genai import errors, types

MODEL = "gemini-2.5-flash"


@dataclass(frozen=True, slots=True)
class Refused:
    """An error the SDK raised: HTTP code and the message it shows its user."""

    code: int
    message: str


class Agent:
    """What a small agent does: ask, stream, and call tools."""

    def __init__(self, client: genai.Client) -> None:
        self._client = client.aio

    async def ask(self, prompt: str, tools: Sequence[Callable[..., Any]] = ()) -> str | Refused:
        """One answer; the SDK itself runs the Python functions that the model calls."""
        chat = self._client.chats.create(
            model=MODEL, config=types.GenerateContentConfig(tools=list(tools)) if tools else None
        )
        try:
            answer = await chat.send_message(prompt)
        except errors.APIError as error:
            return Refused(error.code, error.message or "")
        return answer.text or ""

    async def stream(self, prompt: str) -> list[str]:
        """The texts of a streamed answer, event by event."""
        events = await self._client.models.generate_content_stream(model=MODEL, contents=prompt)
        return [event.text or "" async for event in events]


@asynccontextmanager
async def agent(base_url: str) -> AsyncIterator[Agent]:
    """An agent whose base URL is the gateway: all that a client needs to change."""
    # The SDK's own session would send calls to this machine to a proxy that the environment names.
    async with aiohttp.ClientSession(trust_env=False) as session:
        options = types.HttpOptions(base_url=base_url, aiohttp_client=session)
        client = genai.Client(api_key="demo-needs-no-key", vertexai=False, http_options=options)
        try:
            yield Agent(client)
        finally:
            await client.aio.aclose()
            client.close()
