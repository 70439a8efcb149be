"""The body that creates a chat completion, as a GenerateContentRequest, and back with a hook's edits.

    request = ChatRequest(body)
    body = request.edited(model, edit(request.model, request.shown))

Messages of the system and of the developer become `systemInstruction`, one part for each text; the others
become `contents`, one turn for each message. Functions become `functionDeclarations`, `web_search_options`
becomes the tool `googleSearch`, `tool_choice` becomes `toolConfig`, and settings such as `max_tokens` become
`generationConfig`. All other fields keep their names, so that hooks see them in the view `body`.
"""

from typing import Any

from hookgate.translator.chat.contents import decode_message_contents, encode_contents
from hookgate.translator.chat.messages import check_message_arguments, decode_message, encode_messages
from hookgate.translator.conversation.items import encode_tools
from hookgate.translator.fields import BodyError, JsonObject, camel, read_list, read_object
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
from hookgate.translator.strictjson import dumps

_ROLES = (*INSTRUCTING, "user", "assistant", "tool")

_CONFIG = {
    "frequency_penalty": "frequencyPenalty",
    "max_completion_tokens": "maxOutputTokens",
    "max_tokens": "maxOutputTokens",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "seed": "seed",
    "stop": "stopSequences",
    "temperature": "temperature",
    "top_p": "topP",
}
_SEARCH = "web_search_options"
_OWN = frozenset({"messages", "model", "stream", "tool_choice", "tools", _SEARCH, *_CONFIG})
"""Fields that are shown under another name, or that decide how the gateway handles the call."""

_NO_FIELD = "a chat completion has no such field"


class ChatRequest:
    """A body that creates a chat completion. Raises BodyError if hooks could read it differently."""

    def __init__(self, body: JsonObject) -> None:
        _check_body(body)
        self.body = body
        self.named = read_string(body, "model", "")
        """The model, as the body names it."""
        self.streamed = body.get("stream") is True
        self._messages = MessageList(body["messages"])
        self.shown: JsonObject = {}
        """The GenerateContentRequest."""
        self._decode_messages(body["messages"])
        self.shown |= {key: value for key, value in body.items() if key not in _OWN}
        decode_extensions(body, self.shown)
        wanted = body.get("response_format")
        self._settings = GenerationSettings(body, _CONFIG, wanted, "response_format", "a chat completion")
        if self._settings.config:
            self.shown["generationConfig"] = self._settings.config
        self._tools = self._decode_tools()
        searches = [] if body.get(_SEARCH) is None else [{"googleSearch": body[_SEARCH]}]
        if self._tools or searches:
            self.shown["tools"] = [*self._tools, *searches]
        if (choice := body.get("tool_choice")) is not None:
            self.shown["toolConfig"] = {"functionCallingConfig": _decode_choice(choice)}

    # ---- as a GenerateContentRequest

    def _decode_messages(self, messages: list[Any]) -> None:
        check_message_arguments(messages, "messages")
        names: dict[str, str] = {}
        for number, message in enumerate(messages):
            path = f"messages[{number}]"
            check_openai_fields(message, path)
            if message.get("role") not in _ROLES:
                raise BodyError(f"{path}.role", f"hooks know the roles {', '.join(_ROLES)}")
            if message.get("function_call") is not None:
                raise BodyError(f"{path}.function_call", "hooks judge tool_calls; use these")
            if message["role"] in INSTRUCTING:
                parts = decode_message_contents(message.get("content"), f"{path}.content")
                self._messages.add_instruction(number, parts, path)
                continue
            turn = decode_message(message, path, names)
            calls = [part["functionCall"] for part in turn["parts"] if "functionCall" in part]
            for at, call in enumerate(calls):
                check_function_name(call["name"], f"{path}.tool_calls[{at}].function.name")
                if isinstance(id_ := call.get("id"), str):
                    names[id_] = call["name"]
            self._messages.add_turn(number, turn)
        if self._messages.instruction:
            self.shown["systemInstruction"] = {"parts": self._messages.instruction}
        if self._messages.turns:
            self.shown["contents"] = self._messages.turns

    def _decode_tools(self) -> list[JsonObject]:
        tools = self.body.get("tools")
        if not isinstance(tools, list | None):
            raise BodyError("tools", "the tools must be a list, since hooks cannot inspect other types")
        return [_decode_tool(tool, f"tools[{number}]") for number, tool in enumerate(tools or ())]

    def place(self, path: str) -> str:
        """Return the path in the body of a part of the request that hooks are shown."""
        return self._messages.place(path, "messages")

    # ---- and back

    def edited(self, model: str, request: JsonObject) -> JsonObject:
        """Return the body with the model and the edited request; the body itself if nothing changed.

        `model` is as the body has to name it. Raises BodyError if a body cannot express the request.
        """
        return edited_body(self.body, self.shown, model, request, encode=self._encode, no_field=_NO_FIELD)

    def _encode(self, request: JsonObject) -> JsonObject:
        config = read_object(request, "generationConfig")
        new: JsonObject = {"messages": self._encode_messages(request), **self._settings.encode(config)}
        changed, wanted = self._settings.encode_format(config)
        if changed:
            new["response_format"] = wanted
        return new | self._encode_tools(request)

    def _encode_messages(self, request: JsonObject) -> list[Any]:
        raw_calls = self._raw_calls()
        return self._messages.encode(
            read_list(request, "contents"),
            read_list(read_object(request, "systemInstruction"), "parts"),
            lambda turn: encode_messages(turn, raw_calls),
            lambda parts: encode_contents(parts, joins=False),
            lambda message: message.get("role") == "tool",
        )

    def _raw_calls(self) -> dict[bytes, JsonObject]:
        """Return the tool calls of all messages, by the JSON of the parts as which they are shown."""
        calls: dict[bytes, JsonObject] = {}
        for turn, message in self._messages.pairs():
            shown = [part for part in turn["parts"] if "functionCall" in part]
            if shown:
                calls |= zip(map(dumps, shown), message["tool_calls"], strict=True)
        return calls

    def _encode_tools(self, request: JsonObject) -> JsonObject:
        offered = read_list(request, "tools")
        searches = [tool["googleSearch"] for tool in offered if tool.keys() == {"googleSearch"}]
        functions = [tool for tool in offered if tool.keys() != {"googleSearch"}]
        tools = encode_tools(functions, self._tools, self.body.get("tools") or [], _encode_tool)
        selection = encode_selection(
            self.body,
            self.shown,
            request,
            tools,
            function_of=lambda tool: read_object(tool, "function"),
            choose=lambda name: {"type": "function", "function": {"name": name}},
        )
        return {**selection, _SEARCH: searches[-1]} if searches else selection


