"""Places where a match may begin, and the detectors to try there.

RE2 searches for many detectors in a single pass: for the first characters of a match if these tell the
detector apart from most others, so that hundreds of detectors cost no more than a few, or else for all of it.
Only where such a pattern matches are the detectors tried that may match there.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

from hookgate.hooks.policies.redact.closure import beginning, either
from hookgate.hooks.policies.redact.compiled import BytesPattern, CompiledDetector
from hookgate.hooks.policies.redact.detectors.detector import LEAD
from hookgate.hooks.policies.redact.opening import HEAD, Opening, searched_of

_WITHOUT_LINES = re.compile(r"\(\?([ims]*)-([ims]+):")
"""The beginning of a group that unsets flags."""

_SEARCHED = 20
"""The number of first characters by which a rule's matches are searched."""

_BUNDLED = 6
"""The number of detectors of personal data, or of rules, that are tried together."""


class Places:
    """Finds the places where some detector may match."""

    def __init__(self, detectors: Sequence[CompiledDetector]) -> None:
        self._patterns = [BytesPattern(_search_pattern(some)) for some in _search_groups(detectors)]

    def first(self, data: bytes) -> int | None:
        """Return the first place in the data, or None. A match begins there, or after a lead that does."""
        starts = [place for pattern in self._patterns if (place := pattern.search(data, 0, len(data))) >= 0]
        return min(starts, default=None)

    def from_(self, data: bytes, start: int, end: int) -> "PlacesInOrder":
        """Return the places in the data from `start` on, of matches up to `end`."""
        return PlacesInOrder(self._patterns, data, start, end)


class PlacesInOrder:
    """The places in one text, in order."""

    def __init__(self, patterns: Sequence[BytesPattern], data: bytes, start: int, end: int) -> None:
        self._data, self._end = data, end
        self._found = self._search(patterns, start)

    def _search(self, patterns: Iterable[BytesPattern], start: int) -> list[tuple[int, BytesPattern]]:
        """Return the first place of each pattern, without patterns that have none."""
        data, end = self._data, self._end
        return [(place, each) for each in patterns if (place := each.search(data, start, end)) >= 0]

    def next(self, start: int) -> int | None:
        """Return the first place at `start` or later, or None. `start` never falls."""
        if not self._found:
            return None
        passed = [each for place, each in self._found if place < start]
        if passed:
            ahead = [found for found in self._found if found[0] >= start]
            self._found = [*ahead, *self._search(passed, start)]
        return min((place for place, _ in self._found), default=None)


def _search_groups(detectors: Sequence[CompiledDetector]) -> Iterator[Sequence[CompiledDetector]]:
    """Yield the detectors that are searched with one pattern. One for all would have too many states.

    Apart from the others are those that any digits or letters may begin, as these may belong to many of them
    at once: those of personal data, and of rules that do not begin with few words.
    """
    common = [each for each in detectors if _begins_with_anything(each)]
    others = [each for each in detectors if not _begins_with_anything(each)]
    yield from filter(None, (others, common))


def _begins_with_anything(compiled: CompiledDetector) -> bool:
    if compiled.detector.rule:
        return not compiled.first_words
    return compiled.detector.group == "personal"


def _search_pattern(detectors: Sequence[CompiledDetector]) -> str:
    """Return the pattern to search with. It has a branch for each `Detector.preceded_by`."""
    openings: dict[str, list[Opening]] = defaultdict(list)
    patterns: dict[str, list[str]] = defaultdict(list)
    for each in detectors:
        preceding = each.detector.preceded_by
        if each.opening:
            openings[preceding].append(each.opening)
        elif each.first_words:
            patterns[preceding].append(beginning(each.detector.pattern, _SEARCHED))
        else:
            patterns[preceding].append(each.language.loose)
    for preceding, some in openings.items():
        patterns[preceding].append(searched_of(some))
    return "|".join(_in_lines(_head(preceding) + either(each)) for preceding, each in patterns.items())


def _in_lines(pattern: str) -> str:
    """Return the pattern with `^` and `$` matching at each line."""
    anchored = pattern.replace(r"\A", "^")  # a backslash of the text is written as \x{5c}
    return f"(?m:{_WITHOUT_LINES.sub(_with_lines, anchored)})"


def _with_lines(group: re.Match[str]) -> str:
    on, off = group[1], group[2].replace("m", "")
    return f"(?{on}{'-' if off else ''}{off}:"


def _head(preceded_by: str) -> str:
    """Return what must stand before a match: the start of a line, such a character, or a lead.

    The pattern is empty if anything may stand there.
    """
    return f"(?:^|{preceded_by}|{LEAD})" if preceded_by else ""


class Bundle:
    """A few detectors, which are tried in order where one pattern of all of them matches."""

    def __init__(self, detectors: Sequence[CompiledDetector]) -> None:
        self._detectors = detectors

    @cached_property
    def _any(self) -> BytesPattern:
        return BytesPattern(either([f"(?:{compiled.detector.pattern})" for compiled in self._detectors]))

    def matching(self, data: bytes, place: int, end: int) -> Sequence[CompiledDetector]:
        """Return the detectors that may match at a place: all or none of them."""
        is_one = len(self._detectors) == 1
        return self._detectors if is_one or self._any.begins_at(data, place, end) else ()


class ByBeginning:
    """The detectors by how their matches may begin: with each byte, and with each of the known heads."""

    def __init__(self, detectors: Sequence[CompiledDetector]) -> None:
        heads = [each.heads for each in detectors]
        general = [(number, each) for number, each in enumerate(detectors) if not heads[number]]
        by_first = [{number for number, each in general if each.may_begin(byte)} for byte in range(256)]
        by_head: dict[bytes, set[int]] = defaultdict(set)
        for number, some in enumerate(heads):
            for head in some:
                by_head[head].add(number)
        bundled: dict[frozenset[int], list[Bundle]] = {}

        def bundles(numbers: set[int]) -> list[Bundle]:
            if (key := frozenset(numbers)) not in bundled:
                bundled[key] = _bundles([detectors[number] for number in sorted(numbers)])
            return bundled[key]

        self._by_first = [bundles(numbers) for numbers in by_first]
        self._by_head = {head: bundles(numbers | by_first[head[0]]) for head, numbers in by_head.items()}

    def at(self, data: bytes, place: int) -> Sequence[Bundle]:
        """Return the detectors that may match at a place, in order."""
        return self._by_head.get(data[place : place + HEAD]) or self._by_first[data[place]]


def _bundles(detectors: Sequence[CompiledDetector]) -> list[Bundle]:
    """Return the detectors in order: those of personal data and of rules in bundles, as many look alike."""
    bundles = []
    for look_alike, each in groupby(detectors, _looks_like_others):
        some, size = list(each), _BUNDLED if look_alike else 1
        bundles += [Bundle(some[at : at + size]) for at in range(0, len(some), size)]
    return bundles


def _looks_like_others(compiled: CompiledDetector) -> bool:
    return compiled.detector.group == "personal" or bool(compiled.detector.rule)
