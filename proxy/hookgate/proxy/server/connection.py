"""Clients' connections and requests: timeouts, request IDs, header checks, errors, clean shutdown.

There are timeouts for a request's headers, for its body, and for reading its answer. A connection has at most
one timer, and none while it does not wait for its client. Errors have Google's format.
"""

import asyncio
import fcntl
import logging
import math
import re
import socket
import struct
import termios
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from secrets import token_hex
from typing import Any

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.http_exceptions import BadHttpMessage, ContentEncodingError, HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo
from multidict import CIMultiDict

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.errors import ApiError, request_refused
from hookgate.proxy.server.bodies import BodyWorker
from hookgate.proxy.server.memory import MemoryLease
from hookgate.proxy.server.shared_threads import QueueKey
from hookgate.proxy.server.websocket_frames import IncomingMessages
from hookgate.translator.known_turns import NO_TURNS

log = logging.getLogger("hookgate.gateway")

KEEP_ALIVE_TIMEOUT = 75.0
"""Seconds that an idle connection is kept open for another request."""

_CLIENT_ERRORS = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""Errors of requests that cannot be read, and of clients that have left. Others are defects of hookgate."""

_RESET = struct.pack("ii", 1, 0)  # the SO_LINGER value that closes with a reset
_CHECKS = 4  # how often within reader_timeout a slow reader's progress is checked
_SLOW_BODY = 1024  # bytes per second

_SLICE = 4 * 1024
"""The bytes of a body in chunks that are parsed before its chunks are checked. A chunk takes 2 µs."""

_MAX_FRAMING = 8 * 1024
"""The bytes that the chunks of a body may take besides its content, and one more for 64 bytes of it."""


class Phase(IntEnum):  # unlike Enum, it is hashed without a call of a Python function
    """The phase of a connection's current request."""

    IDLE = 0
    """There is no request: nothing was sent yet, the last one has ended, or the TLS handshake is running."""
    HEAD = 1
    """The headers of a request are incomplete."""
    BODY = 2
    """The body of a request is incomplete."""
    CALL = 3
    """A complete request is being handled."""


@dataclass(eq=False, slots=True)
class TrackedConnection:
    """An accepted connection."""

    address: str
    close: Callable[[], bool]
    """Closes it at once and returns True, or returns False if it must not be closed now."""
    phase: Phase = field(default=Phase.IDLE)


class TooSlow(BadHttpMessage):
    """Raised for a request that did not arrive in time."""

    def __str__(self) -> str:
        return self.message


