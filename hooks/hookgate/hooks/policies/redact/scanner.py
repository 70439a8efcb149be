"""The scanner: finds what its detectors detect in UTF-8 bytes, and what of a text is undecided.

Two things bound the cost of crafted text: RE2 takes linear time, and the searched windows have a bounded size
(the `cap` of `TextRedactor`).
"""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from hookgate.hooks.policies.redact.characters import next_character, searchable, start_of_context
from hookgate.hooks.policies.redact.compiled import CompiledDetector, Finding
from hookgate.hooks.policies.redact.detectors.detector import (
    BEGINS_ESCAPE,
    CONTEXT,
    HIGHEST_RANK,
    LONGEST_ESCAPE,
    Detector,
    ends_of_leads,
)
from hookgate.hooks.policies.redact.places import ByBeginning, Places
from hookgate.hooks.policies.redact.undecided import UndecidedText
from hookgate.hooks.session import Withheld
from hookgate.translator.fields import remaining_size

_TOO_MANY = (
    "The text contains too many possible secrets to check; "
    "send less text at once, or raise the option `limit` of the policy `redact`."
)

_FEW = 500
"""The number of possible secrets that can be checked in a few milliseconds."""

_BRIEF_BYTES, _BYTES_PER_SEARCH = 1024 * 1024, 4096
"""The bytes that can be searched in some tens of milliseconds even if they are crafted, and what the overhead
of a search adds to them."""

QUICK_SEARCH = 16 * 1024
"""Characters whose search takes some tens of microseconds, or some ten milliseconds if they are random.

For random text, RE2 builds new states nearly everywhere, which takes one or two milliseconds per KB.
"""

_VALUE_CHARACTERS = 4
"""Characters of random text whose search takes longer than a value does besides its text."""

_JOINED = 8192
"""The characters of texts that are searched at once."""


class TakesLong(Exception):  # noqa: N818  # not an error: the search can be repeated in a thread
    """A text takes too long to be searched in the event loop: it has too many possible secrets or chunks."""


def remaining_quick_search(left: int, value: Any) -> int:
    """Return what the search of a JSON value leaves of `left` characters: less than 0 if it takes longer."""
    return remaining_size(left, value, _VALUE_CHARACTERS)


def is_long(value: Any) -> bool:
    """Return whether a JSON value takes long to search even if there is nothing to find."""
    return remaining_quick_search(QUICK_SEARCH, value) < 0


