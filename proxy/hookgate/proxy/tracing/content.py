"""What was said, in the JSON that OpenTelemetry's conventions for GenAI have for it. Pure.

Bytes of images and files are left out: their type is told.
"""

from collections.abc import Iterable
from typing import Any

from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.strictjson import dumps

_ROOM = 64 * 1024
"""Bytes of one attribute; the oldest messages go first when there is more."""


def input_messages(request: JsonObject) -> str:
    """The conversation that a request holds."""
    return _within(_message(content) for content in read_list(request, "contents"))


def output_messages(answer: JsonObject) -> str:
    """What each candidate of an answer says."""
    messages = []
    for candidate in read_list(answer, "candidates"):
        if isinstance(candidate, dict):
            ended = str(read(candidate, "finishReason") or "").lower()
            message = _message(read_object(candidate, "content"), "assistant")
            messages.append({**message, "finish_reason": ended})
    return _within(messages)


def system_instructions(request: JsonObject) -> str:
    """The system instruction of a request; empty without one."""
    parts = read_list(read_object(request, "systemInstruction"), "parts")
    return _within(_part(part) for part in parts) if parts else ""


def _message(content: Any, role: str = "") -> JsonObject:
    found = content if isinstance(content, dict) else {}
    role = role or {"model": "assistant"}.get(str(found.get("role")), "user")
    return {"role": role, "parts": [_part(part) for part in read_list(found, "parts")]}


def _part(part: Any) -> JsonObject:
    if not isinstance(part, dict):
        return {"type": "unknown"}
    if isinstance(text := read(part, "text"), str):
        return {"type": "reasoning" if read(part, "thought") else "text", "content": text}
    if isinstance(call := read(part, "functionCall"), dict):
        return {
            "type": "tool_call",
            "id": call.get("id"),
            "name": call.get("name"),
            "arguments": call.get("args"),
        }
    if isinstance(result := read(part, "functionResponse"), dict):
        return {"type": "tool_call_response", "id": result.get("id"), "response": result.get("response")}
    return {"type": next(iter(part), "unknown")}


def _within(messages: Iterable[JsonObject]) -> str:
    """The latest messages that there is room for."""
    kept: list[bytes] = []
    size = 2
    for message in reversed(list(messages)):
        data = dumps(message)
        size += len(data) + 1
        if size > _ROOM:
            break
        kept.append(data)
    return f"[{b','.join(reversed(kept)).decode()}]"
