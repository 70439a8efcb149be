"""Passes the model's answer through AfterModel hooks and the tool gate, whole or as a stream.

A stream passes one stage for each mode of its hooks, the finest first. Data that arrives while a hook runs
waits in the connection and is judged in one batch, so a slow hook runs less often.
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
from hookgate.proxy.call.context import OutgoingCall, RecordingEngine
from hookgate.proxy.call.tool_gate import RetryModel, ToolGate
from hookgate.proxy.call.verdicts import check_edit, enforce
from hookgate.proxy.errors import ApiError
from hookgate.proxy.http.bodies import MAX_ANSWER, checked_answer, read_answer, too_large
from hookgate.proxy.http.body_worker import SMALL_BODY, VALUE_BYTES, BodyWorker
from hookgate.proxy.routing.envelopes import Envelope
from hookgate.translator import BodyError, Frame, Framing, cut_events, join_events
from hookgate.translator.fields import JsonObject, read, read_list, without, write
from hookgate.translator.streaming.events import TextStrand, join_texts
from hookgate.translator.strictjson import dumps, loads

log = logging.getLogger("hookgate.gateway")

_LONG = 16 * 1024
"""Events with more bytes than this are judged in a thread: each byte may take several microseconds."""

_PIECE = 512  # estimated bytes of a piece besides its text and values

PieceBatches = AsyncIterator[list["Piece"]]


@dataclass(slots=True)
class Piece:
    """One event of a stream as received, or a whole answer; `response` contains the edits of hooks."""

    frame: Frame
    body: JsonObject | None
    """The parsed body; None if the piece contains no answer, for example a comment or an error."""
    response: JsonObject
    envelope: Envelope
    error: bytes | None = None
    """The redacted error; None if screens did not change it."""

    def data(self) -> bytes:
        """Return the JSON to send; the original bytes if nothing changed."""
        if self.body is None:
            return self.frame.data if self.error is None else self.error
        body = self.envelope.close_answer(self.body, self.response)
        return self.frame.data if body is self.body else dumps(body)


def spoken_text(pieces: Sequence[Piece]) -> str:
    """Return the text of the first candidate in these pieces, without thoughts."""
    return spoken_text_of([piece.response for piece in pieces if piece.body is not None])


def spoken_text_of(responses: Sequence[JsonObject]) -> str:
    """Return the text of the first candidate in these responses, without thoughts."""
    return join_texts(responses).get(TextStrand(0, thought=False), "")


def restore_pseudonyms(response: JsonObject, call: CallState) -> JsonObject:
    """Return the response with pseudonyms restored for the client."""
    for make in call.client_filters.values():
        [(_, response)] = make().judge([response], last=True)
    return response


def weight_of(piece: Piece) -> int:
    """Return the estimated memory of a piece in bytes; its values may need far more than its text."""
    raw = piece.frame.raw
    return len(raw) + _PIECE + VALUE_BYTES * (raw.count(b",") + raw.count(b"[") + raw.count(b"{"))


def held_bytes(pieces: Iterable[Piece]) -> int:
    """Return the size of the pieces as they were received."""
    size = 0
    for piece in pieces:
        size += len(piece.frame.raw)
    return size


class ScreenStage:
    """Passes pieces through a screen, which may delay or split them."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._held: dict[int, Piece] = {}
        self._count = 0
        self._released = -1
        self._endings: list[Piece] = []
        self._judging = False

    @property
    def held_bytes(self) -> int:
        """The size of pieces of which nothing was released, in bytes."""
        return held_bytes(piece for number, piece in self._held.items() if number > self._released)

    async def stream(self, batches: PieceBatches) -> PieceBatches:
        """Yield the pieces that the screen releases.

        If the stream breaks off, the screen releases the held pieces as for an answer that was cut off. An
        error, or the bracket that closes an array, ends the answer for the client, so it follows the held
        pieces. Raises Withheld if the screen denies the answer.
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

    async def judge_whole(self, pieces: list[Piece]) -> list[Piece]:
        """Judge a complete answer. Raises Withheld if the screen denies it."""
        return await self._judged(pieces, last=True)

    async def redact_error(self, data: bytes) -> bytes:
        """Redact an upstream error; returns the same object if unchanged. Raises Withheld if denied."""
        if self._screen.slow or len(data) > SMALL_BODY:
            return await asyncio.to_thread(self._redact_error, data)
        return self._redact_error(data)

    def _redact_error(self, data: bytes) -> bytes:
        try:
            value = loads(data)
        except BodyError:  # for example a proxy's HTML page
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
                new = await self.redact_error(came) if came else came
                self._endings.append(piece if new is came else replace(piece, error=new))
        return out + comments + (self._endings if last else [])


def _is_comment(piece: Piece) -> bool:
    return not piece.frame.data and piece.frame.raw.lstrip().startswith(b":")


class TurnEnd(Protocol):
    """A listener for the end of a turn."""

    async def ended(self, text: str) -> None:
        """Called with the text of an answer without function calls. Raises RetryModel to ask again."""


class AnswerPipeline:
    """Judges one answer under one engine."""

    def __init__(  # noqa: PLR0913  # all parts of judging
        self,
        engine: RecordingEngine,
        outgoing: OutgoingCall,
        body_worker: BodyWorker,
        gate: ToolGate | None,
        end: TurnEnd | None,
        *,
        keeps: bool,
    ) -> None:
        """Judge function calls with `gate`, and pass the text of an answer that ends a turn to `end`.

        Large answers are parsed in the `body_worker`. `keeps`: keep the answer for `answer`.
        """
        self.call = outgoing.call
        self._kept: list[JsonObject] | None = [] if keeps else None
        self._kept_weight = 0
        self._body_worker = body_worker
        self._read_bytes = 0
        self._screens: list[HookScreen] = []
        self._screen_stages: list[ScreenStage] = []
        self._holds: dict[str, list[Piece]] = {}
        self._engine, self._model = engine, outgoing.model
        self._llm_request, self._gate, self._end = outgoing.llm_request, gate, end

    @property
    def needs_parsing(self) -> bool:
        """Whether the answer must be parsed."""
        listeners = (self._llm_request, self._gate, self._end, self._kept)
        return bool(self.call.session.call_state.client_filters) or any(
            each is not None for each in listeners
        )

    @property
    def answer(self) -> JsonObject | None:
        """The joined answer after all hooks, before pseudonyms are restored; None if it is not kept."""
        return join_events(self._kept) if self._kept else None

    def held_bytes(self) -> int:
        """Return the bytes held back for hooks."""
        kept = sum(held_bytes(pieces) for pieces in self._holds.values())
        return kept + sum(stage.held_bytes for stage in self._screen_stages)

    async def judge_whole(self, data: bytes) -> bytes:
        """Return a complete answer after its hooks.

        Raises ReplacementAnswer or ApiError if a hook ends the call, RetryModel to ask the model again.
        """
        piece = await self._piece(Frame(data, data))
        if piece.body is None:
            return await self.redact_error(data)
        pieces = await self._gated(await self._fire([piece], None))
        if self._end is not None and not self._has_calls:
            await self._end.ended(spoken_text(pieces))
        self._keep(pieces)
        for screen in self._client_filters():
            pieces = await screen.judge_whole(pieces)
        return await self._body_worker.run(len(data), pieces[0].data)

    async def redact_error(self, data: bytes) -> bytes:
        """Redact an upstream error. Raises ApiError if a screen denies it."""
        if self._llm_request is not None:
            self._screens = self._engine.screens(self._event({}), self.call.session)
        try:
            for stage in (*map(ScreenStage, self._screens), *self._client_filters()):
                data = await stage.redact_error(data)
        except Withheld as verdict:
            enforce(Verdict("deny", reason=str(verdict)), AfterModel.name, self.call)
        return data

    def stream(self, frames: AsyncIterator[list[Frame]], framing: Framing) -> PieceBatches:
        """Yield the pieces to send."""
        batches = self._read(frames)
        modes = self._modes()
        for mode, window in modes.items():
            only = mode if len(modes) > 1 else None
            if mode == "held":
                self._screens = self._engine.screens(self._event({}), self.call.session)
                batches = self._screened(batches, framing)
            elif mode == "event":
                batches = self._judged_by_event(batches, only)
            elif mode == "window":
                batches = self._judged_by_window(batches, only, window)
            else:
                batches = self._judged_whole(batches, only)
        batches = batches if self._gate is None else self._gated_stream(batches)
        batches = batches if self._end is None else self._until_turn_end(batches, self._end)
        batches = batches if self._kept is None else self._recorded(batches)
        for screen in self._client_filters():
            batches = screen.stream(batches)
        return batches

    def close(self) -> None:
        """Record the screens' runs when the answer has ended."""
        for screen in self._screens:
            self._engine.record_screen(screen, self.call.session, self._read_bytes)

    def _modes(self) -> dict[StreamMode, int]:
        if self._llm_request is None:
            return {}
        return self._engine.stream_modes(self._event({}), self.call.session)

    def _client_filters(self) -> list[ScreenStage]:
        """Return the filters that are applied after all hooks: only the client sees their output."""
        return [ScreenStage(make()) for make in self.call.session.call_state.client_filters.values()]

    # ---- the stages

    async def _read(self, frames: AsyncIterator[list[Frame]]) -> PieceBatches:
        async for batch in frames:
            pieces: list[Piece] = []
            try:
                for frame in batch:
                    pieces.append(await self._piece(frame))  # noqa: PERF401  # those before an error count
            except ApiError:
                yield pieces  # the pieces before the error can be judged
                raise
            yield pieces

    async def _screened(self, batches: PieceBatches, framing: Framing) -> PieceBatches:
        self._screen_stages = [ScreenStage(screen) for screen in self._screens]
        if any(screen.enforces for screen in self._screens):
            batches = _without_comments(batches, framing)
        for stage in self._screen_stages:
            batches = stage.stream(batches)
        try:
            async for batch in batches:
                yield batch
        except Withheld as verdict:
            enforce(Verdict("deny", reason=str(verdict)), AfterModel.name, self.call)

    async def _judged_by_event(self, batches: PieceBatches, mode: StreamMode | None) -> PieceBatches:
        async for batch in batches:
            yield await self._fire(batch, mode)

    async def _judged_by_window(
        self, batches: PieceBatches, mode: StreamMode | None, window: int
    ) -> PieceBatches:
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

    async def _judged_whole(self, batches: PieceBatches, mode: StreamMode | None) -> PieceBatches:
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

    async def _gated_stream(self, batches: PieceBatches) -> PieceBatches:
        async for batch in batches:
            yield await self._gated(batch)

    async def _until_turn_end(self, batches: PieceBatches, end: TurnEnd) -> PieceBatches:
        """Hold the piece that ends the answer until hooks have judged all of its text."""
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

    async def _recorded(self, batches: PieceBatches) -> PieceBatches:
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
            log.warning("the answer is too large and is not added to the transcript or span")

    @property
    def _has_calls(self) -> bool:
        return self._gate is not None and self._gate.passed

    # ---- firing hooks

    def _event(self, response: JsonObject, mode: StreamMode | None = None) -> AfterModel:
        """Return the event for AfterModel hooks. Call it only if such hooks are configured."""
        assert self._llm_request is not None  # noqa: S101  # for the type checker
        return AfterModel(self._llm_request, response, self._model, mode)

    async def _piece(self, frame: Frame) -> Piece:
        size = len(frame.raw)
        self._read_bytes += size
        if size <= SMALL_BODY:
            return self._parse_piece(frame)
        self.call.session.call_state.offload = self._body_worker.run_in_thread
        return await self._body_worker.run(size, self._parse_piece, frame)

    def _parse_piece(self, frame: Frame) -> Piece:
        envelope = self.call.envelope
        body = read_answer(frame.data, self._body_worker.bounds) if frame.data else None
        if body is None or ("error" in body and read(envelope.open_answer(body), "candidates") is None):
            return Piece(frame, None, {}, envelope)
        return Piece(frame, body, checked_answer(envelope.open_answer(body)), envelope)

    async def _gated(self, pieces: list[Piece]) -> list[Piece]:
        if self._gate is not None:
            for piece in pieces:
                piece.response = await self._gate.judge(piece.response)
        return pieces

    async def _fire(self, pieces: list[Piece], mode: StreamMode | None) -> list[Piece]:
        """Run hooks on the joined pieces. Raises ReplacementAnswer or ApiError if a hook ends the call."""
        answers = pieces if len(pieces) == 1 and pieces[0].body is not None else _answers(pieces)
        if not answers or self._llm_request is None:
            return pieces
        size = held_bytes(answers)
        if size > SMALL_BODY:
            self.call.session.call_state.offload = self._body_worker.run_in_thread
        joined = (
            answers[0].response
            if len(answers) == 1
            else await self._body_worker.run(size, join_events, _responses(answers))
        )
        outcome = await self._engine.fire(self._event(joined, mode), self.call.session, size)
        enforce(outcome.verdict, AfterModel.name, self.call)
        edited = outcome.event.body
        if edited is not joined:
            if self.call.wants_json:
                await self._body_worker.run(size, check_edit, joined, edited, AfterModel.name)
            cut = await self._body_worker.run(size, cut_events, _responses(answers), joined, edited)
            for piece, response in zip(answers, cut, strict=True):
                piece.response = response
        return pieces


