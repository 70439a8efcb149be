"""Messages of a chat as turns of generateContent, and back.

    user         a turn of the user
    assistant    a turn of the model: reasoning as thoughts, content, refusal, and tool calls as functionCalls
    tool         a turn of the user with a functionResponse

A turn has the other fields of its message, so that the message can be made from the turn alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hookgate.translator.chat.contents import decode_message_contents, encode_contents, encode_message_content
from hookgate.translator.fields import BodyError, JsonObject, read, read_list, read_object
from hookgate.translator.openai.calls import (
    check_argument_values,
    decode_arguments,
    decode_result,
    encode_result,
)
from hookgate.translator.openai.fields import check_openai_fields, read_string
from hookgate.translator.strictjson import dumps

REASONING = ("reasoning_content", "reasoning")
"""Fields of a message with the model's thoughts. Upstreams have different names for them."""

RawCalls = Mapping[bytes, JsonObject]
"""Tool calls as they were received, by the JSON of the parts as which they are shown."""

_LIFTED = frozenset({"content", "parts", "refusal", "role", "tool_call_id", "tool_calls", *REASONING})


def decode_message(message: JsonObject, path: str, names: Mapping[str, str]) -> JsonObject:
    """Return the turn for a message of a user, an assistant or a tool. Raises BodyError.

    `names` has the functions that the messages before it call, by the IDs of the calls.
    """
    role = message["role"]
    lifted = _LIFTED if role != "user" else frozenset({"content", "parts", "role"})
    turn = {key: value for key, value in message.items() if key not in lifted or value in (None, [])}
    content = message.get("content")
    if role == "tool":
        return {**turn, "role": "user", "parts": [_decode_result(message, path, names)]}
    if role == "user":
        for key in _LIFTED - lifted:
            if message.get(key) not in (None, []):
                raise BodyError(f"{path}.{key}", "a message of a user has no such field")
        return {**turn, "role": "user", "parts": decode_message_contents(content, f"{path}.content")}
    if "tool_call_id" in message:
        raise BodyError(f"{path}.tool_call_id", "only messages of tools have one")
    return {**turn, "role": "model", "parts": _decode_assistant(message, path)}


def _decode_assistant(message: JsonObject, path: str) -> list[JsonObject]:
    parts: list[JsonObject] = [
        {"text": read_string(message, key, path), "thought": True, "type": key}
        for key in REASONING
        if message.get(key) is not None
    ]
    parts += decode_message_contents(message.get("content"), f"{path}.content")
    if message.get("refusal") is not None:
        parts.append({"text": read_string(message, "refusal", path), "refusal": True})
    calls = message.get("tool_calls")
    if not isinstance(calls, list | None):
        raise BodyError(f"{path}.tool_calls", "the tool calls must be a list")
    return [*parts, *(decode_call(call, f"{path}.tool_calls[{n}]") for n, call in enumerate(calls or ()))]


def check_message_arguments(messages: Iterable[Any], path: str) -> None:
    """Refuse messages whose calls have too many values in their arguments. Raises TooLargeError."""
    calls = (
        call
        for message in messages
        if isinstance(message, dict)
        for call in read_list(message, "tool_calls")
        if isinstance(call, dict)
    )
    check_argument_values((read_object(call, "function").get("arguments") for call in calls), path)


def decode_call(call: Any, path: str) -> JsonObject:
    """Return the part for a tool call. Raises BodyError unless its arguments are a JSON object."""
    check_openai_fields(call, path)
    if call.get("type", "function") != "function":
        raise BodyError(f"{path}.type", "hooks can judge function calls only")
    function = check_openai_fields(call.get("function"), f"{path}.function")
    shown = {key: value for key, value in call.items() if key not in ("function", "index")}
    for key in ("name", "args"):
        if key in shown:
            raise BodyError(f"{path}.{key}", "a tool call has no such field")
    if not isinstance(call.get("id"), str | None):
        raise BodyError(f"{path}.id", "the ID of a tool call must be a string")
    if not isinstance(call.get("index"), int | None):
        raise BodyError(f"{path}.index", "an index must be an integer")
    more = {key: value for key, value in function.items() if key not in ("name", "arguments")}
    shown |= {"function": more} if more else {}
    shown["name"] = read_string(function, "name", f"{path}.function")
    shown["args"] = decode_arguments(function.get("arguments"), f"{path}.function.arguments")
    return {"functionCall": shown}


