"""Screens on the way of an answer: the stage that passes pieces through one, and errors of the upstream."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from hookgate.hooks import AfterModel, Screen, Verdict, Withheld
from hookgate.hooks.engine import EventPlan
from hookgate.proxy.calls.answer_reading import unreadable_answer
from hookgate.proxy.calls.endings import Ended
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.pieces import (
    MANY_PIECES,
    EarlyEnd,
    Passed,
    Piece,
    check_memory,
    memory_of,
    received_bytes,
)
from hookgate.proxy.errors import policy_denied
from hookgate.proxy.server.bodies import SMALL_BODY, work_of
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import encode_answer, loads, with_whole_characters

_THREAD_BYTES = 32 * 1024
"""Screens judge batches and errors of more bytes in a thread: each byte may take several microseconds."""

_QUICK_BYTES = 2 * 1024
"""A larger piece or error has a thread if its screen says that it takes long."""

_PORTION_BYTES = 8 * 1024
"""After so many bytes of smaller pieces, other calls may run."""

T = TypeVar("T")


class ScreenStage:
    """Passes pieces through a screen, which may delay or split them, or deny the answer.

    Clients take an error, or the bracket that closes an array, for the end of the answer, so these are sent
    after the held pieces.
    """

    def __init__(self, screen: Screen, judge: Judge) -> None:
        self._screen, self._judge = screen, judge
        self._steps = judge.session.call_state.steps
        self._held: deque[Piece] = deque()
        self._first = 0  # the number of the first of them
        self._has_released = False  # whether a part of the first one was released
        self._memory = 0
        self._endings: list[Piece] = []
        self._saw_error = self._saw_end = False
        self._in_doubt = False  # true while the screen judges, and for good once it has refused or failed

    def held_bytes(self) -> int:
        """Return the size in bytes of the pieces from which nothing was released."""
        return received_bytes(islice(self._held, int(self._has_released), None))

    async def feed(self, pieces: list[Piece]) -> Passed:
        return await self._screen_pieces(pieces, last=False)

    async def finish(self) -> Passed:
        # Without a finishReason, the upstream may have been cut off, and the text may end within a secret.
        return await self._screen_pieces([], last=True, cut_off=self._saw_error or not self._saw_end)

    async def abandon(self) -> list[Piece]:
        if self._in_doubt:
            return []
        judged = await self._screen_pieces([], last=True, cut_off=True)
        return judged if isinstance(judged, list) else []

    async def judge_whole(self, pieces: list[Piece]) -> Passed:
        """Judge a complete answer."""
        return await self._screen_pieces(pieces, last=True)

    async def _screen_pieces(self, batch: list[Piece], *, last: bool, cut_off: bool = False) -> Passed:
        try:
            return await self._pass_through_screen(batch, last=last, cut_off=cut_off)
        except Withheld as withheld:
            return EarlyEnd([], denied_answer(withheld, self._judge))

    async def _pass_through_screen(self, batch: list[Piece], *, last: bool, cut_off: bool) -> list[Piece]:
        answers, others = self._hold(batch)
        self._in_doubt = True
        release = partial(self._screen.feed, last=last, cut_off=cut_off)
        out = [self._take(number, response) for number, response in await self._feed(answers, release)]
        if others:
            out += await self._judge_others(others)
        if not last:
            check_memory(self._memory)
        self._in_doubt = False
        return out + self._endings if last else out

    def _hold(self, batch: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
        """Hold the pieces with an answer, and return these, and the others."""
        answers: list[Piece] = []
        others: list[Piece] = []
        for piece in batch:
            if piece.body is None:
                others.append(piece)
                continue
            self._held.append(piece)
            self._saw_error = self._saw_error or "error" in piece.body or "error" in piece.response
            self._saw_end = self._saw_end or piece.finishes
            answers.append(piece)
        self._memory += sum(map(memory_of, batch))
        return answers, others

    async def _feed(self, answers: Sequence[Piece], release: Callable[[Sequence[JsonObject]], T]) -> T:
        """Return what the screen releases with these pieces, run where it delays other calls the least."""
        size = received_bytes(answers)
        # A piece may release all that are held.
        if self._screen.slow or len(self._held) > MANY_PIECES or size > _THREAD_BYTES:
            return await self._steps.run_long(release, [piece.response for piece in answers])
        if size <= _QUICK_BYTES:
            return release([piece.response for piece in answers])
        *earlier, latest = _portions(answers)
        for portion in earlier:
            await self._run_screen(self._screen.add, portion)
            await self._steps.pause()
        return await self._run_screen(release, latest)

    async def _run_screen(self, step: Callable[[Sequence[JsonObject]], T], portion: Sequence[Piece]) -> T:
        responses = [piece.response for piece in portion]
        if len(portion[0].frame.raw) > _QUICK_BYTES and self._screen.takes_long(responses):
            return await self._steps.run_long(step, responses)
        return step(responses)

    def _take(self, number: int, response: JsonObject) -> Piece:
        """Return what is released of a piece. Nothing more is released of those before it."""
        while self._first < number:
            self._memory -= memory_of(self._held.popleft())
            self._first += 1
        self._has_released = True
        piece = self._held[0]
        return piece if response is piece.response else replace(piece, response=response)

    async def _judge_others(self, pieces: list[Piece]) -> list[Piece]:
        """Judge pieces without an answer.

        Returns blank pieces; errors and brackets are held until the end.
        """
        blank: list[Piece] = []
        for piece in pieces:
            if not piece.frame.data and not piece.frame.raw.strip():
                self._memory -= memory_of(piece)
                blank.append(piece)
                continue
            original = piece.data()
            self._saw_error = self._saw_error or bool(piece.frame.data)
            redacted = await self.redact_error(original) if original else original
            self._endings.append(piece if redacted is original else replace(piece, error=redacted))
        return blank

    async def redact_error(self, data: bytes) -> bytes:
        """Redact an upstream error; returns the same object if unchanged. Raises Withheld if denied."""
        if self._screen.slow or len(data) > _THREAD_BYTES or work_of(data) > SMALL_BODY:
            return await self._steps.run_long(self._read_and_redact, data)
        value = _read_error(data)
        if len(data) > _QUICK_BYTES and self._screen.takes_long([value]):
            return await self._steps.run_long(self._read_and_redact, data)
        return self._redact_value(data, value)

    def _read_and_redact(self, data: bytes) -> bytes:
        return self._redact_value(data, _read_error(data))

    def _redact_value(self, data: bytes, value: Any) -> bytes:
        new = self._screen.redact(value)
        if new is value:
            return data
        return new.encode() if isinstance(value, str) else encode_answer(new)


def _portions(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces in portions that are judged quickly. One that may take long has its own."""
    portions: list[list[Piece]] = []
    left = 0
    for piece in pieces:
        size = len(piece.frame.raw)
        if size > min(left, _QUICK_BYTES):
            portions.append([])
            left = _PORTION_BYTES
        portions[-1].append(piece)
        left = left - size if size <= _QUICK_BYTES else 0
    return portions


def _read_error(data: bytes) -> Any:
    """Return an error as JSON, or else as text, for example a proxy's HTML page.

    Raises ApiError (502) for text in which some clients might read what screens do not find.
    """
    try:
        return loads(with_whole_characters(data))
    except BodyError:
        if b"\\" in data or b"\0" in data:  # escapes of JSON that is not valid, and UTF-16
            raise unreadable_answer("its error is neither JSON nor plain text") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise unreadable_answer("its error is not UTF-8") from None


def denied_answer(withheld: Withheld, judge: Judge) -> Ended:
    """Return what the client receives in place of an answer that a screen withholds."""
    reason = str(withheld)
    ended = judge.ended_by(Verdict("deny", reason=reason), AfterModel.name)
    return ended or policy_denied(reason, AfterModel.name)


async def error_after_screens(judge: Judge, plan: EventPlan, data: bytes) -> bytes:
    """Return an upstream error after the screens of a plan.

    Raises Withheld if a screen denies it, and ApiError (502) if it cannot be read.
    """
    size, screens = len(data), judge.screens(plan)
    try:
        for screen in screens:
            data = await ScreenStage(screen, judge).redact_error(data)
    finally:
        for screen in screens:
            judge.record_screen(screen, size)
    return data
