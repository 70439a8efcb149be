"""Finding: several detectors as one pattern, over UTF-8 bytes.

RE2 searches for all of them at once in a single pass. Which one it was, and whether its check passes, is
asked only where something was found. Two things bound the cost of crafted text: RE2 is linear in what it
searches, and the windows searched are of bounded size (see `held`).
"""

import copy
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact.closure import Language, language
from hookgate.hooks.policies.redact.detectors.beginnings import (
    BEGINS_ESCAPE,
    EMPHASIS,
    ESCAPE,
    LEAD,
    LONGEST_ESCAPE,
    WORD,
    ends_of_leads,
    follows_lead,
    start_of_escape,
)
from hookgate.hooks.policies.redact.detectors.detector import Detector
from hookgate.hooks.session import Withheld

_MEMORY = 32 << 20
"""Bytes that RE2 may use for the states of one pattern; what it really uses grows with what it meets."""

_TOO_MANY = (
    "The text holds more that looks like secrets than can be looked into in time; "
    "send less at once, or have the option `limit` of the policy `redact` raised."
)

_SURROGATE_HEAD = b"\xed"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_WITHOUT_LINES = re.compile(r"\(\?([ims]*)-([ims]+):")
"""A group that unsets flags."""

_HASH_DIGITS, _LONGEST_HEAD = 12, 26
_HASH = re.compile(rb"\[[A-Z][A-Z0-9_]{1,23}:[0-9a-f]{12}\]")
"""What has taken the place of a finding that was hashed."""

_LEADS = (str(language(ESCAPE).prefixes), EMPHASIS)
"""What more text could turn into an escape that a secret follows."""

_BEFORE = (b"", b"a", b" ", b"\n")
"""What a match may follow, as far as boundaries and anchors can tell."""


_FEW = 500
"""Suspects that take a few milliseconds, so that others do not notice."""


class TakesLong(Exception):  # noqa: N818  # no error: the same can be done where nobody waits
    """A text holds more suspects than can be looked into while others wait."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one detector found: a match begins at byte `begin`; `start` to `end` is to be replaced."""

    detector: Detector
    begin: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    detector: Detector
    matches: Any
    undecided: Any
    after: Any

    def may_stand(self, data: bytes, at: int) -> bool:
        """Whether what it wants before a match stands before this place."""
        if not self.after or at == 0:
            return True
        return bool(self.after.match(data, _before(data, at))) or follows_lead(data, at)

    def is_open(self, data: bytes, at: int) -> bool:
        """Whether all from this place on is undecided."""
        extent = self.detector.extent
        undecided = self.undecided.match(data, at) or (extent and extent.first_open(data, at) == at)
        return bool(undecided) and self.may_stand(data, at)


