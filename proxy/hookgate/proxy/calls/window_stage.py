"""The stage of hooks that judge a window of text, which is held back until further text follows it."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from hookgate.proxy.calls.answer_stages import RunHooks, run_after
from hookgate.proxy.calls.pieces import EarlyEnd, Passed, Piece, check_memory, memory_of, received_bytes
from hookgate.translator.streaming.events import TextChannel, join_texts


class WindowStage:
    """Runs hooks on a window of text, which is held back until further text follows it.

    Pieces without text are judged once. They are held, too, to keep the order, but hooks do not see them
    again: their number has no limit. A text that is sent because much of another one followed, such as
    thoughts, is judged again with what continues it.
    """

    def __init__(self, run_hooks: RunHooks, window: int, sent: Sequence[Piece] = ()) -> None:
        """Judge at least `window` characters of each text at once, and with them what was `sent` before."""
        self._run_hooks, self._window = run_hooks, window
        self._held: list[list[Piece]] = []  # each a piece with text, and those without text that follow it
        self._sent = sent  # texts that no full window of their own text followed
        self._held_bytes = self._memory = 0

    def held_bytes(self) -> int:
        return self._held_bytes

    async def feed(self, pieces: list[Piece]) -> Passed:
        judged = [*(held[0] for held in self._held), *pieces]
        if any(piece.body is not None for piece in pieces):
            passed = await run_after(self._sent, judged, self._run_hooks)
            if isinstance(passed, EarlyEnd):
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
        if ready:
            texts = [held[0] for held in self._held]
            self._sent = _continued([*self._sent, *texts[:ready]], texts[ready:], self._window)
        del self._held[:ready]
        self._held_bytes += received_bytes(pieces) - received_bytes(released)
        self._memory += sum(map(memory_of, pieces)) - sum(map(memory_of, released))
        check_memory(self._memory)
        return released

    async def finish(self) -> list[Piece]:
        rest, self._held, self._held_bytes = [*chain.from_iterable(self._held)], [], 0
        return rest

    async def abandon(self) -> list[Piece]:
        self._held, self._held_bytes = [], 0
        return []


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
