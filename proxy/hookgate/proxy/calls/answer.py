"""Passes the model's answer through AfterModel hooks and the tool gate, whole or as a stream.

A stream passes through several stages: those of its hooks by stream mode, from single events to the whole
answer, and then the gate. Data that arrives while a hook runs waits in the connection and is then judged in
one batch, so a slow hook runs less often.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from hookgate.hooks import AfterModel, Withheld
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.screening import HookScreen
from hookgate.hooks.settings import StreamMode
from hookgate.proxy.calls.answer_stages import (
    AnswerListener,
    AnswerStage,
    CitationStage,
    CitedTexts,
    CompleteStage,
    Cut,
    EventStage,
    GateStage,
    JsonStage,
    ListenerStage,
    OriginalStage,
    OriginalTextStage,
    Passed,
    Piece,
    RecordingStage,
    ScreenStage,
    TurnEndListener,
    TurnEndStage,
    WindowStage,
    denied_answer,
    memory_of,
    received_bytes,
    responses_of,
)
from hookgate.proxy.calls.context import JudgedCall, OutgoingCall, RecordingEngine
from hookgate.proxy.calls.outcomes import AskAgain, Ended, as_value
from hookgate.proxy.calls.tools import ToolGate
from hookgate.proxy.calls.verdicts import ended_by
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.dialects.generate_content import GenerateContent
from hookgate.proxy.server.bodies import (
    MAX_ANSWER,
    SMALL_BODY,
    TOO_MANY,
    BodyWorker,
    check_frame,
    is_error,
    unreadable_answer,
    work_of,
)
from hookgate.translator import BodyError, Frame, Framing, check_response, cut_events, join_events
from hookgate.translator.checks import check_items
from hookgate.translator.citations import with_moved_citations
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads, with_whole_characters

log = logging.getLogger("hookgate.gateway")


_PIECES_AT_ONCE = 1000
"""If more pieces of a stream are received at once, other calls run in between."""

AnswerEnd = Literal["finish", "abandon"]
"""How an answer ends: "finish" if it is complete, "abandon" if it is cut off."""


async def redacted_error(engine: RecordingEngine, plan: EventPlan, call: JudgedCall, data: bytes) -> bytes:
    """Return an upstream error after the screens of a plan.

    Raises Withheld if a screen denies it, and ApiError (502) if it cannot be read.
    """
    size, screens = len(data), engine.screens(plan, call.session)
    try:
        for screen in screens:
            data = await ScreenStage(screen, call).redact_error(data)
    finally:
        for screen in screens:
            engine.record_screen(screen, call.session, size)
    return data


async def _pass_through(stage: AnswerStage, pieces: list[Piece], end: AnswerEnd | None) -> Passed:
    """Pass pieces through a stage, and then the end of the answer, if this is it."""
    passed = await stage.feed(pieces) if pieces else pieces
    if end is None or isinstance(passed, Cut):
        return passed
    return _after(passed, await (stage.finish() if end == "finish" else stage.abandon()))


def _after(before: list[Piece], passed: Passed) -> Passed:
    """Return pieces, and what passes after them."""
    return Cut([*before, *passed.pieces], passed.outcome) if isinstance(passed, Cut) else [*before, *passed]


class AnswerPipeline:
    """Judges one answer with the hooks of one engine."""

    def __init__(  # noqa: PLR0913  # everything that judges an answer
        self,
        engine: RecordingEngine,
        outgoing: OutgoingCall,
        body_worker: BodyWorker,
        gate: ToolGate | None,
        turn_end: TurnEndListener | None,
        *,
        keep_answer: bool,
        listener: AnswerListener | None = None,
    ) -> None:
        """Create the pipeline.

        Args:
            engine: Runs the hooks.
            outgoing: The call that is answered.
            body_worker: Parses large answers.
            gate: Judges function calls; None if nothing judges them.
            turn_end: Receives the text of an answer that ends a turn; None if no hook needs it.
            keep_answer: Whether `answer` will be used.
            listener: Receives what has passed all hooks.
        """
        self.call = outgoing.call
        self._offload = self.call.session.call_state.offload
        self._in_thread = self.call.session.call_state.in_thread
        self._kept: list[JsonObject] | None = [] if keep_answer else None
        self._kept_memory = 0
        self._body_worker = body_worker
        self._read_bytes = 0
        self._screens: list[HookScreen] = []
        self._stages: list[AnswerStage] = []
        self._framing: Framing | None = None
        self._event_work = 0  # an estimate for the event that is being received
        self._drops_comments = False
        self._engine, self._model = engine, outgoing.model
        self._llm_request, self._plan = outgoing.llm_request, outgoing.after_model_plan
        self._gate, self._turn_end, self._listener = gate, turn_end, listener

    @property
    def needs_parsing(self) -> bool:
        """Whether the answer must be parsed."""
        if self._plan.groups or self.call.session.call_state.client_filters:
            return True
        return any(each is not None for each in (self._kept, self._gate, self._turn_end, self._listener))

    @property
    def answer(self) -> JsonObject | None:
        """The joined answer after all hooks, before pseudonyms are restored; None if it was not kept."""
        return join_events(self._kept) if self._kept else None

    def held_bytes(self) -> int:
        """Return the number of bytes held back for hooks."""
        return sum(stage.held_bytes() for stage in self._stages)

    async def judge_whole(self, data: bytes) -> bytes | Ended | AskAgain:
        """Return a complete answer after its hooks, or what comes instead of it."""
        self._read_bytes, work = len(data), work_of(data)
        piece = await self._parse(Frame(data, data))
        if piece.body is None:
            return await self.redact_error(data)
        self._prepare([EventStage(self._fire)] if self._plan.groups else [], is_whole=True)
        passed = await self._advance([piece], "finish")
        if isinstance(passed, Cut):
            return passed.outcome
        [judged] = passed
        if judged.response is not piece.response:
            moved = await self._body_worker.run(work, with_moved_citations, piece.response, judged.response)
            judged = replace(judged, response=moved)
        return await self._body_worker.run(work, judged.data)

    async def redact_error(self, data: bytes) -> bytes | Ended:
        """Redact an upstream error, or return what the client receives if a screen denies it."""
        try:
            data = await redacted_error(self._engine, self._plan, self.call, data)
            for stage in self._client_filters():
                data = await stage.redact_error(data)
        except Withheld as withheld:
            return denied_answer(withheld, self.call)
        return data

    # ---- streamed answers

    def begin_stream(self, framing: Framing) -> None:
        """Prepare for a streamed answer with this framing."""
        self._framing = framing
        modes = self._plan.stream_modes.items()
        self._prepare([stage for mode, window in modes for stage in self._hook_stages(mode, window)])
        self._drops_comments = any(screen.enforces for screen in self._screens)

    def _prepare(self, hook_stages: Sequence[AnswerStage], *, is_whole: bool = False) -> None:
        """Set the stages of the answer, in order. A whole answer is a stream of one piece."""
        edits = hook_stages or self.call.session.call_state.client_filters
        cited = CitedTexts() if edits and not is_whole else None
        original = OriginalStage() if hook_stages and self.call.requires_json else None
        if cited is not None:
            self._stages.append(OriginalTextStage(cited))
        if original is not None:
            self._stages.append(original)
        self._stages += hook_stages
        if original is not None:
            self._stages.append(JsonStage(original, self._body_worker))
        if self._gate is not None:
            self._stages.append(GateStage(self._gate, self._in_thread))
        if self._turn_end is not None:
            self._stages.append(TurnEndStage(self._turn_end, self._gate))
        if self._kept is not None:
            self._stages.append(RecordingStage(self._keep))
        if self._listener is not None:
            self._stages.append(ListenerStage(self._listener))
        self._stages += [EventStage(self._filter_whole)] if is_whole else self._client_filters()
        if cited is not None:
            self._stages.append(CitationStage(cited, self._in_thread))

    def _hook_stages(self, mode: StreamMode, window: int) -> Sequence[AnswerStage]:
        """Return the stages of the hooks with a stream mode."""
        judge = partial(self._fire, mode=mode, plan=self._plan_for(mode))
        match mode:
            case "held":
                self._screens = self._engine.screens(self._plan, self.call.session)
                return [ScreenStage(screen, self.call) for screen in self._screens]
            case "event":
                return [EventStage(judge)]
            case "window":
                return [WindowStage(judge, window)]
            case _:
                return [CompleteStage(judge)]

    def _plan_for(self, mode: StreamMode) -> EventPlan:
        """Return the hooks of one stream mode."""
        if len(self._plan.stream_modes) == 1:
            return self._plan
        event = AfterModel(SharedValue({}), {}, self._model, mode)
        return self._engine.plan(event, self.call.session)

    async def feed(self, chunk: bytes, *, last: bool = False) -> Passed:
        """Judge the next bytes of the answer, and return the pieces that can be sent, or its end.

        With `last`, the answer is complete: `chunk` has its last bytes, if any, and nothing is held back.
        """
        assert self._framing is not None  # noqa: S101  # for the type checker
        self.call.session.call_state.offload = self._offload  # an earlier event may have been large
        pieces: list[Piece] = []
        released: list[Piece] = []
        end: AnswerEnd | None = "finish" if last else None
        error: ApiError | None = None
        framing = self._framing
        try:
            if framing.parses_events:
                frames = await self._parsed_frames(framing, chunk, last=last)
            else:
                frames = [*framing.feed(chunk), *(framing.finish() if last else ())]
            for received in frames:
                if len(pieces) == _PIECES_AT_ONCE:
                    passed = await self._advance(pieces, None)
                    if isinstance(passed, Cut):
                        return _after(released, passed)
                    released, pieces = [*released, *passed], []
                    await self.call.session.call_state.pause()
                frame = received
                if not received.data and is_error(received.raw):
                    frame = Frame(received.raw, received.raw, is_bare=True)
                elif not received.is_plain:
                    check_frame(framing, received)
                    if self._drops_comments:  # screens do not read comments, but some clients do
                        frame = framing.bare(received)
                self._read_bytes += len(received.raw)
                is_small = work_of(frame.raw) <= SMALL_BODY
                pieces.append(self._parse_piece(frame) if is_small else await self._parse(frame))
        except BodyError as unreadable:
            error, end = unreadable_answer(str(unreadable)), "abandon"
        except ApiError as raised:  # the pieces before it are judged first
            error, end = as_value(raised), "abandon"
        return _after(released, await self._advance(pieces, end, error))

    async def _parsed_frames(self, framing: Framing, chunk: bytes, *, last: bool) -> list[Frame]:
        """Return the frames that the next bytes complete. Raises BodyError.

        A large event, which may become many frames, is parsed in a thread.
        """
        self._event_work = (self._event_work if framing.is_in_event else 0) + work_of(chunk)
        frames = await self._body_worker.run(self._event_work, framing.feed, chunk)
        return [*frames, *await self._body_worker.run(self._event_work, framing.finish)] if last else frames

    async def abandon(self) -> Passed:
        """Return the pieces that may still be sent of an answer that the upstream has cut off."""
        return await self._advance([], "abandon")

    async def _advance(
        self, pieces: list[Piece], end: AnswerEnd | None, outcome: Ended | AskAgain | None = None
    ) -> Passed:
        """Pass pieces through all stages. If one of them ends the answer, the later ones are abandoned."""
        for stage in self._stages:
            try:
                passed = await _pass_through(stage, pieces, end)
            except ApiError as error:
                passed = Cut(await stage.abandon(), as_value(error))
            if isinstance(passed, Cut):
                pieces, outcome, end = passed.pieces, passed.outcome, "abandon"
            else:
                pieces = passed
        return pieces if outcome is None else Cut(pieces, outcome)

    def close(self) -> None:
        """Record the runs of the screens, and free the stages. Call this after the end of the answer."""
        for screen in self._screens:
            self._engine.record_screen(screen, self.call.session, self._read_bytes)
        self._stages.clear()  # they refer to the pipeline

    # ---- whole and streamed answers

    async def _filter_whole(self, pieces: list[Piece]) -> Passed:
        """Apply the client's filters to a whole answer: its hooks, which have run, may have added some."""
        for stage in self._client_filters():
            passed = await stage.judge_whole(pieces)
            if isinstance(passed, Cut):
                return passed
            pieces = passed
        return pieces

    def _client_filters(self) -> list[ScreenStage]:
        """Return the filters that are applied after all hooks: only the client sees their output."""
        return [
            ScreenStage(make(), self.call) for make in self.call.session.call_state.client_filters.values()
        ]

    async def _parse(self, frame: Frame) -> Piece:
        work = work_of(frame.raw)
        if work > SMALL_BODY:
            self.call.session.call_state.offload = self._body_worker.offload(work)
        return await self._body_worker.run(work, self._parse_piece, frame)

    def _parse_piece(self, frame: Frame) -> Piece:
        adapter, bounds = self.call.adapter, self._body_worker.bounds
        if not frame.data:
            return Piece(frame, None, {}, adapter)
        try:
            try:
                body = loads(frame.data, bounds)
            except BodyError:
                if (data := with_whole_characters(frame.data)) is frame.data:
                    raise
                frame = Frame(with_whole_characters(frame.raw), data)
                body = loads(data, bounds)
            if len(frame.data) > self._body_worker.limits.items:
                check_items(body, self._body_worker.limits.items, TOO_MANY)
            if type(body) is not dict:
                raise BodyError("", "it is not a JSON object")
            if "error" in body and len(body) == 1:  # with other fields, it is judged like any other answer
                return Piece(frame, None, {}, adapter)
            # GenerateContent returns the body itself; this saves a call for each event of a stream.
            response = body if type(adapter) is GenerateContent else adapter.open_answer(body)
            return Piece(frame, body, check_response(response), adapter)
        except BodyError as error:
            raise unreadable_answer(str(error)) from None

    def _keep(self, pieces: Sequence[Piece]) -> None:
        """Keep the pieces for `answer`, unless there are too many."""
        if self._kept is None:
            return
        self._kept += [piece.response for piece in pieces if piece.body is not None]
        self._kept_memory += sum(map(memory_of, pieces))
        if self._kept_memory > MAX_ANSWER:
            self._kept = None
            log.warning("the answer is too large and is not added to the transcript or span")

    async def _fire(
        self, pieces: list[Piece], mode: StreamMode | None = None, plan: EventPlan | None = None
    ) -> Passed:
        """Run hooks on the joined pieces, and return these with the hooks' edits.

        For a part of a streamed answer, `plan` restricts the run to the hooks of one stream mode.
        """
        if not (self._plan.groups and pieces):
            return pieces
        answers = pieces
        if len(pieces) > 1 or pieces[0].body is None:
            answers = [piece for piece in pieces if piece.body is not None]
            if not answers:
                return pieces
        size = len(answers[0].frame.raw) if len(answers) == 1 else received_bytes(answers)
        work = sum([work_of(piece.frame.raw) for piece in answers])
        if work > SMALL_BODY:
            self.call.session.call_state.offload = self._body_worker.offload(work)
        joined = (
            answers[0].response
            if len(answers) == 1
            else await self._body_worker.run(work, join_events, responses_of(answers))
        )
        event = AfterModel(self._llm_request, joined, self._model, mode)
        outcome = await self._engine.fire(event, self.call.session, size, plan or self._plan)
        if ended := ended_by(outcome.verdict, AfterModel.name, self.call):
            return Cut([], ended)
        edited = outcome.event.body
        if edited is joined:
            return pieces
        cut = iter(await self._body_worker.run(work, cut_events, responses_of(answers), joined, edited))
        return [piece if piece.body is None else replace(piece, response=next(cut)) for piece in pieces]
