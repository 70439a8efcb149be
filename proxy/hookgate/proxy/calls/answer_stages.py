"""The stages through which an answer passes in pieces: the events of a stream, or one whole piece."""

import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol, TypeAlias, TypeVar

from hookgate.hooks import AfterModel, Screen, Verdict, Withheld
from hookgate.hooks.session import Steps
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.outcomes import AskAgain, Ended
from hookgate.proxy.calls.pacing import CallSteps
from hookgate.proxy.calls.session_events import TurnEndEvents
from hookgate.proxy.calls.tools import ToolGate
from hookgate.proxy.errors import policy_denied
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.server.bodies import (
    MAX_ANSWER,
    SMALL_BODY,
    answer_too_large,
    unreadable_answer,
    work_of,
)
from hookgate.translator import BodyError, Frame, join_events
from hookgate.translator.citations import CITING, move_citations, with_moved_annotations
from hookgate.translator.fields import (
    JsonObject,
    indexes,
    read,
    read_list,
    same_items,
    without,
    write,
)
from hookgate.translator.response import is_json_answer
from hookgate.translator.streaming.edits import LONG_EDIT
from hookgate.translator.streaming.events import TextChannel, join_texts, only_text
from hookgate.translator.streaming.partial_calls import UnfinishedCalls, with_whole_calls
from hookgate.translator.strictjson import encode_answer, loads, with_whole_characters

log = logging.getLogger("hookgate.gateway")

_THREAD_BYTES = 32 * 1024
"""Screens judge batches and errors of more bytes in a thread: each byte may take several microseconds."""

_QUICK_BYTES = 2 * 1024
"""A larger piece or error has a thread if its screen says that it takes long."""

_PORTION_BYTES = 8 * 1024
"""After so many bytes of smaller pieces, other calls may run."""

_MANY_PIECES = 100
"""If more pieces are held, they are judged or made whole in a thread."""

T = TypeVar("T")

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
    def is_edited(self) -> bool:
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
class EarlyEnd:
    """An answer that ends early: its last pieces, which may still be sent, and what comes next."""

    pieces: list[Piece]
    instead: Ended | AskAgain
    """What comes instead of the rest."""


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
        if self._screen.slow or len(data) > _THREAD_BYTES or work_of(data) > SMALL_BODY:
            return await self._steps.run_long(self._redact_error, data)
        value = _read_error(data)
        if len(data) > _QUICK_BYTES and self._screen.takes_long([value]):
            return await self._steps.run_long(self._redact_error, data)
        return self._redacted_error(data, value)

    def _redact_error(self, data: bytes) -> bytes:
        return self._redacted_error(data, _read_error(data))

    def _redacted_error(self, data: bytes, value: Any) -> bytes:
        new = self._screen.redact(value)
        if new is value:
            return data
        return new.encode() if isinstance(value, str) else encode_answer(new)

    async def _screen_pieces(self, batch: list[Piece], *, last: bool, cut_off: bool = False) -> Passed:
        try:
            return await self._release(batch, last=last, cut_off=cut_off)
        except Withheld as withheld:
            return EarlyEnd([], denied_answer(withheld, self._judge))

    async def _release(self, batch: list[Piece], *, last: bool, cut_off: bool) -> list[Piece]:
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
        self._in_doubt = True
        self._memory += sum(map(memory_of, batch))
        size = received_bytes(answers)
        # A piece may release all that are held.
        takes_long = self._screen.slow or len(self._held) > _MANY_PIECES or size > _THREAD_BYTES
        release = partial(self._screen.feed, last=last, cut_off=cut_off)
        if takes_long:
            released = await self._steps.run_long(release, [piece.response for piece in answers])
        elif size <= _QUICK_BYTES:
            released = release([piece.response for piece in answers])
        else:
            released = await self._release_portions(_portions(answers), release)
        out = [self._take(number, response) for number, response in released]
        if others:
            out += await self._judge_others(others)
        if not last and self._memory > MAX_ANSWER:
            raise answer_too_large()
        self._in_doubt = False
        return out + self._endings if last else out

    async def _release_portions(
        self, portions: Sequence[Sequence[Piece]], release: Callable[[Sequence[JsonObject]], T]
    ) -> T:
        """Return what is released with the last portion. Other calls may run after each of the others."""
        for portion in portions[:-1]:
            await self._run_screen(self._screen.add, portion)
            await self._steps.pause()
        return await self._run_screen(release, portions[-1])

    async def _run_screen(self, step: Callable[[Sequence[JsonObject]], T], portion: Sequence[Piece]) -> T:
        responses = [piece.response for piece in portion]
        if len(portion[0].frame.raw) > _QUICK_BYTES and self._screen.takes_long(responses):
            return await self._steps.run_long(step, responses)
        return step(responses)

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


