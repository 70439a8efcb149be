"""Function calls whose arguments a stream contains in pieces: finds where they end, and makes them whole."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    indexes,
    parts_of,
    read,
    read_list,
    read_object,
    same_items,
    write,
)

_STEP = re.compile(r"""\.([^.\[\]'"\s]+)|\[(?:'([^'\\]*)'|"([^"\\]*)"|(0|[1-9][0-9]{0,5}))\]""")
_MAX_DEPTH = 64
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "stringValue": str,
    "numberValue": (int, float),
    "boolValue": bool,
}

_UNCLEAR = "the arguments of a function call cannot be put together"

_Path = tuple[str | int, ...]


class UnfinishedCalls:
    """Notes which candidates of a stream have a call that continues in a later event."""

    def __init__(self) -> None:
        self._indexes: set[int] = set()

    def note(self, body: JsonObject) -> bool:
        """Note an event. Returns whether a call continues after it."""
        candidates = read_list(body, "candidates")
        for index, candidate in zip(indexes(candidates), candidates, strict=True):
            for part in parts_of(candidate):
                if (call := _call(part)) is not None:
                    (self._indexes.add if read(call, "willContinue") else self._indexes.discard)(index)
        return bool(self._indexes)


def with_whole_calls(bodies: Sequence[JsonObject]) -> list[JsonObject]:
    """Return successive events with the calls in them made whole, each at the place of its first piece.

    All pieces of these calls must be in the events. An unchanged event is the same object. Raises BodyError
    if the arguments of a call cannot be assembled.
    """
    if len(bodies) == 1 and not any(map(_is_piece, _calls_of(bodies[0]))):
        return [*bodies]
    calls: list[_Pieces] = []
    latest: dict[int, _Pieces] = {}
    for number, body in enumerate(bodies):
        candidates = read_list(body, "candidates")
        for position, index in enumerate(indexes(candidates)):
            for place, part in enumerate(parts_of(candidates[position])):
                if (call := _call(part)) is None:
                    continue
                pieces = latest.get(index)
                if pieces is None or pieces.has_ended or call.get("name") is not None:
                    pieces = latest[index] = _Pieces()
                    calls.append(pieces)
                pieces.add((number, position, place), part, call)
    new = {place: part for pieces in calls for place, part in pieces.replacements().items()}
    changed = {number for number, _, _ in new}
    return [_replaced(body, number, new) if number in changed else body for number, body in enumerate(bodies)]


_Place = tuple[int, int, int]
"""The place of a part: the numbers of its event, its candidate and the part."""


class _Pieces:
    """The pieces of one call."""

    def __init__(self) -> None:
        self._places: list[_Place] = []
        self._parts: list[JsonObject] = []
        self._calls: list[JsonObject] = []
        self.has_ended = False

    def add(self, place: _Place, part: JsonObject, call: JsonObject) -> None:
        """Add a piece: a part, and the call in it."""
        self._places.append(place)
        self._parts.append(part)
        self._calls.append(call)
        self.has_ended = not read(call, "willContinue")

    def replacements(self) -> dict[_Place, JsonObject | None]:
        """Return the part with the whole call for the place of the first piece, and None for the others.

        Returns nothing if the call is whole already. Raises BodyError if it cannot be made whole.
        """
        begun, *others = self._calls
        if not others and not _is_piece(begun):
            return {}
        try:
            arguments = _assembled(self._calls)
        except ValueError as error:
            raise BodyError("functionCall.partialArgs", f"{_UNCLEAR}: {error}") from None
        kept = {key: value for key, value in begun.items() if key not in _OF_PIECES}
        beside: JsonObject = {}  # any piece may have the signature
        for part in reversed(self._parts):
            beside |= part
        whole = write({**self._parts[0], **beside}, "functionCall", {**kept, "args": arguments})
        return {self._places[0]: whole, **dict.fromkeys(self._places[1:])}


_OF_PIECES = frozenset({"willContinue", "will_continue", "partialArgs", "partial_args"})


def _assembled(calls: Sequence[JsonObject]) -> JsonObject:
    """Return the arguments of a call in pieces. Raises ValueError if they are not clear."""
    arguments: JsonObject = {}
    texts: dict[_Path, list[str]] = {}
    paths: dict[str, _Path] = {}
    for number, call in enumerate(calls):
        if number and call.keys() - _OF_PIECES - {"args", "id"}:
            raise ValueError("a further piece has other fields")
        for name, value in read_object(call, "args").items():
            _put(arguments, (name,), value)
        for piece in read_list(call, "partialArgs"):
            name, value = _read_piece(piece)
            if name.endswith("[]") and value is None:
                _put_empty_list(arguments, _read_path(name.removesuffix("[]")))
                continue
            path = paths[name] if name in paths else paths.setdefault(name, _read_path(name))
            if path in texts and isinstance(value, str):
                texts[path].append(value)
                continue
            if isinstance(value, str):
                texts[path] = [value]
            if value is not None or read(piece, "nullValue") is not None:
                _put(arguments, path, value)
    for path, pieces in texts.items():
        if len(pieces) > 1:
            _holder(arguments, path)[path[-1]] = "".join(pieces)
    return arguments


