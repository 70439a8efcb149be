"""Strict JSON: what was inspected must be what is forwarded.

orjson keeps the last of two equal keys where other parsers keep the first, and turns integers beyond 64
bits into floats. A gateway that forwards such a body forwards something no hook has seen, so repeated keys
are refused and large integers are read once more. The common case costs one walk over the parsed value and
a count of its keys on top of orjson; no text costs more than a few such counts.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any

import orjson

from hookgate.translator.errors import BodyError, TooLargeError
from hookgate.translator.lifting import Lifted, lift
from hookgate.translator.structure import exceeds, structure

MAX_DEPTH = 100
"""Nesting accepted in a body. Real requests stay below 30; the API itself stops near 100."""

_SPACED_KEY = re.compile(rb'"\s+:')
_INT64_LIMIT = 2.0**63
_LARGE_INTEGER = re.compile(rb"(?<![\d.eE+-])-?\d{19,}+(?![.eE])")
_LONGEST_INTEGER = 320  # digits; orjson takes no larger one, since it is infinity as a float
_SMALL = 1024 * 1024
"""Bytes up to which a text is looked at in one go; the structure of a larger one is read in slices."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a text is parsed. `text` counts bytes, long runs of base64 left out; `values` values."""

    text: int
    values: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text was parsed to, and how many values that holds."""

    value: Any
    count: int


def loads(data: bytes) -> Any:
    """Parse a body, or raise BodyError naming what is wrong with it."""
    return parse(data).value


def parse(data: bytes, bounds: Bounds | None = None) -> Parsed:
    """Parse a body, or raise BodyError naming what is wrong with it.

    Raises TooLargeError, before anything is parsed, for a body beyond its `bounds`.
    """
    lifted = _within(data, bounds) if bounds is not None else Lifted(data, {})
    try:
        value = orjson.loads(lifted.text)
    except orjson.JSONDecodeError as error:
        raise BodyError("", f"the body is not valid JSON: {error}") from None
    values, keys, large_numbers = _survey(value)
    if large_numbers or not _shows_as_many(lifted.text, keys):
        value = _checked(lifted.text, value, keys, large_numbers=large_numbers)
    return Parsed(lifted.put_back(value), values)


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON with key order and large integers kept."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _within(data: bytes, bounds: Bounds) -> Lifted:
    lifted = lift(data) if len(data) > bounds.text else Lifted(data, {})
    if len(lifted.text) > bounds.text:
        raise TooLargeError("", f"the body holds more than {bounds.text} bytes beside its base64 data")
    if exceeds(lifted.text, bounds.values):
        raise TooLargeError("", f"the body holds more than {bounds.values} values")
    return lifted


def _survey(value: Any) -> tuple[int, int, bool]:
    """How many values and keys there are, and whether a float may once have been a large integer."""
    values, keys, large, level, depth = 0, 0, False, [value], 0
    while level:
        values += len(level)
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
    return values, keys, large


def _shows_as_many(data: bytes, keys: int) -> bool:
    """Whether a quick look proves that the text has so many keys, which is none that was given twice.

    Each key shows as `":` unless white space follows it. Strings may hold the same with the quote escaped, by
    the one backslash that is left when those that escape each other are gone.
    """
    if len(data) > _SMALL:
        return False
    if b"\\" in data:
        bare = data.replace(b"\\\\", b"")
        shown = bare.count(b'":') - bare.count(b'\\":')
    else:
        shown = data.count(b'":')
    return shown == keys and not _SPACED_KEY.search(data)


def _checked(data: bytes, value: Any, keys: int, *, large_numbers: bool) -> Any:
    """The value with its large integers, once it is certain that no key was given twice."""
    slices = list(structure(data))
    if sum(marks.count(b":") for marks in slices) != keys:
        raise _given_twice(data)
    if large_numbers and _hold_large_integer(slices):
        value = _with_integers(value, _numbers(b"".join(slices)))
    return value


def _hold_large_integer(slices: list[bytes]) -> bool:
    before = b""
    for marks in slices:
        if _LARGE_INTEGER.search(before + marks):
            return True
        before = marks[-_LONGEST_INTEGER:]
    return False


def _given_twice(data: bytes) -> BodyError:
    """The error for a text with a repeated key; of a large one only that there is one."""
    if len(data) <= _SMALL:
        try:
            json.loads(data, object_pairs_hook=object_of_distinct_keys)
        except BodyError as error:
            return error
    return BodyError("", "a key is given twice in one object; send it once")


def _numbers(marks: bytes) -> Any:
    """What `structure` gave, parsed: the numbers of the text, with others for its strings and keys."""
    numbered = count()
    text = re.sub(rb'"', lambda _: b'"%d"' % next(numbered), marks)  # no two keys alike
    # A function of ours, so that others get the interpreter between two of many integers.
    return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int:
    return int(digits)


def _with_integers(value: Any, exact: Any) -> Any:
    """The value with the integers of `exact`, which has the same shape, in place of its floats."""
    if isinstance(value, dict):
        pairs = zip(value.items(), exact.values(), strict=True)
        return {key: _with_integers(item, number) for (key, item), number in pairs}
    if isinstance(value, list):
        return [_with_integers(item, number) for item, number in zip(value, exact, strict=True)]
    return exact if type(value) is float and type(exact) is int else value


def object_of_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For json.loads: an object, or BodyError naming the key that is given twice."""
    obj = dict(pairs)
    if len(obj) != len(pairs):
        again = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise BodyError(again, f"the key {again!r} is given twice in one object; send it once")
    return obj
