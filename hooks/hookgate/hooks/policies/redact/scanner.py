"""The scanner: searches UTF-8 bytes for all detectors with one pattern, or two if they find personal data.

RE2 searches for all detectors of a pattern in a single pass: for the first characters of a match if these
tell the detector apart from most others, so that hundreds of detectors cost no more than a few, or else for
all of it.
Only where this pattern matches are the detectors tried that may match there, and their checks run. Two things
bound the cost of crafted text: RE2 takes linear time, and the searched windows have a bounded size (the `cap`
of `Redactor`).
"""

import copy
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact.closure import Language, beginning, either, language, longest_match
from hookgate.hooks.policies.redact.detectors.detector import (
    BEGINS_ESCAPE,
    CONTEXT,
    EMPHASIS,
    ESCAPE,
    LEAD,
    LONGEST_ESCAPE,
    WORD,
    Detector,
    ends_of_leads,
    follows_lead,
    start_of_escape,
    start_of_lead,
)
from hookgate.hooks.policies.redact.opening import (
    HEAD,
    Characters,
    Opening,
    first_words,
    heads_of,
    opening,
    prefixes_of,
    searched_of,
    tree_of,
    written,
)
from hookgate.hooks.session import Withheld

_MEMORY = 64 << 20
"""The maximum memory in bytes for RE2's states of one pattern. It is allocated only as needed."""

_TOO_MANY = (
    "The text contains too many possible secrets to check; "
    "send less text at once, or raise the option `limit` of the policy `redact`."
)

_SURROGATE_HEAD = b"\xed"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_WITHOUT_LINES = re.compile(r"\(\?([ims]*)-([ims]+):")
"""The beginning of a group that unsets flags."""

_HASH_DIGITS, _LONGEST_HEAD = 12, 26
_HASH = re.compile(rb"\[[A-Z][A-Z0-9_]{1,23}:[0-9a-f]{12}\]")
"""The replacement of a finding that was hashed."""

_LEADS = (str(language(ESCAPE).prefixes), EMPHASIS)
"""Text that may be the beginning of an escape or emphasis before a secret."""

_PRECEDING_SAMPLES = (b"", b"a", b" ", b"\n")
"""The kinds of text before a match that boundaries and anchors distinguish."""


_BUNDLED = 6
"""The number of detectors of personal data that are tried together."""

_FEW = 500
"""The number of possible secrets that can be checked in a few milliseconds."""

_QUICK_CHECKS = 16
"""The number of possible secrets in a text that are checked before it is searched as a stream."""

_BRIEF_BYTES, _BYTES_PER_SEARCH = 1024 * 1024, 4096
"""The bytes that can be searched in some tens of milliseconds even if they are crafted, and what the overhead
of a search adds to them."""


_SEARCHED = 20
"""The number of first characters by which a rule's matches are searched."""

_SIZES = (256, 1024, math.inf)
"""The maximum sizes in bytes of matches that begin with the same words are told apart by."""


class TakesLong(Exception):  # noqa: N818  # not an error: the search can be repeated in a thread
    """A text takes too long to be searched in the event loop: it has too many possible secrets or chunks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of one detector. The match begins at byte `begin`; `start` to `end` are replaced."""

    detector: Detector
    begin: int
    start: int
    end: int
    gives_way: bool = False
    """Whether it depends on other findings that begin before its end: see `Detector.yields`."""

    def moved(self, by: int) -> "Finding":
        """Return the finding in a text with `by` more bytes before it."""
        return replace(self, begin=self.begin + by, start=self.start + by, end=self.end + by)


