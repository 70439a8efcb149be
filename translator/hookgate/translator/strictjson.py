"""Strict JSON with limits on size, so that what hooks inspect is what is forwarded."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import orjson

from hookgate.translator.fields import BodyError, TooLargeError
from hookgate.translator.inline_data import Lifted, lift

_SLICE = 256 * 1024
_WHITE_SPACE = b" \t\r\n"
_NO_MARKS = bytes(set(range(256)).difference(b",[{"))


def structure(data: bytes) -> Iterator[bytes]:
    """Yield the text outside of strings, in slices, without white space. Each string becomes one `"`.

    For a text that is not JSON, the result is meaningless, but takes no more time.
    """
    inside = False
    start = 0
    while start < len(data):
        piece = data[start : start + _SLICE]
        start += len(piece)
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # the last backslash escapes the byte that follows
            piece += data[start : start + 1]
            start += 1
        # Backslashes escape each other in pairs from the left; a quote behind one that is left is escaped.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = parts[1::2] if inside else parts[::2]
        inside ^= len(parts) % 2 == 0
        marks = b'"'.join(outside)
        if inside and outside:
            marks += b'"'  # a string begins in this slice and ends in a later one
        yield marks.translate(None, _WHITE_SPACE)


def exceeds(data: bytes, values: int) -> bool:
    """Return whether a JSON text contains more values than `values`: objects, lists and their members.

    Reading stops as soon as the limit is exceeded.
    """
    if len(data) <= 2 * values:
        return False  # n values take at least 2n - 1 bytes: brackets around them, and commas between
    # An object or list has at most one value more than commas. So the commas and opening brackets of the
    # whole text, even those in strings, are a bound. Counting them takes a tenth of the time of `structure`.
    bound = 1
    for start in range(0, len(data), _SLICE):
        bound += len(data[start : start + _SLICE].translate(None, _NO_MARKS))
        if bound > values:
            break
    else:
        return False
    count, last = 1, b""
    for marks in structure(data):
        joined = last + marks
        # An object or list has one more value than commas, unless it is empty.
        count += marks.count(b",") + marks.count(b"[") + marks.count(b"{")
        count -= joined.count(b"[]") + joined.count(b"{}")
        # An object or list that begins at the end of a slice may turn out to be empty.
        if count - 1 > values:
            return True
        last = joined[-1:]
    return count > values


MAX_DEPTH = 100
"""The maximum nesting of a body. Real requests have less than 30 levels; the API's limit is near 100."""

MAX_RECORD_DEPTH = 2 * MAX_DEPTH
"""The maximum nesting of hookgate's own records, which put levels around the bodies that they contain."""

_SPACED_KEY = re.compile(rb'"\s+:')
_INT64_LIMIT = 2.0**63
_LARGE_INTEGER = re.compile(rb"(?<![\d.eE+-])-?\d{19,}+(?![.eE])")
_LONGEST_INTEGER = 320  # digits; orjson takes no larger one, since it is infinity as a float
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_LONGEST_ESCAPE = 12
_SHORT = 4096
"""The size in bytes up to which a text is compared with its canonical form."""

_SMALL = 1024 * 1024
"""The size in bytes up to which a text is searched at once. Larger texts are read in slices."""


class Bounds:
    """Limits of a text to parse: `text` in bytes without long base64 strings, and the number of `values`."""

    def __init__(self, text: int, values: int) -> None:
        self.text, self.values = text, values
        self.small = min(text, 2 * values)
        """The size in bytes up to which every text is within the limits."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed value."""

    value: Any
    count: int
    """The number of values in it."""
    members: int
    """The number of those that are in lists, or a higher one."""


