"""A request redacted: the texts of each speaker as one, every other string by itself."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from hookgate.hooks.policies.redact.covering import (
    CONTENT,
    Handler,
    elsewhere,
    opaque,
    redacted_fields,
    redacted_part,
)
from hookgate.hooks.policies.redact.redaction import Redaction, Scope, Survey
from hookgate.translator.fields import JsonObject, read, read_list, read_object, write
from hookgate.translator.texts import is_text

_FIELDS: Mapping[str, Handler] = {
    "contents": elsewhere,
    "content": elsewhere,
    "systemInstruction": elsewhere,
    "continuationToken": opaque,
}
"""The fields of a request that are not simply strings: turns, and bytes."""

Place = tuple[int, int, int]
"""Where a text of some contents stands: which content, which part, which piece of arguments or -1."""

Texts = dict[Place, str]


def redacted_request(redaction: Redaction, request: JsonObject) -> JsonObject:
    """The request with what is found in it replaced; the very object where nothing is. Raises Withheld."""
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
            listed = contents if isinstance(contents, list) else [contents]
            new = _with_turns(redaction, new, field, listed, "prompts")
    return new


def newest(request: JsonObject) -> JsonObject:
    """The request with nothing but what came since the model's last turn, and all beside the turns.

    Turns of the model at the end are the client's words: the model has not answered since.
    """
    contents = read_list(request, "contents")
    answered = contents[: _end_of_answers(contents)]
    last = max((at for at, content in enumerate(answered) if _is_model(content)), default=-1)
    return {**request, "contents": contents[last + 1 :]}


def _end_of_answers(contents: list[Any]) -> int:
    """How many contents stand before those at the end that claim to be the model's."""
    return next((at for at in range(len(contents), 0, -1) if not _is_model(contents[at - 1])), 0)


def _with_turns(
    redaction: Redaction, request: JsonObject, field: str, contents: list[Any], scope: Scope
) -> JsonObject:
    """The request with a field that holds contents, or one of them, redacted."""
    end = _end_of_answers(contents)
    new = [
        content
        for model, run in groupby(contents[:end], key=_is_model)
        for content in _run(redaction, list(run), "answers" if model else scope)
    ]
    new += _run(redaction, contents[end:], scope)
    if all(a is b for a, b in zip(new, contents, strict=True)):
        return request
    return write(request, field, new if isinstance(read(request, field), list) else new[0])


def _is_model(content: Any) -> bool:
    """Whether the model said it. Some agents send the results of tools under its role."""
    if not isinstance(content, dict) or content.get("role") != "model":
        return False
    parts = read_list(content, "parts")
    return not any(isinstance(part, dict) and read(part, "functionResponse") is not None for part in parts)


def _run(redaction: Redaction, contents: list[Any], scope: Scope) -> list[Any]:
    """Contents of one speaker, one after another: their texts are read as one.

    Clients that stream keep a turn as several contents, one for each event.
    """
    texts: Texts = {}
    parts = list(_parts(contents))
    for thinks in (False, True):
        if ("thoughts" if thinks else scope) in redaction.scopes:
            pieces = [
                (place, part["text"])
                for place, part in parts
                if is_text(part) and bool(part.get("thought")) is thinks
            ]
            texts |= _redacted(redaction, pieces)
    if "tool_arguments" in redaction.scopes:
        for pieces in _arguments(parts):
            texts |= _redacted(redaction, pieces)
    return [_content(redaction, content, scope, at, texts) for at, content in enumerate(contents)]


def _parts(contents: list[Any]) -> Iterator[tuple[Place, JsonObject]]:
    for at, content in enumerate(contents):
        for number, part in enumerate(read_list(content, "parts") if isinstance(content, dict) else ()):
            if isinstance(part, dict):
                yield (at, number, -1), part


def _arguments(parts: list[tuple[Place, JsonObject]]) -> Iterator[list[tuple[Place, str]]]:
    """The strings that calls hold in pieces, as some clients keep a stream: all of one argument together."""
    opened: dict[str, list[tuple[Place, str]]] = {}
    for (at, number, _), part in parts:
        if not isinstance(call := read(part, "functionCall"), dict):
            continue
        for k, piece in enumerate(read_list(call, "partialArgs")):
            if isinstance(piece, dict) and isinstance(value := read(piece, "stringValue"), str):
                opened.setdefault(str(read(piece, "jsonPath")), []).append(((at, number, k), value))
        if not read(call, "willContinue"):
            yield from opened.values()
            opened = {}
    yield from opened.values()


def _redacted(redaction: Redaction, pieces: list[tuple[Place, str]]) -> Texts:
    """One text that stands in pieces in several places.

    Each is looked through by itself as well: what stands next to it may hide where a secret begins or ends.
    """
    whole = "".join(text for _, text in pieces)
    if redaction.is_clean(whole) and (len(pieces) == 1 or all(redaction.is_clean(t) for _, t in pieces)):
        return {}
    texts = {place: "" for place, _ in pieces}

    def put(place: Place, text: str) -> None:
        texts[place] += text

    strand = redaction.strand(put)
    for place, text in pieces:
        strand.feed(place, text)
    strand.finish()
    if len(pieces) == 1:
        return texts
    return {place: redaction.piece(text) for place, text in texts.items()}


def _content(redaction: Redaction, content: Any, scope: Scope, at: int, texts: Texts) -> Any:
    """A content with these texts in their places, and all else of it redacted."""
    content = redacted_fields(redaction, content, scope, CONTENT)
    if not isinstance(content, dict) or read(content, "parts") is None:
        return content
    parts = read_list(content, "parts")
    new = [_part(redaction, part, scope, (at, number), texts) for number, part in enumerate(parts)]
    unchanged = all(a is b for a, b in zip(new, parts, strict=True))
    return content if unchanged else write(content, "parts", new)


def _part(redaction: Redaction, part: Any, scope: Scope, at: tuple[int, int], texts: Texts) -> Any:
    if not isinstance(part, dict):  # not what the API documents, but it would go on all the same
        return redaction.value(part) if scope in redaction.scopes else part
    redacted = redacted_part(redaction, part, scope)
    if not texts:
        return redacted
    redacted = _with_arguments(redacted, at, texts)
    text = texts.get((*at, -1))
    return redacted if text is None or text == part["text"] else {**redacted, "text": text}


def _with_arguments(part: JsonObject, at: tuple[int, int], texts: Texts) -> JsonObject:
    """The part with these strings in the pieces of its call's arguments."""
    call = read_object(part, "functionCall")
    pieces = read_list(call, "partialArgs")
    new = []
    for number, piece in enumerate(pieces):
        text = texts.get((*at, number))
        same = text is None or text == read(piece, "stringValue")
        new.append(piece if same else write(piece, "stringValue", text))
    if all(a is b for a, b in zip(new, pieces, strict=True)):
        return part
    return write(part, "functionCall", write(call, "partialArgs", new))
