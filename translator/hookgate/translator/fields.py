"""Reading and writing REST fields in either spelling.

The API takes `systemInstruction` and `system_instruction` alike, and real clients mix both within one
body. Everything here is named in camelCase; a field that exists keeps the spelling it came in, a new one
is camelCase. Nothing here changes an object in place: a write returns a new one.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

JsonObject = dict[str, Any]


@cache
def snake(name: str) -> str:
    """`maxOutputTokens` -> `max_output_tokens`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


@lru_cache(maxsize=4096)  # bounded: these names come from outside
def camel(name: str) -> str:
    """`max_output_tokens` -> `maxOutputTokens`; other names, `odd_1` too, come back as they are."""
    head, *tail = name.split("_")
    other = head + "".join(word[:1].upper() + word[1:] for word in tail)
    return other if snake(other) == name else name


def spelling(obj: Mapping[str, Any], name: str) -> str:
    """The spelling in which `obj` holds the field, or camelCase when it does not."""
    if name in obj:
        return name
    other = snake(name)
    return other if other in obj else name


def read(obj: Mapping[str, Any], name: str) -> Any:
    """The field's value, or None. The API takes null for absent, so both read the same."""
    value = obj.get(name)
    return value if value is not None else obj.get(snake(name))


def read_object(obj: Mapping[str, Any], name: str) -> JsonObject:
    """The field's value if it is an object, else an empty one."""
    value = read(obj, name)
    return value if isinstance(value, dict) else {}


def read_list(obj: Mapping[str, Any], name: str) -> list[Any]:
    """The field's items; a single object stands for a list of one, as the API has it."""
    value = read(obj, name)
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else []


def indexes(candidates: Sequence[JsonObject]) -> list[int]:
    """The index of each candidate of one event. One without has that of its place.

    Beside others that name theirs it is 0, if that is none of them: some upstreams leave out what is 0.
    """
    found = [read(candidate, "index") for candidate in candidates]
    named = {index for index in found if index is not None}
    for place, index in enumerate(found):
        if index is None:
            found[place] = 0 if named and 0 not in named else place
            named |= {0} if named else set()
    return found


def write(obj: JsonObject, name: str, value: Any) -> JsonObject:
    """A copy of `obj` with the field set, in its place and spelling."""
    return {**obj, spelling(obj, name): value}


def without(obj: JsonObject, name: str) -> JsonObject:
    """A copy of `obj` without the field; `obj` itself when it has none."""
    gone = spelling(obj, name)
    return {key: value for key, value in obj.items() if key != gone} if gone in obj else obj


def same(a: Any, b: Any) -> bool:
    """JSON equality: 1 equals 1.0 (JavaScript hooks write one for the other), but true does not equal 1."""
    if a is b:
        return True
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
