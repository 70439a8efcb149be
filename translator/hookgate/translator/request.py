"""Requests: a GenerateContentRequest body seen as an `LLMRequest`, and a hook's edit of it written back.

    view  = show_request("gemini-2.5-flash", body)
    model, body = apply_request("gemini-2.5-flash", body, edit)

Both are pure. `apply_request` changes what the edit changed and nothing else (laws 1 to 9 of the hook
contract); it returns `body` itself when there was nothing to change.
"""

import re
from collections.abc import Callable
from typing import Any

from hookgate.translator.errors import BodyError, EditError
from hookgate.translator.fields import (
    JsonObject,
    camel,
    read,
    read_list,
    read_object,
    same,
    without,
    write,
)
from hookgate.translator.messages import apply_messages, show_messages
from hookgate.translator.toolconfig import apply_tool_config, show_tool_config

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def show_request(model: str, body: JsonObject) -> JsonObject:
    """The `LLMRequest` a hook sees: `{"model", "messages", "config", "toolConfig"?}`.

    `config` is the whole generationConfig in camelCase; `toolConfig` is there when the request has one.
    """
    view: JsonObject = {"model": model, "messages": show_messages(body), "config": _show_config(body)}
    tool_config = show_tool_config(body)
    return view if tool_config is None else {**view, "toolConfig": tool_config}


def apply_request(model: str, body: JsonObject, edit: Any) -> tuple[str, JsonObject]:
    """Model and body after a hook's `llm_request`, in any spelling of the documents.

    Unknown and null keys ask for nothing. Raises EditError, naming the place, for a known key that holds
    something else than it should.
    """
    if not isinstance(edit, dict):
        raise EditError("", "an object", edit)
    for key, apply in _SECTIONS:
        if edit.get(key) is not None:
            body = apply(body, edit[key])
    return _read_model(edit.get("model")) or model, body


def _read_model(value: Any) -> str:
    if value is None:
        return ""
    name = value.removeprefix("models/") if isinstance(value, str) else ""
    if not _MODEL.fullmatch(name):  # it becomes a part of the path
        raise EditError("model", "a model name", value)
    return name


def _show_config(body: JsonObject) -> JsonObject:
    return {camel(key): value for key, value in read_object(body, "generationConfig").items()}


def _apply_config(body: JsonObject, edit: Any) -> JsonObject:
    """Set the named keys; null removes one; everything else stays (law 6)."""
    if not isinstance(edit, dict):
        raise EditError("config", "an object", edit)
    current = config = read_object(body, "generationConfig")
    for key, value in edit.items():
        if value is None and read(config, camel(key)) is None:
            continue  # the API takes null for absent: a null that stood there stays
        if value is None:
            config = without(config, camel(key))
        elif not same(value, read(config, camel(key))):
            config = write(config, camel(key), value)
    return body if same(config, current) else write(body, "generationConfig", config)


def _apply_contents(body: JsonObject, edit: Any) -> JsonObject:
    if not isinstance(edit, list | dict):
        raise EditError("contents", "a list of contents", edit)
    return body if same(edit, read(body, "contents")) else write(body, "contents", edit)


def _apply_system_instruction(body: JsonObject, edit: Any) -> JsonObject:
    if not isinstance(edit, dict):
        raise EditError("systemInstruction", "a content object", edit)
    return body if same(edit, read(body, "systemInstruction")) else write(body, "systemInstruction", edit)


_SECTIONS: tuple[tuple[str, Callable[[JsonObject, Any], JsonObject]], ...] = (
    ("contents", _apply_contents),
    ("systemInstruction", _apply_system_instruction),
    ("generationConfig", _apply_config),
    ("messages", apply_messages),
    ("config", _apply_config),
    ("toolConfig", apply_tool_config),
)
"""The keys of an edit in the order they apply; the raw spellings of the documents come first."""


# ---- what must not be read


def check_request(body: Any) -> JsonObject:
    """The body if it can be read in one way only; BodyError if not.

    A field spelled in both cases within one object is refused: the API takes one of them, and a hook may
    have seen the other. Objects whose keys belong to the caller (arguments, results, schemas) are exempt.
    """
    if not isinstance(body, dict):
        raise BodyError("", "the body has to be a JSON object")
    _check_spellings(body, "")
    for name in ("generationConfig", "toolConfig"):
        _check_spellings(read_object(body, name), name)
    calling = read_object(read_object(body, "toolConfig"), "functionCallingConfig")
    _check_spellings(calling, "toolConfig.functionCallingConfig")
    _check_content(read_object(body, "systemInstruction"), "systemInstruction")
    for i, content in enumerate(read_list(body, "contents")):
        _check_content(content, f"contents[{i}]")
    for i, tool in enumerate(read_list(body, "tools")):
        _check_tool(tool, f"tools[{i}]")
    return body


def _check_content(content: Any, path: str) -> None:
    if not isinstance(content, dict):
        raise BodyError(path, "a content has to be an object {role, parts}")
    _check_spellings(content, path)
    for i, part in enumerate(read_list(content, "parts")):
        if not isinstance(part, dict):
            raise BodyError(f"{path}.parts[{i}]", "a part has to be an object")
        _check_spellings(part, f"{path}.parts[{i}]")


def _check_tool(tool: Any, path: str) -> None:
    if not isinstance(tool, dict):
        raise BodyError(path, "a tool has to be an object")
    _check_spellings(tool, path)
    for i, declaration in enumerate(read_list(tool, "functionDeclarations")):
        if isinstance(declaration, dict):
            _check_spellings(declaration, f"{path}.functionDeclarations[{i}]")


def _check_spellings(obj: JsonObject, path: str) -> None:
    for key in obj:
        if (other := camel(key)) != key and other in obj:
            place = f"{path}.{other}" if path else other
            raise BodyError(place, f"the field is given twice, as {key!r} and {other!r}; send it once")