class Scanner:
    """Compiled detectors. Except for its limit it has no state, so texts and threads may share it."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        """Compile the detectors.

        Raises ValueError if there are none, or if a pattern is not supported in streams.
        """
        if not detectors:
            raise ValueError("at least one detector is required")
        self._detectors = [CompiledDetector(detector) for detector in detectors]
        self._places = Places(self._detectors)
        self._by_beginning = ByBeginning(self._detectors)
        self._undecided = UndecidedText(self._detectors)
        self.context = CONTEXT if any(each.fits and each.rule for each in detectors) else LONGEST_ESCAPE
        """The number of bytes before a place that matter there."""
        self._checks_left: float = math.inf
        self._is_brief = False
        self._bytes_left: float = math.inf

    def __copy__(self) -> "Scanner":
        copied = object.__new__(Scanner)  # as `copy.copy` does by default, in a sixth of the time
        copied.__dict__.update(self.__dict__)
        return copied

    def limited(self, max_checks: float, *, brief: bool = False) -> "Scanner":
        """Return a copy of the scanner for one body.

        The copy raises Withheld after `max_checks` checks or, if `brief` is true, TakesLong after a few. Each
        check takes some microseconds, and a crafted text may require many, or require the same bytes to be
        searched again and again.
        """
        limited = copy.copy(self)
        limited._checks_left = min(max_checks, _FEW) if brief else max_checks
        limited._is_brief = brief and max_checks > _FEW
        limited._bytes_left = _BRIEF_BYTES if brief else math.inf
        return limited

    def is_clean(self, text: str) -> bool:
        """Return whether nothing is found in a complete text. Returns False if that takes many checks."""
        data = searchable(text.encode(errors="surrogatepass"))
        place = self._places.first(data)
        return place is None or self._finds_nothing(data, place)

    def all_clean(self, texts: Iterable[str]) -> bool:
        """Return whether nothing is found in any of the texts. Returns False if that takes many checks.

        Several texts are searched at once, joined as lines: to the search, a line begins and ends like a text
        of its own. Only if a match may begin in one of them is each searched alone.
        """
        return all(
            self._places.first(searchable("\n".join(some).encode(errors="surrogatepass"))) is None
            or all(map(self.is_clean, some))
            for some in _few_at_once(texts)
        )

    def _finds_nothing(self, data: bytes, place: int) -> bool:
        """Return whether nothing is found from a place on. Returns False if that takes many checks.

        These checks count only if nothing is found: otherwise the text is searched again.
        """
        most = min(self._checks_left, _FEW)
        quick = copy.copy(self)
        quick._checks_left, quick._is_brief = most, False
        try:
            if quick.next(data, place, len(data)):
                return False
        except Withheld:
            return False
        self._checks_left -= most - quick._checks_left
        self._bytes_left = quick._bytes_left
        return True

    def next(self, data: bytes, start: int, before: int) -> Finding | None:
        """Return the first finding that begins at `start` or later, but before `before`; or None.

        At one place the first detector whose check passes wins. The text around it is used as context.
        """
        return self._next(data, start, before, len(data))

    def within(self, data: bytes, start: int, end: int) -> Iterator[Finding]:
        """Yield the findings between `start` and `end`, in order. The text around is used as context."""
        while finding := self._next(data, start, end, end):
            yield from self.within(data, finding.match_begin, finding.start)
            yield finding
            start = finding.end

    def undecided(self, data: bytes, start: int) -> int:
        """Return the first place, at `start` or later, from which more text could make a match.

        Returns the end of the data if there is none. The cost depends only on the length of undecided text.
        """
        self._note_search(len(data) - start)
        return self._undecided.first(data, start)

    def _note_search(self, size: int) -> None:
        self._bytes_left -= size + _BYTES_PER_SEARCH
        if self._bytes_left < 0:
            raise TakesLong

    def open_detector(self, data: bytes, start: int) -> Detector:
        """Return the first detector for which everything from `start` on is undecided. There must be one.

        If it is undecided only because other content stands before it, the text before it does not count.
        """
        return next(
            compiled.detector
            for text, begin in ((data, start), (data[start:], 0))
            for place in range(begin, min(begin + LONGEST_ESCAPE + 1, len(text)))
            for compiled in self._detectors
            if compiled.is_open(text, place)
        )

    def _next(self, data: bytes, start: int, before: int, end: int, *, above: int = -1) -> Finding | None:
        """Return the first finding of a detector whose rank is above this one."""
        context = start_of_context(data, start)
        places = self._places.from_(data, context, end)
        at = places.next(context)
        while at is not None:
            self._note_search(end - context)  # it may have read all of the rest to see where the match ends
            self._checks_left -= 1
            if self._checks_left < 0:
                raise TakesLong if self._is_brief else Withheld(_TOO_MANY)
            if at >= before:
                return None
            after_character = next_character(data, at)
            # The finding begins here, or after the text that its detector requires before it.
            leads = (
                ends_of_leads(data, at)
                if data[at] in BEGINS_ESCAPE or data[after_character : after_character + 1] == b"_"
                else ()
            )
            for place in (at, *leads, after_character):
                if start <= place < before and (finding := self._at(data, place, end, above)):
                    return self._with_overlapping(data, finding, end)
            context = after_character
            at = places.next(context)
        return None

    def _at(self, data: bytes, place: int, end: int, above: int) -> Finding | None:
        for bundle in self._by_beginning.at(data, place):
            for compiled in bundle.matching(data, place, end):
                if compiled.detector.rank > above and (finding := compiled.finding(data, place, end)):
                    return finding
        return None

    def _with_overlapping(self, data: bytes, finding: Finding, end: int) -> Finding:
        """Return a finding, or one of a higher rank that overlaps it and replaces what either would."""
        rank = finding.detector.rank
        if rank == HIGHEST_RANK:
            return finding
        at = finding.match_begin + 1
        while other := self._next(data, at, finding.end, end, above=rank):
            at = other.end
            if other.end > finding.start:
                start, stop = min(finding.start, other.start), max(finding.end, other.end)
                finding = Finding(other.detector, finding.match_begin, start, stop)
        return replace(finding, gives_way=True)


_shared: WeakValueDictionary[tuple[Detector, ...], Scanner] = WeakValueDictionary()
"""The scanners in use, by their detectors."""


def shared_scanner(detectors: Sequence[Detector]) -> Scanner:
    """Return the scanner of these detectors, one for all who use it: to compile it takes tenths of a second.

    It is freed with its last user, as RE2 keeps states of its patterns. Raises ValueError as Scanner does.
    """
    key = tuple(detectors)
    scanner = _shared.get(key)
    if scanner is None:
        scanner = _shared[key] = Scanner(key)
    return scanner


def _few_at_once(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts in lists: longer ones alone, and many short ones together."""
    some: list[str] = []
    size = 0
    for text in texts:
        if some and size + len(text) > _JOINED:
            yield some
            some, size = [], 0
        some.append(text)
        size += len(text)
    if some:
        yield some
