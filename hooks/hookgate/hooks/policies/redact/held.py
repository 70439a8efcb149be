"""Redaction of a text that comes in chunks: the same output however it is cut.

Held back is the text from the leftmost place on that more text could still turn into a match. Every match
that begins before that place is final, as no text from its beginning on could become another. The rest of the
state is one character of context, so that boundaries are told right.

What is held is at most `cap` characters. Text is taken in steps that end no later than where the cap of what
is held is reached, so the moment is met exactly, in whatever chunks the text comes.
"""

import re
from collections.abc import Callable
from typing import Literal

from hookgate.hooks.policies.redact.detectors.detector import Extent
from hookgate.hooks.policies.redact.pieces import Blocked, Dropped, Kept, Piece, Replaced
from hookgate.hooks.policies.redact.scanner import Finding, Scanner, searchable

AtCap = Literal["mask", "block"]

_TELLS_NOTHING = 4
"""Characters of a secret that do not tell more than what it is."""

_OF_WORDS = ("EMAIL", "CONNECTION_STRING")
"""Kinds that a plain word may be the beginning of."""

_WORD = re.compile(r"[^\W\d_]+(?:[.'-][^\W\d_]*)*")

_ENDS_DROPPING = re.compile(r"[^\S\r\n]")  # a long secret may run over lines, but not over words


class Redactor:
    """The state of one text. `replace` is told kind and original of a finding, and says what goes out."""

    def __init__(
        self, scanner: Scanner, replace: Callable[[str, str], str], cap: int = 8192, at_cap: AtCap = "mask"
    ) -> None:
        """What is still undecided after `cap` characters is replaced all the same, or blocks the rest.

        Raises ValueError for a cap under 1.
        """
        if cap < 1:
            raise ValueError("at least one character has to be held")
        self._scanner = scanner
        self._replace = replace
        self._cap = cap
        self._at_cap = at_cap
        self._context = ""  # the character before what is held
        self._held = ""
        self._dropping = False
        self._extent: Extent | None = None  # of what is dropped, where it is known by more than words
        self._blocked = False

    @property
    def held(self) -> int:
        """How many characters wait for what comes next."""
        return len(self._held)

    def feed(self, text: str) -> list[Piece]:
        """What the text settles, of itself and of what was held."""
        pieces: list[Piece] = []
        at = 0
        while at < len(text) and not self._blocked:
            if self._dropping:
                at = self._drop(text, at, pieces)
                continue
            step = self._cap - len(self._held)
            self._held += text[at : at + step]
            at += step
            if self._extent and not self._follow(pieces, self._extent):
                continue
            self._settle(pieces, final=False)
            if len(self._held) == self._cap:
                self._meet_cap(pieces)
        return pieces

    def finish(self) -> list[Piece]:
        """What was held, now that nothing follows."""
        pieces: list[Piece] = []
        if self._extent:
            self._follow(pieces, self._extent, final=True)
        self._settle(pieces, final=True)
        return pieces

    def cut_off(self) -> list[Piece]:
        """What was held, now that the rest of the text is lost: what may be a part of a finding is one.

        A few characters, or a plain word that only an address could have begun with, tell nothing.
        """
        pieces: list[Piece] = []
        if self._extent:
            self._follow(pieces, self._extent, final=True)
        if not self._held:
            return pieces
        data = _encoded(self._context + self._held)
        suspect = self._scanner.suspect(searchable(data), len(_encoded(self._context)))
        if len(self._held) <= _TELLS_NOTHING or (suspect.kind in _OF_WORDS and _WORD.fullmatch(self._held)):
            return pieces + self.finish()
        pieces.append(Replaced(suspect.kind, self._held, self._replace(suspect.kind, self._held)))
        self._held = ""
        return pieces

    def _settle(self, pieces: list[Piece], final: bool) -> None:
        """Move all that is decided from what is held to the pieces."""
        data = _encoded(self._context + self._held)
        at = len(_encoded(self._context))
        seen = searchable(data)
        until = len(data) if final else self._scanner.undecided(seen, at)
        while finding := self._scanner.next(seen, at, until):
            for inner in self._scanner.within(seen, finding.begin, finding.start):
                at = self._put(pieces, data, at, inner)
            at = self._put(pieces, data, at, finding)
            if at > until:  # a match over what was undecided: see what is so behind it
                until = self._scanner.undecided(seen, at)
        if at < until:
            pieces.append(Kept(_decoded(data[at:until])))
        self._keep(data, until)

    def _put(self, pieces: list[Piece], data: bytes, at: int, finding: Finding) -> int:
        if at < finding.start:
            pieces.append(Kept(_decoded(data[at : finding.start])))
        kind, original = finding.detector.kind, _decoded(data[finding.start : finding.end])
        pieces.append(Replaced(kind, original, self._replace(kind, original)))
        return finding.end

    def _keep(self, data: bytes, start: int) -> None:
        """Hold what begins at `start`, and remember the character before it."""
        before = start - 1
        while before > 0 and data[before] & 0xC0 == 0x80:
            before -= 1
        self._context = _decoded(data[max(before, 0) : start])
        self._held = _decoded(data[start:])

    def _meet_cap(self, pieces: list[Piece]) -> None:
        data = _encoded(self._context + self._held)
        suspect = self._scanner.suspect(searchable(data), len(_encoded(self._context)))
        kind = suspect.kind
        if self._at_cap == "block":
            pieces.append(Blocked(kind, self._held))
            self._blocked = True
        else:
            pieces.append(Replaced(kind, self._held, self._replace(kind, self._held)))
            self._extent = suspect.extent
            self._dropping = suspect.extent is None
        self._context, self._held = self._held[-1], ""

    def _follow(self, pieces: list[Piece], extent: Extent, *, final: bool = False) -> bool:
        """Drop what still belongs to a finding that was replaced before all of it had come.

        Returns whether its end is known, so that what is held now stands behind it.
        """
        data = _encoded(self._held)
        end, decided = extent.end(data, 0, len(data), final=final)
        if not decided and len(self._held) == self._cap:
            end = len(data)
        if end:
            pieces.append(Dropped(_decoded(data[:end])))
            self._keep(data, end)
        if decided:
            self._extent = None
        return decided

    def _drop(self, text: str, at: int, pieces: list[Piece]) -> int:
        end = _ENDS_DROPPING.search(text, at)
        stop = end.start() if end else len(text)
        self._dropping = end is None
        if at < stop:
            pieces.append(Dropped(text[at:stop]))
            self._context = text[stop - 1]
        return stop


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogatepass")
