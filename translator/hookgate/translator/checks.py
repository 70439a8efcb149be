"""Checks that refuse bodies which a hook and the API could interpret differently."""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    TooLargeError,
    camel,
    indexes,
    parts_of,
    read,
    read_list,
    read_object,
    snake,
    without,
)
from hookgate.translator.hosted_calls import KNOWN_KINDS

_FREE = frozenset(
    {
        "args",
        "const",
        "customConfigs",
        "custom_configs",
        "default",
        "enum",
        "example",
        "examples",
        "labels",
        "metadata",
        "partMetadata",
        "part_metadata",
        "userMetadata",
        "user_metadata",
    }
)
"""Fields that contain free-form JSON wherever they occur in the API."""

_RESULTS = frozenset({"functionResponse", "function_response", "toolResponse", "tool_response"})
"""Objects whose `response` is free-form JSON. The `response` of a function declaration is a schema."""

_MAPS = frozenset(
    {"$defs", "defs", "definitions", "dependentSchemas", "headers", "patternProperties", "properties"}
)
"""Fields that contain objects by names which the caller has chosen."""

_BLOBS = frozenset({"inlineData", "inline_data"})

_SPECIAL = _FREE | _RESULTS | _MAPS | _BLOBS

_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE = _STANDARD[:-2] + b"-_"
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_SLICE = 256 * 1024
_WHITE_SPACE = b" \t\r\n"


def make_canonical(document: JsonObject) -> JsonObject:
    """Return an API document that can be interpreted in only one way; the same object if it already can.

    Inline data that contains white space, or has no padding, becomes canonical base64, so that hooks inspect
    what every decoder reads.

    Raises BodyError if an object contains a field in two spellings, or if inline data is not base64 or could
    be decoded differently.
    """
    written: dict[int, str] = {}
    _check(document, "", written)
    return with_data(document, written)


def _check(value: Any, path: str, written: dict[int, str]) -> None:
    """Check a value recursively. `written` gets what `_note_data` notes of its inline data."""
    try:
        if isinstance(value, dict):
            _check_object(value, written)
        elif isinstance(value, list):
            _check_list(value, written)
    except BodyError as error:
        error.path = _joined(path, error.path)
        raise


def with_data(document: JsonObject, written: Mapping[int, str]) -> JsonObject:
    """Return a document with other `data` in the objects with these IDs; the same one if there are none."""
    return _with_data(document, written) if written else document


def _with_data(value: Any, written: Mapping[int, str]) -> Any:
    if isinstance(value, dict):
        new = {key: _with_data(item, written) for key, item in value.items()}
        return new | {"data": written[id(value)]} if id(value) in written else new
    return [_with_data(item, written) for item in value] if isinstance(value, list) else value


def _check_object(obj: JsonObject, written: dict[int, str]) -> None:
    # This loop is hot: it makes no function calls for values that are neither objects nor lists.
    spelled = False
    key = ""
    try:
        for key, item in obj.items():
            if "_" in key:
                spelled = True
            kind = type(item)
            if kind is dict:
                if key in _SPECIAL:
                    _check_special(key, item, written)
                else:
                    _check_object(item, written)
            elif kind is list and item and key not in _FREE:
                _check_list(item, written)
    except BodyError as error:
        error.path = _joined(key, error.path)
        raise
    if spelled:
        check_spellings(obj)


def _check_list(items: list[Any], written: dict[int, str]) -> None:
    place = 0
    try:
        for place, item in enumerate(items):  # noqa: B007  # the error contains it
            kind = type(item)
            if kind is dict:
                _check_object(item, written)
            elif kind is list:
                _check_list(item, written)
    except BodyError as error:
        error.path = _joined(f"[{place}]", error.path)
        raise


def _check_special(key: str, item: JsonObject, written: dict[int, str]) -> None:
    """Check an object that is a map, a tool's result or inline data."""
    if key in _MAPS:
        for name, value in item.items():
            _check(value, name, written)
    elif key in _RESULTS:
        _check_object({name: value for name, value in item.items() if name != "response"}, written)
    elif key in _BLOBS:
        _check_object(item, written)
        _note_data(item, written)


