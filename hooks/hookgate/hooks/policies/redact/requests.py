"""A request's contents and system instruction, redacted."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from itertools import groupby
from typing import Any

from hookgate.hooks.policies.redact.redaction import Redaction, Scope
from hookgate.translator.fields import JsonObject, read, read_list, read_object, without, write
from hookgate.translator.texts import is_text

_TEXTS = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml)|application/x-(?:yaml|sh|ndjson)"
    r"|application/(?:x-)?(?:javascript|typescript|python|toml|sql)",
    re.IGNORECASE,
)
"""Media types of inline data that is text."""

_TO_STANDARD = str.maketrans("-_", "+/")
"""From the alphabet for addresses, which the API takes as well."""

_HOLDERS: tuple[tuple[str, str, Scope], ...] = (
    ("functionCall", "args", "tool_arguments"),
    ("toolCall", "args", "tool_arguments"),
    ("functionResponse", "response", "tool_results"),
    ("toolResponse", "response", "tool_results"),
    ("executableCode", "code", "answers"),
    ("codeExecutionResult", "output", "tool_results"),
)
"""Parts that are no text: the field, what in it is looked through, and what that is in a conversation."""


def redacted_request(redaction: Redaction, request: JsonObject) -> JsonObject:
    """What changes of `contents` and `systemInstruction`, by their names. Raises Withheld."""
    edit: JsonObject = {}
    system = read(request, "systemInstruction")
    if isinstance(system, dict):
        [new] = _run(redaction, [system], "system")
        edit |= {} if new is system else {"systemInstruction": new}
    contents = read_list(request, "contents")
    new_contents = [
        content
        for model, run in groupby(contents, key=_is_model)
        for content in _run(redaction, list(run), "answers" if model else "prompts")
    ]
    if any(new is not old for new, old in zip(new_contents, contents, strict=True)):
        edit["contents"] = new_contents
    return edit


def newest(request: JsonObject) -> JsonObject:
    """The request with nothing but what came since the model's last turn, and the system instruction."""
    contents = read_list(request, "contents")
    last = max((at for at, content in enumerate(contents) if _is_model(content)), default=-1)
    return {**request, "contents": contents[last + 1 :]}


def _is_model(content: Any) -> bool:
    return isinstance(content, dict) and content.get("role") == "model"


def _run(redaction: Redaction, contents: list[JsonObject], scope: Scope) -> list[JsonObject]:
    """Contents of one speaker, one after another: their texts are read as one.

    Clients that stream keep a turn as several contents, one for each event.
    """
    texts: dict[tuple[int, int], str] = {}
    for thinks in (False, True):
        pieces = [
            ((at, number), part["text"])
            for at, content in enumerate(contents)
            for number, part in enumerate(read_list(content, "parts"))
            if is_text(part) and bool(part.get("thought")) is thinks
        ]
        if ("thoughts" if thinks else scope) in redaction.scopes:
            texts |= _redacted(redaction, pieces)
        else:
            texts |= pieces
    return [_content(redaction, content, scope, at, texts) for at, content in enumerate(contents)]


def _redacted(redaction: Redaction, pieces: list[tuple[tuple[int, int], str]]) -> dict[tuple[int, int], str]:
    """One text that stands in pieces in several places.

    Each is looked through by itself as well: what stands next to it may hide where a secret begins or ends.
    """
    whole = "".join(text for _, text in pieces)
    if redaction.is_clean(whole) and (len(pieces) == 1 or all(redaction.is_clean(t) for _, t in pieces)):
        return dict(pieces)
    texts = {place: "" for place, _ in pieces}

    def put(place: tuple[int, int], text: str) -> None:
        texts[place] += text

    strand = redaction.strand(put)
    for place, text in pieces:
        strand.feed(place, text)
    strand.finish()
    if len(pieces) == 1:
        return texts
    return {place: redaction.piece(text) for place, text in texts.items()}


def _content(
    redaction: Redaction, content: JsonObject, scope: Scope, at: int, texts: dict[tuple[int, int], str]
) -> JsonObject:
    parts = read_list(content, "parts")
    new = []
    for number, part in enumerate(parts):
        text = texts.get((at, number))
        redacted = _with_partial_arguments(redaction, redacted_part(redaction, part, scope))
        new.append(redacted if text is None or text == part["text"] else {**redacted, "text": text})
    unchanged = all(a is b for a, b in zip(new, parts, strict=True))
    return content if unchanged else write(content, "parts", new)


def redacted_part(redaction: Redaction, part: JsonObject, scope: Scope) -> JsonObject:
    """A part with all that is no text of its own redacted: a call, a result, code, a file that holds text.

    Raises Withheld.
    """
    for field, inner, inside in _HOLDERS:
        holder = read(part, field)
        if holder is not None and inside in redaction.scopes:
            redacted = _holder(redaction, holder, inner, inside)
            part = part if redacted is holder else write(part, field, redacted)
    return _with_file(redaction, part) if scope in redaction.scopes else part


def _holder(redaction: Redaction, holder: Any, inner: str, inside: Scope) -> Any:
    if not isinstance(holder, dict):  # not what the API documents, but it would go on all the same
        return redaction.value(holder)
    value = read(holder, inner)
    new = redaction.value(value)
    return _with_media(redaction, holder if new is value else write(holder, inner, new), inside)


def _with_partial_arguments(redaction: Redaction, part: JsonObject) -> JsonObject:
    """A call whose arguments had come in pieces, as some clients keep it."""
    call = read_object(part, "functionCall")
    pieces = read_list(call, "partialArgs")
    if not pieces or "tool_arguments" not in redaction.scopes:
        return part
    new = [redacted_argument(redaction, redaction.value(piece)) for piece in pieces]
    if all(a is b for a, b in zip(new, pieces, strict=True)):
        return part
    return write(part, "functionCall", write(call, "partialArgs", new))


def redacted_argument(redaction: Redaction, piece: Any) -> Any:
    """A piece of a call's arguments with its number redacted; what takes the place of one is a text."""
    if not isinstance(piece, dict):  # not what the API documents, but it would go on all the same
        return redaction.value(piece)
    number = read(piece, "numberValue")
    new = redaction.value(number)
    return piece if new is number else write(without(piece, "numberValue"), "stringValue", new)


def _with_media(redaction: Redaction, holder: JsonObject, scope: Scope) -> JsonObject:
    """A result with the files that came with it."""
    parts = read_list(holder, "parts")
    new = [redacted_part(redaction, each, scope) if isinstance(each, dict) else each for each in parts]
    unchanged = all(a is b for a, b in zip(new, parts, strict=True))
    return holder if unchanged else write(holder, "parts", new)


def _with_file(redaction: Redaction, part: JsonObject) -> JsonObject:
    blob = read_object(part, "inlineData")
    data = blob.get("data")
    if not isinstance(data, str) or not _TEXTS.match(str(read(blob, "mimeType") or "")):
        return part
    try:
        raw = b64decode("".join(data.split()).rstrip("=").translate(_TO_STANDARD) + "==")
    except Error:
        return part
    text = raw.decode(errors="surrogateescape")  # in other encodings secrets are ASCII all the same
    new = redaction.text(text)
    if new == text:
        return part
    redacted = b64encode(new.encode(errors="surrogateescape")).decode()
    return write(part, "inlineData", {**blob, "data": redacted})