class TimedConnection(web.RequestHandler):
    """A connection with timeouts for its client."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_body_since",
        "_has_tiny_chunks",
        "_head_since",
        "_last_progress",
        "_last_received",
        "_limits",
        "_open_transport",
        "_timer",
        "_unsent",
        "stopping",
    )

    def __init__(
        self,
        manager: web.Server,
        limits: LimitSettings,
        loop: asyncio.AbstractEventLoop,
        keep_alive_timeout: float | None = None,
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=KEEP_ALIVE_TIMEOUT if keep_alive_timeout is None else keep_alive_timeout,
            auto_decompress=False,  # aiohttp would decompress in the event loop, and without our limit
            access_log=None,  # type: ignore[arg-type]  # hookgate logs its calls itself
        )
        self.stopping = False  # whether the connection accepts no further request
        self._limits = limits
        self._open_transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head_since: float | None = None  # when incomplete headers began to arrive
        self._body: StreamReader = EMPTY_PAYLOAD  # of the latest request
        self._body_since, self._body_bytes = 0.0, 0  # when it began, and the bytes received since
        self._has_tiny_chunks = False  # of a body that was refused, so that nothing more is read
        self._last_received = self._last_progress = 0.0  # when the client last sent data, and last read some
        self._unsent: float = 0  # bytes that the client had not read at `_last_progress`

    def has_slow_body(self) -> bool:
        """Return whether the client sends its body more slowly than `_SLOW_BODY`."""
        seconds = self._loop.time() - self._body_since
        waits = not (self._body.is_eof() or self._reading_paused or self._buffer_paused)
        return waits and self._body_bytes < seconds * _SLOW_BODY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._open_transport = self.transport  # aiohttp drops its own reference as soon as it closes it

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open_transport = None
        self._body = EMPTY_PAYLOAD  # the body refers to this connection
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._parse(data[:_SLICE])
        for start in range(_SLICE, len(data), _SLICE):
            if self._body.is_eof() or not self._is_chunked:
                self._parse(data[start:])
                return
            self._parse(data[start : start + _SLICE])

    @property
    def _is_chunked(self) -> bool:
        """Whether the latest request has a body in chunks."""
        latest = self._messages[-1][0] if self._messages else self._current_request
        if latest is None or isinstance(latest, _ErrInfo):
            return False
        return hdrs.TRANSFER_ENCODING in latest.headers

    def _parse(self, data: bytes) -> None:
        """Process received bytes, unless the chunks before them were refused."""
        if self._has_tiny_chunks:
            return
        requests, in_body = self._request_count, not self._body.is_eof()
        super().data_received(data)
        if self._request_count > requests:
            self._body, self._head_since = self._messages[-1][1], None
            self._body_since, self._body_bytes = self._loop.time(), 0
        elif not (in_body or self._head_since or self._upgraded) and data.strip(b"\r\n"):
            self._head_since = self._loop.time()
        self._body_bytes += len(data)  # including the headers, so that a new request does not look slow
        if self._body_bytes - self._body.total_bytes > _MAX_FRAMING + self._body.total_bytes // 64:
            self._refuse_chunks()
        if data and not self.stopping:  # the time for the rest is counted from the stop
            self._last_received = self._loop.time()
        if data:
            self._wait_for_more()

    def _refuse_chunks(self) -> None:
        """Refuse a body in chunks of a few bytes: each takes as long as a hundred bytes of a larger one."""
        if self._body.is_eof() or self._upgraded or not self._is_chunked:
            return
        self._has_tiny_chunks = True
        self._pause_transport_reading()
        self._end_body("it is sent in chunks of a few bytes; send larger ones")

    def resume_reading(self, resume_parser: bool = True) -> None:
        if not self.stopping:
            self._last_received = self._loop.time()  # until now the gateway did not read
        super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    async def start(self) -> None:
        try:
            await super().start()
        finally:
            if self._open_transport is not None and _buffered_bytes(self._open_transport):
                self._wait_for_reader()  # it closes once the client has read the rest

    def _wait_for_more(self) -> None:
        if self._head_since is not None:
            self._check_at(self._head_since + self._limits.header_timeout)
        elif not self._body.is_eof():
            self._check_at(self._last_received + self._limits.body_timeout)

    def _wait_for_reader(self) -> None:
        self._last_progress, self._unsent = self._loop.time(), math.inf
        self._check_at(self._last_progress + self._limits.reader_timeout / _CHECKS)

    def _check_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check)

    def _check(self) -> None:
        """Enforce the timeouts that have passed, and set the timer for the next one."""
        self._timer = None
        for check in (self._check_reader, self._check_head, self._check_body):
            due = check()
            if due is not None:
                self._check_at(due)

    def _check_reader(self) -> float | None:
        """Abort the connection of a client that does not read its answer. Returns when to check again."""
        if self._open_transport is None or not (self._paused or self._open_transport.is_closing()):
            return None
        now = self._loop.time()
        unsent = unsent_bytes(self._open_transport)
        if unsent < self._unsent:
            self._last_progress, self._unsent = now, unsent
        if now < self._last_progress + self._limits.reader_timeout:
            return now + self._limits.reader_timeout / _CHECKS
        log.info("a client does not read its answer; its connection is aborted")
        # A reset: otherwise the kernel would keep the unsent data.
        if (sock := self._open_transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._open_transport.abort()
        return None

    def _check_head(self) -> float | None:
        """Refuse a request whose headers are overdue. Returns when to check again."""
        if self._head_since is None:
            return None
        return self._act_when_due(self._head_since + self._limits.header_timeout, self._refuse_head)

    def _refuse_head(self) -> None:
        self._head_since = None
        error = TooSlow("its headers did not arrive in time")
        self._request_count += 1  # as aiohttp does for requests that it cannot parse
        self._messages.append((_ErrInfo(400, error, ""), EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _check_body(self) -> float | None:
        """Stop reading a body that no longer arrives. Returns when to check again, if ever."""
        if self._body.is_eof() or self._body.exception():
            return None
        if (self._reading_paused or self._buffer_paused) and not self.stopping:
            self._last_received = self._loop.time()
        end = partial(self._end_body, "the rest of it did not arrive in time")
        return self._act_when_due(self._last_received + self._limits.body_timeout, end)

    def _end_body(self, why: str) -> None:
        if self._request_in_progress or self._messages:
            self._body.set_exception(web.RequestPayloadError(why))
        else:
            self.force_close()  # the request has been answered already

    def _act_when_due(self, when: float, act: Callable[[], None]) -> float | None:
        if self._loop.time() < when:
            return when
        act()
        return None


def unsent_bytes(transport: asyncio.Transport) -> int:
    """Return the number of bytes that the peer has not received yet, including the kernel's buffer.

    The kernel signals free space only once a third of its buffer is free. By that signal alone, a client that
    reads slowly would seem not to read at all.
    """
    return _buffered_bytes(transport) + _queued(transport, termios.TIOCOUTQ)


def _buffered_bytes(transport: asyncio.Transport) -> int:
    """Return the number of bytes in the transport's own buffer."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:  # asyncio forgets the TLS protocol of a transport that is closed twice
        return 0