def check_spellings(obj: JsonObject, path: str = "") -> None:
    """Check a single object, not its values. Raises BodyError if it contains a field in two spellings."""
    seen: dict[str, str] = {}
    for key in obj:
        other = seen.setdefault(key.replace("_", "").lower(), key)
        if other != key:
            camel, snake = sorted((key, other), key=lambda name: "_" in name)
            message = f"the field is given twice, as {snake!r} and {camel!r}; send it once"
            raise BodyError(_joined(path, camel), message)


def _note_data(blob: JsonObject, written: dict[int, str]) -> None:
    """Note the canonical form of an object's `data` under the object's ID, unless it is in that form.

    Raises BodyError if two decoders could interpret the data differently.
    """
    data = blob.get("data")
    if data is None:
        return
    canonical = canonical_base64(data) if isinstance(data, str) else None
    if canonical is None:
        raise BodyError(
            "data",
            "it must be base64 as in RFC 4648: one alphabet, nothing behind the padding, no bits left over",
        )
    if canonical is not data:
        written[id(blob)] = canonical


def canonical_base64(text: str) -> str | None:
    """Return base64 as an encoder writes it, without white space and with padding; None if it is malformed.

    Returns the same object if it is canonical.
    """
    if is_canonical_base64(text):
        return text
    if not text.isascii():
        return None
    bare = text.encode().translate(None, delete=_WHITE_SPACE).decode()
    padded = bare if "=" in bare else bare + "=" * (-len(bare) % 4)
    return padded if is_canonical_base64(padded) else None


def is_canonical_base64(text: str) -> bool:
    """Return whether the text is what an encoder produces, in the standard or the URL-safe alphabet."""
    if len(text) % 4 or not text.isascii():
        return False
    if "-" in text or "_" in text:
        if "+" in text or "/" in text:
            return False
        alphabet = _URL_SAFE
    else:
        alphabet = _STANDARD
    # Slices take less than a millisecond each, so that other threads can run between them.
    slices = (text[start : start + _SLICE].encode() for start in range(0, len(text), _SLICE))
    padding = b"".join(piece.translate(None, delete=alphabet) for piece in slices)
    if padding not in (b"", b"=", b"==") or not text.endswith(padding.decode()):
        return False
    last = text[-4:].encode().translate(_TO_STANDARD)  # only the last group can have unused bits
    return b64encode(b64decode(last)) == last


def _joined(path: str, rest: str) -> str:
    return f"{path}{rest}" if not path or not rest or rest.startswith("[") else f"{path}.{rest}"


_ROLE = re.compile(r"[A-Za-z_]{0,32}")
_USUAL_ROLES = ("user", "model", None)


_TOOLS = frozenset(map(str.lower, ("tools", "functionDeclarations", *KNOWN_KINDS)))
"""The fields with tools, in lower case."""
_NOT_LETTERS = re.compile(r"[^a-z]+")


def _plain(name: str) -> str:
    """Return what all spellings of a name have in common."""
    return _NOT_LETTERS.sub("", name.lower())


class _Fields:
    """The names of the fields of an object that are read."""

    def __init__(self, *names: str) -> None:
        self._spellings = frozenset({*names, *map(snake, names)})
        self._names = {name.lower(): name for name in names}

    def check(self, obj: JsonObject, path: str) -> None:
        """Refuse a field that another parser could take for one that is read. Raises BodyError."""
        for key in obj.keys() - self._spellings:
            if name := self._names.get(_plain(key)):
                raise BodyError(_joined(path, key), f"the field must be spelled {name!r}")


