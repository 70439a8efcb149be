"""Converts GenerateContentRequest bodies to `LLMRequest` views, and applies hooks' edits to the bodies.

It does no I/O.

    view  = show_request("gemini-3.8-flash", body)
    model, body = apply_request("gemini-3.8-flash", body, edit)

To both show and edit a body, use one ShownRequest. An edit changes only the fields that it
contains; without a change, `body` itself is returned.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hookgate.translator.checks import check_request
from hookgate.translator.conversation.parts import show_other_fields
from hookgate.translator.conversation.turns import PARTS, TEXT, Messages, TurnLens
from hookgate.translator.fields import (
    EditError,
    JsonObject,
    camel,
    read,
    read_object,
    same,
    without,
    write,
)
from hookgate.translator.model_names import MODEL_NAME
from hookgate.translator.tools import apply_tool_config, show_tool_config


def requires_json(config: Mapping[str, Any]) -> bool:
    """Return whether a generationConfig, or the `config` of a view, requires an answer in JSON."""
    mime_type = read(config, "responseMimeType")
    return isinstance(mime_type, str) and "json" in mime_type


class ShownRequest:
    """A view of a request that can be shown to a hook and edited. The body is read only once for both."""

    def __init__(self, model: str, body: JsonObject, lens: TurnLens = TEXT) -> None:
        self._model, self._body, self._lens = model, body, lens
        self._messages = Messages(body, lens)

    def view(self) -> JsonObject:
        """Return a new `LLMRequest`: `{"model", "messages", "config", "toolConfig"?}`."""
        view: JsonObject = {
            "model": self._model,
            "messages": self._messages.show(),
            "config": _show_config(self._body),
        }
        if (previous := read(self._body, "previousInteractionId")) is not None:
            view |= {"previousInteractionId": previous, **self._show_earlier()}
        if (cached := read(self._body, "cachedContent")) is not None:
            view |= {"cachedContent": cached, "history": "unknown"}
        tool_config = show_tool_config(self._body)
        return view if tool_config is None else {**view, "toolConfig": tool_config}

    def _show_earlier(self) -> JsonObject:
        """Return what is known of the interaction that this one continues."""
        earlier = read_object(self._body, "previousInteraction")
        shown: JsonObject = {"history": "known" if earlier.get("known") is True else "unknown"}
        if "revision" in earlier:
            shown["previousRevision"] = earlier["revision"]
        if "contents" in earlier:
            shown["previousMessages"] = Messages({"contents": earlier["contents"]}, self._lens).show()
        return shown

    def edited(self, edit: Any) -> tuple[str, JsonObject]:
        """Return the model and the body after a hook's `llm_request`. Raises EditError."""
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
            return body  # the raw keys were edited, and the messages are unchanged
        return Messages(body, self._lens).edited(messages)


class ShownPartsRequest(ShownRequest):
    """A view that has typed parts as the content of each message. All other fields are read-only."""

    def __init__(self, model: str, body: JsonObject) -> None:
        super().__init__(model, body, PARTS)

    def view(self) -> JsonObject:
        return {**super().view(), **_show_rest(self._body)}


class ShownRawRequest(ShownRequest):
    """A view that includes the request's own `contents`, `systemInstruction` and `generationConfig`.

    One of Gemini CLI's documents describes it. It doubles the size of the view. All other fields, such as the
    tools, are read-only.
    """

    def view(self) -> JsonObject:
        raw = {name: value for name in _RAW if (value := read(self._body, name)) is not None}
        return {**super().view(), **raw, **_show_rest(self._body)}


_RAW = ("contents", "systemInstruction", "generationConfig")


def _show_rest(body: JsonObject) -> JsonObject:
    """Return the `tools` of a request, and under `fields` its fields that are not shown otherwise."""
    tools = read(body, "tools")
    rest = show_other_fields(body, *_RAW, "tools")
    return rest if tools is None else {"tools": tools, **rest}


