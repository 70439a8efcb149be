"""The stages through which an answer passes, but for those with a module of their own.

These are `screen_stage.py`, `window_stage.py` and `citation_stage.py`.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from hookgate.hooks import AfterModel
from hookgate.proxy.calls.answer_reading import MAX_ANSWER, unreadable_answer
from hookgate.proxy.calls.endings import AskAgain, Ended
from hookgate.proxy.calls.pacing import CallSteps
from hookgate.proxy.calls.pieces import (
    MANY_PIECES,
    EarlyEnd,
    HoldingStage,
    Passed,
    PassingStage,
    Piece,
    check_memory,
    memory_of,
    responses_of,
    visible_text,
)
from hookgate.proxy.calls.session_events import TurnEndEvents
from hookgate.proxy.calls.tools import ToolGate
from hookgate.proxy.errors import policy_denied
from hookgate.proxy.observe.content import CallObserver
from hookgate.translator import BodyError, join_events
from hookgate.translator.fields import JsonObject, read_list, same_items, without, write
from hookgate.translator.response import is_json_answer
from hookgate.translator.streaming.events import join_texts, only_text
from hookgate.translator.streaming.partial_calls import UnfinishedCalls, with_whole_calls

log = logging.getLogger("hookgate.gateway")

EDIT_NOT_JSON = "A hook's edit turned the answer into text that is not JSON, but this call requires JSON."


RunHooks = Callable[[list[Piece]], Awaitable[Passed]]
"""Runs hooks on pieces, and returns them with the hooks' edits."""


async def run_after(sent: Sequence[Piece], pieces: list[Piece], run_hooks: RunHooks) -> Passed:
    """Run hooks on pieces together with those that were sent before them. Returns what passes of the former.

    An edit of what was sent has no effect, so one that removes something of it must change the text that
    continues it, too.
    """
    if all(piece.body is None for piece in pieces):
        return pieces
    passed = await run_hooks([*sent, *pieces])
    if isinstance(passed, EarlyEnd):
        return passed
    edited, left = passed[: len(sent)], passed[len(sent) :]
    if not _still_contain(edited, sent) and _are_same(left, pieces):
        return EarlyEnd([], policy_denied(_SENT, AfterModel.name))
    return left


_SENT = "A hook's edit of a text cannot be sent: the part that it changes was sent before."


def _still_contain(pieces: Sequence[Piece], before: Sequence[Piece]) -> bool:
    """Return whether edits of texts have at most added something around them."""
    if _are_same(pieces, before):
        return True
    texts = join_texts(responses_of(pieces))
    return all(text in texts.get(channel, "") for channel, text in join_texts(responses_of(before)).items())


def _are_same(pieces: Sequence[Piece], before: Sequence[Piece]) -> bool:
    return same_items([piece.response for piece in pieces], [piece.response for piece in before])


class OriginalStage(PassingStage):
    """Keeps the answer as the model sent it, before any hook runs."""

    def __init__(self) -> None:
        self.responses: list[JsonObject] = []
        self.memory = 0

    @property
    def is_incomplete(self) -> bool:
        """Whether the answer is too large to keep, so that `responses` is incomplete."""
        return self.memory > MAX_ANSWER

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self.memory += sum(map(memory_of, pieces))
        self.responses += [] if self.is_incomplete else responses_of(pieces)
        return pieces


class EventStage(PassingStage):
    """Runs hooks on events as they arrive. Events that arrive together are judged together."""

    def __init__(self, run_hooks: RunHooks) -> None:
        self.feed = run_hooks  # not a method that awaits it: one fewer coroutine is resumed for each event


class CompleteStage(HoldingStage):
    """Runs hooks on the complete answer, together with what was sent before it."""

    def __init__(self, run_hooks: RunHooks, sent: Sequence[Piece] = ()) -> None:
        super().__init__()
        self._run_hooks, self._sent = run_hooks, sent

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._hold(pieces)
        return []

    async def finish(self) -> Passed:
        return await run_after(self._sent, self._take_held(), self._run_hooks)


class JsonStage(HoldingStage):
    """Refuses an answer in JSON if edits of hooks turn it into something else.

    The check needs the whole answer, because parts of a JSON text are not JSON. The stage therefore holds
    back the end of the answer and everything that arrives with it. If everything was held back, nothing has
    been sent yet, and the client receives an error status.
    """

    def __init__(self, original: OriginalStage, steps: CallSteps) -> None:
        """`original` keeps the answer as the model sent it."""
        super().__init__()
        self._original, self._steps = original, steps
        self._edited: list[JsonObject] = []

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._edited += [] if self._original.is_incomplete else responses_of(pieces)
        if not self._held and not any(piece.finishes for piece in pieces):
            return pieces
        self._hold(pieces)
        return []

    async def finish(self) -> Passed:
        original = self._original
        if original.is_incomplete:
            log.warning("the answer is too large to check whether it is still JSON")
        elif not same_items(self._edited, original.responses) and await self._steps.run_for(
            original.memory, _is_no_longer_json, original.responses, self._edited
        ):
            return EarlyEnd([], policy_denied(EDIT_NOT_JSON, AfterModel.name))
        return self._take_held()


