"""Timeouts for clients: for a request's headers, for its body, and for reading its answer.

A connection has at most one timer, and none while it does not wait for its client.
"""

import asyncio
import fcntl
import logging
import math
import socket
import struct
import termios
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo

from hookgate.proxy.config import LimitSettings

log = logging.getLogger("hookgate.gateway")

KEPT_ALIVE = 75.0
"""Seconds that an idle connection is kept open for another request."""

_RESET = struct.pack("ii", 1, 0)  # the SO_LINGER value that closes with a reset
_CHECKS = 4  # how often within reader_timeout a slow reader's progress is checked
_SLOW_BODY = 1024  # bytes a second


class TooSlow(BadHttpMessage):
    """Raised for a request that did not arrive in time."""

    def __str__(self) -> str:
        return self.message


class Timed(web.RequestHandler):
    """A connection with timeouts for its client."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_body_since",
        "_head_since",
        "_last_received",
        "_last_sent",
        "_limits",
        "_timer",
        "_unsent",
        "_wire",
        "stopping",
    )

    def __init__(
        self,
        manager: web.Server,
        limits: LimitSettings,
        loop: asyncio.AbstractEventLoop,
        kept_alive: float | None = None,
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=KEPT_ALIVE if kept_alive is None else kept_alive,
            auto_decompress=False,  # aiohttp would decompress in the event loop, and without our limit
            access_log=None,  # type: ignore[arg-type]  # hookgate logs its calls itself
        )
        self.stopping = False  # whether the connection accepts no further request
        self._limits = limits
        self._wire: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head_since: float | None = None  # when incomplete headers began to arrive
        self._body: StreamReader = EMPTY_PAYLOAD  # of the latest request
        self._body_since, self._body_bytes = 0.0, 0  # when it began, and the bytes received since
        self._last_received = self._last_sent = 0.0  # when the client last sent, and read, something
        self._unsent: float = 0  # bytes that were still unsent at `_last_sent`

    def has_slow_body(self) -> bool:
        """Return True if the client sends its body more slowly than `_SLOW_BODY`."""
        seconds = self._loop.time() - self._body_since
        waits = not (self._body.is_eof() or self._reading_paused or self._buffer_paused)
        return waits and self._body_bytes < seconds * _SLOW_BODY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wire = self.transport  # aiohttp drops its own reference as soon as it closes it

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire = None
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        heads, in_body = self._request_count, not self._body.is_eof()
        super().data_received(data)
        if self._request_count > heads:
            self._body, self._head_since = self._messages[-1][1], None
            self._body_since, self._body_bytes = self._loop.time(), 0
        elif not (in_body or self._head_since or self._upgraded) and data.strip(b"\r\n"):
            self._head_since = self._loop.time()
        self._body_bytes += len(data)  # including the headers, so that a new request does not look slow
        if data and not self.stopping:  # the time for the rest is counted from the stop
            self._last_received = self._loop.time()
        if data:
            self._wait_for_more()

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
            if self._wire is not None and self._wire.get_write_buffer_size():
                self._wait_for_reader()  # it closes once the client has read the rest

    def _wait_for_more(self) -> None:
        if self._head_since is not None:
            self._check_at(self._head_since + self._limits.header_timeout)
        elif not self._body.is_eof():
            self._check_at(self._last_received + self._limits.body_timeout)

    def _wait_for_reader(self) -> None:
        self._last_sent, self._unsent = self._loop.time(), math.inf
        self._check_at(self._last_sent + self._limits.reader_timeout / _CHECKS)

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
        if self._wire is None or not (self._paused or self._wire.is_closing()):
            return None
        now = self._loop.time()
        unsent = unsent_bytes(self._wire)
        if unsent < self._unsent:
            self._last_sent, self._unsent = now, unsent
        if now < self._last_sent + self._limits.reader_timeout:
            return now + self._limits.reader_timeout / _CHECKS
        log.info("a client does not read its answer; its connection is aborted")
        # With a reset, or the kernel would keep the unsent data.
        self._wire.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._wire.abort()
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
        """End a body of which nothing more arrives. Returns when to check again."""
        if self._body.is_eof() or self._body.exception():
            return None
        if (self._reading_paused or self._buffer_paused) and not self.stopping:
            self._last_received = self._loop.time()
        return self._act_when_due(self._last_received + self._limits.body_timeout, self._end_body)

    def _end_body(self) -> None:
        if self._request_in_progress or self._messages:
            self._body.set_exception(web.RequestPayloadError("the rest of it did not arrive in time"))
        else:
            self.force_close()  # the request has been answered already

    def _act_when_due(self, when: float, act: Callable[[], None]) -> float | None:
        if self._loop.time() < when:
            return when
        act()
        return None


def unsent_bytes(transport: asyncio.Transport) -> int:
    """Return the number of bytes that the peer has not received yet, including the kernel's buffer.

    The kernel signals free space only once a third of its buffer is free. By that alone, a client that reads
    slowly would look like one that does not read.
    """
    return transport.get_write_buffer_size() + _queued(transport, termios.TIOCOUTQ)


def unread_bytes(transport: asyncio.Transport) -> int:
    """Return the number of bytes that the peer has sent and that have not been read yet."""
    return _queued(transport, termios.FIONREAD)


def _queued(transport: asyncio.Transport, which: int) -> int:
    """Return the number of bytes in one of the kernel's two queues for the transport's socket."""
    queued = fcntl.ioctl(transport.get_extra_info("socket").fileno(), which, b"\0" * 4)
    return int(struct.unpack("i", queued)[0])
