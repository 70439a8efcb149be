"""Judges one answer with AfterModel hooks and the tool gate, whole or as a stream, and delivers it.

An answer passes through several stages, in the order of `AnswerPipeline._prepare`. A whole answer is a stream
of one piece. Data that arrives while a hook runs waits
in the connection and is then judged in one batch, so a slow hook runs less often.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Literal, Protocol, TypeAlias

from hookgate.hooks import AfterAgent, AfterModel, BeforeTool, Screen, Verdict, Withheld
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.screening import HookScreen
from hookgate.hooks.session import Steps
from hookgate.hooks.settings import StreamMode
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.outcomes import AskAgain, Ended, as_value
from hookgate.proxy.calls.pacing import CallSteps
from hookgate.proxy.calls.reply import Reply, meter_chunk
from hookgate.proxy.calls.request import JudgedRequest
from hookgate.proxy.calls.session_events import ToolCallEvents, TurnEndEvents
from hookgate.proxy.calls.tools import AllowedTools, ToolCallJudge, ToolGate
from hookgate.proxy.errors import UPSTREAM_BROKE, ApiError, policy_denied
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.record import no_bytes
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.routes.dialects.generate_content import GenerateContent
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.bodies import (
    MAX_ANSWER,
    MAX_ERROR,
    SMALL_BODY,
    TOO_MANY,
    VALUE_BYTES,
    BodyWorker,
    answer_too_large,
    check_frame,
    is_error,
    read_whole,
    stream_slices,
    unreadable_answer,
    work_of,
)
from hookgate.proxy.upstream.client import UpstreamAnswer, with_judged_body
from hookgate.proxy.upstream.connection import UpstreamError
from hookgate.translator import BodyError, Frame, Framing, check_response, cut_events, join_events
from hookgate.translator.checks import MAX_CANDIDATES, check_items
from hookgate.translator.citations import CITING, move_citations, with_moved_annotations, with_moved_citations
from hookgate.translator.fields import (
    JsonObject,
    TooLargeError,
    indexes,
    read,
    read_list,
    same_items,
    without,
    write,
)
from hookgate.translator.response import is_json_answer
from hookgate.translator.streaming.events import TextChannel, join_texts, only_text
from hookgate.translator.streaming.partial_calls import OpenCalls, with_whole_calls
from hookgate.translator.strictjson import encode_answer, loads, with_whole_characters

log = logging.getLogger("hookgate.gateway")

_THREAD_BYTES = 32 * 1024
"""Screens judge batches of more bytes in a thread: each byte may take several microseconds."""

_MANY_PIECES = 100
"""If more pieces are held, they are judged or made whole in a thread."""

_PIECE_MEMORY = 512  # estimated bytes of a piece besides its text and values


@dataclass(slots=True)
class Piece:
    """One event of a stream as received, or a whole answer. An edit makes a new piece.

    It is not frozen, because creating one for each event of a stream would then take twice as long.
    """

    frame: Frame
    body: JsonObject | None
    """The parsed body; None if the piece contains no answer, for example a comment or an error."""
    response: JsonObject
    adapter: DialectAdapter
    work: int = 0
    """The work of the event as received, in bytes: see SMALL_BODY."""
    error: bytes | None = None
    """The redacted error; None if screens did not change it."""

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
    return visible_text_of([piece.response for piece in pieces if piece.body is not None])


def visible_text_of(responses: Sequence[JsonObject]) -> str:
    """Return the text of the first candidate in these responses, without thoughts."""
    return join_texts(responses).get(TextChannel(0, thought=False), "")


def memory_of(piece: Piece) -> int:
    """Return the estimated memory of a piece in bytes. Its values may take much more memory than its text."""
    return piece.work + _PIECE_MEMORY


def received_bytes(pieces: Iterable[Piece]) -> int:
    """Return the size of the pieces as they were received."""
    size = 0
    for piece in pieces:
        size += len(piece.frame.raw)
    return size


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of an answer before its own: its last pieces, which may still be sent, and what comes next."""

    pieces: list[Piece]
    instead: Ended | AskAgain
    """What comes instead of the rest."""


Passed: TypeAlias = list[Piece] | Cut
"""What a stage passes on."""


