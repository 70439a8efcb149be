"""The model's answer before the AfterModel hooks and the tool gate: whole, or in the pieces of a stream.

A stream passes one stage for each mode of hooks that run for it, the finest first. What arrives while a hook
thinks waits in the connection, and is judged together: a slow hook runs less often, and does not fall behind.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from hookgate.hooks import AfterModel, CallState, Screen, Verdict, Withheld
from hookgate.hooks.screening import HookScreen
from hookgate.hooks.settings import StreamMode
from hookgate.proxy.call.context import OutgoingCall, RecordedEngine
from hookgate.proxy.call.tool_gate import RetryModel, ToolGate
from hookgate.proxy.call.verdicts import enforce
from hookgate.proxy.errors import ApiError
from hookgate.proxy.http.bodies import MAX_ANSWER, checked_answer, read_answer, too_large
from hookgate.proxy.http.workshop import SMALL_BODY, VALUE_BYTES, BodyWorker
from hookgate.proxy.routing.envelopes import Envelope
from hookgate.translator import BodyError, Frame, Framing, cut_events, join_events
from hookgate.translator.fields import JsonObject, read, read_list, without, write
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
    for make in call.client_filters.values():
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


log = logging.getLogger("hookgate.gateway")


class TurnEnd(Protocol):
    """Who wants to hear how a turn ended."""

    async def ended(self, text: str) -> None:
        """The whole text of an answer without calls. Raises RetryModel to have another one."""


class AnswerPipeline:
    """Judges one answer under one engine."""

    def __init__(  # noqa: PLR0913  # what takes part in judging
        self,
        engine: RecordedEngine,
        outgoing: OutgoingCall,
        workshop: BodyWorker,
        gate: ToolGate | None,
        end: TurnEnd | None,
        *,
        keeps: bool,
    ) -> None:
        """`gate` judges the answer's calls, `end` hears of its text when it ends a turn.

        Large answers are read in the `workshop`. `keeps`: the answer is wanted afterwards (`answer`).
        """
        self.call = outgoing.call
        self._kept: list[JsonObject] | None = [] if keeps else None
        self._kept_weight = 0
        self._workshop = workshop
        self._read_bytes = 0
        self._screens: list[HookScreen] = []
        self._screen_stages: list[ScreenStage] = []
        self._holds: dict[str, list[Piece]] = {}
        self._engine, self._model = engine, outgoing.model
        self._llm_request, self._gate, self._end = outgoing.llm_request, gate, end

    @property
    def has_work(self) -> bool:
        """Whether anybody looks at the answer."""
        lookers = (self._llm_request, self._gate, self._end, self._kept)
        return bool(self.call.session.call.client_filters) or any(each is not None for each in lookers)

    @property
    def answer(self) -> JsonObject | None:
        """The answer as the client got it, its events read as one; None when it is not kept."""
        return join_events(self._kept) if self._kept else None

    def held_bytes(self) -> int:
        """Bytes of the answer that wait for hooks just now."""
        kept = sum(held_bytes(pieces) for pieces in self._holds.values())
        return kept + sum(screened.held_bytes for screened in self._screen_stages)

    async def whole(self, data: bytes) -> bytes:
        """Return an answer that is not a stream, as hooks leave it. Raises SyntheticAnswer and ApiError."""
        piece = await self._piece(Frame(data, data))
        if piece.body is None:
            return await self.error(data)
        pieces = await self._gated(await self._fire([piece], None))
        if self._end is not None and not self._has_calls:
            await self._end.ended(spoken_text(pieces))
        self._keep(pieces)
        for screen in self._exits():
            pieces = await screen.whole(pieces)
        return await self._workshop.run(len(data), pieces[0].data)

    async def error(self, data: bytes) -> bytes:
        """An upstream's error as its client may read it: redacted as an answer is. Raises ApiError."""
        if self._llm_request is not None:
            self._screens = self._engine.screens(self._event({}), self.call.session)
        try:
            for screened in (*map(ScreenStage, self._screens), *self._exits()):
                data = await screened.redacted(data)
        except Withheld as verdict:
            enforce(Verdict("deny", reason=str(verdict)), AfterModel.name, self.call)
        return data

    def stream(self, frames: AsyncIterator[list[Frame]], framing: Framing) -> Batches:
        """The pieces of a stream, as far as they may go on."""
        batches = self._read(frames)
        modes = self._modes()
        for mode, window in modes.items():
            only = mode if len(modes) > 1 else None
            if mode == "held":
                self._screens = self._engine.screens(self._event({}), self.call.session)
                batches = self._by_screens(batches, framing)
            elif mode == "event":
                batches = self._by_event(batches, only)
            elif mode == "window":
                batches = self._by_window(batches, only, window)
            else:
                batches = self._complete(batches, only)
        batches = batches if self._gate is None else self._by_call(batches)
        batches = batches if self._end is None else self._to_the_end(batches, self._end)
        batches = batches if self._kept is None else self._keeping(batches)
        for screen in self._exits():
            batches = screen.stream(batches)
        return batches

    def close(self) -> None:
        """Nothing more comes of the answer: put on record what was made of it."""
        for screen in self._screens:
            self._engine.screened(screen, self.call.session, self._read_bytes)

    def _modes(self) -> dict[StreamMode, int]:
        if self._llm_request is None:
            return {}
        return self._engine.stream_modes(self._event({}), self.call.session)

    def _exits(self) -> list[ScreenStage]:
        """Return the filters that are applied after all hooks: only the client sees their output."""
        return [ScreenStage(make()) for make in self.call.session.call.client_filters.values()]

    # ---- the stages

    async def _read(self, frames: AsyncIterator[list[Frame]]) -> Batches:
        async for batch in frames:
            pieces: list[Piece] = []
            try:
                for frame in batch:
                    pieces.append(await self._piece(frame))  # noqa: PERF401  # those before an error count
            except ApiError:
                yield pieces  # what came before it can be judged
                raise
            yield pieces

    async def _by_screens(self, batches: Batches, framing: Framing) -> Batches:
        self._screen_stages = [ScreenStage(screen) for screen in self._screens]
        if any(screen.enforces for screen in self._screens):
            batches = _without_comments(batches, framing)
        for screened in self._screen_stages:
            batches = screened.stream(batches)
        try:
            async for batch in batches:
                yield batch
        except Withheld as verdict:
            enforce(Verdict("deny", reason=str(verdict)), AfterModel.name, self.call)

    async def _by_event(self, batches: Batches, mode: StreamMode | None) -> Batches:
        async for batch in batches:
            yield await self._fire(batch, mode)

    async def _by_window(self, batches: Batches, mode: StreamMode | None, window: int) -> Batches:
        held: list[Piece] = []
        async for batch in batches:
            held = await self._fire([*held, *batch], mode)
            if ready := _beyond(held, window):
                yield held[:ready]
                held = held[ready:]
            self._holds["window"] = held
            _check_weight(held)
        self._holds.clear()
        yield held

    async def _complete(self, batches: Batches, mode: StreamMode | None) -> Batches:
        held = self._holds["complete"] = []
        size = 0
        async for batch in batches:
            held += batch
            size += sum(map(weight_of, batch))
            if size > MAX_ANSWER:
                raise too_large()
        judged = await self._fire(held, mode)
        self._holds["complete"] = []
        yield judged

    async def _by_call(self, batches: Batches) -> Batches:
        async for batch in batches:
            yield await self._gated(batch)

    async def _to_the_end(self, batches: Batches, end: TurnEnd) -> Batches:
        """Hold the piece that ends the answer until hooks have heard all of it."""
        said: list[str] = []
        size = 0
        held: list[Piece] = []
        async for batch in batches:
            said.append(spoken_text(batch))
            size += len(said[-1])
            if size > MAX_ANSWER:
                raise too_large()
            held += batch
            ready = _before_the_end(held)
            if ready:
                yield held[:ready]
                held = held[ready:]
            self._holds["end"] = held
            _check_weight(held)
        if not self._has_calls:
            try:
                await end.ended("".join(said))
            except RetryModel:
                yield [_unfinished(piece) for piece in held if piece.body is not None]
                raise
        yield held

    async def _keeping(self, batches: Batches) -> Batches:
        async for batch in batches:
            self._keep(batch)
            yield batch

    def _keep(self, pieces: Sequence[Piece]) -> None:
        if self._kept is None:
            return
        self._kept += [piece.response for piece in pieces if piece.body is not None]
        self._kept_weight += sum(map(weight_of, pieces))
        if self._kept_weight > MAX_ANSWER:
            self._kept = None
            log.warning("an answer is too large for its transcript or span, which goes without it")

    @property
    def _has_calls(self) -> bool:
        return self._gate is not None and self._gate.passed

    # ---- firing hooks

    def _event(self, response: JsonObject, mode: StreamMode | None = None) -> AfterModel:
        """What AfterModel hooks are shown. Only called when there are such hooks."""
        assert self._llm_request is not None  # noqa: S101  # for the types
        return AfterModel(self._llm_request, response, self._model, mode)

    async def _piece(self, frame: Frame) -> Piece:
        size = len(frame.raw)
        self._read_bytes += size
        if size <= SMALL_BODY:
            return self._parse_piece(frame)
        self.call.session.call.offload = self._workshop.run_in_thread
        return await self._workshop.run(size, self._parse_piece, frame)

    def _parse_piece(self, frame: Frame) -> Piece:
        envelope = self.call.envelope
        body = read_answer(frame.data, self._workshop.bounds) if frame.data else None
        if body is None or ("error" in body and read(envelope.open_answer(body), "candidates") is None):
            return Piece(frame, None, {}, envelope)
        return Piece(frame, body, checked_answer(envelope.open_answer(body)), envelope)

    async def _gated(self, pieces: list[Piece]) -> list[Piece]:
        if self._gate is not None:
            for piece in pieces:
                piece.response = await self._gate.judged(piece.response)
        return pieces

    async def _fire(self, pieces: list[Piece], mode: StreamMode | None) -> list[Piece]:
        """Show the pieces to the hooks as one answer. Raises SyntheticAnswer and ApiError."""
        answers = pieces if len(pieces) == 1 and pieces[0].body is not None else _answers(pieces)
        if not answers or self._llm_request is None:
            return pieces
        size = held_bytes(answers)
        if size > SMALL_BODY:
            self.call.session.call.offload = self._workshop.run_in_thread
        joined = (
            answers[0].response
            if len(answers) == 1
            else await self._workshop.run(size, join_events, _responses(answers))
        )
        outcome = await self._engine.fire(self._event(joined, mode), self.call.session, size)
        enforce(outcome.verdict, AfterModel.name, self.call)
        edited = outcome.event.body
        if edited is not joined:
            cut = await self._workshop.run(size, cut_events, _responses(answers), joined, edited)
            for piece, response in zip(answers, cut, strict=True):
                piece.response = response
        return pieces


