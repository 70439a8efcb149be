"""The body that creates a response, as a GenerateContentRequest, and back with a hook's edits.

    request = ResponseRequest(body)
    body = request.edited(model, edit(request.model, request.shown))

The `instructions` and the messages of the system and of the developer become `systemInstruction`; the other
items of the input become `contents`, one turn for each item. Functions become `functionDeclarations`,
`tool_choice` becomes `toolConfig`, and settings such as `max_output_tokens` become `generationConfig`. All
other fields keep their names, so that hooks see them in the view `body`.
"""

from typing import Any

from hookgate.translator.conversation.items import encode_tools
from hookgate.translator.fields import BodyError, JsonObject, camel, read_list, read_object, same
from hookgate.translator.openai.calls import (
    MODES,
    check_function_name,
    declare_function,
    encode_selection,
)
from hookgate.translator.openai.fields import (
    TAKEN,
    check_openai_fields,
    decode_extensions,
    edited_body,
    read_string,
)
from hookgate.translator.openai.messages import INSTRUCTING, MessageList
from hookgate.translator.openai.settings import GenerationSettings
from hookgate.translator.responses.contents import decode_item_contents, encode_item_contents
from hookgate.translator.responses.items import (
    check_item_arguments,
    decode_input_item,
    encode_items,
    type_of_item,
)

_CONFIG = {"max_output_tokens": "maxOutputTokens", "temperature": "temperature", "top_p": "topP"}
_OWN = frozenset({"input", "instructions", "model", "stream", "tool_choice", "tools", *_CONFIG})
"""Fields that are shown under another name, or that decide how the gateway handles the call."""

_API = "a response"
_NO_FIELD = "the Responses API has no such field"


class ResponseRequest:
    """A body that creates a response. Raises BodyError if hooks could read it differently."""

    def __init__(self, body: JsonObject) -> None:
        _check_body(body)
        self.body = body
        self.named = read_string(body, "model", "")
        """The model, as the body names it."""
        given = body.get("input")
        self._instructions = body.get("instructions")
        self._items = MessageList(given if isinstance(given, list) else [])
        self.shown: JsonObject = {}
        """The GenerateContentRequest."""
        self._decode_input(given)
        self.shown |= {key: value for key, value in body.items() if key not in _OWN}
        decode_extensions(body, self.shown)
        self._settings = GenerationSettings(body, _CONFIG, _format_in(body), "text.format", _API)
        if self._settings.config:
            self.shown["generationConfig"] = self._settings.config
        self._tools = _decode_tools(body.get("tools"))
        if self._tools:
            self.shown["tools"] = self._tools
        if (choice := body.get("tool_choice")) is not None:
            self.shown["toolConfig"] = {"functionCallingConfig": _decode_choice(choice)}

    # ---- as a GenerateContentRequest

    def _decode_input(self, given: Any) -> None:
        turns = self._items.turns
        if isinstance(given, str):
            turns = [{"role": "user", "parts": [{"text": given}]}]
        elif given is not None:
            self._decode_items(given)
        own = [] if self._instructions is None else [{"text": self._instructions}]
        if instruction := [*own, *self._items.instruction]:
            self.shown["systemInstruction"] = {"parts": instruction}
        if turns:
            self.shown["contents"] = turns

    def _decode_items(self, items: list[Any]) -> None:
        check_item_arguments(items, "input")
        names: dict[str, str] = {}
        for number, item in enumerate(items):
            path = f"input[{number}]"
            if type_of_item(item, path) == "message" and item.get("role") in INSTRUCTING:
                parts = decode_item_contents(item.get("content"), f"{path}.content")
                self._items.add_instruction(number, parts, path)
                continue
            turn = decode_input_item(item, path, names)
            for part in turn["parts"]:
                call = part.get("functionCall")
                if call is not None and (id_ := call.get("id")) is not None:
                    check_function_name(call["name"], f"{path}.name")
                    names[id_] = call["name"]
            self._items.add_turn(number, turn)

    def place(self, path: str) -> str:
        """Return the path in the body of a part of the request that hooks are shown."""
        return self._items.place(path, "input")

    # ---- and back

    def edited(self, model: str, request: JsonObject) -> JsonObject:
        """Return the body with the model and the edited request; the body itself if nothing changed.

        `model` is as the body has to name it. Raises BodyError if a body cannot express the request.
        """
        return edited_body(self.body, self.shown, model, request, encode=self._encode, no_field=_NO_FIELD)

    def _encode(self, request: JsonObject) -> JsonObject:
        config = read_object(request, "generationConfig")
        new = self._encode_input(request) | self._settings.encode(config)
        return new | self._encode_format(config, request.get("text")) | self._encode_tools(request)

    def _encode_input(self, request: JsonObject) -> JsonObject:
        turns = read_list(request, "contents")
        parts = read_list(read_object(request, "systemInstruction"), "parts")
        # What hooks add joins the instructions, which come before all items.
        added = [part for part in parts if "message" not in part]
        new: JsonObject = {}
        if added:
            if any("text" not in part for part in added):
                raise BodyError("instructions", "they must be text")
            new["instructions"] = "\n\n".join(part["text"] for part in added)
        given = self.body.get("input")
        if isinstance(given, list):
            new["input"] = self._items.encode(
                turns,
                [part for part in parts if "message" in part],
                encode_items,
                lambda parts: encode_item_contents(parts, "input_text"),
                lambda item: item.get("type") == "function_call_output",
            )
        elif isinstance(given, str) and same(turns, self.shown.get("contents", [])):
            new["input"] = given
        elif turns or given is not None:
            single = turns[0] if len(turns) == 1 and turns[0].get("role", "user") == "user" else {}
            texts = read_list(single, "parts")
            plain = len(texts) == 1 and texts[0].keys() == {"text"}
            items = [item for turn in turns for item in encode_items(turn)]
            new["input"] = texts[0]["text"] if plain else items
        return new

    def _encode_format(self, config: JsonObject, text: Any) -> JsonObject:
        changed, wanted = self._settings.encode_format(config)
        if not changed:
            return {}
        text = text if isinstance(text, dict) else {}
        return {"text": {**text, "format": wanted or {"type": "text"}}}

    def _encode_tools(self, request: JsonObject) -> JsonObject:
        offered, given = read_list(request, "tools"), self.body.get("tools") or []
        tools = encode_tools(offered, self._tools, given, _encode_tool)
        return encode_selection(
            self.body,
            self.shown,
            request,
            tools,
            function_of=lambda tool: tool,
            choose=lambda name: {"type": "function", "name": name},
        )


