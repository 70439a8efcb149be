"""Reads block YAML as programs dump it, for the fields of tools' results that are not JSON.

It is strict, because a text that only resembles YAML has no fields: what programs do not dump is refused.
Scalars are texts, whatever their type. The time is proportional to the text.
"""

import re
from typing import Any

_MAX_LEVELS = 50

_KEY = re.compile(
    r"""(?P<key>[^\s'"#&*!|>%@`{}\[\],?:-][^:#]*|-?[0-9][^\s:#]*|'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"):(?: +|$)"""
)
_DOUBLE = re.compile(r"""\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))""", re.DOTALL)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "e": "\x1b",
    "_": "\xa0",
    "N": "\x85",
    "L": "\u2028",
    "P": "\u2029",
}
_NOT_PLAIN = tuple("#&*!|>%@`{}[],?'\"")


class NotYaml(ValueError):  # noqa: N818  # an outcome
    """The text is no block YAML as programs dump it."""


def read_block_yaml(text: str) -> Any:
    """Return the lists, objects and texts in a YAML text. Raises NotYaml."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = text.rstrip("\n").split("\n")
        self._at = 0

    def read(self) -> Any:
        value = self._block(0, 0)
        self._skip_blank()
        if self._at < len(self._lines) or isinstance(value, str):
            raise NotYaml
        return value

    def _skip_blank(self) -> None:
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1

    def _line(self) -> tuple[int, str] | None:
        """Return the indentation and the content of the current line, or None at the end."""
        self._skip_blank()
        if self._at == len(self._lines):
            return None
        line = self._lines[self._at]
        content = line.lstrip(" ")
        return len(line) - len(content), content

    def _block(self, indent: int, level: int) -> Any:
        """Read the list or object that begins at the current line, with this indentation."""
        line = self._line()
        if line is None or line[0] != indent or level > _MAX_LEVELS:
            raise NotYaml
        if line[1] == "-" or line[1].startswith("- "):
            return self._list(indent, level)
        return self._object(indent, level)

    def _list(self, indent: int, level: int) -> list[Any]:
        items = []
        while (line := self._line()) is not None and line[0] == indent and line[1][:2] in ("-", "- "):
            rest = line[1][2:].lstrip(" ")
            inner = indent + len(line[1]) - len(rest)
            if not rest:
                raise NotYaml
            if rest.startswith("- ") or _KEY.match(rest):
                self._lines[self._at] = " " * inner + rest
                items.append(self._block(inner, level + 1))
            else:
                self._at += 1
                items.append(self._scalar(rest, indent))
        return items

    def _object(self, indent: int, level: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while (line := self._line()) is not None and line[0] == indent:
            found = _KEY.match(line[1])
            if found is None:
                raise NotYaml
            key, rest = _unquoted(found["key"]), line[1][found.end() :]
            if key in members:
                raise NotYaml
            self._at += 1
            members[key] = self._scalar(rest, indent) if rest else self._nested(indent, level)
        return members

    def _nested(self, indent: int, level: int) -> Any:
        """Read the value of a key with nothing behind it; a list may have the key's indentation."""
        line = self._line()
        if line is None or line[0] < indent:
            return ""
        if line[0] == indent:
            return self._list(indent, level + 1) if line[1][:2] in ("-", "- ") else ""
        return self._block(line[0], level + 1)

    def _scalar(self, first: str, indent: int) -> str:
        """Read a text that begins with `first`, and continues on lines with more indentation."""
        if first[0] in "'\"":
            return self._quoted(first, indent)
        if first[0] in "|>":
            return self._literal(indent)
        if first in ("[]", "{}"):
            return ""
        if first.startswith(_NOT_PLAIN):
            raise NotYaml
        lines = [first, *self._continued(indent)]
        if any(": " in line or line.endswith(":") or " #" in line for line in lines):
            raise NotYaml  # it would have been quoted
        return " ".join(line for line in lines if line)

    def _continued(self, indent: int) -> list[str]:
        """Read the lines that have more indentation than the key or the item."""
        start = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            self._at += 1
        return [line.strip() for line in self._lines[start : self._at]]

    def _literal(self, indent: int) -> str:
        return "\n".join(self._continued(indent)).strip()

    def _quoted(self, first: str, indent: int) -> str:
        start = self._at
        lines = [first, *self._continued(indent)]
        quote, end = (
            first[0],
            re.compile(r"(?:[^']|'')*'(?!')" if first[0] == "'" else r'(?:[^"\\]|\\.)*"', re.DOTALL),
        )
        text = "\n".join(lines)[1:]
        found = end.match(text)
        if found is None or text[found.end() :].strip():
            raise NotYaml
        self._at = start + len(lines) - 1
        return _folded(_unquoted(quote + found[0]))


def _unquoted(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        return _DOUBLE.sub(_unescaped, re.sub(r"\\\n *", "", text[1:-1]))
    return text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _ESCAPES.get(match[4], match[4])
    return chr(int(code, 16)) if int(code, 16) < 0x110000 else "�"


def _folded(text: str) -> str:
    return re.sub(r"\n", " ", text)
