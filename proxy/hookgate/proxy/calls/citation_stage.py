"""The stage that moves the offsets of citations to the texts that the client receives."""

from collections.abc import Sequence
from dataclasses import replace

from hookgate.hooks.session import Steps
from hookgate.proxy.calls.pieces import PassingStage, Piece
from hookgate.translator.citations import CITING, move_citations
from hookgate.translator.fields import JsonObject, indexes, read_list, same_items, write
from hookgate.translator.streaming.edits import LONG_EDIT
from hookgate.translator.streaming.events import join_texts, only_text

_MAX_CITED = 4 * 1024 * 1024  # characters of an answer whose citations are moved

# All texts are compared for each event with citations, however small it is. So the characters that are
# compared in total are limited to this number, and so many times the characters of all texts.
_COMPARED, _COMPARED_PER_CHARACTER = 4 * 1024 * 1024, 4


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
        most = _COMPARED + _COMPARED_PER_CHARACTER * self.size
        if self.size > _MAX_CITED or self._compared > most:
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


class CitationStage(PassingStage):
    """Moves the offsets of citations to the texts that the client receives."""

    def __init__(self, texts: CitedTexts, steps: Steps) -> None:
        self._texts, self._steps = texts, steps

    async def feed(self, pieces: list[Piece]) -> list[Piece]:
        if self._texts.size * len(pieces) > LONG_EDIT and (
            self._texts.size * sum(map(_cites, pieces)) > LONG_EDIT
        ):
            return await self._steps.run_long(self._texts.note_sent, pieces)
        return self._texts.note_sent(pieces)