_BODY = _Fields("cachedContent", "contents", "generationConfig", "systemInstruction", "toolConfig", "tools")
_CONTENT = _Fields("parts", "role")
_PART = _Fields(
    *("codeExecutionResult", "executableCode", "fileData", "functionCall", "functionResponse", "inlineData"),
    *("text", "thought", "thoughtSignature", "toolCall", "toolResponse"),
)
_IN_PART = {
    "fileData": _Fields("fileUri", "mimeType"),
    "functionCall": _Fields("args", "name", "partialArgs"),
    "functionResponse": _Fields("name", "parts", "response"),
    "inlineData": _Fields("data", "mimeType"),
}
_TOOL = _Fields("functionDeclarations", *KNOWN_KINDS)
_IN_PART |= {snake(name): fields for name, fields in _IN_PART.items()}


_NO_FIELDS: Mapping[str, Any] = {}


def check_request(given: Any, known: int = 0, known_fields: Mapping[str, Any] = _NO_FIELDS) -> JsonObject:
    """Return the body, made canonical, if it can be interpreted in only one way. Raises BodyError.

    The first `known` turns, and the values of `known_fields`, were returned unchanged by an earlier check.

    A body is refused if it contains a field in two spellings, one that is read in another spelling, inline
    data that decoders could interpret differently, or values of the wrong type, which hooks would not see.
    See `make_canonical`.
    """
    if not isinstance(given, dict):
        raise BodyError("", "the body must be a JSON object")
    if known and _is_canonical_beside(given, known, known_fields):
        return given
    _BODY.check(given, "")
    body = make_canonical(given)
    instruction, contents = read(body, "systemInstruction"), read(body, "contents")
    if instruction is not None:
        _check_content(instruction, "systemInstruction")
    if contents is not None and not isinstance(contents, list | dict):
        raise BodyError("contents", "the contents must be a list of {role, parts}")
    for i, content in enumerate(read_list(body, "contents")):
        _check_content(content, f"contents[{i}]")
        _check_results(content, f"contents[{i}]")
    for name in ("generationConfig", "toolConfig"):
        config = read(body, name)
        if not isinstance(config, dict | None):
            raise BodyError(name, "it must be an object, since hooks cannot inspect other types")
        for key in config or ():
            if _plain(key) in _TOOLS:
                raise BodyError(f"{name}.{key}", "put tools into 'tools', where hooks see them")
    if read(read_object(body, "generationConfig"), "routingConfig") is not None:
        raise BodyError(
            "generationConfig.routingConfig",
            "the API would choose another model than hooks are shown; omit it, and call the model itself",
        )
    if not isinstance(read(body, "tools"), list | dict | None):
        raise BodyError("tools", "the tools must be a list, since hooks cannot inspect other types")
    for i, tool in enumerate(read_list(body, "tools")):
        _check_tool(tool, f"tools[{i}]")
    return body


def _is_canonical_beside(given: JsonObject, known: int, known_fields: Mapping[str, Any]) -> bool:
    """Return whether the body is canonical beside its first turns and the values of some fields.

    Each of these is on its own. The names of fields may contradict each other.
    """
    unchecked = {name: None for name, value in known_fields.items() if given.get(name) is value}
    rest = {**given, **unchecked, "contents": given["contents"][known:]}
    try:
        return check_request(rest) is rest
    except BodyError:  # a check of the whole body raises it with the right index
        return False


def check_role(content: JsonObject, path: str) -> None:
    """Refuse a role that is not a name, since hooks would not see its content. Raises BodyError."""
    role = content.get("role")
    if role is not None and not (isinstance(role, str) and _ROLE.fullmatch(role)):
        raise BodyError(f"{path}.role" if path else "role", "a role must be a name, such as user or model")


def check_keys(obj: Any, path: str, known: Sequence[str]) -> JsonObject:
    """Return the object at `path` if all of its fields are `known`. Raises BodyError.

    Unknown fields are refused, since hooks would not see them. The error names the first.
    """
    if not isinstance(obj, dict):
        raise BodyError(path, "it must be an object")
    for key in obj:
        if camel(key) not in known:
            place = f"{path}.{key}" if path else key
            raise BodyError(place, f"hooks cannot inspect this field; known fields are {', '.join(known)}")
    return obj


MAX_CANDIDATES = 128
"""The maximum number of candidates of an answer. The texts of each are judged separately."""


