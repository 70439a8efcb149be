"""A pool of connections to the upstreams: a limited number in use, and a few idle ones for later requests."""

import asyncio
import base64
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohappyeyeballs import start_connection
from yarl import URL

from hookgate.proxy.errors import ApiError
from hookgate.proxy.upstream.answer_parser import InvalidAnswerError
from hookgate.proxy.upstream.connection import HostNotFoundError, ProxyError, UpstreamConnection

KEEP_ALIVE_SECONDS = 15.0
"""The time for which an idle connection is kept. Servers and load balancers keep theirs longer."""

_KEPT_SHARE = 1 / 8  # maximum idle connections per upstream, as a share of the maximum in use
_LOOKUP_THREADS = 2
_LOOKUP_SECONDS = 10.0  # how long the addresses of a host are cached
_NEXT_ADDRESS_DELAY = 0.25  # seconds before the next address of a host is also tried (RFC 8305)

AddressInfo = tuple[Any, ...]
"""A tuple as returned by `socket.getaddrinfo`."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The destination of an API's requests: scheme, host, port, and a prefix for the paths of its routes."""

    url: str
    tls: bool
    host: str
    port: int
    authority: str
    """The value of the `Host` header: the host, and the port if it is not the scheme's default."""
    path: str

    @classmethod
    def from_url(cls, url: str) -> "Origin":
        """Return the origin of a base URL that `config.values.parse_origin` has checked."""
        parsed = URL(url)
        authority, path = parsed.host_port_subcomponent, url.partition("://")[2].partition("/")[2]
        assert parsed.raw_host and parsed.port and authority  # noqa: S101, PT018  # they have been checked
        tls = parsed.scheme == "https"
        return cls(url, tls, parsed.raw_host, parsed.port, authority, f"/{path}" if path else "")

    @property
    def server_name(self) -> str:
        """The name in the server's certificate, which has no final dot."""
        return self.host.rstrip(".")


_FULL = (
    "hookgate has as many connections to the upstreams as it may have, and none became free in time; try "
    "again later, or ask the operator to raise limits.connections or upstream.connect_timeout."
)


class UpstreamPool:
    """A pool of connections. Use it as an async context manager: leaving it closes the idle connections."""

    def __init__(  # noqa: PLR0913  # what a connection depends on
        self,
        max_connections: int,
        *,
        connect_timeout: float,
        header_timeout: float,
        idle_timeout: float,
        proxy: URL | None,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        """Create the pool.

        Args:
            max_connections: The maximum number of connections in use at once.
            connect_timeout: Seconds to wait while too many are in use, and again for a new connection.
            header_timeout: Seconds to wait for the headers of an answer.
            idle_timeout: Seconds to wait for more of an answer's body.
            proxy: The URL of an HTTP proxy, which may contain a user and a password.
            ssl_context: The context for TLS; None if no origin needs one.
        """
        self._free = asyncio.Semaphore(max_connections)
        self._max_kept = max(1, int(max_connections * _KEPT_SHARE))
        self._connect_timeout, self._timeouts = connect_timeout, (header_timeout, idle_timeout)
        self._proxy, self._ssl_context = proxy, ssl_context
        self.proxy_headers = _proxy_headers(proxy)
        """The headers for the proxy, as lines that end with CRLF."""
        self._kept: defaultdict[Origin, list[UpstreamConnection]] = defaultdict(list)
        self._addresses = _Addresses()

    async def __aenter__(self) -> "UpstreamPool":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._max_kept = 0
        for connections in self._kept.values():
            while connections:
                connections.pop().abort()
        self._addresses.close()
        await asyncio.sleep(0)  # the sockets are closed in the next iteration of the event loop

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[None]:
        """Reserve room for a connection that is opened elsewhere. Raises ApiError (503) if there is none."""
        await self._take_slot()
        try:
            yield
        finally:
            self._free.release()

    async def acquire(self, origin: Origin, *, fresh: bool = False) -> UpstreamConnection:
        """Return an idle connection or a new one, or always a new one if `fresh` is true.

        Pass the connection to `release` after use. Raises TimeoutError or OSError if none can be opened, and
        ApiError (503) if too many are in use.
        """
        await self._take_slot()
        try:
            kept = self._kept[origin]
            while kept and not fresh:
                connection = kept.pop()
                if connection.is_usable():
                    return connection
                connection.abort()
            async with asyncio.timeout(self._connect_timeout):
                return await self._connect(origin)
        except BaseException:
            self._free.release()
            raise

    async def release(self, connection: UpstreamConnection, origin: Origin) -> None:
        """End the exchange on a connection, and keep the connection for another one if possible."""
        try:
            reusable = await connection.end_exchange()
        finally:
            self._free.release()
        kept = self._kept[origin]
        if reusable and len(kept) < self._max_kept:
            connection.keep(KEEP_ALIVE_SECONDS)
            kept.append(connection)
        elif reusable:
            connection.abort()

    async def _take_slot(self) -> None:
        if not self._free.locked():
            await self._free.acquire()  # at once
            return
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._free.acquire()
        except TimeoutError:
            raise ApiError(503, _FULL, "CONNECTIONS_BUSY") from None

    # ---- new connections

    async def _connect(self, origin: Origin) -> UpstreamConnection:
        if self._proxy is None:
            return await self._open(
                origin.host, origin.port, origin, self._ssl_context if origin.tls else None
            )
        assert self._proxy.raw_host and self._proxy.port  # noqa: S101, PT018  # `parse_proxy` has checked it
        try:
            connection = await self._open(self._proxy.raw_host, self._proxy.port, origin, None)
        except TimeoutError:
            raise
        except OSError:
            raise ProxyError("the proxy cannot be reached") from None
        if origin.tls:
            try:
                await self._tunnel(connection, origin)
            except BaseException:
                connection.abort()
                raise
        return connection

    async def _open(
        self, host: str, port: int, origin: Origin, ssl_context: ssl.SSLContext | None
    ) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        addresses = await self._addresses.resolve(host, port)
        sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_DELAY)
        _, connection = await loop.create_connection(
            lambda: UpstreamConnection(loop, *self._timeouts, lambda ended: self._forget(ended, origin)),
            sock=sock,
            ssl=ssl_context,
            server_hostname=origin.server_name if ssl_context else None,
            ssl_handshake_timeout=self._connect_timeout if ssl_context else None,
        )
        return connection

    async def _tunnel(self, connection: UpstreamConnection, origin: Origin) -> None:
        """Ask the proxy for a tunnel, and start TLS in it."""
        target = f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{self.proxy_headers}\r\n"
        try:
            await connection.begin_exchange(head.encode(), None)
        except InvalidAnswerError:
            raise ProxyError("the proxy's answer is not valid HTTP") from None
        status = connection.answer.status
        if not 200 <= status < 300:
            raise ProxyError(f"the proxy answered {status}")
        if connection.answer.unread:  # otherwise it would be mistaken for data of the upstream
            raise ProxyError("the proxy sent data before the tunnel was in use")
        assert self._ssl_context is not None  # noqa: S101  # the origin needs TLS
        loop, context = asyncio.get_running_loop(), self._ssl_context
        transport = await loop.start_tls(
            connection.transport,
            connection,
            context,
            server_hostname=origin.server_name,
            ssl_handshake_timeout=self._connect_timeout,
        )
        if transport is None:  # the connection has been closed
            raise ConnectionError
        connection.continue_on(transport)

    def _forget(self, connection: UpstreamConnection, origin: Origin) -> None:
        with suppress(ValueError):  # it was not in the pool
            self._kept[origin].remove(connection)


