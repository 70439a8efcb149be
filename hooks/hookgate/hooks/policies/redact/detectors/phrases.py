"""Detectors of words and phrases. Each is found in all spellings that have the same normal form.

A pattern lists the spellings of each character: so a finding is replaced where it stands, a stream knows what
may become one, and the search stays linear.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact.detectors.detector import WORD, Detector, pattern_detector

MAX_DISGUISED = 500
"""The maximum number of characters of all words together that are found in every spelling.

Patterns of more would take seconds to compile, and too much memory.
"""

_SHAPELESS = (
    "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[{_SHAPELESS}]")
"""Matches soft hyphens, joiners, marks of direction, variation selectors, tags and the like."""

_IGNORED = f"{_INVISIBLE.pattern}*"

_SPACES = "\\s\v\x1c-\x1f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_PERCENT = "%(?:25)?"  # it may be encoded twice
_UTF8_BLANK = (
    r"0[9a-d]|20|c2%(?:85|a0|ad)|e1%9a%80|e2%80%(?:8[0-9a-f]|a[89f])|e2%81%(?:9f|a0)|e3%80%80|ef%bb%bf"
)
_ESCAPED_BLANK = (
    f"(?i:{_PERCENT}(?:{_UTF8_BLANK.replace('%', _PERCENT)})"
    r"|\\+(?:[nrtfv]|x20|u(?:00(?:0[9a-d]|20|85|a0|ad)|1680|20(?:0[0-9a-f]|2[89f]|5f|60)|3000|feff)))"
)
_PLAIN_BLANKS = f"[{_SPACES}]+"
_BLANKS = f"(?:[+{_SPACES}{_SHAPELESS}]|{_ESCAPED_BLANK})+"
"""What may stand between two words of a phrase. In forms, a plus sign stands for a blank."""

_TO_FULL_WIDTH = 0xFEE0


def words_detectors(
    kind: str, words: Iterable[str], ignore_case: bool = False, *, disguised: bool = True
) -> tuple[Detector, ...]:
    """Return detectors of whole words or phrases. Raises ValueError if there are none, or one is blank.

    Boundaries are where a word itself has them: not after `C++`. In RE2 only ASCII has boundaries, so words
    that begin or end with other letters are found anywhere. If `disguised` is false, only blanks may differ.
    """
    given = {" ".join(word.split()) for word in words}
    if not given or "" in given:
        raise ValueError(f"{kind} needs words, none of them empty")
    given |= {*map(_normal_form, given)} - {""}
    bounded = {word for word in given if _is_word_character(word[0])}
    write = _disguised if disguised else _plain
    return tuple(
        pattern_detector(
            kind, _pattern([write(word, ignore_case) for word in _sorted(some)], ignore_case), head
        )
        for some, head in ((bounded, WORD), (given - bounded, ""))
        if some
    )


def _normal_form(word: str) -> str:
    return " ".join(_INVISIBLE.sub("", unicodedata.normalize("NFKC", word)).split())


def _sorted(words: Collection[str]) -> list[str]:
    """Sort the longest first, so that they win."""
    return sorted(words, key=lambda word: (-len(word), word))


def _pattern(phrases: list[str], ignore_case: bool) -> str:
    return f"{'(?i)' if ignore_case else ''}{_either(phrases)}"


def _plain(phrase: str, _: bool) -> str:
    pattern = _PLAIN_BLANKS.join(map(re2.escape, phrase.split()))
    return rf"{pattern}\b" if _is_word_character(phrase[-1]) else pattern


def _disguised(phrase: str, ignore_case: bool) -> str:
    composed = unicodedata.normalize("NFC", phrase)
    characters, last = composed[:-1], composed[-1]
    pattern = "".join(
        _BLANKS if character == " " else _either(_spellings(character, ignore_case)) + _IGNORED
        for character in characters
    ).replace(_IGNORED + _BLANKS, _BLANKS)
    spellings = _spellings(last, ignore_case)
    if _is_word_character(last):  # no ASCII letter may follow: a boundary after one, after others none
        spellings = (rf"{each}\b" if each.isascii() else rf"{each}\B" for each in spellings)
    return pattern + _either(spellings)


def _spellings(character: str, ignore_case: bool) -> Iterator[str]:
    """Yield patterns of a character: itself, decomposed, of full width, and escaped."""
    yield re2.escape(character)
    if (decomposed := unicodedata.normalize("NFD", character)) != character:
        yield _IGNORED.join(map(re2.escape, decomposed))
    if "!" <= character <= "~":
        yield chr(ord(character) + _TO_FULL_WIDTH)
    cases = {character, character.lower(), character.upper()} if ignore_case else {character}
    for each in sorted(case for case in cases if len(case) == 1):
        yield from _escapes(each)


def _escapes(character: str) -> Iterator[str]:
    """Yield patterns of a character that is escaped as in a URL, and as in a string of JSON."""
    yield "".join(f"{_PERCENT}{_digits(f'{byte:02x}')}" for byte in character.encode(errors="surrogatepass"))
    units = character.encode("utf-16-be", errors="surrogatepass").hex(" ", 2).split()
    yield "".join(rf"\\+u{_digits(unit)}" for unit in units)


def _digits(hexadecimal: str) -> str:
    return "".join(digit if digit.isdigit() else f"[{digit}{digit.upper()}]" for digit in hexadecimal)


def _either(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


def _is_word_character(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
