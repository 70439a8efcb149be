"""Listening sockets, with a limit on the number of connections and a graceful shutdown."""

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any, Protocol

from aiohttp import web

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.fair_mapping import FairMapping
from hookgate.proxy.server.bodies import BodyWorker
from hookgate.proxy.server.connection import Connection, Phase, Request, Server, TrackedConnection
from hookgate.proxy.server.tls import Certificate

log = logging.getLogger("hookgate.gateway")


_BACKLOG = 1024
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_DESCRIPTOR_WAIT = 0.5  # seconds until the next attempt when descriptors have run out
_RETRY_SECONDS = 0.25  # seconds until the next search for a connection to close
_ACCEPT_BATCH = 16  # connections that are accepted before other tasks run
_WARNING_INTERVAL = 10.0  # seconds between two warnings about too many connections
_SO_ATTACH_FILTER = 26  # of Linux; the module `socket` does not have it
_SETUP_SECONDS = 1.0  # how long a stopping gateway waits for TLS handshakes
_ABORT_TIMEOUT = 5.0  # seconds for the handlers of aborted connections to clean up


_MAX_ATTEMPTS = 8  # connections that are tried before giving up

_INCOMPLETE = (Phase.IDLE, Phase.HEAD, Phase.BODY)
"""Phases without a complete request. Connections in these phases are closed in one order, by time. If idle
ones were closed first, a client that begins many requests could cause all new connections to be closed."""


class OpenConnections:
    """The connections of one listener: `max_connections` at most, and `max_per_address` from one address.

    Connections without a complete request are closed for new ones: of the address that has the most of
    them, the one that has been in its phase the longest. With `closes_calls`, calls in progress come next.
    """

    def __init__(self, max_connections: int, max_per_address: int | None, *, closes_calls: bool) -> None:
        self._max_connections, self._max_per_address = max_connections, max_per_address
        self._connections: FairMapping[TrackedConnection, None] = FairMapping(max_connections + 1)
        incomplete: FairMapping[TrackedConnection, None] = FairMapping(max_connections + 1)
        self._by_phase = dict.fromkeys(_INCOMPLETE, incomplete)  # shared: they are one order
        if closes_calls:
            self._by_phase[Phase.CALL] = FairMapping(max_connections + 1)
        self._closing: set[TrackedConnection] = set()

    def __len__(self) -> int:
        return len(self._connections)

    def is_full(self, address: str) -> bool:
        """Return True if there is no room for another connection from an address."""
        return len(self._connections) >= self._max_connections or self.is_address_full(address)

    def is_address_full(self, address: str) -> bool:
        """Return True if the address has as many connections as it may have."""
        limit = self._max_per_address
        return limit is not None and self._connections.size_of(address) >= limit

    def enter(self, tracked: TrackedConnection) -> None:
        """Add a connection."""
        self._connections.store(tracked.address, tracked, None)
        tracked.phase = Phase.IDLE
        self._by_phase[Phase.IDLE].store(tracked.address, tracked, None)

    def move(self, tracked: TrackedConnection, phase: Phase) -> None:
        """Record that a connection has reached another phase."""
        if tracked in self._closing:
            return
        self._remove_from_phase(tracked)
        tracked.phase = phase
        if phase in self._by_phase:
            self._by_phase[phase].store(tracked.address, tracked, None)

    def leave(self, tracked: TrackedConnection) -> None:
        """Remove a connection that has ended."""
        self._remove_from_phase(tracked)
        self._connections.drop(tracked.address, tracked)
        self._closing.discard(tracked)

    def close_one(self, address: str) -> bool:
        """Close a connection to make room for one from an address. Returns False if none can be closed."""
        share = address if self.is_address_full(address) else None
        orders = dict.fromkeys(self._by_phase.values())  # without duplicates: several phases share one
        return any(self._close_one_of(order, share) for order in orders)

    def _close_one_of(self, order: FairMapping[TrackedConnection, None], share: str | None) -> bool:
        for _ in range(min(_MAX_ATTEMPTS, len(order))):
            if (oldest := order.oldest(share)) is None:
                return False
            tracked = oldest[1]
            if tracked.close():
                order.drop(tracked.address, tracked)
                self._connections.drop(tracked.address, tracked)
                self._closing.add(tracked)
                return True
            order.get(tracked.address, tracked)  # moves it to the end of the order
        return False

    def _remove_from_phase(self, tracked: TrackedConnection) -> None:
        if tracked.phase in self._by_phase:
            self._by_phase[tracked.phase].drop(tracked.address, tracked)


