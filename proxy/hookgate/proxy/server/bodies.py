"""Bodies of requests and answers: large ones are processed off the event loop, in bounded memory.

Requests are decompressed with limits, and parsed strictly.
"""

import asyncio
import math
import re
import time
import zlib
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, ParamSpec, Protocol, Self, TypeVar, cast

import aiohttp
from aiohttp import hdrs, web

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.errors import ApiError, body_refused
from hookgate.translator import BodyError, Frame, Framing, JsonArray, check_response
from hookgate.translator.checks import check_items
from hookgate.translator.fields import JsonObject, is_larger
from hookgate.translator.strictjson import Bounds, loads, parse

SMALL_BODY = 256 * 1024
"""The work up to which a body is processed in the event loop: a thread would cost more than it saves.

The work of a body is its size in bytes, with VALUE_BYTES for each of its values: they cost more than text.
"""

_VERY_LARGE = 4 * 1024 * 1024
"""The work above which a body has a thread of its own: a step of it may take a second."""

VALUE_BYTES = 128
"""The estimated memory of a parsed value in bytes, in addition to its text."""

_PAUSE = 0.005  # seconds that the thread pauses after a step that took longer: the event loop gets the GIL

P = ParamSpec("P")
R = TypeVar("R")


def work_of(data: bytes) -> int:
    """Return an estimate of the work of a JSON text. It is too high if strings contain commas or brackets."""
    return len(data) + VALUE_BYTES * (data.count(b",") + data.count(b"[") + data.count(b"{"))


def work_of_lines(data: bytes) -> int:
    """Return the work of the lines of a part of a stream: each of them may be an event, or be checked."""
    return VALUE_BYTES * (data.count(b"\n") + data.count(b"\r"))


def is_large(value: Any) -> bool:
    """Return whether the work of a part of a body is more than SMALL_BODY."""
    return is_larger(value, SMALL_BODY, VALUE_BYTES)


