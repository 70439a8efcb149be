"""The arguments of function calls, which are JSON in strings, and the choice among functions."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hookgate.translator.fields import BodyError, JsonObject, TooLargeError, read, read_object, same
from hookgate.translator.strictjson import dumps, exceeds, loads

_MAX_ARGUMENT_VALUES = 200_000
"""The maximum number of JSON values in the arguments of all function calls of a request.

The limit for the values of a body does not count them, because they are in strings.
"""

_MAX_NAME = 256
"""The maximum number of characters in the name of a function, which each result of its call is shown with."""

MODES: Mapping[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
"""The mode of generateContent for a `tool_choice` that names no function."""

_CHOICES = {"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}


def check_argument_values(arguments: Iterable[Any], path: str) -> None:
    """Refuse arguments of calls with too many values, before any are parsed. Raises TooLargeError."""
    texts = [text.encode(errors="replace") for text in arguments if isinstance(text, str)]
    if exceeds(b"[" + b",".join(texts) + b"]", _MAX_ARGUMENT_VALUES):
        message = f"the arguments of tool calls have more than {_MAX_ARGUMENT_VALUES} JSON values"
        raise TooLargeError(path, message)


def check_function_name(name: str, path: str) -> None:
    """Refuse a name that would be repeated in too many characters. Raises BodyError."""
    if len(name) > _MAX_NAME:
        raise BodyError(path, f"the name of a function can have at most {_MAX_NAME} characters")


def open_arguments(text: Any, path: str) -> JsonObject:
    """Return the arguments of a call. Raises BodyError unless they are a JSON object in a string."""
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


def close_selection(  # noqa: PLR0913  # the request before and after, and what differs between dialects
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


def close_result(response: JsonObject, text_type: str) -> Any:
    """Return a tool result for its `response`: a string, or a list of texts of the given type."""
    value = response.get("result") if response.keys() == {"result"} else response
    return value if isinstance(value, str) or _is_texts(value, text_type) else dumps(value).decode()


def _is_texts(value: Any, text_type: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and item.get("type") == text_type and isinstance(item.get("text"), str)
        for item in value
    )
