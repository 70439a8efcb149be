"""Converts GenerateContentRequest bodies to `LLMRequest` views, and applies hooks' edits to the bodies.

It does no I/O.

    view  = show_request("gemini-2.5-flash", body)
    model, body = apply_request("gemini-2.5-flash", body, edit)

To both show and edit a body, use one ShownRequest. An edit changes only the fields that it
contains; without a change, `body` itself is returned.

`toolConfig` restricts the functions that the model may call. The API accepts names only with the modes ANY
and VALIDATED, and only names of declared functions; otherwise it answers 400. So a hook's selection is
converted to a valid form that offers exactly the functions which the hook allows.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hookgate.translator.checks import check_request
from hookgate.translator.conversation.turns import PARTS, TEXT, Messages, TurnLens
from hookgate.translator.fields import (
    EditError,
    JsonObject,
    camel,
    read,
    read_list,
    read_object,
    same,
    without,
    write,
)

MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""A regular expression for names of models, which become part of a path."""


MODES = ("AUTO", "ANY", "NONE", "VALIDATED")
_NAMING_MODES = ("ANY", "VALIDATED")


def show_tool_config(body: JsonObject) -> JsonObject | None:
    """Return `{"mode", "allowedFunctionNames", "functionCallingConfig": {the same}}`, or None if unset.

    Gemini CLI documents both the flat and the nested form, so a hook may use either.
    """
    config = read_object(read_object(body, "toolConfig"), "functionCallingConfig")
    flat = {
        key: value for key in ("mode", "allowedFunctionNames") if (value := read(config, key)) is not None
    }
    return {**flat, "functionCallingConfig": flat} if flat else None


def requires_json(config: Mapping[str, Any]) -> bool:
    """Return whether a generationConfig, or the `config` of a view, requires an answer in JSON."""
    mime_type = read(config, "responseMimeType")
    return isinstance(mime_type, str) and "json" in mime_type


def declared_names(body: JsonObject) -> list[str]:
    """Return the names of all declared functions, in order."""
    return [
        name
        for tool in read_list(body, "tools")
        if isinstance(tool, dict)
        for declaration in read_list(tool, "functionDeclarations")
        if isinstance(declaration, dict) and isinstance(name := declaration.get("name"), str)
    ]


def declared_descriptions(body: JsonObject) -> dict[str, str]:
    """Return the descriptions of declared functions by name, as far as they have one."""
    return {
        declaration["name"]: description
        for tool in read_list(body, "tools")
        if isinstance(tool, dict)
        for declaration in read_list(tool, "functionDeclarations")
        if isinstance(declaration, dict) and isinstance(declaration.get("name"), str)
        if isinstance(description := declaration.get("description"), str) and description
    }


def callable_names(body: JsonObject) -> frozenset[str]:
    """Return the functions that the model may call: declared functions that the calling config allows."""
    config = read_object(read_object(body, "toolConfig"), "functionCallingConfig")
    mode, names = read(config, "mode"), read_list(config, "allowedFunctionNames")
    if mode == "NONE":
        return frozenset()
    declared = frozenset(declared_names(body))
    return declared.intersection(names) if names and mode in _NAMING_MODES else declared


def read_tool_config(patch: Any, shown: JsonObject | None = None) -> JsonObject:
    """Return the changes in a flat, nested or snake_case selection: `{"mode"?, "allowedFunctionNames"?}`.

    A hook that edits one form of the selection it was `shown` returns the other form unchanged, so the form
    that differs counts. Raises EditError if the mode or the names are invalid.
    """
    if not isinstance(patch, dict):
        raise EditError("toolConfig", "an object", patch)
    nested = read(patch, "functionCallingConfig") or {}
    if not isinstance(nested, dict):
        raise EditError("toolConfig.functionCallingConfig", "an object", nested)
    selection: JsonObject = {}
    for key, check in (("mode", _read_mode), ("allowedFunctionNames", _read_names)):
        values = [value for source in (patch, nested) if (value := read(source, key)) is not None]
        changed = [value for value in values if not same(value, read(shown or {}, key))]
        if changed:
            selection[key] = check(changed[0])
    return selection


def _read_mode(value: Any) -> str:
    if value == "MODE_UNSPECIFIED":
        return "AUTO"
    if value not in MODES:
        raise EditError("toolConfig.mode", f"one of {', '.join(MODES)}", value)
    return str(value)


def _read_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise EditError("toolConfig.allowedFunctionNames", "a list of names", value)
    return list(value)


