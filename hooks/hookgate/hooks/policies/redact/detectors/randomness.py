"""Distinguishes random text, as generators of keys write it, from words, identifiers and placeholders."""

import math
import re
from collections import Counter

_FOLLOWERS = {
    "a": "abcdefgiklmnpqrstuvwxy",
    "b": "abceijlmnoprsuy",
    "c": "acdehiklmopqrstuy",
    "d": "abcdefilnorstuy",
    "e": "abcdefghiklmnopqrstuvwxy",
    "f": "abdefilorstuy",
    "g": "aeghilmnorsu",
    "h": "aeiortu",
    "i": "abcdefglmnopqrstvxz",
    "j": "aeu",
    "k": "aeils",
    "l": "acdeilnopstuy",
    "m": "abdeilmopstu",
    "n": "acdefgiklnoprstuvy",
    "o": "abcdfgiklmnoprstuvw",
    "p": "acdehilmoprstuy",
    "q": "aqu",
    "r": "abcdefgiklmnoprstuvy",
    "s": "acdefghiklmnoprstuwy",
    "t": "acdefhilmnoprstuwy",
    "u": "abcdefgilmnoprst",
    "v": "aeio",
    "w": "aehinors",
    "x": "aceipt",
    "y": "ceimnpst",
    "z": "ae",
}
"""The letters that follow each letter in 96 % of the pairs in words of source code and documentation."""

_USUAL = frozenset(
    pair
    for letter, followers in _FOLLOWERS.items()
    for follower in followers
    for pair in (letter + follower, (letter + follower).upper(), letter.upper() + follower)
)

_RUN = re.compile(r"[A-Za-z0-9]+")
_HEXADECIMAL = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_FILLER = re.compile(
    r"([A-Za-z0-9*.#-])\1{5}|\*{3}|\.{3}|placeholder|redacted|change[-_]?me|(?:^|[_-])(?:your|my)[_-]",
    re.IGNORECASE,
)
_MADE_UP = re.compile("(?:0123|1234)56789|abcdefghij|example|dummy|sample", re.IGNORECASE)

_SECRET_WORD = re.compile("(?:sk|pat|tok|tkn|token|secret|sec)[_-]")

_EXAMINED = 160
"""The number of characters that are looked at: of overlapping texts, each may be as long as all of them."""

_SHORTEST, _SHORTEST_HEXADECIMAL = 16, 20
_STRANGE = 0.25


def bits_per_character(text: str) -> float:
    """Return the Shannon entropy of the characters in the text; 0 if all are equal."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


def strangeness(text: str) -> float:
    """Return the share of neighboring letters and digits that are unusual in words and identifiers.

    Unusual are a letter next to a digit, and pairs of letters such as `xq`. The share is about 0.5 in random
    text, and below 0.1 in nearly all words, identifiers and paths. Only the beginning of long text is read.
    """
    pairs = strange = 0
    for run in _RUN.findall(text, 0, _EXAMINED):
        pairs += len(run) - 1
        strange += sum(map(_is_strange, run, run[1:]))
    return strange / pairs if pairs else 0.0


def _is_strange(first: str, second: str) -> bool:
    if first.isdigit() or second.isdigit():
        return first.isdigit() != second.isdigit()
    begins_word = first.islower() and second.isupper()
    return not begins_word and first + second not in _USUAL


def is_genuine(text: str) -> bool:
    """Return whether the text is no placeholder, such as `your_key` or `xxxxxxxx`.

    Made-up keys such as `AKIAIOSFODNN7EXAMPLE` count as genuine: who tries them expects to see them replaced.
    """
    return _FILLER.search(text, 0, _EXAMINED) is None


def is_prefixed_key(text: str) -> bool:
    """Return whether text that begins with a word such as `key_` goes on like a key, and not like an ID.

    IDs and hashes have fewer kinds of characters, or no word that tells a secret.
    """
    if not is_random(text):
        return False
    has = [any(map(kind, text)) for kind in (str.isdigit, str.islower, str.isupper)]
    return all(has) or (has[0] and _SECRET_WORD.match(text) is not None)


def is_random_letters(text: str) -> bool:
    """Return whether the text consists of random letters in both cases, and not of words."""
    text = text[:_EXAMINED]
    is_mixed = text.isalpha() and not text.islower() and not text.isupper()
    return is_mixed and is_genuine(text) and strangeness(text) >= _STRANGE


def is_random(text: str) -> bool:
    """Return whether the text is a UUID, or at least 16 random letters and digits, perhaps with signs."""
    text = text[:_EXAMINED]
    if _UUID.fullmatch(text):
        return bits_per_character(text) >= 2.5
    if sum(map(len, _RUN.findall(text))) < _SHORTEST or not is_genuine(text) or _MADE_UP.search(text):
        return False
    if _HEXADECIMAL.fullmatch(text):  # shorter ones are mostly hashes
        return len(text) >= _SHORTEST_HEXADECIMAL and not text.isdigit() and not text.isalpha()
    return strangeness(text) >= _STRANGE and bits_per_character(text) >= 3
