"""All strings of a JSON value, keys among them: listed, and put back. Pure."""

from collections.abc import Iterator
from typing import Any


def strings_in(value: Any) -> Iterator[str]:
    """Each string of the value, in order; a key comes before what it holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def with_strings(value: Any, strings: Iterator[str]) -> Any:
    """The value with as many strings taken from the iterator as it holds itself."""
    if isinstance(value, str):
        return next(strings)
    if isinstance(value, dict):
        return {next(strings): with_strings(item, strings) for item in value.values()}
    if isinstance(value, list):
        return [with_strings(item, strings) for item in value]
    return value
