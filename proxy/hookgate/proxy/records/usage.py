"""What a call has used, read off its answer as it passes, whatever hooks make of that. Pure."""

import re
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any

from hookgate.translator.fields import JsonObject

_KEY = re.compile(rb'"usageMetadata"\s*:\s*(?=\{)')
_LONGEST = 16 * 1024
"""Bytes in which one usageMetadata is expected to fit: it lists a few counts for each modality."""
_MOST = 2**31 - 1
"""The largest count that the API's own type takes; sums of it fit wherever they are kept."""
_OVERLAP = 64
"""Bytes that are looked at again with what follows: the key may be cut in two."""

_decoder = JSONDecoder()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the API counts them."""

    input_tokens: int = 0
    """Of the prompt, cached ones among them."""
    output_tokens: int = 0
    """Of the answer, thoughts among them."""
    cached_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
        )


class UsageMeter:
    """Finds the last usageMetadata in an answer's bytes: each counts from the answer's begin.

    It is a field's name when it stands between bare quotes: in a text its quotes would be escaped.
    """

    def __init__(self) -> None:
        self._found = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the answer, cut anywhere."""
        data = self._tail + chunk
        matches = list(_KEY.finditer(data))
        if matches:
            self._found = data[matches[-1].end() :][:_LONGEST]
        elif self._found:
            self._found = (self._found + chunk)[:_LONGEST]
        self._tail = data[-_OVERLAP:]

    def usage(self) -> Usage:
        """What the answer has told of so far; nothing when it told nothing."""
        try:
            told, _ = _decoder.raw_decode(self._found.decode(errors="replace"))
        except (ValueError, RecursionError):  # cut short; a number or a depth that nobody means
            return Usage()
        return usage_of(told)


def usage_of(metadata: JsonObject) -> Usage:
    """The tokens that a usageMetadata counts; thoughts and the prompts of tools are counted apart in it."""
    return Usage(
        _count(metadata, "promptTokenCount") + _count(metadata, "toolUsePromptTokenCount"),
        _count(metadata, "candidatesTokenCount") + _count(metadata, "thoughtsTokenCount"),
        _count(metadata, "cachedContentTokenCount"),
    )


def _count(metadata: JsonObject, key: str) -> int:
    value: Any = metadata.get(key)
    counts = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return min(value, _MOST) if counts else 0