def apply_tool_config(body: JsonObject, patch: Any) -> JsonObject:
    """Return the body with a hook's tool selection applied, or `body` itself if nothing changes."""
    shown = show_tool_config(body) or {}
    selection = read_tool_config(patch, shown)
    declared = declared_names(body)
    if not selection or not declared:
        return body  # nothing changes, or there are no functions to select
    current = shown.get("mode")
    mode = selection.get("mode") or (current if current in MODES else "AUTO")
    names = selection.get("allowedFunctionNames", shown.get("allowedFunctionNames"))
    # Names that a hook returns with another mode are its selection, even if they are those of the request.
    if (
        mode == "NONE"
        or names is None
        or (mode == "AUTO" and "allowedFunctionNames" not in read_tool_config(patch))
    ):
        return _with_calling_config(body, mode, None)
    known = frozenset(declared)
    allowed = [name for name in names if name in known]
    if not allowed:
        # The API treats an empty list of names as all functions, so an empty selection becomes NONE.
        return _with_calling_config(body, "NONE", None)
    if mode in _NAMING_MODES:
        return _with_calling_config(body, mode, allowed)
    return apply_tools(_with_calling_config(body, mode, None) if shown else body, allowed)


def write_tool_config(body: JsonObject, patch: Any) -> JsonObject:
    """Write a tool selection into a body whose function declarations are not known.

    The selection is not converted to the form that the API accepts, which depends on the declarations. Raises
    EditError if it is invalid.
    """
    shown = show_tool_config(body) or {}
    selection = read_tool_config(patch, shown)
    if not selection:
        return body
    keys = ("mode", "allowedFunctionNames")
    written = {**{key: shown[key] for key in keys if key in shown}, **selection}
    if written.get("mode") == "NONE":
        written = {"mode": "NONE"}
    return write(body, "toolConfig", write(read_object(body, "toolConfig"), "functionCallingConfig", written))


def _with_calling_config(body: JsonObject, mode: str, names: list[str] | None) -> JsonObject:
    tool_config = read_object(body, "toolConfig")
    config = write(read_object(tool_config, "functionCallingConfig"), "mode", mode)
    config = without(config, "allowedFunctionNames")
    if names is not None:
        config = write(config, "allowedFunctionNames", names)
    return write(body, "toolConfig", write(tool_config, "functionCallingConfig", config))


def apply_tools(body: JsonObject, tools: Any) -> JsonObject:
    """Keep only the function declarations that `tools` names, and built-in tools.

    `tools` contains names, tool objects or declarations. Tool objects without remaining declarations are
    removed, and names that no longer exist are removed from the calling configuration.
    """
    keep = set(read_tools(tools))
    declared = declared_names(body)
    if keep.issuperset(declared):
        return body
    pruned = [tool for tool in (_prune(tool, keep) for tool in read_list(body, "tools")) if tool]
    body = write(body, "tools", pruned) if pruned else without(body, "tools")
    return _with_valid_names(body, [name for name in declared if name in keep])


def read_tools(tools: Any) -> list[str]:
    """Return the function names in a hook's list of names, tool objects or declarations."""
    if not isinstance(tools, list):
        raise EditError("tools", "a list of names or tools", tools)
    names: list[str] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, str):
            names.append(tool)
        elif not isinstance(tool, dict):
            raise EditError(f"tools[{index}]", "a name or a tool object", tool)
        elif isinstance(tool.get("name"), str):
            names.append(tool["name"])
        else:
            names += declared_names({"tools": [tool]})
    return names


def _prune(tool: Any, keep: set[str]) -> Any:
    if not isinstance(tool, dict) or not read_list(tool, "functionDeclarations"):
        return tool
    declarations = read_list(tool, "functionDeclarations")
    left = [each for each in declarations if isinstance(each, dict) and each.get("name") in keep]
    return write(tool, "functionDeclarations", left) if left else without(tool, "functionDeclarations")


def _with_valid_names(body: JsonObject, declared: list[str]) -> JsonObject:
    shown = show_tool_config(body) or {}
    names = shown.get("allowedFunctionNames")
    if not declared and shown:
        tool_config = without(read_object(body, "toolConfig"), "functionCallingConfig")
        return write(body, "toolConfig", tool_config) if tool_config else without(body, "toolConfig")
    if not names or set(names) <= set(declared):
        return body
    known = frozenset(declared)
    left = [name for name in names if name in known]
    return _with_calling_config(body, shown.get("mode", "AUTO") if left else "NONE", left or None)


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


class ShownRawRequest(ShownRequest):
    """A view that includes the request's own `contents`, `systemInstruction`, `generationConfig` and `tools`.

    One of Gemini CLI's documents describes it. It doubles the size of the view. The tools are read-only.
    """

    def view(self) -> JsonObject:
        raw = {name: value for name in (*_RAW, "tools") if (value := read(self._body, name)) is not None}
        return {**super().view(), **raw}


_RAW = ("contents", "systemInstruction", "generationConfig")


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
    return ShownRequest(model, body, PARTS).view()


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
_STABLE_SECTIONS: tuple[ViewSection, ...] = (("config", _apply_config), ("toolConfig", apply_tool_config))


VIEWS: Mapping[str, Callable[[str, JsonObject], ShownRequest]] = {
    "text": ShownRequest,
    "parts": partial(ShownRequest, lens=PARTS),
    "raw": ShownRawRequest,
    "body": ShownBody,
}
"""The views that a hook can configure, by name."""
