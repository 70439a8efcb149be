"""A detector with its patterns compiled, and what it finds at one place."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact.characters import previous_character
from hookgate.hooks.policies.redact.closure import Language, language, longest_match, matches_ascii
from hookgate.hooks.policies.redact.detectors.detector import CONTEXT, Detector, follows_lead
from hookgate.hooks.policies.redact.opening import (
    Characters,
    Opening,
    first_words,
    heads_of,
    opening,
    prefixes_of,
)

_MEMORY = 64 << 20
"""The maximum memory in bytes for RE2's states of one pattern. It is allocated only as needed."""

_HASH_DIGITS, _LONGEST_HEAD = 12, 26
_HASH = re.compile(rb"\[[A-Z][A-Z0-9_]{1,23}:[0-9a-f]{12}\]")
"""The replacement of a finding that was hashed."""

_ANYWHERE, _HERE = re2._re2.RE2.Anchor.UNANCHORED, re2._re2.RE2.Anchor.ANCHOR_START

Span = tuple[int, int]

_PRECEDING_SAMPLES = (b"", b"a", b" ", b"\n")
"""The kinds of text before a match that boundaries and anchors distinguish."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of one detector. The match begins at byte `match_begin`; `start` to `end` are replaced."""

    detector: Detector
    match_begin: int
    start: int
    end: int
    gives_way: bool = False
    """Whether it depends on other findings that begin before its end: see `Detector.rank`."""

    def moved(self, by: int) -> "Finding":
        """Return the finding in a text with `by` more bytes before it."""
        return replace(self, match_begin=self.match_begin + by, start=self.start + by, end=self.end + by)


class BytesPattern:
    """A pattern that is searched in bytes of UTF-8, and tells only places.

    The object of a match, and the generator that makes it, would take longer than the search of a short text.
    So this calls what google-re2's own `search` and `match` call, which is private.
    """

    def __init__(self, pattern: str) -> None:
        """Raises ValueError if the pattern is too large, or invalid."""
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        try:
            self._match = re2.compile(pattern.encode(), options)._regexp.Match
        except re2.error as error:
            raise ValueError(f"the pattern is too large, or not a valid RE2 pattern: {error}") from None

    def search(self, data: bytes, start: int, end: int) -> int:
        """Return where the first match between `start` and `end` begins, or -1."""
        place: int = self._match(_ANYWHERE, data, start, end)[0][0]
        return place

    def begins_at(self, data: bytes, place: int, end: int) -> bool:
        """Return whether a match begins at a place, and ends at `end` or before."""
        begin: int = self._match(_HERE, data, place, end)[0][0]
        return begin >= 0

    def spans(self, data: bytes, place: int, end: int) -> list[Span]:
        """Return the spans of such a match and of its groups, which are (-1, -1) if there is none."""
        spans: list[Span] = self._match(_HERE, data, place, end)
        return spans


def at_end(prefixes: list[str]) -> str:
    """Anchor the patterns at the end, so that RE2 searches backwards to the leftmost start."""
    return rf"(?:{'|'.join(prefixes)})\z"


