"""The connections to the upstreams: a limited number in use, and a few that are kept for later requests."""

import asyncio
import base64
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohappyeyeballs import start_connection
from yarl import URL

from hookgate.proxy.http.answer_parser import InvalidAnswerError
from hookgate.proxy.http.upstream_connection import UpstreamConnection

KEEP_ALIVE_SECONDS = 15.0
"""How long a connection is kept for another request: not as long as servers and load balancers keep it."""

_KEPT_SHARE = 1 / 8  # of the connections that may be in use, for each of the three upstreams
_LOOKUP_SECONDS = 10.0  # how long the addresses of a name are used again
_NEXT_ADDRESS_DELAY = 0.25  # seconds until the next address of a name is tried as well (RFC 8305)

AddressInfo = tuple[Any, ...]
"""A tuple as returned by `socket.getaddrinfo`."""


class HostNotFoundError(OSError):
    """Raised when the name of a host cannot be resolved."""

    def __init__(self, host: str) -> None:
        super().__init__(f"the host name {host} cannot be resolved")


class ProxyError(OSError):
    """Raised when the proxy cannot be reached or refuses the tunnel. The message says which."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where requests of one API go: scheme, host and port, and the path before the paths of its routes."""

    tls: bool
    host: str
    port: int
    authority: str
    """The host, and the port if it is not the scheme's, as the `Host` header names them."""
    path: str

    @classmethod
    def from_url(cls, url: str) -> "Origin":
        """Return the origin of a base URL that `config.values.parse_origin` has checked."""
        parsed = URL(url)
        authority, path = parsed.host_port_subcomponent, url.partition("://")[2].partition("/")[2]
        assert parsed.raw_host and parsed.port and authority  # noqa: S101, PT018  # they have been checked
        return cls(
            parsed.scheme == "https", parsed.raw_host, parsed.port, authority, f"/{path}" if path else ""
        )

    @property
    def server_name(self) -> str:
        """The name in the server's certificate, which has no final dot."""
        return self.host.rstrip(".")