class _CompiledDetector:
    """A detector with its patterns, which are compiled when they are first needed: most never are."""

    def __init__(self, parts: "_Parts") -> None:
        self.detector = parts.detector
        self.heads = parts.heads
        self._parts = parts

    @property
    def first_words(self) -> frozenset[tuple[Characters, ...]]:
        """The first characters of matches, for a detector of a rule that begins with few words."""
        return self._parts.first_words or frozenset()

    @property
    def longest(self) -> int:
        """The maximum size of a match in bytes."""
        return longest_match(self.detector.pattern)

    @cached_property
    def matches(self) -> Any:
        return _compile(self.detector.pattern)

    @cached_property
    def _undecided(self) -> Any:
        return _compile(_at_end([self._parts.prefixes]))

    @cached_property
    def _preceded_by(self) -> Any:
        return _compile(self.detector.preceded_by) if self.detector.preceded_by else None

    def may_stand(self, data: bytes, at: int) -> bool:
        """Return whether the text before this place allows a match here."""
        if not self._preceded_by or at == 0:
            return True
        return bool(self._preceded_by.match(data, previous_character(data, at))) or follows_lead(data, at)

    def may_begin(self, byte: int) -> bool:
        """Return whether a match may begin with this byte. Always true for bytes that are not ASCII."""
        if byte >= 0x80:
            return True
        samples = (before + bytes([byte]) for before in _PRECEDING_SAMPLES)
        return any(self._undecided.match(sample, len(sample) - 1) for sample in samples)

    def is_open(self, data: bytes, at: int) -> bool:
        """Return whether everything from this place on is undecided."""
        extent = self.detector.extent
        undecided = self._undecided.match(data, at) or (extent and extent.first_open(data, at) == at)
        return bool(undecided) and self.may_stand(data, at)


class _Bundle:
    """A few detectors, which are tried in order where one pattern of all of them matches."""

    def __init__(self, detectors: Sequence[_CompiledDetector]) -> None:
        self._detectors = detectors
        self.yields = detectors[0].detector.yields

    @cached_property
    def _any(self) -> Any:
        return _compile(either([compiled.detector.pattern for compiled in self._detectors]))

    def matching(self, data: bytes, place: int, end: int) -> Sequence[_CompiledDetector]:
        """Return the detectors that may match at a place: all or none of them."""
        is_one = len(self._detectors) == 1
        return self._detectors if is_one or self._any.match(data, place, end) else ()


class _Matches:
    """The matches of several patterns in one text, in order: one for all would have too many states."""

    def __init__(self, patterns: Sequence[Any], data: bytes, start: int, end: int) -> None:
        self._patterns, self._data, self._end = patterns, data, end
        self._next = [pattern.search(data, start, end) for pattern in patterns]

    def first(self, start: int) -> Any:
        """Return the match that begins first, at `start` or later, or None. `start` never falls."""
        for place, match in enumerate(self._next):
            if match and match.start() < start:
                self._next[place] = self._patterns[place].search(self._data, start, self._end)
        return min(filter(None, self._next), key=_start_of, default=None)


def _start_of(match: Any) -> int:
    return int(match.start())


