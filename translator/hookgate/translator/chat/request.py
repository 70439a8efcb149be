"""The body that creates a chat completion, as a GenerateContentRequest, and back with a hook's edits.

    request = ChatRequest(body)
    body = request.edited(model, edit(request.model, request.shown))

Messages of the system and of the developer become `systemInstruction`, one part for each text; the others
become `contents`, one turn for each message. Functions become `functionDeclarations`, `tool_choice` becomes
`toolConfig`, and settings such as `max_tokens` become `generationConfig`. All other fields keep their names,
so that hooks see them in the view `body`.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from hookgate.translator.chat.contents import (
    check_chat_fields,
    close_contents,
    open_message_contents,
    read_string,
)
from hookgate.translator.chat.messages import close_messages, open_message
from hookgate.translator.conversation.alignment import align_parts
from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    TooLargeError,
    camel,
    read,
    read_list,
    read_object,
    same,
)
from hookgate.translator.strictjson import dumps, exceeds

_TAKEN = frozenset({"contents", "generationConfig", "systemInstruction", "toolConfig"})
"""Fields of a GenerateContentRequest that a chat completion does not have."""

_MAX_ARGUMENT_VALUES = 200_000
"""The maximum number of JSON values in the arguments of all tool calls.

The limit for the values of a body does not count them, because they are in strings.
"""

_MAX_NAME = 256
"""The maximum number of characters in the name of a function, which each result of its call is shown with."""

_INSTRUCTING = ("system", "developer")
_ROLES = (*_INSTRUCTING, "user", "assistant", "tool")

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
_NAME_OF = {shown: name for name, shown in _CONFIG.items()}
_OWN = frozenset({"messages", "model", "stream", "tool_choice", "tools", *_CONFIG})
"""Fields that are shown under another name, or that decide how the gateway handles the call."""

_JSON = "application/json"
_FORMATS = {"json_object": _JSON, "json_schema": _JSON}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_CHOICES = {"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}


class ChatRequest:
    """A body that creates a chat completion. Raises BodyError if hooks could read it differently."""

    def __init__(self, body: JsonObject) -> None:
        _check_body(body)
        self.body = body
        self.named = read_string(body, "model", "")
        """The model, as the body names it."""
        self.streamed = body.get("stream") is True
        self._messages: list[Any] = body["messages"]
        self._numbers: list[int] = []  # of the messages that are turns
        self._turns: list[JsonObject] = []
        self.shown: JsonObject = {}
        """The GenerateContentRequest."""
        self._open_messages()
        self.shown |= {key: value for key, value in body.items() if key not in _OWN}
        extensions = [body.get("extra_body"), body.get("google")]
        caches = [*_cached_contents(extensions)]
        if len(caches) + (read(self.shown, "cachedContent") is not None) > 1:
            raise BodyError("extra_body", "cached content must be named once")
        if caches:
            self.shown["cachedContent"] = caches[0]
        self._config = self._open_config()
        if self._config:
            self.shown["generationConfig"] = self._config
        self._tools = self._open_tools()
        if self._tools:
            self.shown["tools"] = self._tools
        if (choice := body.get("tool_choice")) is not None:
            self.shown["toolConfig"] = {"functionCallingConfig": _open_choice(choice)}

    # ---- as a GenerateContentRequest

    def _open_messages(self) -> None:
        _check_arguments(self._messages)
        instruction: list[JsonObject] = []
        names: dict[str, str] = {}
        for number, message in enumerate(self._messages):
            path = f"messages[{number}]"
            check_chat_fields(message, path)
            if message.get("role") not in _ROLES:
                raise BodyError(f"{path}.role", f"hooks know the roles {', '.join(_ROLES)}")
            if message.get("function_call") is not None:
                raise BodyError(f"{path}.function_call", "hooks judge tool_calls; use these")
            if message["role"] in _INSTRUCTING:
                instruction += _open_instruction(message, number, path)
                continue
            turn = open_message(message, path, names)
            calls = [part["functionCall"] for part in turn["parts"] if "functionCall" in part]
            for at, call in enumerate(calls):
                if len(call["name"]) > _MAX_NAME:
                    place = f"{path}.tool_calls[{at}].function.name"
                    raise BodyError(place, f"the name of a function can have at most {_MAX_NAME} characters")
                if isinstance(id_ := call.get("id"), str):
                    names[id_] = call["name"]
            self._numbers.append(number)
            self._turns.append(turn)
        if instruction:
            self.shown["systemInstruction"] = {"parts": instruction}
        if self._turns:
            self.shown["contents"] = self._turns

    def _open_config(self) -> JsonObject:
        config: JsonObject = {}
        for name, shown in _CONFIG.items():
            value = self.body.get(name)
            if value is None:
                continue
            if shown in config:
                raise BodyError(name, f"the field is given twice, also as {_NAME_OF[shown]!r}; send it once")
            config[shown] = [value] if name == "stop" and isinstance(value, str) else value
        wanted = self.body.get("response_format")
        if not isinstance(wanted, dict | None):
            raise BodyError("response_format", "it must be an object, since hooks cannot inspect other types")
        if wanted and (media_type := _FORMATS.get(str(wanted.get("type")))):
            config["responseMimeType"] = media_type
        return config

    def _open_tools(self) -> list[JsonObject]:
        tools = self.body.get("tools")
        if not isinstance(tools, list | None):
            raise BodyError("tools", "the tools must be a list, since hooks cannot inspect other types")
        return [_open_tool(tool, f"tools[{number}]") for number, tool in enumerate(tools or ())]

    # ---- and back

    def edited(self, model: str, request: JsonObject) -> JsonObject:
        """Return the body with the model and the edited request; the body itself if nothing changed.

        `model` is as the body has to name it. Raises BodyError if a body cannot express the request.
        """
        body = self.body
        if request is self.shown or same(request, self.shown):
            return body if model == self.named else {**body, "model": model}
        new: JsonObject = {"model": model} | {key: body[key] for key in ("stream",) if key in body}
        new["messages"] = self._close_messages(request)
        new |= self._close_config(read_object(request, "generationConfig"))
        new |= self._close_tools(request)
        for key, value in request.items():
            if camel(key) in (*_TAKEN, "tools"):
                continue
            if key not in body and not same(value, self.shown.get(key)):
                raise BodyError(key, "a chat completion has no such field")
            if key in body and key not in new:
                new[key] = value
        kept: JsonObject = {}
        for key, value in body.items():
            if value is None or key in new:
                kept[key] = new.pop(key, None)
        if body.get("response_format") is not None and kept.get("response_format") is None:
            kept.pop("response_format", None)
        return {**kept, **new}

    def _close_messages(self, request: JsonObject) -> list[Any]:
        turns = read_list(request, "contents")
        if same(turns, self._turns) and same(
            read(request, "systemInstruction"), self.shown.get("systemInstruction")
        ):
            return self._messages
        instructing = deque(self._close_instruction(read_object(request, "systemInstruction")))
        out: list[Any] = []
        added: list[Any] = []  # what hooks put beside a result: it must not part the results of one turn
        raw_calls = self._raw_calls()
        for turn, match in zip(turns, align_parts(self._turns, turns), strict=True):
            number = 0 if match is None else self._numbers[match]
            while instructing and instructing[0][0] < number:  # new ones come first
                out.append(instructing.popleft()[1])
            if match is not None and same(turn, self._turns[match]):
                closed = [self._messages[self._numbers[match]]]
            else:
                closed = close_messages(turn, raw_calls)
            results = [message for message in closed if message["role"] == "tool"]
            if not results:
                out += added
                added = []
            out += results or closed
            added += closed[len(results) :] if results else []
        return [*out, *added, *(message for _, message in instructing)]

    def _raw_calls(self) -> dict[bytes, JsonObject]:
        """Return the tool calls of all messages, by the JSON of the parts as which they are shown."""
        calls: dict[bytes, JsonObject] = {}
        for turn, number in zip(self._turns, self._numbers, strict=True):
            shown = [part for part in turn["parts"] if "functionCall" in part]
            if shown:
                calls |= zip(map(dumps, shown), self._messages[number]["tool_calls"], strict=True)
        return calls

    def _close_instruction(self, instruction: JsonObject) -> list[tuple[int, JsonObject]]:
        """Return the messages of the system with their numbers; new ones have the number of their place."""
        groups: list[tuple[int, list[JsonObject]]] = []
        for part in read_list(instruction, "parts"):
            of = part.get("message")
            number = of.get("number") if isinstance(of, dict) else None
            if not isinstance(number, int) or not 0 <= number < len(self._messages):
                number = -1
            if groups and number >= 0 and groups[-1][0] == number:
                groups[-1][1].append(part)
            else:
                groups.append((number, [part]))
        shown: dict[int, list[JsonObject]] = {}
        for part in read_list(self.shown.get("systemInstruction") or {}, "parts"):
            shown.setdefault(part["message"]["number"], []).append(part)
        closed = []
        for number, parts in groups:
            if number >= 0 and same(parts, shown.get(number)):
                closed.append((number, self._messages[number]))
                continue
            fields: JsonObject = {}
            for part in reversed(parts):  # the first part has the fields, if no hook has moved it
                fields |= part.get("message") or {"role": "system"}
            fields.pop("number", None)
            bare = [{key: value for key, value in part.items() if key != "message"} for part in parts]
            closed.append((number, {**fields, "content": close_contents(bare, joins=False)}))
        return closed

    def _close_config(self, config: JsonObject) -> JsonObject:
        """Return the fields for an edited generationConfig. Raises BodyError for one without a field."""
        new: JsonObject = {}
        for name, shown in _CONFIG.items():
            if self.body.get(name) is None:
                continue
            value = read(config, shown)
            if value is not None:
                single = isinstance(self.body[name], str) and isinstance(value, list) and len(value) == 1
                unchanged = same(value, self._config.get(shown))
                new[name] = self.body[name] if unchanged else value[0] if single else value
        for key, value in config.items():
            name = _NAME_OF.get(camel(key), "")
            if camel(key) == "responseMimeType" or value is None:
                continue
            if not name:
                raise BodyError(f"config.{camel(key)}", "a chat completion has no such setting")
            if self.body.get(name) is None and camel(key) not in self._config:
                new[name] = value
        wanted = read(config, "responseMimeType")
        if wanted != self._config.get("responseMimeType"):
            if wanted not in (None, _JSON):
                raise BodyError("config.responseMimeType", f"a chat completion can only have {_JSON}")
            new["response_format"] = None if wanted is None else {"type": "json_object"}
        return new

    def _close_tools(self, request: JsonObject) -> JsonObject:
        """Return the tools and the choice among them. A choice of several functions offers only these."""
        tools, chosen = read_list(request, "tools"), read_object(request, "toolConfig")
        body, new = self.body, {}
        raw = dict(zip(map(dumps, self._tools), body.get("tools") or (), strict=True))
        closed = [each for tool in tools for each in _close_tool(tool, raw)]
        if same(chosen, self.shown.get("toolConfig", {})):
            if "tool_choice" in body and (closed or not self._tools):
                new["tool_choice"] = body["tool_choice"]
        elif calling := read_object(chosen, "functionCallingConfig"):
            names = read(calling, "allowedFunctionNames")
            if names is not None:
                allowed = {name for name in names if isinstance(name, str)}
                closed = [tool for tool in closed if read_object(tool, "function").get("name") in allowed]
            if closed:
                new["tool_choice"] = _close_choice(calling)
        if closed or body.get("tools") == []:
            new["tools"] = closed
        return new


def with_usage(body: JsonObject) -> JsonObject:
    """Return a body of a streamed completion that asks for its usage; the body itself if it does."""
    options = body.get("stream_options") or {}
    if options.get("include_usage") is True:
        return body
    return {**body, "stream_options": {**options, "include_usage": True}}


def _check_body(body: JsonObject) -> None:
    """Refuse a body with fields that hooks could not judge. Raises BodyError."""
    check_chat_fields(body, "")
    for key in body:
        if camel(key) in _TAKEN:
            raise BodyError(key, "chat completions have no such field")
    for key in ("functions", "function_call"):
        if body.get(key) is not None:
            raise BodyError(key, "hooks judge tools and tool_choice; use these")
    if not isinstance(body.get("stream"), bool | None):
        raise BodyError("stream", "must be true or false")
    if not isinstance(body.get("stream_options"), dict | None):
        raise BodyError("stream_options", "it must be an object")
    extensions = body.get("extra_body")
    if extensions is not None and not (isinstance(extensions, dict) and extensions.keys() <= {"google"}):
        raise BodyError("extra_body", "hooks know only the field 'google' in it")
    if body.get("audio") is not None or "audio" in read_list(body, "modalities"):
        raise BodyError("audio", "hooks cannot judge spoken answers; omit it")
    if not isinstance(body.get("messages"), list):
        raise BodyError("messages", "the messages must be a list")


def _check_arguments(messages: list[Any]) -> None:
    """Refuse arguments of tool calls with too many values, before any are parsed. Raises TooLargeError."""
    calls = [call for message in messages if isinstance(message, dict) for call in _calls_in(message)]
    functions = [call.get("function") for call in calls]
    arguments = [function.get("arguments") for function in functions if isinstance(function, dict)]
    texts = [text.encode(errors="replace") for text in arguments if isinstance(text, str)]
    if exceeds(b"[" + b",".join(texts) + b"]", _MAX_ARGUMENT_VALUES):
        message = f"the arguments of tool calls have more than {_MAX_ARGUMENT_VALUES} JSON values"
        raise TooLargeError("messages", message)


def _calls_in(message: JsonObject) -> list[JsonObject]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _open_instruction(message: JsonObject, number: int, path: str) -> list[JsonObject]:
    """Return the parts for a message of the system, each of which has its number and its role.

    The first part has the other fields, too. If each part had them, a message of n fields and n texts would
    become n² values.
    """
    parts = open_message_contents(message.get("content"), f"{path}.content")
    if any("text" not in part for part in parts):
        raise BodyError(f"{path}.content", "a message of the system must be text")
    if any("message" in part for part in parts):
        raise BodyError(f"{path}.content", "a text has no field 'message'")
    if "number" in message:
        raise BodyError(f"{path}.number", "a message has no such field")
    named = {"number": number, "role": message["role"]}
    fields = named | {key: value for key, value in message.items() if key != "content"}
    first, *others = parts or [{"text": ""}]
    return [{**first, "message": fields}, *({**part, "message": named} for part in others)]


def _cached_contents(value: Any) -> Iterator[Any]:
    """Yield the names of cached content that are anywhere in Google's extensions of the API."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key.replace("_", "").lower() != "cachedcontent":
                yield from _cached_contents(item)
            elif item is not None:
                yield item
    elif isinstance(value, list):
        for item in value:
            yield from _cached_contents(item)