RunHooks = Callable[[list[Piece]], Awaitable[Passed]]
"""Runs hooks on pieces, and returns them with the hooks' edits."""


class _HoldingStage:
    """A stage that may hold pieces back in one list, and discards them if the answer ends early."""

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


class EventStage(_HoldingStage):
    """Runs hooks on events as they arrive. Events that arrive together are judged together."""

    def __init__(self, run_hooks: RunHooks) -> None:
        super().__init__()
        self.feed = run_hooks  # not a method that awaits it: one fewer coroutine is resumed for each event


class WindowStage:
    """Runs hooks on a window of text, which is held back until further text follows it.

    Pieces without text are judged once. They are held, too, to keep the order, but hooks do not see them
    again: their number has no limit. A text that is sent because much of another one followed, such as
    thoughts, is judged again with what continues it.
    """

    def __init__(self, run_hooks: RunHooks, window: int) -> None:
        """Judge at least `window` characters of each text at once."""
        self._run_hooks, self._window = run_hooks, window
        self._held: list[list[Piece]] = []  # each a piece with text, and those without text that follow it
        self._sent: list[Piece] = []  # texts that no full window of their own text followed
        self._memory = 0

    def held_bytes(self) -> int:
        return received_bytes(chain.from_iterable(self._held))

    async def feed(self, pieces: list[Piece]) -> Passed:
        judged = [*(held[0] for held in self._held), *pieces]
        if any(piece.body is not None for piece in pieces):
            passed = await self._run_hooks([*self._sent, *judged])
            if isinstance(passed, EarlyEnd):
                return passed
            judged = _without_sent(self._sent, judged, passed)
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
        if ready:
            texts = [held[0] for held in self._held]
            self._sent = _continued([*self._sent, *texts[:ready]], texts[ready:], self._window)
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


_SENT = "A hook's edit of a text cannot be sent: the part that it changes was sent before."


def _without_sent(sent: list[Piece], judged: list[Piece], passed: list[Piece]) -> list[Piece]:
    """Return what hooks left of `judged`, before which they were shown what was sent. Raises ApiError (403).

    An edit of what was sent has no effect, so it must change the text that continues it, too.
    """
    left = passed[len(sent) :]
    if not _are_same(passed[: len(sent)], sent) and _are_same(left, judged):
        raise policy_denied(_SENT, AfterModel.name)
    return left


def _are_same(pieces: Sequence[Piece], before: Sequence[Piece]) -> bool:
    return same_items([piece.response for piece in pieces], [piece.response for piece in before])


def _continued(sent: Sequence[Piece], later: Sequence[Piece], window: int) -> list[Piece]:
    """Return those of the texts that were sent which no full window of their own text follows."""
    behind: Counter[TextChannel] = Counter()
    kept: list[Piece] = []
    for at, piece in enumerate(reversed([*sent, *later])):
        texts = join_texts([piece.response])
        if at >= len(later) and any(behind[channel] < window for channel in texts):
            kept.append(piece)
        behind.update({channel: len(text) for channel, text in texts.items()})
    return kept[::-1]


def _has_text(piece: Piece) -> bool:
    return piece.body is not None and any(join_texts([piece.response]).values())