class Scanner:
    """Compiled detectors. Except for its limit it has no state, so texts and threads may share it."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        """Compile the detectors.

        Raises ValueError if there are none, or if a pattern is not supported in streams.
        """
        if not detectors:
            raise ValueError("at least one detector is required")
        parts = [_parts(detector) for detector in detectors]
        self._any = [_compile("|".join(_search_patterns(some))) for some in _searched_apart(parts)]
        groups = _prefix_groups(parts)
        self._undecided = [
            _compile(_at_end([*(_lead(each) + either(group[each]) for each in group), *_LEADS]))
            for group in groups
        ]
        self._all_undecided = [
            _compile(rf"\A{either([either(some) for some in group.values()])}\z") for group in groups
        ]
        self._extents = [detector.extent for detector in detectors if detector.extent]
        self._detectors = [_CompiledDetector(part) for part in parts]
        self._begun = _begun(self._detectors)
        fits = any(detector.fits for detector in detectors)
        self.context = CONTEXT if fits else LONGEST_ESCAPE
        """The number of bytes before a place that matter there."""
        self._checks_left: float = math.inf
        self._is_brief = False
        self._bytes_left: float = math.inf
        self._by_first, self._by_head = _by_beginning(self._detectors)

    def limited(self, max_checks: int, *, brief: bool = False) -> "Scanner":
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
        """Return whether a quick search shows that a complete text contains no secret."""
        data = searchable(text.encode(errors="surrogatepass"))
        return not any(pattern.search(data) for pattern in self._any) or self._finds_nothing(data)

    def all_clean(self, texts: Iterable[str]) -> bool:
        """Return whether a quick search shows that none of the texts contains a secret.

        The texts are joined as lines. To the pattern of all detectors, a line begins and ends like a text of
        its own; a text in which it matches is searched alone.
        """
        texts = list(texts)
        data = searchable("\n".join(texts).encode(errors="surrogatepass"))
        ends: list[int] = []
        at, matches = 0, _Matches(self._any, data, 0, len(data))
        while match := matches.first(at):
            ends = ends or list(accumulate(len(text.encode(errors="surrogatepass")) + 1 for text in texts))
            number = bisect_right(ends, match.start())
            begin, at = ends[number - 1] if number else 0, ends[number]
            if not self._finds_nothing(data[begin : at - 1]):
                return False
        return True

    def _finds_nothing(self, data: bytes) -> bool:
        """Return whether nothing is found in a complete text; False if that takes more than a few checks."""
        try:
            return self.limited(_QUICK_CHECKS).next(data, 0, len(data)) is None
        except Withheld:
            return False

    def next(self, data: bytes, start: int, before: int) -> Finding | None:
        """Return the first finding that begins at `start` or later, but before `before`; or None.

        At one place the first detector whose check passes wins. The text around it is used as context.
        """
        return self._next(data, start, before, len(data))

    def within(self, data: bytes, start: int, end: int) -> Iterator[Finding]:
        """Yield the findings between `start` and `end`, in order. The text around is used as context."""
        while finding := self._next(data, start, end, end):
            yield from self.within(data, finding.begin, finding.start)
            yield finding
            start = finding.end

    def undecided(self, data: bytes, start: int) -> int:
        """Return the first place, at `start` or later, from which more text could make a match.

        Returns the end of the data if there is none. The cost depends only on the length of undecided text.
        """
        self._note_search(len(data) - start)
        if start == 0 and any(undecided.search(data) for undecided in self._all_undecided):
            return 0
        first, context = len(data), _start_of_context(data, start)
        for undecided in self._undecided:
            if match := undecided.search(data, context):
                first = min(first, _undecided_start(data, match.start(), start))
        for extent in self._extents:
            if extent.head in data and (begin := extent.first_open(data, start)) is not None:
                first = min(first, begin)
        for begun in self._begun:
            first = begun.first_open(data, start, first)
        # Do not split escapes: a later search must see them as a whole.
        return start_of_escape(data, start, first)

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

    def _next(
        self, data: bytes, start: int, before: int, end: int, *, yielding: bool = True
    ) -> Finding | None:
        """Return the first finding. Without `yielding`, those of detectors that yield do not count."""
        at = _start_of_context(data, start)
        matches = _Matches(self._any, data, at, end)
        while match := matches.first(at):
            self._note_search(end - at)  # it may have read all of the rest to see where the match ends
            self._checks_left -= 1
            if self._checks_left < 0:
                raise TakesLong if self._is_brief else Withheld(_TOO_MANY)
            at = match.start()
            after_character = _next_character(data, at)
            if at >= before:
                return None
            # The finding begins here, or after the text that its detector requires before it.
            leads = (
                ends_of_leads(data, at)
                if data[at] in BEGINS_ESCAPE or data[after_character : after_character + 1] == b"_"
                else ()
            )
            for place in (at, *leads, after_character):
                if start <= place < before and (finding := self._at(data, place, end, yielding)):
                    return self._yielded(data, finding, end) if finding.detector.yields else finding
            at = after_character
        return None

    def _at(self, data: bytes, place: int, end: int, yielding: bool) -> Finding | None:
        head = data[place : place + HEAD]
        for bundle in self._by_head.get(head) or self._by_first[data[place]]:
            if bundle.yields and not yielding:
                continue
            for compiled in bundle.matching(data, place, end):
                if finding := _accepted_finding(compiled, data, place, end):
                    return finding
        return None

    def _yielded(self, data: bytes, finding: Finding, end: int) -> Finding:
        """Return a finding of a detector that yields, or one of another detector that overlaps it.

        The latter then replaces what either of them would.
        """
        at = finding.begin + 1
        while other := self._next(data, at, finding.end, end, yielding=False):
            at = other.end
            if other.end > finding.start:
                start, stop = min(finding.start, other.start), max(finding.end, other.end)
                finding = Finding(other.detector, finding.begin, start, stop)
        return replace(finding, gives_way=True)


def searchable(data: bytes) -> bytes:
    """Return the data with lone surrogates, which RE2 does not read as characters, replaced with U+FFFD."""
    return _SURROGATE.sub("\ufffd".encode(), data) if _SURROGATE_HEAD in data else data


def _accepted_finding(compiled: _CompiledDetector, data: bytes, begin: int, end: int) -> Finding | None:
    match = compiled.matches.match(data, begin, end)
    if match is None or not compiled.may_stand(data, begin):
        return None
    if compiled.detector.extent:
        stop, _ = compiled.detector.extent.end(data, match.end(), end, final=True)
        return None if stop == match.end() else Finding(compiled.detector, begin, begin, stop)
    start, stop = _replaced(match, compiled.detector.secret_group)
    if start == stop or _is_hash(data, start, stop):
        return None
    if compiled.detector.fits and not _fits(compiled.detector.fits, data, match, start, stop):
        return None
    return _checked_finding(compiled.detector, data, begin, start, stop)


def _replaced(match: Any, group: int) -> tuple[int, int]:
    """Return the begin and end of what is replaced of a match. They are equal if there is nothing."""
    if group or not match.re.groups:
        span: tuple[int, int] = match.span(group)
        return span
    spans = (match.span(number) for number in range(1, match.re.groups + 1))
    return next((span for span in spans if span[0] < span[1]), (-1, -1))


def _fits(fits: Callable[[str, str, str], bool], data: bytes, match: Any, start: int, stop: int) -> bool:
    begin = match.start()
    parts = data[max(begin - CONTEXT, 0) : begin], data[begin : match.end()], data[start:stop]
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


def previous_character(data: bytes, at: int) -> int:
    """Return where the character before `at` begins, or 0 at the beginning."""
    at -= 1
    while at > 0 and data[at] & 0xC0 == 0x80:
        at -= 1
    return max(at, 0)


def _start_of_context(data: bytes, at: int) -> int:
    """Return the start of what stands before `at` and matters there: an escape, emphasis, or a character."""
    return min(start_of_lead(data, at), previous_character(data, at))


def _next_character(data: bytes, at: int) -> int:
    """Return where the character at `at` ends."""
    first = data[at]
    return at + (1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A detector, and what to search for: its opening if it has one, or else its language."""

    detector: Detector
    language: Language
    opening: Opening | None
    first_words: frozenset[tuple[Characters, ...]] | None = None
    """The first characters of matches, for a detector of a rule that begins with few words."""

    @property
    def heads(self) -> frozenset[bytes]:
        if self.first_words:
            return heads_of(self.first_words)
        return self.opening.heads if self.opening else frozenset()

    @property
    def prefixes(self) -> str:
        return prefixes_of([self.opening]) if self.opening else str(self.language.prefixes)


