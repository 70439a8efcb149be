"""One spelling for texts that differ only in case, compatibility forms, and what is invisible."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]"
)
"""Characters that are not shown."""


_LONG_LIGATURES = "\ufdfa\ufdfb"
"""Characters that would become 18 and 8 of Arabic. All others become at most two for each of their bytes."""

_PIECE, _LONGEST_PIECE = 64, 128
"""The characters that are normalized at once.

`unicodedata` sorts the marks above and below a letter in quadratic time, and keeps the GIL meanwhile: 40,000
of them would stop all threads for seconds.
"""


def same_spelling(text: str) -> str:
    """Return the text in the spelling in which texts are compared."""
    if text.isascii():
        return text.casefold()
    for ligature in _LONG_LIGATURES:
        text = text.replace(ligature, "")
    visible = (INVISIBLE.sub("", piece).casefold() for piece in _normalized_pieces("NFKC", text))
    return "".join(visible).encode(errors="replace").decode()


def normalized(form: Literal["NFC", "NFD"], text: str) -> str:
    """Return a text in a normal form. Only of a letter with more marks than any has, it is a near form."""
    return text if text.isascii() else "".join(_normalized_pieces(form, text))


def _normalized_pieces(form: Literal["NFC", "NFD", "NFKC"], text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = start + _PIECE
        while end < min(len(text), start + _LONGEST_PIECE) and _belongs_to_previous(text[end]):
            end += 1
        yield unicodedata.normalize(form, text[start:end])
        start = end


def _belongs_to_previous(character: str) -> bool:
    """Return whether a normal form may join a character to the one before it, or exchange the two.

    These are marks, some modifiers, and the later letters of a Korean syllable.
    """
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Lm") or "\u1160" <= character <= "\u11ff"
