"""The canonical form of what clients send to the API: equal for equivalent spellings. It does no I/O."""

import json
from hashlib import sha256
from typing import Any

from hookgate.translator.fields import camel

_MAP_FIELDS = frozenset({"properties", "patternProperties", "$defs", "defs", "definitions"})
"""Fields that are objects whose keys are the caller's names and whose values have the API's fields."""

_CALLER_FIELDS = frozenset(
    {"args", "response", "parametersJsonSchema", "responseJsonSchema", "default", "example", "enum", "const"}
)
"""Fields whose whole value is the caller's data."""


def canonical_form(value: Any) -> Any:
    """Return the value with its fields in camelCase, without nulls, and with whole numbers as integers.

    Names chosen by the caller are unchanged: the properties of schemas, and everything in arguments and
    results. A field that is present in both spellings keeps both.
    """
    if isinstance(value, dict):
        return {
            (name := _name(value, key)): _field(name, item) for key, item in value.items() if item is not None
        }
    return _canonical_value(value, canonical_form)


def digest(value: Any) -> str:
    """Return the SHA-256 of a canonical value in hexadecimal digits. The order of keys does not matter."""
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _name(holder: dict[str, Any], key: str) -> str:
    name = camel(key)
    return key if name in holder else name


def _field(name: str, value: Any) -> Any:
    if name in _MAP_FIELDS and isinstance(value, dict):
        return {key: canonical_form(item) for key, item in value.items()}
    return _verbatim(value) if name in _CALLER_FIELDS else canonical_form(value)


def _verbatim(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _verbatim(item) for key, item in value.items()}
    return _canonical_value(value, _verbatim)


def _canonical_value(value: Any, convert: Any) -> Any:
    """Return the canonical form of a value that is not an object."""
    if isinstance(value, list):
        return [convert(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