class ShownBody(ShownRequest):
    """A view that consists of the whole body, under `raw`, in which a hook may edit anything."""

    def view(self) -> JsonObject:
        return {"model": self._model, "raw": self._body}

    def edited(self, edit: Any) -> tuple[str, JsonObject]:
        raw = edit.get("raw") if isinstance(edit, dict) else None
        if raw is None:
            return super().edited(edit)
        return _read_model(edit.get("model"), self._model), check_request(raw)


def show_request(model: str, body: JsonObject) -> JsonObject:
    """Return the `LLMRequest` for a hook: `{"model", "messages", "config", "toolConfig"?}`.

    `config` is the whole generationConfig in camelCase. `toolConfig` is present if the request has one.
    """
    return ShownRequest(model, body).view()


def show_request_parts(model: str, body: JsonObject) -> JsonObject:
    """Return the `LLMRequest` with typed parts as the content of each message (see parts.py)."""
    return ShownPartsRequest(model, body).view()


def show_request_raw(model: str, body: JsonObject) -> JsonObject:
    """Return the `LLMRequest` with the request's own contents (see ShownRawRequest)."""
    return ShownRawRequest(model, body).view()


def apply_request(model: str, body: JsonObject, edit: Any) -> tuple[str, JsonObject]:
    """Return the model and the body after a hook's `llm_request`, in any documented spelling.

    Unknown keys and keys with null are ignored. Raises EditError, which names the field, if a known key has
    an invalid value.
    """
    return ShownRequest(model, body).edited(edit)


def apply_request_parts(model: str, body: JsonObject, edit: Any) -> tuple[str, JsonObject]:
    """Apply an edit like `apply_request`, for a hook that was shown typed parts."""
    return ShownPartsRequest(model, body).edited(edit)


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
    """Set the given keys, and remove those with null."""
    if not isinstance(edit, dict):
        raise EditError("config", "an object", edit)
    current = config = read_object(body, "generationConfig")
    for key, value in edit.items():
        if value is None and read(config, camel(key)) is None:
            continue  # the API treats null as absent, so an existing null is kept
        if value is None:
            config = without(config, camel(key))
        elif not same(value, read(config, camel(key))):
            config = write(config, camel(key), value)
    return body if config is current else write(body, "generationConfig", config)


def _apply_model_armor(body: JsonObject, edit: Any) -> JsonObject:
    """Set the templates of Model Armor, and remove safety settings: the API does not take both."""
    if not isinstance(edit, dict):
        raise EditError("modelArmorConfig", "an object", edit)
    if same(edit, read(body, "modelArmorConfig")) and read(body, "safetySettings") is None:
        return body
    return write(without(body, "safetySettings"), "modelArmorConfig", edit)


def _apply_contents(body: JsonObject, edit: Any) -> JsonObject:
    if not isinstance(edit, list | dict):
        raise EditError("contents", "a list of contents", edit)
    return body if same(edit, read(body, "contents")) else write(body, "contents", edit)


def _apply_system_instruction(body: JsonObject, edit: Any) -> JsonObject:
    if not isinstance(edit, dict):
        raise EditError("systemInstruction", "a content object", edit)
    return body if same(edit, read(body, "systemInstruction")) else write(body, "systemInstruction", edit)


ViewSection = tuple[str, Callable[[JsonObject, Any], JsonObject]]

# The raw keys come first, so that unchanged messages do not undo them.
_RAW_SECTIONS: tuple[ViewSection, ...] = (
    ("contents", _apply_contents),
    ("systemInstruction", _apply_system_instruction),
    ("generationConfig", _apply_config),
)
_STABLE_SECTIONS: tuple[ViewSection, ...] = (
    ("config", _apply_config),
    ("toolConfig", apply_tool_config),
    ("modelArmorConfig", _apply_model_armor),
)

EDITED_SECTIONS = frozenset(name for name, _ in (*_RAW_SECTIONS, *_STABLE_SECTIONS))
"""The names of the parts of a shown request that an edit may contain, besides the model and the messages."""


VIEWS: Mapping[str, Callable[[str, JsonObject], ShownRequest]] = {
    "text": ShownRequest,
    "parts": ShownPartsRequest,
    "raw": ShownRawRequest,
    "body": ShownBody,
}
"""The views that a hook can configure, by name."""
