"""What a detector is, and how patterns and words of one's own become one."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.options import said_of
from hookgate.hooks.policies.redact.closure import language

_KIND = re.compile(r"[A-Z][A-Z0-9_]{1,23}")


class Extent(Protocol):
    """Tells how far something goes whose beginning a pattern has found. Pure: asked again as text comes."""

    def end(self, data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
        """Where it ends in the data up to `end`; `begin`, where the match ended, if it is none at all.

        The second value tells whether that is decided, whatever text follows `end`; it is if `final`.
        """

    def first_open(self, data: bytes, start: int) -> int | None:
        """Where the first one begins, at `start` or later, whose end is not decided."""


@dataclass(frozen=True, slots=True)
class Detector:
    """One way to recognise something that shall not pass. Several may be of one kind."""

    kind: str
    """What it finds: 2 to 24 capitals, digits and underscores."""

    pattern: str
    """In RE2's syntax. Group 1 is what is replaced if there is one, all of the match otherwise."""

    check: Callable[[str], bool] | None = None
    """Whether what would be replaced is genuine: check digits, entropy."""

    group: str = "own"
    """`credentials`, `personal`, a country's code (ISO 3166), or `own` for those of a configuration."""

    default: bool = True
    """Whether it is on unless somebody says otherwise."""

    after: str = ""
    """A class of characters, one of which has to stand before a match, unless it begins the text.

    An escape such as `\\n` or `%20` may stand there as well, whatever its last character is.
    """

    within: Callable[[str], tuple[int, int] | None] | None = None
    """Which part of what would be replaced is the secret, if any of it is."""

    extent: Extent | None = None
    """How far what a match begins goes, where no pattern can tell; all of that is replaced."""


def pattern_detector(kind: str, pattern: str) -> Detector:
    """A detector of whatever matches. Raises ValueError for a kind or a pattern that cannot be one."""
    return Detector(_checked_kind(kind), _checked_pattern(kind, pattern))


def words_detector(kind: str, words: Iterable[str], ignore_case: bool = False) -> Detector:
    """A detector of whole words or phrases, longest first. Raises ValueError for none, or an empty one."""
    listed = sorted(set(words), key=lambda word: (-len(word), word))
    if not listed or "" in listed:
        raise ValueError(f"{kind} needs words, none of them empty")
    either = "|".join(map(_whole_word, listed))
    return pattern_detector(kind, f"(?i)(?:{either})" if ignore_case else f"(?:{either})")


def _whole_word(word: str) -> str:
    """A boundary is only asked for where the word's own end has one: `C++` may be followed by anything.

    RE2's boundaries know ASCII alone, so words that begin or end with other letters are found anywhere.
    """
    return f"{_boundary(word[0])}{re2.escape(word)}{_boundary(word[-1])}"


def _boundary(end: str) -> str:
    return r"\b" if end.isascii() and (end.isalnum() or end == "_") else ""


def _checked_kind(kind: str) -> str:
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is no kind: 2 to 24 capitals, digits and underscores, a capital first")
    return kind


def _checked_pattern(kind: str, pattern: str) -> str:
    quiet = re2.Options()
    quiet.log_errors = False
    try:
        compiled = re2.compile(pattern, quiet)
    except re2.error as error:
        raise ValueError(f"the pattern of {kind} is no RE2 pattern: {said_of(error)}") from None
    if compiled.groups > 1:
        raise ValueError(f"the pattern of {kind} has {compiled.groups} groups: write (?:…) for all but one")
    try:
        language(pattern)
    except ValueError as error:
        raise ValueError(f"{kind}: {error}") from None
    return pattern
