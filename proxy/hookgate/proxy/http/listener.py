"""Listening sockets, with a limit on the number of connections and a graceful shutdown."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.http.connection import Connection, Request, Server
from hookgate.proxy.http.slots import ConnectionSlots, Stage, TrackedConnection, address_of
from hookgate.proxy.http.workshop import BodyWorker

log = logging.getLogger("hookgate.gateway")

Context = Callable[[], ssl.SSLContext | None]

_BACKLOG = 1024
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_DESCRIPTOR_WAIT = 0.5  # seconds until the next attempt when descriptors have run out
_RETRY_SECONDS = 0.25  # seconds until closable connections are looked for again
_ACCEPT_BATCH = 16  # connections that are accepted before other tasks run
_WARNING_INTERVAL = 10.0  # seconds between two warnings about too many connections
_ABORT_TIMEOUT = 5.0  # seconds that handlers of aborted connections have to clean up


class Connections(Server):
    """A server with at most `limits.connections` open connections.

    At the limit, a connection without a whole request is closed for a new one (see `ConnectionSlots`). With
    `calls`, no call in progress is ended for that: the new connection waits. Otherwise the connection whose
    request has taken longest is closed if no other can be.
    """

    def __init__(self, handler: Any, limits: LimitSettings, *, calls: bool) -> None:
        super().__init__(handler, request_factory=self._request, handler_cancellation=True)
        self._limits, self.has_calls = limits, calls
        self._workshop = BodyWorker(limits)
        self.kept_alive = None if calls else limits.header_timeout
        self._slots = ConnectionSlots(
            limits.connections, limits.connections_per_address, closes_calls=not calls
        )
        self._changed = asyncio.Event()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._next_warning = 0.0

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        task, tracked = handler._task_handler, handler.guest  # type: ignore[attr-defined]  # it is a Connection
        super().connection_lost(handler, exc)
        if task is None:
            self._release(tracked)
        else:
            task.add_done_callback(lambda _: self._release(tracked))

    def moved(self, tracked: TrackedConnection, stage: Stage) -> None:
        self._slots.move(tracked, stage)
        self._changed.set()

    async def accept(self, listener: socket.socket, context: Context) -> None:
        """Accept connections until cancelled."""
        accepted = 0
        while True:
            try:
                connection, address = await self._loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    continue  # the client has already disconnected
                log.error("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(_DESCRIPTOR_WAIT)
                continue
            try:
                await self._receive(connection, address_of(address[0]), context)
            except asyncio.CancelledError:
                connection.close()
                raise
            accepted += 1
            if accepted % _ACCEPT_BATCH == 0:
                await asyncio.sleep(0)  # sock_accept does not yield while more connections are pending

    async def _receive(self, connection: socket.socket, address: str, context: Context) -> None:
        """Start serving a connection when there is room, or close it if its address has too many."""
        while self._slots.is_full(address):
            self._changed.clear()
            crowded = self._slots.is_address_full(address)
            self._warn_full(address if crowded else "any address")
            freed = self._slots.close_one(address)
            if freed:
                continue
            if crowded:
                connection.close()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):  # a finished answer does not set the event
                    await self._changed.wait()
        tracked = TrackedConnection(address, lambda: task.cancel())  # noqa: PLW0108  # the task does not exist yet
        self._slots.enter(tracked)
        task = self._loop.create_task(self._handshake(connection, context(), tracked))
        self._handshakes.add(task)
        task.add_done_callback(lambda _: self._handshake_done(task, connection, tracked))

    async def _handshake(
        self, connection: socket.socket, context: ssl.SSLContext | None, tracked: TrackedConnection
    ) -> None:
        await self._loop.connect_accepted_socket(
            lambda: Connection(self, self._limits, self._loop, tracked),
            connection,
            ssl=context,
            ssl_handshake_timeout=self._limits.header_timeout if context else None,
        )

    def _handshake_done(
        self, task: asyncio.Task[None], connection: socket.socket, tracked: TrackedConnection
    ) -> None:
        self._handshakes.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is None:
                return
            if not isinstance(error, OSError):  # TLS errors and handshake timeouts are OSErrors
                log.error("setting up a connection failed", exc_info=error)
            log.info("a connection failed before its first request: %s", type(error).__name__)
        connection.close()
        self._release(tracked)

    def _warn_full(self, source: str) -> None:
        """Log that the limit of connections is reached, at most once in `_WARNING_INTERVAL`."""
        if self._loop.time() >= self._next_warning:
            self._next_warning = self._loop.time() + _WARNING_INTERVAL
            log.warning(
                "the limit of connections from %s is reached: idle ones are closed for new ones", source
            )

    async def drain(self) -> None:
        """Wait until the requests in progress have finished, up to `limits.drain_timeout` seconds."""
        self.stopping = True
        for connection in self.connections:
            connection.stop()  # type: ignore[attr-defined]  # it is a Connection
        await self._wait_until_closed(self._limits.drain_timeout)

    async def abort(self) -> None:
        """End all remaining connections."""
        for task in self._handshakes:  # TLS handshakes that are still in progress
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        for connection in self.connections:
            connection.abort()  # type: ignore[attr-defined]  # it is a Connection
        await self._wait_until_closed(_ABORT_TIMEOUT)

    async def _wait_until_closed(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self.connections:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            log.warning("%d connections are still open after %g seconds", len(self.connections), seconds)

    def _release(self, tracked: TrackedConnection) -> None:
        self._slots.leave(tracked)
        self._changed.set()

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        request = Request(message, payload, protocol, writer, task, self._loop, workshop=self._workshop)
        request.is_call = self.has_calls
        return request


@asynccontextmanager
async def accepting(  # noqa: PLR0913  # the parts of a listener
    handler: Any, host: str, port: int, limits: LimitSettings, context: Context, *, calls: bool = True
) -> AsyncIterator[tuple[Any, ...]]:
    """Serve `handler` on an address, and yield the address that was bound.

    `calls` says whether the requests are clients' calls, each with a receipt. If not, idle connections are
    closed after `limits.header_timeout`. Raises OSError if the address cannot be bound.
    """
    listeners = await _bind(host, port)
    server = Connections(handler, limits, calls=calls)
    tasks = [asyncio.create_task(server.accept(listener, context)) for listener in listeners]
    try:
        yield listeners[0].getsockname()
    finally:
        try:  # a second interrupt may come at each of these awaits
            await _stop_accepting(tasks, listeners)
            await server.drain()
        finally:
            await server.abort()


async def _stop_accepting(tasks: list[asyncio.Task[None]], listeners: list[socket.socket]) -> None:
    for task in tasks:
        task.cancel()
    try:
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for listener in listeners:
            listener.close()
    await asyncio.sleep(0)  # let the connections that were accepted last be set up


async def _bind(host: str, port: int) -> list[socket.socket]:
    listeners: list[socket.socket] = []
    try:
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            listeners.append(listener)
    except OSError as error:
        for listener in listeners:
            listener.close()
        # The error's own message repeats the address.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise OSError(f"cannot listen on {host}:{port}: {reason}; use another address") from None
    return listeners


def url_of(scheme: str, address: tuple[Any, ...]) -> str:
    """Return the base URL for a socket's address."""
    host, port = address[0], address[1]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
