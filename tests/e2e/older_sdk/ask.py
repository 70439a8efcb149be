"""google-genai 2, alone or in a framework, asked a prompt: `main(client, way, base_url, prompt)`.

The client is `google-genai`, `pydantic-ai` or `llama-index`, and the way `unary` or `stream`. A call of the
tool that it offers is answered. Prints JSON lines: each piece of text, or the error.
support/environments.py runs it.
"""

import json
from collections.abc import AsyncIterator

from google import genai
from google.genai import types
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.google_genai import GoogleGenAI
from pydantic_ai import Agent
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

KEY = "any"
MODEL = "gemini-2.5-flash"


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


async def google_genai_texts(streams: bool, base_url: str, prompt: str) -> AsyncIterator[str]:
    async with genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=base_url)).aio as client:
        chat = client.chats.create(model=MODEL, config=types.GenerateContentConfig(tools=[get_weather]))
        if streams:
            async for chunk in await chat.send_message_stream(prompt):
                yield chunk.text or ""
        else:
            yield (await chat.send_message(prompt)).text or ""


async def pydantic_ai_texts(streams: bool, base_url: str, prompt: str) -> AsyncIterator[str]:
    model = GoogleModel(MODEL, provider=GoogleProvider(api_key=KEY, base_url=base_url))
    agent = Agent(model, tools=[get_weather])
    if streams:
        async with agent.run_stream(prompt) as answer:
            async for text in answer.stream_text(delta=True):
                yield text
    else:
        yield (await agent.run(prompt)).output


async def llama_index_texts(streams: bool, base_url: str, prompt: str) -> AsyncIterator[str]:
    llm = GoogleGenAI(model=MODEL, api_key=KEY, http_options=types.HttpOptions(base_url=base_url))
    tools = [FunctionTool.from_defaults(get_weather)]
    messages = [ChatMessage(prompt)]
    while True:
        asked = {"tools": tools, "chat_history": messages}
        if streams:
            async for answer in await llm.astream_chat_with_tools(**asked):
                yield answer.delta or ""
        else:
            answer = await llm.achat_with_tools(**asked)
            yield answer.message.content or ""
        calls = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        if not calls:
            return
        messages.append(answer.message)
        messages += [
            ChatMessage(
                role="tool",
                content=get_weather(**call.tool_kwargs),
                additional_kwargs={"tool_call_id": call.tool_id, "name": call.tool_name},
            )
            for call in calls
        ]


TEXTS = {
    "google-genai": google_genai_texts,
    "pydantic-ai": pydantic_ai_texts,
    "llama-index": llama_index_texts,
}


async def main(client: str, way: str, base_url: str, prompt: str) -> None:
    try:
        async for text in TEXTS[client](way == "stream", base_url, prompt):
            print(json.dumps({"text": text}))
    except Exception as error:
        status = getattr(error, "status_code", getattr(error, "code", None))
        print(json.dumps({"error": {"name": type(error).__name__, "status": status, "message": str(error)}}))
