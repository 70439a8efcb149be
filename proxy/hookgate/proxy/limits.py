"""How long a client may keep the gateway waiting: for a request's head, its body, and to take its answer.

A connection has at most one timer of its own, set while something of the client's is overdue sooner or
later. A request that came whole, and an answer that is taken, set none.
"""

import asyncio
import fcntl
import logging
import math
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo

from hookgate.proxy.config import Limits
from hookgate.proxy.places import Stage

log = logging.getLogger("hookgate.gateway")

KEPT_ALIVE = 75.0
"""Seconds that a connection without a request is kept for the next one."""

_RESET = struct.pack("ii", 1, 0)
_LOOKS = 4  # how often within reader_timeout a slow reader's progress is looked at
_SLOW_BODY = 1024  # bytes a second


class TooSlow(BadHttpMessage):
    """A request that did not come in time."""

    def __str__(self) -> str:
        return self.message


class Timed(web.RequestHandler):
    """A connection whose client is waited for so long and no longer."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_body_since",
        "_handled",
        "_head_since",
        "_heard",
        "_limits",
        "_timer",
        "_took",
        "_unsent",
        "_wire",
        "stopping",
    )

    def __init__(
        self,
        manager: web.Server,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        kept_alive: float | None = None,
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=KEPT_ALIVE if kept_alive is None else kept_alive,
            auto_decompress=False,  # it would inflate in the event loop, and without a bound of ours
            access_log=None,  # type: ignore[arg-type]  # hookgate tells of calls itself
        )
        self.stopping = False  # whether this request is the connection's last
        self._limits = limits
        self._wire: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head_since: float | None = None  # when an unfinished head began
        self._handled = 0  # requests that have their answer
        self._body: StreamReader = EMPTY_PAYLOAD  # of the latest request
        self._body_since, self._body_bytes = 0.0, 0  # when it began, and what came since
        self._heard = self._took = 0.0  # when the client last sent, and took, something
        self._unsent: float = 0  # what it had still to take then

    @property
    def stage(self) -> Stage:
        """What the connection is about."""
        in_flight = self._request_count - self._handled
        if not self._body.is_eof() and in_flight < 2:  # else it is a later request's, behind a call
            return Stage.BODY
        if in_flight:
            return Stage.CALL
        return Stage.IDLE if self._head_since is None else Stage.HEAD

    def has_slow_body(self) -> bool:
        """Whether its client sends a body so slowly that it might as well send nothing."""
        seconds = self._loop.time() - self._body_since
        waits = not (self._body.is_eof() or self._reading_paused or self._buffer_paused)
        return waits and self._body_bytes < seconds * _SLOW_BODY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wire = self.transport  # which aiohttp forgets as soon as it closes it

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
        self._body_bytes += len(data)  # with the head, which gives a new request a moment
        if data and not self.stopping:  # then there is so much time from the stop on, and no more
            self._heard = self._loop.time()
        if data:
            self._wait_for_more()

    def resume_reading(self, resume_parser: bool = True) -> None:
        if not self.stopping:
            self._heard = self._loop.time()  # until now it was the gateway that did not listen
        super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    async def _handle_request(self, *request: Any) -> Any:
        try:
            return await super()._handle_request(*request)
        finally:
            self._handled += 1

    async def start(self) -> None:
        try:
            await super().start()
        finally:
            if self._wire is not None and self._wire.get_write_buffer_size():
                self._wait_for_reader()  # it is closing, but only once the client has taken the rest

    def _wait_for_more(self) -> None:
        if self._head_since is not None:
            self._look_at(self._head_since + self._limits.header_timeout)
        elif not self._body.is_eof():
            self._look_at(self._heard + self._limits.body_timeout)

    def _wait_for_reader(self) -> None:
        self._took, self._unsent = self._loop.time(), math.inf
        self._look_at(self._took + self._limits.reader_timeout / _LOOKS)

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        """End what is overdue; look again when the rest would be."""
        self._timer = None
        for wait in (self._reader, self._head, self._rest_of_body):
            due = wait()
            if due is not None:
                self._look_at(due)

    def _reader(self) -> float | None:
        """Cut the connection of a client that takes nothing."""
        if self._wire is None or not (self._paused or self._wire.is_closing()):
            return None
        now = self._loop.time()
        unsent = unsent_bytes(self._wire)
        if unsent < self._unsent:
            self._took, self._unsent = now, unsent
        if now < self._took + self._limits.reader_timeout:
            return now + self._limits.reader_timeout / _LOOKS
        log.info("a client took nothing of its answer; its connection is cut")
        # With a reset, or the kernel would go on to hold what the client does not take.
        self._wire.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._wire.abort()
        return None

    def _head(self) -> float | None:
        """Refuse a request whose head is not there in time."""
        if self._head_since is None:
            return None
        return self._overdue(self._head_since + self._limits.header_timeout, self._refuse_head)

    def _refuse_head(self) -> None:
        self._head_since = None
        error = TooSlow("its headers did not come in time")
        self._request_count += 1  # as aiohttp counts those that it cannot parse
        self._messages.append((_ErrInfo(400, error, ""), EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _rest_of_body(self) -> float | None:
        """End the body of a client that sends nothing more of it."""
        if self._body.is_eof() or self._body.exception():
            return None
        if (self._reading_paused or self._buffer_paused) and not self.stopping:
            self._heard = self._loop.time()
        return self._overdue(self._heard + self._limits.body_timeout, self._end_body)

    def _end_body(self) -> None:
        if self._request_in_progress or self._messages:
            self._body.set_exception(web.RequestPayloadError("the rest of it did not come in time"))
        else:
            self.force_close()  # it has its answer already

    def _overdue(self, when: float, act: Callable[[], None]) -> float | None:
        if self._loop.time() < when:
            return when
        act()
        return None


def unsent_bytes(transport: asyncio.Transport) -> int:
    """What the other side has not taken yet, the kernel's part included.

    The kernel tells of room only when a third of its buffer is free: by that alone, a client that reads
    slowly would look like one that does not read.
    """
    return transport.get_write_buffer_size() + _queued(transport, termios.TIOCOUTQ)


def unread_bytes(transport: asyncio.Transport) -> int:
    """What the other side has sent and nobody has read yet."""
    return _queued(transport, termios.FIONREAD)


def _queued(transport: asyncio.Transport, which: int) -> int:
    """The bytes that the kernel holds for the transport's socket, of one of its two queues."""
    queued = fcntl.ioctl(transport.get_extra_info("socket").fileno(), which, b"\0" * 4)
    return int(struct.unpack("i", queued)[0])
