"""The body that creates an interaction, as a GenerateContentRequest, and back with a hook's edits.

    request = InteractionRequest(body)
    body = request.edited(model, edit(request.model, request.shown))

The input becomes `contents`, one turn for each step. The functions among the tools become
`functionDeclarations`, other tools become fields such as `googleSearch`, and `tool_choice` becomes
`toolConfig`. All other fields keep their names, so that hooks see them in the view `body`.
"""

from typing import Any

from hookgate.translator.checks import check_spellings
from hookgate.translator.conversation.items import ItemList, encode_tools
from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    camel,
    read,
    read_list,
    read_object,
    same,
    snake_field,
)
from hookgate.translator.interactions.contents import check_fields, check_names, encode_content
from hookgate.translator.interactions.steps import decode_contents, decode_step, encode_turn, is_step

_OWN = frozenset({"agent", "input", "model", "stream", "system_instruction", "systemInstruction"})
"""Fields that are shown under another name, or that decide how the gateway handles the call."""

_EARLIER = "previousInteraction"
_TAKEN = frozenset({"contents", "previousInteraction", "previous_interaction", "toolConfig", "tool_config"})
_SHOWN = frozenset(
    {
        *("contents", "generation_config", "previous_interaction", "system_instruction"),
        *("tool_config", "tools"),
    }
)
"""Fields of a GenerateContentRequest that are converted, or only shown."""

_MODES = {"AUTO": "auto", "ANY": "any", "NONE": "none", "VALIDATED": "validated"}


