"""Bodies of requests, decompressed with limits and parsed strictly, and the threads for all large bodies."""

import asyncio
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import aiohttp
from aiohttp import hdrs, web

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.errors import ApiError, body_refused
from hookgate.proxy.server.memory import VALUE_BYTES, BodyMemory, MemoryLease
from hookgate.proxy.server.shared_threads import QueueKey, SharedThread
from hookgate.proxy.server.turn_memory import TurnMemory
from hookgate.translator import BodyError
from hookgate.translator.checks import check_items
from hookgate.translator.fields import JsonObject, is_larger
from hookgate.translator.known_turns import RequestTurns, parse_turns, totals_of
from hookgate.translator.strictjson import Bounds, parse

SMALL_BODY = 256 * 1024
"""The work up to which a body is processed in the event loop: a thread would cost more than it saves.

The work of a body is its size in bytes, with VALUE_BYTES for each of its values: they cost more than text.
"""

_VERY_LARGE = 4 * 1024 * 1024
"""The work above which a body has a thread of its own: a step of it may take a second."""

_PAUSE = 0.005  # seconds that the thread pauses after a step that took longer: the event loop gets the GIL

P = ParamSpec("P")
R = TypeVar("R")


def work_of(data: bytes) -> int:
    """Return an estimate of the work of a JSON text. It is too high if strings contain commas or brackets."""
    work = len(data) + VALUE_BYTES * (data.count(b",") + data.count(b"[") + data.count(b"{"))
    return work + VALUE_BYTES * (data.count(b"\\ud") + data.count(b"\\uD"))  # each surrogate is looked at


def work_of_lines(data: bytes) -> int:
    """Return the work of the lines of a part of a stream: each of them may be an event, or be checked."""
    return VALUE_BYTES * (data.count(b"\n") + data.count(b"\r"))


def is_large(value: Any) -> bool:
    """Return whether the work of a part of a body is more than SMALL_BODY."""
    return is_larger(value, SMALL_BODY, VALUE_BYTES)