class BodyWorker:
    """Threads that process large bodies, and the count of the bytes that are reserved for all bodies.

    There is one thread for large bodies and one for very large ones, which the others do not wait for. More
    would only take the GIL from the event loop more often.
    """

    def __init__(self, limits: LimitSettings) -> None:
        self.limits = limits
        self.bounds = Bounds(limits.text, limits.values)
        self._large = ThreadPoolExecutor(1, "hookgate-bodies")
        self._very_large = ThreadPoolExecutor(1, "hookgate-large-bodies")
        self.answer_bytes = 0
        """The bytes that large answers take now."""
        self._reserved = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._short_until = -math.inf  # on the monotonic clock

    @property
    def contended(self) -> bool:
        """Whether a body waits for memory that others use, or a message was recently refused for it."""
        return bool(self._waiting) or time.monotonic() < self._short_until

    @property
    def leased_bytes(self) -> int:
        """The number of bytes that are reserved now."""
        return self._reserved

    async def run(self, work: int, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a step for a body of this work and return its result. Large bodies use a thread.

        Steps must change nothing that others use meanwhile, and must not hold the GIL for more than a few
        milliseconds at a time.
        """
        if work <= SMALL_BODY:
            return step(*args, **kwargs)
        return await self.run_in_thread(work, partial(step, *args, **kwargs))

    async def run_in_thread(self, work: int, step: Callable[..., R], *args: Any) -> R:
        """Run a step in the thread for bodies of this work, and return its result."""
        thread = self._very_large if work > _VERY_LARGE else self._large

        def run_step() -> R:
            started = time.monotonic()
            try:
                return step(*args)
            finally:
                time.sleep(_PAUSE if time.monotonic() - started > _PAUSE else 0)

        return await asyncio.get_running_loop().run_in_executor(thread, run_step)

    @property
    def fair_seconds(self) -> float:
        """The seconds that a body may take to arrive while others wait."""
        return self.limits.body_timeout / 2

    async def admit(self, size: int) -> None:
        """Wait until `size` more bytes may be held; first come, first served.

        Raises ApiError (403) if that takes longer than `limits.body_timeout`.
        """
        if self._waiting or not self._fits(size):
            await self._wait(size)
        else:
            self._reserved += size

    def has_room(self, size: int) -> bool:
        """Return whether `size` more bytes can be reserved now, without making others wait longer."""
        return not self._waiting and self._fits(size)

    def note_shortage(self) -> None:
        """Let the memory count as contended until all incomplete bodies and messages have been checked."""
        self._short_until = time.monotonic() + self.limits.body_timeout

    def _fits(self, size: int) -> bool:
        return self._reserved + size <= self.limits.memory or not self._reserved

    async def _wait(self, size: int) -> None:
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.append((size, admitted))
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                await admitted
        except TimeoutError:
            self._give_up(size, admitted)
            raise ApiError(403, _BUSY, "BODIES_BUSY") from None
        except asyncio.CancelledError:
            self._give_up(size, admitted)
            raise

    def _give_up(self, size: int, admitted: "asyncio.Future[None]") -> None:
        if admitted.done() and not admitted.cancelled():
            self.adjust(-size)  # it has just been admitted
        else:
            self._waiting = deque(entry for entry in self._waiting if entry[1] is not admitted)
            self.adjust(0)

    def adjust(self, by: int) -> None:
        """Add `by`, which may be negative, to the reserved bytes, and admit waiting bodies that now fit."""
        self._reserved += by
        while self._waiting and self._fits(self._waiting[0][0]):
            size, admitted = self._waiting.popleft()
            if not admitted.done():
                self._reserved += size
                admitted.set_result(None)


class MemoryLease:
    """The memory reserved for one body, from its first byte to the end of its call.

    For a WebSocket, it is reserved for the client's messages that have not been processed.
    """

    def __init__(self, body_worker: BodyWorker) -> None:
        self._body_worker = body_worker
        self.size = 0

    async def acquire(self, size: int) -> None:
        """Release the reserved memory and wait for `size` bytes. Raises ApiError (403) if it takes too long.

        Nothing is kept while waiting, or leases could wait for one another forever.
        """
        self.release()
        await self._body_worker.admit(size)
        self.size = size

    def resize(self, size: int) -> None:
        """Set the number of reserved bytes, without waiting, even if it exceeds the limit."""
        difference, self.size = size - self.size, size
        self._body_worker.adjust(difference)

    def grow(self, size: int) -> bool:
        """Set the number of reserved bytes, unless they are more than before and do not fit now.

        Returns whether it was set.
        """
        if size > self.size and not self._body_worker.has_room(size - self.size):
            self._body_worker.note_shortage()
            return False
        self.resize(size)
        return True

    @property
    def contended(self) -> bool:
        """Whether a body waits for memory that others use."""
        return self._body_worker.contended

    @property
    def fair_seconds(self) -> float:
        """The seconds for which memory may stay reserved for incomplete data while others wait."""
        return self._body_worker.fair_seconds

    def release(self) -> None:
        """Release the memory: the call has ended."""
        self.resize(0)


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


_BUSY = (
    "hookgate already handles as many large requests as it has memory for, and none of them finished in "
    "time; try again later, or ask the operator to raise limits.memory."
)


CODINGS = ("identity", "gzip", "deflate")
"""The content codings that hookgate can decompress, and `identity`."""

INFLATE_STEP = 1024 * 1024
"""The largest number of bytes that one step of decompression returns."""

_INPUT_SLICE = 64 * 1024  # bytes passed to zlib at once: it copies the input that it does not use

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


def inflate(data: bytes, coding: str, limit: int) -> bytes:
    """Decompress a body.

    Raises ApiError: 400 if the data is invalid or has more than one stream, 413 as soon as the output exceeds
    `limit` bytes.
    """
    if not data:
        return data
    stream = zlib.decompressobj(compression_window(data, coding))
    pieces: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(data), _INPUT_SLICE):
            if stream.eof:
                raise _invalid_body("data follows the end of the compressed stream")
            for piece in inflate_pieces(stream, data[start : start + _INPUT_SLICE]):
                size += len(piece)
                if size > limit:
                    raise request_too_large(limit)
                pieces.append(piece)
    except zlib.error:
        raise _invalid_body(f"it is not valid {coding} data") from None
    if not stream.eof:
        raise _invalid_body("the compressed stream is incomplete")
    if stream.unused_data:
        raise _invalid_body("data follows the end of the compressed stream")
    return b"".join(pieces)


def inflate_pieces(stream: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """Yield the output for the next input of a stream, at most `INFLATE_STEP` bytes at a time."""
    while True:
        piece = stream.decompress(data, INFLATE_STEP)
        data = stream.unconsumed_tail
        if piece:
            yield piece
        if stream.eof or (not data and len(piece) < INFLATE_STEP):
            return


def request_too_large(limit: int) -> ApiError:
    """Return the error for a request body that is larger than `limits.body`."""
    return ApiError(413, f"The request body is too large: more than {limit} bytes.", "BODY_TOO_LARGE")


def compression_window(data: bytes, coding: str) -> int:
    """Return zlib's `wbits` for the format: some clients send `deflate` without the zlib header."""
    if coding == "gzip":
        return _GZIP
    return _ZLIB if data[0] & 0x0F == zlib.DEFLATED else _RAW


def _invalid_body(problem: str) -> ApiError:
    return ApiError(400, f"The request body cannot be read: {problem}", "BODY_REFUSED")


MAX_ANSWER = 64 * 1024 * 1024
"""The largest answer that is buffered for hooks, in bytes."""

# Characters other than CR and LF that end a line for some clients: VT, FF, FS, GS, RS, NEL, LS and PS.
_ODD_LINE_END = rb"[\v\f\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]"
_ODD_END = re.compile(_ODD_LINE_END)
# A line of a server-sent event; one without a name is a comment. In JSON, odd line ends are in strings only.
_LINE = re.compile(rb"data:|(?:event|id|retry)?:(?!.*(?:" + _ODD_LINE_END + rb"))")
_LONGEST_NOTE = 64 * 1024
"""The size in bytes of the longest line of a server-sent event besides its data, such as a comment."""


class _BodySource(Protocol):
    """The part of a request that reading its body needs. All requests of the server have it."""

    body_size: int
    body_work: int
    body_worker: BodyWorker
    memory_lease: MemoryLease
    content: aiohttp.StreamReader
    content_length: int | None


async def read_request(request: web.BaseRequest) -> JsonObject:
    """Return a request's body, which must be a JSON object.

    Forward what is serialized from it, not the bytes as received: other parsers may read these differently.

    If a key is repeated in one object, its last value is used. The memory that the body takes is reserved in
    the request's `memory_lease`. Raises ApiError: 400 if the body is invalid, 403 if there was not enough
    memory in time, 413 if it is too large, 415 for an unknown coding.
    """
    source = cast(_BodySource, request)
    body_worker, memory = source.body_worker, source.memory_lease
    coding = content_coding(request)
    data = await _read(source)
    if coding != "identity":
        limit = body_worker.limits.body
        await memory.acquire(limit)
        data = await body_worker.run(limit, inflate, data, coding, limit)
    source.body_size = len(data)
    memory.resize(len(data))
    try:
        parsed = await body_worker.run(len(data), parse, data, body_worker.bounds)
        work = source.body_work = len(data) + VALUE_BYTES * parsed.count
        if parsed.count > (most := body_worker.limits.items):
            await body_worker.run(work, check_items, parsed.value, most, TOO_MANY)
    except BodyError as error:
        raise body_refused(error) from None
    if not isinstance(parsed.value, dict):
        raise body_refused("it must be a JSON object")
    memory.resize(work)
    return parsed.value


TOO_MANY = "send fewer at once, or ask the operator to raise limits.items"
"""What to do about a body with too many items."""


async def read_bytes(request: web.BaseRequest) -> bytes:
    """Return the bytes of a request's body as they are, which may be none. Raises ApiError (403, 413)."""
    source = cast(_BodySource, request)
    data = await _read(source)
    source.body_size = source.body_work = len(data)
    source.memory_lease.resize(len(data))
    return data


def content_coding(request: web.BaseRequest) -> str:
    """Return the content coding of a request's body. Raises ApiError (415) if it is not supported."""
    coding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, ["identity"])).lower()
    if coding not in CODINGS:
        message = f"The Content-Encoding {coding!r} is not supported; use gzip, deflate or none."
        raise ApiError(415, message, "ENCODING_NOT_SUPPORTED")
    return coding


