"""Bodies with a secret in each text field that google-genai's own types have."""

import functools
import inspect
import re
import types as python_types
import typing
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel
from support.places import DOCS

from hookgate.translator.fields import camel

T = TypeVar("T")

SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
"""It is base64 as well, of bytes that are no text."""

_PAGE = DOCS / "redaction-scope.md"


def leaves(annotation: Any, within: tuple[type, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each text field of a type, as its path and a value of the type with the secret in this field alone.

    Names are in snake_case, as in Python. A type is not entered again within itself.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, python_types.UnionType):
        for kind in arguments:
            yield from leaves(kind, within)
    elif origin is list:
        yield from ((f"[]{path}", [value]) for path, value in leaves(arguments[0], within))
    elif origin is dict:
        yield ".{key}", {SECRET: "x"}
        yield from ((f".x{path}", {"x": value}) for path, value in leaves(arguments[1], within))
    elif annotation is Any:
        yield from (("", SECRET), (".{key}", {SECRET: "x"}))
    elif inspect.isclass(annotation):
        yield from _leaves_of_class(annotation, within)


def _leaves_of_class(kind: type, within: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    if issubclass(kind, (str, bytes, Enum)):
        yield "", SECRET
    elif issubclass(kind, BaseModel) and kind not in within:
        for name, field in kind.model_fields.items():
            for path, value in leaves(field.annotation, (*within, kind)):
                yield f".{name}{path}", {name: value}


def merged(one: Any, other: Any) -> Any:
    """Both values in one: fields side by side, and the items of lists one after the other.

    Raises ValueError if that is not possible.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        both = dict(one)
        for key, value in other.items():
            both[key] = merged(both[key], value) if key in both else value
        return both
    if isinstance(one, list) and isinstance(other, list):
        return one + [item for item in other if item not in one]
    if one != other:
        raise ValueError("these values are alternatives")
    return one


async def refused_alone(items: Sequence[T], accepted: Callable[[Sequence[T]], Awaitable[bool]]) -> list[T]:
    """Those of the items that are refused by themselves. `accepted` tries several at once."""
    if not items or await accepted(items):
        return []
    if len(items) == 1:
        return [*items]
    half = len(items) // 2
    return [*await refused_alone(items[:half], accepted), *await refused_alone(items[half:], accepted)]


@functools.cache
def documented() -> frozenset[str]:
    """The fields that the docs say pass unseen, by how their paths end."""
    [table] = re.findall(r"## What is not scanned\n.*?\n(\| field.*?)\n\n", _PAGE.read_text(), re.DOTALL)
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    return frozenset(path for row in rows for path in re.findall("`([^`]+)`", row))


def left(value: Any, path: str = "") -> Iterator[str]:
    """Where the secret is left."""
    if isinstance(value, dict):
        for name, item in value.items():
            if SECRET in name:
                yield f"{path}.{{key}}"
            yield from left(item, f"{path}.{camel(name)}")
    elif isinstance(value, list):
        for item in value:
            yield from left(item, f"{path}[]")
    elif SECRET in str(value):
        yield path


def undocumented(value: Any) -> list[str]:
    return [path for path in left(value) if not path.endswith(tuple(f".{name}" for name in documented()))]
