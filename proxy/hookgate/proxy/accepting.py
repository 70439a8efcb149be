"""Listening sockets: so many connections at once, and a good end for those that are there."""

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

from hookgate.proxy.config import Limits
from hookgate.proxy.places import Guest, Places, Stage, address_of
from hookgate.proxy.protocol import Connection, Request, Server
from hookgate.proxy.workshop import Workshop

log = logging.getLogger("hookgate.gateway")

Context = Callable[[], ssl.SSLContext | None]

_BACKLOG = 1024
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BREATHER = 0.5  # seconds to wait for descriptors
_LOOK_AGAIN = 0.25  # seconds until closable connections are looked for again
_QUIET = 10.0  # seconds between two lines that tell of too many connections
_ABORTED_WITHIN = 5.0  # seconds that handlers of aborted connections have to clean up


class Connections(Server):
    """The connections that are there, `limits.connections` of them at most.

    For one more the one goes that needs its place least (see `places`). Where `calls` come, no call in flight
    is ended for that; one more waits then. Elsewhere even the request that takes longest is.
    """

    def __init__(self, handler: Any, limits: Limits, *, calls: bool) -> None:
        super().__init__(handler, request_factory=self._request, handler_cancellation=True)
        self._limits, self.has_calls = limits, calls
        self._workshop = Workshop(limits)
        self.kept_alive = None if calls else limits.header_timeout
        self._places = Places(limits.connections, limits.connections_per_address, closes_calls=not calls)
        self._changed = asyncio.Event()
        self._adopting: set[asyncio.Task[None]] = set()
        self._tell_at = 0.0

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        task, guest = handler._task_handler, handler.guest  # type: ignore[attr-defined]  # one of protocol.py's
        super().connection_lost(handler, exc)
        if task is None:
            self._gone(guest)
        else:
            task.add_done_callback(lambda _: self._gone(guest))

    def moved(self, guest: Guest, stage: Stage) -> None:
        self._places.move(guest, stage)
        self._changed.set()

    async def accept(self, listener: socket.socket, context: Context) -> None:
        """Take connections, until cancelled."""
        while True:
            try:
                connection, address = await self._loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    continue  # the client was gone again
                log.error("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(_BREATHER)
                continue
            try:
                await self._receive(connection, address_of(address[0]), context)
            except asyncio.CancelledError:
                connection.close()
                raise
            await asyncio.sleep(0)  # sock_accept does not wait while more are there: others have their turn

    async def _receive(self, connection: socket.socket, address: str, context: Context) -> None:
        """Give a connection a place, or close it when its address has too many."""
        while self._places.lacks(address):
            self._changed.clear()
            freed = self._places.close_one(address)
            crowded = self._places.crowded(address)
            self._tell(address if crowded else "any address")
            if crowded and not freed:
                connection.close()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):  # an answer that was taken meanwhile tells nobody
                    await self._changed.wait()
        guest = Guest(address, lambda: task.cancel())  # noqa: PLW0108  # the task does not exist yet
        self._places.enter(guest)
        task = self._loop.create_task(self._adopt(connection, context(), guest))
        self._adopting.add(task)
        task.add_done_callback(lambda _: self._adopted(task, connection, guest))

    async def _adopt(self, connection: socket.socket, context: ssl.SSLContext | None, guest: Guest) -> None:
        await self._loop.connect_accepted_socket(
            lambda: Connection(self, self._limits, self._loop, guest),
            connection,
            ssl=context,
            ssl_handshake_timeout=self._limits.header_timeout if context else None,
        )

    def _adopted(self, task: asyncio.Task[None], connection: socket.socket, guest: Guest) -> None:
        self._adopting.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is None:
                return
            if not isinstance(error, OSError):  # ssl.SSLError, and what a slow handshake raises, are
                log.error("a connection could not be made", exc_info=error)
            log.info("a connection failed before its first request: %s", type(error).__name__)
        connection.close()
        self._gone(guest)

    def _tell(self, whose: str) -> None:
        """Tell the log that there is no place for one more, now and then."""
        if self._loop.time() >= self._tell_at:
            self._tell_at = self._loop.time() + _QUIET
            log.warning("no place for another connection of %s: idle ones are closed for new ones", whose)

    async def drain(self) -> None:
        """Let the requests that are here or on their way finish."""
        self.stopping = True
        for connection in self.connections:
            connection.stop()  # type: ignore[attr-defined]  # one of protocol.py's
        await self._all_gone(self._limits.drain_timeout)

    async def abort(self) -> None:
        """End what is left."""
        for task in self._adopting:  # a handshake that did not come to a request
            task.cancel()
        await asyncio.gather(*self._adopting, return_exceptions=True)
        for connection in self.connections:
            connection.abort()  # type: ignore[attr-defined]  # as above
        await self._all_gone(_ABORTED_WITHIN)

    async def _all_gone(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self.connections:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            log.warning("%d connections are left after %g seconds", len(self.connections), seconds)

    def _gone(self, guest: Guest) -> None:
        self._places.leave(guest)
        self._changed.set()

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        request = Request(message, payload, protocol, writer, task, self._loop, workshop=self._workshop)
        request.is_call = self.has_calls
        return request


@asynccontextmanager
async def accepting(  # noqa: PLR0913  # what a listener is made of
    handler: Any, host: str, port: int, limits: Limits, context: Context, *, calls: bool = True
) -> AsyncIterator[tuple[Any, ...]]:
    """Serve `handler` on an address; gives the one that was bound. Raises OSError when it cannot be had.

    `calls`: what comes there are clients' calls, each with a receipt. Elsewhere silent connections are closed
    after `limits.header_timeout`.
    """
    listeners = await _bind(host, port)
    server = Connections(handler, limits, calls=calls)
    tasks = [asyncio.create_task(server.accept(listener, context)) for listener in listeners]
    try:
        yield listeners[0].getsockname()
    finally:
        try:  # a second interrupt may come at any of these
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
    await asyncio.sleep(0)  # what was accepted last gets its connection made


async def _bind(host: str, port: int) -> list[socket.socket]:
    listeners: list[socket.socket] = []
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            listeners.append(listener)
    except OSError as error:
        for listener in listeners:
            listener.close()
        # Python's own text repeats the address.
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise OSError(f"cannot listen on {host}:{port}: {why}; name another address") from None
    return listeners


def url_of(scheme: str, address: tuple[Any, ...]) -> str:
    """The base URL of a socket's address."""
    host, port = address[0], address[1]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
