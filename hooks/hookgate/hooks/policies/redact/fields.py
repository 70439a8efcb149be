"""Redacts a request: consecutive texts of one speaker as one text, every other string separately.

Fields of JSON objects are redacted by handlers; those without a handler of their own, string by string.
"""

import re
from binascii import Error
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from hookgate.hooks.policies.redact.redaction import CleanCheck, Redaction
from hookgate.hooks.policies.redact.report import Key
from hookgate.hooks.policies.speakers import (
    PART_SCOPES,
    Scope,
    end_of_answers,
    is_model_turn,
    last_model_turn,
)
from hookgate.translator.fields import (
    JsonObject,
    camel,
    is_text,
    read,
    read_list,
    read_object,
    same_items,
    without,
    write,
)
from hookgate.translator.text_files import ASCII_RUN, decode_text_file, encode_base64, is_wide, text_in

_FOREIGN = re.compile(r"[^A-Za-z0-9+/=_\r\n-]")
"""Characters that are not base64, although some decoders skip them."""

_EXAMINED = 4096
"""The number of characters in which these are looked for."""


def redacted_data(redaction: Redaction, data: Any, media_type: str = "") -> Any:
    """Redact a field of bytes in base64 if they are text. Returns the same object if nothing is found.

    Data that is not base64 is redacted as a string. Raises Withheld.
    """
    if not isinstance(data, str):
        return redaction.value(data)
    if _FOREIGN.search(data, 0, _EXAMINED):
        data = redaction.value(data)
    try:
        found = decode_text_file(data, media_type)
    except Error:
        return redaction.value(data)
    return data if found is None else _redacted_text(redaction, data, *found)


def _redacted_text(redaction: Redaction, data: str, raw: bytes, encoding: str) -> str:
    width = {"utf-16": 2, "utf-32": 4}.get(encoding[:6], 1)
    end = len(raw) - len(raw) % width  # an incomplete last character is kept
    errors = "surrogateescape" if width == 1 else "surrogatepass"
    try:
        text = text_in(raw[:end], encoding, errors)
    except UnicodeDecodeError:  # not text in this encoding; in most others, secrets are ASCII
        width, end, encoding, errors = 1, len(raw), "utf-8", "surrogateescape"
        text = text_in(raw, encoding, errors)
    new = redaction.text(text)
    new_raw = raw if new == text else new.encode(encoding, errors) + raw[end:]
    if is_wide(encoding):
        new_raw = ASCII_RUN.sub(lambda run: redaction.text(run[0].decode()).encode(), new_raw)
    return data if new_raw == raw else encode_base64(new_raw)


Handler = Callable[[Redaction, Any, Scope], Any]
"""Returns the new value of a field, or the same object if nothing is found. May raise Withheld."""


def redacted_fields(redaction: Redaction, obj: Any, scope: Scope, handlers: Mapping[str, Handler]) -> Any:
    """Redact the fields of an object and their names. `handlers` has handlers by field name in camelCase.

    A value that is not an object is redacted as a value. Returns the same object if nothing is found. Raises
    Withheld.
    """
    if not isinstance(obj, dict):
        return redaction.value(obj) if scope in redaction.scopes else obj
    handled: JsonObject = {}
    rest: JsonObject = {}
    for name, value in obj.items():
        handler = handlers.get(camel(name))
        if handler is None:
            rest[name] = value
        else:
            before = len(redaction.report)
            handled[name] = handler(redaction, value, scope)
            redaction.report.within(before, name)
    new = redaction.value(rest) if rest and scope in redaction.scopes else rest
    if new is rest and all(value is obj[name] for name, value in handled.items()):
        return obj
    renamed = dict(zip(rest, new.items(), strict=True))
    return dict((name, handled[name]) if name in handled else renamed[name] for name in obj)


