"""Contents of a message (texts, images, audio, files, refusals) as parts of generateContent, and back.

    "hi"                                            {"text": "hi"}
    {"type": "text", "text": "hi"}                  {"type": "text", "text": "hi"}
    {"type": "image_url", "image_url": {"url": …}}  {"type": "image_url", "image_url": {}, "inlineData": {…}}

A URL of base64 data becomes `inlineData`, any other URL `fileData`.
"""

import re
from typing import Any

from hookgate.translator.checks import check_spellings
from hookgate.translator.fields import BodyError, JsonObject, camel, is_text, read, read_object

_SHOWN_AS = frozenset(
    {
        *("codeExecutionResult", "executableCode", "fileData", "functionCall", "functionResponse"),
        *("inlineData", "parts", "thought", "thoughtSignature", "toolCall", "toolResponse"),
    }
)
"""Fields that mean something in generateContent, and do not exist in a chat completion."""

_NAMES = frozenset(
    {
        *("arguments", "choices", "content", "data", "delta", "extra_body", "extra_content", "file"),
        *("file_data", "file_id", "finish_reason", "format", "function", "function_call", "functions"),
        *("image_url", "input_audio", "logprobs", "max_completion_tokens", "max_tokens", "message"),
        *("messages", "model", "name", "reasoning", "reasoning_content", "refusal", "response_format"),
        *("role", "stop", "stream", "text", "tool_call_id", "tool_calls", "tool_choice", "tools", "type"),
        *("stream_options", "url", "usage"),
    }
)
"""Fields that are read here, or that decide whether a call is allowed."""

_USUAL = (_NAMES - {"file_data"}) | {"created", "id", "index", "object", "system_fingerprint"}
"""Fields that no check concerns, as most objects have."""

_PLAIN_NAMES = {name.replace("_", ""): name for name in _NAMES}


def check_chat_fields(obj: Any, path: str) -> JsonObject:
    """Return an object whose fields can be shown under their own names. Raises BodyError."""
    if type(obj) is dict and obj.keys() <= _USUAL:
        return obj
    checked = _check_spelled(obj, path)
    for key in checked:
        if camel(key) in _SHOWN_AS:
            raise BodyError(f"{path}.{key}" if path else key, "chat completions have no such field")
    return checked


def _check_spelled(obj: Any, path: str) -> JsonObject:
    """Return an object in which no other parser could take a field for one that is read here."""
    if not isinstance(obj, dict):
        raise BodyError(path, "it must be an object, since hooks cannot inspect other types")
    check_spellings(obj, path)
    for key in obj:
        name = _PLAIN_NAMES.get(key.replace("_", "").lower())
        if name is not None and key != name:
            raise BodyError(f"{path}.{key}" if path else key, f"the field must be spelled {name!r}")
    return obj


