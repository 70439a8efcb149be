"""Redacts a text that is spread over several places, and puts the result back into these places.

A secret may begin in one part and end in the next. Its replacement is put where the secret begins.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from hookgate.hooks.policies.redact.presidio import WholeRedactor
from hookgate.hooks.policies.redact.streaming import BlockedPiece, KeptPiece, Piece, Redactor
from hookgate.hooks.session import Withheld

Place = TypeVar("Place", bound=Hashable)

_TOO_LONG = "The text contains what may be a secret of more than {} characters ({})."


class ChunkedText(Generic[Place]):
    """One text in chunks. `put` is called with each place and its output, in order, once it is decided."""

    def __init__(self, redactor: Redactor | WholeRedactor, put: Callable[[Place, str], None]) -> None:
        self._redactor, self._put = redactor, put
        self._undecided: deque[tuple[Place, int]] = deque()

    def feed(self, place: Place, text: str) -> None:
        """Add the next chunk, which is at this place. Raises Withheld if the text is blocked."""
        if text:
            self._undecided.append((place, len(text)))
            self._put_pieces(self._redactor.feed(text))

    def finish(self) -> None:
        """End the text, so that all of it is decided. Raises Withheld if it is blocked."""
        self._put_pieces(self._redactor.finish())

    def cut_off(self) -> None:
        """End the text although it is incomplete. Raises Withheld if it is blocked."""
        self._put_pieces(self._redactor.cut_off())

    def waits(self, place: Place) -> bool:
        """Return whether some of the text at a place is undecided."""
        return any(place == undecided for undecided, _ in self._undecided)

    def _put_pieces(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, BlockedPiece):
                raise Withheld(_TOO_LONG.format(len(piece.original), piece.kind), piece.kind)
            rest, output = piece.original, piece.output
            while rest:
                place, length = self._undecided.popleft()
                size = min(length, len(rest))
                self._put(place, rest[:size] if isinstance(piece, KeptPiece) else output)
                rest, output = rest[size:], ""
                if length > size:
                    self._undecided.appendleft((place, length - size))