def _open_choice(choice: Any) -> JsonObject:
    """Return the functionCallingConfig for a `tool_choice`. Raises BodyError."""
    if isinstance(choice, str) and choice in _MODES:
        return {"mode": _MODES[choice]}
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
            and mode in _MODES
            and isinstance(tools, list)
            and allowed.keys() <= {"mode", "tools"}
        ):
            names = [_name_in(tool, "tool_choice.allowed_tools.tools") for tool in tools]
            return {"mode": _MODES[mode], "allowedFunctionNames": names}
    raise BodyError("tool_choice", "expected auto, none, required, a function, or allowed_tools")


def _name_in(tool: Any, path: str) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        raise BodyError(path, "expected {type: 'function', function: {name}}")
    return read_string(function, "name", f"{path}.function")


def _close_choice(calling: JsonObject) -> Any:
    """Return the `tool_choice` for a functionCallingConfig, whose names are the only tools offered."""
    mode, names = read(calling, "mode"), read(calling, "allowedFunctionNames")
    if mode == "ANY" and names is not None and len(names) == 1:
        return {"type": "function", "function": {"name": names[0]}}
    return _CHOICES.get(mode, "auto") if isinstance(mode, str) else "auto"


def _open_tool(tool: Any, path: str) -> JsonObject:
    check_chat_fields(tool, path)
    if tool.get("type") != "function":
        raise BodyError(f"{path}.type", "hooks judge functions only; use type 'function'")
    if any(camel(key) in ("functionDeclarations", "fileSearch") for key in tool):
        raise BodyError(path, "a tool has a function and nothing else")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise BodyError(f"{path}.function", "it must be an object, since hooks cannot inspect other types")
    read_string(function, "name", f"{path}.function")
    return {
        **{key: value for key, value in tool.items() if key != "function"},
        "functionDeclarations": [function],
    }


def _close_tool(tool: JsonObject, raw: dict[bytes, Any]) -> list[JsonObject]:
    if (original := raw.get(dumps(tool))) is not None:
        return [original]
    declared = read_list(tool, "functionDeclarations")
    if declared or tool.keys() <= {"functionDeclarations", "strict", "type"}:  # of which a hook left none
        rest = {key: value for key, value in tool.items() if camel(key) != "functionDeclarations"}
        return [{"type": "function", **rest, "function": each} for each in declared]
    raise BodyError("tools", f"a chat completion cannot have a tool with {', '.join(tool) or 'no fields'}")
