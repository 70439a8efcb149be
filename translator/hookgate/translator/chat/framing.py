"""The framing of a streamed chat completion: server-sent events with chunks, and `[DONE]` at the end.

The chunks of a function call are joined to one frame, from its first piece to the end of its choice, because
a call is judged with all of its arguments. Other chunks pass one by one.

Clients join calls that have the same index, each in its own way: the names, the arguments, or both. Therefore
each call gets an index of its own, also in later chunks.
"""

from typing import Any

from hookgate.translator.chat.answer import completion_chunks, is_piece
from hookgate.translator.fields import BodyError, JsonObject, read_list, read_object, same_items
from hookgate.translator.streaming.framing import KEPT_ITEM, Frame
from hookgate.translator.streaming.joining import DONE, JoinedEvents, read_frame
from hookgate.translator.strictjson import encode_answer, may_contain

_END = b"data: %b\n\n" % DONE
_CALLS, _USAGE, _LOGPROBS = b'"tool_calls"', b'"usage"', b'"logprobs"'


class _CallIndexes:
    """The indexes that the client receives for the calls of one answer; each call of a choice has its own."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}  # by choice: the next free index
        self._indexes: dict[tuple[int, Any], int] = {}  # by choice and the upstream's index: of the last call

    def __len__(self) -> int:
        return len(self._indexes)

    def apply_to(self, chunk: JsonObject) -> JsonObject:
        """Return a chunk with these indexes; the same object if it has them. Raises BodyError."""
        choices = read_list(chunk, "choices")
        new = [self._apply_to_choice(choice) for choice in choices]
        return chunk if same_items(new, choices) else {**chunk, "choices": new}

    def _apply_to_choice(self, choice: Any) -> Any:
        if not isinstance(choice, dict):
            return choice
        delta = read_object(choice, "delta")
        calls = read_list(delta, "tool_calls")
        new = [self._with_index(call, _choice_index(choice)) for call in calls]
        return choice if same_items(new, calls) else {**choice, "delta": {**delta, "tool_calls": new}}

    def _with_index(self, call: Any, choice: int) -> Any:
        if not isinstance(call, dict):
            return call
        given = call.get("index")
        if type(given) is not int and given is not None:
            raise BodyError("tool_calls.index", "an index must be an integer")
        if is_piece(call):
            index = self._indexes.get((choice, given))
        else:
            free = self._next.get(choice, 0)
            index = free if given is None else max(given, free)
            self._indexes[choice, given], self._next[choice] = index, index + 1
        return call if index in (None, given) else {**call, "index": index}


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
        self._call_indexes = _CallIndexes()

    def reset_decoder(self) -> None:
        super().reset_decoder()
        self._calling = set()
        self._call_indexes = _CallIndexes()

    @property
    def kept_bytes(self) -> int:
        return super().kept_bytes + KEPT_ITEM * len(self._call_indexes)

    def expect_choices(self, number: int) -> None:
        """Set the number of choices, by default one, for which the request asks. No others may have calls."""
        self._choices = number

    def hide_usage(self) -> None:
        """Do not send the chunk with the usage, for which the client has not asked."""
        self._hides_usage = self.needs_parsing = True

    # ---- from the upstream

    def _check_end(self, *, done: bool) -> None:
        if self._calling and not done:
            raise BodyError("", "it ends in the middle of a function call")
        self._calling.clear()

    def _received(self, frame: Frame) -> Frame:
        frame = super()._received(frame)
        if not may_contain(frame.data, _CALLS):
            return frame
        chunk = read_frame(frame.data)
        new = self._call_indexes.apply_to(chunk)
        return frame if new is chunk else Frame(_framed(new), encode_answer(new))

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
