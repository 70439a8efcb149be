"""Functions: their declarations, the arguments of their calls, which are JSON in strings, and the choice."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    TooLargeError,
    is_text,
    read,
    read_list,
    read_object,
    same,
)
from hookgate.translator.strictjson import dumps, exceeds, loads

_MAX_ARGUMENT_VALUES = 200_000
"""The maximum number of JSON values in the arguments of all function calls of a body, or of joined events.

The limit for the values of a body does not count them, because they are in strings.
"""

_MAX_NAME = 256
"""The maximum number of characters in the name of a function, which each result of its call is shown with."""

MODES: Mapping[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
"""The mode of generateContent for a `tool_choice` that names no function."""

_CHOICES = {"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}


def check_argument_values(arguments: Iterable[Any], path: str) -> None:
    """Refuse arguments of calls with too many values, before any are parsed.

    Args:
        arguments: Those of all calls of a body, or of joined events; only strings count.
        path: Where they are.

    Raises TooLargeError.
    """
    texts = [text.encode(errors="replace") for text in arguments if isinstance(text, str)]
    if exceeds(b"[" + b",".join(texts) + b"]", _MAX_ARGUMENT_VALUES):
        message = f"the arguments of tool calls have more than {_MAX_ARGUMENT_VALUES} JSON values"
        raise TooLargeError(path, message)


def check_function_name(name: str, path: str) -> None:
    """Refuse a name that would be repeated in too many characters. Raises BodyError."""
    if len(name) > _MAX_NAME:
        raise BodyError(path, f"the name of a function can have at most {_MAX_NAME} characters")


def declare_function(function: JsonObject) -> JsonObject:
    """Return the tool as which hooks are shown a function, whichever of OpenAI's APIs has declared it.

    Its schema is still called `parameters`. Pins contain this form, so another one would change all of them.
    """
    return {"functionDeclarations": [function]}


def decode_arguments(text: Any, path: str) -> JsonObject:
    """Return the arguments of a call, whose number of values has been checked: see check_argument_values.

    Raises BodyError unless they are a JSON object in a string.
    """
    if not isinstance(text, str | None):
        raise BodyError(path, "the arguments of a call must be a string of JSON")
    if not text or not text.strip():
        return {}
    try:
        arguments = loads(text.encode())
    except BodyError as error:
        raise BodyError(path, error.message) from None
    if not isinstance(arguments, dict):
        raise BodyError(path, "the arguments of a call must be a JSON object")
    return arguments


def encode_selection(  # noqa: PLR0913  # the request before and after, and what differs between dialects
    body: JsonObject,
    shown: JsonObject,
    request: JsonObject,
    tools: list[Any],
    *,
    function_of: Callable[[JsonObject], JsonObject],
    choose: Callable[[str], JsonObject],
) -> JsonObject:
    """Return the fields `tools` and `tool_choice` of an edited request.

    A choice of several functions offers only these.

    Args:
        body: The original body.
        shown: The GenerateContentRequest that hooks were shown.
        request: The request after the hooks' edits.
        tools: The tools of the edited request, as the API has them.
        function_of: Returns the object of a tool that has the function's name.
        choose: Returns the `tool_choice` of one function.
    """
    chosen = read_object(request, "toolConfig")
    new: JsonObject = {}
    if same(chosen, shown.get("toolConfig", {})):
        if "tool_choice" in body and (tools or not body.get("tools")):
            new["tool_choice"] = body["tool_choice"]
    elif calling := read_object(chosen, "functionCallingConfig"):
        mode, names = read(calling, "mode"), read(calling, "allowedFunctionNames")
        if names is not None:
            allowed = {name for name in names if isinstance(name, str)}
            tools = [tool for tool in tools if function_of(tool).get("name") in allowed]
        if tools and mode == "ANY" and names is not None and len(names) == 1:
            new["tool_choice"] = choose(names[0])
        elif tools:
            new["tool_choice"] = _CHOICES.get(mode, "auto") if isinstance(mode, str) else "auto"
    if tools or body.get("tools") == []:
        new["tools"] = tools
    return new


def decode_result(content: Any, parts: Sequence[JsonObject], path: str) -> JsonObject:
    """Return the fields of a functionResponse for the content of a tool result, which is shown as `parts`.

    Its images and files are under `parts`, as hooks expect them there, and numbers are in their place. Raises
    BodyError for those that are not in the request.
    """
    media = [part for part in parts if not is_text(part)]
    if any("fileData" in part for part in media):
        raise BodyError(path, "a tool result must contain its images and files as data URLs")
    if not media:
        return {"response": {} if content is None else {"result": content}}
    numbers = count()
    shown = [
        item if is_text(part) else {"part": next(numbers)} for item, part in zip(content, parts, strict=True)
    ]
    return {"response": {"result": shown}, "parts": media}


def encode_result(result: JsonObject, text_type: str, encode: Callable[[JsonObject], JsonObject]) -> Any:
    """Return the content of a tool result: a string, or a list of texts of the given type and of media.

    `encode` returns the content for a part.
    """
    response, media = read_object(result, "response"), read_list(result, "parts")
    value = response.get("result") if response.keys() == {"result"} else response
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(_is_content(item, text_type, media) for item in value):
        return dumps(value).decode()
    return [encode(media[item["part"]]) if item.keys() == {"part"} else item for item in value]


def _is_content(item: Any, text_type: str, media: Sequence[JsonObject]) -> bool:
    """Return whether an item of a result is a text, or the number of an image or file."""
    if not isinstance(item, dict):
        return False
    if item.keys() == {"part"}:
        return type(item["part"]) is int and 0 <= item["part"] < len(media)
    return item.get("type") == text_type and isinstance(item.get("text"), str)
