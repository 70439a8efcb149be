"""A connection to an upstream: sends requests and receives their answers, one at a time."""

import asyncio
import math
import os
import select
import ssl
from collections.abc import AsyncIterable, Callable

from hookgate.proxy.errors import ApiError
from hookgate.proxy.upstream.answer_parser import AnswerParser, InvalidAnswerError

Body = bytes | AsyncIterable[bytes] | None

_HIGH_WATER = 256 * 1024  # number of unread bytes at which the connection stops reading
_SLICE = (
    256 * 1024
)  # bytes of a body passed to the transport at once: it copies bytes that it cannot send yet
_NO_DEADLINE = math.inf


class RequestBodyError(ConnectionError):
    """Raised when a request cannot be sent because its body cannot be read to the end."""


class HostNotFoundError(OSError):
    """Raised when the name of a host cannot be resolved."""

    def __init__(self, host: str) -> None:
        super().__init__(f"the host name {host} cannot be resolved")


class ProxyError(OSError):
    """Raised when the proxy cannot be reached or refuses the tunnel. The message describes the problem."""


class UpstreamError(Exception):
    """Raised when the upstream's answer ends before it is complete."""

    def as_api_error(self) -> ApiError:
        """Return the error for a client that has not received any part of the answer."""
        return ApiError(502, f"The upstream's answer was cut off ({self}).", "UPSTREAM_BROKE")


_DESCRIPTIONS: tuple[tuple[type[OSError], str], ...] = (
    (TimeoutError, "it took too long"),
    (ssl.SSLCertVerificationError, "its TLS certificate is not trusted"),
    (ssl.SSLError, "the TLS handshake failed"),
)
"""Descriptions of errors by their type, subclasses before their base classes."""


def describe_connection_error(error: OSError) -> str:
    """Describe a failed connection without using the system's message, which may contain addresses."""
    if isinstance(error, HostNotFoundError | ProxyError):
        return str(error)
    for error_type, description in _DESCRIPTIONS:
        if isinstance(error, error_type):
            return description
    return os.strerror(error.errno).lower() if error.errno else "the connection was lost"


