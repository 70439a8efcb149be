"""Redaction of a text that arrives in chunks. The output does not depend on where the chunks end."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from hookgate.hooks.policies.redact.characters import previous_character, searchable
from hookgate.hooks.policies.redact.compiled import Finding
from hookgate.hooks.policies.redact.detectors.detector import LONGEST_ESCAPE, Detector, Extent
from hookgate.hooks.policies.redact.scanner import Scanner


@dataclass(frozen=True, slots=True)
class KeptFragment:
    """Text that is kept unchanged."""

    original: str

    @property
    def output(self) -> str:
        return self.original


@dataclass(frozen=True, slots=True)
class ReplacedFragment:
    """A finding and its replacement."""

    kind: str
    original: str
    output: str
    rule: str = ""
    source: str = ""
    """See Detector."""


@dataclass(frozen=True, slots=True)
class DroppedFragment:
    """The continuation of a finding that was replaced before its end had arrived. Its output is empty."""

    original: str

    @property
    def output(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class BlockedFragment:
    """A finding that exceeds the cap and is blocked. Neither it nor anything after it is output."""

    kind: str
    original: str

    @property
    def output(self) -> str:
        return ""


Fragment = KeptFragment | ReplacedFragment | DroppedFragment | BlockedFragment
"""All fragments have `original`, the text they stand for, and `output`, the text that replaces it."""


AtCap = Literal["mask", "block"]

_MAX_INTERRUPTIONS = 16
"""The maximum number of interruptions of held text: from and up to each, it is searched again.