def open_message_contents(content: Any, path: str) -> list[JsonObject]:
    """Return the parts for the content of a message. Raises BodyError."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"text": content}]
    if not isinstance(content, list):
        raise BodyError(path, "the content must be a string or a list of contents")
    return [_open_content(item, f"{path}[{number}]") for number, item in enumerate(content)]


def _open_content(item: Any, path: str) -> JsonObject:
    check_chat_fields(item, path)
    kind = item.get("type")
    for name in _MEDIA:
        if name != kind and item.get(name) is not None:
            raise BodyError(f"{path}.{name}", f"only a content of the type {name!r} has this field")
    if kind == "text":
        read_string(item, "text", path)
        return dict(item)
    if kind == "refusal" and "text" not in item:
        text = read_string(item, "refusal", path)
        return {**{key: value for key, value in item.items() if key != "refusal"}, "text": text}
    if not isinstance(kind, str) or kind not in _MEDIA or "text" in item:
        raise BodyError(f"{path}.type", f"hooks cannot inspect this content; use text or {', '.join(_MEDIA)}")
    holder = _check_spelled(item.get(kind), f"{path}.{kind}")
    return {**item, **_MEDIA[kind](holder, f"{path}.{kind}")}


def _open_image(holder: JsonObject, path: str) -> JsonObject:
    rest = {key: value for key, value in holder.items() if key != "url"}
    return {"image_url": rest, **_located(read_string(holder, "url", path), f"{path}.url")}


def _open_audio(holder: JsonObject, path: str) -> JsonObject:
    rest = {key: value for key, value in holder.items() if key not in ("data", "format")}
    data, kind = read_string(holder, "data", path), read_string(holder, "format", path)
    return {"input_audio": rest, "inlineData": {"mimeType": f"audio/{kind}", "data": data}}


def _open_file(holder: JsonObject, path: str) -> JsonObject:
    rest = {key: value for key, value in holder.items() if key not in ("file_data", "file_id")}
    shown: JsonObject = {"file": rest}
    if holder.get("file_data") is not None:
        shown |= _located(read_string(holder, "file_data", path), f"{path}.file_data")
    if holder.get("file_id") is not None:
        if "fileData" in shown:
            raise BodyError(path, "a file has file_data or file_id, not both")
        shown["fileData"] = {"fileId": read_string(holder, "file_id", path)}
    return shown


_MEDIA = {"image_url": _open_image, "input_audio": _open_audio, "file": _open_file}
_DATA_URL = re.compile(r"data:([^,]*);base64,(.*)", re.DOTALL)


def _located(url: str, path: str) -> JsonObject:
    """Return inline data for a URL that contains it, and a reference to a file for any other URL."""
    if found := _DATA_URL.fullmatch(url):
        return {"inlineData": {"mimeType": found[1], "data": found[2]}}
    if url.lstrip()[:5].lower() == "data:":
        raise BodyError(path, "hooks can inspect data URLs only in the form data:TYPE;base64,DATA")
    return {"fileData": {"fileUri": url}}


def read_string(obj: JsonObject, key: str, path: str) -> str:
    """Return a field that must be a string. Raises BodyError."""
    value = obj.get(key)
    if not isinstance(value, str):
        raise BodyError(
            f"{path}.{key}" if path else key, "it must be a string, since hooks cannot inspect other types"
        )
    return value


# ---- and back


def close_contents(parts: list[JsonObject], *, joins: bool) -> Any:
    """Return the content of a message for its parts: a string if possible, else a list.

    `joins`: several plain texts are pieces of one text. Raises BodyError for a part that is no content.
    """
    plain = all(part.keys() == {"text"} for part in parts)
    if plain and (len(parts) == 1 or joins):
        return "".join(part["text"] for part in parts)
    return [_close_content(part) for part in parts]


def _close_content(part: JsonObject) -> JsonObject:
    kind = part.get("type")
    if kind == "refusal":
        return {**{key: value for key, value in part.items() if key != "text"}, "refusal": part["text"]}
    if is_text(part):
        return {"type": "text", **part}
    blob, file = read_object(part, "inlineData"), read_object(part, "fileData")
    if not blob and not file:
        raise BodyError("", f"a message cannot contain a part with {', '.join(part) or 'no fields'}")
    media_type = str(read(blob or file, "mimeType") or "")
    if kind not in _MEDIA:
        kind = "image_url" if media_type.startswith("image/") else "file"
    rest = {key: value for key, value in part.items() if key not in ("inlineData", "fileData", "type", kind)}
    if kind == "input_audio":
        own: JsonObject = {"data": read(blob, "data"), "format": media_type.removeprefix("audio/")}
    elif blob:
        own = {
            "url" if kind == "image_url" else "file_data": f"data:{media_type};base64,{read(blob, 'data')}"
        }
    else:
        own = {"url": read(file, "fileUri")} if kind == "image_url" else {}
    if kind == "file" and file:
        own |= {"file_data": uri} if (uri := read(file, "fileUri")) else {"file_id": read(file, "fileId")}
    return {"type": kind, **rest, kind: {**own, **read_object(part, kind)}}