def _decode_result(message: JsonObject, path: str, names: Mapping[str, str]) -> JsonObject:
    for key in ("refusal", "tool_calls", *REASONING):
        if message.get(key) is not None:
            raise BodyError(f"{path}.{key}", "a tool message has no such field")
    id_ = message.get("tool_call_id")
    if not isinstance(id_, str | None):
        raise BodyError(f"{path}.tool_call_id", "the ID of a tool call must be a string")
    result: JsonObject = {} if id_ is None else {"id": id_}
    name = message.get("name")
    if not isinstance(name, str | None):
        raise BodyError(f"{path}.name", "the name of a tool must be a string")
    if name := name or names.get(id_ or "", ""):
        result["name"] = name
    content = message.get("content")
    parts = decode_message_contents(content, f"{path}.content")
    return {"functionResponse": {**result, **decode_result(content, parts, f"{path}.content")}}


# ---- and back


def encode_messages(turn: JsonObject, raw_calls: RawCalls) -> list[JsonObject]:
    """Return the messages for a turn, which may be new: one for each result, and one for everything else.

    Raises BodyError for a part that cannot be in a message.
    """
    own = {key: value for key, value in turn.items() if key not in ("role", "parts")}
    messages: list[JsonObject] = []
    others: list[JsonObject] = []
    for part in read_list(turn, "parts"):
        if isinstance(result := read(part, "functionResponse"), dict):
            messages.append(_encode_result(result, own))
            own = {}
        else:
            others.append(part)
    if others and turn.get("role") == "model":
        messages.append(_encode_assistant(own, others, raw_calls))
    elif others:
        messages.append({"role": "user", **own, "content": encode_contents(others, joins=False)})
    elif not messages:
        messages.append({"role": "assistant" if turn.get("role") == "model" else "user", **own})
    return messages


def _encode_result(result: JsonObject, own: JsonObject) -> JsonObject:
    message: JsonObject = {"role": "tool", **own}
    if (id_ := read(result, "id")) is not None:
        message["tool_call_id"] = id_
    response = read_object(result, "response")
    if response or "content" not in own:
        message["content"] = encode_result(result, "text", encode_message_content)
    return message


def _encode_assistant(own: JsonObject, parts: list[JsonObject], raw_calls: RawCalls) -> JsonObject:
    message: JsonObject = {"role": "assistant", **own}
    texts: dict[str, list[str]] = {}
    contents: list[JsonObject] = []
    calls: list[JsonObject] = []
    for part in parts:
        if "functionCall" in part:
            calls.append(raw_calls.get(dumps(part)) or encode_call(part["functionCall"]))
        elif part.get("thought") and "text" in part:
            texts.setdefault(part.get("type", REASONING[0]), []).append(part["text"])
        elif part.get("refusal") is True:
            texts.setdefault("refusal", []).append(part["text"])
        elif part.keys() != {"thoughtSignature"}:
            contents.append(part)
    message |= {key: "".join(pieces) for key, pieces in texts.items()}
    if contents:
        message["content"] = encode_contents(contents, joins=True)
    return {**message, "tool_calls": calls} if calls else message


def encode_call(call: JsonObject) -> JsonObject:
    """Return the tool call for a functionCall."""
    rest = {key: value for key, value in call.items() if key not in ("args", "function", "index", "name")}
    function = {"name": call.get("name"), "arguments": dumps(read_object(call, "args")).decode()}
    return {"type": "function", **rest, "function": {**function, **read_object(call, "function")}}
