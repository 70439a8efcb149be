"""The results of tools: their texts, and the whole values of their fields.

Whoever writes a text that a tool returns chooses what stands inside it, but the tool chooses its fields: only
in a result that is JSON or YAML as a whole is a value a field's.
"""

from collections.abc import Iterator
from typing import Any

from hookgate.hooks.policies.flows.block_yaml import NotYaml, read_block_yaml
from hookgate.hooks.policies.options import Names, is_named
from hookgate.hooks.policies.tool_results import json_in, looks_like_json

_WRAPPERS = ("output", "result", "content", "text")


def structure_of(response: Any) -> Any:
    """Return the result of a tool that returns fields: JSON or YAML in its only text is read."""
    text = _only_text(response)
    if text is None:
        return response
    if looks_like_json(text):
        structure = json_in(text)
        return text if structure is None else structure
    try:
        return read_block_yaml(text)
    except NotYaml:
        return text


def _only_text(value: Any) -> str | None:
    """Return the text of a result that has nothing else, in the usual wrappers."""
    for _ in range(4):
        if isinstance(value, dict):
            members = {key: member for key, member in value.items() if member and key != "type"}
            if len(members) != 1 or (key := next(iter(members))) not in (*_WRAPPERS, "llmContent"):
                return None
            value = members[key]
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        else:
            break
    return value if isinstance(value, str) else None


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in a result, those of its keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from texts_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from texts_in(member)
    elif _is_number(value):
        yield str(value)


_ITEMS = "items"


def field_values(structure: Any, fields: Names) -> Iterator[str]:
    """Yield the whole values of fields with these names: texts, numbers, and keys of objects in them.

    The items of a result that is a list are in a field `items`.
    """
    is_list = isinstance(structure, list) and is_named(fields, _ITEMS)
    yield from _values(structure, fields, listed=False)
    yield from (str(item) for item in structure if is_list and isinstance(item, str | int))


def _values(value: Any, fields: Names, *, listed: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if listed:
                yield key
            yield from _values(member, fields, listed=listed or is_named(fields, key))
    elif isinstance(value, list):
        for member in value:
            yield from _values(member, fields, listed=listed)
    elif listed and isinstance(value, str):
        yield value
    elif listed and _is_number(value):
        yield str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
