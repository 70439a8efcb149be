"""Judges one answer, whole or streamed, with AfterModel hooks, the tool gate and AfterAgent hooks.

Data that arrives while a hook runs waits in the connection and is then judged together, so a slow hook runs
less often.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from hookgate.hooks import AfterAgent, AfterModel, BeforeTool, Withheld
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.screening import HookScreen
from hookgate.hooks.settings import StreamMode
from hookgate.proxy.calls.answer_reading import (
    MAX_ANSWER,
    answer_too_large,
    check_frame,
    is_error,
    unreadable_answer,
)
from hookgate.proxy.calls.answer_stages import (
    CompleteStage,
    CopyStage,
    EventStage,
    GateStage,
    JsonStage,
    ObserverStage,
    OriginalStage,
    TurnEndStage,
    WholeCallsStage,
)
from hookgate.proxy.calls.citation_stage import CitationStage, CitedTexts
from hookgate.proxy.calls.endings import Ended, Instead, as_value
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.pacing import CallSteps
from hookgate.proxy.calls.pieces import (
    AnswerStage,
    EarlyEnd,
    Passed,
    Piece,
    memory_of,
    received_bytes,
    responses_of,
)
from hookgate.proxy.calls.request import JudgedRequest
from hookgate.proxy.calls.screen_stage import ScreenStage, denied_answer, error_after_screens
from hookgate.proxy.calls.sent_text import SentText
from hookgate.proxy.calls.session_events import TurnEndEvents
from hookgate.proxy.calls.tools import (
    AllowedTools,
    DeclaredTools,
    DistinctCalls,
    ToolCallEvents,
    ToolCallRule,
    ToolGate,
)
from hookgate.proxy.calls.window_stage import WindowStage
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.server.bodies import SMALL_BODY, TOO_MANY, work_of, work_of_lines
from hookgate.proxy.server.memory import VALUE_BYTES
from hookgate.translator import (
    BodyError,
    DeclaredNames,
    Frame,
    Framing,
    check_response,
    join_events,
    split_edit,
)
from hookgate.translator.answer_types import typed_answer
from hookgate.translator.checks import MAX_CANDIDATES, check_items, check_prototypes
from hookgate.translator.citations import with_moved_citations
from hookgate.translator.fields import JsonObject, TooLargeError, read_list
from hookgate.translator.streaming.edits import LONG_EDIT
from hookgate.translator.streaming.framing import with_whole_text
from hookgate.translator.streaming.sources import TextOrder
from hookgate.translator.strictjson import loads

log = logging.getLogger("hookgate.gateway")

T = TypeVar("T")

_ERROR_BESIDE = "it stands beside candidates; some clients show only one of them"

_CANDIDATES_AT_ONCE = 250
"""If a stream has more candidates in pieces that are received at once, other calls run in between."""

_FEW_VALUES = 64 * VALUE_BYTES
"""The work below which a piece of a stream has few candidates."""

AnswerEnd = Literal["finish", "abandon"]
"""How an answer ends: "finish" if it is complete, "abandon" if it is cut off."""


@dataclass(frozen=True, slots=True)
class AskAgainRules:
    """Whether the model may be asked again instead of sending its answer, and for what."""

    may_ask_again: bool = False
    unselected_asks_again: bool = False
    """Whether it is asked again if it calls a tool that was not selected."""
    answer_rejected: bool = False
    """Whether a hook has rejected an earlier final answer."""


class AnswerPipeline:
    """Judges one answer of the model."""

    def __init__(  # noqa: PLR0913  # everything that decides how an answer is judged
        self,
        judge: Judge,
        request: JudgedRequest,
        adapter: DialectAdapter,
        steps: CallSteps,
        *,
        ends_turn: bool = False,
        ask_again_rules: AskAgainRules = AskAgainRules(),
        keep_answer: bool = False,
        observers: Sequence[CallObserver] = (),
        sent: SentText | None = None,
    ) -> None:
        """Create the pipeline.

        Args:
            judge: Runs the hooks.
            request: The request that is answered.
            adapter: Reads and writes the bodies of the answer.
            steps: Runs the steps of the call.
            ends_turn: Whether the answer can end a turn.
            ask_again_rules: Whether the model may be asked again, and for what.
            keep_answer: Whether `answer` will be used.
            observers: Observers that may want the parts of the answer.
            sent: What the client has received of earlier answers, to which what it receives of this one is
                added if another one may follow.
        """
        self._judge, self._model, self._adapter = judge, request.model, adapter
        self._steps, self._worker, self._request_work = steps, steps.worker, steps.work
        self._llm_request, self._plan = request.llm_request, request.plan
        self._candidates = min(request.candidates, MAX_CANDIDATES)
        self._turn_end = _turn_end(judge, request, ask_again_rules) if ends_turn else None
        self._gate = _tool_gate(judge, request, ask_again_rules, self._turn_end)
        self._observers = [each for each in observers if each.wants_parts]
        self._sent = sent or SentText()
        self._may_be_continued = ask_again_rules.may_ask_again and self._gate is not None
        self._kept: list[JsonObject] | None = [] if keep_answer else None
        self._kept_memory = 0
        self.read_bytes = 0
        """The bytes of the answer that have been received."""
        self._screens: list[HookScreen] = []
        self._stages: list[AnswerStage] = []
        self._framing: Framing | None = None
        self._meter: AnswerMeter | None = None
        self._order = TextOrder()
        self._cited: CitedTexts | None = None
        self._event_work = 0  # an estimate for the event that is being received

    @property
    def needs_parsing(self) -> bool:
        """Whether the answer must be parsed."""
        if self._plan.groups or self._judge.session.call_state.client_filters:
            return True
        return bool(self._observers) or (self._kept, self._gate, self._turn_end) != (None, None, None)

    @property
    def answer(self) -> JsonObject | None:
        """The joined answer after all hooks, before pseudonyms are restored; None if it was not kept."""
        return join_events(self._kept) if self._kept else None

    def held_bytes(self) -> int:
        """Return the number of bytes held back for hooks."""
        return sum(stage.held_bytes() for stage in self._stages)

    def buffered_bytes(self) -> int:
        """Return the estimated memory of what is held back, and of what the framing keeps, in bytes."""
        return self.held_bytes() + (self._framing.kept_bytes if self._framing is not None else 0)

    # ---- a whole answer

    async def judge_whole(self, data: bytes, meter: AnswerMeter | None = None) -> bytes | Instead:
        """Return a whole answer after its hooks, or what comes instead of it. `meter` reads it, if given."""
        self.read_bytes, self._meter, work = len(data), meter, work_of(data)
        piece = await self._parse(Frame(data, data), work)
        if piece.body is None:
            return await self.redact_error(data)
        self._build_stages([EventStage(self._fire)] if self._plan.groups else [], is_whole=True)
        passed = await self._advance([piece], "finish")
        if isinstance(passed, EarlyEnd):
            return passed.instead
        [judged] = passed
        if judged.response is piece.response:
            return await self._steps.run_for(work, judged.data)
        moved = await self._run_edit(len(data), work, with_moved_citations, piece.response, judged.response)
        return await self._run_edit(len(data), work, replace(judged, response=moved).data)

    # ---- a streamed answer

    def begin_stream(self, framing: Framing, meter: AnswerMeter | None = None) -> None:
        """Prepare for a streamed answer with this framing. `meter`, if given, reads its events."""
        self._framing, self._meter, modes = framing, meter, self._plan.stream_modes
        self._screens = self._judge.screens(self._plan) if "held" in modes else []
        stages = [stage for mode, window in modes.items() for stage in self._hook_stages(mode, window)]
        self._build_stages(stages)

    async def feed(self, chunk: bytes, *, last: bool = False) -> Passed:
        """Judge the next bytes of the answer, and return the pieces that can be sent, or its end.

        With `last`, the answer is complete: `chunk` has its last bytes, if any, and nothing is held back.
        """
        self._steps.work = self._request_work  # an earlier event may have been large
        pieces, error = await self._read_pieces(chunk, last=last)
        end: AnswerEnd | None = "abandon" if error else "finish" if last else None
        *earlier, latest = _groups(pieces)
        released: list[Piece] = []
        for group in earlier:
            passed = await self._advance(group, None)
            if isinstance(passed, EarlyEnd):
                return _join_passed(released, passed)
            released += passed
            await self._steps.pause()
        return _join_passed(released, await self._advance(latest, end, error))

    async def _read_pieces(self, chunk: bytes, *, last: bool) -> tuple[list[Piece], ApiError | None]:
        """Return the pieces that the next bytes complete, and the error of what comes after them, if any."""
        assert self._framing is not None  # noqa: S101  # for the type checker
        pieces: list[Piece] = []
        try:
            for received in await self._read_frames(self._framing, chunk, last=last):
                frame = received if received.is_plain else await self._check(self._framing, received)
                self.read_bytes += len(received.raw)
                if frame is None:  # a comment, which no hook reads
                    continue
                work = work_of(frame.raw)
                # No coroutine for most events of a stream.
                small = work <= SMALL_BODY
                piece = self._parse_piece(frame, work) if small else await self._parse(frame, work)
                if self._cited is not None and piece.body is not None:
                    self._cited.note_original(piece.response)
                pieces.append(piece)
            if self._framing.kept_bytes > MAX_ANSWER:
                raise answer_too_large()
        except BodyError as unreadable:
            return pieces, unreadable_answer(str(unreadable))
        except ApiError as raised:
            return pieces, as_value(raised)
        return pieces, None

    async def _read_frames(self, framing: Framing, chunk: bytes, *, last: bool) -> list[Frame]:
        """Return the frames that the next bytes complete. Raises BodyError."""
        if not framing.parses_events:
            return [*framing.feed(chunk), *(framing.finish() if last else ())]
        # A large event, which may become many frames, is parsed in a thread.
        before = self._event_work if framing.is_in_event else 0
        self._event_work = before + work_of(chunk) + work_of_lines(chunk)
        frames = await self._steps.run_for(self._event_work, framing.feed, chunk)
        return [*frames, *await self._steps.run_for(self._event_work, framing.finish)] if last else frames

    async def _check(self, framing: Framing, received: Frame) -> Frame | None:
        """Return a frame that is not plain as it is judged; None for a comment. Raises ApiError (502)."""
        work = work_of(received.raw) + work_of_lines(received.raw)
        return await self._steps.run_for(work, _checked_frame, framing, received)

    async def abandon(self) -> Passed:
        """Return the pieces that may still be sent of an answer that the upstream has cut off."""
        return await self._advance([], "abandon")

    # ---- from frames to pieces

    async def _parse(self, frame: Frame, work: int) -> Piece:
        if work > SMALL_BODY:
            self._steps.work = work
        return await self._steps.run_for(work, self._parse_piece, frame, work)

    def _parse_piece(self, frame: Frame, work: int) -> Piece:
        adapter, bounds = self._adapter, self._worker.bounds
        if not frame.data:
            return Piece(frame, None, {}, adapter, work)
        try:
            try:
                body = loads(frame.data, bounds)
            except TooLargeError:
                raise
            except BodyError:
                if (whole := with_whole_text(frame)) is frame:
                    raise
                frame = whole
                body = loads(frame.data, bounds)
            if len(frame.data) > self._worker.limits.items:
                check_items(body, self._worker.limits.items, TOO_MANY)
            if type(body) is not dict:
                raise BodyError("", "it is not a JSON object")
            check_prototypes(frame.data, body)
            if self._meter is not None:
                self._meter.note(body)
            if "error" in body and len(body) == 1:  # with other fields, it is judged like any other answer
                return Piece(frame, None, {}, adapter, work)
            response = body
            if adapter.wraps_answers:
                response = adapter.decode_answer(body)
                self._order.note(adapter.text_sources(body))
            if adapter.is_native and response.get("error") is not None and response.get("candidates"):
                raise BodyError("error", _ERROR_BESIDE)
            check_response(response, self._candidates)
            if adapter.is_native:  # other dialects have other fields beside the texts
                response = typed_answer(response)
            return Piece(frame, body, response, adapter, work)
        except BodyError as error:
            raise unreadable_answer(str(error)) from None

    # ---- the stages

    def _build_stages(self, hook_stages: Sequence[AnswerStage], *, is_whole: bool = False) -> None:
        """Set the stages of the answer, in order. A whole answer is a stream of one piece."""
        edits = hook_stages or self._judge.session.call_state.client_filters
        self._cited = CitedTexts() if edits and not is_whole else None
        if self._adapter.is_native and (edits or self._gate is not None):
            self._stages.append(WholeCallsStage(self._steps))  # other dialects' calls are whole
        original = OriginalStage() if hook_stages and self._judge.requires_json else None
        if original is not None:
            self._stages.append(original)
        self._stages += hook_stages
        if original is not None:
            self._stages.append(JsonStage(original, self._steps))
        if self._gate is not None:
            self._stages.append(GateStage(self._gate))
        if self._turn_end is not None:
            self._stages.append(TurnEndStage(self._turn_end, self._gate))
        if self._may_be_continued and hook_stages and not is_whole:
            self._stages.append(CopyStage(self._sent.note))
        if self._kept is not None:
            self._stages.append(CopyStage(self._keep))
        self._stages += map(ObserverStage, self._observers)
        self._stages += [EventStage(self._filter_whole)] if is_whole else self._client_filters()
        if self._cited is not None:
            self._stages.append(CitationStage(self._cited, self._steps))

    def _hook_stages(self, mode: StreamMode, window: int) -> Sequence[AnswerStage]:
        """Create the stages of the hooks with a stream mode."""
        run_hooks = partial(self._fire, mode=mode, plan=self._plan_for(mode))
        match mode:
            case "held":
                return [ScreenStage(screen, self._judge) for screen in self._screens]
            case "event":
                return [EventStage(run_hooks)]
            case "window":
                return [WindowStage(run_hooks, window, self._sent.pieces(self._adapter, window))]
            case _:
                return [CompleteStage(run_hooks, self._sent.pieces(self._adapter))]

    def _plan_for(self, mode: StreamMode) -> EventPlan:
        """Return the hooks of one stream mode."""
        if len(self._plan.stream_modes) == 1:
            return self._plan
        event = AfterModel(SharedValue({}), {}, self._model, mode)
        return self._judge.plan(event)

    async def _advance(
        self, pieces: list[Piece], end: AnswerEnd | None, instead: Instead | None = None
    ) -> Passed:
        """Pass pieces through all stages. If one of them ends the answer, the later ones are abandoned."""
        for stage in self._stages:
            try:
                passed: Passed = await stage.feed(pieces) if pieces else pieces
                if end is not None and not isinstance(passed, EarlyEnd):
                    rest = await (stage.finish() if end == "finish" else stage.abandon())
                    passed = _join_passed(passed, rest)
            except ApiError as error:
                passed = EarlyEnd(await stage.abandon(), as_value(error))
            if isinstance(passed, EarlyEnd):
                pieces, instead, end = passed.pieces, passed.instead, "abandon"
            else:
                pieces = passed
        return pieces if instead is None else EarlyEnd(pieces, instead)

    # ---- what stages call

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
        work = answers[0].work if len(answers) == 1 else sum([piece.work for piece in answers])
        if work > SMALL_BODY:
            self._steps.work = work
        joined = (
            answers[0].response
            if len(answers) == 1
            else await self._steps.run_for(work, join_events, responses_of(answers))
        )
        event = AfterModel(self._llm_request, joined, self._model, mode)
        outcome = await self._judge.fire(event, size, plan or self._plan)
        if ended := self._judge.ended_by(outcome.verdict, AfterModel.name):
            return EarlyEnd([], ended)
        edited = outcome.event.body
        if edited is joined:
            return pieces
        try:
            split = await self._run_edit(size, work, split_edit, responses_of(answers), joined, edited)
        except BodyError as error:
            raise unreadable_answer(str(error)) from None
        shares = iter(split)
        return [piece if piece.body is None else replace(piece, response=next(shares)) for piece in pieces]

    async def _run_edit(self, size: int, work: int, step: Callable[..., T], *args: Any) -> T:
        """Run a step that distributes an edit over the texts of an answer with this size and work."""
        if size > LONG_EDIT and work <= SMALL_BODY:
            return await self._steps.run_long(step, *args)
        return await self._steps.run_for(work, step, *args)

    def _keep(self, pieces: Sequence[Piece]) -> None:
        """Keep the pieces for `answer`, unless there are too many."""
        if self._kept is None:
            return
        self._kept += [piece.response for piece in pieces if piece.body is not None]
        self._kept_memory += sum(map(memory_of, pieces))
        if self._kept_memory > MAX_ANSWER:
            self._kept = None
            log.warning("the answer is too large and is not added to the transcript or span")

    def _client_filters(self) -> list[ScreenStage]:
        """Return the filters that are applied after all hooks: only the client sees their output."""
        return [
            ScreenStage(make(), self._judge)
            for make in self._judge.session.call_state.client_filters.values()
        ]

    async def _filter_whole(self, pieces: list[Piece]) -> Passed:
        """Apply the client's filters to a whole answer: its hooks, which have run, may have added some."""
        for stage in self._client_filters():
            passed = await stage.judge_whole(pieces)
            if isinstance(passed, EarlyEnd):
                return passed
            pieces = passed
        return pieces

    # ---- errors, and the end

    async def redact_error(self, data: bytes) -> bytes | Ended:
        """Redact an upstream error, or return what the client receives if a screen denies it."""
        try:
            data = await error_after_screens(self._judge, self._plan, data)
            for stage in self._client_filters():
                data = await stage.redact_error(data)
        except Withheld as withheld:
            return denied_answer(withheld, self._judge)
        return data

    def close(self) -> None:
        """Record the runs of the screens, and free the stages. Call this after the end of the answer."""
        for screen in self._screens:
            self._judge.record_screen(screen, self.read_bytes)
        self._stages.clear()  # they refer to the pipeline
        self._steps.work = self._request_work  # what follows is the request again


