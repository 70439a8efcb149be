"""Finds where the values of a JSON text begin and end, in one pass over the text."""

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

ValuePath = Sequence[str | int]
"""The keys and indexes that lead to a value."""

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")(?P<colon>[ \t\r\n]*:)? | [{\[] | (?P<close>[}\]]) | [^\s"{}\[\],:]+""",
    re.VERBOSE | re.DOTALL,
)
"""Matches a key with its colon, the bracket at the begin or end of a value, or a value without members."""


@dataclass(slots=True)
class _Value:
    begin: int
    end: int
    members: "dict[str | int, _Value]" = field(default_factory=dict)


class Positions:
    """The offsets and lines of the values in a JSON text without comments."""

    def __init__(self, text: str) -> None:
        """Find all values of `text`, which is JSON."""
        self._root = _Value(0, len(text), {})
        self._line_ends = [found.start() for found in re.finditer("\n", text)]
        self.depth = 0
        """The number of objects and lists that contain one another."""
        opened: list[tuple[_Value, bool]] = [(self._root, False)]
        key = ""
        for token in _TOKEN.finditer(text):
            if token["close"]:
                if len(opened) > 1:
                    opened.pop()[0].end = token.end()
            elif token["colon"]:
                key = json.loads(token["string"])
            else:
                parent, is_object = opened[-1]
                value = _Value(token.start(), token.end())
                parent.members[key if is_object else len(parent.members)] = value
                if token[0] in "{[":
                    opened.append((value, token[0] == "{"))
                    self.depth = max(self.depth, len(opened) - 1)

    def span(self, path: ValuePath) -> tuple[int, int] | None:
        """Return the offsets of the value at `path`, begin and end, or None if there is no such value."""
        value: _Value | None = self._root
        for step in (0, *path):
            value = None if value is None else value.members.get(step)
        return None if value is None else (value.begin, value.end)

    def line(self, path: ValuePath) -> int:
        """Return the line, counted from 1, of the value at `path`, or of its nearest existing parent."""
        value = self._root
        for step in (0, *path):
            member = value.members.get(step)
            if member is None:
                break
            value = member
        return bisect_left(self._line_ends, value.begin) + 1
