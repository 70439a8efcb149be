"""The framing of a streamed chat completion: server-sent events with chunks, and `[DONE]` at the end.

The chunks of a function call are joined to one frame, from its first piece to the end of its choice, because
a call is judged with all of its arguments. Other chunks pass one by one.
"""

import re
from typing import Any

from hookgate.translator.chat.answer import completion_chunks
from hookgate.translator.fields import BodyError, JsonObject, read_list
from hookgate.translator.streaming.framing import Frame, ServerSentEvents
from hookgate.translator.streaming.joining import JoinedFrames, read_frame
from hookgate.translator.strictjson import dumps

_DONE = b"[DONE]"
_END = b"data: [DONE]\n\n"
_CALLS = b'"tool_calls"'
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')


class CompletionChunks(ServerSentEvents):
    """The chunks of one completion, or of several in a row that the client receives as one."""

    def __init__(self) -> None:
        super().__init__()
        self._hides_usage = False
        self._calling: set[Any] = set()  # the indexes of choices with a call that may continue
        self._held = JoinedFrames("chunks")

    def begin_anew(self) -> None:
        super().begin_anew()
        self._calling = set()
        self._held.clear()

    def hide_usage(self) -> None:
        """Do not send the chunk with the usage, for which the client has not asked."""
        self._hides_usage = self.needs_parsing = True

    # ---- from the upstream

    def feed(self, chunk: bytes) -> list[Frame]:
        return self._joined(super().feed(chunk))

    def finish(self) -> list[Frame]:
        """Return the last frames. Raises BodyError if the stream ends in the middle of a function call."""
        frames = self._joined(super().finish())
        if self._calling:
            raise BodyError("", "it ends in the middle of a function call")
        return [*frames, *self._held.release()]

    def _joined(self, frames: list[Frame]) -> list[Frame]:
        out: list[Frame] = []
        for frame in frames:
            if frame.data.strip() == _DONE:
                self._calling.clear()
                out += [*self._held.release(), Frame(frame.raw, b"")]
                continue
            if not self._calling and _CALLS not in frame.data:
                out.append(frame)
                continue
            self._note_calls(frame.data)
            self._held.add(frame)
            if not self._calling:
                out += self._held.release()
        return out

    def _note_calls(self, data: bytes) -> None:
        """Note which choices call functions, and which end. Raises BodyError for what is not a chunk."""
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

    # ---- to the client

    def encode(self, frame: Frame, data: bytes) -> bytes:
        hides = self._hides_usage and _NO_CHOICES.search(data) is not None
        if data is frame.data and not hides:
            return super().encode(frame, data)
        value = read_frame(data)
        chunks = value["chunks"] if "chunks" in value and "choices" not in value else [value]
        if hides:
            chunks = [chunk for chunk in chunks if chunk.get("choices") != [] or not chunk.get("usage")]
        return self._missing_end() + b"".join(map(_framed, chunks))

    def event(self, data: bytes) -> bytes:
        """Return the bytes of all chunks of a whole completion, and of their end."""
        chunks = completion_chunks(read_frame(data))
        return self._missing_end() + b"".join(map(_framed, chunks)) + _END


def _framed(chunk: JsonObject) -> bytes:
    return b"data: " + dumps(chunk) + b"\n\n"
