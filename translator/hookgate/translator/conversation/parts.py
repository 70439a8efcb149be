"""Typed parts: shows all parts of a turn to hooks that request them, and applies edits to them.

    {"type": "text" | "thought", "text"}
    {"type": "function_call", "name", "args", "id"?}
    {"type": "function_response", "name", "response", "id"?, "parts"?: [typed parts]}
    {"type": "inline_data", "mimeType", "size", "text"?}     size in bytes; of a text file also its text
    {"type": "file_data", "mimeType", "fileUri"}
    {"type": "code", "language", "code"}                   {"type": "code_result", "outcome", "output"}
    {"type": "other"}

Each has `fields` if the part has other fields, which are in it as in the part. Only flags, signatures and
the data of files that are not text are not shown.

A hook may edit texts, the `args` of calls and the `response` of results, remove texts, media and code, and
add texts. Calls and results cannot be removed, since the API refuses one without the other.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hookgate.translator.conversation.alignment import gaps, in_order
from hookgate.translator.fields import (
    EditError,
    JsonObject,
    camel,
    is_text,
    read,
    read_list,
    read_object,
    same,
    same_items,
    spelling,
    write,
)
from hookgate.translator.text_files import show_text_file

_EDITABLE = {"text": "text", "thought": "text", "function_call": "args", "function_response": "response"}
_LASTING = ("function_call", "function_response")
TYPES = (*_EDITABLE, "inline_data", "file_data", "code", "code_result", "other")


def show_parts(content: JsonObject) -> list[JsonObject]:
    """Return the typed parts of a content, one for each part, in order."""
    return [_show(part) for part in read_list(content, "parts")]


def show_other_fields(obj: JsonObject, *shown: str) -> JsonObject:
    """Return the fields of an object that are not shown otherwise, as `{"fields": {...}}`, or nothing.

    `shown` are names in camelCase.
    """
    fields = {key: value for key, value in obj.items() if value is not None and camel(key) not in shown}
    return {"fields": fields} if fields else {}


def _show(part: Any) -> JsonObject:
    if not isinstance(part, dict):  # not a documented format
        return {"type": "other", "fields": part}
    omitted = [name for name, kind in _OMITTED.items() if isinstance(read(part, name), kind)]
    if is_text(part):
        kind = "thought" if part.get("thought") else "text"
        return {"type": kind, "text": part["text"], **show_other_fields(part, "text", *omitted)}
    for field, show in _SHOWS.items():
        if isinstance(value := read(part, field), dict):
            typed, names = show(value)
            rest = {**part, spelling(part, field): show_other_fields(value, *names).get("fields")}
            return {**typed, **show_other_fields(rest, *omitted)}
    return {"type": "other", **show_other_fields(part, *omitted)}


_OMITTED = {"thought": bool, "thoughtSignature": str}
"""The fields of a part that are never shown, with the type that they must have for this."""

_Shown = tuple[JsonObject, Sequence[str]]
"""A typed part, and the names of the fields that it shows."""


def _chosen(kind: str, *names: str) -> Callable[[JsonObject], _Shown]:
    def show(value: JsonObject) -> _Shown:
        found = {name: read(value, name) for name in names}
        return {"type": kind, **{name: item for name, item in found.items() if item is not None}}, names

    return show


_show_response = _chosen("function_response", "id", "name", "response")


def _show_result(value: JsonObject) -> _Shown:
    typed, names = _show_response(value)
    if not isinstance(read(value, "parts"), list | dict):
        return typed, names
    return {**typed, "parts": show_parts(value)}, (*names, "parts")


def _show_inline_data(value: JsonObject) -> _Shown:
    data, media_type = read(value, "data"), read(value, "mimeType")
    if not isinstance(data, str):
        return {"type": "inline_data", "mimeType": media_type, "size": 0}, ("mimeType",)
    typed = {"type": "inline_data", "mimeType": media_type, "size": len(data.rstrip("=")) * 3 // 4}
    text = show_text_file(data, media_type if isinstance(media_type, str) else "")
    return typed if text is None else {**typed, "text": text}, ("mimeType", "data")


_SHOWS: dict[str, Callable[[JsonObject], _Shown]] = {
    "functionCall": _chosen("function_call", "id", "name", "args"),
    "functionResponse": _show_result,
    "inlineData": _show_inline_data,
    "fileData": _chosen("file_data", "mimeType", "fileUri"),
    "executableCode": _chosen("code", "language", "code"),
    "codeExecutionResult": _chosen("code_result", "outcome", "output"),
}


# ---- a hook's edit


def read_typed_part(part: Any, path: str, types: Sequence[str] = TYPES) -> JsonObject:
    """Validate and return a typed part. A string is a text part. Raises EditError."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise EditError(path, "a string or a typed part such as {type: 'text', text}", part)
    kind = part.get("type", "text")
    if kind not in types:
        raise EditError(f"{path}.type", f"one of {', '.join(types)}", kind)
    if kind in ("text", "thought") and not isinstance(part.get("text"), str):
        raise EditError(f"{path}.text", "a string", part.get("text"))
    if kind in _LASTING and not isinstance(part.get(_EDITABLE[kind], {}), dict):
        raise EditError(f"{path}.{_EDITABLE[kind]}", "an object", part[_EDITABLE[kind]])
    return {"type": kind, **part}