def unread_bytes(transport: asyncio.Transport) -> int:
    """Return the number of bytes that the peer has sent and that have not been read yet."""
    return _queued(transport, termios.FIONREAD)


def _queued(transport: asyncio.Transport, which: int) -> int:
    """Return the number of bytes in one of the kernel's two queues for the transport's socket."""
    sock = transport.get_extra_info("socket")
    if sock is None:  # a TLS connection whose peer has gone
        return 0
    return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), which, b"\0" * 4))[0])


REQUEST_ID_HEADER = "X-Request-Id"
_VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Request(web.BaseRequest):
    """A request with an ID, which is the client's if that is valid. It is sent upstream and in the answer."""

    ATTRS = web.BaseRequest.ATTRS | frozenset(
        {
            *("body_size", "body_work", "body_worker", "id", "is_http1"),
            *("memory_lease", "on_answer_start", "queue_key", "turns"),
        }
    )

    def __init__(
        self, message: Any, payload: Any, protocol: Any, *rest: Any, body_worker: BodyWorker, **limits: Any
    ) -> None:
        headers = CIMultiDict(message.headers)
        self.id = headers[REQUEST_ID_HEADER] = _request_id(headers.getall(REQUEST_ID_HEADER, ()))
        self.body_worker = body_worker
        self.memory_lease = MemoryLease(body_worker.memory, protocol.tracked.address)
        self.queue_key: QueueKey = ("", "")
        """Whose turn it is when the steps of this request wait for a shared thread."""
        self.body_size = self.body_work = 0
        """The bytes of the body that has been read, decompressed, and the work of it (see `work_of`)."""
        self.turns = NO_TURNS
        """The turns of the body that has been read, if some of them may be known."""
        self.on_answer_start: Callable[[web.StreamResponse], Awaitable[None]] | None = None
        """Called with the answer before its headers are sent. It may add some."""
        self.is_http1 = message.version in (HttpVersion10, HttpVersion11)
        # aiohttp answers in the request's version; for an unknown version the answer is HTTP/1.1.
        version = message.version if self.is_http1 else HttpVersion11
        super().__init__(
            message._replace(headers=headers, version=version), payload, protocol, *rest, **limits
        )

    def note_caller(self, key: str, session_id: str) -> None:
        """Note whose request it is: callers share threads and memory."""
        self.queue_key, self.memory_lease.key = (key, session_id), key

    @property
    def keep_alive(self) -> bool:
        """Whether the connection is reused: not after an incomplete body, nor while the server stops."""
        connection: Connection = self._protocol  # type: ignore[assignment]  # aiohttp declares its own class
        return not (self._message.should_close or self.content.exception() or connection.is_last_answer)

    @property
    def dropped(self) -> bool:
        """Whether the gateway, not the client, ended the connection."""
        connection: Connection = self._protocol  # type: ignore[assignment]  # aiohttp declares its own class
        return connection.dropped

    @property
    def incoming(self) -> IncomingMessages:
        """What the client sends over the WebSocket that the request has become."""
        connection: Connection = self._protocol  # type: ignore[assignment]  # our server creates only this class
        return connection.incoming

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        if self.on_answer_start is not None:
            await self.on_answer_start(response)
        response.headers[REQUEST_ID_HEADER] = self.id
        response.headers.pop(hdrs.SERVER, None)  # it reveals the versions of aiohttp and Python


def _request_id(values: Sequence[str]) -> str:
    """Return the client's request ID if it sent exactly one valid ID, or else a new one."""
    return values[0] if len(values) == 1 and _VALID_ID.fullmatch(values[0]) else token_hex(16)