def _is_no_longer_json(original: Sequence[JsonObject], edited: Sequence[JsonObject]) -> bool:
    """Return whether edits have turned JSON into something else: the client would ask for it again."""
    return is_json_answer(join_events(original)) and not is_json_answer(join_events(edited))


class WholeCallsStage(HoldingStage):
    """Holds back each call whose arguments are sent in pieces until it is whole, and then passes it so.

    Clients put pieces together in different ways: some take other spellings of a path for the same path, add
    a text to a number, or go on with a call after it has ended.
    """

    def __init__(self, steps: CallSteps) -> None:
        super().__init__()
        self._steps = steps
        self._unfinished_calls = UnfinishedCalls()

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        passed: list[Piece] = []
        for piece in pieces:
            if not self._held and only_text(piece.response) is not None:
                passed.append(piece)
                continue
            self._hold([piece])
            if not self._unfinished_calls.note(piece.response):
                many = len(self._held) > MANY_PIECES
                passed += await self._steps.run_long(self._take_whole) if many else self._take_whole()
        return passed

    def _take_whole(self) -> list[Piece]:
        """Return the pieces that are held, in which each call is whole. Raises ApiError (502)."""
        held = self._take_held()
        try:
            new = with_whole_calls([piece.response for piece in held])
        except BodyError as error:
            raise unreadable_answer(str(error)) from None
        return [
            piece if response is piece.response else replace(piece, response=response)
            for piece, response in zip(held, new, strict=True)
        ]

    async def finish(self) -> list[Piece]:
        """Return what is held besides answers, such as an error.

        Raises ApiError (502) if the answer ends in the middle of a call.
        """
        if any(piece.body is not None for piece in self._held):
            self._take_held()
            raise unreadable_answer("it ends in the middle of a function call")
        return self._take_held()


class GateStage(PassingStage):
    """Decides on the function calls in the answer.

    If the model is asked again, the client has received the pieces before that of the call, but not the text
    in the same piece: the model, which is shown all of it, may say that again.
    """

    def __init__(self, gate: ToolGate) -> None:
        self._gate = gate

    async def feed(self, pieces: list[Piece]) -> Passed:
        passed: list[Piece] = []
        for piece in pieces:
            # No coroutine for most events of a stream.
            if self._gate.note_if_text(piece.response):
                passed.append(piece)
                continue
            response = await self._gate.judge_response(piece.response)
            if isinstance(response, AskAgain):
                return EarlyEnd(passed, response)
            if isinstance(response, Ended):
                # An approval may have been used up for a call that has passed.
                return EarlyEnd(passed if self._gate.agent_has_call else [], response)
            passed.append(piece if response is piece.response else replace(piece, response=response))
        return passed


class TurnEndStage(HoldingStage):
    """Holds back the piece that ends the answer until hooks have judged all of the answer's text.

    An error of the upstream does not end the turn.
    """

    def __init__(self, turn_end: TurnEndEvents, gate: ToolGate | None) -> None:
        super().__init__()
        self._turn_end, self._gate = turn_end, gate
        self._texts: list[str] = []
        self._size = 0
        self._failed = False
        self._has_ended = False  # whether a piece that is held ends the answer

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._failed = self._failed or any(piece.body is None and piece.frame.data for piece in pieces)
        self._texts.append(visible_text(pieces))
        self._size += len(self._texts[-1])
        check_memory(self._size)
        ready = 0 if self._has_ended else _count_before_end(pieces)
        self._has_ended = self._has_ended or any(piece.finishes for piece in pieces[ready:])
        released = [*self._take_held(), *pieces[:ready]] if ready else []
        self._hold(pieces[ready:])
        return released

    async def finish(self) -> Passed:
        rest = self._take_held()
        if self._failed or (self._gate is not None and self._gate.agent_has_call):
            return rest
        match await self._turn_end.turn_ended("".join(self._texts)):
            case None:
                return rest
            case AskAgain() as again:
                return EarlyEnd([_unfinished(piece) for piece in rest if piece.body is not None], again)
            case ended:
                return EarlyEnd([], ended)


def _count_before_end(pieces: Sequence[Piece]) -> int:
    """Return the number of pieces before the end of the answer.

    The end is the first piece with a finishReason, or else everything after the last piece with an answer.
    """
    ends = (index for index, piece in enumerate(pieces) if piece.finishes)
    last = next((index + 1 for index in reversed(range(len(pieces))) if pieces[index].body is not None), 0)
    return next(ends, last)


def _unfinished(piece: Piece) -> Piece:
    """Return the piece without finishReason, because another answer follows."""
    candidates = [without(candidate, "finishReason") for candidate in read_list(piece.response, "candidates")]
    return replace(piece, response=write(piece.response, "candidates", candidates)) if candidates else piece


class CopyStage(PassingStage):
    """Passes the pieces that hooks have judged to a callback, for the transcript and the trace."""

    def __init__(self, keep: Callable[[list[Piece]], None]) -> None:
        self._keep = keep

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._keep(pieces)
        return pieces


class ObserverStage(PassingStage):
    """Shows the parts of the answer to an observer."""

    def __init__(self, observer: CallObserver) -> None:
        self._observer = observer

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        for response in responses_of(pieces):
            await self._observer.on_part(response)
        return pieces