def _answers(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that are part of the answer, without comments and errors."""
    return [piece for piece in pieces if piece.body is not None]


def _responses(pieces: Sequence[Piece]) -> list[JsonObject]:
    return [piece.response for piece in pieces]


def _check_weight(held: Sequence[Piece]) -> None:
    """Raises ApiError (502) for more of an answer than can be held."""
    if sum(map(weight_of, held)) > MAX_ANSWER:
        raise too_large()


async def _without_comments(batches: Batches, framing: Framing) -> Batches:
    """The pieces without what stands beside their JSON: no screen reads it, and some clients do."""
    async for batch in batches:
        yield [replace(piece, frame=framing.bare(piece.frame)) for piece in batch]


def _before_the_end(held: Sequence[Piece]) -> int:
    """How many pieces stand before what may end the answer: a finishReason, or what closes its framing."""
    ends = (at for at, piece in enumerate(held) if _finishes(piece))
    last = next((at + 1 for at in reversed(range(len(held))) if held[at].body is not None), 0)
    return next(ends, last)


def _finishes(piece: Piece) -> bool:
    return any(read(each, "finishReason") is not None for each in read_list(piece.response, "candidates"))


def _unfinished(piece: Piece) -> Piece:
    """The piece without the end of its answer, since another one follows."""
    candidates = [without(each, "finishReason") for each in read_list(piece.response, "candidates")]
    if candidates:
        piece.response = write(piece.response, "candidates", candidates)
    return piece


def _beyond(held: Sequence[Piece], window: int) -> int:
    """How many pieces may go: behind each of their texts stands a whole window of the same strand.

    A strand that ended does not hold up the others for ever: when much more of them has come than a window
    each, it may go too.
    """
    behind: Counter[TextStrand] = Counter()
    may_go: list[bool] = []
    for piece in reversed(held):
        texts = join_texts([piece.response])
        enough = behind.total() >= 2 * window * len(behind.keys() | texts.keys())
        may_go.append(enough or all(behind[strand] >= window for strand in texts))
        behind.update({strand: len(text) for strand, text in texts.items()})
    may_go.reverse()
    return may_go.index(False) if False in may_go else len(may_go)
