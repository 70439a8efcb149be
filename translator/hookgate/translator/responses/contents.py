"""Contents of an item (texts, refusals, images, files, audio) as parts of generateContent, and back.

    "hi"                                      {"text": "hi"}
    {"type": "input_text", "text": "hi"}      {"type": "input_text", "text": "hi"}
    {"type": "refusal", "refusal": "no"}      {"type": "refusal", "text": "no"}
    {"type": "summary_text", "text": "hm"}    {"type": "summary_text", "text": "hm", "thought": true}
    {"type": "input_image", "image_url": …}   {"type": "input_image", "inlineData": {…}}

A URL of base64 data becomes `inlineData`, any other URL and the ID of a file become `fileData`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hookgate.translator.citations import move_annotations
from hookgate.translator.fields import BodyError, JsonObject, is_text, read, read_object, same_items, without
from hookgate.translator.openai.fields import (
    check_openai_fields,
    check_spelled_fields,
    decode_url,
    read_string,
)

TEXT_FIELDS: Mapping[str, str] = {
    "input_text": "text",
    "output_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
    "summary_text": "text",
}
"""The field with the text of a content, by its type."""

THOUGHTS = ("reasoning_text", "summary_text")
"""The types of contents that are thoughts."""
_URLS = {"input_image": ("image_url",), "input_file": ("file_data", "file_url"), "input_audio": ()}
"""The fields of media that are URLs, by their type. Media may also have the ID of a file."""

_MEDIA_FIELDS = ("file_data", "file_id", "file_url", "image_url", "input_audio")
"""The fields with media, which no content of another type may have."""


def decode_item_contents(contents: Any, path: str, *, answered: bool = False) -> list[JsonObject]:
    """Return the parts for the contents of an item. Raises BodyError.

    With `answered`, contents of unknown types are shown with all of their fields; else they are refused.
    """
    if contents is None:
        return []
    if isinstance(contents, str):
        return [{"text": contents}]
    if not isinstance(contents, list):
        raise BodyError(path, "the content must be a string or a list of contents")
    return [
        _decode_content(item, f"{path}[{number}]", answered=answered) for number, item in enumerate(contents)
    ]


def _decode_content(item: Any, path: str, *, answered: bool) -> JsonObject:
    kind = check_spelled_fields(item, path).get("type")
    # Only files have this field, which would be shown as one of generateContent.
    check_openai_fields(without(item, "file_data") if kind == "input_file" else item, path)
    field = TEXT_FIELDS.get(kind) if isinstance(kind, str) else None
    if not answered:
        _check_media(item, kind, path)
    if field is not None:
        if field != "text" and "text" in item:
            raise BodyError(f"{path}.text", "a refusal has no such field")
        if not answered and item.get("logprobs"):
            raise BodyError(f"{path}.logprobs", "hooks cannot judge the tokens of a text; send an empty list")
        text = read_string(item, field, path)
        part = {key: value for key, value in item.items() if key != field} | {"text": text}
        return {**part, "thought": True} if kind in THOUGHTS else part
    if isinstance(kind, str) and kind in _URLS and "text" not in item:
        return _decode_media(item, path)
    if answered and isinstance(kind, str) and isinstance(item.get("text"), str | None):
        return dict(item)
    known = ", ".join([*TEXT_FIELDS, *_URLS])
    raise BodyError(f"{path}.type", f"hooks cannot inspect this content; use one of {known}")


def _check_media(item: JsonObject, kind: Any, path: str) -> None:
    """Refuse fields with media that the type of a content does not have. Raises BodyError."""
    own: tuple[str, ...] = ()
    if kind == "input_audio":
        own = ("input_audio",)
    elif kind in ("input_image", "input_file"):
        own = (*_URLS[kind], "file_id")
    for name in _MEDIA_FIELDS:
        if name not in own and item.get(name) is not None:
            raise BodyError(f"{path}.{name}", f"a content of the type {kind} has no such field")


def _decode_media(item: JsonObject, path: str) -> JsonObject:
    kind: str = item["type"]
    if kind == "input_audio":
        holder = check_spelled_fields(item.get(kind), f"{path}.{kind}")
        data, form = (read_string(holder, key, f"{path}.{kind}") for key in ("data", "format"))
        rest = {key: value for key, value in holder.items() if key not in ("data", "format")}
        return {**item, kind: rest, "inlineData": {"mimeType": f"audio/{form}", "data": data}}
    fields = [key for key in (*_URLS[kind], "file_id") if item.get(key) is not None]
    if len(fields) > 1:
        raise BodyError(path, f"expected only one of {' and '.join(fields)}")
    if not fields:
        return dict(item)
    [field] = fields
    value = read_string(item, field, path)
    shown = {"fileData": {"fileId": value}} if field == "file_id" else decode_url(value, f"{path}.{field}")
    if field == "file_data" and "inlineData" not in shown:
        raise BodyError(
            f"{path}.{field}", "expected data:TYPE;base64,DATA, since hooks cannot inspect others"
        )
    return {key: each for key, each in item.items() if key != field} | shown


# ---- and back


def encode_item_contents(parts: list[JsonObject], kind: str, *, joins: bool = False) -> Any:
    """Return the content of an item for its parts: a string for one plain text, else a list.

    `kind` is the type of new texts. With `joins`, several plain texts are pieces of one text.
    Raises BodyError for a part that is not a content.
    """
    plain = all(part.keys() == {"text"} for part in parts)
    if plain and (len(parts) == 1 or joins):
        return "".join(part["text"] for part in parts)
    return [encode_item_content(part, kind) for part in parts]


def encode_item_content(part: JsonObject, new_kind: str) -> JsonObject:
    """Return the content for a part, which may be new. Raises BodyError for a part that is not a content."""
    kind = part.get("type")
    rest = {key: value for key, value in part.items() if key not in ("thought", "thoughtSignature")}
    if is_text(part):
        if kind is None:
            kind, rest = new_kind, {"type": new_kind, **rest}
            if kind == "output_text":
                rest.setdefault("annotations", [])
        field = TEXT_FIELDS.get(kind, "text") if isinstance(kind, str) else "text"
        return {key: value for key, value in rest.items() if key != "text"} | {field: part["text"]}
    blob, file = read_object(part, "inlineData"), read_object(part, "fileData")
    if not blob and not file:
        if kind is None:
            raise BodyError("", f"an item cannot contain a part with {', '.join(part) or 'no fields'}")
        return rest
    media_type = str(read(blob or file, "mimeType") or "")
    if not isinstance(kind, str) or kind not in _URLS:
        kind = "input_image" if media_type.startswith("image/") else "input_file"
    rest = {key: value for key, value in rest.items() if key not in ("inlineData", "fileData", "type")}
    if kind == "input_audio":
        own = {"data": read(blob, "data"), "format": media_type.removeprefix("audio/")}
        return {"type": kind, **rest, kind: {**own, **read_object(part, kind)}}
    if blob:
        url = f"data:{media_type};base64,{read(blob, 'data')}"
        return {"type": kind, **rest, _URLS[kind][0]: url}
    if (uri := read(file, "fileUri")) is not None:
        return {"type": kind, **rest, _URLS[kind][-1]: uri}
    return {"type": kind, **rest, "file_id": read(file, "fileId")}


# ---- the texts of an item that other events of a stream repeat


LISTS = ("content", "summary")
"""The fields of an item that are lists of contents."""


def is_content_text(content: Any) -> bool:
    """Return whether a content has a text. Raises BodyError if it is not a string."""
    kind = content.get("type") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in TEXT_FIELDS:
        return False
    read_string(content, TEXT_FIELDS[kind], kind)
    return True


def texts_of_item(item: JsonObject) -> Iterator[tuple[str, int, JsonObject]]:
    """Yield the contents of an item that are texts, each with its list and its number. Raises BodyError."""
    for name in LISTS:
        contents = item.get(name)
        for number, content in enumerate(contents if isinstance(contents, list) else ()):
            if is_content_text(content):
                yield name, number, content


def content_text(content: JsonObject) -> str:
    """Return the text of a content that has one."""
    text: str = content[TEXT_FIELDS[content["type"]]]
    return text


def with_text(content: JsonObject, text: str, *, keeps_logprobs: bool = True) -> JsonObject:
    """Return a content with another text, or the same object if nothing changed.

    The log probabilities of its tokens are those of the original text. They are removed with it, and if
    `keeps_logprobs` is false.
    """
    field = TEXT_FIELDS[content["type"]]
    if content.get("logprobs") and not (keeps_logprobs and content.get(field) == text):
        content = {**content, "logprobs": []}
    if content.get(field) == text:
        return content
    new = {**content, field: text}
    return move_annotations(content, new) if text else new  # without its text, hooks see the rest of it


def with_item_texts(
    item: JsonObject, text: Callable[[str, int], str], *, keeps_logprobs: bool = True
) -> JsonObject:
    """Return an item with other texts, or the same object if nothing changed.

    `text` returns the text of a content by its list and its number; see `with_text` for `keeps_logprobs`.
    """
    new = item
    for name in LISTS:
        contents = item.get(name)
        if not isinstance(contents, list):
            continue
        changed = [
            with_text(content, text(name, number), keeps_logprobs=keeps_logprobs)
            if is_content_text(content)
            else content
            for number, content in enumerate(contents)
        ]
        if not same_items(changed, contents):
            new = {**new, name: changed}
    return new


def with_empty_texts(item: JsonObject) -> JsonObject:
    """Return an item with empty texts, and without the log probabilities of their tokens."""
    return with_item_texts(item, lambda name, number: "", keeps_logprobs=False)
