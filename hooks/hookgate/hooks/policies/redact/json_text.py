"""Replacements in a text that is JSON, such as an answer in JSON: it stays JSON.

A text is not parsed for it: it may come in chunks, and invalid JSON remains what it is.
"""

import json
import re

_SIGN = re.compile(r'\\(?:.|$)|"', re.DOTALL)
_NUMBER = re.compile(r"[0-9]+")


class JsonText:
    """How far a JSON text has been read, and whether that is within a string."""

    def __init__(self) -> None:
        self._in_string = False
        self._escapes = False  # whether the text so far ends with a backslash that escapes the next character

    def read(self, text: str) -> None:
        """Read on in the text, as it was before anything was replaced."""
        start = 1 if self._escapes and text else 0
        self._escapes = self._escapes and not text
        for sign in _SIGN.finditer(text, start):
            if sign[0] == '"':
                self._in_string = not self._in_string
            elif sign[0] == "\\":
                self._escapes = True

    def written(self, original: str, replacement: str) -> str:
        """Return the replacement of the text that follows, as it is written there.

        In a string, it is escaped. In the place of a number, it becomes a string.
        """
        if self._in_string:
            return json.dumps(replacement, ensure_ascii=False)[1:-1]
        return json.dumps(replacement, ensure_ascii=False) if _NUMBER.fullmatch(original) else replacement


def unescaped(text: str) -> str:
    """Return text from a string of JSON as a program reads it; the same text if that is not possible."""
    if "\\" not in text:
        return text
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return value if isinstance(value, str) else text