class UpstreamPool:
    """Connections in use, and idle ones. Use it as an async context manager: its end closes the idle ones."""

    def __init__(  # noqa: PLR0913  # what a connection depends on
        self,
        most: int,
        *,
        connect_timeout: float,
        header_timeout: float,
        idle_timeout: float,
        proxy: URL | None,
        trust: ssl.SSLContext | None,
    ) -> None:
        """At most `most` connections are in use at once. Timeouts are in seconds.

        `proxy`: the URL of an HTTP proxy, which may contain a user and a password. `trust`: the context for
        TLS; None if no origin needs one.
        """
        self._slots = asyncio.Semaphore(most)
        self._max_kept = max(1, int(most * _KEPT_SHARE))
        self._connect_timeout, self._timeouts = connect_timeout, (header_timeout, idle_timeout)
        self._proxy, self._trust = proxy, trust
        self.proxy_headers = _proxy_headers(proxy)
        """The headers for the proxy, as lines."""
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
    async def slot(self) -> AsyncIterator[None]:
        """Count a connection that is made elsewhere. Raises TimeoutError if there is no room for it."""
        await self._enter()
        try:
            yield
        finally:
            self._slots.release()

    async def acquire(self, origin: Origin, *, fresh: bool = False) -> UpstreamConnection:
        """Return a kept connection, or a new one, which `fresh` requires. `release` must follow.

        Raises TimeoutError or OSError if it cannot be made.
        """
        await self._enter()
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
            self._slots.release()
            raise

    async def release(self, connection: UpstreamConnection, origin: Origin) -> None:
        """End the exchange on a connection, and keep it for another one if that is possible."""
        try:
            reusable = await connection.finish()
        finally:
            self._slots.release()
        kept = self._kept[origin]
        if reusable and len(kept) < self._max_kept:
            connection.keep(KEEP_ALIVE_SECONDS)
            kept.append(connection)
        elif reusable:
            connection.abort()

    async def _enter(self) -> None:
        if self._slots.locked():
            async with asyncio.timeout(self._connect_timeout):
                await self._slots.acquire()
        else:
            await self._slots.acquire()

    # ---- new connections

    async def _connect(self, origin: Origin) -> UpstreamConnection:
        if self._proxy is None:
            return await self._open(origin.host, origin.port, origin, self._trust if origin.tls else None)
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
        self, host: str, port: int, origin: Origin, trust: ssl.SSLContext | None
    ) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        addresses = await self._addresses.resolve(host, port)
        wire = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_DELAY)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, connection = await loop.create_connection(
            lambda: UpstreamConnection(loop, *self._timeouts, lambda ended: self._forget(ended, origin)),
            sock=wire,
            ssl=trust,
            server_hostname=origin.server_name if trust else None,
            ssl_handshake_timeout=self._connect_timeout if trust else None,
        )
        return connection

    async def _tunnel(self, connection: UpstreamConnection, origin: Origin) -> None:
        """Ask the proxy for a tunnel, and start TLS in it."""
        target = f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{self.proxy_headers}\r\n"
        try:
            await connection.exchange(head.encode(), None)
        except InvalidAnswerError:
            raise ProxyError("the proxy's answer is not valid HTTP") from None
        status = connection.answer.status
        if not 200 <= status < 300:
            raise ProxyError(f"the proxy answered {status}")
        if connection.answer.unread:  # it would be taken for the upstream's
            raise ProxyError("the proxy sent data before the tunnel was in use")
        assert self._trust is not None  # noqa: S101  # the origin needs TLS
        loop, context = asyncio.get_running_loop(), self._trust
        transport = await loop.start_tls(
            connection.transport,
            connection,
            context,
            server_hostname=origin.server_name,
            ssl_handshake_timeout=self._connect_timeout,
        )
        if transport is None:  # the connection was closed meanwhile
            raise ConnectionError
        connection.continue_on(transport)

    def _forget(self, connection: UpstreamConnection, origin: Origin) -> None:
        with suppress(ValueError):  # it was not kept
            self._kept[origin].remove(connection)


class _Addresses:
    """Addresses of hosts. Connections that are made at the same time share one lookup."""

    def __init__(self) -> None:
        self._lookups: dict[tuple[str, int], asyncio.Task[list[AddressInfo]]] = {}
        self._found: dict[tuple[str, int], tuple[float, list[AddressInfo]]] = {}

    async def resolve(self, host: str, port: int) -> list[AddressInfo]:
        """Return the addresses of a host. Raises HostNotFoundError."""
        with suppress(OSError, UnicodeError):  # an address needs no lookup
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        loop, place = asyncio.get_running_loop(), (host, port)
        until, addresses = self._found.get(place, (0.0, []))
        if loop.time() < until:
            return addresses
        lookup = self._lookups.get(place)
        if lookup is None:
            lookup = self._lookups[place] = loop.create_task(self._look_up(place))
            lookup.add_done_callback(lambda _: self._lookups.pop(place, None))
        try:
            return await asyncio.shield(lookup)
        except (OSError, UnicodeError):
            raise HostNotFoundError(host) from None

    async def _look_up(self, place: tuple[str, int]) -> list[AddressInfo]:
        loop, (host, port) = asyncio.get_running_loop(), place
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        if not found:
            raise HostNotFoundError(host)
        self._found[place] = loop.time() + _LOOKUP_SECONDS, found
        return found

    def close(self) -> None:
        """End the lookups in progress."""
        for lookup in self._lookups.values():
            lookup.cancel()


def _proxy_headers(proxy: URL | None) -> str:
    if proxy is None or proxy.user is None:
        return ""
    credentials = f"{proxy.user}:{proxy.password or ''}".encode("latin-1")
    return f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}\r\n"
