"""One spelling for texts that differ only in case, compatibility forms, and what is invisible."""

import re
import unicodedata

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]"
)
"""Characters that are not shown."""


def same_spelling(text: str) -> str:
    """Return the text in the spelling in which texts are compared."""
    if not text.isascii():
        text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).encode(errors="replace").decode()
    return text.casefold()