class Scanner:
    """Detectors, compiled once. But for its limit it keeps no state: texts and threads may share one."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        """Raises ValueError for no detectors, or a pattern that cannot be followed through a stream."""
        if not detectors:
            raise ValueError("there is nothing to search for")
        languages = [(detector, _language(detector)) for detector in detectors]
        wholes, prefixes = _by_after(languages)
        self._any = _compiled("|".join(_in_lines(_head(after) + _either(wholes[after])) for after in wholes))
        # Apart, as their product would have too many states: what begins with letters, and with anything.
        words = [after for after in prefixes if after in ("", WORD)]
        others = [after for after in prefixes if after not in words]
        self._undecided = [
            _compiled(_at_end([*(_lead(after) + _either(prefixes[after]) for after in afters), *_LEADS]))
            for afters in (words, others)
            if afters
        ]
        self._all_undecided = _compiled(rf"\A{_either([_either(each) for each in prefixes.values()])}\z")
        self._extents = [d.extent for d, _ in languages if d.extent]
        self._candidates = [_candidate(*pair) for pair in languages]
        self._left: float = math.inf
        self._is_brief = False
        self._by_first = [[c for c in self._candidates if _may_begin(c, byte)] for byte in range(256)]

    def limited(self, suspects: int, *, brief: bool = False) -> "Scanner":
        """The same for one body: a search raises Withheld once it has looked into so many suspects.

        Each costs some microseconds, whether it proves a secret or not, and a text can be made of them.
        `brief`: it raises TakesLong instead, after a few of them.
        """
        limited = copy.copy(self)
        limited._left = min(suspects, _FEW) if brief else suspects
        limited._is_brief = brief and suspects > _FEW
        return limited

    def is_clean(self, text: str) -> bool:
        """Whether nothing at all looks like a secret in a whole text: one search tells, and most are."""
        return self._any.search(searchable(text.encode(errors="surrogatepass"))) is None

    def all_clean(self, texts: Iterable[str]) -> bool:
        """Whether nothing looks like a secret in any of many texts; one search tells, as `is_clean` does.

        The texts are lines to it. A text of its own begins and ends as a line does, for every pattern.
        """
        return self.is_clean("\n".join(texts))

    def next(self, data: bytes, start: int, before: int) -> Finding | None:
        """The first match that begins at `start` or later, but before `before`.

        At one place the first detector whose check passes wins. The text around counts as context.
        """
        return self._next(data, start, before, len(data))

    def within(self, data: bytes, start: int, end: int) -> Iterator[Finding]:
        """What is found between `start` and `end`, in order. The text around counts as context."""
        while finding := self._next(data, start, end, end):
            yield from self.within(data, finding.begin, finding.start)
            yield finding
            start = finding.end

    def undecided(self, data: bytes, start: int) -> int:
        """Where the first text begins, at `start` or later, that more text could still turn into a match.

        The end of the data if there is none. Costs as much as what is undecided, whatever comes before it.
        """
        if start == 0 and self._all_undecided.search(data):
            return 0
        first = len(data)
        for undecided in self._undecided:
            if match := undecided.search(data, _before(data, start)):
                first = min(first, _place(data, match.start(), start))
        for extent in self._extents:
            if (begin := extent.first_open(data, start)) is not None:
                first = min(first, begin)
        # Nothing goes out in the middle of an escape: what it stands before could not be told any more.
        return start_of_escape(data, start, first)

    def suspect(self, data: bytes, start: int) -> Detector:
        """The first detector to which all from `start` on is undecided. There has to be one."""
        places = range(start, min(start + LONGEST_ESCAPE + 1, len(data)))
        return next(c.detector for place in places for c in self._candidates if c.is_open(data, place))

    def _next(self, data: bytes, start: int, before: int, end: int) -> Finding | None:
        at = _before(data, start)
        while match := self._any.search(data, at, end):
            self._left -= 1
            if self._left < 0:
                raise TakesLong if self._is_brief else Withheld(_TOO_MANY)
            at = match.start()
            behind = _after(data, at)
            if at >= before:
                return None
            # What was found begins here, or behind what its detector wants before it.
            leads = (
                ends_of_leads(data, at)
                if data[at] in BEGINS_ESCAPE or data[behind : behind + 1] == b"_"
                else ()
            )
            for place in (at, *leads, behind):
                if start <= place < before and (finding := self._at(data, place, end)):
                    return finding
            at = behind
        return None

    def _at(self, data: bytes, place: int, end: int) -> Finding | None:
        for candidate in self._by_first[data[place]]:
            if finding := _accepted(candidate, data, place, end):
                return finding
        return None


def searchable(data: bytes) -> bytes:
    """The same with lone surrogates, at which RE2 would see no character, exchanged for another sign."""
    return _SURROGATE.sub("\ufffd".encode(), data) if _SURROGATE_HEAD in data else data


def _accepted(candidate: _Candidate, data: bytes, begin: int, end: int) -> Finding | None:
    match = candidate.matches.match(data, begin, end)
    if match is None or not candidate.may_stand(data, begin):
        return None
    if candidate.detector.extent:
        stop, _ = candidate.detector.extent.end(data, match.end(), end, final=True)
        return None if stop == match.end() else Finding(candidate.detector, begin, begin, stop)
    start, stop = match.span(match.re.groups)
    if start == stop:  # the part to replace took no part in the match
        return None
    if _is_hash(data, start, stop):
        return None
    return _checked(candidate.detector, data, begin, start, stop)


def _checked(detector: Detector, data: bytes, begin: int, start: int, stop: int) -> Finding | None:
    """What was found as far as the detector says that it is genuine."""
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
    """Whether these are the digits of a mask such as `[AWS_ACCESS_KEY:9c1f04d2ab7e]`, which name a key."""
    if stop - start != _HASH_DIGITS:
        return False
    begin = data.rfind(b"[", max(start - _LONGEST_HEAD, 0), start)
    return begin >= 0 and _HASH.fullmatch(data, begin, stop + 1) is not None


def _before(data: bytes, at: int) -> int:
    """Where the character before `at` begins; 0 at the beginning."""
    at -= 1
    while at > 0 and data[at] & 0xC0 == 0x80:
        at -= 1
    return max(at, 0)


def _after(data: bytes, at: int) -> int:
    """Where the character at `at` ends."""
    first = data[at]
    return at + (1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4)


def _language(detector: Detector) -> Language:
    try:
        return language(detector.pattern)
    except ValueError as error:
        raise ValueError(f"{detector.kind}: {error}") from None


def _in_lines(pattern: str) -> str:
    """The pattern with `^` and `$` at each line, so that it finds at least what it finds in a line alone."""
    anchored = pattern.replace(r"\A", "^")  # a backslash of the text is written as \x{5c}
    return f"(?m:{_WITHOUT_LINES.sub(_with_lines, anchored)})"


def _with_lines(group: re.Match[str]) -> str:
    on, off = group[1], group[2].replace("m", "")
    return f"(?{on}{'-' if off else ''}{off}:"


def _by_after(
    languages: list[tuple[Detector, Language]],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By what has to stand before them, the patterns to search with and their closures."""
    wholes: dict[str, list[str]] = defaultdict(list)
    prefixes: dict[str, list[str]] = defaultdict(list)
    for detector, its in languages:
        wholes[detector.after].append(its.loose)
        prefixes[detector.after].append(str(its.prefixes))
    return wholes, prefixes


