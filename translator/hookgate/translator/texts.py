"""Text parts: found, joined for a hook, and written back with their flags. Pure; spreading.py cuts edits."""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.fields import JsonObject, read, read_list, without, write


def is_text(part: Any) -> bool:
    """Whether a part carries text; thoughts are text with a flag."""
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def has_part(content: Any, field: str) -> bool:
    """Whether a content holds a part with the field, such as `functionResponse`."""
    parts = read_list(content, "parts") if isinstance(content, dict) else []
    return any(isinstance(part, dict) and read(part, field) is not None for part in parts)


def texts_of(content: JsonObject) -> list[str]:
    """The text of each text part, in order."""
    parts = content.get("parts")
    if type(parts) is not list:  # every view of every turn comes through here: the usual case first
        parts = read_list(content, "parts")
    return [part["text"] for part in parts if type(part) is dict and type(part.get("text")) is str]


def joined_text(content: JsonObject) -> str:
    """All text of a content, joined."""
    return "".join(texts_of(content))


def joined_texts(contents: Sequence[Any]) -> list[str]:
    """The text of each content, joined; empty for one without. The hottest loop of a view: no calls in it."""
    joined = []
    for content in contents:
        text = ""
        if type(content) is dict:
            parts = content.get("parts")
            for part in parts if type(parts) is list else read_list(content, "parts"):
                if type(part) is dict and type(piece := part.get("text")) is str:
                    text += piece
        joined.append(text)
    return joined


def with_texts(content: JsonObject, texts: Sequence[str]) -> JsonObject:
    """A copy of `content` whose text parts hold `texts`, one each; all other parts and fields stay.

    More texts than parts become new parts behind the last text part. Parts left without a text go, unless
    they carry something besides (a signature, a flag): those stay with an empty text.
    """
    parts = read_list(content, "parts")
    if len(parts) == len(texts) == 1 and is_text(parts[0]) and type(content.get("parts")) is list:
        return {**content, "parts": [{**parts[0], "text": texts[0]}]}  # most events of a stream
    at = [index for index, part in enumerate(parts) if is_text(part)]
    edited: dict[int, Any] = dict(enumerate(parts))
    for position, index in enumerate(at):
        if position < len(texts):
            edited[index] = {**parts[index], "text": texts[position]}
        elif len(parts[index]) > 1:
            edited[index] = {**parts[index], "text": ""}
        else:
            del edited[index]
    added = [{"text": text} for text in texts[len(at) :]]
    behind = at[-1] + 1 if at else len(parts)
    new = [edited[i] for i in range(behind) if i in edited] + added + parts[behind:]
    # A single part object stands for a list of one; it stays an object while it stays one.
    single = isinstance(content.get("parts"), dict) and len(new) == 1
    return write(content, "parts", new[0] if single else new)


def without_texts(content: JsonObject) -> JsonObject:
    """A copy of `content` without its text; what else its parts carry stays."""
    bare = [part for part in read_list(content, "parts") if not is_text(part)]
    return with_texts(content, []) if bare else without(content, "parts")