_HELD = {
    "background": "hooks could not judge an answer that is read later; omit it",
    "conversation": "the API stores it, so hooks cannot inspect it; send its items as input",
    "previous_response_id": "the API stores it, so hooks cannot inspect it; send its items as input",
    "prompt": "the API stores it, so hooks cannot inspect it; send its text as instructions or input",
}
"""Fields that refer to what the API stores, with the reason and the remedy."""


def held_content(body: JsonObject) -> tuple[str, str] | None:
    """Return the first field of a body that refers to what the API stores, and why hooks cannot judge it.

    Returns None if the body refers to nothing else. Raises BodyError for a field that is spelled otherwise.
    """
    check_openai_fields(body, "")
    for field, reason in _HELD.items():
        value = body.get(field)
        if value is not None and not (field == "background" and value is False):
            return field, reason
    return None


def _check_body(body: JsonObject) -> None:
    """Refuse a body with fields that hooks could not judge. Raises BodyError."""
    check_openai_fields(body, "")
    for key in body:
        if camel(key) in TAKEN:
            raise BodyError(key, _NO_FIELD)
    if body.get("messages") is not None:
        raise BodyError("messages", "hooks judge the input; use this")
    for key in ("background", "store", "stream"):
        if not isinstance(body.get(key), bool | None):
            raise BodyError(key, "must be true or false")
    if body.get("audio") is not None or "audio" in read_list(body, "modalities"):
        raise BodyError("audio", "hooks cannot judge spoken answers; omit it")
    if not isinstance(body.get("input"), str | list | None):
        raise BodyError("input", "the input must be a text or a list of items")
    if not isinstance(body.get("instructions"), str | None):
        raise BodyError("instructions", "the instructions must be a string")


def _format_in(body: JsonObject) -> Any:
    text = body.get("text")
    if text is None:
        return None
    return check_openai_fields(text, "text").get("format")


def _decode_choice(choice: Any) -> JsonObject:
    """Return the functionCallingConfig for a `tool_choice`. Raises BodyError."""
    if isinstance(choice, str) and choice in MODES:
        return {"mode": MODES[choice]}
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind == "function" and choice.keys() == {"type", "name"}:
        return {"mode": "ANY", "allowedFunctionNames": [read_string(choice, "name", "tool_choice")]}
    if kind == "allowed_tools" and choice.keys() == {"type", "mode", "tools"}:
        mode, tools = choice["mode"], choice["tools"]
        if isinstance(mode, str) and mode in MODES and isinstance(tools, list):
            names = [_name_in(tool, f"tool_choice.tools[{number}]") for number, tool in enumerate(tools)]
            return {"mode": MODES[mode], "allowedFunctionNames": names}
    raise BodyError("tool_choice", "expected auto, none, required, a function, or allowed_tools")


def _name_in(tool: Any, path: str) -> str:
    if not isinstance(tool, dict) or tool.keys() != {"type", "name"} or tool["type"] != "function":
        raise BodyError(path, "expected {type: 'function', name}")
    return read_string(tool, "name", path)


def _decode_tools(tools: Any) -> list[JsonObject]:
    if not isinstance(tools, list | None):
        raise BodyError("tools", "the tools must be a list, since hooks cannot inspect other types")
    return [_decode_tool(tool, f"tools[{number}]") for number, tool in enumerate(tools or ())]


def _decode_tool(tool: Any, path: str) -> JsonObject:
    check_openai_fields(tool, path)
    if tool.get("type") != "function":
        raise BodyError(f"{path}.type", "hooks judge functions only; use type 'function'")
    read_string(tool, "name", path)
    return declare_function({key: value for key, value in tool.items() if key != "type"})


def _encode_tool(tool: JsonObject) -> list[JsonObject]:
    if tool.keys() - {"functionDeclarations", "function_declarations"}:
        raise BodyError("tools", f"a response cannot have a tool with {', '.join(tool)}")
    return [{"type": "function", **each} for each in read_list(tool, "functionDeclarations")]
