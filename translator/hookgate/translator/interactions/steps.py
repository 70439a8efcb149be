"""Steps of an interaction as turns of generateContent, and back.

    user_input, model_output        a turn with the step's contents as parts
    thought                         a turn of the model: the summary as thoughts, and the signature
    function_call, function_result  a turn with a functionCall or functionResponse
    *_call, *_result                calls of the API's own tools, as toolCall and toolResponse

A call of an unknown type is a functionCall of this name, because the client may run it: hooks judge all of
its fields as arguments.

A turn has the other fields of its step, so that the step can be made from the turn alone.
"""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    is_text,
    read,
    read_list,
    read_object,
    renamed,
    spelling,
    without,
)
from hookgate.translator.interactions.contents import (
    MEDIA,
    check_fields,
    check_is_only_text,
    decode_content,
    encode_content,
)

_CONTENTS = ("user_input", "model_output")
_CONTENT_TYPES = frozenset({"text", *MEDIA})
_ROLES = {"user_input": "user", "model_output": "model"}
RUN_BY_API = frozenset(
    {
        *("code_execution_call", "file_search_call", "google_maps_call", "google_search_call"),
        *("mcp_server_tool_call", "processing_call", "retrieval_call", "tool_search_call"),
        "url_context_call",
    }
)
"""Calls of tools that the API itself runs. All others are run by the client."""

_OUTPUT = {"user": "user_input", "model": "model_output"}


def is_step(item: Any) -> bool:
    """Return whether an item of an interaction's input is a step. A content has no `content`."""
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str):
        return False
    return "content" in item or kind in _CONTENTS or kind == "thought" or kind.endswith(("_call", "_result"))


def is_call_of_client(step: Any) -> bool:
    """Return whether a step is a call that the client runs."""
    kind = step.get("type") if isinstance(step, dict) else None
    return isinstance(kind, str) and kind.endswith("_call") and kind not in RUN_BY_API


def decode_step(step: Any, path: str) -> JsonObject:
    """Return the turn for a step. Raises BodyError."""
    check_fields(step, path)
    kind = step.get("type")
    if not isinstance(kind, str):
        raise BodyError(f"{path}.type", "a step must have a type, such as user_input")
    if kind in _CONTENT_TYPES:
        raise BodyError(path, "the input must be a list of steps or a list of contents, not both")
    if kind == "thought":
        return _decode_thought(step, path)
    if kind.endswith("_call"):
        return {"type": kind, "parts": [_decode_call(step, path)], "role": "model"}
    if kind.endswith("_result"):
        return {"type": kind, "parts": [_decode_result(step, path)], "role": "user"}
    contents = step.get("content")  # of a step of an unknown type, too
    turn = {key: value for key, value in step.items() if key != "content"}
    if contents is not None:
        turn["parts"] = decode_contents(contents, f"{path}.content")
    return {**turn, "role": _ROLES.get(kind, "user")}


def decode_contents(contents: Any, path: str) -> list[JsonObject]:
    """Return the parts for a list of contents. Raises BodyError."""
    if not isinstance(contents, list):
        raise BodyError(path, "it must be a list of contents")
    return [decode_content(content, f"{path}[{number}]") for number, content in enumerate(contents)]


def _decode_thought(step: JsonObject, path: str) -> JsonObject:
    turn = {key: value for key, value in step.items() if key not in ("summary", "signature")}
    summary, signature = step.get("summary"), step.get("signature")
    parts = [] if summary is None else decode_contents(summary, f"{path}.summary")
    parts = [{**part, "thought": True} for part in parts]
    if signature is not None:
        parts.append({"thoughtSignature": signature})
    return {**turn, "parts": parts, "role": "model"}


def _decode_call(step: JsonObject, path: str) -> JsonObject:
    """Return the part for a call. Function calls keep their `type` in the turn, other calls in the part."""
    own = step["type"] == "function_call"
    if not own and is_call_of_client(step):
        return {"functionCall": {"name": step["type"], "args": step}}
    arguments = step.get("arguments")
    if not isinstance(arguments, dict | None):
        raise BodyError(f"{path}.arguments", "the arguments of a call must be an object")
    if own and not isinstance(step.get("name"), str | None):
        raise BodyError(f"{path}.name", "the name of a function must be a string")
    kept = {key: value for key, value in step.items() if key != "signature" and not (own and key == "type")}
    call = renamed(kept, {"arguments": "args"}, path)
    return _signed({"functionCall" if own else "toolCall": call}, step)


def _decode_result(step: JsonObject, path: str) -> JsonObject:
    own = step["type"] == "function_result"
    kept = {key: value for key, value in step.items() if key != "signature" and not (own and key == "type")}
    result = renamed(kept, {"result": "response", spelling(step, "callId"): "id"}, path)
    media: list[JsonObject] = []
    if "result" in step:
        result["response"] = _decode_value(step["result"], media, f"{path}.result")
    if media:
        result["parts"] = media
    return _signed({"functionResponse" if own else "toolResponse": result}, step)