def with_usage(body: JsonObject) -> JsonObject:
    """Return a body of a streamed completion that asks for its usage; the body itself if it does."""
    options = body.get("stream_options") or {}
    if options.get("include_usage") is True:
        return body
    return {**body, "stream_options": {**options, "include_usage": True}}


def _check_body(body: JsonObject) -> None:
    """Refuse a body with fields that hooks could not judge. Raises BodyError."""
    check_openai_fields(body, "")
    for key in body:
        if camel(key) in TAKEN:
            raise BodyError(key, _NO_FIELD)
    for key in ("functions", "function_call"):
        if body.get(key) is not None:
            raise BodyError(key, "hooks judge tools and tool_choice; use these")
    if not isinstance(body.get("stream"), bool | None):
        raise BodyError("stream", "must be true or false")
    if not isinstance(body.get("stream_options"), dict | None):
        raise BodyError("stream_options", "it must be an object")
    if body.get("audio") is not None or "audio" in read_list(body, "modalities"):
        raise BodyError("audio", "hooks cannot judge spoken answers; omit it")
    if not isinstance(body.get("messages"), list):
        raise BodyError("messages", "the messages must be a list")


def _decode_choice(choice: Any) -> JsonObject:
    """Return the functionCallingConfig for a `tool_choice`. Raises BodyError."""
    if isinstance(choice, str) and choice in MODES:
        return {"mode": MODES[choice]}
    if (
        isinstance(choice, dict)
        and choice.get("type") == "function"
        and choice.keys() <= {"type", "function"}
    ):
        return {"mode": "ANY", "allowedFunctionNames": [_name_in(choice, "tool_choice")]}
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) else None
    if isinstance(allowed, dict) and choice.get("type") == "allowed_tools" and len(choice) == 2:
        mode, tools = allowed.get("mode"), allowed.get("tools")
        if (
            isinstance(mode, str)
            and mode in MODES
            and isinstance(tools, list)
            and allowed.keys() <= {"mode", "tools"}
        ):
            names = [_name_in(tool, "tool_choice.allowed_tools.tools") for tool in tools]
            return {"mode": MODES[mode], "allowedFunctionNames": names}
    raise BodyError("tool_choice", "expected auto, none, required, a function, or allowed_tools")


def _name_in(tool: Any, path: str) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        raise BodyError(path, "expected {type: 'function', function: {name}}")
    return read_string(function, "name", f"{path}.function")


def _decode_tool(tool: Any, path: str) -> JsonObject:
    check_openai_fields(tool, path)
    if tool.get("type") != "function":
        raise BodyError(f"{path}.type", "hooks judge functions only; use type 'function'")
    if any(camel(key) in ("functionDeclarations", "fileSearch") for key in tool):
        raise BodyError(path, "a tool has a function and nothing else")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise BodyError(f"{path}.function", "it must be an object, since hooks cannot inspect other types")
    read_string(function, "name", f"{path}.function")
    rest = {key: value for key, value in tool.items() if key not in ("function", "type")}
    return {**rest, **declare_function(function)}


def _encode_tool(tool: JsonObject) -> list[JsonObject]:
    declared = read_list(tool, "functionDeclarations")
    if declared or tool.keys() <= {"functionDeclarations"}:  # of which a hook left none
        rest = {key: value for key, value in tool.items() if camel(key) != "functionDeclarations"}
        return [{"type": "function", **rest, "function": each} for each in declared]
    raise BodyError("tools", f"a chat completion cannot have a tool with {', '.join(tool) or 'no fields'}")
