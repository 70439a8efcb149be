"""What clients send to the API, in one form: equal for all spellings of the same. Pure."""

import json
from hashlib import sha256
from typing import Any

from hookgate.translator.fields import camel

_MAPS = frozenset({"properties", "patternProperties", "$defs", "defs", "definitions"})
"""Fields whose keys are names that the caller gives, to values in the API's own words."""

_CALLERS = frozenset(
    {"args", "response", "parametersJsonSchema", "responseJsonSchema", "default", "example", "enum", "const"}
)
"""Fields whose value is the caller's as a whole."""


def canonical(value: Any) -> Any:
    """The value with its fields in camelCase, without nulls, and with whole numbers as integers.

    Names that the caller gives stay as they are: those of a schema's properties, and all there is in
    arguments and results. A field that is there in both spellings stays in both: neither hides the other.
    """
    if isinstance(value, dict):
        return {
            (name := _name(value, key)): _field(name, item) for key, item in value.items() if item is not None
        }
    return _plain(value, canonical)


def digest(value: Any) -> str:
    """The SHA-256 of a canonical value, in 64 hexadecimal digits, whatever the order of its keys."""
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _name(holder: dict[str, Any], key: str) -> str:
    name = camel(key)
    return key if name in holder else name


def _field(name: str, value: Any) -> Any:
    if name in _MAPS and isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    return _verbatim(value) if name in _CALLERS else canonical(value)


def _verbatim(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _verbatim(item) for key, item in value.items()}
    return _plain(value, _verbatim)


def _plain(value: Any, item: Any) -> Any:
    """What is no object."""
    if isinstance(value, list):
        return [item(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