def parse(data: bytes, bounds: Bounds) -> Parsed:
    """Parse a body that is serialized again before it is forwarded.

    If a key is repeated in one object, its last value is used, because only that value is forwarded. Each
    lone surrogate is U+FFFD, for the same reason. Raises BodyError, or TooLargeError before parsing if the
    body exceeds its bounds.
    """
    try:
        lifted, value = _parsed(data, bounds)
    except TooLargeError:
        raise
    except BodyError:
        if (repaired := with_whole_characters(data)) is data:
            raise
        data = repaired
        lifted, value = _parsed(data, bounds)
    values, members, keys, large_numbers = survey(value)
    if large_numbers:
        value = _checked(data if lifted is None else lifted.text, value, keys, large_numbers=True)
    return Parsed(value if lifted is None else lifted.put_back(value, bounds.text), values, members)


def loads(data: bytes, bounds: Bounds | None = None, depth: int = MAX_DEPTH) -> Any:
    """Parse a body that may be forwarded as received, and that nests at most `depth` levels.

    A repeated key is an error, because other parsers might use another one of its values. Raises BodyError,
    or TooLargeError before parsing if the body exceeds its bounds.
    """
    # A text that equals the serialization of its value repeats no key and has no number that was changed, and
    # with so few brackets it is not nested too deeply. This is true of most events of a stream, apart from
    # some spaces between their tokens. A string from which such a space is removed is not equal, either.
    size = len(data)
    if size <= _SHORT and (bounds is None or size <= bounds.small):
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise _invalid(error) from None
        if data.count(b"[") + data.count(b"{") <= depth:
            canonical = orjson.dumps(value)
            if canonical == data or canonical == data.replace(b'": ', b'":').replace(b', "', b',"'):
                return value
    return _loads_exactly(data, bounds, depth)


def _loads_exactly(data: bytes, bounds: Bounds | None, depth: int) -> Any:
    lifted, value = _parsed(data, bounds)
    text = data if lifted is None else lifted.text
    _, _, keys, large_numbers = survey(value, depth)
    if large_numbers or not _shows_as_many(text, keys):
        value = _checked(text, value, keys, large_numbers=large_numbers)
    return value if lifted is None or bounds is None else lifted.put_back(value, bounds.text)


def _parsed(data: bytes, bounds: Bounds | None) -> tuple[Lifted | None, Any]:
    """Return the value. If the long base64 strings were lifted out of the text, also return these."""
    lifted = None if bounds is None or len(data) <= bounds.small else _within(data, bounds)
    try:
        return lifted, orjson.loads(data if lifted is None else lifted.text)
    except orjson.JSONDecodeError as error:
        raise _invalid(error) from None


def _invalid(error: orjson.JSONDecodeError) -> BodyError:
    return BodyError("", f"the body is not valid JSON: {error}")


def with_whole_characters(data: bytes) -> bytes:
    """Return a JSON text with U+FFFD in place of each lone surrogate; the same object if there are none.

    A model can write half of a surrogate pair, which UTF-8 cannot encode, and so hooks cannot receive.
    """
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    repaired = bytearray()  # a list of millions of pieces would take seconds to join and to free
    done = 0
    for begin, end in _lone_surrogates(data):
        repaired += data[done:begin]
        repaired += b"\\ufffd"
        done = end
    return bytes(repaired + data[done:]) if done else data


