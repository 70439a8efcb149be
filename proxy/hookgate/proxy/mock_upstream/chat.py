"""Chat completions of the mock upstream: answers as those of generateContent, in OpenAI's form.

It is written from the API's documentation, independently of the translator, which the tests check against it.
"""

import struct
from base64 import b64encode
from typing import Any

import orjson

from hookgate.proxy.mock_upstream.answers import ModelCall, embedding
from hookgate.proxy.mock_upstream.requests import EmbeddedApiError, Json
from hookgate.translator.strictjson import encode_answer

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_REASONS = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}


def read_chat(body: Json) -> ModelCall:
    """Return the call of a body that creates a chat completion. Raises EmbeddedApiError (400)."""
    model, messages = body.get("model"), body.get("messages")
    if not isinstance(model, str) or not model:
        raise EmbeddedApiError(400, "Invalid value at 'model': a model's name is expected.")
    if not isinstance(messages, list) or not messages:
        raise EmbeddedApiError(400, "Invalid value at 'messages': a list of messages is expected.")
    names = {call["id"]: call["function"]["name"] for m in messages for call in m.get("tool_calls") or []}
    turns: list[Json] = []
    for message in messages:
        if message["role"] in ("system", "developer"):
            continue
        turn = _turn(message, names)
        if turns and turns[-1]["role"] == turn["role"]:  # what follows a tool's result belongs to its turn
            turns[-1]["parts"] += turn["parts"]
        else:
            turns.append(turn)
    if not turns:
        raise EmbeddedApiError(400, "Invalid value at 'messages': there is none of a user.")
    request: Json = {"contents": turns}
    if tools := body.get("tools"):
        request["tools"] = [{"functionDeclarations": [tool["function"] for tool in tools]}]
        request["toolConfig"] = {"functionCallingConfig": _calling(body.get("tool_choice", "auto"))}
    if (body.get("response_format") or {}).get("type") in ("json_object", "json_schema"):
        request["generationConfig"] = {"responseMimeType": "application/json"}
    name = model.removeprefix("models/").removeprefix("google/")
    return ModelCall(name, body.get("stream") is True, request)


def _turn(message: Json, names: Json) -> Json:
    text = _text(message.get("content"))
    if message["role"] == "tool":
        id_ = message["tool_call_id"]
        response = {"name": names.get(id_), "response": {"output": text}, "id": id_}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    calls = [
        {"name": call["function"]["name"], "args": orjson.loads(call["function"]["arguments"] or "{}")}
        for call in message.get("tool_calls") or []
    ]
    parts = [*([{"text": text}] if text else []), *({"functionCall": call} for call in calls)]
    return {"role": "user" if message["role"] == "user" else "model", "parts": parts}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def _calling(choice: Any) -> Json:
    if isinstance(choice, str):
        return {"mode": _MODES[choice]}
    if choice["type"] == "allowed_tools":
        allowed = choice["allowed_tools"]
        names = [tool["function"]["name"] for tool in allowed["tools"]]
        return {"mode": _MODES[allowed["mode"]], "allowedFunctionNames": names}
    return {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}


def chat_answer(responses: list[Json], call: ModelCall) -> Json:
    """Return the whole completion for the responses of generateContent."""
    message: Json = {"role": "assistant"}
    deltas = [_delta(part) for response in responses for part in _parts(response)]
    calls = [each for delta in deltas for each in delta.get("tool_calls", [])]
    if text := "".join(delta.get("content", "") for delta in deltas):
        message["content"] = text
    if calls:
        message["tool_calls"] = _numbered(calls, 0)
    choice = {"index": 0, "message": message, "finish_reason": _reason(responses[-1], calls)}
    return {**_head(call, "chat.completion"), "choices": [choice], "usage": _usage(responses[-1])}


def chat_stream(responses: list[Json], call: ModelCall, *, with_usage: bool) -> list[bytes]:
    """Return the bytes of the chunks of a completion, with `[DONE]` at the end."""
    head, chunks, count = _head(call, "chat.completion.chunk"), [], 0
    for response in responses:
        for part in _parts(response):
            delta = {"role": "assistant", **_delta(part)}
            choices = [{"index": 0, "delta": each, "finish_reason": None} for each in _pieces(delta, count)]
            chunks += [{**head, "choices": [choice]} for choice in choices]
            count += len(delta.get("tool_calls", []))
    reason = _reason(responses[-1], range(count))
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if with_usage:
        chunks.append({**head, "choices": [], "usage": _usage(responses[-1])})
    return [*(b"data: " + encode_answer(chunk) + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]


def openai_embeddings(body: Json, dimensions: int) -> Json:
    """Return the embeddings of the texts in a body. Raises EmbeddedApiError (400)."""
    given = body.get("input")
    texts: list[Any] = given if isinstance(given, list) else [given]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise EmbeddedApiError(400, "Invalid value at 'input': texts are expected.")
    wanted = body.get("dimensions", dimensions)
    found = [embedding({"parts": [{"text": text}]}, wanted)["values"] for text in texts]
    if body.get("encoding_format") == "base64":
        found = [b64encode(struct.pack(f"<{len(values)}f", *values)).decode() for values in found]
    data = [{"object": "embedding", "index": n, "embedding": values} for n, values in enumerate(found)]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": body.get("model"), "usage": usage}


def _head(call: ModelCall, kind: str) -> Json:
    return {"id": f"chat-{call.id}", "object": kind, "created": 0, "model": call.model}


def _parts(response: Json) -> list[Json]:
    parts: list[Json] = response["candidates"][0]["content"]["parts"]
    return parts


def _delta(part: Json) -> Json:
    if "functionCall" in part:
        called = part["functionCall"]
        function = {"name": called["name"], "arguments": orjson.dumps(called.get("args", {})).decode()}
        return {"tool_calls": [{"id": called.get("id", ""), "type": "function", "function": function}]}
    if part.get("thought"):
        return {"reasoning_content": part.get("text", "")}
    return {"content": part.get("text", "")}


def _numbered(calls: list[Json], first: int) -> list[Json]:
    return [{**call, "id": call["id"] or f"call-{n}"} for n, call in enumerate(calls, first)]


def _pieces(delta: Json, count: int) -> list[Json]:
    """Return the delta, or those of a function call with its arguments in pieces."""
    if "tool_calls" not in delta:
        return [delta]
    call = {"index": count, **_numbered(delta["tool_calls"], count)[0]}
    text = call["function"]["arguments"]
    begun = {**delta, "tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]}
    texts = [text[start : start + 5] for start in range(0, len(text), 5)]
    rest = [{"tool_calls": [{"index": count, "function": {"arguments": piece}}]} for piece in texts]
    return [begun, *rest]


def _reason(last: Json, calls: Any) -> str:
    reason = last["candidates"][0].get("finishReason", "STOP")
    return "tool_calls" if len(calls) and reason == "STOP" else _REASONS.get(reason, "stop")


def _usage(response: Json) -> Json:
    counts = response.get("usageMetadata", {})
    return {
        "prompt_tokens": counts.get("promptTokenCount", 0),
        "completion_tokens": counts.get("candidatesTokenCount", 0),
        "total_tokens": counts.get("totalTokenCount", 0),
    }