def _parts(detector: Detector) -> _Parts:
    try:
        whole = language(detector.pattern)
    except ValueError as error:
        raise ValueError(f"{detector.kind}: {error}") from None
    if detector.rule:
        return _Parts(detector, whole, None, first_words(detector.pattern))
    return _Parts(detector, whole, None if detector.extent else opening(detector.pattern))


def _in_lines(pattern: str) -> str:
    """Return the pattern with `^` and `$` matching at each line."""
    anchored = pattern.replace(r"\A", "^")  # a backslash of the text is written as \x{5c}
    return f"(?m:{_WITHOUT_LINES.sub(_with_lines, anchored)})"


def _with_lines(group: re.Match[str]) -> str:
    on, off = group[1], group[2].replace("m", "")
    return f"(?{on}{'-' if off else ''}{off}:"


def _searched_apart(parts: list[_Parts]) -> list[list[_Parts]]:
    """Return the detectors of personal data, and all others: digits may belong to many of the former."""
    personal = [part for part in parts if part.detector.group == "personal"]
    others = [part for part in parts if part.detector.group != "personal"]
    return [some for some in (others, personal) if some]


def _search_patterns(parts: list[_Parts]) -> Iterator[str]:
    """Yield the patterns to search with, one for each `Detector.preceded_by`."""
    openings: dict[str, list[Opening]] = defaultdict(list)
    patterns: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        if part.opening:
            openings[part.detector.preceded_by].append(part.opening)
        elif part.first_words:
            patterns[part.detector.preceded_by].append(beginning(part.detector.pattern, _SEARCHED))
        else:
            patterns[part.detector.preceded_by].append(part.language.loose)
    for preceding, some in openings.items():
        patterns[preceding].append(searched_of(some))
    for preceding, each in patterns.items():
        yield _in_lines(_head(preceding) + either(each))


def _prefix_groups(parts: list[_Parts]) -> list[dict[str, list[str]]]:
    """Return the prefix closures by `Detector.preceded_by`, in up to three groups.

    They are those of openings, of words, and of everything else: one pattern for all would have too many
    states.
    """
    openings: dict[str, list[Opening]] = defaultdict(list)
    words: dict[str, list[str]] = defaultdict(list)
    others: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        preceding = part.detector.preceded_by
        if part.opening:
            openings[preceding].append(part.opening)
        elif not part.first_words:
            (words if preceding in ("", WORD) else others)[preceding].append(part.prefixes)
    opened = {preceding: [prefixes_of(some)] for preceding, some in openings.items()}
    return [group for group in (opened, words, others) if group]


