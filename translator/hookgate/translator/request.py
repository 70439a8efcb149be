"""Requests: a GenerateContentRequest body seen as an `LLMRequest`, and a hook's edit of it written back.

    view  = show_request("gemini-2.5-flash", body)
    model, body = apply_request("gemini-2.5-flash", body, edit)

Both are pure. `apply_request` changes what the edit changed and nothing else (laws 1 to 9 of the hook
contract); it returns `body` itself when there was nothing to change.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hookgate.translator.errors import EditError
from hookgate.translator.fields import (
    JsonObject,
    camel,
    read,
    read_object,
    same,
    without,
    write,
)
from hookgate.translator.lenses import PARTS, TEXT, Lens
from hookgate.translator.messages import apply_messages, show_messages, show_typed_messages
from hookgate.translator.toolconfig import apply_tool_config, show_tool_config

MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""What a model's name is made of: it becomes a part of a path."""


def show_request(model: str, body: JsonObject) -> JsonObject:
    """The `LLMRequest` a hook sees: `{"model", "messages", "config", "toolConfig"?}`.

    `config` is the whole generationConfig in camelCase; `toolConfig` is there when the request has one.
    """
    view: JsonObject = {"model": model, "messages": show_messages(body), "config": _show_config(body)}
    tool_config = show_tool_config(body)
    return view if tool_config is None else {**view, "toolConfig": tool_config}


def show_request_parts(model: str, body: JsonObject) -> JsonObject:
    """The `LLMRequest` with typed parts as the content of each message (parts.py lists the types)."""
    return {**show_request(model, body), "messages": show_typed_messages(body)}


def show_request_raw(model: str, body: JsonObject) -> JsonObject:
    """The `LLMRequest` with the request's own `contents`, `systemInstruction` and `generationConfig` beside.

    One of the documents spells it so; it doubles the bytes of the view.
    """
    raw = {name: value for name in _RAW if (value := read(body, name)) is not None}
    return {**show_request(model, body), **raw}


_RAW = ("contents", "systemInstruction", "generationConfig")


def apply_request(model: str, body: JsonObject, edit: Any) -> tuple[str, JsonObject]:
    """Model and body after a hook's `llm_request`, in any spelling of the documents.

    Unknown and null keys ask for nothing. Raises EditError, naming the place, for a known key that holds
    something else than it should.
    """
    return _apply(model, body, edit, TEXT)


def apply_request_parts(model: str, body: JsonObject, edit: Any) -> tuple[str, JsonObject]:
    """Like apply_request, for a hook that was shown typed parts."""
    return _apply(model, body, edit, PARTS)


def _apply(model: str, body: JsonObject, edit: Any, lens: Lens) -> tuple[str, JsonObject]:
    if not isinstance(edit, dict):
        raise EditError("", "an object", edit)
    new = body
    for key, apply in _RAW_SECTIONS:
        if edit.get(key) is not None:
            new = apply(new, edit[key])
    messages = edit.get("messages")
    if messages is not None and not (new is not body and same(messages, _shown(body, lens))):
        new = apply_messages(new, messages, lens)
    for key, apply in _STABLE_SECTIONS:
        if edit.get(key) is not None:
            new = apply(new, edit[key])
    return _read_model(edit.get("model")) or model, new


def _shown(body: JsonObject, lens: Lens) -> list[JsonObject]:
    return show_typed_messages(body) if lens is PARTS else show_messages(body)


def _read_model(value: Any) -> str:
    if value is None:
        return ""
    name = value.removeprefix("models/") if isinstance(value, str) else ""
    if not re.fullmatch(MODEL_NAME, name):
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


Section = tuple[str, Callable[[JsonObject, Any], JsonObject]]

# The raw spellings come first: messages that came back as they were shown do not undo them.
_RAW_SECTIONS: tuple[Section, ...] = (
    ("contents", _apply_contents),
    ("systemInstruction", _apply_system_instruction),
    ("generationConfig", _apply_config),
)
_STABLE_SECTIONS: tuple[Section, ...] = (("config", _apply_config), ("toolConfig", apply_tool_config))


class View(NamedTuple):
    """One way to show a request to a hook, and the way its edit goes back."""

    show: Callable[[str, JsonObject], JsonObject]
    apply: Callable[[str, JsonObject, Any], tuple[str, JsonObject]]


VIEWS: Mapping[str, View] = {
    "text": View(show_request, apply_request),
    "parts": View(show_request_parts, apply_request_parts),
    "raw": View(show_request_raw, apply_request),
}
"""The views a hook can ask for, by name."""