def _read_piece(piece: Any) -> tuple[str, Any]:
    """Return the JSONPath and the value of a piece. Raises ValueError."""
    if not isinstance(piece, dict):
        raise ValueError("a piece is not an object")
    values = [(name, value) for name in _TYPES if (value := read(piece, name)) is not None]
    if len(values) > 1:
        raise ValueError("a piece has several values")
    for name, value in values:
        if not isinstance(value, _TYPES[name]) or isinstance(value, bool) is not (name == "boolValue"):
            raise ValueError("a value has another type")
    path = read(piece, "jsonPath")
    if not isinstance(path, str):
        raise ValueError("a piece has no path")
    return path, values[0][1] if values else None


def _read_path(path: str) -> _Path:
    """Return the names and positions in a JSONPath that consists of nothing else. Raises ValueError."""
    if not path.startswith("$"):
        raise ValueError("a path does not begin with the arguments")
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        if (found := _STEP.match(path, at)) is None or len(steps) == _MAX_DEPTH:
            raise ValueError("a path is not clear")
        name = next((group for group in found.groups()[:3] if group is not None), None)
        steps.append(int(found[4]) if name is None else name)
        at = found.end()
    if not steps or not isinstance(steps[0], str):
        raise ValueError("a path names no argument")
    return tuple(steps)


def _put(arguments: JsonObject, path: _Path, value: Any) -> None:
    """Set a value that is not set yet. Raises ValueError."""
    holder, last = _holder(arguments, path), path[-1]
    if isinstance(holder, list):
        if last != len(holder):
            raise ValueError("items are not in order")
        holder.append(value)
    elif last in holder:
        raise ValueError("an argument is set twice")
    else:
        holder[last] = value


def _put_empty_list(arguments: JsonObject, path: _Path) -> None:
    """Set a list without items, unless it has some: this piece is the end of a list. Raises ValueError."""
    holder, last = _holder(arguments, path), path[-1]
    is_set = last in holder if isinstance(holder, dict) else last == len(holder) - 1
    if not is_set:
        _put(arguments, path, [])
    elif not isinstance(holder[last], list):
        raise ValueError("the end of a list is that of something else")


def _holder(arguments: JsonObject, path: _Path) -> Any:
    """Return the object or list in which a path ends. It is made if it is missing. Raises ValueError."""
    at: Any = arguments
    for step, following in pairwise(path):
        if isinstance(at, list) and step == len(at):
            at.append({} if isinstance(following, str) else [])
        elif isinstance(at, dict) and step not in at:
            at[step] = {} if isinstance(following, str) else []
        elif isinstance(at, list) and isinstance(step, int) and step > len(at):
            raise ValueError("items are not in order")
        at = at[step]
        if not isinstance(at, dict if isinstance(following, str) else list):
            raise ValueError("a path leads through a value")
    return at


def _replaced(body: JsonObject, number: int, new: dict[_Place, JsonObject | None]) -> JsonObject:
    candidates = []
    for position, candidate in enumerate(read_list(body, "candidates")):
        parts = []
        for place, part in enumerate(parts_of(candidate)):
            replaced = new.get((number, position, place), part)
            if replaced is not None:
                parts.append(replaced)
        unchanged = same_items(parts, parts_of(candidate))
        content = read_object(candidate, "content")
        candidates.append(
            candidate
            if unchanged
            else write(candidate, "content", write(content, "parts", parts or [{"text": ""}]))
        )
    return write(body, "candidates", candidates)


def _calls_of(body: JsonObject) -> Iterator[JsonObject]:
    """Yield each function call of an event, or piece of one."""
    for candidate in read_list(body, "candidates"):
        for part in parts_of(candidate):
            if (call := _call(part)) is not None:
                yield call


def _is_piece(call: JsonObject) -> bool:
    """Return whether this is a call with pieces of its arguments, or with more of them to come."""
    return read(call, "partialArgs") is not None or bool(read(call, "willContinue"))


def _call(part: JsonObject) -> JsonObject | None:
    call = read(part, "functionCall")
    return call if isinstance(call, dict) else None
