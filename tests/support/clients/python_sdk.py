"""google-genai as an application uses it: a client for a base URL, and its methods."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from google import genai
from google.genai import types

MODEL = "gemini-2.5-flash"
Way = Literal["sync", "async", "sync stream", "async stream"]
every_way = pytest.mark.parametrize("way", ["sync", "async", "sync stream", "async stream"])

sdk_warnings = pytest.mark.filterwarnings(
    # The SDK's own subclass of aiohttp's session, which works all the same.
    "ignore:Inheritance class AiohttpClientSession from ClientSession is discouraged:DeprecationWarning"
)


@asynccontextmanager
async def python_client(
    base_url: str, key: str = "any", *, vertex: bool = False
) -> AsyncIterator[genai.Client]:
    options = types.HttpOptions(base_url=base_url)
    client = genai.Client(vertexai=vertex, api_key=key, http_options=options)
    try:
        yield client
    finally:
        await client.aio.aclose()
        client.close()


async def delete_each(client: genai.Client) -> int:
    """Delete one of each kind of resource; how many these are."""
    sdk = client.aio
    if client.vertexai:
        await sdk.caches.delete(name="projects/p/locations/l/cachedContents/1")
        return 1
    await sdk.caches.delete(name="cachedContents/1")
    await sdk.batches.delete(name="batches/1")
    await sdk.files.delete(name="files/1")
    await sdk.file_search_stores.delete(name="fileSearchStores/1")
    await sdk.interactions.delete("v1_1")
    return 5


async def pieces(client: genai.Client, way: Way, prompt: str, **config: Any) -> list[str]:
    """The texts of the answer as they come: one, or one for each event of a stream."""
    asking: Any = {"model": MODEL, "contents": prompt, "config": types.GenerateContentConfig(**config)}
    match way:
        case "sync":
            # The gateway runs in this test's loop, so what blocks runs in a thread.
            answers = [await asyncio.to_thread(lambda: client.models.generate_content(**asking))]
        case "async":
            answers = [await client.aio.models.generate_content(**asking)]
        case "sync stream":
            answers = await asyncio.to_thread(lambda: list(client.models.generate_content_stream(**asking)))
        case "async stream":
            answers = [each async for each in await client.aio.models.generate_content_stream(**asking)]
    return [answer.text or "" for answer in answers]
