"""The end of a text from which more text could make a match, or a longer one: see closure.py."""

from collections import defaultdict
from collections.abc import Sequence

from hookgate.hooks.policies.redact.characters import next_character, start_of_context
from hookgate.hooks.policies.redact.closure import either, language
from hookgate.hooks.policies.redact.compiled import BytesPattern, CompiledDetector, at_end
from hookgate.hooks.policies.redact.detectors.detector import (
    BEGINS_ESCAPE,
    EMPHASIS,
    ESCAPE,
    LEAD,
    WORD,
    start_of_escape,
)
from hookgate.hooks.policies.redact.opening import HEAD, Opening, prefixes_of, tree_of, written

_LEADS = (str(language(ESCAPE).prefixes), EMPHASIS)
"""Text that may be the beginning of an escape or emphasis before a secret."""

_LONG, _MOST_LONG = 1024, 16
"""The size in bytes above which matches are long, and how many detectors of such matches make one pattern."""


class UndecidedText:
    """Finds the first place from which the text is undecided for some detector."""

    def __init__(self, detectors: Sequence[CompiledDetector]) -> None:
        begun = [each for each in detectors if each.first_words]
        long = [each for each in begun if each.longest > _LONG and each.is_ascii][:_MOST_LONG]
        groups = _prefix_groups([each for each in detectors if not each.first_words], long)
        self._at_end = [
            BytesPattern(at_end([*(_lead(each) + either(group[each]) for each in group), *_LEADS]))
            for group in groups
        ]
        self._throughout = [
            BytesPattern(rf"\A{either([either(some) for some in group.values()])}\z") for group in groups
        ]
        self._extents = [each.detector.extent for each in detectors if each.detector.extent]
        short = [each for each in begun if each not in long]
        self._begun = _BegunWords(short) if short else None

    def first(self, data: bytes, start: int) -> int:
        """Return the first undecided place at `start` or later, or the end of the data if there is none."""
        first = end = len(data)
        if start == 0 and any(pattern.search(data, 0, end) == 0 for pattern in self._throughout):
            return 0
        context = start_of_context(data, start)
        for pattern in self._at_end:
            if (lead := pattern.search(data, context, end)) >= 0:
                first = min(first, _after_lead(data, lead, start))
        for extent in self._extents:
            if extent.head in data and (begin := extent.first_open(data, start)) is not None:
                first = min(first, begin)
        if self._begun:
            first = self._begun.first(data, start, first)
        # Do not split escapes: a later search must see them as a whole.
        return start_of_escape(data, start, first)


def _prefix_groups(
    detectors: Sequence[CompiledDetector], long: Sequence[CompiledDetector]
) -> list[dict[str, list[str]]]:
    """Return the prefix closures by `Detector.preceded_by`, in up to four groups.

    They are those of openings, of words, of everything else, and of rules with long matches: one pattern for
    all would have too many states.
    """
    openings: dict[str, list[Opening]] = defaultdict(list)
    words: dict[str, list[str]] = defaultdict(list)
    others: dict[str, list[str]] = defaultdict(list)
    rules: dict[str, list[str]] = defaultdict(list)
    for each in detectors:
        preceding = each.detector.preceded_by
        if each.opening:
            openings[preceding].append(each.opening)
        else:
            (words if preceding in ("", WORD) else others)[preceding].append(each.prefixes)
    for each in long:
        rules[each.detector.preceded_by].append(each.prefixes)
    opened = {preceding: [prefixes_of(some)] for preceding, some in openings.items()}
    return [group for group in (opened, words, others, rules) if group]


def _lead(preceded_by: str) -> str:
    """Return a pattern of what must stand before a match in a line; any byte matches if anything may."""
    return f"(?:{preceded_by}|{LEAD})" if preceded_by else r"\C"


def _after_lead(data: bytes, lead: int, start: int) -> int:
    """Return where undecided text begins that follows a lead.

    If the lead is an escape, it is included, because it must be read again with more text.
    """
    if lead < start:
        return start
    return lead if data[lead] in BEGINS_ESCAPE else next_character(data, lead)


class _BegunWords:
    """Finds undecided text by the first words of detectors, and decides there by each detector's pattern.

    One pattern for all that may follow such words would have too many states.
    """

    def __init__(self, detectors: Sequence[CompiledDetector]) -> None:
        words = {word for detector in detectors for word in detector.first_words}
        parts = {word[:count] for word in words for count in range(1, len(word))}
        begun = either(["".join(map(written, part)) for part in parts])
        self._words = BytesPattern(rf"{tree_of(words)}|{begun}\z")
        sizes = {detector: detector.longest for detector in detectors}
        self._longest = max(sizes.values())
        self._by_head: dict[bytes, list[tuple[CompiledDetector, int]]] = defaultdict(list)
        for detector, size in sizes.items():
            for head in {head[:count] for head in detector.heads for count in range(1, HEAD + 1)}:
                self._by_head[head].append((detector, size))

    def first(self, data: bytes, start: int, end: int) -> int:
        """Return the first place before `end` from which more text could make a match, or `end`."""
        size_of_data = len(data)
        at = max(start, size_of_data - self._longest)
        while at < end and 0 <= (place := self._words.search(data, at, size_of_data)) < end:
            left = size_of_data - place
            stands: dict[str, bool] = {}  # by what must precede: it is the same for most detectors
            for each, size in self._by_head[data[place : place + HEAD]]:
                if left > size:
                    continue
                preceding = each.detector.preceded_by
                if preceding not in stands:
                    stands[preceding] = each.may_stand(data, place)
                if stands[preceding] and each.may_go_on(data, place):
                    return place
            at = place + 1
        return end
