"""The pool of connections to the upstreams, and the mapping of upstream failures to API errors."""

import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import hdrs
from yarl import URL

from hookgate.proxy.config import LimitSettings, UpstreamSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.identity.callers import KEY_HEADER
from hookgate.proxy.observe.record import UpstreamAttempt
from hookgate.proxy.routing.table import Route

_KEEP_ALIVE_SHARE = 1 / 8
"""A connection is kept for reuse only while at most this share of the limit is in use.

Idle connections take descriptors, too, for each of the three upstreams."""

_SLICE = 256 * 1024


class UpstreamError(Exception):
    """Raised when the upstream's answer ends before it is complete."""

    def as_api_error(self) -> ApiError:
        """Return the error for a client that has not received any part of the answer."""
        return ApiError(502, f"The upstream's answer was cut off ({self}).", "UPSTREAM_BROKE")


class NoAnswerError(ApiError):
    """Raised when no answer came from `origin`; `why` describes the failure.

    The message for the client contains neither the origin nor the URL.
    """

    def __init__(self, origin: str, error: Exception) -> None:
        self.origin, self.why = origin, describe_connection_error(error)
        if isinstance(error, TimeoutError):
            super().__init__(504, "The upstream did not answer in time.", "UPSTREAM_TIMEOUT")
        else:
            named = isinstance(error, aiohttp.ClientConnectorDNSError)
            why = "its host name cannot be resolved" if named else self.why
            super().__init__(502, f"The upstream cannot be reached ({why}).", "UPSTREAM_UNREACHABLE")