class InteractionRequest:
    """A body that creates an interaction. Raises BodyError if hooks and the API could read it differently."""

    def __init__(self, body: JsonObject, earlier: JsonObject | None = None) -> None:
        """`earlier` is shown as what is known of the interaction that this one continues.

        It has `known`, and may have `revision` and `contents`.
        """
        _check_own_fields(body)
        self.body = body
        self._name = "model" if read(body, "agent") is None else "agent"
        named = body.get(self._name)
        self.named = named if isinstance(named, str) else ""
        """The model, or the agent in its place; empty if the body names none."""
        if self._name == "agent" and body.get("model") is not None:
            raise BodyError("agent", "an interaction has a model or an agent, not both")
        self.streamed = body.get("stream") is True
        self._input = body.get("input")
        self._items = ItemList(self._input if isinstance(self._input, list) else [])
        self._tools: list[JsonObject] = []
        self._turns = self._decode_input()
        self.shown: JsonObject = {"contents": self._turns} if self._turns else {}
        """The GenerateContentRequest."""
        instruction = read(body, "systemInstruction")
        if instruction is not None:
            if not isinstance(instruction, str):
                raise BodyError("system_instruction", "the system instruction must be a string")
            self.shown["systemInstruction"] = {"parts": [{"text": instruction}]}
        for key, value in body.items():
            if key not in _OWN:
                self.shown[key] = value
        if earlier is not None:
            self.shown[_EARLIER] = earlier
        self._decode_config()
        self._decode_tools()

    # ---- as a GenerateContentRequest

    def _decode_input(self) -> list[JsonObject]:
        given = self._input
        if given is None:
            return []
        if isinstance(given, str):
            return [{"role": "user", "parts": [{"text": given}]}]
        if isinstance(given, dict):
            if is_step(given):
                raise BodyError("input", "steps must be in a list")
            return [{"role": "user", "parts": decode_contents([given], "input")}]
        if not isinstance(given, list):
            raise BodyError("input", "the input must be a text, a content, or a list of contents or steps")
        if not any(map(is_step, given)):
            return [{"role": "user", "parts": decode_contents(given, "input")}] if given else []
        for number, step in enumerate(given):
            self._items.add_turn(number, decode_step(step, f"input[{number}]"))
        return self._items.turns

    def _decode_config(self) -> None:
        config = read(self.body, "generationConfig")
        if config is None:
            config = {}
        if not isinstance(config, dict):
            raise BodyError(
                "generation_config", "it must be an object, since hooks cannot inspect other types"
            )
        check_spellings(config, "generation_config")
        shown = {key: value for key, value in config.items() if key not in ("tool_choice", "toolChoice")}
        choice = read(config, "toolChoice")
        if choice is not None:
            self.shown["toolConfig"] = {"functionCallingConfig": _decode_choice(choice)}
        if (media_type := self._media_type()) is not None:
            if read(shown, "responseMimeType") is not None:
                raise BodyError("generation_config", "the Interactions API has no response_mime_type here")
            shown["responseMimeType"] = media_type
        for key in ("generation_config", "generationConfig"):
            self.shown.pop(key, None)
        self._config = shown
        if shown:
            self.shown["generationConfig"] = shown

    def _media_type(self) -> str | None:
        """Return the media type that the answer must have, or None."""
        wanted = read(self.body, "responseFormat")
        formats = wanted if isinstance(wanted, list) else [wanted]
        named = [read(each, "mimeType") for each in formats if isinstance(each, dict)]
        named.append(read(self.body, "responseMimeType"))
        return next((name for name in named if isinstance(name, str)), None)

    def _decode_tools(self) -> None:
        tools = self.body.get("tools")
        if tools is None:
            return
        if not isinstance(tools, list):
            raise BodyError("tools", "the tools must be a list, since hooks cannot inspect other types")
        self._tools = [_decode_tool(tool, f"tools[{number}]") for number, tool in enumerate(tools)]
        self.shown["tools"] = self._tools

    def place(self, path: str) -> str:
        """Return the path in the body of a part of the request that hooks are shown."""
        return self._items.place(path, "input")

    # ---- and back

    def edited(self, model: str, request: JsonObject) -> JsonObject:
        """Return the body with the model and the edited request; the body itself if nothing changed.

        Raises BodyError if an interaction cannot express the request.
        """
        body = self.body
        same_model = self.named in (model, f"models/{model}")
        if same_model and (request is self.shown or same(request, self.shown)):
            return body
        values = self._values(model, request)
        if same_model:
            values[self._name] = self.named
        kept = {
            key: values.pop(snake_field(key)) for key in body if snake_field(key) in values
        }  # as it was spelled
        return {**kept, **values}

    def _values(self, model: str, request: JsonObject) -> JsonObject:
        """Return the fields of the new body, the documented ones in snake_case."""
        body = self.body
        values: JsonObject = {self._name: model}
        if "stream" in body:
            values["stream"] = body["stream"]
        if "input" in body or "contents" in request:
            values["input"] = self._encode_input(read_list(request, "contents"))
        parts = read_list(read_object(request, "systemInstruction"), "parts")
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        if texts:
            values["system_instruction"] = "\n\n".join(texts)
        config = self._encode_config(request)
        if config or read(body, "generationConfig") is not None:
            values["generation_config"] = config
        tools = read_list(request, "tools")
        if tools or body.get("tools") == []:
            values["tools"] = encode_tools(tools, self._tools, body.get("tools") or [], _encode_tool)
        values |= {
            snake_field(key): value for key, value in request.items() if snake_field(key) not in _SHOWN
        }
        return self._with_format(values, request)

    def _encode_input(self, turns: list[Any]) -> Any:
        given = self._input
        if len(turns) == len(self._turns) and all(map(same, turns, self._turns)):
            return given
        if not isinstance(given, list) or not any(map(is_step, given)):
            return self._encode_contents(turns)
        return [step for _, steps in self._items.encode_turns(turns, encode_turn) for step in steps]

    def _encode_contents(self, turns: list[Any]) -> Any:
        """Return the input for edited turns, in the form of the original one if possible."""
        given = self._input
        if len(turns) != 1 or turns[0].get("role", "user") != "user" or "type" in turns[0]:
            return [step for turn in turns for step in encode_turn(turn)]
        parts = read_list(turns[0], "parts")
        if isinstance(given, str) and len(parts) == 1 and parts[0].keys() == {"text"}:
            return parts[0]["text"]
        steps = encode_turn(turns[0])
        if len(steps) > 1 or (steps and steps[0]["type"] != "user_input"):
            return steps
        contents = [encode_content(part) for part in parts]
        return contents[0] if isinstance(given, dict) and len(contents) == 1 else contents

    def _encode_config(self, request: JsonObject) -> JsonObject:
        original: JsonObject = read(self.body, "generationConfig") or {}
        config = {
            key if key in original else snake_field(key): value
            for key, value in read_object(request, "generationConfig").items()
            if snake_field(key) != "response_mime_type"
        }
        chosen = request.get("toolConfig")
        if chosen is not None and same(chosen, self.shown.get("toolConfig")):
            spelled = next(key for key in ("tool_choice", "toolChoice") if key in original)
            return {
                **{key: config[key] for key in original if key in config},
                **config,
                spelled: original[spelled],
            }
        calling = read_object(chosen, "functionCallingConfig") if isinstance(chosen, dict) else {}
        return {**config, "tool_choice": _encode_choice(calling)} if calling else config

    def _with_format(self, values: JsonObject, request: JsonObject) -> JsonObject:
        """Apply an edit of `responseMimeType`, which an interaction has in its response_format."""
        wanted = read(read_object(request, "generationConfig"), "responseMimeType")
        if wanted == self._media_type():
            return values
        values.pop("response_mime_type", None)
        current = values.pop("response_format", None)
        if wanted is not None:
            current = current if isinstance(current, dict) else {"type": "text"}
            values["response_format"] = {**current, "mime_type": wanted}
        return values


