"""The size of what a request gives a model to read, by which its tokens are estimated."""

from dataclasses import dataclass
from typing import Any

from hookgate.translator.fields import JsonObject

_OPAQUE = frozenset({"thoughtSignature", "thought_signature", "signature"})
_FREE = frozenset({"args", "response"})
"""Fields of arguments and results, in which all is text, whatever its name."""
_UNUSUAL = _OPAQUE | _FREE | {"data"}
_SHORT = 256  # characters of a field `data` that is a text rather than a file


@dataclass(frozen=True, slots=True)
class InputSize:
    """The size of a request, or of a part of one."""

    text: int = 0
    """The bytes of its texts."""
    media: int = 0
    """The characters of its files in base64."""
    files: int = 0
    """The number of these files. Files that it only refers to do not count."""

    def __add__(self, other: "InputSize") -> "InputSize":
        return InputSize(self.text + other.text, self.media + other.media, self.files + other.files)


def input_size(part: JsonObject) -> InputSize:
    """Return the size of a GenerateContentRequest, or of an object in it."""
    text = media = files = 0
    free: list[Any] = []
    level: list[Any] = [part]
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                text += len(item) if item.isascii() else _utf8_size(item)
            elif kind is list:
                below += item
            elif kind is dict and _UNUSUAL.isdisjoint(item):
                below += item.values()
            elif kind is dict:
                free += [item[name] for name in _FREE & item.keys()]
                below += [value for name, value in item.items() if name not in _UNUSUAL]
                if isinstance(data := item.get("data"), str) and len(data) > _SHORT:
                    media, files = media + len(data), files + 1
                else:
                    below.append(data)
        level = below
    return InputSize(text + _text_size(free), media, files)


def _text_size(level: list[Any]) -> int:
    """Return the bytes of all strings and names in these values."""
    size = 0
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                size += len(item) if item.isascii() else _utf8_size(item)
            elif kind is list:
                below += item
            elif kind is dict:
                below += item
                below += item.values()
        level = below
    return size


def _utf8_size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
