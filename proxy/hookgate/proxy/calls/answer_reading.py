"""Reads what upstreams answer: in bounded memory, and only what can be shown to hooks."""

import re
from collections.abc import AsyncIterable
from io import BytesIO
from typing import Self

from hookgate.proxy.errors import ApiError
from hookgate.proxy.server.bodies import SMALL_BODY, TOO_MANY, BodyWorker, work_of, work_of_lines
from hookgate.proxy.server.memory import VALUE_BYTES
from hookgate.translator import BodyError, Frame, Framing, JsonArray, check_response
from hookgate.translator.answer_types import typed_answer
from hookgate.translator.checks import check_items
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

MAX_ANSWER = 64 * 1024 * 1024
"""The largest answer that is buffered for hooks, in bytes."""

MAX_ERROR = 1024 * 1024
"""The largest error of an upstream that is buffered, in bytes. Its number of values has no other limit."""


class AnswerLease:
    """The memory of one large answer, until the end of the block. A small answer takes none.

    Answers are counted apart from requests: these wait for memory, which answers of other callers must not.
    """

    def __init__(self, body_worker: BodyWorker) -> None:
        self._body_worker, self._size = body_worker, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.resize(0)

    def resize(self, size: int) -> None:
        """Set the number of bytes. Raises ApiError (502) if they do not fit beside other answers."""
        size = size if size > SMALL_BODY else 0
        others = self._body_worker.answer_bytes - self._size
        if others and size > self._size and others + size > self._body_worker.limits.memory:
            raise unreadable_answer("it does not fit into limits.memory beside other large answers")
        self._body_worker.answer_bytes, self._size = others + size, size


async def read_whole(
    chunks: AsyncIterable[bytes], most: int = MAX_ANSWER, memory: AnswerLease | None = None
) -> bytes:
    """Return the body of an answer that is not streamed.

    `memory`, if given, is set to what the body takes when it is parsed. Raises ApiError (502) if the body
    exceeds `most` bytes, or does not fit beside other answers.
    """
    received = BytesIO()
    async for chunk in chunks:
        received.write(chunk)
        if received.tell() > most:
            raise answer_too_large(most)
        if memory is not None:
            memory.resize(received.tell())
    data = received.getvalue()
    if memory is not None:
        memory.resize(work_of(data))
    return data


_SLICE = 64 * 1024
"""The maximum number of bytes of a stream to process at once, so that other tasks can run in between."""


def stream_slices(data: bytes) -> list[bytes]:
    """Return the data of a stream in slices that are small enough to be processed in the event loop.

    A slice has less work than a body that needs a thread. Each line counts like a value.
    """
    if len(data) <= SMALL_BODY // (1 + VALUE_BYTES):
        return [data]  # as nearly always
    if len(data) <= _SLICE and work_of(data) + work_of_lines(data) <= SMALL_BODY:
        return [data]
    half = len(data) // 2
    return [*stream_slices(data[:half]), *stream_slices(data[half:])]


# Characters other than CR and LF that end a line for some clients: VT, FF, FS, GS, RS, NEL, LS and PS.
_ODD_LINE_END = rb"[\v\f\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]"
_ODD_END = re.compile(_ODD_LINE_END)
# A line of a server-sent event; one without a name is a comment. In JSON, odd line ends are in strings only.
_LINE = re.compile(rb"data:|(?:event|id|retry)?:(?!.*(?:" + _ODD_LINE_END + rb"))")
_LONGEST_NOTE = 64 * 1024
"""The size in bytes of the longest line of a server-sent event besides its data, such as a comment."""

_MAX_BARE_ERROR = 64 * 1024
"""The size in bytes of the largest error that is forwarded although it stands outside of events."""


def is_error(data: bytes) -> bool:
    """Return whether data of a stream is an error in JSON. Google's servers send them without framing.

    Some clients read each line that is an object as an event, and some of them end lines where Unicode does.
    An error with such a line, or with such an end of a line, is not accepted.
    """
    if len(data) > _MAX_BARE_ERROR or not data.lstrip().startswith(b"{") or _ODD_END.search(data):
        return False
    lines = [line.strip(b" \t,") for line in data.strip().splitlines()]
    if len(lines) > 1 and any(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        return False
    try:
        body = loads(data)
    except BodyError:
        return False
    return isinstance(body, dict) and body.keys() == {"error"}


def check_frame(framing: Framing, frame: Frame) -> None:
    """Check that a frame has no data outside its event, which some clients would read.

    Raises ApiError (502).
    """
    raw = frame.raw
    if isinstance(framing, JsonArray):
        valid = not raw.removesuffix(frame.data).strip(b" \t\r\n[,]")
    else:
        valid = frame.is_plain or all(map(_may_stand, filter(None, raw.splitlines())))
    if not valid:
        raise unreadable_answer("the stream contains data outside its events")


def _may_stand(line: bytes) -> bool:
    """Return whether a line may be in a server-sent event."""
    is_short = len(line) <= _LONGEST_NOTE or line.startswith(b"data:")
    return is_short and _LINE.match(line) is not None


def read_answer(data: bytes, body_worker: BodyWorker) -> JsonObject:
    """Parse a whole answer. Raises ApiError (502) if it is invalid."""
    try:
        body = loads(data, body_worker.bounds)
        check_items(body, body_worker.limits.items, TOO_MANY)
    except BodyError as error:
        raise unreadable_answer(str(error)) from None
    if not isinstance(body, dict):
        raise unreadable_answer("it is not a JSON object")
    return body


def checked_answer(body: JsonObject) -> JsonObject:
    """Return an answer with the fields that clients need. Raises ApiError (502) if hooks cannot read it."""
    try:
        return typed_answer(check_response(body))
    except BodyError as error:
        raise unreadable_answer(str(error)) from None


def answer_too_large(most: int = MAX_ANSWER) -> ApiError:
    """Return the error for an answer that is too large to be buffered."""
    return unreadable_answer(f"it needs more than {most} bytes of memory")


def unreadable_answer(problem: str) -> ApiError:
    """Return the error for an answer that cannot be shown to hooks."""
    return ApiError(502, f"The upstream's answer cannot be judged: {problem}", "UPSTREAM_UNREADABLE")