def _head(preceded_by: str) -> str:
    """Return what must stand before a match: the start of a line, such a character, or a lead.

    The pattern is empty if anything may stand there.
    """
    return f"(?:^|{preceded_by}|{LEAD})" if preceded_by else ""


def _lead(preceded_by: str) -> str:
    """Return the same pattern without the start of a line; any byte matches if anything may stand there."""
    return f"(?:{preceded_by}|{LEAD})" if preceded_by else r"\C"


def _undecided_start(data: bytes, lead: int, start: int) -> int:
    """Return where undecided text begins that follows a lead.

    If the lead is an escape, it is included, because it must be read again with more text.
    """
    if lead < start:
        return start
    return lead if data[lead] in BEGINS_ESCAPE else _next_character(data, lead)


class _Begun:
    """Finds undecided text by the first words of detectors, and decides there by each detector's pattern.

    One pattern for all that may follow such words would have too many states.
    """

    def __init__(self, detectors: Sequence[_CompiledDetector], longest: float) -> None:
        """`longest` is the maximum size of a match in bytes, so that only the end of a text is searched."""
        words = {word for detector in detectors for word in detector.first_words}
        parts = {word[:count] for word in words for count in range(1, len(word))}
        begun = either(["".join(map(written, part)) for part in parts])
        self._words = _compile(rf"{tree_of(words)}|{begun}\z")
        self._longest = longest
        self._by_head: dict[bytes, list[_CompiledDetector]] = defaultdict(list)
        for detector in detectors:
            for head in {head[:count] for head in detector.heads for count in range(1, HEAD + 1)}:
                self._by_head[head].append(detector)

    def first_open(self, data: bytes, start: int, end: int) -> int:
        """Return the first place before `end` from which more text could make a match, or `end`."""
        at = int(max(start, len(data) - self._longest))
        while (match := self._words.search(data, at)) and (place := match.start()) < end:
            if any(each.is_open(data, place) for each in self._by_head[data[place : place + HEAD]]):
                return int(place)
            at = place + 1
        return end


def _begun(detectors: Iterable[_CompiledDetector]) -> list[_Begun]:
    """Return the detectors with first words, those with short matches apart from others."""
    by_size: dict[float, list[_CompiledDetector]] = defaultdict(list)
    for detector in detectors:
        if detector.first_words:
            by_size[next(size for size in _SIZES if detector.longest <= size)].append(detector)
    return [_Begun(some, size) for size, some in by_size.items()]


def _by_beginning(
    detectors: list[_CompiledDetector],
) -> tuple[list[list[_Bundle]], dict[bytes, list[_Bundle]]]:
    """Return the detectors whose matches may begin with each byte, and with each of the known heads."""
    general = [(place, compiled) for place, compiled in enumerate(detectors) if not compiled.heads]
    by_first = [{place for place, compiled in general if compiled.may_begin(byte)} for byte in range(256)]
    by_head: dict[bytes, set[int]] = defaultdict(set)
    for place, compiled in enumerate(detectors):
        for head in compiled.heads:
            by_head[head].add(place)
    bundled: dict[frozenset[int], list[_Bundle]] = {}

    def bundles(places: set[int]) -> list[_Bundle]:
        if (key := frozenset(places)) not in bundled:
            bundled[key] = _bundles([detectors[place] for place in sorted(places)])
        return bundled[key]

    return (
        [bundles(places) for places in by_first],
        {head: bundles(places | by_first[head[0]]) for head, places in by_head.items()},
    )


def _bundles(detectors: list[_CompiledDetector]) -> list[_Bundle]:
    """Return the detectors in order: those of personal data in bundles, as many numbers look alike."""
    bundles = []
    for is_personal, group in groupby(detectors, lambda each: each.detector.group == "personal"):
        some, size = list(group), _BUNDLED if is_personal else 1
        bundles += [_Bundle(some[at : at + size]) for at in range(0, len(some), size)]
    return bundles


def _at_end(prefixes: list[str]) -> str:
    """Anchor the patterns at the end, so that RE2 searches backwards to the leftmost start."""
    return rf"(?:{'|'.join(prefixes)})\z"


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise ValueError(f"the pattern is too large, or not a valid RE2 pattern: {error}") from None