class AnswerStage(Protocol):
    """One step in judging an answer. It may end the answer with a Cut, or by raising ApiError."""

    def held_bytes(self) -> int:
        """Return the number of bytes that the stage holds back."""

    def feed(self, pieces: list[Piece], /) -> Awaitable[Passed]:
        """Judge further pieces, and return those that can now be passed on."""

    async def finish(self) -> Passed:
        """Judge and return the remaining pieces of a complete answer."""

    async def abandon(self) -> list[Piece]:
        """Return the remaining pieces that may still be sent, after the answer has been cut off."""


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

    async def redact_error(self, data: bytes) -> bytes:
        """Redact an upstream error; returns the same object if unchanged. Raises Withheld if denied."""
        if self._screen.slow or len(data) > SMALL_BODY:
            return await self._steps.run_long(self._redact_error, data)
        return self._redact_error(data)

    def _redact_error(self, data: bytes) -> bytes:
        value = _read_error(data)
        new = self._screen.redact(value)
        if new is value:
            return data
        return new.encode() if isinstance(value, str) else encode_answer(new)

    async def _screen_pieces(self, batch: list[Piece], *, last: bool, cut_off: bool = False) -> Passed:
        try:
            return await self._release(batch, last=last, cut_off=cut_off)
        except Withheld as withheld:
            return Cut([], denied_answer(withheld, self._judge))

    async def _release(self, batch: list[Piece], *, last: bool, cut_off: bool) -> list[Piece]:
        responses: list[JsonObject] = []
        others: list[Piece] = []
        for piece in batch:
            if piece.body is None:
                others.append(piece)
                continue
            self._held.append(piece)
            self._saw_error = self._saw_error or "error" in piece.body or "error" in piece.response
            self._saw_end = self._saw_end or _finishes(piece)
            responses.append(piece.response)
        self._in_doubt = True
        self._memory += sum(map(memory_of, batch))
        judge = partial(self._screen.judge, responses, last=last, cut_off=cut_off)
        # A piece may release all that are held.
        many = len(self._held) > _MANY_PIECES or received_bytes(batch) > _THREAD_BYTES
        if self._screen.slow or many:
            released = await self._steps.run_long(judge)
        else:
            released = judge()
        out = [self._take(number, response) for number, response in released]
        if others:
            out += await self._judge_others(others)
        if not last and self._memory > MAX_ANSWER:
            raise answer_too_large()
        self._in_doubt = False
        return out + self._endings if last else out

    def _take(self, number: int, response: JsonObject) -> Piece:
        """Return what is released of a piece. All pieces before it have been released."""
        while self._first < number:
            self._memory -= memory_of(self._held.popleft())
            self._first += 1
        self._has_released = True
        piece = self._held[0]
        return piece if response is piece.response else replace(piece, response=response)

    async def _judge_others(self, pieces: list[Piece]) -> list[Piece]:
        """Judge pieces without an answer.

        Returns comments and blank lines; errors and brackets are held until the end.
        """
        comments: list[Piece] = []
        for piece in pieces:
            if _is_comment(piece):
                self._memory -= memory_of(piece)
                comments.append(piece)
                continue
            original = piece.data()
            self._saw_error = self._saw_error or bool(piece.frame.data)
            redacted = await self.redact_error(original) if original else original
            self._endings.append(piece if redacted is original else replace(piece, error=redacted))
        return comments


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


def _is_comment(piece: Piece) -> bool:
    """Return whether a piece is a comment or a blank line."""
    if piece.frame.data:
        return False
    raw = piece.frame.raw.lstrip()
    return not raw or raw.startswith(b":")


def denied_answer(withheld: Withheld, judge: Judge) -> Ended:
    """Return what the client receives in place of an answer that a screen withholds."""
    reason = str(withheld)
    ended = judge.ended_by(Verdict("deny", reason=reason), AfterModel.name)
    return ended or policy_denied(reason, AfterModel.name)


RunHooks = Callable[[list[Piece]], Awaitable[Passed]]
"""Runs hooks on pieces, and returns them with the hooks' edits."""


class _Stage:
    """A stage that may hold pieces back. If the answer is cut off, these pieces are discarded."""

    def __init__(self) -> None:
        self._held: list[Piece] = []
        self._memory = 0

    def held_bytes(self) -> int:
        return received_bytes(self._held)

    def _hold(self, pieces: Sequence[Piece]) -> None:
        """Hold further pieces. Raises ApiError (502) if all of them exceed the memory limit of an answer."""
        self._held += pieces
        self._memory += sum(map(memory_of, pieces))  # not of all: there may be very many
        if self._memory > MAX_ANSWER:
            raise answer_too_large()

    def _take_held(self) -> list[Piece]:
        """Return the pieces that are held, and hold none of them any longer."""
        held, self._held, self._memory = self._held, [], 0
        return held

    async def finish(self) -> Passed:
        return self._take_held()

    async def abandon(self) -> list[Piece]:
        self._take_held()
        return []


class EventStage(_Stage):
    """Runs hooks on events as they arrive. Events that arrive together are judged together."""

    def __init__(self, run_hooks: RunHooks) -> None:
        super().__init__()
        self.feed = run_hooks  # not a method that awaits it: one fewer coroutine is resumed for each event


class WindowStage:
    """Runs hooks on a window of text, which is held back until further text follows it.

    Pieces without text are judged once. They are held, too, to keep the order, but hooks do not see them
    again: their number has no limit.
    """

    def __init__(self, run_hooks: RunHooks, window: int) -> None:
        """Judge at least `window` characters of each text at once."""
        self._run_hooks, self._window = run_hooks, window
        self._held: list[list[Piece]] = []  # each a piece with text, and those without text that follow it
        self._memory = 0

    def held_bytes(self) -> int:
        return received_bytes(chain.from_iterable(self._held))

    async def feed(self, pieces: list[Piece]) -> Passed:
        judged = [*(held[0] for held in self._held), *pieces]
        if any(piece.body is not None for piece in pieces):
            passed = await self._run_hooks(judged)
            if isinstance(passed, Cut):
                return passed
            judged = passed
        new = judged[len(self._held) :]
        for held, piece in zip(self._held, judged, strict=False):
            held[0] = piece
        released: list[Piece] = []
        for piece in new:
            if _has_text(piece):
                self._held.append([piece])
            else:
                (self._held[-1] if self._held else released).append(piece)
        ready = _count_releasable([held[0] for held in self._held], self._window)
        released += chain.from_iterable(self._held[:ready])
        del self._held[:ready]
        self._memory += sum(map(memory_of, pieces)) - sum(map(memory_of, released))
        if self._memory > MAX_ANSWER:
            raise answer_too_large()
        return released

    async def finish(self) -> list[Piece]:
        rest, self._held = [*chain.from_iterable(self._held)], []
        return rest

    async def abandon(self) -> list[Piece]:
        self._held = []
        return []


