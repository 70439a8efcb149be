"""The checks of LiteLLM's generic guardrail API, as bodies of generateContent for hooks, and back. Pure.

All of a check is shown to hooks, or the call is denied. Only edits of texts and selections of tools can be
passed on, so the call is denied after others.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject, camel, read, read_list, same, without
from hookgate.translator.openai.calls import check_argument_values, declare_function
from hookgate.translator.strictjson import dumps, loads

_CANNOT_APPLY = "A hook changes {what} of this call, which this gateway cannot pass on to the one that asks."
_NO_TOOLS = "None of the tools of this call is allowed here."
_UNREADABLE_TOOL = "Hooks cannot judge a tool with the fields {fields}, so this call is denied."
_UNREADABLE_CALL = "Hooks cannot judge a call of a tool without a function, so this call is denied."

_OBJECTS = Annotated[tuple[dict[str, Any], ...], BeforeValidator(lambda value: value or ())]
_TEXTS = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]


class Check(BaseModel):
    """What a gateway asks about. Its other fields tell about the gateway and its user."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    input_type: Literal["request", "response"]
    texts: _TEXTS = ()
    images: _TEXTS = ()
    tools: _OBJECTS = ()
    tool_calls: _OBJECTS = ()
    structured_messages: _OBJECTS = ()
    model: str | None = None
    litellm_trace_id: str | None = None


class CheckBlocked(Exception):  # noqa: N818  # a decision, not an error
    """The call is denied. The message is the reason."""


