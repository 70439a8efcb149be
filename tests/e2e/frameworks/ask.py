"""LangChain and LiteLLM at a base URL, asked a prompt: `main(framework, way, base_url, prompt, kind)`.

The framework is `langchain` or `litellm`, the way `unary` or `stream`, and the kind `json` to ask for JSON
instead of offering a tool, whose calls are answered. Prints JSON lines: each piece of text, or the error.
support/environments.py runs it.
"""

import json
from collections.abc import Iterator
from typing import Any

import litellm
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI

litellm.suppress_debug_info = True  # or it prints to stdout when a call fails

KEY = "any"
MODEL = "gemini-2.5-flash"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


def langchain_texts(streams: bool, base_url: str, prompt: str, wants_json: bool) -> Iterator[str]:
    options = {"response_mime_type": "application/json"} if wants_json else {}
    chat = ChatGoogleGenerativeAI(model=MODEL, api_key=KEY, base_url=base_url, **options)
    model = chat if wants_json else chat.bind_tools([get_weather])
    messages: list[BaseMessage] = [HumanMessage(prompt)]
    while True:
        answer: Any = AIMessageChunk("")
        for chunk in model.stream(messages) if streams else [model.invoke(messages)]:
            yield chunk.text
            answer = answer + chunk if streams else chunk
        if not answer.tool_calls:
            return
        results = [(call["id"], get_weather(**call["args"])) for call in answer.tool_calls]
        messages += [answer, *(ToolMessage(text, tool_call_id=name) for name, text in results)]


def litellm_texts(streams: bool, base_url: str, prompt: str, wants_json: bool) -> Iterator[str]:
    messages: list[Any] = [{"role": "user", "content": prompt}]
    options: dict[str, Any] = (
        {"response_format": {"type": "json_object"}} if wants_json else {"tools": [WEATHER]}
    )
    base = {"model": f"gemini/{MODEL}", "api_base": f"{base_url}/v1beta", "api_key": KEY, "stream": streams}
    while True:
        answer = litellm.completion(messages=messages, **base, **options)
        if streams:
            chunks = []
            for chunk in answer:
                chunks.append(chunk)
                yield chunk.choices[0].delta.content or ""
            answer = litellm.stream_chunk_builder(chunks, messages=messages)
        message = answer.choices[0].message
        if not streams:
            yield message.content or ""
        if not message.tool_calls:
            return
        messages.append(message)
        for call in message.tool_calls:
            text = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


TEXTS = {"langchain": langchain_texts, "litellm": litellm_texts}


async def main(framework: str, way: str, base_url: str, prompt: str, kind: str = "") -> None:
    try:
        for text in TEXTS[framework](way == "stream", base_url, prompt, kind == "json"):
            print(json.dumps({"text": text}))
    except Exception as error:
        status = getattr(error, "status_code", getattr(error.__cause__, "code", None))
        print(json.dumps({"error": {"name": type(error).__name__, "status": status, "message": str(error)}}))