The oldest ones of more are forgotten, as if the text went on there.
"""

_HARMLESS_LENGTH = 4
"""The number of characters of a secret that reveal only what kind it is."""

_WORD_KINDS = ("EMAIL", "CONNECTION_STRING")
"""Kinds that may begin with a plain word."""

_WORD = re.compile(r"[^\W\d_]+(?:[.'-][^\W\d_]*)*")

_ENDS_DROPPING = re.compile(r"[^\S\r\n]")  # a long secret may continue over lines, but not over words


class TextRedactor:
    """Redacts one text. `replace` is called with the kind and text of each finding.

    The text may be interrupted by other content, such as a function call. To some readers it is still one
    text, and to others a text ends and another one begins there. So a secret is found if it begins or ends at
    an interruption, whatever is on the other side, and also if it continues there.
    """

    def __init__(
        self, scanner: Scanner, replace: Callable[[str, str], str], cap: int = 8192, at_cap: AtCap = "mask"
    ) -> None:
        """At most `cap` undecided characters are held back. Then they are replaced, or block the rest.

        Raises ValueError if `cap` is less than 1.
        """
        if cap < 1:
            raise ValueError("cap must be at least 1")
        self._scanner = scanner
        self._replace = replace
        self._cap = cap
        self._at_cap = at_cap
        self._context = ""  # the end of the text before the held text
        self._held = ""
        self._decided = 0  # how much of the held text is decided, but waits for what follows
        self._interruptions: list[int] = []  # where in the held text, in order
        self._dropping = False
        self._extent: Extent | None = None  # of the finding that is being dropped, if its detector has one
        self._blocked = False

    @property
    def held_text(self) -> str:
        """The text that is held back, or that was released although a secret may begin in it."""
        return self._held

    def begin_after(self, text: str) -> str:
        """Begin after a text that was judged before. A secret may have begun in it, or may begin here.

        Returns the end of it that may begin a secret, which is held: further fragments repeat it.
        """
        before = TextRedactor(self._scanner, keep_original, self._cap)
        before.feed(text[max(len(text) - self._cap + 1, 0) :])  # so much that it does not meet the cap
        self._context, self._held, self._decided = before._context, before._held, before._decided
        self.interrupt()
        return self._held

    def interrupt(self) -> None:
        """Note that other content stands between the text so far and what is fed next."""
        if len(self._held) not in self._interruptions:
            self._interruptions = [*self._interruptions, len(self._held)][-_MAX_INTERRUPTIONS:]

    def feed(self, text: str) -> list[Fragment]:
        """Add text and return the fragments that are decided now."""
        fragments: list[Fragment] = []
        at = 0
        while at < len(text) and not self._blocked:
            if self._dropping:
                at = self._drop(text, at, fragments)
                continue
            step = self._cap - len(self._held)
            self._held += text[at : at + step]
            at += step
            if self._extent and not self._drop_extent(fragments, self._extent):
                continue
            self._emit_decided(fragments, final=False)
            if len(self._held) == self._cap:
                self._meet_cap(fragments)
        return fragments

    def finish(self) -> list[Fragment]:
        """End the text and return the fragments of the held text."""
        fragments: list[Fragment] = []
        if self._extent:
            self._drop_extent(fragments, self._extent, final=True)
        self._emit_decided(fragments, final=True)
        return fragments

    def release(self) -> list[Fragment]:
        """Return the fragments of the held text as if it were complete.

        Unless some of it was replaced, it stays held as the possible beginning of a secret: further fragments
        repeat it.
        """
        before = self._held, self._context, self._interruptions, self._decided
        fragments = self.finish()
        if all(isinstance(fragment, KeptFragment) for fragment in fragments):
            self._held, self._context, self._interruptions, self._decided = before
        return fragments

    def cut_off(self) -> list[Fragment]:
        """End the text although it is incomplete: held text that may be part of a finding is not shown.

        A few characters, or a plain word that could only be the beginning of an address, are kept.
        """
        if not self._held:
            return []
        held = self._held
        if self._extent:  # all of it may belong to the finding that was replaced
            self._held = ""
            return [DroppedFragment(held)]
        detector = self._open_detector()
        if len(held) <= _HARMLESS_LENGTH or (detector.kind in _WORD_KINDS and _WORD.fullmatch(held)):
            return self.finish()
        self._held = ""
        return [self._replaced(detector, held)]

    def _emit_decided(self, fragments: list[Fragment], final: bool) -> None:
        """Move the decided part of the held text to the fragments."""
        before = _encoded(self._context)
        data, at = before + _encoded(self._held), len(before)
        seen = searchable(data)
        breaks = [at + len(_encoded(self._held[:offset])) for offset in self._interruptions]
        until = len(data) if final else self._undecided(seen, at, breaks)
        next_finding = (
            _Sections(self._scanner, seen, breaks).next if breaks else partial(self._scanner.next, seen)
        )
        undecided = until
        while finding := next_finding(at, until):
            if finding.gives_way and until < finding.end and not final:
                until = finding.match_begin  # another one may begin in it
                break
            for inner in self._scanner.within(seen, finding.match_begin, finding.start):
                at = self._put(fragments, data, at, inner)
            at = self._put(fragments, data, at, finding)
            if at > until:  # the match covers undecided text: check what is undecided after it
                until = undecided = self._undecided(seen, at, breaks)
        if at < until:
            fragments.append(KeptFragment(_decoded(data[at:until])))
        self._keep(data, until)
        self._decided = len(_decoded(data[until:undecided])) if until < undecided else 0

    def _undecided(self, seen: bytes, at: int, breaks: list[int]) -> int:
        """Return the first place, at `at` or later, from which more text could make a match."""
        first = self._scanner.undecided(seen, at)
        if not breaks:
            return first
        begins = (place for place in breaks if at <= place < first)
        return next((place for place in begins if self._scanner.undecided(seen[place:], 0) == 0), first)

    def _put(self, fragments: list[Fragment], data: bytes, at: int, finding: Finding) -> int:
        if at < finding.start:
            fragments.append(KeptFragment(_decoded(data[at : finding.start])))
        fragments.append(self._replaced(finding.detector, _decoded(data[finding.start : finding.end])))
        return finding.end

    def _keep(self, data: bytes, start: int) -> None:
        """Hold the data from `start` on, and the text before it, which may be an escape, as context."""
        begin = max(start - self._scanner.context, 0)
        self._context = _decoded(data[previous_character(data, begin) : start])
        held = _decoded(data[start:])
        gone = len(self._held) - len(held)
        self._interruptions = [offset - gone for offset in self._interruptions if offset >= gone]
        self._held = held

    def _meet_cap(self, fragments: list[Fragment]) -> None:
        detector = self._open_detector()
        if self._at_cap == "block":
            fragments.append(BlockedFragment(detector.kind, self._held))
            self._blocked = True
        else:
            fragments.append(self._replaced(detector, self._held))
            self._extent = detector.extent
            self._dropping = detector.extent is None
        self._context, self._held, self._interruptions, self._decided = self._held[-1], "", [], 0

    def _replaced(self, detector: Detector, original: str) -> ReplacedFragment:
        new = self._replace(detector.kind, original)
        return ReplacedFragment(detector.kind, original, new, detector.rule, detector.source)

    def _open_detector(self) -> Detector:
        """Return the first detector for which the held text, without what is decided of it, is undecided."""
        before = self._context + self._held[: self._decided]
        data = _encoded(before + self._held[self._decided :])
        return self._scanner.open_detector(searchable(data), len(_encoded(before)))

    def _drop_extent(self, fragments: list[Fragment], extent: Extent, *, final: bool = False) -> bool:
        """Drop more of a finding that was replaced before its end was known.

        Returns whether its end is known now, so that the held text is after it.
        """
        data = _encoded(self._held)
        end, decided = extent.end(data, 0, len(data), final=final)
        if not decided and len(self._held) == self._cap:
            end = len(data)
        if end:
            fragments.append(DroppedFragment(_decoded(data[:end])))
            self._keep(data, end)
        if decided:
            self._extent = None
        return decided

    def _drop(self, text: str, at: int, fragments: list[Fragment]) -> int:
        end = _ENDS_DROPPING.search(text, at)
        stop = end.start() if end else len(text)
        self._dropping = end is None
        if at < stop:
            fragments.append(DroppedFragment(text[at:stop]))
            self._context, self._interruptions = text[stop - 1], []
        return stop


class _Sections:
    """A text, and its sections from and up to each interruption, in which findings are searched in order."""

    def __init__(self, scanner: Scanner, seen: bytes, breaks: list[int]) -> None:
        self._scanner, self._seen = scanner, seen
        begins, ends = [0, *breaks], [*breaks, len(seen)]
        # The next finding in each section, and up to where it was searched: many findings of one section
        # must not make all of the others be searched again.
        self._next: dict[tuple[int, int], tuple[Finding | None, int]] = {
            (begin, end): (None, -1) for begin in begins for end in ends if begin < end
        }

    def next(self, at: int, until: int) -> Finding | None:
        """Return the first finding between `at` and `until` in any section, and of several the longest one.

        What is before `at` no longer counts as the beginning of a section.
        """
        found = [self._next_in(begin, end, at, until) for begin, end in self._next]
        return min(filter(None, found), key=lambda each: (each.match_begin, -each.end), default=None)

    def _next_in(self, begin: int, end: int, at: int, until: int) -> Finding | None:
        if 0 < begin < at or begin >= until or end <= at:
            return None
        if begin:  # what begins later has the same text before it in the section from the beginning
            until = min(until, begin + LONGEST_ESCAPE + 1)
        finding, searched = self._next[begin, end]
        if searched < until or (finding and finding.match_begin < at):
            part = self._scanner.next(self._seen[begin:end], max(at - begin, 0), min(until, end) - begin)
            finding = part and part.moved(begin)
            self._next[begin, end] = finding, until
        return finding


def keep_original(kind: str, original: str) -> str:
    """Replace a finding with itself."""
    return original


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogatepass")