def _groups(pieces: list[Piece]) -> list[list[Piece]]:
    """Divide pieces into groups with few candidates. Other calls run in between; the last may be empty."""
    groups: list[list[Piece]] = [[]]
    weight = 0  # of the last group
    for piece in pieces:
        if weight >= _CANDIDATES_AT_ONCE:
            groups.append([])
            weight = 0
        groups[-1].append(piece)
        weight += 1 if piece.work < _FEW_VALUES else len(read_list(piece.response, "candidates")) or 1
    return groups


def _join_passed(before: list[Piece], passed: Passed) -> Passed:
    """Return pieces, and what passes after them."""
    return (
        EarlyEnd([*before, *passed.pieces], passed.instead)
        if isinstance(passed, EarlyEnd)
        else [*before, *passed]
    )


def _checked_frame(framing: Framing, received: Frame) -> Frame | None:
    """Return a frame that is not plain as it is judged; None for a comment. Raises ApiError (502)."""
    if not received.data and is_error(received.raw):
        return Frame(received.raw, received.raw, is_bare=True)
    check_frame(framing, received)
    return framing.canonical(received)


def _turn_end(judge: Judge, request: JudgedRequest, ask_again_rules: AskAgainRules) -> TurnEndEvents | None:
    """Return what judges an answer that ends a turn; None if no hook does."""
    turn_judge = judge.of_derived("turns", request.reported)
    if judge.requires_json or not turn_judge.listens_to(AfterAgent.name):
        return None
    return TurnEndEvents(
        turn_judge,
        request.prompt,
        ask_again_rules.answer_rejected,
        may_ask_again=ask_again_rules.may_ask_again,
    )


def _tool_gate(
    judge: Judge,
    request: JudgedRequest,
    ask_again_rules: AskAgainRules,
    turn_end: TurnEndEvents | None,
) -> ToolGate | None:
    """Return what decides on the answer's function calls; None if nothing needs to know them."""
    rules: list[ToolCallRule] = []
    if request.selection is not None:
        rules.append(
            AllowedTools(request.selection, judge.record, asks_again=ask_again_rules.unselected_asks_again)
        )
    tool_judge = judge.of_derived("tools", request.reported)
    if tool_judge.enforces(BeforeTool.name):
        if request.names_to_call:
            rules.append(DeclaredTools(DeclaredNames(request.names_to_call), judge.record))
        if request.candidates == 1:  # each of several may number its calls
            rules.append(DistinctCalls(judge.record))
    if tool_judge.listens_to(BeforeTool.name):
        rules.append(ToolCallEvents(tool_judge, request.descriptions, may_wait=True))
    if not rules and turn_end is None:
        return None
    return ToolGate(
        rules, judge.session.call_state, may_ask_again=ask_again_rules.may_ask_again and bool(rules)
    )