class EditBlocked(CheckBlocked):
    """The call is denied because hooks have changed what an answer cannot express."""

    def __init__(self, what: str) -> None:
        super().__init__(_CANNOT_APPLY.format(what=what))
        self.what = what
        """What hooks have changed, such as `the turns`."""


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call of a tool."""

    name: str
    arguments: JsonObject | None
    """None if they are not a JSON object."""
    part: JsonObject
    """The part of a turn that shows it."""


# ---- requests


def shown_request(check: Check) -> JsonObject:
    """Return the request to judge: one turn of what cannot be edited, and one for each text.

    Raises CheckBlocked if it contains what hooks cannot judge, or TooLargeError.
    """
    calls = shown_calls(check)
    uneditable = [*_image_parts(check), *(call.part for call in calls)]
    if messages := list(_beside_texts(check)):
        uneditable.append(
            {"functionResponse": {"name": "structured_messages", "response": {"items": messages}}}
        )
    texts = [_turn([{"text": text}], role) for text, role in zip(check.texts, _roles(check), strict=True)]
    tools = [_shown_tool(tool) for tool in check.tools]
    contents = [*([_turn(uneditable)] if uneditable else []), *texts]
    return {"contents": contents, **({"tools": tools} if tools else {})}


def edited_request(check: Check, shown: JsonObject, new: JsonObject) -> JsonObject:
    """Return the answer for the request that hooks have made of the shown one. Raises CheckBlocked."""
    if new is shown:
        return _answer(check, list(check.texts), None)
    for name in shown.keys() | new.keys():
        if name not in ("contents", "tools", "toolConfig") and not same(shown.get(name), new.get(name)):
            raise EditBlocked(name)
    contents = read_list(shown, "contents"), read_list(new, "contents")
    return _answer(check, _new_texts(*contents, len(check.texts)), _new_tools(check, shown, new))


def _turn(parts: Sequence[JsonObject], role: str = "user") -> JsonObject:
    return {"role": role, "parts": list(parts)}


def _roles(check: Check) -> list[str]:
    """Return who has written each text, as the messages say; the user, if the texts are not those of them.

    The roles are those with which the model receives the messages.
    """
    written = [
        ("model" if message.get("role") == "assistant" else "user", item["text"])
        for message in check.structured_messages
        for item in _items(message)
        if _is_text(item)
    ]
    is_listed = [text for _, text in written] == list(check.texts)
    return [role for role, _ in written] if is_listed else ["user"] * len(check.texts)


def _items(message: JsonObject) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _is_text(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("text"), str)


_ROLES = ("assistant", "developer", "function", "system", "tool", "user")
_ITEM_TYPES = ("image_url", "input_image", "input_text", "output_text", "text")


def _beside_texts(check: Check) -> Iterator[JsonObject]:
    """Yield what the messages contain besides the texts and images that the check lists.

    An edit of a listed text changes one place, so each listed text stands for one.
    """
    texts, images = Counter(check.texts), Counter(check.images)
    for message in check.structured_messages:
        fields = {name: value for name, value in message.items() if value and name != "content"}
        if message.get("role") in _ROLES:
            del fields["role"]
        items = [rest for item in _items(message) if (rest := _beside_listed(item, texts, images))]
        if fields or items:
            yield {**fields, **({"content": items} if items else {})}


def _beside_listed(item: Any, texts: Counter[str], images: Counter[str]) -> Any:
    """Return an item of a message without its text and image if they are listed; None if nothing is left.

    They are taken from those that are listed.
    """
    if not isinstance(item, dict):
        return item
    rest = {name: value for name, value in item.items() if value}
    if _take(texts, rest.get("text")):
        del rest["text"]
    image = rest.get("image_url")
    if _take(images, image):
        del rest["image_url"]
    elif isinstance(image, dict) and _take(images, image.get("url")):
        rest["image_url"] = {name: value for name, value in image.items() if name != "url"}
        if not rest["image_url"]:
            del rest["image_url"]
    is_known = rest.get("type") in _ITEM_TYPES
    return None if is_known and rest.keys() == {"type"} else rest


def _take(listed: Counter[str], value: Any) -> bool:
    """Return whether a value is in what is listed, and take it from there."""
    if not isinstance(value, str) or not listed[value]:
        return False
    listed[value] -= 1
    return True


def _new_texts(shown: Sequence[JsonObject], turns: Sequence[Any], count: int) -> list[str]:
    """Return the texts of the last `count` turns after edits. Raises EditBlocked after other edits."""
    first = len(shown) - count
    if len(turns) != len(shown) or not same(list(turns[:first]), list(shown[:first])):
        raise EditBlocked("the turns")
    return [_new_text(*pair) for pair in zip(shown[first:], turns[first:], strict=True)]


def _new_text(shown: JsonObject, turn: Any) -> str:
    if not isinstance(turn, dict) or not same(without(turn, "parts"), without(shown, "parts")):
        raise EditBlocked("the turns")
    parts = read_list(turn, "parts")
    if not all(_is_text(part) and len(part) == 1 for part in parts):
        raise EditBlocked("the turns")
    return "".join(part["text"] for part in parts)


# ---- answers


def shown_answer(check: Check, calls: Sequence[ShownCall]) -> JsonObject:
    """Return the answer to judge: its texts, and then what cannot be edited."""
    parts = [*({"text": text} for text in check.texts), *_uneditable(check, calls)]
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def edited_answer(check: Check, calls: Sequence[ShownCall], new: JsonObject) -> JsonObject:
    """Return the answer for that which hooks have made of the shown one. Raises EditBlocked."""
    [candidate, *_] = read_list(new, "candidates") or [None]
    content = candidate.get("content") if isinstance(candidate, dict) else None
    parts = read_list(content, "parts") if isinstance(content, dict) else []
    texts = [part["text"] for part in parts[: len(check.texts)] if _is_text(part)]
    if len(texts) < len(check.texts) or not same(
        new, shown_answer(check.model_copy(update={"texts": tuple(texts)}), calls)
    ):
        raise EditBlocked("more than the texts")
    return _answer(check, texts, None)


def _uneditable(check: Check, calls: Sequence[ShownCall]) -> list[JsonObject]:
    return [*(call.part for call in calls), *_image_parts(check)]


def _answer(check: Check, texts: list[str], tools: list[JsonObject] | None) -> JsonObject:
    if texts == list(check.texts) and tools is None:
        return {"action": "NONE"}
    changed = {} if tools is None else {"tools": tools}
    return {"action": "GUARDRAIL_INTERVENED", "texts": texts, **changed}


# ---- images, and calls of tools

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)


def _image_parts(check: Check) -> list[JsonObject]:
    """Return the images as parts. The data in a URL is that of a file, which may be text."""
    parts = []
    for image in check.images:
        data = _DATA_URL.match(image)
        blob = data and {"mimeType": data[1], "data": image[data.end() :]}
        parts.append({"inlineData": blob} if blob else {"fileData": {"fileUri": image}})
    return parts


def shown_calls(check: Check) -> list[ShownCall]:
    """Return the calls of tools. Raises CheckBlocked, or TooLargeError for too many values."""
    functions = [_called(call) for call in check.tool_calls]
    check_argument_values((function.get("arguments") for function in functions), "tool_calls")
    return [_shown_call(*each) for each in zip(check.tool_calls, functions, strict=True)]


def _called(call: Mapping[str, Any]) -> JsonObject:
    """Return the function of a call. A custom tool of OpenAI's takes a text as its input."""
    function, custom = call.get("function"), call.get("custom")
    if isinstance(function, dict) and custom is None:
        return function
    if isinstance(custom, dict) and function is None and "arguments" not in custom:
        return {**without(custom, "input"), "arguments": {"input": custom.get("input")}}
    raise CheckBlocked(_UNREADABLE_CALL)


def _shown_call(call: Mapping[str, Any], function: JsonObject) -> ShownCall:
    name, given = str(function.get("name") or ""), function.get("arguments")
    try:
        arguments = loads(given.encode()) if isinstance(given, str) and given.strip() else given or {}
    except (BodyError, UnicodeEncodeError):
        arguments = None
    is_object = isinstance(arguments, dict)
    beside = {key: value for key, value in call.items() if key not in ("function", "custom")}
    if call.get("type") in ("function", "custom"):
        del beside["type"]
    more = {key: value for key, value in function.items() if key not in ("name", "arguments")}
    shown = arguments if is_object else {"arguments": given}
    rest = {key: value for key, value in (("function", more), ("call", beside)) if value}
    part = {"functionCall": {"name": name, "args": shown, **rest}}
    return ShownCall(name, arguments if is_object else None, part)