class CompleteStage(_HoldingStage):
    """Runs hooks on the complete answer."""

    def __init__(self, run_hooks: RunHooks) -> None:
        super().__init__()
        self._run_hooks = run_hooks

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        self._hold(pieces)
        return []

    async def finish(self) -> Passed:
        return await self._run_hooks(self._take_held())


class OriginalStage(_HoldingStage):
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


class JsonStage(_HoldingStage):
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

    async def finish(self) -> list[Piece]:
        original = self._original
        if original.is_incomplete:
            log.warning("the answer is too large to check whether it is still JSON")
        elif not same_items(self._edited, original.responses):
            await self._steps.run_for(original.memory, _check_json, original.responses, self._edited)
        return self._take_held()


def _check_json(original: Sequence[JsonObject], edited: Sequence[JsonObject]) -> None:
    """Raise ApiError if an answer is no longer JSON after its edits: the client would ask for it again."""
    if is_json_answer(join_events(original)) and not is_json_answer(join_events(edited)):
        raise policy_denied(EDIT_NOT_JSON, AfterModel.name)


EDIT_NOT_JSON = "A hook's edit turned the answer into text that is not JSON, but this call requires JSON."


def responses_of(pieces: Sequence[Piece]) -> list[JsonObject]:
    """Return the responses of the pieces that are part of the answer, without errors."""
    return [piece.response for piece in pieces if piece.body is not None]


class GateStage(_HoldingStage):
    """Decides on the function calls in the answer.

    A call whose arguments are sent in pieces is held back until it is whole, and then sent so.

    If the model is asked again, the client has received the pieces before that of the call, but not the text
    in the same piece: the model, which is shown all of it, may say that again.
    """

    def __init__(self, gate: ToolGate, steps: Steps) -> None:
        super().__init__()
        self._gate, self._steps = gate, steps
        self._unfinished_calls = UnfinishedCalls()

    async def feed(self, pieces: list[Piece]) -> Passed:
        passed: list[Piece] = []
        for piece in pieces:
            # No coroutine for most events of a stream.
            if not self._held and self._gate.pass_text(piece.response):
                passed.append(piece)
                continue
            self._hold([piece])
            if not self._unfinished_calls.note(piece.response):
                many = len(self._held) > _MANY_PIECES
                whole = await self._steps.run_long(self._whole) if many else self._whole()
                self._take_held()
                if end := await self._decide(whole, passed):
                    return end
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

    async def _decide(self, pieces: Sequence[Piece], passed: list[Piece]) -> EarlyEnd | None:
        """Judge pieces whose calls are whole, and append the judged ones to `passed`.

        Returns the end of the answer if it ends here. If the model is asked again, what has passed is sent.
        """
        for piece in pieces:
            if self._gate.pass_text(piece.response):
                passed.append(piece)
                continue
            response = await self._gate.judge(piece.response)
            if isinstance(response, AskAgain):
                return EarlyEnd(passed, response)
            if isinstance(response, Ended):
                return EarlyEnd([], response)
            passed.append(piece if response is piece.response else replace(piece, response=response))
        return None


class TurnEndStage(_HoldingStage):
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


class ObserverStage(_HoldingStage):
    """Shows the parts of the answer to an observer."""

    def __init__(self, observer: CallObserver) -> None:
        super().__init__()
        self._observer = observer

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        for response in responses_of(pieces):
            await self._observer.on_part(response)
        return pieces


class CopyStage(_HoldingStage):
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


class CitationStage(_HoldingStage):
    """Moves the offsets of citations to the texts that the client receives."""

    def __init__(self, texts: CitedTexts, steps: Steps) -> None:
        super().__init__()
        self._texts, self._steps = texts, steps

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        if self._texts.size * len(pieces) > LONG_EDIT and (
            self._texts.size * sum(map(_cites, pieces)) > LONG_EDIT
        ):
            return await self._steps.run_long(self._texts.note_sent, pieces)
        return self._texts.note_sent(pieces)


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