async def _read(request: _BodySource) -> bytes:
    """Return the body's bytes, still encoded. A body of unknown length is assumed to be small at first."""
    body_worker, memory = request.body_worker, request.memory_lease
    limit, length = body_worker.limits.body, request.content_length
    if (length or 0) > limit:
        raise request_too_large(limit)
    await memory.acquire(SMALL_BODY if length is None else length)
    started = asyncio.get_running_loop().time()
    body = BytesIO()  # unlike a bytearray's, its bytes are taken without a copy
    try:
        while chunk := await request.content.readany():
            body.write(chunk)
            if body.tell() > limit:
                raise request_too_large(limit)
            if body.tell() > memory.size:
                await memory.acquire(limit)
            if (
                body_worker.contended
                and asyncio.get_running_loop().time() - started > body_worker.fair_seconds
            ):
                message = "The request body arrived too slowly while other requests waited for memory."
                raise ApiError(400, message, "BODY_REFUSED")
    except web.RequestPayloadError as error:
        raise ApiError(400, f"The request body cannot be read: {error}", "BODY_REFUSED") from None
    return body.getvalue()


MAX_ERROR = 1024 * 1024
"""The largest error of an upstream that is buffered, in bytes. Its number of values has no other limit."""


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
    """Return the response in an answer. Raises ApiError (502) if it cannot be shown to hooks."""
    try:
        return check_response(body)
    except BodyError as error:
        raise unreadable_answer(str(error)) from None


def answer_too_large(most: int = MAX_ANSWER) -> ApiError:
    """Return the error for an answer that is too large to be buffered."""
    return unreadable_answer(f"it needs more than {most} bytes of memory")


def unreadable_answer(problem: str) -> ApiError:
    """Return the error for an answer that cannot be shown to hooks."""
    return ApiError(502, f"The upstream's answer cannot be judged: {problem}", "UPSTREAM_UNREADABLE")