class UpstreamConnection(asyncio.Protocol):
    """A connection that carries one request at a time.

    There is at most one deadline at any time: for the answer's headers, for more of its body, or for the next
    request. A single timer serves all of them, and is replaced only if the next deadline is earlier.
    """

    __slots__ = (
        "_closed",
        "_deadline",
        "_error",
        "_header_timeout",
        "_idle_timeout",
        "_in_use",
        "_loop",
        "_on_idle_end",
        "_poll",
        "_reader",
        "_reading_paused",
        "_sender",
        "_sent",
        "_timer",
        "_timer_at",
        "_unsent",
        "_writable",
        "_writing_paused",
        "answer",
        "reused",
        "transport",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        header_timeout: float,
        idle_timeout: float,
        on_idle_end: Callable[["UpstreamConnection"], None],
    ) -> None:
        """Timeouts are in seconds. `on_idle_end` is called if the connection is closed between requests."""
        self._loop, self._on_idle_end = loop, on_idle_end
        self._header_timeout, self._idle_timeout = header_timeout, idle_timeout
        self.transport: asyncio.Transport
        self.answer = AnswerParser()
        """The answer to the latest request."""
        self.reused = False
        """Whether the connection has carried an earlier request."""
        self._poll = select.poll()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at, self._deadline = 0.0, _NO_DEADLINE
        self._reader: asyncio.Future[None] | None = None  # waits for data
        self._writable: asyncio.Future[None] | None = None  # waits until more can be written
        self._reading_paused = self._writing_paused = self._closed = False
        self._in_use, self._sent = False, False  # whether there is a request, and whether all of it was sent
        self._error: Exception | None = None
        self._unsent: memoryview | None = None
        self._sender: asyncio.Task[None] | None = None

    # ---- one request and its answer

    async def begin_exchange(
        self, head: bytes, body: Body, length: int | None = None, *, has_no_body: bool = False
    ) -> None:
        """Send a request and wait for the headers of its answer, which may arrive before the body is sent.

        Args:
            head: The request line and headers.
            body: The body. An iterable is sent while the answer is awaited.
            length: The size of an iterable body in bytes, or None to send it in chunks.
            has_no_body: Whether the answer has no body because of the request's method.

        Raises TimeoutError, OSError if the connection is lost, and InvalidAnswerError.
        """
        if self._is_closing():
            raise ConnectionError
        answer = self.answer
        answer.begin(has_no_body=has_no_body)
        self._in_use, self._sent, self._error, self._deadline = True, False, None, _NO_DEADLINE
        if body is None or isinstance(body, bytes):
            self._send(head, body or b"")
        else:
            self.transport.write(head)
            self._sender = self._loop.create_task(self._send_chunks(body, length))
        await self._wait_for_headers()

    async def read(self) -> bytes:
        """Return the next bytes of the body: at least one byte, or none at its end.

        Raises UpstreamError if the body is late, invalid or incomplete.
        """
        answer = self.answer
        while not answer.unread:
            if answer.complete:
                return b""
            if self._error is not None:
                raise self._body_error(self._error)
            self._reader = self._loop.create_future()
            await self._reader
            self._reader = None
        data = answer.take()
        if self._reading_paused:
            self._resume_reading()
        return data

    @staticmethod
    def _body_error(error: Exception) -> UpstreamError:
        return UpstreamError(describe_connection_error(error) if isinstance(error, OSError) else str(error))

    async def end_exchange(self) -> bool:
        """End the exchange. Returns whether the connection can be reused; if not, it is aborted."""
        answer = self.answer
        reusable = answer.complete and answer.keep_alive and self._sent and not self._is_closing()
        self._in_use, self._unsent = False, None
        if not reusable:
            self.abort()
        if self._sender is not None:
            self._sender.cancel()
            try:
                await asyncio.wait([self._sender])
            except asyncio.CancelledError:
                self.abort()  # the caller cannot keep it
                raise
            self._sender = None
        return reusable

    def keep(self, seconds: float) -> None:
        """Keep the idle connection open for another request for at most `seconds`."""
        self.reused = True
        self._set_deadline(seconds)

    def is_usable(self) -> bool:
        """Return whether the idle connection is still open and has no unread data.

        This polls the socket, because the event loop may not have noticed yet that the upstream closed it.
        """
        return not self._is_closing() and not self._poll.poll(0)

    def abort(self) -> None:
        """Close the connection at once, and discard data that has not been sent."""
        self.transport.abort()

    def continue_on(self, transport: asyncio.Transport) -> None:
        """Continue on another transport, that of TLS in the tunnel of a proxy."""
        self.transport, self.answer = transport, AnswerParser()

    def _is_closing(self) -> bool:
        return self._closed or self.transport.is_closing()

    async def _wait_for_headers(self) -> None:
        """Wait for the headers of the answer. Raises the error that ended the exchange, if there was one."""
        while not self.answer.status:
            if self._error is not None:
                raise self._error
            self._reader = self._loop.create_future()
            await self._reader
            self._reader = None

    def _fail(self, error: Exception) -> None:
        """End the exchange with an error, the first if there are several, and close the connection."""
        if self._error is None:
            self._error = error
        _wake(self._reader)
        self.abort()

    # ---- sending

    def _send(self, head: bytes, body: bytes) -> None:
        if len(body) <= _SLICE:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self._unsent = memoryview(body)
        self._continue_sending()

    def _continue_sending(self) -> None:
        """Send more of a large body until the upstream falls behind, and note when all of it was sent."""
        while self._unsent and not self._writing_paused:
            self.transport.write(self._unsent[:_SLICE])
            self._unsent = self._unsent[_SLICE:]
        if not self._unsent and not self._writing_paused:
            self._note_sent()

    async def _send_chunks(self, body: AsyncIterable[bytes], length: int | None) -> None:
        try:
            size = 0
            async for chunk in body:
                size += len(chunk)
                if length is not None and size > length:
                    raise RequestBodyError
                if chunk:
                    await self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if length is None else chunk)
            if length is None:
                await self._write(b"0\r\n\r\n")
            elif size < length:
                raise RequestBodyError
        except Exception:  # the code behind the iterable knows the reason
            if not self._is_closing():  # otherwise the answer may be complete, or describe the problem
                self._fail(RequestBodyError())
        else:
            self._note_sent()

    async def _write(self, data: bytes) -> None:
        if self._is_closing():
            raise RequestBodyError
        self.transport.write(data)
        while self._writing_paused:
            self._writable = self._loop.create_future()
            await self._writable

    def _note_sent(self) -> None:
        self._sent = True
        if not self.answer.status:
            self._set_deadline(self._header_timeout)

    def pause_writing(self) -> None:
        """Stop sending: the upstream reads more slowly than the gateway sends."""
        self._writing_paused = True
        if not self.answer.status:
            self._set_deadline(self._header_timeout)

    def resume_writing(self) -> None:
        """Continue to send: the upstream has read most of the data."""
        self._writing_paused = False
        if not self._in_use:
            return
        if not self.answer.status:
            self._deadline = _NO_DEADLINE
        if self._sender is not None:
            _wake(self._writable)
        elif not self._sent:
            self._continue_sending()

    # ---- receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = transport  # type: ignore[assignment]  # it is a Transport
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Parse more of the answer. Data that arrives without a request closes the connection."""
        if not self._in_use:
            self.abort()
            return
        answer = self.answer
        try:
            answer.feed(data)
        except InvalidAnswerError as error:
            self._fail(error)
            return
        if not answer.status:
            return
        if answer.complete:
            self._deadline = _NO_DEADLINE
        elif answer.unread < _HIGH_WATER:
            self._deadline = self._loop.time() + self._idle_timeout
            if self._timer is None or self._timer_at > self._deadline:
                self._set_deadline(self._idle_timeout)
        elif not self._reading_paused:
            self._reading_paused, self._deadline = True, _NO_DEADLINE
            self.transport.pause_reading()
        if (reader := self._reader) is not None and not reader.done():
            reader.set_result(None)

    def _resume_reading(self) -> None:
        self._reading_paused = False
        if not self._is_closing():
            self.transport.resume_reading()
            if not self.answer.complete:
                self._set_deadline(self._idle_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete an answer that ends with the connection, or end the exchange with an error."""
        self._closed, self._writing_paused = True, False
        if self._timer is not None:
            self._timer.cancel()
        if not self._in_use:
            self._on_idle_end(self)
            return
        try:
            complete = exc is None and self._error is None and self.answer.feed_eof()
        except InvalidAnswerError as error:
            self._fail(error)
        else:
            if complete:
                _wake(self._reader)
            else:
                self._fail(exc or ConnectionError())

    # ---- time

    def _set_deadline(self, seconds: float) -> None:
        if self._closed:
            return
        self._deadline = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= self._deadline:
                return
            self._timer.cancel()
        self._set_timer()

    def _set_timer(self) -> None:
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._deadline == _NO_DEADLINE:
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        elif self._in_use:
            self._fail(TimeoutError())
        else:
            self.abort()


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