# ---- tools

_BESIDE_FUNCTION = frozenset({"type", "function", "cache_control"})
_CACHED = tuple({"type": "ephemeral", **ttl} for ttl in ({}, {"ttl": "5m"}, {"ttl": "1h"}))
_HOSTED = (
    (re.compile(r"(?:web|google|enterprise_web)_?search(?!er)|googleSearch", re.IGNORECASE), "googleSearch"),
    (re.compile(r"url_?context|web_fetch", re.IGNORECASE), "urlContext"),
    (re.compile(r"code_?(?:execution|interpreter)", re.IGNORECASE), "codeExecution"),
    (re.compile(r"file_?search", re.IGNORECASE), "fileSearch"),
    (re.compile(r"computer", re.IGNORECASE), "computerUse"),
    (re.compile(r"mcp", re.IGNORECASE), "mcpServers"),
    (re.compile(r"tool_?search", re.IGNORECASE), "toolSearch"),
    (re.compile(r"google_?maps", re.IGNORECASE), "googleMaps"),
)
"""How the types of tools begin that providers run, and the kinds that they have in generateContent."""


def _shown_tool(tool: Mapping[str, Any]) -> JsonObject:
    """Return a tool as a function, or as a kind that a provider runs. Raises CheckBlocked."""
    kind, function = tool.get("type"), tool.get("function")
    unreadable = CheckBlocked(_UNREADABLE_TOOL.format(fields=", ".join(sorted(tool))[:200]))
    if "tools" in tool or "functionDeclarations" in map(camel, tool):
        raise unreadable
    if isinstance(function, dict):
        cached = tool.get("cache_control") or _CACHED[0]
        if kind not in (None, "function") or not tool.keys() <= _BESIDE_FUNCTION or cached not in _CACHED:
            raise unreadable
        return declare_function(function)
    if "function" in tool:
        raise unreadable
    if kind is None and len(tool) == 1:  # as Google writes it
        [(name, settings)] = tool.items()
        return _as_hosted(name, settings)
    settings = {name: value for name, value in tool.items() if name != "type"}
    if isinstance(kind, str) and _hosted_kind(kind):
        return _as_hosted(kind, settings)
    custom = settings.pop("custom", None)
    if not isinstance(custom, dict | None) or (custom and not settings.keys().isdisjoint(custom)):
        raise unreadable
    flat = {**settings, **(custom or {})}
    if isinstance(flat.get("name"), str):  # as in Responses, or as Anthropic writes it
        if "input_schema" in flat and "parameters" not in flat:
            flat["parameters"] = flat.pop("input_schema")
        return declare_function(flat if kind in (None, "function", "custom") else {**flat, "type": kind})
    if not isinstance(kind, str) or kind == "function":
        raise unreadable
    return _as_hosted(kind, flat)


def _as_hosted(name: str, settings: Any) -> JsonObject:
    """Return a tool that a provider runs, with its name among its settings if its kind has another one."""
    kind = _hosted_kind(name) or camel(name)
    if kind == camel(name):
        return {name: settings}
    return {kind: {**(settings if isinstance(settings, dict) else {"settings": settings}), "type": name}}


def _hosted_kind(name: str) -> str | None:
    return next((kind for begins, kind in _HOSTED if begins.match(name)), None)


def _new_tools(check: Check, shown: JsonObject, new: JsonObject) -> list[JsonObject] | None:
    """Return the tools that hooks have left, or None if all are left. Raises CheckBlocked for other edits."""
    mode = _calling_mode(new.get("toolConfig"))
    left = iter(map(dumps, read_list(new, "tools")))
    kept: list[JsonObject] = []
    awaited = next(left, None)
    for tool, as_shown in zip(check.tools, read_list(shown, "tools"), strict=True):
        if dumps(as_shown) != awaited:
            continue
        awaited = next(left, None)
        if mode != "NONE" or "functionDeclarations" not in as_shown:
            kept.append(tool)
    if awaited is not None:
        raise EditBlocked("the declarations of tools")
    if check.tools and not kept:
        raise CheckBlocked(_NO_TOOLS)
    return None if len(kept) == len(check.tools) else kept


def _calling_mode(config: Any) -> Any:
    """Return the mode of a `toolConfig`: AUTO, or NONE, which removes functions. Raises EditBlocked."""
    calling = read(config, "functionCallingConfig") if isinstance(config, dict) else None
    mode = read(calling, "mode") if isinstance(calling, dict) else None
    if not config or (len(config) == len(calling or ()) == 1 and mode in ("AUTO", "NONE")):
        return mode
    raise EditBlocked("the choice of tools")
