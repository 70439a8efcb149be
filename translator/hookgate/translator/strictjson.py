"""Strict JSON: what was inspected must be what is forwarded.

orjson keeps the last of two equal keys where other parsers keep the first, and turns integers beyond 64
bits into floats. A gateway that forwards such a body forwards something no hook has seen, so repeated keys
are refused and large integers take a slower path that keeps them. The common case costs one walk over the
parsed value on top of orjson.
"""

import json
import re
from collections import Counter
from typing import Any

import orjson

from hookgate.translator.errors import BodyError

MAX_DEPTH = 100
"""Nesting accepted in a body. Real requests stay below 30; the API itself stops near 100."""

_SPACED_KEY = re.compile(rb'"\s+:')
_INT64_LIMIT = 2.0**63


def loads(data: bytes) -> Any:
    """Parse a body, or raise BodyError naming what is wrong with it."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BodyError("", f"the body is not valid JSON: {error}") from None
    keys, large_numbers = _survey(value)
    # Each key in the text shows as `":`, so an equal count proves that no key was repeated, unless
    # white space before a colon hides one; strings may hold `":` too, hence the exact second look.
    if large_numbers or data.count(b'":') != keys or _SPACED_KEY.search(data):
        return _loads_exactly(data)
    return value


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON with key order and large integers kept."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _survey(value: Any) -> tuple[int, bool]:
    """How many keys the value holds, and whether a float may once have been a large integer."""
    keys, large, level, depth = 0, False, [value], 0
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                keys += len(item)
                below += item.values()
            elif kind is list:
                below += item
            elif kind is float and (item >= _INT64_LIMIT or item <= -_INT64_LIMIT):
                large = True
        depth += 1
        if depth > MAX_DEPTH and below:
            raise BodyError("", f"the body nests deeper than {MAX_DEPTH} levels; flatten it")
        level = below
    return keys, large


def _loads_exactly(data: bytes) -> Any:
    return json.loads(data, object_pairs_hook=object_of_distinct_keys)


def object_of_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For json.loads: an object, or BodyError naming the key that is given twice."""
    obj = dict(pairs)
    if len(obj) != len(pairs):
        again = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise BodyError(again, f"the key {again!r} is given twice in one object; send it once")
    return obj
