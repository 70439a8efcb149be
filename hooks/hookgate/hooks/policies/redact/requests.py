"""Redacts a request: consecutive texts of one speaker as one text, every other string by itself."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from hookgate.hooks.policies.redact.fields import (
    CONTENT,
    Handler,
    elsewhere,
    opaque,
    redacted_fields,
    redacted_part,
)
from hookgate.hooks.policies.redact.redaction import Redaction, Scope, Survey
from hookgate.translator.fields import JsonObject, is_text, read, read_list, read_object, same_items, write

_FIELDS: Mapping[str, Handler] = {
    "contents": elsewhere,
    "content": elsewhere,
    "systemInstruction": elsewhere,
    "continuationToken": opaque,
}
"""The fields of a request that need their own handler."""

Place = tuple[int, int, int]
"""The place of a text: the indexes of its content and part, and of a piece of arguments, or -1."""

Texts = dict[Place, str]


def redacted_request(redaction: Redaction, request: JsonObject) -> JsonObject:
    """Return the request with findings replaced, or the same object if there are none. Raises Withheld."""
    if Survey(redaction).is_clean_throughout(lambda survey: _redacted_request(survey, request)):
        return request
    return _redacted_request(redaction, request)


def _redacted_request(redaction: Redaction, request: JsonObject) -> JsonObject:
    new: JsonObject = redacted_fields(redaction, request, "other", _FIELDS)
    system = read(request, "systemInstruction")
    if system is not None:
        new = _with_turns(redaction, new, "systemInstruction", [system], "system")
    for field in ("contents", "content"):
        contents = read(request, field)
        if contents is not None:
            content_list = contents if isinstance(contents, list) else [contents]
            new = _with_turns(redaction, new, field, content_list, "prompts")
    return new


def newest(request: JsonObject) -> JsonObject:
    """Return the request without the turns up to the model's last one.

    Turns at the end that claim to be the model's are the client's, and are kept: the model has not answered
    them.
    """
    contents = read_list(request, "contents")
    answered = contents[: _end_of_answers(contents)]
    last_answer = max((at for at, content in enumerate(answered) if _is_model(content)), default=-1)
    return {**request, "contents": contents[last_answer + 1 :]}


def _end_of_answers(contents: list[Any]) -> int:
    """Return the number of contents before those at the end that claim to be the model's."""
    return next((at for at in range(len(contents), 0, -1) if not _is_model(contents[at - 1])), 0)


def _with_turns(
    redaction: Redaction, request: JsonObject, field: str, contents: list[Any], scope: Scope
) -> JsonObject:
    """Redact a field of the request that has contents, or one content."""
    end = _end_of_answers(contents)
    new = [
        content
        for model, run in groupby(contents[:end], key=_is_model)
        for content in _redacted_run(redaction, list(run), "answers" if model else scope)
    ]
    new += _redacted_run(redaction, contents[end:], scope)
    if same_items(new, contents):
        return request
    return write(request, field, new if isinstance(read(request, field), list) else new[0])


def _is_model(content: Any) -> bool:
    """Return whether a content is the model's. Some agents send the results of tools under its role."""
    if not isinstance(content, dict) or content.get("role") != "model":
        return False
    parts = read_list(content, "parts")
    return not any(isinstance(part, dict) and read(part, "functionResponse") is not None for part in parts)


def _redacted_run(redaction: Redaction, contents: list[Any], scope: Scope) -> list[Any]:
    """Redact consecutive contents of one speaker, with their texts as one.

    Clients that stream may store a turn as several contents, one per event.
    """
    texts: Texts = {}
    parts = list(_parts(contents))
    for thoughts in (False, True):
        if ("thoughts" if thoughts else scope) in redaction.scopes:
            pieces = [
                (place, part["text"])
                for place, part in parts
                if is_text(part) and bool(part.get("thought")) is thoughts
            ]
            texts |= _redacted_pieces(redaction, pieces)
    if "tool_arguments" in redaction.scopes:
        for pieces in _arguments(parts):
            texts |= _redacted_pieces(redaction, pieces)
    return [_content(redaction, content, scope, at, texts) for at, content in enumerate(contents)]


def _parts(contents: list[Any]) -> Iterator[tuple[Place, JsonObject]]:
    for at, content in enumerate(contents):
        for number, part in enumerate(read_list(content, "parts") if isinstance(content, dict) else ()):
            if isinstance(part, dict):
                yield (at, number, -1), part


def _arguments(parts: list[tuple[Place, JsonObject]]) -> Iterator[list[tuple[Place, str]]]:
    """Yield the strings of partial arguments, all pieces of one argument together."""
    open_arguments: dict[str, list[tuple[Place, str]]] = {}
    for (at, number, _), part in parts:
        if not isinstance(call := read(part, "functionCall"), dict):
            continue
        for k, piece in enumerate(read_list(call, "partialArgs")):
            if isinstance(piece, dict) and isinstance(value := read(piece, "stringValue"), str):
                open_arguments.setdefault(str(read(piece, "jsonPath")), []).append(((at, number, k), value))
        if not read(call, "willContinue"):
            yield from open_arguments.values()
            open_arguments = {}
    yield from open_arguments.values()


def _redacted_pieces(redaction: Redaction, pieces: list[tuple[Place, str]]) -> Texts:
    """Redact one text that is spread over several places.

    Each piece is also searched by itself, because its neighbours may hide where a secret begins or ends.
    """
    whole = "".join(text for _, text in pieces)
    if redaction.is_clean(whole) and (len(pieces) == 1 or all(redaction.is_clean(t) for _, t in pieces)):
        return {}
    texts = {place: "" for place, _ in pieces}

    def put(place: Place, text: str) -> None:
        texts[place] += text

    chunked_text = redaction.strand(put)
    for place, text in pieces:
        chunked_text.feed(place, text)
    chunked_text.finish()
    if len(pieces) == 1:
        return texts
    return {place: redaction.piece(text) for place, text in texts.items()}


def _content(redaction: Redaction, content: Any, scope: Scope, at: int, texts: Texts) -> Any:
    """Return a content with these texts in their places, and everything else redacted."""
    content = redacted_fields(redaction, content, scope, CONTENT)
    if not isinstance(content, dict) or read(content, "parts") is None:
        return content
    parts = read_list(content, "parts")
    new = [_part(redaction, part, scope, (at, number), texts) for number, part in enumerate(parts)]
    unchanged = same_items(new, parts)
    return content if unchanged else write(content, "parts", new)


def _part(redaction: Redaction, part: Any, scope: Scope, at: tuple[int, int], texts: Texts) -> Any:
    if not isinstance(part, dict):  # not a documented format, but it would be forwarded
        return redaction.value(part) if scope in redaction.scopes else part
    redacted = redacted_part(redaction, part, scope)
    if not texts:
        return redacted
    redacted = _with_arguments(redacted, at, texts)
    text = texts.get((*at, -1))
    return redacted if text is None or text == part["text"] else {**redacted, "text": text}


def _with_arguments(part: JsonObject, at: tuple[int, int], texts: Texts) -> JsonObject:
    """Return the part with these strings in its call's partial arguments."""
    call = read_object(part, "functionCall")
    pieces = read_list(call, "partialArgs")
    new = []
    for number, piece in enumerate(pieces):
        text = texts.get((*at, number))
        same = text is None or text == read(piece, "stringValue")
        new.append(piece if same else write(piece, "stringValue", text))
    if same_items(new, pieces):
        return part
    return write(part, "functionCall", write(call, "partialArgs", new))