class _Addresses:
    """A cache of the addresses of hosts. Connections that are opened at the same time share one lookup.

    Lookups have threads of their own, so that nothing else can delay them, and those of hosts that have been
    found before have other ones: clients can name locations that do not exist.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, "hookgate-lookups")
        self._threads_for_new = ThreadPoolExecutor(_LOOKUP_THREADS, "hookgate-new-lookups")
        self._lookups: dict[tuple[str, int], asyncio.Task[list[AddressInfo]]] = {}
        self._found: dict[tuple[str, int], tuple[float, list[AddressInfo]]] = {}

    async def resolve(self, host: str, port: int) -> list[AddressInfo]:
        """Return the addresses of a host. Raises HostNotFoundError."""
        with suppress(OSError, UnicodeError):  # a numeric address needs no lookup
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        loop, host_port = asyncio.get_running_loop(), (host, port)
        until, addresses = self._found.get(host_port, (0.0, []))
        if loop.time() < until:
            return addresses
        lookup = self._lookups.get(host_port)
        if lookup is None:
            lookup = self._lookups[host_port] = loop.create_task(self._look_up(host_port))
            lookup.add_done_callback(lambda _: self._lookups.pop(host_port, None))
        try:
            return await asyncio.shield(lookup)
        except (OSError, UnicodeError):
            raise HostNotFoundError(host) from None

    async def _look_up(self, host_port: tuple[str, int]) -> list[AddressInfo]:
        loop, (host, port) = asyncio.get_running_loop(), host_port
        threads = self._threads if host_port in self._found else self._threads_for_new
        found = await loop.run_in_executor(threads, _addresses_of, host, port)
        if not found:
            raise HostNotFoundError(host)
        self._found[host_port] = loop.time() + _LOOKUP_SECONDS, found
        return found

    def close(self) -> None:
        """End the lookups in progress."""
        for lookup in self._lookups.values():
            lookup.cancel()
        for threads in (self._threads, self._threads_for_new):
            threads.shutdown(wait=False, cancel_futures=True)


def _addresses_of(host: str, port: int) -> list[AddressInfo]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


def _proxy_headers(proxy: URL | None) -> str:
    if proxy is None or proxy.user is None:
        return ""
    credentials = f"{proxy.user}:{proxy.password or ''}".encode("latin-1")
    return f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}\r\n"