class BodyWorker:
    """Threads that process large bodies, and the memory for all bodies.

    There is one thread for large bodies and one for very large ones, which the others do not wait for. More
    would only take the GIL from the event loop more often. Callers take turns at each of them.
    """

    def __init__(self, limits: LimitSettings) -> None:
        self.limits = limits
        self.bounds = Bounds(limits.text, limits.values)
        self.memory = BodyMemory(limits, SMALL_BODY)
        """The memory for requests."""
        self.turns = TurnMemory()
        """The turns of earlier requests."""
        self.answer_bytes = 0
        """The bytes that large answers take now."""
        self._large = SharedThread("hookgate-bodies")
        self._very_large = SharedThread("hookgate-large-bodies")

    async def run(
        self, queue_key: QueueKey, work: int, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run a step for a body of this work and return its result. Large bodies use a thread.

        Steps must change nothing that others use meanwhile, and must not hold the GIL for more than a few
        milliseconds at a time.
        """
        if work <= SMALL_BODY:
            return step(*args, **kwargs)
        return await self.run_in_thread(queue_key, work, partial(step, *args, **kwargs))

    async def run_in_thread(self, queue_key: QueueKey, work: int, step: Callable[..., R], *args: Any) -> R:
        """Run a step in the thread for bodies of this work, and return its result."""
        thread = self._very_large if work > _VERY_LARGE else self._large

        def run_step() -> R:
            started = time.monotonic()
            try:
                return step(*args)
            finally:
                time.sleep(_PAUSE if time.monotonic() - started > _PAUSE else 0)

        return await thread.run(queue_key, run_step)


CODINGS = ("identity", "gzip", "deflate")
"""The content codings that hookgate can decompress, and `identity`."""

INFLATE_STEP = 256 * 1024
"""The largest number of bytes that zlib decompresses at once."""

_INPUT_SLICE = 64 * 1024  # bytes passed to zlib at once: it copies the input that it does not use

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


class Inflation:
    """The decompression of a body, step by step."""

    def __init__(self, data: bytes, coding: str, limit: int) -> None:
        """Decompress `data`, which has this coding, to at most `limit` bytes."""
        self._coding, self._limit = coding, limit
        # It must not refer to this object: if it is not read to its end, both would be kept for a long time.
        self._rest, self._pieces = _inflate(data, coding), list[bytes]()
        self.size = 0
        """The number of bytes so far."""
        self.data = b""
        """The decompressed body, once it is complete."""

    def advance(self) -> bool:
        """Decompress a quarter of what there is, but at least `INFLATE_STEP` more bytes.

        Returns whether there may be more of them, and False once the body is complete.

        Raises ApiError: 400 if the data is invalid or has more than one stream, 413 as soon as the output
        exceeds the limit.
        """
        goal = self.size + max(INFLATE_STEP, self.size // 4)
        try:
            while self.size < goal and (piece := next(self._rest, b"")):
                self._pieces.append(piece)
                self.size += len(piece)
                if self.size > self._limit:
                    raise request_too_large(self._limit)
        except zlib.error:
            raise _invalid_body(f"it is not valid {self._coding} data") from None
        if self.size >= goal:
            return True
        self.data = b"".join(self._pieces)
        self._pieces.clear()
        return False


def _inflate(data: bytes, coding: str) -> Iterator[bytes]:
    """Yield the pieces of a decompressed body. Raises ApiError (400), or zlib.error."""
    if not data:
        return
    stream = zlib.decompressobj(compression_window(data, coding))
    for start in range(0, len(data), _INPUT_SLICE):
        if stream.eof:
            raise _invalid_body("data follows the end of the compressed stream")
        yield from inflate_pieces(stream, data[start : start + _INPUT_SLICE])
    if not stream.eof:
        raise _invalid_body("the compressed stream is incomplete")
    if stream.unused_data:
        raise _invalid_body("data follows the end of the compressed stream")


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


class _BodySource(Protocol):
    """The part of a request that reading its body needs. All requests of the server have it."""

    body_size: int
    body_work: int
    body_worker: BodyWorker
    memory_lease: MemoryLease
    content: aiohttp.StreamReader
    content_length: int | None
    queue_key: QueueKey
    turns: RequestTurns


TOO_MANY = "send fewer at once, or ask the operator to raise limits.items"
"""What to do about a body with too many items."""

_SHORTEST_WITH_TURNS = 8192
"""The size in bytes up to which a body is parsed as quickly as its turns would be found."""

_LONGEST_WITH_TURNS = 1024 * 1024
"""The size in bytes from which bodies are rather long files than long conversations."""


async def read_request(request: web.BaseRequest, *, has_turns: bool = False) -> JsonObject:
    """Return a request's body, which must be a JSON object.

    With `has_turns`, turns with which an earlier request of the caller began are not parsed again, and the
    request's `turns` are set. What they contain is shared, so it must not be changed.

    Forward what is serialized from it, not the bytes as received: other parsers may read these differently.

    If a key is repeated in one object, its last value is used. The memory that the body takes is reserved in
    the request's `memory_lease`. Raises ApiError: 400 if the body is invalid, 403 if there was not enough
    memory in time, 413 if it is too large, 415 for an unknown coding.
    """
    source = cast(_BodySource, request)
    body_worker, memory, queue_key = source.body_worker, source.memory_lease, source.queue_key
    coding = content_coding(request)
    data = await _read(source)
    if coding != "identity":
        data = await _inflated(source, data, coding)
    source.body_size = len(data)
    memory.resize(len(data))
    try:
        if memory.is_short:  # what a body takes once it is parsed may be a hundred times as much
            most = len(data) + VALUE_BYTES * body_worker.limits.values
            await memory.reserve(min(await body_worker.run(queue_key, len(data), work_of, data), most))
        if has_turns and _SHORTEST_WITH_TURNS < len(data) < _LONGEST_WITH_TURNS:
            caller, _ = queue_key
            known = body_worker.turns.find(caller, data)
            new = len(data) - _saved_work(known.turns[-1].end if known.turns else 0)
            parsed, source.turns = await body_worker.run(
                queue_key, new, parse_turns, data, known, body_worker.bounds
            )
        else:
            parsed = await body_worker.run(queue_key, len(data), parse, data, body_worker.bounds)
        work = len(data) + VALUE_BYTES * parsed.count
        source.body_work = work - _saved_work(_work_of_known(source.turns))
        if parsed.members > (most := body_worker.limits.items):  # an item is in a list
            await body_worker.run(queue_key, work, check_items, parsed.value, most, TOO_MANY)
    except BodyError as error:
        raise body_refused(error) from None
    if not isinstance(parsed.value, dict):
        raise body_refused("it must be a JSON object")
    memory.resize(work)
    return parsed.value


def _work_of_known(turns: RequestTurns) -> int:
    known = turns.turns[: turns.known]
    return known[-1].end + VALUE_BYTES * totals_of(known).values if known else 0


def _saved_work(work: int) -> int:
    """Return the part of the work of known turns that is not done again. Views still contain their texts."""
    return work * 3 // 4


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
    """Return the body's bytes, still encoded. Memory is reserved for what has arrived."""
    limit, memory, content = request.body_worker.limits.body, request.memory_lease, request.content
    if (request.content_length or 0) > limit:
        raise request_too_large(limit)
    body, arrival = BytesIO(), _Arrival(content, memory)
    try:
        while chunk := await (content.readany() if content.is_eof() else arrival.next_chunk()):
            body.write(chunk)
            if body.tell() > limit:
                raise request_too_large(limit)
            await memory.reserve(body.tell())
    except web.RequestPayloadError as error:
        message = _TOO_SLOW if arrival.is_too_slow else f"The request body cannot be read: {error}"
        raise ApiError(400, message, "BODY_REFUSED") from None
    return body.getvalue()


_TOO_SLOW = "The request body arrived too slowly while other requests waited for memory."

_PACE_CHECKS = 8  # how often within `fair_seconds` it is checked whether others wait


class _Arrival:
    """The arrival of a body. It ends if it takes long while others wait for the memory of the body."""

    def __init__(self, content: aiohttp.StreamReader, memory: MemoryLease) -> None:
        self.is_too_slow = False
        """Whether it has ended for this reason."""
        self._content, self._memory = content, memory
        self._left = memory.fair_seconds  # for which the client may still be waited for
        self._timer: asyncio.TimerHandle

    async def next_chunk(self) -> bytes:
        """Return the bytes that arrive next. Raises web.RequestPayloadError if they do not arrive in time."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._timer = loop.call_later(max(self._left, 0), self._check)
        try:
            return await self._content.readany()
        finally:
            self._timer.cancel()
            self._left -= loop.time() - began

    def _check(self) -> None:
        if self._memory.contended:
            self.is_too_slow = True
            self._content.set_exception(web.RequestPayloadError())
        else:
            delay = self._memory.fair_seconds / _PACE_CHECKS
            self._timer = asyncio.get_running_loop().call_later(delay, self._check)


async def _inflated(request: _BodySource, data: bytes, coding: str) -> bytes:
    """Return the decompressed body. Memory is reserved for `data` and what it has become so far."""
    worker, memory = request.body_worker, request.memory_lease
    inflation = Inflation(data, coding, worker.limits.body)
    goes_on = True
    while goes_on:
        goes_on = await worker.run(request.queue_key, max(len(data), inflation.size), inflation.advance)
        await memory.reserve(len(data) + inflation.size)
    return inflation.data