def handled_by_caller(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """Handle a field that the caller redacts if it is a list or an object. Other values are redacted here."""
    return value if isinstance(value, list | dict) else _value(redaction, value, scope)


def _role(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return value if isinstance(value, str) and value in _ROLES else _value(redaction, value, scope)


def opaque(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """Handle bytes that the API expects back unchanged. They are redacted only if they are text."""
    return redacted_data(redaction, value) if scope in redaction.scopes else value


def redacted_part(redaction: Redaction, part: JsonObject, scope: Scope) -> JsonObject:
    """Redact a part, except for its text and the strings of partial arguments. Raises Withheld."""
    if len(part) == 1 and is_text(part):
        return part
    redacted: JsonObject = redacted_fields(redaction, part, scope, _PART)
    return redacted


def redacted_argument(redaction: Redaction, chunk: Any) -> Any:
    """Redact a chunk of partial arguments, except for its string, which is part of a longer text.

    The replacement of a number is a string.
    """
    if not isinstance(chunk, dict):  # not a documented format, but it would be forwarded
        return redaction.value(chunk)
    number, before = read(chunk, "numberValue"), len(redaction.report)
    new = redaction.value(number)
    redaction.report.within(before, "numberValue")
    if new is not number:
        chunk = write(without(chunk, "numberValue"), "stringValue", new)
    return redacted_fields(redaction, chunk, "tool_arguments", {"stringValue": _text})


def _text(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """Redact a `text` that is not a string, because it is not treated as text elsewhere."""
    return value if isinstance(value, str) or scope not in redaction.scopes else redaction.value(value)


def _call(redaction: Redaction, call: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, call, scope, {"partialArgs": each_item(redacted_argument)})


def _result(redaction: Redaction, result: Any, scope: Scope) -> Any:
    media = each_item(partial(_media_part, scope=scope))
    return redacted_fields(redaction, result, scope, {"parts": media})


def _media_part(redaction: Redaction, part: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, part, scope, {**_PART, "text": _value})


def _value(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redaction.value(value) if scope in redaction.scopes else value


def _within(scope: Scope, handler: Handler) -> Handler:
    """Return a handler of a value that always has this scope."""
    return lambda redaction, value, _: handler(redaction, value, scope)


def each_item(redact: Callable[[Redaction, Any], Any]) -> Handler:
    """Return a handler of a list, or of a single object in place of a list."""

    def redacted(redaction: Redaction, value: Any, scope: Scope) -> Any:
        if scope not in redaction.scopes:
            return value
        if not isinstance(value, list):
            return redact(redaction, value)
        items = []
        for at, item in enumerate(value):
            before = len(redaction.report)
            items.append(redact(redaction, item))
            redaction.report.within(before, at)
        return value if same_items(items, value) else items

    return redacted


def _file(redaction: Redaction, blob: Any, scope: Scope) -> Any:
    media_type = str(read(blob, "mimeType") or "") if isinstance(blob, dict) else ""

    def data(redaction: Redaction, value: Any, scope: Scope) -> Any:
        return redacted_data(redaction, value, media_type) if scope in redaction.scopes else value

    return redacted_fields(redaction, blob, scope, {"data": data})


_ROLES = frozenset({"user", "model", "function", "system"})
"""Roles, which a configured word must not change."""

CONTENT: Mapping[str, Handler] = {"parts": handled_by_caller, "role": _role}
"""The fields of a content that need their own handler."""

_CALLS_AND_RESULTS = {"functionCall": _call, "functionResponse": _result, "toolResponse": _result}

_PART: Mapping[str, Handler] = {
    "text": _text,
    "thoughtSignature": opaque,
    "inlineData": _file,
    **{name: _within(scope, _CALLS_AND_RESULTS.get(name, _value)) for name, scope in PART_SCOPES.items()},
}
"""The fields of a part that need their own handler, or that have another scope than the speaker's."""


_FIELDS: Mapping[str, Handler] = {
    "contents": handled_by_caller,
    "content": handled_by_caller,
    "systemInstruction": handled_by_caller,
    "continuationToken": opaque,
}
"""The fields of a request that need their own handler."""

TextPlace = tuple[int, int, int]
"""The place of a text: the indexes of its content and part, and of a chunk of arguments, or -1."""

Texts = dict[TextPlace, str]


def redacted_request(redaction: Redaction, request: JsonObject) -> JsonObject:
    """Return the request with findings replaced, or the same object if there are none. Raises Withheld.

    Parts that the redaction knows to be clean are not searched, and those that prove to be so are remembered.
    """
    check = CleanCheck(redaction)
    if check.is_clean_throughout(lambda survey: _redacted_request(survey, request)):
        check.known.remember()
        return request
    new = _redacted_request(redaction, request)
    redaction.known.remember()
    return new


def _redacted_request(redaction: Redaction, request: JsonObject) -> JsonObject:
    new = _with_rest(redaction, request)
    system = read(request, "systemInstruction")
    if system is not None:
        new = _with_turns(redaction, new, "systemInstruction", [system], "system")
    for field in ("contents", "content"):
        contents = read(request, field)
        if contents is not None:
            content_list = contents if isinstance(contents, list) else [contents]
            new = _with_turns(redaction, new, field, content_list, "prompts")
    return new


def _with_rest(redaction: Redaction, request: JsonObject) -> JsonObject:
    """Redact everything in the request but its turns."""
    rest = {
        name: value
        for name, value in request.items()
        if _FIELDS.get(camel(name)) is not handled_by_caller or not isinstance(value, list | dict)
    }

    def redact(rest: JsonObject) -> JsonObject:
        new: JsonObject = redacted_fields(redaction, request, "other", _FIELDS)
        return rest if new is request else new

    new = redaction.known.redacted("other", rest, redact)
    return request if new is rest else new


def newest(request: JsonObject) -> JsonObject:
    """Return the request without the turns up to the model's last one.

    Turns at the end that claim to be the model's are the client's, and are kept: the model has not answered
    them.
    """
    contents = read_list(request, "contents")
    return {**request, "contents": contents[last_model_turn(contents) + 1 :]}


def _with_turns(
    redaction: Redaction, request: JsonObject, field: str, contents: list[Any], scope: Scope
) -> JsonObject:
    """Redact a field of the request that has contents, or one content."""
    end, known = end_of_answers(contents), redaction.known
    first = _start_of_run(contents[:end], known.count_clean(scope, contents[:end]))
    runs: list[tuple[Scope, list[Any]]] = [
        ("answers" if model else scope, list(run))
        for model, run in groupby(contents[first:end], key=is_model_turn)
    ]
    if end < len(contents):
        runs.append((scope, contents[end:]))
    new = contents[:first]
    before, is_list = len(redaction.report), isinstance(read(request, field), list)
    for speaker, run in runs:
        redact = partial(_redacted_run, redaction, scope=speaker, first=len(new) if is_list else None)
        new += known.redacted(speaker, run, redact)
    redaction.report.within(before, field)
    if same_items(new, contents):
        known.note_clean(scope, contents[:end])
        return request
    return write(request, field, new if is_list else new[0])


def _start_of_run(contents: list[Any], at: int) -> int:
    """Return the index at which a speaker's contents begin that go on at an index; this one if none do."""
    while 0 < at < len(contents) and is_model_turn(contents[at - 1]) is is_model_turn(contents[at]):
        at -= 1
    return at


def _redacted_run(redaction: Redaction, contents: list[Any], *, scope: Scope, first: int | None) -> list[Any]:
    """Redact consecutive contents of one speaker, with their texts as one.

    Clients that stream may store a turn as several contents, one per event. `first` is the index of the first
    one in the request, or None if it is not in a list.
    """
    if redaction.may_join_values and (values := _plain_values(redaction, contents)) is not None:
        redaction.value(values)
        for joined in _joined_texts(contents):
            redaction.is_clean(joined)
        return contents
    texts: Texts = {}
    parts = list(_parts(contents))
    for thoughts in (False, True):
        if ("thoughts" if thoughts else scope) in redaction.scopes:
            chunks = [
                (place, part["text"])
                for place, part in parts
                if is_text(part) and bool(part.get("thought")) is thoughts
            ]
            texts |= _redacted_chunks(redaction, chunks, first)
    if "tool_arguments" in redaction.scopes:
        for chunks in _arguments(parts):
            texts |= _redacted_chunks(redaction, chunks, first)
    new = []
    for at, content in enumerate(contents):
        before = len(redaction.report)
        new.append(_content(redaction, content, scope, at, texts))
        redaction.report.within(before, *_index(first, at))
    return new


def _index(first: int | None, at: int) -> tuple[Key, ...]:
    """Return the path to a content of a run, see `_redacted_run`."""
    return () if first is None else (first + at,)


PLAIN_CONTENT = frozenset({"parts", "role"})
"""The fields that most contents have."""
_PLAIN_PART = frozenset({"text", "thought", "functionCall", "functionResponse", "thoughtSignature"})
_PARTIAL = frozenset({"partialArgs", "partial_args"})


def _plain_values(redaction: Redaction, contents: list[Any]) -> list[Any] | None:
    """Return JSON values with all strings of contents that are searched as they are.

    Signatures are searched here. Returns None if the contents have other fields than most: all of their
    fields need handlers then. Most requests repeat a long conversation in which there is nothing to find, and
    a search of such values takes a third of the time.
    """
    values: list[Any] = []
    for content in contents:
        if type(content) is not dict or not content.keys() <= PLAIN_CONTENT:
            return None
        role, parts = content.get("role"), content.get("parts")
        if type(parts) is not list or not (role is None or (type(role) is str and role in _ROLES)):
            return None
        for part in parts:
            if type(part) is not dict or not part.keys() <= _PLAIN_PART:
                return None
            call, result = part.get("functionCall"), part.get("functionResponse")
            in_chunks = type(call) is dict and call.keys() & _PARTIAL
            has_files = type(result) is dict and "parts" in result
            if in_chunks or has_files:
                return None
            if "thoughtSignature" in part:
                redacted_data(redaction, part["thoughtSignature"])
                values += [value for name, value in part.items() if name != "thoughtSignature"]
            else:
                values.append(part)
    return values


def _joined_texts(contents: list[Any]) -> Iterator[str]:
    """Yield the joined texts of plain contents, then the joined thoughts; one text alone is not yielded."""
    parts = [part for content in contents for part in content["parts"] if is_text(part)]
    for thoughts in (False, True):
        texts = [part["text"] for part in parts if bool(part.get("thought")) is thoughts]
        if len(texts) > 1:
            yield "".join(texts)


def _parts(contents: list[Any]) -> Iterator[tuple[TextPlace, JsonObject]]:
    for at, content in enumerate(contents):
        for number, part in enumerate(read_list(content, "parts") if isinstance(content, dict) else ()):
            if isinstance(part, dict):
                yield (at, number, -1), part


def _arguments(parts: list[tuple[TextPlace, JsonObject]]) -> Iterator[list[tuple[TextPlace, str]]]:
    """Yield the strings of partial arguments, all chunks of one argument together."""
    open_arguments: dict[str, list[tuple[TextPlace, str]]] = {}
    for (at, number, _), part in parts:
        if not isinstance(call := read(part, "functionCall"), dict):
            continue
        for k, chunk in enumerate(read_list(call, "partialArgs")):
            if isinstance(chunk, dict) and isinstance(value := read(chunk, "stringValue"), str):
                open_arguments.setdefault(str(read(chunk, "jsonPath")), []).append(((at, number, k), value))
        if not read(call, "willContinue"):
            yield from open_arguments.values()
            open_arguments = {}
    yield from open_arguments.values()


def _redacted_chunks(redaction: Redaction, chunks: list[tuple[TextPlace, str]], first: int | None) -> Texts:
    """Redact one text that is spread over several places.

    Each chunk is also searched separately, because adjacent chunks may hide the beginning or end of a secret.
    """
    whole = "".join(text for _, text in chunks)
    if redaction.is_clean(whole) and (len(chunks) == 1 or all(redaction.is_clean(t) for _, t in chunks)):
        return {}
    texts = {place: "" for place, _ in chunks}

    def put(place: TextPlace, text: str) -> None:
        texts[place] += text

    def path_of(place: TextPlace) -> tuple[Key, ...]:
        return *_index(first, place[0]), *path_in_content(*place[1:])

    chunked_text = redaction.chunked_text(put, path_of)
    for place, text in chunks:
        chunked_text.feed(place, text)
    chunked_text.finish()
    if len(chunks) > 1:
        for place, text in texts.items():
            before = len(redaction.report)
            texts[place] = redaction.chunk(text)
            redaction.report.within(before, *path_of(place))
    return texts


def path_in_content(part: int, chunk: int) -> tuple[Key, ...]:
    """Return the path to a text in a content: that of a part, or, if `chunk` is not -1, of its arguments."""
    if chunk < 0:
        return "parts", part, "text"
    return "parts", part, "functionCall", "partialArgs", chunk, "stringValue"


def _content(redaction: Redaction, content: Any, scope: Scope, at: int, texts: Texts) -> Any:
    """Return a content with these texts in their places, and everything else redacted."""
    content = redacted_fields(redaction, content, scope, CONTENT)
    if not isinstance(content, dict) or read(content, "parts") is None:
        return content
    parts = read_list(content, "parts")
    new = []
    for number, part in enumerate(parts):
        before = len(redaction.report)
        new.append(_part(redaction, part, scope, (at, number), texts))
        redaction.report.within(before, "parts", number)
    unchanged = same_items(new, parts)
    return content if unchanged else write(content, "parts", new)


def _part(redaction: Redaction, part: Any, scope: Scope, at: tuple[int, int], texts: Texts) -> Any:
    if not isinstance(part, dict):  # not a documented format, but it would be forwarded
        return redaction.value(part) if scope in redaction.scopes else part
    redacted = redacted_part(redaction, part, scope)
    if not texts:
        return redacted
    redacted = with_arguments(redacted, lambda number: texts.get((*at, number)))
    text = texts.get((*at, -1))
    return redacted if text is None or text == part["text"] else {**redacted, "text": text}


def with_arguments(part: JsonObject, text_of: Callable[[int], str | None]) -> JsonObject:
    """Return the part with other strings in its call's partial arguments.

    `text_of` returns the string of the chunk with this index, or None if it does not change.
    """
    call = read_object(part, "functionCall")
    chunks = read_list(call, "partialArgs")
    new: list[Any] = []
    for number, chunk in enumerate(chunks):
        text = text_of(number)
        same = text is None or text == read(chunk, "stringValue")
        new.append(chunk if same else write(chunk, "stringValue", text))
    if same_items(new, chunks):
        return part
    return write(part, "functionCall", write(call, "partialArgs", new))
