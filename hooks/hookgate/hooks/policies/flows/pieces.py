"""Pieces of texts, by which a text is found again in another one.

They are hashes of runs of letters and digits, chosen by winnowing (Schleimer, Wilkerson and Aiken, 2003), so
that two texts with a long enough run in common have a piece in common, wherever it stands.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from urllib.parse import unquote
from zlib import crc32

from hookgate.hooks.policies.flows.words import fact_of, same_spelling, words_of

_RUN = 16
_WINDOW = 8
SURE = _RUN + _WINDOW - 1
"""A text that has so many letters and digits in a row in common with another has a piece of it."""

_NOT_WORD = re.compile(r"[\W_]+")
_CODE = re.compile(r"[^\W_]{5,}")
"""What may be a number or code, which is a piece even if it is short."""

_FEW_WORDS = 3
_SHORTEST_WORD = 6
"""Of texts of few words, such as a password, all words of this length are pieces."""


def pieces_of(kind: str, text: str, *, is_source: bool = False) -> set[int]:
    """Return the pieces of a text. The words of a source are pieces if there are few."""
    folded = same_spelling(text)
    pieces = {fact_of(kind, found) for found in set(_CODE.findall(folded)) if any(map(str.isdigit, found))}
    words = words_of(text)
    if len(words) <= _FEW_WORDS or not is_source:
        pieces |= {fact_of(kind, word) for word in words if len(word) >= _SHORTEST_WORD}
    data = _NOT_WORD.sub("", folded).encode(errors="surrogatepass")
    hashes = [crc32(data[at : at + _RUN]) for at in range(len(data) - _RUN + 1)]
    chosen: set[bytes] = set()
    last = -1
    for start in range(max(len(hashes) - _WINDOW + 1, min(1, len(hashes)))):
        window = hashes[start : start + _WINDOW]
        least = start + window.index(min(window))
        if least != last:
            chosen.add(data[least : least + _RUN])
            last = least
    return pieces | {fact_of(kind, run.hex()) for run in chosen}


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){4,}")


def readings_of(text: str) -> Iterator[str]:
    """Yield the text as it is, and as it reads backwards, and decoded: from percent signs, base64 and hex."""
    yield text
    yield text[::-1]
    if "%" in text:
        yield unquote(text)
    for found in _BASE64.finditer(text):
        run = found[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield base64.b64decode(run[: len(run) - (len(run) % 4 == 1)] + "=" * (-len(run) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    for found in _HEX.finditer(text):
        try:
            yield bytes.fromhex(found[0]).decode()
        except UnicodeDecodeError:
            continue