def _check_own_fields(body: JsonObject) -> None:
    """Refuse fields that would be shown as others, or that decide about the call by an unclear value."""
    check_names(body)
    for key in body:
        if key in _TAKEN:
            raise BodyError(key, "the Interactions API has no such field")
    for key in ("stream", "background", "store"):
        if not isinstance(body.get(key), bool | None):
            raise BodyError(key, "must be true or false")


def _decode_choice(choice: Any) -> JsonObject:
    """Return the functionCallingConfig for a `tool_choice`. Raises BodyError."""
    if isinstance(choice, str):
        return {"mode": choice.upper()}
    allowed = read(choice, "allowedTools") if isinstance(choice, dict) and len(choice) == 1 else None
    if not isinstance(allowed, dict) or not allowed.keys() <= {"mode", "tools"}:
        raise BodyError("generation_config.tool_choice", "expected a mode, or {allowed_tools: {mode, tools}}")
    mode, tools = allowed.get("mode"), allowed.get("tools")
    if not isinstance(mode, str | None) or not isinstance(tools, list | None):
        raise BodyError("generation_config.tool_choice", "expected a mode, or {allowed_tools: {mode, tools}}")
    config: JsonObject = {} if mode is None else {"mode": mode.upper()}
    return config if tools is None else {**config, "allowedFunctionNames": tools}


def _encode_choice(config: JsonObject) -> Any:
    mode, names = config.get("mode"), config.get("allowedFunctionNames")
    mode = _MODES.get(mode, mode) if isinstance(mode, str) else None
    if names is None:
        return mode or "auto"
    return {"allowed_tools": {**({} if mode is None else {"mode": mode}), "tools": names}}


_KINDS = {"mcp_server": "mcpServers"}
"""Kinds of hosted tools that generateContent names otherwise."""

_TYPES = {kind: name for name, kind in _KINDS.items()}


def _decode_tool(tool: Any, path: str) -> JsonObject:
    """Return the tool as generateContent has it, where its type is a field. Raises BodyError."""
    check_fields(tool, path)
    rest = {key: value for key, value in tool.items() if key != "type"}
    name = tool.get("type")
    if name == "function":
        return {"functionDeclarations": [rest]}
    kind = camel(name) if isinstance(name, str) else ""
    if not kind or kind == "functionDeclarations" or snake_field(kind) != name:
        raise BodyError(f"{path}.type", "a tool must have a type, such as function or google_search")
    return {_KINDS.get(name, kind): rest}


def _encode_tool(tool: JsonObject) -> list[Any]:
    tools = [{"type": "function", **each} for each in read_list(tool, "functionDeclarations")]
    for key, value in tool.items():
        if (kind := camel(key)) == "functionDeclarations":
            continue
        if not isinstance(value, dict):
            raise BodyError("tools", f"an interaction has {kind} as an object")
        tools.append({"type": _TYPES.get(kind, snake_field(kind)), **value})
    return tools
