"""Items of a response's input or output as turns of generateContent, and back.

    message               a turn with the contents as parts
    reasoning             a turn of the model: summary and content as thoughts, encrypted content as signature
    function_call         a turn of the model with a functionCall
    function_call_output  a turn of the user with a functionResponse

A turn has the other fields of its item, so that the item can be made from the turn alone.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from hookgate.translator.fields import BodyError, JsonObject, is_text, read, read_list, read_object
from hookgate.translator.openai.calls import (
    check_argument_values,
    decode_arguments,
    decode_result,
    encode_result,
)
from hookgate.translator.openai.fields import check_openai_fields, read_string
from hookgate.translator.responses.contents import (
    decode_item_contents,
    encode_item_content,
    encode_item_contents,
)
from hookgate.translator.strictjson import dumps

_LIFTED = {
    "function_call": ("arguments", "call_id", "name"),
    "function_call_output": ("call_id", "output"),
    "message": ("content", "role"),
    "reasoning": ("content", "encrypted_content", "summary"),
}
"""The fields of items that are shown as a turn's role and parts, by the types of items that hooks know."""

_REFERENCE = "it refers to an item that the API stores, which hooks cannot inspect; send the item itself"
_UNKNOWN = "hooks cannot inspect this item; they know {}"
_RUN_BY_API = frozenset(
    {
        *("code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call"),
        *("tool_search_call", "web_search_call"),
    }
)
"""Calls of tools that the API itself runs. All others are run by the client."""

_ROLES = (*(None, "assistant", "critic", "developer", "discriminator", "system", "tool", "unknown", "user"),)
"""The roles of items that are not messages of the input. Hooks are not shown them."""


def type_of_item(item: Any, path: str) -> str:
    """Return the type of an item, which messages may omit. Raises BodyError for anything but an item."""
    kind = check_openai_fields(item, path).get("type", "message")
    if not isinstance(kind, str):
        raise BodyError(f"{path}.type", "an item must have a type, such as message")
    return kind


def check_item_arguments(items: Iterable[Any], path: str) -> None:
    """Refuse items whose calls have too many values in their arguments. Raises TooLargeError."""
    check_argument_values((item.get("arguments") for item in items if isinstance(item, dict)), path)


def decode_input_item(item: Any, path: str, names: Mapping[str, str]) -> JsonObject:
    """Return the turn for an item of the input that is not an instruction. Raises BodyError.

    `names` has the functions that the items before it call, by the IDs of the calls.
    """
    kind = type_of_item(item, path)
    if kind == "item_reference":
        raise BodyError(path, _REFERENCE)
    if kind not in _LIFTED:
        raise BodyError(f"{path}.type", _UNKNOWN.format(", ".join(_LIFTED)))
    if kind != "message":
        _check_role(item, path)
    if kind == "function_call_output":
        return {**_rest(item, kind), "role": "user", "parts": [_decode_result(item, path, names)]}
    if kind == "message":
        role = item.get("role")
        if role not in ("user", "assistant"):
            raise BodyError(f"{path}.role", "hooks know the roles system, developer, user, assistant")
        parts = decode_item_contents(item.get("content"), f"{path}.content")
        return {**_rest(item, kind), "role": "user" if role == "user" else "model", "parts": parts}
    return _decode_model_item(item, kind, path, answered=False)


def decode_output_item(item: Any, path: str) -> JsonObject:
    """Return the turn for an item of the output. Raises BodyError for a call that hooks cannot judge."""
    kind = type_of_item(item, path)
    if "type" not in item:  # some clients would go by its other fields
        raise BodyError(f"{path}.type", "an item of the output must have a type, such as message")
    _check_role(item, path)
    if kind == "message" and item.get("role") not in (None, "assistant"):
        raise BodyError(f"{path}.role", "it must be assistant: clients send the item again")
    if kind == "function_call_output":
        raise BodyError(f"{path}.type", "only the client has results of functions")
    if kind in _LIFTED:
        return _decode_model_item(item, kind, path, answered=True)
    if kind.endswith("_call") and kind not in _RUN_BY_API:
        raise BodyError(f"{path}.type", "hooks can judge function calls only")
    if isinstance(item.get("content"), list):
        rest = {key: value for key, value in item.items() if key not in ("content", "role")}
        return {**rest, "role": "model", "parts": decode_item_contents(item["content"], path, answered=True)}
    if not isinstance(item.get("text"), str | None):
        raise BodyError(f"{path}.text", "it must be a string, since hooks cannot inspect other types")
    return {"type": kind, "role": "model", "parts": [dict(item)]}


def _check_role(item: JsonObject, path: str) -> None:
    if item.get("role") not in _ROLES:
        raise BodyError(f"{path}.role", "it must be a known role, such as assistant")


def _decode_model_item(item: JsonObject, kind: str, path: str, *, answered: bool) -> JsonObject:
    if kind == "function_call":
        parts = [_decode_call(item, path)]
    elif kind == "reasoning":
        parts = _decode_reasoning(item, path, answered=answered)
    else:
        parts = decode_item_contents(item.get("content"), f"{path}.content", answered=answered)
    return {**_rest(item, kind), "role": "model", "parts": parts}


def _rest(item: JsonObject, kind: str) -> JsonObject:
    """Return the fields of an item that are not shown as parts. Empty ones are kept where they are."""
    lifted = _LIFTED[kind]
    return {
        key: value
        for key, value in item.items()
        if key not in lifted or (value in (None, []) and key != "role")
    }