def _answers(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that are part of the answer, without comments and errors."""
    return [piece for piece in pieces if piece.body is not None]


def _responses(pieces: Sequence[Piece]) -> list[JsonObject]:
    return [piece.response for piece in pieces]


def _check_weight(held: Sequence[Piece]) -> None:
    """Raise ApiError (502) if the held pieces exceed the memory limit of an answer."""
    if sum(map(weight_of, held)) > MAX_ANSWER:
        raise too_large()


async def _without_comments(batches: PieceBatches, framing: Framing) -> PieceBatches:
    """Remove comments from the frames: screens do not read them, but some clients do."""
    async for batch in batches:
        yield [replace(piece, frame=framing.bare(piece.frame)) for piece in batch]


def _before_the_end(held: Sequence[Piece]) -> int:
    """Return the number of pieces before the end of the answer: a finishReason, or the end of its framing."""
    ends = (at for at, piece in enumerate(held) if _finishes(piece))
    last = next((at + 1 for at in reversed(range(len(held))) if held[at].body is not None), 0)
    return next(ends, last)


def _finishes(piece: Piece) -> bool:
    return any(read(each, "finishReason") is not None for each in read_list(piece.response, "candidates"))


def _unfinished(piece: Piece) -> Piece:
    """Remove finishReason from the piece, because another answer follows."""
    candidates = [without(each, "finishReason") for each in read_list(piece.response, "candidates")]
    if candidates:
        piece.response = write(piece.response, "candidates", candidates)
    return piece


def _beyond(held: Sequence[Piece], window: int) -> int:
    """Return the number of pieces that can be released: a full window of each of their strands follows.

    Pieces of a strand that has ended are also released once much more text than one window per strand
    follows.
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
