"""The one connection pool to the three fixed upstreams; their failures become answers here alone."""

import os
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import hdrs
from yarl import URL

from hookgate.proxy.config import Limits, Upstream
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import has_controls, with_key
from hookgate.proxy.routes import Route

_KEPT_SHARE = 1 / 8
"""While more of the connections than that are in use, no further one is kept for a later call: what is kept
takes descriptors too, for each of the three upstreams."""

_SLICE = 256 * 1024


class UpstreamError(Exception):
    """The upstream's answer ended before it was complete."""

    def as_api_error(self) -> ApiError:
        """What a client is told that has received nothing of it."""
        return ApiError(502, f"The upstream's answer broke off ({self}).", "UPSTREAM_BROKE")


class NoAnswerError(ApiError):
    """No answer came from `origin`, and `why` in words. The client is told neither origin nor url."""

    def __init__(self, origin: str, error: Exception) -> None:
        self.origin, self.why = origin, why(error)
        if isinstance(error, TimeoutError):
            super().__init__(504, "The upstream did not answer in time.", "UPSTREAM_TIMEOUT")
        else:
            message = f"The upstream cannot be reached ({self.why})."
            super().__init__(502, message, "UPSTREAM_UNREACHABLE")


class Upstreams:
    """Opens calls to the upstreams. Use as an async context manager: it owns a connection pool.

    It has `most` connections in use at once, one for each that clients may have. Raises ValueError or OSError
    for a CA bundle that cannot be used.
    """

    def __init__(self, settings: Upstream, most: int = Limits().connections) -> None:
        self._most, self._in_use = most, 0
        self.origins = {
            "gemini": settings.gemini,
            "vertex": settings.vertex,
            "code_assist": settings.code_assist,
        }
        self._proxy = settings.proxy
        self._trust = _trust(settings.ca_bundle)
        self._idle = settings.idle_timeout
        # aiohttp counts sock_read from the request's last byte on, so this is the time until the headers.
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=settings.connect_timeout, sock_read=settings.header_timeout
        )

    async def __aenter__(self) -> "Upstreams":
        self._connector = aiohttp.TCPConnector(limit=self._most, ssl=self._trust)
        self._session = self._client([])
        self._sockets = self._client([_no_redirects()])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._sockets.close()
        await self._connector.close()

    def _client(self, tracing: list[aiohttp.TraceConfig]) -> aiohttp.ClientSession:
        """One of two on the same connections: tracing costs each call of its session a twentieth."""
        return aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            timeout=self._timeout,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            trace_configs=tracing,
            proxy=self._proxy,
        )

    @asynccontextmanager
    async def open(
        self, method: str, route: Route, headers: Mapping[str, str], data: Any, *, decompress: bool
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and give its answer, headers read, body not.

        A large body goes in slices, as far as the upstream takes it: aiohttp would copy it whole.

        Leaving the context before the body was read to its end closes the connection, which ends the call
        upstream too. Raises ApiError when no answer came, UpstreamError when reading one fails.
        """
        with self._counted() as connection:
            headers = {**with_key(headers, route.key), **connection}
            async with self._answer(method, route, headers, data, decompress) as response:
                yield response

    @asynccontextmanager
    async def _answer(
        self, method: str, route: Route, headers: Mapping[str, str], data: Any, decompress: bool
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if isinstance(data, bytes) and len(data) > _SLICE:
            headers = {**headers, hdrs.CONTENT_LENGTH: str(len(data))}
            data = _slices(data)
        try:
            response = await self._session.request(
                method,
                self._url(route),
                headers=headers,
                data=data,
                allow_redirects=False,
                auto_decompress=decompress,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswerError(self.origins[route.api], error) from None
        try:
            _check_head(response)
            self._expect_body(response)
            yield response
        except aiohttp.ClientConnectionResetError:
            raise  # of a write, so of the client's connection: the upstream is only read by now
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UpstreamError(why(error)) from None
        finally:
            response.close()

    @asynccontextmanager
    async def connect(
        self, route: Route, headers: Mapping[str, str], protocols: Iterable[str], max_message: int
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
        """Open a WebSocket. Raises ApiError when the upstream does not take it."""
        with self._counted():
            async with self._socket(route, headers, protocols, max_message) as socket:
                yield socket

    @asynccontextmanager
    async def _socket(
        self, route: Route, headers: Mapping[str, str], protocols: Iterable[str], max_message: int
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
        try:
            socket = await self._sockets.ws_connect(
                self._url(route),
                headers=with_key(headers, route.key),
                protocols=protocols,
                autoclose=False,
                autoping=False,
                max_msg_size=max_message,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise ApiError(502, f"The upstream refused the WebSocket ({error.status}).") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswerError(self.origins[route.api], error) from None
        try:
            yield socket
        finally:
            await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)  # for one that was not closed yet

    def _expect_body(self, response: aiohttp.ClientResponse) -> None:
        """From now on the answer has begun: the time for its headers no longer counts."""
        protocol = response.connection.protocol if response.connection else None
        if protocol is not None:  # the protocol of a connection without waiting data is falsy
            protocol.read_timeout = self._idle
            protocol.start_timeout()

    @contextmanager
    def _counted(self) -> Iterator[Mapping[str, str]]:
        """One more connection in use; gives the header that says whether it is kept for a later call.

        aiohttp bounds the connections in use, and not those that it keeps.
        """
        self._in_use += 1
        kept = self._in_use <= max(1, self._most * _KEPT_SHARE)
        try:
            yield {} if kept else {hdrs.CONNECTION: "close"}
        finally:
            self._in_use -= 1

    def _url(self, route: Route) -> URL:
        # Built from the fixed origin and the checked path; a join or a re-encoding could lead elsewhere.
        query = f"?{route.query}" if route.query else ""
        return URL(f"{self.origins[route.api]}{route.path}{query}", encoded=True)


async def _slices(data: bytes) -> AsyncIterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(data), _SLICE):
        yield bytes(view[start : start + _SLICE])


def _check_head(response: aiohttp.ClientResponse) -> None:
    """Raises ApiError for a status that ends no call, such as 101, and for a coding that cannot be named."""
    if not 200 <= response.status <= 599:
        wrong = f"its status {response.status:03} ends no call"
    elif has_controls(response.headers.get("Content-Encoding", "")):
        wrong = "its Content-Encoding has control characters"
    else:
        return
    raise ApiError(502, f"The upstream's answer cannot be read: {wrong}.", "UPSTREAM_UNREADABLE")


def why(error: Exception) -> str:
    """What went wrong with a connection, in words. Not in the error's own: they hold URLs, and one of these
    may be the proxy's with its password.
    """
    for kind, told in _WHY:
        if isinstance(error, kind):
            return told
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name {error.host} is not known"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return "the connection broke off"


_WHY: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "it took too long"),
    (aiohttp.ClientProxyConnectionError, "the proxy cannot be reached"),
    (aiohttp.ClientConnectorCertificateError, "its TLS certificate is not trusted"),
    (aiohttp.ClientSSLError, "TLS with it failed"),
    (aiohttp.ClientPayloadError, "its body is incomplete"),
)
"""Failures that need no more words, the special ones first."""


def _no_redirects() -> aiohttp.TraceConfig:
    """Ends a request that would follow a redirect; aiohttp's WebSockets take no other order."""

    async def refuse(*_: object) -> None:
        raise aiohttp.ClientError("redirected")

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    return config


def _trust(ca_bundle: Path | None) -> ssl.SSLContext | bool:
    """Whose certificates are taken. Raises OSError or ValueError when the bundle cannot be used."""
    if ca_bundle is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_bundle))
    except ssl.SSLError:
        raise ValueError(f"upstream.ca_bundle: {ca_bundle} holds no certificates in PEM") from None
    except OSError as error:
        raise OSError(f"upstream.ca_bundle: cannot read {ca_bundle}: {error.strerror}") from None
