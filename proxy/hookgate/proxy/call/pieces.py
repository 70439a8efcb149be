"""The pieces in which an answer travels: one event of a stream as it came, or a whole answer."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hookgate.hooks import CallState, Screen
from hookgate.proxy.http.workshop import SMALL_BODY, VALUE_BYTES
from hookgate.proxy.routing.envelopes import Envelope
from hookgate.translator import BodyError, Frame
from hookgate.translator.fields import JsonObject
from hookgate.translator.streaming.events import TextStrand, join_texts
from hookgate.translator.strictjson import dumps, loads

_LONG = 16 * 1024
"""Bytes of events that are judged in a thread: each may be made to take several microseconds."""

_PIECE = 512  # bytes of a piece beside its text and values

Batches = AsyncIterator[list["Piece"]]


@dataclass(slots=True)
class Piece:
    """One event of a stream as it came, or a whole answer; `response` is what hooks have made of it."""

    frame: Frame
    body: JsonObject | None
    """Its body; None for a piece that holds no answer: a comment, or an error."""
    response: JsonObject
    envelope: Envelope
    error: bytes | None = None
    """What screens have made of an error; None where they left it alone."""

    def data(self) -> bytes:
        """The JSON to send: the very bytes that came when nothing was changed."""
        if self.body is None:
            return self.frame.data if self.error is None else self.error
        body = self.envelope.close_answer(self.body, self.response)
        return self.frame.data if body is self.body else dumps(body)


def spoken_text(pieces: Sequence[Piece]) -> str:
    """What the first candidate says in these pieces, without its thoughts."""
    joined = join_texts([piece.response for piece in pieces if piece.body is not None])
    return joined.get(TextStrand(0, thought=False), "")


def restore_pseudonyms(response: JsonObject, call: CallState) -> JsonObject:
    """A whole response as its client shall have it, behind all hooks."""
    for make in call.exits.values():
        [(_, response)] = make().judge([response], last=True)
    return response


def weight_of(piece: Piece) -> int:
    """About how many bytes of memory a piece takes: what its values need may be far more than its text."""
    raw = piece.frame.raw
    return len(raw) + _PIECE + VALUE_BYTES * (raw.count(b",") + raw.count(b"[") + raw.count(b"{"))


def held_bytes(pieces: Iterable[Piece]) -> int:
    """Return the size of the pieces as they were received."""
    size = 0
    for piece in pieces:
        size += len(piece.frame.raw)
    return size


class ScreenStage:
    """Pieces on their way through a screen, which may give one in several, later than it came."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._held: dict[int, Piece] = {}
        self._count = 0
        self._released = -1
        self._endings: list[Piece] = []
        self._judging = False

    @property
    def held_bytes(self) -> int:
        """Bytes of the pieces of which nothing has gone on yet."""
        return held_bytes(piece for number, piece in self._held.items() if number > self._released)

    async def stream(self, batches: Batches) -> Batches:
        """The pieces as far as they may go on.

        When the stream breaks off, what is held goes on as the screen gives an answer that was cut off.
        An error, or the bracket that closes an array, ends the answer for its client: it goes behind what is
        held. Raises Withheld.
        """
        try:
            async for batch in batches:
                yield await self._judged(batch, last=False)
        except Exception:  # what was held is released even if the stream failed
            if not self._judging:  # a screen that has refused an answer, or failed, releases nothing
                yield await self._judged([], last=True, cut_off=True)
            raise
        failed = any(piece.frame.data for piece in self._endings)
        yield await self._judged([], last=True, cut_off=failed)

    async def whole(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces of an answer that is no stream. Raises Withheld."""
        return await self._judged(pieces, last=True)

    async def redacted(self, data: bytes) -> bytes:
        """An error as it may go on; the very object where nothing is found. Raises Withheld."""
        if self._screen.slow or len(data) > SMALL_BODY:
            return await asyncio.to_thread(self._redacted, data)
        return self._redacted(data)

    def _redacted(self, data: bytes) -> bytes:
        try:
            value = loads(data)
        except BodyError:  # a page of a proxy's, perhaps
            value = data.decode(errors="surrogateescape")
        new = self._screen.redact(value)
        if new is value:
            return data
        return new.encode(errors="surrogateescape") if isinstance(value, str) else dumps(new)

    async def _judged(self, batch: list[Piece], *, last: bool, cut_off: bool = False) -> list[Piece]:
        answers = [piece for piece in batch if piece.body is not None]
        self._held |= enumerate(answers, self._count)
        self._count += len(answers)
        responses = [piece.response for piece in answers]
        self._judging = True
        judge = partial(self._screen.judge, responses, last=last, cut_off=cut_off)
        if self._screen.slow or held_bytes(answers) > _LONG:
            released = await asyncio.to_thread(judge)
        else:
            released = judge()
        self._judging = False
        out = [replace(self._held[number], response=response) for number, response in released]
        if released:
            self._released = released[-1][0]
            self._held = {number: piece for number, piece in self._held.items() if number >= released[-1][0]}
        comments = [piece for piece in batch if piece.body is None and _is_comment(piece)]
        for piece in batch:
            if piece.body is None and not _is_comment(piece):
                came = piece.data()
                new = await self.redacted(came) if came else came
                self._endings.append(piece if new is came else replace(piece, error=new))
        return out + comments + (self._endings if last else [])


def _is_comment(piece: Piece) -> bool:
    return not piece.frame.data and piece.frame.raw.lstrip().startswith(b":")