class Server(web.Server):
    """The server interface that a `Connection` uses."""

    draining = False
    """Whether the server is about to stop, so that each answer is the last one on its connection."""

    stopping = False
    """Whether the server accepts no more connections."""

    idle_grace = 0.0
    """Seconds for which an idle connection is kept open while the server stops: its client may be sending."""

    has_calls = True
    """Whether the server takes clients' calls, which are not ended to make room for new connections."""

    keep_alive_timeout: float | None = None
    """Seconds that an idle connection is kept open; None for the default."""

    def phase_changed(self, tracked: TrackedConnection, phase: Phase) -> None:
        """Called when a connection enters another phase."""


_TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS connection."""


def _is_closed() -> bool:
    """Return True, as TrackedConnection.close does for a connection that has been closed."""
    return True


class Connection(TimedConnection):
    """A client's connection. Invalid and late requests are answered with errors in Google's format."""

    __slots__ = ("_begins_with_tls", "_handled", "_idle_since", "_server", "dropped", "incoming", "tracked")

    def __init__(
        self,
        server: Server,
        limits: LimitSettings,
        loop: asyncio.AbstractEventLoop,
        tracked: TrackedConnection,
    ) -> None:
        super().__init__(server, limits, loop, server.keep_alive_timeout)
        self._server = server
        self.tracked = tracked
        self._handled = 0  # requests that have been answered
        self._idle_since = loop.time()  # when it was accepted, or its last answer ended
        self._begins_with_tls = False  # whether the client sent a TLS handshake in place of a request
        self.dropped = False  # whether the gateway ended it while the client was still connected
        self.incoming: IncomingMessages  # of a WebSocket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.tracked.close = self.close_for_another
        if self._server.stopping:  # the server was stopped during the TLS handshake
            self._loop.call_soon(self.stop)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.tracked.close = _is_closed  # its own method refers to this connection

    def data_received(self, data: bytes) -> None:
        if not self._request_count:
            self._begins_with_tls = data.startswith(_TLS_HANDSHAKE)
        super().data_received(data)
        self._update_phase()
        if self.stopping:
            self._close_if_done()

    def set_parser(self, parser: Any, data_received_cb: Callable[[], None] | None = None) -> None:
        """Count what the client sends in the memory of its request: the connection becomes a WebSocket."""
        request: Request = self._current_request  # type: ignore[assignment]  # our server creates only this class
        self.incoming = IncomingMessages(parser, request.memory_lease)
        super().set_parser(self.incoming, data_received_cb)  # type: ignore[arg-type]  # it has its methods

    async def _handle_request(self, request: Request, *rest: Any) -> Any:  # type: ignore[override]  # see set_parser
        try:
            return await super()._handle_request(request, *rest)
        finally:
            request.memory_lease.release()
            self._handled += 1
            self._idle_since = self._loop.time()
            self._update_phase()
            if self._server.idle_grace:
                self._close_when_idle()

    def _refuse_head(self) -> None:
        super()._refuse_head()
        self._update_phase()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        # aiohttp would put the request line into its log and its answer, and that may contain a key.
        self._log_failure(request, exc)
        if request.writer.output_size or isinstance(exc, ConnectionError):
            raise ConnectionError("the answer has already been started, or the client has left")
        response = error_response(_invalid(exc) if isinstance(exc, _CLIENT_ERRORS) else internal_error())
        response.force_close()
        response.headers[hdrs.CONNECTION] = "close"  # aiohttp leaves it out: it answers as HTTP/1.0 does
        return response

    def _log_failure(self, request: web.BaseRequest, error: BaseException | None) -> None:
        if not isinstance(error, _CLIENT_ERRORS):
            log.exception("a request failed inside hookgate; please report this")
        elif self._begins_with_tls:
            remedy = "use http:// or set listen.certificate" if self._server.has_calls else "use http://"
            log.info(
                "a connection from %s is not HTTP; if the client uses https://, %s", request.remote, remedy
            )
        else:
            log.info("a connection from %s failed: %s", request.remote, type(error).__name__)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        if isinstance(kw.get("exc_info"), _CLIENT_ERRORS):
            log.info("a connection ended in the middle of a request")  # its body, after the answer
        else:
            log.exception("a connection failed inside hookgate; please report this")

    def stop(self) -> None:
        """Finish the request in progress, and accept no other."""
        self.stopping = True
        self._last_received = self._loop.time()
        self._close_if_done()

    def abort(self) -> None:
        """Close the connection at once and discard unsent data."""
        if self._open_transport is not None:
            self.dropped = True
            self._open_transport.abort()

    def close_for_another(self) -> bool:
        """Close at once to make room for another connection.

        Returns False, and does nothing, if the client would lose an answer.
        """
        if self._open_transport is None:
            return True  # it is closed already
        phase = self.tracked.phase
        if phase is Phase.BODY and self._server.has_calls:
            in_use = unread_bytes(self._open_transport) or not self.has_slow_body()
        else:
            # On a listener without calls, a client that does not read must not keep others out.
            in_use = phase is Phase.IDLE and (
                unread_bytes(self._open_transport)
                or (self._server.has_calls and unsent_bytes(self._open_transport))
            )
        if in_use:
            return False
        self.abort()
        return True

    @property
    def phase(self) -> Phase:
        """The phase of the connection's current request."""
        in_flight = self._request_count - self._handled
        if not self._body.is_eof() and in_flight < 2:  # otherwise the body belongs to a pipelined request
            return Phase.BODY
        if in_flight:
            return Phase.CALL
        return Phase.IDLE if self._head_since is None else Phase.HEAD

    def _update_phase(self) -> None:
        if (phase := self.phase) is not self.tracked.phase:
            self._server.phase_changed(self.tracked, phase)

    @property
    def is_last_answer(self) -> bool:
        """Whether an answer that begins now is the last one on the connection."""
        return self.stopping or self._close or self._server.draining

    def _close_if_done(self) -> None:
        if not self._body.is_eof() or self._head_since is not None:
            return
        if self._server.idle_grace:
            self._close_when_idle()  # an answer that began before may have promised another one
        elif self._waiter is not None and not self._waiter.done():
            self.force_close()
        else:
            self.close()  # after the current answer

    def _close_when_idle(self) -> None:
        """Close the connection once it has been idle for `idle_grace`. Answers that begin now close it."""
        if self._open_transport is None or self.phase is not Phase.IDLE:
            return
        due = self._idle_since + self._server.idle_grace
        if self._loop.time() >= due:
            self.force_close()
        else:
            self._loop.call_at(due, self._close_when_idle)