def _has_text(piece: Piece) -> bool:
    return piece.body is not None and any(join_texts([piece.response]).values())


class CompleteStage(_Stage):
    """Runs hooks on the complete answer."""

    def __init__(self, run_hooks: RunHooks) -> None:
        super().__init__()
        self._run_hooks = run_hooks

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._hold(pieces)
        return []

    async def finish(self) -> Passed:
        return await self._run_hooks(self._take_held())


class OriginalStage(_Stage):
    """Keeps the answer as the model sent it, before any hook runs."""

    def __init__(self) -> None:
        super().__init__()
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


class JsonStage(_Stage):
    """Refuses an answer in JSON if edits of hooks turn it into something else.

    The check needs the whole answer, because parts of a JSON text are not JSON. The stage therefore holds
    back the end of the answer and everything that arrives with it. If everything was held back, nothing has
    been sent yet, and the client receives an error status.
    """

    def __init__(self, original: OriginalStage, body_worker: BodyWorker) -> None:
        """`original` keeps the answer as the model sent it."""
        super().__init__()
        self._original, self._body_worker = original, body_worker
        self._edited: list[JsonObject] = []

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._edited += [] if self._original.is_incomplete else responses_of(pieces)
        if not self._held and not any(map(_finishes, pieces)):
            return pieces
        self._hold(pieces)
        return []

    async def finish(self) -> list[Piece]:
        original = self._original
        if original.is_incomplete:
            log.warning("the answer is too large to check whether it is still JSON")
        elif not same_items(self._edited, original.responses):
            await self._body_worker.run(original.memory, _check_json, original.responses, self._edited)
        return self._take_held()


def _check_json(original: Sequence[JsonObject], edited: Sequence[JsonObject]) -> None:
    """Raise ApiError if an answer is no longer JSON after its edits: the client would ask for it again."""
    if is_json_answer(join_events(original)) and not is_json_answer(join_events(edited)):
        raise policy_denied(EDIT_NOT_JSON, AfterModel.name)


EDIT_NOT_JSON = "A hook's edit turned the answer into text that is not JSON, but this call requires JSON."


def responses_of(pieces: Sequence[Piece]) -> list[JsonObject]:
    """Return the responses of the pieces that are part of the answer, without comments and errors."""
    return [piece.response for piece in pieces if piece.body is not None]


class GateStage(_Stage):
    """Decides on the function calls in the answer.

    A call whose arguments are sent in pieces is held back until it is whole, and then sent so.

    If the model is asked again, the client has received the pieces before that of the call, but not the text
    in the same piece: the model, which is shown all of it, may say that again.
    """

    def __init__(self, gate: ToolGate, steps: Steps) -> None:
        super().__init__()
        self._gate, self._steps = gate, steps
        self._open_calls = OpenCalls()

    async def feed(self, pieces: list[Piece]) -> Passed:
        passed: list[Piece] = []
        for piece in pieces:
            # No coroutine for most events of a stream.
            if not self._held and self._gate.pass_text(piece.response):
                passed.append(piece)
                continue
            self._hold([piece])
            if not self._open_calls.note(piece.response):
                many = len(self._held) > _MANY_PIECES
                whole = await self._steps.run_long(self._whole) if many else self._whole()
                self._take_held()
                if cut := await self._judge(whole, passed):
                    return cut
        return passed

    def _whole(self) -> list[Piece]:
        """Return the pieces that are held, in which each call is whole."""
        new = with_whole_calls([piece.response for piece in self._held])
        return [
            piece if response is piece.response else replace(piece, response=response)
            for piece, response in zip(self._held, new, strict=True)
        ]

    async def finish(self) -> list[Piece]:
        """Return nothing. Raises ApiError (502) if the answer ends in the middle of a call."""
        if any(piece.body is not None for piece in self._held):
            self._take_held()
            raise unreadable_answer("it ends in the middle of a function call")
        return self._take_held()

    async def _judge(self, pieces: Sequence[Piece], passed: list[Piece]) -> Cut | None:
        """Judge pieces whose calls are whole, and append the judged ones to `passed`.

        Returns the end of the answer if it ends here. If the model is asked again, what has passed is sent.
        """
        for piece in pieces:
            if self._gate.pass_text(piece.response):
                passed.append(piece)
                continue
            response = await self._gate.judge(piece.response)
            if isinstance(response, AskAgain):
                return Cut(passed, response)
            if isinstance(response, Ended):
                return Cut([], response)
            passed.append(piece if response is piece.response else replace(piece, response=response))
        return None


