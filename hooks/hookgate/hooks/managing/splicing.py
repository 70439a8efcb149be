"""Pieces of JSON put into and taken out of a text with comments; whatever is not touched keeps its bytes.

New members follow the layout around them: one a line where those stand one a line, else on the same line.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from hookgate.hooks.errors import SettingsError
from hookgate.hooks.settings import jsonc

_LINE_END = re.compile(r"\r?\n")
_INDENT = re.compile(r"[ \t]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNIT = "  "


def value_of(text: str) -> Any:
    """The value of a settings text; one that holds nothing is an object."""
    return jsonc.loads(text) if jsonc.without_comments(text).strip() else {}


def put(text: str, place: Sequence[str], value: Any) -> str:
    """Set the value at a place, making the objects that lead there."""
    text = _begun(text)
    span = jsonc.span_of(text, place)
    if span is not None:
        return text[: span[0]] + _dumped(value) + text[span[1] :]
    depth = next(at for at in reversed(range(len(place))) if jsonc.span_of(text, place[:at]) is not None)
    for key in reversed(place[depth + 1 :]):
        value = {key: value}
    return _added(text, place[:depth], [value], key=place[depth])


def append(text: str, place: Sequence[str], values: Sequence[Any]) -> str:
    """Add to the list at a place, making it and the objects that lead there."""
    if not values:
        return text
    text = _begun(text)
    if jsonc.span_of(text, place) is None:
        return put(text, place, list(values))
    return _added(text, place, values)


def without_item(text: str, place: Sequence[str], index: int) -> str:
    """Take an item out of the list at a place, with its comma, and the line it leaves empty.

    Raises IndexError where there is no such item.
    """
    span = jsonc.span_of(text, [*place, index])
    if span is None:
        raise IndexError(index)
    begin, end = span
    bare = jsonc.without_comments(text)
    comma = len(bare) - len(bare[end:].lstrip())
    if bare[comma] != ",":
        comma = len(bare[:begin].rstrip()) - 1  # the comma before the item, if it is not the only one
    holes = [(begin, end), (comma, comma + 1)] if bare[comma] == "," else [(begin, end)]
    for hole, after in sorted(holes, reverse=True):
        text = _tidied(text[:hole] + text[after:], hole)
    return text


def _begun(text: str) -> str:
    """The text or, for one that holds nothing, its comments and an empty object."""
    if jsonc.without_comments(text).strip():
        return text
    comments = text if text.strip() else ""
    begun = f"{comments}{'' if comments.endswith(chr(10)) or not comments else chr(10)}{{}}\n"
    if not jsonc.without_comments(begun).strip():
        raise SettingsError("has a comment without an end; close it with */")
    return begun


# ---- adding


def _added(text: str, place: Sequence[str], values: Sequence[Any], key: str | None = None) -> str:
    """Add items to the list, or one member to the object, that stands at the place."""
    begin, end = jsonc.span_of(text, place) or (0, 0)
    closing = end - 1
    bare = jsonc.without_comments(text)
    last = len(bare[:closing].rstrip())
    at = _after_comments(text, closing)
    filled = last > begin + 1
    head = "" if key is None else f"{_dumped(key)}: "
    if not _one_a_line(bare, begin, last, closing):
        new = ", ".join(head + _dumped(value) for value in values)
        return text[:last] + (f",{text[last:at]} " if filled else text[last:at]) + new + text[at:]
    line_end = "\r\n" if "\r\n" in text else "\n"
    base = _indent_at(text, begin)
    indent = _members_indent(text, bare, begin) if filled else base + _unit(text, bare)
    lines = [f"{line_end}{indent}{head}{_dumped(v, _unit(text, bare), line_end + indent)}" for v in values]
    tail = text[at:closing] if "\n" in text[at:closing] else line_end + base
    return text[:last] + ("," if filled else "") + text[last:at] + ",".join(lines) + tail + text[closing:]


def _after_comments(text: str, closing: int) -> int:
    """The end of what stands before a closing bracket, or of the line where that ends."""
    at = len(text[:closing].rstrip())
    line = text.find("\n", at, closing)
    if line < 0:
        return at
    return line - 1 if text[line - 1] == "\r" else line


def _one_a_line(bare: str, begin: int, last: int, closing: int) -> bool:
    """Whether members stand one a line; in an empty object or list, whether anything in the text does."""
    if last == begin + 1:
        return "\n" in bare.strip() or bare[:begin].strip() == ""
    first = begin + 1 + len(bare[begin + 1 :]) - len(bare[begin + 1 :].lstrip())
    return "\n" in bare[begin:first] or "\n" in bare[last:closing]


def _members_indent(text: str, bare: str, begin: int) -> str:
    first = len(bare) - len(bare[begin + 1 :].lstrip())
    shares_line = "\n" not in text[begin:first]
    return _indent_at(text, first) + (_unit(text, bare) if shares_line else "")


def _unit(text: str, bare: str) -> str:
    """One step of indentation: that of the file's first key."""
    brace = bare.find("{")
    first = len(bare) - len(bare[brace + 1 :].lstrip())
    return ("\n" in text[brace:first] and _indent_at(text, first)) or _UNIT


def _indent_at(text: str, at: int) -> str:
    found = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return found[0] if found else ""


def _dumped(value: Any, unit: str | None = None, line_end: str = "") -> str:
    """JSON on one line or, with a unit of indentation, on several. Half of a character pair is escaped."""
    dumped = json.dumps(value, ensure_ascii=False, indent=unit)
    dumped = _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", dumped)
    return dumped if unit is None else dumped.replace("\n", line_end)


# ---- taking out


def _tidied(text: str, hole: int) -> str:
    """The text without the white space that has no purpose now that nothing stands at the hole."""
    left = len(text[:hole].rstrip(" \t"))
    right = len(text) - len(text[hole:].lstrip(" \t"))
    line_end = _LINE_END.match(text, right)
    if text[left - 1] == "\n":
        return text[:left] + text[line_end.end() :] if line_end else text[:hole] + text[right:]
    if line_end or text[left - 1] == "[" or text[right] == "]":
        return text[:left] + text[right:]
    return text[:hole] + text[right:] if left < hole else text