def check_response(body: Any, most: int = MAX_CANDIDATES) -> JsonObject:
    """Return the response, or event of a stream, if its candidates are well-formed. Raises BodyError.

    Otherwise they could reach the client without being inspected, or be joined with another candidate's text,
    as clients do that expect only one. `most` is how many the request asks for. Unknown fields are allowed.
    """
    if not isinstance(body, dict):
        raise BodyError("", "the answer must be a JSON object")
    if not body.keys() <= _USUAL_FIELDS:
        check_spellings(body)
    candidates = body.get("candidates")
    if not isinstance(candidates, list | None):  # some clients read an object like a list of one
        raise BodyError("candidates", "the candidates must be a list")
    if candidates and len(candidates) > most:
        raise BodyError("candidates", _TOO_MANY.format(most))
    for i, candidate in enumerate(candidates or ()):
        try:
            _check_candidate(candidate, most)
        except BodyError as error:
            error.path = _joined(f"candidates[{i}]", error.path)
            raise
    if candidates and len(candidates) > 1 and len(set(indexes(candidates))) < len(candidates):
        raise BodyError("candidates", _SAME_INDEX)
    feedback = read(body, "promptFeedback")
    if (
        isinstance(feedback, dict)
        and any(camel(name) == "blockReason" for name in feedback)
        and _has_text(candidates)
    ):
        raise BodyError("promptFeedback.blockReason", _BLOCKED_TEXT)
    return body


def _has_text(candidates: Any) -> bool:
    return any(read(part, "text") for candidate in candidates or () for part in parts_of(candidate))


_BLOCKED_TEXT = "the prompt was blocked, but there is a text, which some clients show, and others do not"
_SAME_INDEX = "two candidates have the same index; some clients show the first one, others both"
_TOO_MANY = "the request asks for at most {}, so there must not be others"


def _check_candidate(candidate: Any, most: int) -> None:
    if not isinstance(candidate, dict):
        raise BodyError("", "a candidate must be an object")
    if not candidate.keys() <= _USUAL_FIELDS:
        check_spellings(candidate)
    index = candidate.get("index")
    if type(index) is not int and index is not None:
        raise BodyError("index", "an index must be an integer")
    if index and not 0 <= index < most:
        raise BodyError("index", _TOO_MANY.format(most))
    content = candidate.get("content")
    if content is None:
        return
    if type(content) is dict and content.keys() <= _PLAIN and content.get("role", "model") == "model":
        parts = content.get("parts")
        if type(parts) is list and len(parts) == 1:
            part = parts[0]
            text = part.get("text") if type(part) is dict and len(part) == 1 else None
            if type(text) is str and not text.startswith(_AUDIO):
                return  # a single text of the model, as in most events of a stream
    _check_content(content, "content")
    check_spellings(content, "content")
    if not isinstance(content.get("parts"), list | None):
        raise BodyError("content.parts", "the parts of an answer must be a list")
    for i, part in enumerate(read_list(content, "parts")):
        path = f"content.parts[{i}]"
        check_spellings(part, path)
        _check_call(read(part, "functionCall"), f"{path}.functionCall")
        text = read(part, "text")
        if text is not None and text.startswith(_AUDIO) and ";base64," in text:
            raise BodyError(f"{path}.text", _TEXT_AS_AUDIO)
        if text is not None and any(read(part, name) is not None for name in _DATA):
            raise BodyError(path, _SEVERAL_KINDS)