def _decode_call(item: JsonObject, path: str) -> JsonObject:
    call: JsonObject = {}
    if item.get("call_id") is not None:
        call["id"] = read_string(item, "call_id", path)
    call["name"] = read_string(item, "name", path)
    call["args"] = decode_arguments(item.get("arguments"), f"{path}.arguments")
    return {"functionCall": call}


def _decode_result(item: JsonObject, path: str, names: Mapping[str, str]) -> JsonObject:
    result: JsonObject = {}
    id_ = item.get("call_id")
    if id_ is not None:
        result["id"] = read_string(item, "call_id", path)
    name = item.get("name")
    if not isinstance(name, str | None):
        raise BodyError(f"{path}.name", "the name of a tool must be a string")
    if name := name or names.get(id_ or "", ""):
        result["name"] = name
    output = item.get("output")
    parts = decode_item_contents(output, f"{path}.output")
    return {"functionResponse": {**result, **decode_result(output, parts, f"{path}.output")}}


def _decode_reasoning(item: JsonObject, path: str, *, answered: bool) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for name in ("summary", "content"):
        contents = item.get(name)
        if not isinstance(contents, list | None):
            raise BodyError(f"{path}.{name}", "it must be a list of contents")
        parts += decode_item_contents(contents, f"{path}.{name}", answered=answered)
    if item.get("encrypted_content") is not None:
        parts.append({"thoughtSignature": read_string(item, "encrypted_content", path)})
    return parts


# ---- and back


def encode_items(turn: JsonObject) -> list[JsonObject]:
    """Return the items for a turn, which may be new: one for each call or result, and for contents in a row.

    Raises BodyError for a part that cannot be in an item.
    """
    own = {key: value for key, value in turn.items() if key not in ("role", "parts")}
    is_model = turn.get("role") == "model"
    parts = read_list(turn, "parts")
    if not parts:
        return _empty_items(own, is_model)
    items: list[JsonObject] = []
    for kind, group in _grouped(parts, own.get("type", "message")):
        fits = own.get("type", "message") == kind or kind == "other"
        used, own = (own, {}) if fits else ({}, own)
        items += _encode_group(kind, used, group, is_model)
    return items


def _empty_items(own: JsonObject, is_model: bool) -> list[JsonObject]:
    """Return the item for a turn without parts. Calls and results do not exist without them."""
    kind = own.get("type", "message")
    if kind == "message":
        return [_message(own, [], is_model)]
    if kind == "reasoning":
        return [_encode_reasoning(own, [])]
    return [] if kind in _LIFTED else [{**own, "content": []}]


def _grouped(parts: list[JsonObject], own_kind: Any) -> list[tuple[str, list[JsonObject]]]:
    """Return the parts with the types of the items that they belong to, neighbors of one item together.

    The type `other` is that of the turn, if hooks do not know it.
    """
    content_kind = "message" if own_kind in _LIFTED else "other"
    groups: list[tuple[str, list[JsonObject]]] = []
    for part in parts:
        if "functionCall" in part:
            kind = "function_call"
        elif "functionResponse" in part:
            kind = "function_call_output"
        elif part.get("thought") or part.keys() == {"thoughtSignature"}:
            kind = "reasoning"
        else:
            kind = content_kind
        if groups and groups[-1][0] == kind and kind not in ("function_call", "function_call_output"):
            groups[-1][1].append(part)
        else:
            groups.append((kind, [part]))
    return groups


def _encode_group(kind: str, own: JsonObject, group: list[JsonObject], is_model: bool) -> list[JsonObject]:
    if kind == "function_call":
        return [_encode_call(own, read_object(group[0], "functionCall"))]
    if kind == "function_call_output":
        return [_encode_result(own, read_object(group[0], "functionResponse"))]
    if kind == "reasoning":
        return [_encode_reasoning(own, group)]
    if kind == "other":
        type_ = own.get("type")
        if type_ is not None and [part.get("type") for part in group] == [type_]:
            return [group[0]]
        return [{**own, "content": [encode_item_content(part, "output_text") for part in group]}]
    return [_message(own, group, is_model)]


def _message(own: JsonObject, parts: list[JsonObject], is_model: bool) -> JsonObject:
    role = "assistant" if is_model else "user"
    kind = "output_text" if is_model else "input_text"
    content = encode_item_contents(parts, kind, joins=is_model) if parts else ""
    return {"role": role, "content": "", **own, **({"content": content} if parts else {})}


def _encode_call(own: JsonObject, call: JsonObject) -> JsonObject:
    fields = {"call_id": call["id"]} if "id" in call else {}
    arguments = dumps(read_object(call, "args")).decode()
    return {"type": "function_call", **own, **fields, "name": call.get("name"), "arguments": arguments}


def _encode_result(own: JsonObject, result: JsonObject) -> JsonObject:
    item: JsonObject = {"type": "function_call_output", **own}
    if (id_ := read(result, "id")) is not None:
        item["call_id"] = id_
    response = read_object(result, "response")
    if response or "output" not in own:
        item["output"] = encode_result(
            result, "input_text", partial(encode_item_content, new_kind="input_text")
        )
    return item


def _encode_reasoning(own: JsonObject, parts: list[JsonObject]) -> JsonObject:
    item: JsonObject = {"type": "reasoning", "summary": [], **own}
    lists: dict[str, list[JsonObject]] = {}
    for part in parts:
        if is_text(part):
            content = encode_item_content(part, "summary_text")
            name = "content" if content["type"] == "reasoning_text" else "summary"
            lists.setdefault(name, []).append(content)
        else:
            item["encrypted_content"] = part.get("thoughtSignature")
    return {**item, **lists}
