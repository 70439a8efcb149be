"""What the client of a stream has received before the model was asked again: the next answer continues it."""

from hookgate.proxy.calls.answer_reading import MAX_ANSWER
from hookgate.proxy.calls.pieces import Piece, check_memory, responses_of
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.server.bodies import work_of
from hookgate.translator import Frame
from hookgate.translator.fields import JsonObject
from hookgate.translator.streaming.events import TextChannel, join_texts
from hookgate.translator.strictjson import encode_answer


class SentText:
    """The text and the thoughts that a client has received of the earlier answers of one stream.

    The client shows them as one text with those of the next answer, so hooks judge them as one. No other
    answer follows one with several candidates.
    """

    def __init__(self) -> None:
        self._texts: dict[TextChannel, list[str]] = {}
        self._size = 0

    def note(self, pieces: list[Piece]) -> None:
        """Note pieces that are sent. Raises ApiError (502) if their texts take more memory than an answer."""
        for channel, text in join_texts(responses_of(pieces)).items():
            self._texts.setdefault(channel, []).append(text)
            self._size += len(text)
        check_memory(self._size)

    def read(self, *, thought: bool) -> str:
        """Return the text so far, or the thoughts."""
        return "".join(self._texts.get(TextChannel(0, thought), ()))

    def pieces(self, adapter: DialectAdapter, most: int = MAX_ANSWER) -> list[Piece]:
        """Return the last `most` characters of the text and of the thoughts, as a piece if there are any."""
        thoughts, text = self.read(thought=True)[-most:], self.read(thought=False)[-most:]
        parts: list[JsonObject] = [{"text": thoughts, "thought": True}] if thoughts else []
        parts += [{"text": text}] if text else []
        if not parts:
            return []
        response: JsonObject = {"candidates": [{"content": {"role": "model", "parts": parts}}]}
        data = encode_answer(response)
        return [Piece(Frame(data, data), response, response, adapter, work_of(data))]