def _head(after: str) -> str:
    return f"(?:^|{after}|{LEAD})" if after else ""


def _lead(after: str) -> str:
    return f"(?:{after}|{LEAD})" if after else r"\C"


def _place(data: bytes, lead: int, start: int) -> int:
    """Where to hold from when what is undecided follows a lead.

    An escape is held as well: it is read again when more has come.
    """
    return lead if lead >= start and data[lead] in BEGINS_ESCAPE else _after(data, lead)


def _either(patterns: list[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


def _candidate(detector: Detector, its: Language) -> _Candidate:
    try:
        after = _compiled(detector.after) if detector.after else None
        undecided = _compiled(_at_end([str(its.prefixes)]))
        return _Candidate(detector, _compiled(detector.pattern), undecided, after)
    except ValueError as error:
        raise ValueError(f"{detector.kind}: {error}") from None


def _at_end(prefixes: list[str]) -> str:
    """Anchored at the end, where RE2 begins: backwards, to the leftmost start."""
    return rf"(?:{'|'.join(prefixes)})\z"


def _may_begin(candidate: _Candidate, byte: int) -> bool:
    """Whether a match may begin with this byte; told by it alone for ASCII only."""
    if byte >= 0x80:
        return True
    return any(candidate.undecided.match(before + bytes([byte]), len(before)) for before in _BEFORE)


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise ValueError(f"the pattern is too large, or none of RE2: {error}") from None