class CompiledDetector:
    """A detector with its patterns, which are compiled when they are first needed: most never are."""

    language: Language
    opening: Opening | None = None
    """How matches begin, if that tells them apart. A detector of a rule has none."""

    first_words: frozenset[tuple[Characters, ...]] = frozenset()
    """The first characters of matches, for a detector of a rule that begins with few words."""

    def __init__(self, detector: Detector) -> None:
        """Raises ValueError if the pattern is not supported in streams."""
        self.detector = detector
        try:
            self.language = language(detector.pattern)
        except ValueError as error:
            raise ValueError(f"{detector.kind}: {error}") from None
        if detector.rule:
            self.first_words = first_words(detector.pattern) or frozenset()
        elif not detector.extent:
            self.opening = opening(detector.pattern)

    @property
    def heads(self) -> frozenset[bytes]:
        """The first three characters of matches, or an empty set if there are too many."""
        return (
            heads_of(self.first_words)
            if self.first_words
            else self.opening.heads
            if self.opening
            else frozenset()
        )

    @property
    def prefixes(self) -> str:
        """A pattern in RE2's syntax of all non-empty prefixes of matches."""
        return prefixes_of([self.opening]) if self.opening else str(self.language.prefixes)

    @property
    def longest(self) -> int:
        """The maximum size of a match in bytes."""
        return longest_match(self.detector.pattern)

    @property
    def is_ascii(self) -> bool:
        """Whether matches consist of characters of ASCII only."""
        return matches_ascii(self.detector.pattern)

    @cached_property
    def _matches(self) -> BytesPattern:
        return BytesPattern(self.detector.pattern)

    @cached_property
    def _undecided(self) -> BytesPattern:
        return BytesPattern(at_end([self.prefixes]))

    @cached_property
    def _preceded_by(self) -> BytesPattern | None:
        return BytesPattern(self.detector.preceded_by) if self.detector.preceded_by else None

    def may_stand(self, data: bytes, at: int) -> bool:
        """Return whether the text before this place allows a match here."""
        if not self._preceded_by or at == 0:
            return True
        before = previous_character(data, at)
        return self._preceded_by.begins_at(data, before, len(data)) or follows_lead(data, at)

    def may_begin(self, byte: int) -> bool:
        """Return whether a match may begin with this byte. Always true for bytes that are not ASCII."""
        if byte >= 0x80:
            return True
        samples = (before + bytes([byte]) for before in _PRECEDING_SAMPLES)
        return any(self._undecided.begins_at(each, len(each) - 1, len(each)) for each in samples)

    def is_open(self, data: bytes, at: int) -> bool:
        """Return whether everything from this place on is undecided."""
        return self.may_go_on(data, at) and self.may_stand(data, at)

    def may_go_on(self, data: bytes, at: int) -> bool:
        """Return whether more text could make everything from this place on a match, whatever precedes it."""
        extent = self.detector.extent
        undecided = self._undecided.begins_at(data, at, len(data))
        return undecided or (extent is not None and extent.first_open(data, at) == at)

    def finding(self, data: bytes, begin: int, end: int) -> Finding | None:
        """Return the finding whose match begins at `begin` and ends at `end` or before, or None."""
        whole, *groups = self._matches.spans(data, begin, end)
        if whole[0] < 0 or not self.may_stand(data, begin):
            return None
        if self.detector.extent:
            stop, _ = self.detector.extent.end(data, whole[1], end, final=True)
            return None if stop == whole[1] else Finding(self.detector, begin, begin, stop)
        start, stop = _replaced(whole, groups, self.detector.secret_group)
        if start == stop or _is_hash(data, start, stop):
            return None
        if self.detector.fits and not _fits(self.detector.fits, data, whole, (start, stop)):
            return None
        return _checked_finding(self.detector, data, begin, start, stop)


def _replaced(whole: Span, groups: list[Span], number: int) -> Span:
    """Return the begin and end of what is replaced of a match. They are equal if there is nothing."""
    if not groups:
        return whole
    if number:
        return groups[number - 1]
    return next((span for span in groups if span[0] < span[1]), (-1, -1))


def _fits(fits: Callable[[str, str, str], bool], data: bytes, whole: Span, replaced: Span) -> bool:
    parts = data[max(whole[0] - CONTEXT, 0) : whole[0]], data[slice(*whole)], data[slice(*replaced)]
    return fits(*(part.decode(errors="replace") for part in parts))


def _checked_finding(detector: Detector, data: bytes, begin: int, start: int, stop: int) -> Finding | None:
    """Return the finding, or the genuine part of it. Returns None if the detector's checks reject it."""
    text = data[start:stop].decode(errors="surrogatepass")
    if detector.check and not detector.check(text):
        return None
    if detector.within:
        if (part := detector.within(text)) is None:
            return None
        start, stop = (start + len(text[:at].encode(errors="surrogatepass")) for at in part)
        if _is_hash(data, start, stop):
            return None
    return Finding(detector, begin, start, stop)


def _is_hash(data: bytes, start: int, stop: int) -> bool:
    """Return whether these are the digits of a hash such as `[AWS_ACCESS_KEY:9c1f04d2ab7e]`."""
    if stop - start != _HASH_DIGITS:
        return False
    begin = data.rfind(b"[", max(start - _LONGEST_HEAD, 0), start)
    return begin >= 0 and _HASH.fullmatch(data, begin, stop + 1) is not None