def address_of(host: str) -> str:
    """Return the address to count a client by: for IPv6 its /64 network, which is what one client gets."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:8].hex(":", 2) + "::/64"


class Acceptor(Protocol):
    """Accepts connections from a listening socket."""

    async def accept(self, listener: socket.socket) -> tuple[socket.socket, Any]:
        """Return the next connection and its address. Raises OSError."""

    def note_open(self, connections: int) -> None:
        """Note how many connections are open."""


class _LoopAcceptor:
    """Accepts connections as soon as they arrive."""

    async def accept(self, listener: socket.socket) -> tuple[socket.socket, Any]:
        # Not loop.sock_accept: if that is cancelled, it may lose a connection that it has just accepted.
        while True:
            try:
                connection, address = listener.accept()
            except BlockingIOError:
                await readable(listener)
                continue
            connection.setblocking(False)
            return connection, address

    def note_open(self, connections: int) -> None:
        """Do nothing."""


async def readable(listener: socket.socket) -> None:
    """Wait until a listening socket has a connection to accept, or another process has accepted it."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(listener)


class ConnectionServer(Server):
    """A server with at most `limits.connections` open connections.

    At the limit, a connection without a whole request is closed for a new one (see `OpenConnections`). With
    `calls`, no call in progress is ended for that: the new connection waits. Without `calls`, the connection
    whose request has taken the longest is closed if no other one can be.
    """

    def __init__(
        self, handler: Any, limits: LimitSettings, acceptor: "Acceptor | None" = None, *, calls: bool
    ) -> None:
        super().__init__(handler, request_factory=self._request, handler_cancellation=True)
        self._acceptor: Acceptor = acceptor or _LoopAcceptor()
        self._limits, self.has_calls = limits, calls
        self._body_worker = BodyWorker(limits)
        self.keep_alive_timeout = None if calls else limits.header_timeout
        self._open = OpenConnections(
            limits.connections, limits.connections_per_address, closes_calls=not calls
        )
        self._changed = asyncio.Event()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._next_warning = 0.0

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        task, tracked = handler._task_handler, handler.tracked  # type: ignore[attr-defined]  # it is a Connection
        super().connection_lost(handler, exc)
        if task is None:
            self._release(tracked)
        else:
            task.add_done_callback(lambda _: self._release(tracked))

    def phase_changed(self, tracked: TrackedConnection, phase: Phase) -> None:
        self._open.move(tracked, phase)
        self._changed.set()

    async def accept(self, listener: socket.socket, certificate: Certificate | None) -> None:
        """Accept connections until cancelled."""
        accepted = 0
        while True:
            try:
                connection, address = await self._acceptor.accept(listener)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    continue  # the client has already disconnected
                log.error("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(_DESCRIPTOR_WAIT)
                continue
            await self._receive(connection, address, certificate, waits=True)
            accepted += 1
            if accepted % _ACCEPT_BATCH == 0:
                await asyncio.sleep(0)  # accept does not yield while more connections are pending

    async def _receive(
        self, connection: socket.socket, address: Any, certificate: Certificate | None, *, waits: bool
    ) -> None:
        """Start serving an accepted connection, or close it. Errors are logged, not raised."""
        try:
            await self._begin(connection, address_of(address[0] if address else ""), certificate, waits=waits)
        except asyncio.CancelledError:
            connection.close()
            raise
        except Exception:  # one connection must not end the listener
            log.exception("a connection could not be served; please report this")
            connection.close()

    async def _begin(
        self, connection: socket.socket, address: str, certificate: Certificate | None, *, waits: bool
    ) -> None:
        """Start serving a connection when there is room.

        If there is none, the connection waits; it is closed instead if `waits` is false or its address has
        too many connections.
        """
        while self._open.is_full(address):
            self._changed.clear()
            crowded = self._open.is_address_full(address)
            self._warn_full(address if crowded else "any address")
            freed = self._open.close_one(address)
            if freed:
                continue
            if crowded or not waits:
                connection.close()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):  # a finished answer does not set the event
                    await self._changed.wait()
        tracked = TrackedConnection(address, lambda: task.cancel())  # noqa: PLW0108  # the task does not exist yet
        self._open.enter(tracked)
        self._acceptor.note_open(len(self._open))
        context = None if certificate is None else certificate.context
        task = self._loop.create_task(self._handshake(connection, context, tracked))
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
                "the limit on connections from %s is reached: those without a request make room for new ones",
                source,
            )

    async def announce_stop(self) -> None:
        """Continue for `limits.drain_delay` seconds, and make each answer the last one on its connection."""
        if self.has_calls and self._limits.drain_delay:
            self.draining, self.idle_grace = True, self._limits.drain_delay
            await asyncio.sleep(self._limits.drain_delay)

    async def accept_waiting(self, listener: socket.socket, certificate: Certificate | None) -> None:
        """Accept the connections that are still in the queue, and close those for which there is no room."""
        while True:
            try:
                connection, address = listener.accept()
            except OSError:  # there is no other
                return
            connection.setblocking(False)
            await self._receive(connection, address, certificate, waits=False)

    async def read_first_bytes(self) -> None:
        """Wait until the latest connections are set up and have read what was sent to them.

        Otherwise `drain` would treat them as idle.
        """
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=_SETUP_SECONDS)
        for _ in range(3):  # the transport is created, it is added to the selector, it is read from
            await asyncio.sleep(0)

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
        self._open.leave(tracked)
        self._acceptor.note_open(len(self._open))
        self._changed.set()

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return Request(message, payload, protocol, writer, task, self._loop, body_worker=self._body_worker)