def _decode_value(value: Any, media: list[JsonObject], path: str) -> JsonObject:
    """Return a result as an object. Its images and files are added to `media`, as hooks expect them there."""
    if isinstance(value, dict) and value.keys() != {"result"} and value.get("type") not in MEDIA:
        return value
    if isinstance(value, list) or (isinstance(value, dict) and value.get("type") in MEDIA):
        items = value if isinstance(value, list) else [value]
        shown = []
        for number, item in enumerate(items):
            if isinstance(item, dict) and item.get("type") in MEDIA:
                shown.append({"part": len(media)})
                media.append(decode_content(item, f"{path}[{number}]"))
            elif isinstance(item, dict) and item.keys() == {"part"}:
                raise BodyError(f"{path}[{number}].part", "the Interactions API has no such field")
            else:
                if isinstance(item, dict) and item.get("type") == "text":
                    check_is_only_text(item, f"{path}[{number}]")
                shown.append(item)
        return {"result": shown if isinstance(value, list) else shown[0]}
    return {"result": value}


def _signed(part: JsonObject, step: JsonObject) -> JsonObject:
    signature = step.get("signature")
    return part if signature is None else {**part, "thoughtSignature": signature}


# ---- and back


def encode_turn(turn: JsonObject) -> list[JsonObject]:
    """Return the steps for a turn, which may be new: one for each call or result, and for texts in a row.

    Raises BodyError for a part that cannot be in an interaction.
    """
    role = "model" if turn.get("role") == "model" else "user"
    own: JsonObject = {key: value for key, value in turn.items() if key != "role"}
    kind = turn.get("type")
    if kind in _CONTENTS:
        own["type"] = kind = _OUTPUT[role]
    if not read_list(turn, "parts"):
        if not isinstance(kind, str) or kind.endswith(("_call", "_result")):
            return []
        return [without(own, "parts") if kind == "thought" else _begun(own, "content")]
    steps: list[JsonObject] = []
    joins = ""  # the field to which a further content of the same step is added
    for part in read_list(turn, "parts"):
        single = _single_step(part)
        if single is not None:
            steps.append(single)
            joins = ""
            continue
        field = "summary" if part.get("thought") or _is_signature(part) else "content"
        if field != joins:
            fits = own and isinstance(kind, str) and not kind.endswith(("_call", "_result"))
            fits = fits and (kind == "thought") is (field == "summary")
            fresh = {"type": "thought" if field == "summary" else _OUTPUT[role], "parts": []}
            steps.append(_begun(own if fits else fresh, field))
            steps[-1][field] = list(steps[-1].get(field, ()))
            own = {} if fits else own
            joins = field
        if _is_signature(part):
            if not steps[-1]["summary"]:
                del steps[-1]["summary"]
            steps[-1]["signature"] = part["thoughtSignature"]
            joins = ""
        else:
            steps[-1].setdefault(field, []).append(encode_content(part))
    return steps


def _begun(own: JsonObject, field: str) -> JsonObject:
    """Return a step without its contents, which come where the turn has its parts."""
    return {field if key == "parts" else key: [] if key == "parts" else value for key, value in own.items()}


def _is_signature(part: JsonObject) -> bool:
    return "thoughtSignature" in part and not is_text(part)


def _single_step(part: JsonObject) -> JsonObject | None:
    """Return the step that a part is by itself, or None for a content."""
    called = read_object(part, "functionCall")
    step = read_object(called, "args")
    if is_call_of_client(step) and step["type"] == called.get("name") != "function_call":
        return step  # a call of an unknown type
    for field, kind in (("functionCall", "function_call"), ("toolCall", "")):
        if isinstance(call := read(part, field), dict):
            step = {"type": kind} if kind else {}
            step |= {"arguments" if key == "args" else key: value for key, value in call.items()}
            if kind and "arguments" not in step:
                step["arguments"] = {}
            return _with_signature(step, part)
    for field, kind in (("functionResponse", "function_result"), ("toolResponse", "")):
        if isinstance(result := read(part, field), dict):
            return _with_signature(_result_step(result, kind), part)
    return None


def _result_step(result: JsonObject, kind: str) -> JsonObject:
    step: JsonObject = {"type": kind} if kind else {}
    for key, value in result.items():
        if key == "response":
            step["result"] = _encode_value(value, read_list(result, "parts"))
        elif key != "parts":
            step["call_id" if key == "id" else key] = value
    return step


def _encode_value(response: Any, media: Sequence[JsonObject]) -> Any:
    if not isinstance(response, dict) or response.keys() != {"result"}:
        return response
    value = response["result"]
    if isinstance(value, list):
        return [_encode_item(item, media) for item in value]
    return _encode_item(value, media)


def _encode_item(item: Any, media: Sequence[JsonObject]) -> Any:
    number = item.get("part") if isinstance(item, dict) and item.keys() == {"part"} else None
    if isinstance(number, int) and 0 <= number < len(media):
        return encode_content(media[number])
    return item


def _with_signature(step: JsonObject, part: JsonObject) -> JsonObject:
    signature = read(part, "thoughtSignature")
    return step if signature is None else {**step, "signature": signature}
