"""The framing of a streamed chat completion: server-sent events with chunks, and `[DONE]` at the end.

The chunks of a function call are joined to one frame, from its first piece to the end of its choice, because
a call is judged with all of its arguments. Other chunks pass one by one.

Clients join calls that have the same index, and leave out chunks that they cannot read, each in its own way.
Therefore each call is sent whole, in one chunk, and the calls of a choice are numbered as they are sent.
"""

from collections import Counter
from typing import Any

from hookgate.translator.chat.answer import completion_chunks, with_joined_calls
from hookgate.translator.chat.envelope import split_chunk
from hookgate.translator.fields import BodyError, JsonObject, read_list, read_object, same_items
from hookgate.translator.streaming.framing import Frame
from hookgate.translator.streaming.joining import DONE, JoinedEvents, read_frame
from hookgate.translator.strictjson import encode_answer, may_contain

_END = b"data: %b\n\n" % DONE
_CALLS, _USAGE, _LOGPROBS = b'"tool_calls"', b'"usage"', b'"logprobs"'


def _without_logprobs(choice: Any) -> Any:
    has_any = isinstance(choice, dict) and choice.get("logprobs") is not None
    return {**choice, "logprobs": None} if has_any else choice


def _choice_index(choice: JsonObject) -> int:
    """Return the index of a choice. Raises BodyError if it is not an integer."""
    index = choice.get("index")
    if type(index) is not int and index is not None:
        raise BodyError("choices.index", "an index must be an integer")
    return index or 0


class CompletionChunks(JoinedEvents):
    """The chunks of one completion, or of several in a row that the client receives as one."""

    list_name = "chunks"

    def __init__(self) -> None:
        super().__init__()
        self._hides_usage = False
        self._choices = 1
        self._calling: set[int] = set()  # the indexes of choices with a call that may continue
        self._sent_calls: Counter[int] = Counter()  # by choice

    def reset_decoder(self) -> None:
        super().reset_decoder()
        self._calling = set()

    def expect_choices(self, number: int) -> None:
        """Set the number of choices, by default one, for which the request asks. No others may have calls."""
        self._choices = number

    def hide_usage(self) -> None:
        """Do not send the chunk with the usage, for which the client has not asked."""
        self._hides_usage = self.changes_frames = True

    # ---- from the upstream

    def _check_end(self, *, done: bool) -> None:
        if self._calling and not done:
            raise BodyError("", "it ends in the middle of a function call")
        self._calling.clear()

    def _received(self, frame: Frame) -> list[Frame]:
        [frame] = super()._received(frame)
        chunk = read_frame(frame.data)
        chunks = split_chunk(chunk)
        if len(chunks) == 1 and chunks[0] is chunk:
            return [frame]
        return [Frame(_framed(each), encode_answer(each)) for each in chunks]

    def _hold(self, frame: Frame) -> None:
        """Hold a chunk without its log probabilities, whose tokens hooks could not judge as one text."""
        if may_contain(frame.data, _LOGPROBS):
            chunk = read_frame(frame.data)
            choices = read_list(chunk, "choices")
            kept = [_without_logprobs(choice) for choice in choices]
            if not same_items(kept, choices):
                new = {**chunk, "choices": kept}
                frame = Frame(_framed(new), encode_answer(new))
        super()._hold(frame)

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
            index, delta = _choice_index(choice), choice.get("delta")
            if isinstance(delta, dict) and delta.get("tool_calls"):
                if not 0 <= index < self._choices:  # clients that expect one take any choice for it
                    raise BodyError("choices.index", "the request does not ask for so many choices")
                self._calling.add(index)
            if choice.get("finish_reason") is not None:
                self._calling.discard(index)
        return bool(self._calling)

    # ---- to the client

    def encode(self, frame: Frame, data: bytes) -> bytes:
        hides = self._hides_usage and may_contain(data, _USAGE)
        if data is frame.data and not hides and not may_contain(data, _CALLS):
            return super().encode(frame, data)
        value = read_frame(data)
        chunks = value["chunks"] if "chunks" in value and "choices" not in value else [value]
        kept = [chunk for chunk in with_joined_calls(chunks) if not (hides and _is_usage(chunk))]
        new = [self._numbered(chunk) for chunk in kept]
        if data is frame.data and same_items(new, chunks):
            return super().encode(frame, data)
        return self._missing_end() + b"".join(map(_framed, new))

    def _numbered(self, chunk: JsonObject) -> JsonObject:
        """Return a chunk that is sent, with its calls numbered; the same object if they are."""
        choices = read_list(chunk, "choices")
        new = [self._with_indexes(choice) for choice in choices]
        return chunk if same_items(new, choices) else {**chunk, "choices": new}

    def _with_indexes(self, choice: JsonObject) -> JsonObject:
        delta = read_object(choice, "delta")
        calls = read_list(delta, "tool_calls")
        index = _choice_index(choice)
        new = [
            call if type(call.get("index")) is int and call["index"] == number else {**call, "index": number}
            for number, call in enumerate(calls, self._sent_calls[index])
        ]
        self._sent_calls[index] += len(calls)
        return choice if same_items(new, calls) else {**choice, "delta": {**delta, "tool_calls": new}}

    def event(self, data: bytes) -> bytes:
        """Return the bytes of all chunks of a whole completion, and of their end."""
        chunks = map(self._numbered, completion_chunks(read_frame(data)))
        return self._missing_end() + b"".join(map(_framed, chunks)) + _END


def _is_usage(chunk: JsonObject) -> bool:
    """Return whether a chunk contains the usage only."""
    return chunk.get("choices") == [] and bool(chunk.get("usage"))


def _framed(chunk: JsonObject) -> bytes:
    return b"data: " + encode_answer(chunk) + b"\n\n"
