"""Reads and writes the fields and texts of REST bodies, in camelCase or snake_case. It does no I/O."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any


class TranslatorError(ValueError):
    """The base class of the translator's errors. `path` names the field: `contents[2].parts[0].text`."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(path, message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class BodyError(TranslatorError):
    """A body is refused, because two readers could interpret it differently."""

    status = 400
    """The HTTP status with which a server refuses such a body."""


class TooLargeError(BodyError):
    """A body is too large to be parsed."""

    status = 413


class EditError(TranslatorError):
    """A hook's edit cannot be applied. The body is unchanged."""

    def __init__(self, path: str, expected: str, got: object) -> None:
        super().__init__(path, f"expected {expected}, got {_describe(got)}")


def _describe(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


JsonObject = dict[str, Any]

EARLIER = "earlierEvents"
"""The field of joined events with what they do not show of the events: fields that a later event has, too."""


def is_larger(value: Any, size: int, per_value: int = 1) -> bool:
    """Return whether a JSON value is larger than `size`: its characters, and `per_value` for each value.

    The result for a very large value takes no longer than for one of this size.
    """
    return remaining_size(size, value, per_value) < 0


def remaining_size(size: int, value: Any, per_value: int = 1) -> int:
    """Return what a JSON value leaves of `size`, as in `is_larger`: a negative number if it is larger."""
    left, level = size, [value]
    while level:
        left -= per_value * len(level)
        if left < 0:
            return left
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                left -= len(item)
            elif kind is dict:
                left -= sum(map(len, item))
                below += item.values()
            elif kind is list:
                below += item
        level = below
    return left


def same_items(new: Sequence[object], old: Sequence[object]) -> bool:
    """Return whether two lists contain the same objects by identity, so that nothing in them was changed."""
    return len(new) == len(old) and all(map(is_, new, old))


_LONGEST_NAME = 64
"""Longer names are not fields of the APIs. They are not converted, so that no cache keeps them."""

_CACHED_NAMES = 4096


@lru_cache(_CACHED_NAMES)
def snake(name: str) -> str:
    """Convert a name to snake_case: `maxOutputTokens` becomes `max_output_tokens`.

    For names of a body, use `snake_field`, since the cache keeps all names.
    """
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def snake_field(name: str) -> str:
    """Convert a name that comes from a body to snake_case. Long names are returned unchanged."""
    return snake(name) if len(name) <= _LONGEST_NAME else name


def camel(name: str) -> str:
    """Convert a name to camelCase: `max_output_tokens` becomes `maxOutputTokens`.

    Names that cannot be converted back, such as `odd_1`, and long ones are returned unchanged.
    """
    return _camel(name) if len(name) <= _LONGEST_NAME else name


@lru_cache(_CACHED_NAMES)
def _camel(name: str) -> str:
    head, *tail = name.split("_")
    other = head + "".join(word[:1].upper() + word[1:] for word in tail)
    return other if snake(other) == name else name


def spelling(obj: Mapping[str, Any], name: str) -> str:
    """Return the spelling of the field in `obj`, or its camelCase name if it is missing."""
    if name in obj:
        return name
    other = snake(name)
    return other if other in obj else name


def read(obj: Mapping[str, Any], name: str) -> Any:
    """Return the field's value, or None if it is missing. The API treats null as absent."""
    value = obj.get(name)
    return value if value is not None else obj.get(snake(name))


def read_object(obj: Mapping[str, Any], name: str) -> JsonObject:
    """Return the field's value if it is an object, or else an empty one."""
    value = read(obj, name)
    return value if isinstance(value, dict) else {}


def read_list(obj: Mapping[str, Any], name: str) -> list[Any]:
    """Return the field's items. As in the API, a single object is the same as a list of one."""
    value = read(obj, name)
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else []


def indexes(candidates: Sequence[JsonObject]) -> list[int]:
    """Return the index of each candidate of an event. The default is the candidate's position.

    If other candidates have an index other than 0, a missing index is 0: some upstreams omit zeros.
    """
    result = [read(candidate, "index") for candidate in candidates]
    explicit = {index for index in result if index is not None}
    for position, index in enumerate(result):
        if index is None:
            result[position] = 0 if explicit and 0 not in explicit else position
            explicit |= {0} if explicit else set()
    return result


def write(obj: JsonObject, name: str, value: Any) -> JsonObject:
    """Return a copy of `obj` with the field set, in its existing position and spelling."""
    return {**obj, spelling(obj, name): value}


def renamed(obj: JsonObject, names: Mapping[str, str], path: str) -> JsonObject:
    """Return an object with other names for some of its fields.

    Raises BodyError, with the path of the object, if two fields would have the same name: one would hide the
    other from hooks.
    """
    new = {names.get(key, key): value for key, value in obj.items()}
    if len(new) < len(obj):
        hidden = next(key for key in obj if key not in names and key in names.values())
        raise BodyError(f"{path}.{hidden}", "the API has no such field, and hooks would take it for another")
    return new


def without(obj: JsonObject, name: str) -> JsonObject:
    """Return a copy of `obj` without the field, or `obj` itself if the field is missing."""
    spelled = spelling(obj, name)
    return {key: value for key, value in obj.items() if key != spelled} if spelled in obj else obj


def same(a: Any, b: Any) -> bool:
    """Compare JSON values: 1 equals 1.0, which JavaScript does not distinguish, but true does not equal 1."""
    if a is b:
        return True
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def strings_in(value: Any) -> Iterator[str]:
    """Yield all strings of the value in order, including keys, each before its value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def is_text(part: Any) -> bool:
    """Return whether a part has text. Thoughts are text with a flag."""
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def has_part(content: Any, field: str) -> bool:
    """Return whether a content has a part with the field, such as `functionResponse`."""
    parts = read_list(content, "parts") if isinstance(content, dict) else []
    return any(isinstance(part, dict) and read(part, field) is not None for part in parts)


def texts_of(content: JsonObject) -> list[str]:
    """Return the texts of all text parts, in order."""
    parts = content.get("parts")
    if type(parts) is not list:  # this function is hot, so the usual type is checked first
        parts = read_list(content, "parts")
    return [part["text"] for part in parts if type(part) is dict and type(part.get("text")) is str]


def parts_of(candidate: JsonObject) -> list[Any]:
    """Return the parts of a candidate's content."""
    content = candidate.get("content")
    parts = content.get("parts") if type(content) is dict else None
    if type(parts) is list:  # this function is hot, so the usual types are checked first
        return parts
    return read_list(read_object(candidate, "content"), "parts")


def joined_text(content: JsonObject) -> str:
    """Return the joined text of a content."""
    return "".join(texts_of(content))


def joined_texts(contents: Sequence[Any]) -> list[str]:
    """Return the joined text of each content. This loop is hot, so the usual case makes no function calls."""
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
    """Return a copy of `content` with `texts` in its text parts; other parts and fields are unchanged.

    Additional texts become new parts after the last text part. Text parts without a text are removed, unless
    they have other fields, such as a signature: those get an empty text.
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
    # A single part object, which means a list of one, is kept as an object.
    single = isinstance(content.get("parts"), dict) and len(new) == 1
    return write(content, "parts", new[0] if single else new)


def without_texts(content: JsonObject) -> JsonObject:
    """Return a copy of `content` without its text; other parts and fields are unchanged."""
    bare = [part for part in read_list(content, "parts") if not is_text(part)]
    return with_texts(content, []) if bare else without(content, "parts")