def _lone_surrogates(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where lone surrogates begin and end. Other threads run between slices and between escapes."""
    start = 0
    while start < len(data):
        slice_end = start + _SLICE
        for escape in _ESCAPE.finditer(data, start, slice_end + _LONGEST_ESCAPE):
            if escape.start() >= slice_end:
                break  # it may be cut off
            if escape["lone"]:
                yield escape.span()
            start = escape.end()
        start = max(start, slice_end)


def may_contain(data: bytes, string: bytes) -> bool:
    """Return whether a JSON text may contain a string of letters and underscores, given with its quotes.

    If the text escapes characters by their numbers, any string of it may be this one.
    """
    return string in data or b"\\u" in data


def dumps(value: Any) -> bytes:
    """Return compact JSON in UTF-8. The order of keys and large integers are preserved."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_identity(value: Any) -> bytes:
    """Return what only equal JSON values have in common: see `fields.same`. The order of keys is ignored."""
    return dumps(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LINE_ENDS = {character.encode(): b"\\u%04x" % ord(character) for character in "\u0085\u2028\u2029"}


def encode_answer(value: Any) -> bytes:
    """Return JSON that a client reads: as `dumps`, but with U+0085, U+2028 and U+2029 escaped.

    Some clients split streams at every line end of Unicode, and would cut an event in the middle of a string.
    JSON itself escapes the others, which are control characters.
    """
    return with_escaped_line_ends(dumps(value))


def with_escaped_line_ends(data: bytes) -> bytes:
    """Return JSON, or events of JSON, with U+0085, U+2028 and U+2029 escaped: see `encode_answer`."""
    if not data.isascii():
        for character, escape in _LINE_ENDS.items():
            data = data.replace(character, escape)
    return data


def _within(data: bytes, bounds: Bounds) -> Lifted:
    lifted = lift(data) if len(data) > bounds.text else Lifted(data, {})
    if len(lifted.text) > bounds.text:
        raise TooLargeError("", f"the body has more than {bounds.text} bytes without its base64 data")
    if exceeds(lifted.text, bounds.values):
        raise TooLargeError("", f"the body has more than {bounds.values} values")
    return lifted


def survey(value: Any, max_depth: int = MAX_DEPTH) -> tuple[int, int, int, bool]:
    """Return the numbers of values, of those in lists, and of keys, and whether a float may be an integer.

    A float may have been a large integer, which the parser has changed.
    """
    values, members, keys, large, level, depth = 0, 0, 0, False, [value], 0
    while level:
        values += len(level)
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                keys += len(item)
                below += item.values()
            elif kind is list:
                members += len(item)
                below += item
            elif kind is float and (item >= _INT64_LIMIT or item <= -_INT64_LIMIT):
                large = True
        depth += 1
        if depth > max_depth and below:
            raise BodyError("", f"the body nests deeper than {max_depth} levels; flatten it")
        level = below
    return values, members, keys, large


def _shows_as_many(data: bytes, keys: int) -> bool:
    """Return whether a quick count proves that the text has this many keys, so that none is duplicated.

    Each key ends with `":` unless white space follows it. In strings, the quote of the same text is escaped,
    by the backslash that is left after removing pairs of backslashes.
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
    """Return the value with exact large integers. Raises BodyError if a key is duplicated."""
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
    """Return the error for a text with a duplicate key. For a large text, it does not name the key."""
    if len(data) <= _SMALL:
        try:
            json.loads(data, object_pairs_hook=object_of_distinct_keys)
        except BodyError as error:
            return error
    return BodyError("", "a key is given twice in one object; send it once")


def _numbers(marks: bytes) -> Any:
    """Parse the result of `structure`: the numbers of the text, with placeholders for strings and keys."""
    numbered = count()
    text = re.sub(rb'"', lambda _: b'"%d"' % next(numbered), marks)  # makes all keys distinct
    # A Python function lets other threads run between the conversions of many integers.
    return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int:
    return int(digits)


def _with_integers(value: Any, exact: Any) -> Any:
    """Return the value with its floats replaced by the integers of `exact`, which has the same shape."""
    if isinstance(value, dict):
        pairs = zip(value.items(), exact.values(), strict=True)
        return {key: _with_integers(item, number) for (key, item), number in pairs}
    if isinstance(value, list):
        return [_with_integers(item, number) for item, number in zip(value, exact, strict=True)]
    return exact if type(value) is float and type(exact) is int else value


def object_of_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, for use as `object_pairs_hook`. Raises BodyError, which names a duplicate key."""
    obj = dict(pairs)
    if len(obj) != len(pairs):
        duplicate = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise BodyError(duplicate, f"the key {duplicate!r} is given twice in one object; send it once")
    return obj