@dataclass(frozen=True, slots=True)
class ListenerPurpose:
    """What a listener is for, with the flag and the setting of its address."""

    name: str
    flag: str
    setting: str


CLIENTS = ListenerPurpose("the gateway", "--listen", "listen.address")
"""The listener whose requests are clients' calls, each with a receipt."""

OPERATORS = ListenerPurpose("the admin listener", "--admin", "admin.address")


@asynccontextmanager
async def accepting(  # noqa: PLR0913, PLR0917  # the parts of a listener
    handler: Any,
    listeners: list[socket.socket],
    limits: LimitSettings,
    certificate: Certificate | None,
    purpose: ListenerPurpose,
    acceptor: Acceptor | None = None,
) -> AsyncIterator[None]:
    """Serve `handler` on listening sockets, which do not block, and close them at the end.

    Idle connections of operators are closed after `limits.header_timeout`. Connections are accepted with
    `acceptor`, by default as soon as they arrive.
    """
    server = ConnectionServer(handler, limits, acceptor, calls=purpose is CLIENTS)
    tasks = [asyncio.create_task(server.accept(listener, certificate)) for listener in listeners]
    try:
        yield
    finally:
        try:  # a second interrupt may occur at each of these awaits
            await server.announce_stop()
            if server.draining:
                await _block_new_connections(listeners)
            await _end_accepting(tasks)
            for listener in listeners:
                await server.accept_waiting(listener, certificate)
                listener.close()
            await server.read_first_bytes()
            await server.drain()
        finally:
            for listener in listeners:
                listener.close()
            await server.abort()


async def check_address(host: str, port: int, purpose: ListenerPurpose) -> None:
    """Check that a listener can be bound to an address. Raises the OSError of `bind_listeners`."""
    for listener in await bind_listeners(host, port, purpose):
        listener.close()


_NO_SYN = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF))
"""A packet filter: load the flags of TCP, keep SYN and ACK; drop the packet if that is SYN, else pass it."""

_HANDSHAKE_SECONDS = 0.25
"""How long a TCP handshake that has begun may take to end."""


async def _block_new_connections(listeners: list[socket.socket]) -> None:
    """Block new connections, and wait until those that have begun can be accepted.

    Connections in the queue of a listener are reset when it is closed, and some may arrive after the last
    `accept`. Therefore, the kernel drops the packets with which connections begin.
    Their senders repeat them after a second, when the listener is closed, and are refused before they send
    anything.
    """
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _NO_SYN))
    program = struct.pack("HP", len(_NO_SYN), ctypes.addressof(filters))
    for listener in listeners:
        with contextlib.suppress(OSError):  # some sandboxes have no packet filters
            listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
    await asyncio.sleep(_HANDSHAKE_SECONDS)


async def _end_accepting(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def bind_listeners(host: str, port: int, purpose: ListenerPurpose) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host; port 0 selects a free one.

    Raises OSError, which names the listener and its setting, if the address cannot be bound.
    """
    listeners: list[socket.socket] = []
    try:
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            listener = socket.create_server(address, family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            listeners.append(listener)
    except OSError as error:
        for listener in listeners:
            listener.close()
        # The error's own message repeats the address.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        in_use = "stop the program that uses it, such as another gateway, or "
        raise OSError(
            f"{purpose.name} cannot listen on {host}:{port}: {reason}; "
            f"{in_use if error.errno == errno.EADDRINUSE else ''}"
            f"choose another address with {purpose.flag} or {purpose.setting}"
        ) from None
    return listeners


def url_of(scheme: str, address: tuple[Any, ...]) -> str:
    """Return the base URL for a socket's address."""
    host, port = address[0], address[1]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
