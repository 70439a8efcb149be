"""Contents of a message (texts, images, audio, files, refusals) as parts of generateContent, and back.

    "hi"                                            {"text": "hi"}
    {"type": "text", "text": "hi"}                  {"type": "text", "text": "hi"}
    {"type": "image_url", "image_url": {"url": …}}  {"type": "image_url", "image_url": {}, "inlineData": {…}}

A URL of base64 data becomes `inlineData`, any other URL `fileData`.
"""

from typing import Any

from hookgate.translator.fields import BodyError, JsonObject, is_text, read, read_object
from hookgate.translator.openai.fields import (
    check_openai_fields,
    check_spelled_fields,
    decode_url,
    read_string,
)


def decode_message_contents(content: Any, path: str) -> list[JsonObject]:
    """Return the parts for the content of a message. Raises BodyError."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"text": content}]
    if not isinstance(content, list):
        raise BodyError(path, "the content must be a string or a list of contents")
    return [_decode_content(item, f"{path}[{number}]") for number, item in enumerate(content)]


def _decode_content(item: Any, path: str) -> JsonObject:
    check_openai_fields(item, path)
    kind = item.get("type")
    for name in _MEDIA:
        if name != kind and item.get(name) is not None:
            raise BodyError(f"{path}.{name}", f"only a content of the type {name!r} has this field")
    if kind == "text":
        read_string(item, "text", path)
        return dict(item)
    if kind == "refusal" and "text" not in item:
        text = read_string(item, "refusal", path)
        return {**{key: value for key, value in item.items() if key != "refusal"}, "text": text}
    if not isinstance(kind, str) or kind not in _MEDIA or "text" in item:
        raise BodyError(f"{path}.type", f"hooks cannot inspect this content; use text or {', '.join(_MEDIA)}")
    holder = check_spelled_fields(item.get(kind), f"{path}.{kind}")
    return {**item, **_MEDIA[kind](holder, f"{path}.{kind}")}


def _decode_image(holder: JsonObject, path: str) -> JsonObject:
    rest = {key: value for key, value in holder.items() if key != "url"}
    return {"image_url": rest, **decode_url(read_string(holder, "url", path), f"{path}.url")}


def _decode_audio(holder: JsonObject, path: str) -> JsonObject:
    rest = {key: value for key, value in holder.items() if key not in ("data", "format")}
    data, kind = read_string(holder, "data", path), read_string(holder, "format", path)
    return {"input_audio": rest, "inlineData": {"mimeType": f"audio/{kind}", "data": data}}


def _decode_file(holder: JsonObject, path: str) -> JsonObject:
    rest = {key: value for key, value in holder.items() if key not in ("file_data", "file_id")}
    shown: JsonObject = {"file": rest}
    if holder.get("file_data") is not None:
        shown |= decode_url(read_string(holder, "file_data", path), f"{path}.file_data")
    if holder.get("file_id") is not None:
        if "fileData" in shown:
            raise BodyError(path, "a file has file_data or file_id, not both")
        shown["fileData"] = {"fileId": read_string(holder, "file_id", path)}
    return shown


_MEDIA = {"image_url": _decode_image, "input_audio": _decode_audio, "file": _decode_file}


# ---- and back


def encode_contents(parts: list[JsonObject], *, joins: bool) -> Any:
    """Return the content of a message for its parts: a string if possible, else a list.

    `joins`: several plain texts are pieces of one text. Raises BodyError for a part that is not a content.
    """
    plain = all(part.keys() == {"text"} for part in parts)
    if plain and (len(parts) == 1 or joins):
        return "".join(part["text"] for part in parts)
    return [encode_message_content(part) for part in parts]


def encode_message_content(part: JsonObject) -> JsonObject:
    """Return the content for a part. Raises BodyError for a part that is not a content."""
    kind = part.get("type")
    if kind == "refusal":
        return {**{key: value for key, value in part.items() if key != "text"}, "refusal": part["text"]}
    if is_text(part):
        return {"type": "text", **part}
    blob, file = read_object(part, "inlineData"), read_object(part, "fileData")
    if not blob and not file:
        raise BodyError("", f"a message cannot contain a part with {', '.join(part) or 'no fields'}")
    media_type = str(read(blob or file, "mimeType") or "")
    if kind not in _MEDIA:
        kind = "image_url" if media_type.startswith("image/") else "file"
    rest = {key: value for key, value in part.items() if key not in ("inlineData", "fileData", "type", kind)}
    if kind == "input_audio":
        own: JsonObject = {"data": read(blob, "data"), "format": media_type.removeprefix("audio/")}
    elif blob:
        own = {
            "url" if kind == "image_url" else "file_data": f"data:{media_type};base64,{read(blob, 'data')}"
        }
    else:
        own = {"url": read(file, "fileUri")} if kind == "image_url" else {}
    if kind == "file" and file:
        own |= {"file_data": uri} if (uri := read(file, "fileUri")) else {"file_id": read(file, "fileId")}
    return {"type": kind, **rest, kind: {**own, **read_object(part, kind)}}