_DATA = (
    *("functionCall", "functionResponse", "inlineData", "fileData"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
_SEVERAL_KINDS = "a part has a text and other data, of which some clients show one, and others both"
_AUDIO = "data:audio"
_TEXT_AS_AUDIO = "a text is audio in a data URL, which some clients show as audio, and others as text"
_PLAIN = frozenset({"parts", "role"})
_USUAL_FIELDS = frozenset(
    {
        *("candidates", "createTime", "modelVersion", "responseId", "usageMetadata"),
        *("content", "finishReason", "index", "safetyRatings"),
    }
)
"""Fields of most answers and candidates, which have one spelling here."""


def _check_results(content: JsonObject, path: str) -> None:
    """Refuse a malformed tool result, which AfterTool hooks would not see."""
    for i, part in enumerate(read_list(content, "parts")):
        if not (result := read(part, "functionResponse")):
            continue
        if not isinstance(result, dict) or not isinstance(result.get("response"), dict | None):
            message = "a tool result must be an object {name, response}, and its response an object"
            raise BodyError(f"{path}.parts[{i}].functionResponse", message)


def _check_call(call: Any, path: str) -> None:
    """Refuse a malformed call, which would reach the client's tools without being inspected."""
    if call is None:
        return
    if not isinstance(call, dict):
        raise BodyError(path, "a function call must be an object {name, args}")
    if not isinstance(call.get("name"), str | None):
        raise BodyError(f"{path}.name", "the name of a function must be a string")
    if not isinstance(call.get("args"), dict | None):
        raise BodyError(f"{path}.args", "the arguments of a function must be an object")


def _check_content(content: Any, path: str) -> None:
    if not isinstance(content, dict):
        raise BodyError(path, "a content must be an object {role, parts}")
    if content.get("role") not in _USUAL_ROLES:
        check_role(content, path)
    parts = content.get("parts")
    if type(parts) is not list:  # the usual type is checked first
        if parts is not None and not isinstance(parts, dict):
            raise BodyError(f"{path}.parts", "the parts must be a list of objects")
        parts = read_list(content, "parts")
    _CONTENT.check(content, path)
    for i, part in enumerate(parts):
        if type(part) is not dict:
            raise BodyError(f"{path}.parts[{i}]", "a part must be an object")
        text = part.get("text")
        if text is None or len(part) > 1:
            _check_part_names(part, f"{path}.parts[{i}]")
        if type(text) is not str and text is not None:
            raise BodyError(
                f"{path}.parts[{i}].text", "a text must be a string, since hooks cannot inspect other types"
            )
        check_thought(part, f"{path}.parts[{i}]")


def _check_part_names(part: JsonObject, path: str) -> None:
    _PART.check(part, path)
    for key in part.keys() & _IN_PART.keys():
        if type(value := part[key]) is dict:
            _IN_PART[key].check(value, f"{path}.{key}")
            inner = value.get("parts")
            for i, each in enumerate(inner if type(inner) is list else ()):
                if type(each) is dict:
                    _check_part_names(each, f"{path}.{key}.parts[{i}]")


def check_thought(part: JsonObject, path: str) -> None:
    """Refuse a part that some readers take for a thought, and others for the answer. Raises BodyError."""
    if not isinstance(part.get("thought"), bool | None):
        raise BodyError(f"{path}.thought", "it must be true or false")


def _check_tool(tool: Any, path: str) -> None:
    """Refuse a tool with a function that has no name, which hooks could not select or remove.

    Hooks return functions as `{"name": …}`, so a tool of this form would be taken for a function, too.
    """
    if not isinstance(tool, dict):
        raise BodyError(path, "a tool must be an object")
    _TOOL.check(tool, path)
    if isinstance(tool.get("name"), str):
        raise BodyError(f"{path}.name", "a tool has no name; put functions into functionDeclarations")
    declared = read(tool, "functionDeclarations")
    if not isinstance(declared, list | dict | None):
        raise BodyError(f"{path}.functionDeclarations", "the declarations must be a list")
    for i, declaration in enumerate(read_list(tool, "functionDeclarations")):
        if not isinstance(declaration, dict) or not isinstance(declaration.get("name"), str):
            raise BodyError(
                f"{path}.functionDeclarations[{i}]", "a declaration must be an object with a name"
            )


# ---- the number of items

_ITEM_LISTS = frozenset(
    {
        "candidates",
        "choices",
        "content",
        "contents",
        "functionDeclarations",
        "function_declarations",
        "inlinedResponses",
        "inlined_responses",
        "input",
        "messages",
        "output",
        "parts",
        "requests",
        "result",
        "steps",
        "summary",
        "tool_calls",
        "tools",
    }
)
"""The fields with items that hookgate processes one by one. Lists in free-form JSON are values only."""

_ITEM_HOLDERS = frozenset(
    {
        "batch",
        "delta",
        "generateContentRequest",
        "generate_content_request",
        "inputConfig",
        "input_config",
        "llm_request",
        "llm_response",
        "message",
        "request",
        "response",
        "systemInstruction",
        "system_instruction",
    }
)
"""The fields with objects that may contain such lists."""

_ITEM_RESULTS = frozenset({"functionResponse", "function_response"})
"""Holders whose `response` is free-form JSON."""

_WITH_ITEMS = _ITEM_LISTS | _ITEM_HOLDERS | _ITEM_RESULTS
_WITH_ITEMS_OF_RESULT = _WITH_ITEMS - {"response"}

_Place = tuple[Any, ...]
"""The place of a value: that of its parent, and its key or index. An empty tuple is the body itself."""


def check_items(body: Any, most: int, advice: str) -> None:
    """Check the number of all items in a body, which cost more than their bytes.

    The body is walked in its own dialect, so that the error names a place that its sender knows. `advice`
    ends the message.

    Raises TooLargeError, which names the list with the first item that is too many.
    """
    if type(body) is dict and _exceeds_items(body, most):
        raise TooLargeError(
            _path(_place_beyond(body, most)), f"the body has more than {most} items; {advice}"
        )


def _exceeds_items(body: JsonObject, most: int) -> bool:
    level = [body]
    while level:
        below: list[JsonObject] = []
        for obj in level:
            if _WITH_ITEMS.isdisjoint(obj):  # most parts
                continue
            for _, items in _items_in(obj):
                if type(items) is list:
                    most -= len(items)
                    below += [item for item in items if type(item) is dict]
                else:
                    below.append(items)
            if most < 0:
                return True
        level = below
    return False


def _place_beyond(body: JsonObject, most: int) -> _Place:
    """Return the place of the list with the first item that is too many. One of them is."""
    level: list[tuple[_Place, JsonObject]] = [((), body)]
    while True:
        below: list[tuple[_Place, JsonObject]] = []
        for place, obj in level:
            for key, items in _items_in(obj):
                here = place, key
                if type(items) is list:
                    most -= len(items)
                    if most < 0:
                        return here
                    below += (((here, at), item) for at, item in enumerate(items) if type(item) is dict)
                else:
                    below.append((here, items))
        level = below


def _items_in(obj: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the lists of items in an object, and the objects in it that may have some, with their keys."""
    for key in obj.keys() & _WITH_ITEMS:
        value = obj[key]
        if type(value) is dict and key not in _ITEM_RESULTS:
            yield key, value
        elif type(value) is dict and not _WITH_ITEMS_OF_RESULT.isdisjoint(value):
            yield key, without(value, "response")
        elif type(value) is list and key in _ITEM_LISTS:
            yield key, value


def _path(place: _Place) -> str:
    steps = list(_steps(place))[::-1]
    return "".join(f"[{step}]" if type(step) is int else f".{step}" for step in steps).removeprefix(".")


def _steps(place: _Place) -> Iterator[str | int]:
    while place:
        place, step = place
        yield step


def check_prototypes(data: bytes, value: Any) -> None:
    """Refuse keys that could change objects of JavaScript, whose clients leave out an event with them.

    `data` is the JSON of the value. Raises BodyError.
    """
    if not (b"\\u" in data or b"__proto__" in data or b"constructor" in data):
        return
    level = [value]
    while level:
        below: list[Any] = []
        for item in level:
            if type(item) is list:
                below += item
            elif type(item) is dict:
                inner = item.get("constructor")
                if "__proto__" in item or (type(inner) is dict and "prototype" in inner):
                    raise BodyError("", "it has the key '__proto__', or 'prototype' in 'constructor'")
                below += item.values()
        level = below