class Upstreams:
    """A client for the upstreams. Use it as an async context manager: it owns a connection pool.

    At most `most` connections are in use at once: one for each connection that clients may have. Raises
    ValueError or OSError if the CA bundle cannot be used.
    """

    def __init__(self, settings: UpstreamSettings, most: int = LimitSettings().connections) -> None:
        self._most, self._in_use = most, 0
        self.origins = {
            "gemini": settings.gemini,
            "vertex": settings.vertex,
            "code_assist": settings.code_assist,
        }
        self._proxy = settings.proxy
        self._ssl_trust = _ssl_trust(settings.ca_bundle)
        self._idle = settings.idle_timeout
        # aiohttp starts sock_read after the request's last byte, so this limits the wait for the headers.
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=settings.connect_timeout, sock_read=settings.header_timeout
        )

    async def __aenter__(self) -> "Upstreams":
        self._connector = aiohttp.TCPConnector(limit=self._most, ssl=self._ssl_trust)
        self._session = self._client([])
        self._sockets = self._client([_no_redirects()])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._sockets.close()
        await self._connector.close()

    def _client(self, tracing: list[aiohttp.TraceConfig]) -> aiohttp.ClientSession:
        """Return a session on the shared connector.

        There are two sessions, because tracing makes every call of its session about 5% slower.
        """
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
    async def open(  # noqa: PLR0913  # the parts of a request
        self,
        attempt: UpstreamAttempt,
        method: str,
        route: Route,
        headers: Mapping[str, str],
        data: Any,
        *,
        decompress: bool,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield the response before its body is read.

        `attempt` comes from `CallRecord.attempt`. A large body is sent in slices, as fast as the upstream
        reads it: aiohttp would copy it as a whole.
        Leaving the context before the end of the body closes the connection, which also cancels the call
        upstream. Raises ApiError if there is no answer, and UpstreamError if reading the answer fails.
        """
        with self._count_connection() as connection:
            headers = {**with_key(attempt.headers(headers), route.key), **connection}
            async with self._answer(method, route, headers, data, decompress) as response:
                attempt.answer_began(response.status)
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
            raise  # only writes raise it, so it is the client's connection: the upstream is only read here
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UpstreamError(describe_connection_error(error)) from None
        finally:
            response.close()

    @asynccontextmanager
    async def connect(
        self,
        attempt: UpstreamAttempt,
        route: Route,
        headers: Mapping[str, str],
        protocols: Iterable[str],
        max_message: int,
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
        """Open a WebSocket. Raises ApiError if the upstream refuses it or does not answer."""
        with self._count_connection():
            async with self._socket(route, attempt.headers(headers), protocols, max_message) as socket:
                attempt.answer_began(101)
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
            await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)  # does nothing if it is closed already

    async def check(self, api: str) -> None:
        """Check that the origin of an API can be reached: its name, connection, TLS and the proxy.

        The request has no key and no content, and any answer will do. Raises NoAnswerError.
        """
        origin = self.origins[api]
        try:
            timeout = aiohttp.ClientTimeout(total=self._timeout.connect)
            async with self._session.head(origin, allow_redirects=False, timeout=timeout) as response:
                if response.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED and self._proxy:
                    raise NoAnswerError(
                        origin, aiohttp.ClientHttpProxyError(response.request_info, (), status=407)
                    )
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswerError(origin, error) from None

    def _expect_body(self, response: aiohttp.ClientResponse) -> None:
        """Replace the timeout for the headers, which have been read, with the idle timeout."""
        protocol = response.connection.protocol if response.connection else None
        if protocol is not None:  # `if protocol` would not do: without buffered data a protocol is falsy
            protocol.read_timeout = self._idle
            protocol.start_timeout()

    @contextmanager
    def _count_connection(self) -> Iterator[Mapping[str, str]]:
        """Count a connection as in use. Yields `Connection: close` if it must not be kept for reuse.

        aiohttp limits the connections in use, but not the idle ones.
        """
        self._in_use += 1
        kept = self._in_use <= max(1, self._most * _KEEP_ALIVE_SHARE)
        try:
            yield {} if kept else {hdrs.CONNECTION: "close"}
        finally:
            self._in_use -= 1

    def _url(self, route: Route) -> URL:
        # Joined as text: URL joining or re-encoding could change the checked path.
        query = f"?{route.query}" if route.query else ""
        return URL(f"{self.origins[route.api]}{route.path}{query}", encoded=True)


async def _slices(data: bytes) -> AsyncIterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(data), _SLICE):
        yield bytes(view[start : start + _SLICE])


def _check_head(response: aiohttp.ClientResponse) -> None:
    """Raise ApiError for a status that is not final, such as 101, and for an invalid Content-Encoding."""
    if not 200 <= response.status <= 599:
        problem = f"its status {response.status:03} is not a final status"
    elif has_controls(response.headers.get("Content-Encoding", "")):
        problem = "its Content-Encoding has control characters"
    else:
        return
    raise ApiError(502, f"The upstream's answer cannot be read: {problem}.", "UPSTREAM_UNREADABLE")


def describe_connection_error(error: Exception) -> str:
    """Describe a failed connection without using the error's own message.

    That contains URLs, which may include the proxy's with its password.
    """
    for error_type, description in _DESCRIPTIONS:
        if isinstance(error, error_type):
            return description
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name {error.host} cannot be resolved"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return "the connection was lost"


_DESCRIPTIONS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "it took too long"),
    (aiohttp.ClientProxyConnectionError, "the proxy cannot be reached"),
    (aiohttp.ClientConnectorCertificateError, "its TLS certificate is not trusted"),
    (aiohttp.ClientSSLError, "the TLS handshake failed"),
    (aiohttp.ClientPayloadError, "its body is incomplete"),
)
"""Descriptions of errors by their type, subclasses before their base classes."""


def _no_redirects() -> aiohttp.TraceConfig:
    """Return a trace configuration that raises on redirects: `ws_connect` has no option to refuse them."""

    async def refuse(*_: object) -> None:
        raise aiohttp.ClientError("redirected")

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    return config


def expired_authorities(ca_bundle: Path) -> tuple[int, int]:
    """Return how many certificates of a CA bundle have expired, and how many it contains."""
    context = _ssl_trust(ca_bundle)
    found = context.get_ca_certs() if isinstance(context, ssl.SSLContext) else []
    expired = [each for each in found if ssl.cert_time_to_seconds(str(each["notAfter"])) < time.time()]
    return len(expired), len(found)


def _ssl_trust(ca_bundle: Path | None) -> ssl.SSLContext | bool:
    """Return the `ssl` argument for the CA bundle. Raises OSError or ValueError if it cannot be used."""
    if ca_bundle is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_bundle))
    except ssl.SSLError:
        raise ValueError(f"upstream.ca_bundle: {ca_bundle} contains no PEM certificates") from None
    except OSError as error:
        raise OSError(f"upstream.ca_bundle: cannot read {ca_bundle}: {error.strerror}") from None


# The headers that are forwarded in each direction. These are allow-lists: a header that is not known to be
# needed is not forwarded, so neither hop-by-hop headers nor headers meant for the gateway itself can leak to
# the other side.
_TO_UPSTREAM = frozenset(
    {
        "accept",
        "accept-language",
        "authorization",
        "content-type",
        "traceparent",
        "tracestate",
        "user-agent",
        "x-request-id",
        "x-server-timeout",
    }
)
_TO_CLIENT = frozenset(
    {
        "content-disposition",
        "content-range",
        "content-type",
        "date",
        "retry-after",
        "server-timing",
        "x-request-id",
    }
)
_BOTH_WAYS = ("x-goog-", "x-gemini-")
# They change the form of the answer, like the query parameters that are refused, or hold the URL of an
# upload: uploads must go through the gateway, so passthrough.py rewrites that URL.
_NEVER_FORWARDED = frozenset(
    {
        "x-goog-encode-response-if-executable",
        "x-goog-fieldmask",
        "x-goog-upload-control-url",
        "x-goog-upload-url",
    }
)

# Includes lone surrogates: they stand for bytes that are not UTF-8 and could not be encoded again.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")


def to_upstream(headers: Mapping[str, str], accept_encoding: str) -> dict[str, str]:
    """Return the client's headers to forward upstream, with `Accept-Encoding` set to `accept_encoding`."""
    return {**_forwarded(headers.items(), _TO_UPSTREAM), "Accept-Encoding": accept_encoding}


def with_key(headers: Mapping[str, str], key: str) -> Mapping[str, str]:
    """Return the headers with an API key from the query added, unless it is empty or a header has a key."""
    if not key or any(name.lower() == KEY_HEADER for name in headers):
        return headers
    return {**headers, KEY_HEADER: key}


def to_client(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the upstream's headers to forward to the client.

    Headers that describe the body's length are not included: the gateway sets them. Neither are values with
    control characters, which no header may contain.
    """
    forwarded = _forwarded(headers.items(), _TO_CLIENT)
    return {name: value for name, value in forwarded.items() if not has_controls(value)}


def has_controls(value: str) -> bool:
    """Return True if a header's value or a reason phrase contains control characters."""
    return _CONTROLS.search(value) is not None


def _forwarded(headers: Iterable[tuple[str, str]], allowed: frozenset[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers
        if (low := name.lower()) in allowed or (low.startswith(_BOTH_WAYS) and low not in _NEVER_FORWARDED)
    }