def _invalid(error: BaseException) -> ApiError:
    """Return the error for a request that cannot be read."""
    code = 415 if isinstance(error, ContentEncodingError) else 400
    problem = str(error) if isinstance(error, TooSlow) else type(error).__name__
    return ApiError(code, f"This is not a valid HTTP request ({problem}).", "REQUEST_REFUSED")


def internal_error() -> ApiError:
    """Return the error for a defect of hookgate, whose traceback has been logged."""
    return ApiError(500, "Internal error in hookgate; see the gateway's log.", "INTERNAL_ERROR")


def error_response(error: ApiError) -> web.Response:
    """Return the JSON response for an error."""
    return web.Response(status=error.code, body=error.body(), content_type="application/json")


_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?")
_SINGLE_HEADERS = (hdrs.AUTHORIZATION, hdrs.EXPECT, hdrs.UPGRADE)
_WITHOUT_BODY = (hdrs.METH_GET, hdrs.METH_HEAD)
_UPGRADES = ("tcp", "websocket")
"""The protocols after whose names aiohttp takes the rest of a connection for another protocol than HTTP."""


def check_head(request: Request, single_headers: Sequence[str] = ()) -> None:
    """Check that a request's headers are unambiguous. Those in `single_headers` may be sent once.

    Raises ApiError (400) if they are not, and closes the connection after the answer.
    """
    for problem in _header_problems(request, (*_SINGLE_HEADERS, *single_headers)):
        request.protocol.close()
        raise request_refused(f"This is not a valid HTTP request ({problem}).")


def _header_problems(request: Request, single_headers: Sequence[str]) -> Iterable[str]:
    headers = request.headers
    if not request.is_http1:
        yield "its version is neither HTTP/1.0 nor HTTP/1.1"
    coding = headers.get(hdrs.TRANSFER_ENCODING)
    if coding is not None and (coding.lower() != "chunked" or request.version == HttpVersion10):
        yield "its Transfer-Encoding is not chunked, or its HTTP version does not support that"
    if not _HOST.fullmatch(headers.get(hdrs.HOST, "-")):
        yield "its Host is not a valid host"
    if request.body_exists and request.method in _WITHOUT_BODY:
        yield f"{request.method} must not have a body"
    if request.body_exists and headers.get(hdrs.UPGRADE, "").lower() in _UPGRADES:
        yield "it has both a body and an Upgrade"  # others, such as h2c, are ignored
    for name in single_headers:
        if len(headers.getall(name, ())) > 1:
            yield f"{name} is sent twice"
