"""The framing of a streamed chat completion: server-sent events with chunks, and `[DONE]` at the end.

The chunks of a function call are joined to one frame, from its first piece to the end of its choice, because
a call is judged with all of its arguments. Other chunks pass one by one.
"""

from typing import Any

from hookgate.translator.chat.answer import completion_chunks
from hookgate.translator.fields import BodyError, JsonObject, read_list
from hookgate.translator.streaming.framing import Frame
from hookgate.translator.streaming.joining import DONE, JoinedEvents, read_frame
from hookgate.translator.strictjson import encode_answer, may_contain

_END = b"data: %b\n\n" % DONE
_CALLS, _USAGE = b'"tool_calls"', b'"usage"'


class CompletionChunks(JoinedEvents):
    """The chunks of one completion, or of several in a row that the client receives as one."""

    list_name = "chunks"

    def __init__(self) -> None:
        super().__init__()
        self._hides_usage = False
        self._calling: set[Any] = set()  # the indexes of choices with a call that may continue

    def reset_decoder(self) -> None:
        super().reset_decoder()
        self._calling = set()

    def hide_usage(self) -> None:
        """Do not send the chunk with the usage, for which the client has not asked."""
        self._hides_usage = self.needs_parsing = True

    # ---- from the upstream

    def _check_end(self, *, done: bool) -> None:
        if self._calling and not done:
            raise BodyError("", "it ends in the middle of a function call")
        self._calling.clear()

    def _is_continued(self, data: bytes) -> bool:
        """Note which choices call functions, and which end. Raises BodyError for what is not a chunk."""
        if not self._calling and not may_contain(data, _CALLS):
            return False
        chunk = read_frame(data)
        if not chunk and data.strip():  # chunks are joined before they are judged
            raise BodyError("", "a chunk is not a JSON object")
        for choice in read_list(chunk, "choices"):
            if not isinstance(choice, dict):
                raise BodyError("choices", "a choice must be an object")
            index, delta = choice.get("index"), choice.get("delta")
            if type(index) is not int and index is not None:
                raise BodyError("choices.index", "an index must be an integer")
            if isinstance(delta, dict) and delta.get("tool_calls"):
                self._calling.add(index)
            if choice.get("finish_reason") is not None:
                self._calling.discard(index)
        return bool(self._calling)

    # ---- to the client

    def encode(self, frame: Frame, data: bytes) -> bytes:
        hides = self._hides_usage and may_contain(data, _USAGE)
        if data is frame.data and not hides:
            return super().encode(frame, data)
        value = read_frame(data)
        chunks = value["chunks"] if "chunks" in value and "choices" not in value else [value]
        kept = [chunk for chunk in chunks if not (hides and _is_usage(chunk))]
        if data is frame.data and len(kept) == len(chunks):
            return super().encode(frame, data)
        return self._missing_end() + b"".join(map(_framed, kept))

    def event(self, data: bytes) -> bytes:
        """Return the bytes of all chunks of a whole completion, and of their end."""
        chunks = completion_chunks(read_frame(data))
        return self._missing_end() + b"".join(map(_framed, chunks)) + _END


def _is_usage(chunk: JsonObject) -> bool:
    """Return whether a chunk contains the usage only."""
    return chunk.get("choices") == [] and bool(chunk.get("usage"))


def _framed(chunk: JsonObject) -> bytes:
    return b"data: " + encode_answer(chunk) + b"\n\n"