def apply_parts(content: JsonObject, edited: list[JsonObject]) -> JsonObject:
    """Return the content after a hook's list of typed parts. Raises EditError, with a path from `content`."""
    parts, shown = read_list(content, "parts"), show_parts(content)
    matches = _align(shown, edited)
    matched = {match for match in matches if match is not None}
    new: list[Any] = []
    done = 0
    for position, (typed, match) in enumerate(zip(edited, matches, strict=True)):
        path = f"content[{position}]"
        if match is None:
            new.append(_new(typed, path))
            continue
        new += _left(parts, shown, range(done, match), matched)
        new.append(_edit(parts[match], shown[match], typed, path))
        done = match + 1
    new += _left(parts, shown, range(done, len(parts)), matched)
    if same_items(new, parts):
        return content
    single = isinstance(content.get("parts"), dict) and len(new) == 1
    return write(content, "parts", new[0] if single else new)


def without_parts(content: JsonObject) -> JsonObject:
    """Return the content that is left of a removed message: its calls and results."""
    return apply_parts(content, [])


def new_content(role: str, typed: list[JsonObject]) -> JsonObject:
    """Return the content of a message that a hook added. Raises EditError for parts other than text."""
    return {"role": role, "parts": [_new(part, f"content[{i}]") for i, part in enumerate(typed)]}


def _align(shown: list[JsonObject], edited: list[JsonObject]) -> list[int | None]:
    """Return for each edited part the index of the shown part that it is, or None for a new one.

    Parts keep their order. Equal parts are matched first, then parts of equal types between them.
    """
    matches: list[int | None] = [None] * len(edited)
    (ours, theirs), (kinds, other_kinds) = (
        [[_mark(part, exact) for part in parts] for parts in (shown, edited)] for exact in (True, False)
    )
    anchors = in_order(ours, theirs)
    for a, b in anchors:
        matches[b] = a
    for olds, news in gaps(anchors, len(shown), len(edited)):
        for a, b in in_order(kinds[olds.start : olds.stop], other_kinds[news.start : news.stop]):
            matches[news[b]] = olds[a]
    return matches


def _mark(part: JsonObject, exact: bool) -> str:
    name = str(part.get("name", ""))
    return f"{part['type']} {name} {part}" if exact else f"{part['type']} {name}"


def _left(parts: list[Any], shown: list[JsonObject], indexes: range, matched: set[int]) -> list[Any]:
    """Return the parts that are kept although the hook omitted them."""
    return [parts[i] for i in indexes if i not in matched and shown[i]["type"] in _LASTING]


def _edit(part: Any, shown: JsonObject, typed: JsonObject, path: str) -> Any:
    editable = _EDITABLE.get(shown["type"], "")
    for key, value in shown.items():
        if key not in (editable, "type") and key in typed and not same(value, typed[key]):
            raise EditError(
                f"{path}.{key}", "what was shown: only texts, args and responses change", typed[key]
            )
    if editable not in typed or same(typed[editable], shown.get(editable)):
        return part
    if editable == "text":
        return {**part, "text": typed["text"]}
    field = "functionCall" if editable == "args" else "functionResponse"
    return write(part, field, write(read_object(part, field), editable, typed[editable]))


def _new(typed: JsonObject, path: str) -> JsonObject:
    if typed["type"] != "text":
        raise EditError(f"{path}.type", "'text': only texts can be added", typed["type"])
    return {"text": typed["text"]}
