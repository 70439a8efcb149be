"""Texts that come in pieces, each from a place of its own, redacted as one and put back in their places.

A secret may stand half in one part and half in the next. What goes out instead of it stands where it begins.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from hookgate.hooks.policies.redact.held import Redactor
from hookgate.hooks.policies.redact.pieces import Blocked, Kept, Piece
from hookgate.hooks.policies.redact.presidio import WholeRedactor
from hookgate.hooks.session import Withheld

Place = TypeVar("Place", bound=Hashable)

_TOO_LONG = "The text holds what may be a secret of more than {} characters ({})."


class Strand(Generic[Place]):
    """One text. `put` is told what goes out at a place, in order, as soon as that is decided."""

    def __init__(self, redactor: Redactor | WholeRedactor, put: Callable[[Place, str], None]) -> None:
        self._redactor, self._put = redactor, put
        self._open: deque[tuple[Place, int]] = deque()

    def feed(self, place: Place, text: str) -> None:
        """The next piece. Raises Withheld for text that may not pass."""
        if text:
            self._open.append((place, len(text)))
            self._settle(self._redactor.feed(text))

    def finish(self) -> None:
        """Nothing follows: all is decided. Raises Withheld."""
        self._settle(self._redactor.finish())

    def cut_off(self) -> None:
        """Nothing follows, though the text was not at its end. Raises Withheld."""
        self._settle(self._redactor.cut_off())

    def waits(self, place: Place) -> bool:
        """Whether some of the text at a place is undecided."""
        return any(place == each for each, _ in self._open)

    def _settle(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Blocked):
                raise Withheld(_TOO_LONG.format(len(piece.original), piece.kind), piece.kind)
            rest, out = piece.original, piece.output
            while rest:
                place, left = self._open.popleft()
                size = min(left, len(rest))
                self._put(place, rest[:size] if isinstance(piece, Kept) else out)
                rest, out = rest[size:], ""
                if left > size:
                    self._open.appendleft((place, left - size))
