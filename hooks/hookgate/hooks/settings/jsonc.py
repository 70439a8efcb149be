"""JSON with comments, as Gemini CLI reads its settings, and the line on which a value of it stands."""

import json
import re
from collections.abc import Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # public, but not in the stubs
from typing import Any

from hookgate.translator.strictjson import object_of_distinct_keys

_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()

Path = Sequence[str | int]
"""The keys and indexes that lead to a value."""


def without_comments(text: str) -> str:
    """The text with spaces for its `//` and `/* */` comments, so that every offset stays as it was."""
    return _STRING_OR_COMMENT.sub(lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text)


def loads(text: str) -> Any:
    """Parse, comments aside. Raises BodyError for a key given twice, and what json.loads raises."""
    return json.loads(without_comments(text), object_pairs_hook=object_of_distinct_keys)


def line_of(text: str, path: Path) -> int:
    """The line, from 1, of the value at `path` in a text that `loads` can read, or of what comes closest."""
    text = without_comments(text)
    at = _after_space(text, 0)
    for step in path:
        found = _member(text, at, step)
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1


def span_of(text: str, path: Path) -> tuple[int, int] | None:
    """The offsets of the value at `path` in a text that `loads` can read; None where nothing stands."""
    text = without_comments(text)
    at: int | None = _after_space(text, 0)
    for step in path:
        at = None if at is None else _member(text, at, step)
    return None if at is None else (at, _DECODER.raw_decode(text, at)[1])


def _member(text: str, at: int, step: str | int) -> int | None:
    """Where the member of the object or list that begins at `at` begins; None without such a member."""
    closing = {"{": "}", "[": "]"}.get(text[at])
    at = _after_space(text, at + 1)
    index = 0
    while closing and text[at] != closing:
        key: str | int = index
        if closing == "}":
            key, at = scanstring(text, at + 1)
            at = _after_space(text, _after_space(text, at) + 1)  # the colon
        if key == step:
            return at
        at = _after_space(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _after_space(text, at + 1)
        index += 1
    return None


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
