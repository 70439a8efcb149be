"""Requests: a GenerateContentRequest body seen as an `LLMRequest`, and a hook's edit of it written back.

    view  = show_request("gemini-2.5-flash", body)
    model, body = apply_request("gemini-2.5-flash", body, edit)

Code that shows a body and edits it keeps one ShownRequest for both. All is pure. An edit changes what it
names and nothing else (laws 1 to 9 of the hook contract); without a change, `body` itself comes back.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hookgate.translator.checks import check_request
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
from hookgate.translator.messages import Messages
from hookgate.translator.toolconfig import apply_tool_config, show_tool_config

MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""What a model's name is made of: it becomes a part of a path."""


class ShownRequest:
    """A request as a hook is shown it, and the way back; what both need of the body is read once."""

    def __init__(self, model: str, body: JsonObject, lens: Lens = TEXT) -> None:
        self._model, self._body, self._lens = model, body, lens
        self._messages = Messages(body, lens)

    def view(self) -> JsonObject:
        """The `LLMRequest`, built anew: `{"model", "messages", "config", "toolConfig"?}`."""
        view: JsonObject = {
            "model": self._model,
            "messages": self._messages.show(),
            "config": _show_config(self._body),
        }
        tool_config = show_tool_config(self._body)
        return view if tool_config is None else {**view, "toolConfig": tool_config}

    def edited(self, edit: Any) -> tuple[str, JsonObject]:
        """Model and body after a hook's `llm_request`. Raises EditError."""
        if not isinstance(edit, dict):
            raise EditError("", "an object", edit)
        new = self._body
        for key, apply in _RAW_SECTIONS:
            if edit.get(key) is not None:
                new = apply(new, edit[key])
        if edit.get("messages") is not None:
            new = self._with_messages(new, edit["messages"])
        for key, apply in _STABLE_SECTIONS:
            if edit.get(key) is not None:
                new = apply(new, edit[key])
        return _read_model(edit.get("model"), self._model), new

    def _with_messages(self, body: JsonObject, messages: Any) -> JsonObject:
        if body is self._body:
            return self._messages.edited(messages)
        if same(messages, self._messages.show()):
            return body  # the raw keys were edited, and what was shown beside them is only an echo
        return Messages(body, self._lens).edited(messages)


class ShownRawRequest(ShownRequest):
    """A request shown with its own `contents`, `systemInstruction`, `generationConfig` and `tools` beside.

    One of the documents spells it so; it doubles the bytes of the view. The tools are there to be read alone.
    """

    def view(self) -> JsonObject:
        raw = {name: value for name in (*_RAW, "tools") if (value := read(self._body, name)) is not None}
        return {**super().view(), **raw}


_RAW = ("contents", "systemInstruction", "generationConfig")


class ShownBody(ShownRequest):
    """A request shown as its whole body alone, under `raw`, which may come back edited in any place."""

    def view(self) -> JsonObject:
        return {"model": self._model, "raw": self._body}

    def edited(self, edit: Any) -> tuple[str, JsonObject]:
        raw = edit.get("raw") if isinstance(edit, dict) else None
        if raw is None:
            return super().edited(edit)
        return _read_model(edit.get("model"), self._model), check_request(raw)


def show_request(model: str, body: JsonObject) -> JsonObject:
    """The `LLMRequest` a hook sees: `{"model", "messages", "config", "toolConfig"?}`.

    `config` is the whole generationConfig in camelCase; `toolConfig` is there when the request has one.
    """
    return ShownRequest(model, body).view()


def show_request_parts(model: str, body: JsonObject) -> JsonObject:
    """The `LLMRequest` with typed parts as the content of each message (parts.py lists the types)."""
    return ShownRequest(model, body, PARTS).view()


def show_request_raw(model: str, body: JsonObject) -> JsonObject:
    """The `LLMRequest` with the request's own contents beside (`ShownRawRequest`)."""
    return ShownRawRequest(model, body).view()


def apply_request(model: str, body: JsonObject, edit: Any) -> tuple[str, JsonObject]:
    """Model and body after a hook's `llm_request`, in any spelling of the documents.

    Unknown and null keys ask for nothing. Raises EditError, naming the place, for a known key that holds
    something else than it should.
    """
    return ShownRequest(model, body).edited(edit)


def apply_request_parts(model: str, body: JsonObject, edit: Any) -> tuple[str, JsonObject]:
    """Like apply_request, for a hook that was shown typed parts."""
    return ShownRequest(model, body, PARTS).edited(edit)


def _read_model(value: Any, current: str) -> str:
    if value is None or value == current:
        return current
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
    return body if config is current else write(body, "generationConfig", config)


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


VIEWS: Mapping[str, Callable[[str, JsonObject], ShownRequest]] = {
    "text": ShownRequest,
    "parts": partial(ShownRequest, lens=PARTS),
    "raw": ShownRawRequest,
    "body": ShownBody,
}
"""The views a hook can ask for, by name."""