class TurnEndStage(_Stage):
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
        if self._size > MAX_ANSWER:
            raise answer_too_large()
        ready = 0 if self._has_ended else _count_before_end(pieces)
        self._has_ended = self._has_ended or any(map(_finishes, pieces[ready:]))
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
                return Cut([_unfinished(piece) for piece in rest if piece.body is not None], again)
            case ended:
                return Cut([], ended)


AnswerListener = Callable[[JsonObject], Awaitable[None]]
"""Is called with each part of an answer that has passed all hooks, before the part is sent."""


class ListenerStage(_Stage):
    """Shows the answer to a listener."""

    def __init__(self, listener: AnswerListener) -> None:
        super().__init__()
        self._listener = listener

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        for response in responses_of(pieces):
            await self._listener(response)
        return pieces


class CopyStage(_Stage):
    """Passes the pieces that hooks have judged to a callback, for the transcript and the trace."""

    def __init__(self, keep: Callable[[list[Piece]], None]) -> None:
        super().__init__()
        self._keep = keep

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._keep(pieces)
        return pieces


_MAX_CITED = 4 * 1024 * 1024  # characters of an answer whose citations are moved
_MAX_COMPARED = 32 * 1024 * 1024  # characters of all texts that are compared: each event may have citations


class CitedTexts:
    """The texts of a streamed answer, without thoughts, before and after all edits."""

    def __init__(self) -> None:
        self._original: dict[int, list[str]] = {}
        self._sent: dict[int, list[str]] = {}
        self.size = 0
        """The characters of all of them."""
        self._compared = 0

    def note_original(self, response: JsonObject) -> None:
        """Note the texts of an event as it was received."""
        self._note(self._original, response)

    def note_sent(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Note events that are sent, and return them with the offsets of their citations moved."""
        return [self._note_sent_piece(piece) for piece in pieces]

    def _note_sent_piece(self, piece: Piece) -> Piece:
        self._note(self._sent, piece.response)
        if piece.body is None or not _cites(piece):
            return piece
        candidates = read_list(piece.response, "candidates")
        self._compared += self.size
        if self.size > _MAX_CITED or self._compared > _MAX_COMPARED:
            new = [{k: v for k, v in each.items() if k not in CITING} for each in candidates]
            return replace(piece, response=write(piece.response, "candidates", new))
        originals = read_list(piece.adapter.decode_answer(piece.body), "candidates")
        by_index = dict(zip(indexes(originals), originals, strict=True))
        new = [
            move_citations(by_index.get(index, {}), candidate, self._text_pair(index))
            for index, candidate in zip(indexes(candidates), candidates, strict=True)
        ]
        if same_items(new, candidates):
            return piece
        return replace(piece, response=write(piece.response, "candidates", new))

    def _note(self, texts: dict[int, list[str]], response: JsonObject) -> None:
        if self.size > _MAX_CITED:
            return
        if (text := only_text(response)) is not None:  # as in most events
            texts.setdefault(0, []).append(text)
            self.size += len(text)
            return
        for channel, text in join_texts([response]).items():
            if not channel.thought:
                texts.setdefault(channel.candidate, []).append(text)
                self.size += len(text)

    def _text_pair(self, index: int) -> tuple[str, str]:
        return "".join(self._original.get(index, ())), "".join(self._sent.get(index, ()))


def _cites(piece: Piece) -> bool:
    return any(not CITING.isdisjoint(each) for each in read_list(piece.response, "candidates"))


class CitationStage(_Stage):
    """Moves the offsets of citations to the texts that the client receives."""

    def __init__(self, texts: CitedTexts, steps: Steps) -> None:
        super().__init__()
        self._texts, self._steps = texts, steps

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        if self._texts.size * len(pieces) > _THREAD_BYTES and (
            self._texts.size * sum(map(_cites, pieces)) > _THREAD_BYTES
        ):
            return await self._steps.run_long(self._texts.note_sent, pieces)
        return self._texts.note_sent(pieces)


def _count_before_end(pieces: Sequence[Piece]) -> int:
    """Return the number of pieces before the end of the answer.

    The end is the first piece with a finishReason, or else everything after the last piece with an answer.
    """
    ends = (index for index, piece in enumerate(pieces) if _finishes(piece))
    last = next((index + 1 for index in reversed(range(len(pieces))) if pieces[index].body is not None), 0)
    return next(ends, last)


def _finishes(piece: Piece) -> bool:
    return any(
        read(candidate, "finishReason") is not None for candidate in read_list(piece.response, "candidates")
    )


def _unfinished(piece: Piece) -> Piece:
    """Return the piece without finishReason, because another answer follows."""
    candidates = [without(candidate, "finishReason") for candidate in read_list(piece.response, "candidates")]
    return replace(piece, response=write(piece.response, "candidates", candidates)) if candidates else piece


def _count_releasable(held: Sequence[Piece], window: int) -> int:
    """Return the number of pieces that can be released, as a full window of text follows in their channels.

    Pieces of a channel that has ended are also released once much more text than one window per channel
    follows.
    """
    behind: Counter[TextChannel] = Counter()
    can_release: list[bool] = []
    for piece in reversed(held):
        texts = join_texts([piece.response])
        enough = behind.total() >= 2 * window * len(behind.keys() | texts.keys())
        can_release.append(enough or all(behind[channel] >= window for channel in texts))
        behind.update({channel: len(text) for channel, text in texts.items()})
    can_release.reverse()
    return can_release.index(False) if False in can_release else len(can_release)


_CANDIDATES_AT_ONCE = 250
"""If a stream has more candidates in pieces that are received at once, other calls run in between."""

_FEW_VALUES = 64 * VALUE_BYTES
"""The work below which a piece of a stream has few candidates."""

AnswerEnd = Literal["finish", "abandon"]
"""How an answer ends: "finish" if it is complete, "abandon" if it is cut off."""


async def redacted_error(judge: Judge, plan: EventPlan, data: bytes) -> bytes:
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


async def error_for_client(judge: Judge, model: str, data: bytes) -> bytes:
    """Return an upstream error as redacted as an answer. Raises ApiError if it is denied or unreadable."""
    try:
        return await redacted_error(judge, judge.plan(AfterModel(SharedValue({}), {}, model)), data)
    except Withheld as withheld:
        raise policy_denied(str(withheld), AfterModel.name) from None


def _after(before: list[Piece], passed: Passed) -> Passed:
    """Return pieces, and what passes after them."""
    return Cut([*before, *passed.pieces], passed.instead) if isinstance(passed, Cut) else [*before, *passed]


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
        answer_rejected: bool = False,
        may_retry: bool = False,
        retries_unselected: bool = False,
        keep_answer: bool = False,
        listener: AnswerListener | None = None,
    ) -> None:
        """Create the pipeline.

        Args:
            judge: Runs the hooks.
            request: The request that is answered.
            adapter: Reads and writes the bodies of the answer.
            steps: Runs the steps of the call.
            ends_turn: Whether the answer can end a turn.
            answer_rejected: Whether a hook has rejected an earlier final answer.
            may_retry: Whether the model can be asked again.
            retries_unselected: Whether it is asked again if it calls a tool that was not selected.
            keep_answer: Whether `answer` will be used.
            listener: Receives what has passed all hooks.
        """
        self._judge, self._model, self._adapter = judge, request.model, adapter
        self._steps, self._worker, self._request_work = steps, steps.worker, steps.work
        self._llm_request, self._plan = request.llm_request, request.plan
        self._candidates = min(request.candidates, MAX_CANDIDATES)
        self._turn_end = _turn_end(judge, request, answer_rejected, may_retry) if ends_turn else None
        self._gate = _tool_gate(judge, request, may_retry, retries_unselected, self._turn_end)
        self._listener = listener
        self._kept: list[JsonObject] | None = [] if keep_answer else None
        self._kept_memory = 0
        self._read_bytes = 0
        self._screens: list[HookScreen] = []
        self._stages: list[AnswerStage] = []
        self._framing: Framing | None = None
        self._meter: AnswerMeter | None = None
        self._cited: CitedTexts | None = None
        self._event_work = 0  # an estimate for the event that is being received
        self._drops_comments = False

    @property
    def needs_parsing(self) -> bool:
        """Whether the answer must be parsed."""
        if self._plan.groups or self._judge.session.call_state.client_filters:
            return True
        return any(each is not None for each in (self._kept, self._gate, self._turn_end, self._listener))

    @property
    def answer(self) -> JsonObject | None:
        """The joined answer after all hooks, before pseudonyms are restored; None if it was not kept."""
        return join_events(self._kept) if self._kept else None

    def held_bytes(self) -> int:
        """Return the number of bytes held back for hooks."""
        return sum(stage.held_bytes() for stage in self._stages)

    async def judge_whole(self, data: bytes, meter: AnswerMeter | None = None) -> bytes | Ended | AskAgain:
        """Return a whole answer after its hooks, or what comes instead of it. `meter` reads it, if given."""
        self._read_bytes, self._meter, work = len(data), meter, work_of(data)
        piece = await self._parse(Frame(data, data), work)
        if piece.body is None:
            return await self.redact_error(data)
        self._prepare([EventStage(self._fire)] if self._plan.groups else [], is_whole=True)
        passed = await self._advance([piece], "finish")
        if isinstance(passed, Cut):
            return passed.instead
        [judged] = passed
        if judged.response is not piece.response:
            moved = await self._worker.run(work, with_moved_citations, piece.response, judged.response)
            judged = replace(judged, response=moved)
        return await self._worker.run(work, judged.data)

    async def redact_error(self, data: bytes) -> bytes | Ended:
        """Redact an upstream error, or return what the client receives if a screen denies it."""
        try:
            data = await redacted_error(self._judge, self._plan, data)
            for stage in self._client_filters():
                data = await stage.redact_error(data)
        except Withheld as withheld:
            return denied_answer(withheld, self._judge)
        return data

    # ---- streamed answers

    def begin_stream(self, framing: Framing, meter: AnswerMeter | None = None) -> None:
        """Prepare for a streamed answer with this framing. `meter`, if given, reads its events."""
        self._framing, self._meter = framing, meter
        modes = self._plan.stream_modes.items()
        self._prepare([stage for mode, window in modes for stage in self._hook_stages(mode, window)])
        self._drops_comments = any(screen.enforces for screen in self._screens)

    def _prepare(self, hook_stages: Sequence[AnswerStage], *, is_whole: bool = False) -> None:
        """Set the stages of the answer, in order. A whole answer is a stream of one piece."""
        edits = hook_stages or self._judge.session.call_state.client_filters
        self._cited = CitedTexts() if edits and not is_whole else None
        original = OriginalStage() if hook_stages and self._judge.requires_json else None
        if original is not None:
            self._stages.append(original)
        self._stages += hook_stages
        if original is not None:
            self._stages.append(JsonStage(original, self._worker))
        if self._gate is not None:
            self._stages.append(GateStage(self._gate, self._steps))
        if self._turn_end is not None:
            self._stages.append(TurnEndStage(self._turn_end, self._gate))
        if self._kept is not None:
            self._stages.append(CopyStage(self._keep))
        if self._listener is not None:
            self._stages.append(ListenerStage(self._listener))
        self._stages += [EventStage(self._filter_whole)] if is_whole else self._client_filters()
        if self._cited is not None:
            self._stages.append(CitationStage(self._cited, self._steps))

    def _hook_stages(self, mode: StreamMode, window: int) -> Sequence[AnswerStage]:
        """Return the stages of the hooks with a stream mode."""
        judge = partial(self._fire, mode=mode, plan=self._plan_for(mode))
        match mode:
            case "held":
                self._screens = self._judge.screens(self._plan)
                return [ScreenStage(screen, self._judge) for screen in self._screens]
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
        return self._judge.plan(event)

    async def feed(self, chunk: bytes, *, last: bool = False) -> Passed:
        """Judge the next bytes of the answer, and return the pieces that can be sent, or its end.

        With `last`, the answer is complete: `chunk` has its last bytes, if any, and nothing is held back.
        """
        assert self._framing is not None  # noqa: S101  # for the type checker
        self._steps.work = self._request_work  # an earlier event may have been large
        pieces: list[Piece] = []
        released: list[Piece] = []
        weight = 0  # of `pieces`
        end: AnswerEnd | None = "finish" if last else None
        error: ApiError | None = None
        framing = self._framing
        try:
            if framing.parses_events:
                frames = await self._parsed_frames(framing, chunk, last=last)
            else:
                frames = [*framing.feed(chunk), *(framing.finish() if last else ())]
            for received in frames:
                if weight >= _CANDIDATES_AT_ONCE:
                    passed = await self._advance(pieces, None)
                    if isinstance(passed, Cut):
                        return _after(released, passed)
                    released, pieces, weight = [*released, *passed], [], 0
                    await self._steps.pause()
                frame = received
                if not received.data and is_error(received.raw):
                    frame = Frame(received.raw, received.raw, is_bare=True)
                elif not received.is_plain:
                    check_frame(framing, received)
                    if self._drops_comments:  # screens do not read comments, but some clients do
                        frame = framing.bare(received)
                self._read_bytes += len(received.raw)
                work = work_of(frame.raw)
                piece = (
                    self._parse_piece(frame, work) if work <= SMALL_BODY else await self._parse(frame, work)
                )
                if self._cited is not None and piece.body is not None:
                    self._cited.note_original(piece.response)
                pieces.append(piece)
                weight += 1 if work < _FEW_VALUES else len(read_list(piece.response, "candidates")) or 1
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
        frames = await self._worker.run(self._event_work, framing.feed, chunk)
        return [*frames, *await self._worker.run(self._event_work, framing.finish)] if last else frames

    async def abandon(self) -> Passed:
        """Return the pieces that may still be sent of an answer that the upstream has cut off."""
        return await self._advance([], "abandon")

    async def _advance(
        self, pieces: list[Piece], end: AnswerEnd | None, outcome: Ended | AskAgain | None = None
    ) -> Passed:
        """Pass pieces through all stages. If one of them ends the answer, the later ones are abandoned."""
        for stage in self._stages:
            try:
                passed: Passed = await stage.feed(pieces) if pieces else pieces
                if end is not None and not isinstance(passed, Cut):
                    rest = await (stage.finish() if end == "finish" else stage.abandon())
                    passed = _after(passed, rest)
            except ApiError as error:
                passed = Cut(await stage.abandon(), as_value(error))
            if isinstance(passed, Cut):
                pieces, outcome, end = passed.pieces, passed.instead, "abandon"
            else:
                pieces = passed
        return pieces if outcome is None else Cut(pieces, outcome)

    def close(self) -> None:
        """Record the runs of the screens, and free the stages. Call this after the end of the answer."""
        for screen in self._screens:
            self._judge.record_screen(screen, self._read_bytes)
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
            ScreenStage(make(), self._judge)
            for make in self._judge.session.call_state.client_filters.values()
        ]

    async def _parse(self, frame: Frame, work: int) -> Piece:
        if work > SMALL_BODY:
            self._steps.work = work
        return await self._worker.run(work, self._parse_piece, frame, work)

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
                if (data := with_whole_characters(frame.data)) is frame.data:
                    raise
                frame = Frame(with_whole_characters(frame.raw), data)
                body = loads(data, bounds)
            if len(frame.data) > self._worker.limits.items:
                check_items(body, self._worker.limits.items, TOO_MANY)
            if type(body) is not dict:
                raise BodyError("", "it is not a JSON object")
            if self._meter is not None:
                self._meter.note(body)
            if "error" in body and len(body) == 1:  # with other fields, it is judged like any other answer
                return Piece(frame, None, {}, adapter, work)
            # GenerateContent returns the body itself; this saves a call for each event of a stream.
            response = body if type(adapter) is GenerateContent else adapter.decode_answer(body)
            return Piece(frame, body, check_response(response, self._candidates), adapter, work)
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
        work = answers[0].work if len(answers) == 1 else sum([piece.work for piece in answers])
        if work > SMALL_BODY:
            self._steps.work = work
        joined = (
            answers[0].response
            if len(answers) == 1
            else await self._worker.run(work, join_events, responses_of(answers))
        )
        event = AfterModel(self._llm_request, joined, self._model, mode)
        outcome = await self._judge.fire(event, size, plan or self._plan)
        if ended := self._judge.ended_by(outcome.verdict, AfterModel.name):
            return Cut([], ended)
        edited = outcome.event.body
        if edited is joined:
            return pieces
        cut = iter(await self._worker.run(work, cut_events, responses_of(answers), joined, edited))
        return [piece if piece.body is None else replace(piece, response=next(cut)) for piece in pieces]


def _turn_end(
    judge: Judge, request: JudgedRequest, answer_rejected: bool, may_retry: bool
) -> TurnEndEvents | None:
    """Return what judges an answer that ends a turn; None if no hook does."""
    turn_judge = judge.of_derived("turns", request.reported)
    if judge.requires_json or not turn_judge.listens_to(AfterAgent.name):
        return None
    return TurnEndEvents(turn_judge, request.prompt, answer_rejected, may_retry)


def _tool_gate(
    judge: Judge,
    request: JudgedRequest,
    may_retry: bool,
    retries_unselected: bool,
    turn_end: TurnEndEvents | None,
) -> ToolGate | None:
    """Return what decides on the answer's function calls; None if nothing needs to know them."""
    judges: list[ToolCallJudge] = []
    if request.selection is not None:
        judges.append(AllowedTools(request.selection, judge.record, retries=retries_unselected))
    tool_judge = judge.of_derived("tools", request.reported)
    if tool_judge.listens_to(BeforeTool.name):
        judges.append(ToolCallEvents(tool_judge, request.descriptions))
    return ToolGate(judges, judge.session.call_state, retries=may_retry) if judges or turn_end else None


_SENT_AT_ONCE = 100
"""If more pieces of a stream are sent at once, other calls run in between."""


class AnswerDelivery:
    """Delivers the answers of one call: one, or several if the model is asked again."""

    def __init__(self, call: Call, reply: Reply) -> None:
        self._call, self._record = call, call.record
        self._reply = reply
        self.counts_usage = True
        """Whether the tokens that the upstream reports are used by this call, and not by an earlier one."""
        self._is_delivered = False  # whether the current answer has been sent to its end
        self._meter: AnswerMeter
        """The meter of the current answer."""

    @property
    def usage(self) -> Usage:
        """The tokens that the current answer reports, after its last byte."""
        self._meter.finish()
        return self._meter.usage

    @asynccontextmanager
    async def ask_upstream(
        self, route: Route, headers: Mapping[str, str], payload: bytes | None
    ) -> AsyncIterator[UpstreamAnswer]:
        """Send a request upstream and yield its answer, which `deliver` sends to the client.

        An answer that is cut off after its beginning was sent ends the connection of the client as well, and
        the block quietly. Raises ApiError if no answer
        arrives.
        """
        self._meter = AnswerMeter(
            streamed=self._reply.framing is not None, note_model=self._record.note_answered_by
        )
        status, attempts = 0, len(self._record.attempts)
        self._is_delivered = was_left = False
        for observer in self._call.observers:
            observer.begin_answer()
        try:
            async with self._call.send(route, headers, payload) as answer:
                status = answer.status
                yield answer
        except (asyncio.CancelledError, ConnectionError):  # the client has left
            was_left = True
            if not status and len(self._record.attempts) > attempts:
                status = 200  # the upstream may have begun to answer
            raise
        except UpstreamError as error:
            self._record.outcome = "failed"
            if not self._reply.started:
                raise error.as_api_error() from None
            self._call.services.note_error(self._record, error.as_api_error())
            self._reply.cut_off()
        finally:
            if 200 <= status < 300:
                self._settle(was_left=was_left)
            self._record.held_bytes = no_bytes

    def _settle(self, *, was_left: bool) -> None:
        """Note how the answer ended and what it used. An estimate is added for what it does not report.

        `was_left` says that the client left before its end.
        """
        record, reported = self._record, self.usage
        if self.counts_usage:
            record.usage += reported
        if self.counts_usage and not record.continues_in_background:
            record.estimated_usage += self._meter.unreported(record.expected_use(), was_left=was_left)
        if self._is_delivered and self._meter.failure and record.outcome is None:
            self._call.services.note_upstream_failure(record, self._meter.failure)

    async def deliver(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | AskAgain | None:
        """Send the answer: judged, copied, or as an error. Returns what comes instead of the rest of it."""
        outcome = await self._send(answer, pipeline)
        self._is_delivered = outcome is None
        return outcome

    async def _send(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | AskAgain | None:
        reply = self._reply
        self._record.held_bytes = pipeline.held_bytes
        if not 200 <= answer.status < 300:
            return await self._pass_error(answer, pipeline)
        if reply.framing is None:
            return await self._send_whole(answer, pipeline)
        reply.set_headers(with_judged_body(answer.headers))
        if pipeline.needs_parsing or reply.framing.needs_parsing:
            return await self._stream(answer, pipeline, reply.framing)
        await self._copy_stream(answer)
        return None

    async def _send_whole(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | AskAgain | None:
        data = await read_whole(self._chunks(answer), memory=self._call.answer_memory)
        if pipeline.needs_parsing:
            judged = await pipeline.judge_whole(data, self._meter)
            if not isinstance(judged, bytes):
                return judged
            data = judged
            await self._show_answer(pipeline)
        else:
            await self._call.request.body_worker.run(work_of(data), self._meter.note_whole, data)
        await self._reply.send_whole(answer.status, with_judged_body(answer.headers), data)
        return None

    async def _copy_stream(self, answer: UpstreamAnswer) -> None:
        self._reply.stop_keep_alives()
        async for chunk in self._chunks(answer):
            await self._reply.write(chunk)

    async def _chunks(self, answer: UpstreamAnswer) -> AsyncIterator[bytes]:
        """Yield the answer's bytes, and show them to the meter of tokens and to observers."""
        while chunk := await answer.read():
            for observer in self._call.observers:
                observer.on_upstream_bytes(chunk)
            await meter_chunk(self._call, self._meter, chunk)
            yield chunk

    async def _stream(
        self, answer: UpstreamAnswer, pipeline: AnswerPipeline, framing: Framing
    ) -> Ended | AskAgain | None:
        """Send the answer as hooks release it. If the answer is cut off, send the part before that, too."""
        # Other framings convert events, so that the pipeline does not parse what was received.
        shares_events = pipeline.needs_parsing and not framing.parses_events
        pipeline.begin_stream(framing, self._meter if shares_events else None)
        observers = self._call.observers
        try:
            while chunk := await answer.read():
                for observer in observers:
                    observer.on_upstream_bytes(chunk)
                slices = stream_slices(chunk)
                for each in slices:
                    if len(slices) > 1:
                        await self._call.steps.pause()
                    if not shares_events:
                        self._meter.feed(each)
                    if outcome := await self._send_passed(await pipeline.feed(each), framing):
                        return outcome
                self._call.answer_memory.resize(pipeline.held_bytes())
            return await self._send_passed(await pipeline.feed(b"", last=True), framing)
        except UpstreamError:
            if outcome := await self._send_passed(await pipeline.abandon(), framing):
                return outcome
            raise
        finally:  # after an error, too: the client has received this part
            await self._show_answer(pipeline)

    async def _send_passed(self, passed: Passed, framing: Framing) -> Ended | AskAgain | None:
        """Send what has passed the pipeline. Returns what comes next if this is the end of the answer."""
        pieces, outcome = (passed.pieces, passed.instead) if isinstance(passed, Cut) else (passed, None)
        for start in range(0, len(pieces), _SENT_AT_ONCE):
            if start:
                await self._call.steps.pause()
            encoded: list[bytes] = []
            for piece in pieces[start : start + _SENT_AT_ONCE]:
                if piece.response is piece.body and piece.frame.is_plain and not framing.is_open:
                    encoded.append(piece.frame.raw)
                elif piece.work <= SMALL_BODY:
                    encoded.append(framing.encode(piece.frame, piece.data()))
                else:
                    encoded.append(await self._encode_large(piece, framing, piece.work))
            await self._reply.write(b"".join(encoded))
        return outcome

    async def _encode_large(self, piece: Piece, framing: Framing, work: int) -> bytes:
        """Return the bytes of a piece with this work, made in a thread."""
        worker = self._call.request.body_worker
        data = await worker.run(work, piece.data)
        return await worker.run(work if framing.parses_events else 0, framing.encode, piece.frame, data)

    async def _show_answer(self, pipeline: AnswerPipeline) -> None:
        """Pass the answer after all hooks to the observers that need it, with pseudonyms still in place."""
        if (answer := pipeline.answer) is None:
            return
        for observer in self._call.observers:
            if observer.wants_answer:
                observer.on_answer(answer)
                await observer.save()

    async def _pass_error(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | None:
        """Send the upstream's error, redacted like an answer."""
        self._record.outcome = "failed"
        body = await pipeline.redact_error(await read_whole(answer.chunks(), MAX_ERROR))
        if not isinstance(body, bytes):
            return body
        if await self._reply.send_whole(answer.status, with_judged_body(answer.headers), body):
            return None
        problem = f"the upstream answered {answer.status} after the answer to the client had begun"
        self._call.services.note_upstream_failure(self._record, problem)
        error = ApiError(502, f"The upstream answered {answer.status}.", UPSTREAM_BROKE).body()
        await self._reply.fail(encode_answer(loads(body)) if is_error(body) else error)
        return None
