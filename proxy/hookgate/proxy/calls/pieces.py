"""The pieces in which an answer passes its stages, and what a stage is.

A stream has a piece for each of its events, and a whole answer is one piece.
"""

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from hookgate.proxy.calls.answer_reading import MAX_ANSWER, answer_too_large
from hookgate.proxy.calls.endings import Instead
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.translator import Frame
from hookgate.translator.citations import with_moved_annotations
from hookgate.translator.fields import JsonObject, read, read_list
from hookgate.translator.streaming.events import TextChannel, join_texts
from hookgate.translator.strictjson import encode_answer

MANY_PIECES = 100
"""If a stage holds more pieces, they are judged or made whole in a thread."""

_PIECE_MEMORY = 512  # estimated bytes of a piece besides its text and values


@dataclass(slots=True)
class Piece:
    """One event of a stream as received, or a whole answer. An edit makes a new piece.

    It is not frozen, because creating one for each event of a stream would then take twice as long.
    """

    frame: Frame
    body: JsonObject | None
    """The parsed body; None if the piece contains no answer, for example an error."""
    response: JsonObject
    adapter: DialectAdapter
    work: int = 0
    """The work of the event as received, in bytes: see SMALL_BODY."""
    error: bytes | None = None
    """The redacted error; None if screens did not change it."""

    @property
    def finishes(self) -> bool:
        """Whether it has the end of the answer, or of one of several candidates."""
        return any(read(each, "finishReason") is not None for each in read_list(self.response, "candidates"))

    @property
    def may_be_edited(self) -> bool:
        """Whether hooks may have edited it. In most dialects, any piece may be."""
        return self.response is not self.body

    def data(self) -> bytes:
        """Return the JSON to send; the original bytes if nothing changed."""
        if self.body is None:
            return self.frame.data if self.error is None else self.error
        if self.response is self.body:
            return self.frame.data
        body = self.adapter.encode_answer(self.body, self.response)
        if body is self.body:
            return self.frame.data
        in_bytes = self.adapter.counts_bytes
        return encode_answer(with_moved_annotations(self.body, body, in_bytes=in_bytes))


def visible_text(pieces: Sequence[Piece]) -> str:
    """Return the text of the first candidate in these pieces, without thoughts."""
    return join_texts(responses_of(pieces)).get(TextChannel(0, thought=False), "")


def responses_of(pieces: Sequence[Piece]) -> list[JsonObject]:
    """Return the responses of the pieces that are part of the answer, without errors."""
    return [piece.response for piece in pieces if piece.body is not None]


def memory_of(piece: Piece) -> int:
    """Return the estimated memory of a piece in bytes. Its values may take much more memory than its text."""
    return piece.work + _PIECE_MEMORY


def received_bytes(pieces: Iterable[Piece]) -> int:
    """Return the size of the pieces as they were received."""
    size = 0
    for piece in pieces:
        size += len(piece.frame.raw)
    return size


def check_memory(held: int) -> None:
    """Raise ApiError (502) if pieces that are held take more bytes of memory than an answer may."""
    if held > MAX_ANSWER:
        raise answer_too_large()


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """An answer that does not reach the client to its end: the last pieces that may still be sent of it, and
    what comes instead of the rest. Hooks may have judged the answer to its end before.
    """

    pieces: list[Piece]
    instead: Instead


Passed: TypeAlias = list[Piece] | EarlyEnd
"""What a stage passes on."""


class AnswerStage(Protocol):
    """One step in judging an answer. It may end the answer with an EarlyEnd, or by raising ApiError."""

    def held_bytes(self) -> int:
        """Return the number of bytes that the stage holds back."""

    def feed(self, pieces: list[Piece], /) -> Awaitable[Passed]:
        """Judge further pieces, and return those that can now be passed on."""

    async def finish(self) -> Passed:
        """Judge and return the remaining pieces of a complete answer."""

    async def abandon(self) -> list[Piece]:
        """Return the pieces that may still be sent after the answer has ended early."""


class PassingStage:
    """A stage that holds nothing back."""

    def held_bytes(self) -> int:
        return 0

    async def finish(self) -> Passed:
        return []

    async def abandon(self) -> list[Piece]:
        return []


class HoldingStage:
    """A stage that may hold pieces back in one list, and discards them if the answer ends early."""

    def __init__(self) -> None:
        self._held: list[Piece] = []
        self._held_bytes = self._memory = 0  # counted as pieces come: there may be very many

    def held_bytes(self) -> int:
        return self._held_bytes

    def _hold(self, pieces: Sequence[Piece]) -> None:
        """Hold further pieces. Raises ApiError (502) if all of them exceed the memory limit of an answer."""
        self._held += pieces
        self._held_bytes += received_bytes(pieces)
        self._memory += sum(map(memory_of, pieces))
        check_memory(self._memory)

    def _take_held(self) -> list[Piece]:
        """Return the pieces that are held, and hold none of them any longer."""
        held, self._held = self._held, []
        self._held_bytes = self._memory = 0
        return held

    async def finish(self) -> Passed:
        return self._take_held()

    async def abandon(self) -> list[Piece]:
        self._take_held()
        return []
