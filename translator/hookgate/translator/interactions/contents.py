"""Contents of an interaction (texts, images, audio, documents, videos) as parts of generateContent, and back.

    {"type": "text", "text": "hi"}                          {"text": "hi"}
    {"type": "image", "data": …, "mime_type": …}            {"inlineData": {"type": "image", "data": …, …}}
    {"type": "document", "uri": …}                          {"fileData": {"type": "document", "fileUri": …}}

A content of any other type is used as a part unchanged; its `text`, if it has one, is shown as text.
"""

from typing import Any

from hookgate.translator.checks import check_spellings
from hookgate.translator.fields import BodyError, JsonObject, camel, is_text, read, read_object, snake_field

MEDIA = ("image", "audio", "document", "video")
_SHOWN_AS = frozenset(
    {
        *("codeExecutionResult", "executableCode", "fileData", "fileUri", "functionCall"),
        *(
            "functionResponse",
            "inlineData",
            "parts",
            "role",
            "thought",
            "thoughtSignature",
            "toolCall",
            "toolResponse",
        ),
    }
)
"""Fields that mean something in generateContent, and do not exist in an interaction."""


_NAMES = frozenset(
    {
        *("agent", "agent_config", "arguments", "background", "content", "data", "environment"),
        *("generation_config", "input", "model", "previous_interaction_id", "result", "step", "stream"),
        "summary",
        *("system_instruction", "text", "tools", "type", "uri", "webhook_config"),
    }
)
"""Fields that are read here, or that decide whether a call is allowed."""

_PLAIN_NAMES = {name.replace("_", ""): name for name in _NAMES}


def check_names(obj: JsonObject, path: str = "") -> None:
    """Refuse a field that another parser could take for one that is read here. Raises BodyError."""
    check_spellings(obj, path)
    for key in obj:
        name = _PLAIN_NAMES.get(key.replace("_", "").lower())
        if name is not None and key != name and snake_field(key) != name:
            raise BodyError(f"{path}.{key}" if path else key, f"the field must be spelled {name!r}")


def check_fields(obj: Any, path: str) -> JsonObject:
    """Return an object whose fields can be shown under their own names. Raises BodyError."""
    if not isinstance(obj, dict):
        raise BodyError(path, "it must be an object, since hooks cannot inspect other types")
    check_names(obj, path)
    for key in obj:
        if camel(key) in _SHOWN_AS:
            raise BodyError(f"{path}.{key}" if path else key, "the Interactions API has no such field")
    return obj


def decode_content(content: Any, path: str) -> JsonObject:
    """Return the part for a content. Raises BodyError."""
    check_fields(content, path)
    kind = content.get("type")
    if kind == "text" or (kind is None and "text" in content):
        if not isinstance(content.get("text"), str):
            raise BodyError(f"{path}.text", "a text must be a string, since hooks cannot inspect other types")
        check_is_only_text(content, path)
        return {key: value for key, value in content.items() if key != "type"}
    if not isinstance(kind, str):
        raise BodyError(f"{path}.type", "content must have a type, such as text")
    if kind in MEDIA or content.get("uri") is not None:  # what refers to a file is shown as a file
        return _media_part(content)
    return dict(content)


def check_is_only_text(content: JsonObject, path: str) -> None:
    """Refuse a text that has a file, too, since hooks would not be shown it as one. Raises BodyError."""
    for name in ("data", "uri"):
        if content.get(name) is not None:
            raise BodyError(
                f"{path}.{name}", f"a text has no such field; send a content of {', '.join(MEDIA)}"
            )


def _media_part(content: JsonObject) -> JsonObject:
    uri = content.get("uri")
    rest = {key: value for key, value in content.items() if key != "uri"}
    if uri is None:
        return {"inlineData": content}
    if content.get("data") is None:
        return {"fileData": {**rest, "fileUri": uri}}
    return {"inlineData": rest, "fileData": {"fileUri": uri}}


def encode_content(part: JsonObject) -> JsonObject:
    """Return the content for a part, which may be new. Raises BodyError for a part that cannot be one."""
    part = {key: value for key, value in part.items() if key not in ("thought", "thoughtSignature")}
    if "type" in part:
        return part
    if is_text(part):
        return {"type": "text", **part}
    blob, file = read_object(part, "inlineData"), read_object(part, "fileData")
    if not blob and not file:
        raise BodyError("", f"an interaction cannot contain a part with {', '.join(part) or 'no fields'}")
    media = {**blob, **file}
    media_type = read(media, "mimeType")
    content = {"type": _media_type(media_type), **media}
    if "mimeType" in content:
        content["mime_type"] = content.pop("mimeType")
    for name in ("fileUri", "file_uri"):
        if name in content:
            content["uri"] = content.pop(name)
    return content


def _media_type(media_type: Any) -> str:
    major = media_type.partition("/")[0] if isinstance(media_type, str) else ""
    return major if major in MEDIA else "document"
