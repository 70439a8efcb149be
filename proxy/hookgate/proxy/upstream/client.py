"""The client for the upstreams: the headers it forwards, and its errors as errors of the API."""

import asyncio
import re
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path

import aiohttp
from aiohttp import hdrs

from hookgate.proxy.config import CredentialSettings, LimitSettings, UpstreamSettings
from hookgate.proxy.config.models import VERTEX_API
from hookgate.proxy.config.values import parse_proxy
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.callers import KEY_HEADER
from hookgate.proxy.observe.record import UpstreamAttempt
from hookgate.proxy.routes.table import Route
from hookgate.proxy.routes.vertex import vertex_origin
from hookgate.proxy.server.bodies import CODINGS, INFLATE_STEP, compression_window, inflate_pieces
from hookgate.proxy.upstream.answer_parser import InvalidAnswerError
from hookgate.proxy.upstream.connection import (
    Body,
    HostNotFoundError,
    ProxyError,
    UpstreamConnection,
    UpstreamError,
    describe_connection_error,
)
from hookgate.proxy.upstream.credentials import Candidate, GatewayCredentials
from hookgate.proxy.upstream.key_mask import KeyMask
from hookgate.proxy.upstream.pool import Origin, UpstreamPool
from hookgate.proxy.upstream.websockets import WebSockets

# The headers that are forwarded in each direction. These are allow-lists: a header that is not known to be
# needed is not forwarded, so neither hop-by-hop headers nor headers meant for the gateway itself can leak to
# the other side.
_TO_UPSTREAM = frozenset(
    {
        "accept",
        "accept-language",
        "api-revision",
        "authorization",
        "content-type",
        "referer",
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
_BOTH_WAYS = ("x-goog-", "x-gemini-", "x-vertex-ai-")
_WITH_JUDGED_BODY = frozenset(
    {
        "content-type",
        "date",
        "retry-after",
        "x-request-id",
        "x-gemini-service-tier",
        "x-goog-upload-chunk-granularity",
        "x-goog-upload-size-received",
        "x-goog-upload-status",
    }
)
_TYPES = frozenset({"content-type", "x-goog-upload-header-content-type"})
_PREFIXES_TO_UPSTREAM = (*_BOTH_WAYS, "x-android-", "x-ios-")
"""With `referer`, these prove that a restricted API key is used by its app or website."""
# They change the form of the answer, like the query parameters that are refused, name a model or a project
# besides those of the path, or hold the URL of an upload: uploads must go through the gateway, so
# `rewrite_upload_urls` replaces them.
_NEVER_FORWARDED = frozenset(
    {
        "x-goog-encode-response-if-executable",
        "x-goog-fieldmask",
        "x-goog-request-params",
        "x-goog-upload-control-url",
        "x-goog-upload-url",
    }
)

# Includes lone surrogates: they stand for bytes that are not UTF-8 and could not be encoded again.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")


def to_upstream(headers: Mapping[str, str], accept_encoding: str) -> dict[str, str]:
    """Return the client's headers to forward upstream, with `Accept-Encoding` set to `accept_encoding`."""
    forwarded = _forwarded(headers.items(), _TO_UPSTREAM, _PREFIXES_TO_UPSTREAM)
    return {**forwarded, "Accept-Encoding": accept_encoding}


def to_client(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the upstream's headers to forward to the client with an answer that is not judged.

    Headers that describe the body's length are not included: the gateway sets them. Neither are values with
    control characters, which no header may contain.
    """
    forwarded = _forwarded(headers.items(), _TO_CLIENT, _BOTH_WAYS)
    return {name: value for name, value in forwarded.items() if not has_controls(value)}


def with_judged_body(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the upstream's headers to forward to the client with a judged body, which is in UTF-8.

    Only those are included that clients read: no hook judges them.
    """
    named = in_utf8(to_client(headers))
    return {name: value for name, value in named.items() if name.lower() in _WITH_JUDGED_BODY}


def in_utf8(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a judged body without other charsets: its receiver must read what was judged."""
    return {name: _utf8_type(value) if name.lower() in _TYPES else value for name, value in headers.items()}


def _utf8_type(value: str) -> str:
    media_type, _, parameters = value.partition(";")
    if "".join(parameters.split()).strip(";").lower() in ("", "charset=utf-8", 'charset="utf-8"'):
        return value
    return f"{media_type.strip()}; charset=utf-8"


def has_controls(value: str) -> bool:
    """Return True if a header's value or a reason phrase contains control characters."""
    return _CONTROLS.search(value) is not None


def _forwarded(
    headers: Iterable[tuple[str, str]], allowed: frozenset[str], prefixes: tuple[str, ...]
) -> dict[str, str]:
    kept = {
        low: (name, value)  # once, however often and in whatever case it was sent
        for name, value in headers
        if (low := _forwarded_name(name, allowed, prefixes))
    }
    return dict(kept.values())


@lru_cache(256)
def _forwarded_name(name: str, allowed: frozenset[str], prefixes: tuple[str, ...]) -> str:
    """Return the name of a header in lower case, or an empty string if it is not forwarded."""
    low = name.lower()
    is_allowed = low in allowed or (low.startswith(prefixes) and low not in _NEVER_FORWARDED)
    return low if is_allowed else ""


_IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT"})
_SENT_WITHOUT_LENGTH = frozenset({"GET", "HEAD", "OPTIONS"})  # if they have no body


class NoAnswerError(ApiError):
    """Raised when no answer came from `origin`; `why` describes the failure.

    `sent` says whether a part of the request may have been sent. The message for the client contains neither
    the origin nor the URL.
    """

    def __init__(self, origin: str, error: OSError, *, sent: bool = True) -> None:
        self.origin, self.why, self.sent = origin, describe_connection_error(error), sent
        if isinstance(error, TimeoutError):
            super().__init__(504, "The upstream did not answer in time.", "UPSTREAM_TIMEOUT")
        else:
            named = isinstance(error, HostNotFoundError)
            why = "its host name cannot be resolved" if named else self.why
            super().__init__(502, f"The upstream cannot be reached ({why}).", "UPSTREAM_UNREACHABLE")


class UpstreamAnswer:
    """An answer whose headers have arrived. Its body is received as `chunks` is iterated over."""

    __slots__ = ("_connection", "_mask", "headers", "read", "status")

    def __init__(
        self, connection: UpstreamConnection, *, decompress: bool, mask: KeyMask | None = None
    ) -> None:
        """Mask a key everywhere in the answer, if `mask` is given.

        Raises ApiError if `decompress` is true and the content coding is not supported, or if the answer is
        compressed although a key must be masked in it.
        """
        self._connection, self._mask = connection, mask
        self.status, self.headers = connection.answer.status, connection.answer.headers
        if mask is not None:
            self.headers = mask.headers(self.headers)
        coding = ""
        if hdrs.CONTENT_ENCODING in self.headers:
            coding = ", ".join(self.headers.getall(hdrs.CONTENT_ENCODING)).lower()
        if has_controls(coding):
            raise _unreadable("its Content-Encoding has control characters")
        if decompress and coding and coding not in CODINGS:
            raise _unreadable("its Content-Encoding is not supported")
        if mask is not None and not decompress and coding not in ("", "identity"):
            raise _unreadable("it is compressed, although the gateway did not ask for that")
        self.read: Callable[[], Awaitable[bytes]] = connection.read
        """Returns the next bytes of the body, or none at its end. Raises UpstreamError like `chunks`."""
        pieces = self._decompress(coding) if decompress and coding in ("gzip", "deflate") else None
        if mask is not None:
            pieces = mask.stream(pieces or self._received())
        if pieces is not None:
            self.read = partial(anext, pieces, b"")

    @property
    def reason(self) -> str:
        """The reason phrase. Bytes that are not UTF-8 are surrogates."""
        reason = self._connection.answer.raw_reason.decode("utf-8", "surrogateescape")
        return reason if self._mask is None else self._mask.text(reason)

    def put_back(self, data: bytes) -> None:
        """Put back bytes that were read: the next ones that `read` returns."""
        rest = self.read

        async def read() -> bytes:
            self.read = rest
            return data

        self.read = read

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises UpstreamError if it is incomplete, late or invalid."""
        while data := await self.read():
            yield data

    async def _received(self) -> AsyncIterator[bytes]:
        while data := await self._connection.read():
            yield data

    async def _decompress(self, coding: str) -> AsyncIterator[bytes]:
        """Yield the body in pieces of bounded size, each decompressed when the previous one has been used."""
        stream = None
        while data := await self._connection.read():
            stream = stream or zlib.decompressobj(compression_window(data, coding))
            if stream.eof:
                raise UpstreamError("data follows the end of its compressed body")
            try:
                for piece in inflate_pieces(stream, data):
                    yield piece
                    if len(piece) == INFLATE_STEP:  # many pieces may follow without waiting for data
                        await asyncio.sleep(0)
            except zlib.error:
                raise UpstreamError(f"its body is not valid {coding} data") from None
        if stream is not None and (not stream.eof or stream.unused_data):
            raise UpstreamError(f"its body is not one complete {coding} stream")


class Upstreams:
    """A client for the upstreams. Use it as an async context manager: it owns a connection pool.

    At most `max_connections` connections are in use at once, by default as many as clients may open.
    `credentials` are the gateway's credentials by name, in addition to the keys in `settings`. Raises
    ValueError or OSError if the CA bundle, or a credential, cannot be used.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        max_connections: int = LimitSettings().connections,
        credentials: Mapping[str, CredentialSettings] | None = None,
    ) -> None:
        self._settings, self._max_connections = settings, max_connections
        self.header_timeout = settings.header_timeout
        """Seconds to wait for all headers of an answer."""
        self._named_headers = frozenset(name.lower() for name in settings.request_headers)
        self.credentials = GatewayCredentials(settings, credentials or {})
        """The gateway's credentials."""
        self.origins = {
            "gemini": settings.gemini,
            "vertex": settings.vertex,
            "code_assist": settings.code_assist,
        }
        self._origins = {api: Origin.from_url(url) for api, url in self.origins.items()}
        self._locations: dict[str, Origin] = {}
        self._ca_bundle = _ssl_context(settings.ca_bundle) if settings.ca_bundle else None

    async def __aenter__(self) -> "Upstreams":
        settings, ssl_context, proxy = self._settings, self._ca_bundle, parse_proxy(self._settings.proxy)
        if ssl_context is None and any(origin.tls for origin in self._origins.values()):
            ssl_context = _ssl_context(None)
        self._pool = UpstreamPool(
            self._max_connections,
            connect_timeout=settings.connect_timeout,
            header_timeout=settings.header_timeout,
            idle_timeout=settings.idle_timeout,
            proxy=proxy,
            ssl_context=ssl_context,
        )
        self._web_sockets = WebSockets(
            connect_timeout=settings.connect_timeout,
            header_timeout=settings.header_timeout,
            proxy=proxy,
            ssl_context=ssl_context,
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._pool)
            await stack.enter_async_context(self._web_sockets)
            await stack.enter_async_context(self.credentials.kept_fresh())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def access_token(self, name: str) -> str:
        """Return a valid access token of a credential that has tokens. Raises ApiError (503)."""
        return await next(token for token in self.credentials.tokens if token.name == name).get()

    def named_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return those of the client's headers that the operator passes on by name."""
        return _forwarded(headers.items(), self._named_headers, ()) if self._named_headers else {}

    def apis(self, route: Route) -> frozenset[str]:
        """Return the APIs to which credentials of the gateway send calls of a route. Raises ApiError."""
        return frozenset(each.route.api for each in self.credentials.candidates(route))

    def refusal(self, route: Route) -> ApiError | None:
        """Return the error for a route that no credential of the gateway serves, or None."""
        try:
            self.credentials.candidates(route)
        except ApiError as error:
            return error
        return None

    def _origin(self, route: Route, location: str) -> Origin:
        """Return the origin of a route, at Vertex AI in a location if one is given."""
        if not location:
            return self._origins[route.api]
        if location not in self._locations:
            url = vertex_origin(self.origins["vertex"], VERTEX_API, location)
            self._locations[location] = Origin.from_url(url)
        return self._locations[location]

    async def _authenticated(
        self, attempt: UpstreamAttempt, candidate: Candidate, headers: Mapping[str, str]
    ) -> tuple[Origin, Mapping[str, str], KeyMask]:
        """Return where to send a request with a credential, its headers, and the mask for the answer.

        Raises ApiError (503) if there is no access token.
        """
        origin = self._origin(candidate.route, candidate.location)
        attempt.note_credential(candidate.credential.name, candidate.location, origin.host)
        authenticated, secret = await candidate.authenticated(headers)
        return origin, authenticated, KeyMask(secret)

    @asynccontextmanager
    async def exchange(  # noqa: PLR0913  # the parts of a request
        self,
        attempt: UpstreamAttempt,
        method: str,
        route: Route,
        headers: Mapping[str, str],
        data: Body,
        *,
        decompress: bool,
        candidate: Candidate | None = None,
    ) -> AsyncIterator[UpstreamAnswer]:
        """Send a request and yield the answer before its body is read.

        `attempt` comes from `CallRecord.attempt`, and `candidate` from
        `GatewayCredentials.candidates`. An iterable `data` is
        sent in chunks, unless `headers` contains its length. Leaving the context before the end of the body
        closes the connection, which also cancels the call upstream. Raises ApiError if there is no answer or
        it is invalid.
        """
        origin, mask = self._origins[route.api], None
        all_headers = attempt.headers(headers)
        if candidate is None:
            if route.credential_team is not None:
                raise RuntimeError("the credential of a caller with an issued key must not be sent upstream")
            all_headers = with_key(all_headers, route.api_key)
        else:
            route = candidate.route
            origin, all_headers, mask = await self._authenticated(attempt, candidate, all_headers)
        # Joined as text: re-encoding could change the checked path.
        target = f"{route.path}?{route.query}" if route.query else route.path
        head = self._request_head(method, origin, target, all_headers, data)
        length = headers.get(hdrs.CONTENT_LENGTH)
        try:
            connection = await self._begin_exchange(
                origin, method, head, data, int(length) if length else None
            )
        except InvalidAnswerError as error:
            raise _unreadable(str(error)) from None
        try:
            answer = UpstreamAnswer(connection, decompress=decompress, mask=mask)
            attempt.answer_began(answer.status)
            yield answer
        finally:
            await self._pool.release(connection, origin)

    async def _begin_exchange(
        self, origin: Origin, method: str, head: bytes, data: Body, length: int | None
    ) -> UpstreamConnection:
        """Return a connection on which the headers of the answer have arrived.

        The upstream may close an idle connection just as a request is sent on it. Only an idempotent request
        is then sent again, because any other request may have been processed. Raises NoAnswerError and
        InvalidAnswerError.
        """
        may_retry = method in _IDEMPOTENT and (data is None or isinstance(data, bytes))
        fresh = False
        while True:
            try:
                connection = await self._pool.acquire(origin, fresh=fresh)
            except OSError as error:
                raise NoAnswerError(origin.url, error, sent=False) from None
            try:
                await connection.begin_exchange(head, data, length, has_no_body=method == hdrs.METH_HEAD)
            except BaseException as error:
                await self._pool.release(connection, origin)
                fresh = may_retry and connection.reused and isinstance(error, ConnectionError)
                if not fresh and isinstance(error, OSError):
                    raise NoAnswerError(origin.url, error) from None
                if not fresh:
                    raise
            else:
                return connection

    def _request_head(
        self, method: str, origin: Origin, target: str, headers: Mapping[str, str], data: Body
    ) -> bytes:
        """Return the request line and the headers as bytes."""
        target, proxy_headers = f"{origin.path}{target}", ""
        if self._settings.proxy is not None and not origin.tls:
            target, proxy_headers = f"http://{origin.authority}{target}", self._pool.proxy_headers
        lines = [f"{method} {target} HTTP/1.1\r\nHost: {origin.authority}\r\n{proxy_headers}"]
        lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
        if data is None or isinstance(data, bytes):
            if data is not None or method not in _SENT_WITHOUT_LENGTH:
                lines.append(f"{hdrs.CONTENT_LENGTH}: {len(data or b'')}\r\n")
        elif hdrs.CONTENT_LENGTH not in headers:
            lines.append("Transfer-Encoding: chunked\r\n")
        lines.append("\r\n")
        text = "".join(lines)
        ends = len(lines) + 1 + bool(proxy_headers)
        if text.count("\n") != ends or text.count("\r") != ends:
            raise ValueError("a line break in a request's target or headers")
        return text.encode("utf-8", "surrogateescape")

    @asynccontextmanager
    async def connect(
        self,
        attempt: UpstreamAttempt,
        route: Route,
        headers: Mapping[str, str],
        protocols: Iterable[str],
        max_message: int,
    ) -> AsyncIterator[tuple[aiohttp.ClientWebSocketResponse[bool], KeyMask | None]]:
        """Open a WebSocket. Yields it with the mask for what it receives, if a secret was sent.

        Raises ApiError if the upstream refuses it or does not answer.
        """
        origin, mask = self._origins[route.api], None
        headers = attempt.headers(headers)
        if route.credential_team is None:
            headers = with_key(headers, route.api_key)
        else:
            candidate = self.credentials.candidates(route)[0]
            route = candidate.route
            origin, headers, mask = await self._authenticated(attempt, candidate, headers)
        query = f"?{route.query}" if route.query else ""
        url = f"{origin.url}{route.path}{query}"
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._pool.reserve())
                socket = await stack.enter_async_context(
                    self._web_sockets.connect(url, headers, protocols, max_message)
                )
            except OSError as error:
                raise NoAnswerError(origin.url, error) from None
            attempt.answer_began(101)
            yield socket, mask

    async def check(self, api: str) -> None:
        """Check that the origin of an API can be reached: name resolution, connection, TLS and the proxy.

        This sends a request without a key or content, and accepts any answer. Raises NoAnswerError.
        """
        origin = self._origins[api]
        head = self._request_head(hdrs.METH_HEAD, origin, "" if origin.path else "/", {}, None)
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                connection = await self._begin_exchange(origin, hdrs.METH_HEAD, head, None, None)
            status = connection.answer.status
            await self._pool.release(connection, origin)
            if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED and self._settings.proxy:
                raise ProxyError(f"the proxy answered {status}")
        except InvalidAnswerError:
            raise NoAnswerError(origin.url, ConnectionError()) from None
        except OSError as error:
            raise NoAnswerError(origin.url, error) from None


def expired_authorities(ca_bundle: Path) -> tuple[int, int]:
    """Return the number of expired certificates in a CA bundle, and the number of all its certificates."""
    found = _ssl_context(ca_bundle).get_ca_certs()
    expired = [each for each in found if ssl.cert_time_to_seconds(str(each["notAfter"])) < time.time()]
    return len(expired), len(found)


def _unreadable(problem: str) -> ApiError:
    return ApiError(502, f"The upstream's answer cannot be read: {problem}.", "UPSTREAM_UNREADABLE")


def _ssl_context(ca_bundle: Path | None) -> ssl.SSLContext:
    """Return the context for TLS that trusts the CA bundle, or else the system's authorities.

    Raises OSError or ValueError if the bundle cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca_bundle)
    except ssl.SSLError:
        raise ValueError(f"upstream.ca_bundle: {ca_bundle} contains no PEM certificates") from None
    except OSError as error:
        raise OSError(
            f"upstream.ca_bundle: {ca_bundle}: cannot be read: {error.strerror}; check the path"
        ) from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def with_key(headers: Mapping[str, str], key: str) -> Mapping[str, str]:
    """Return the headers with an API key from the query added, unless it is empty or a header has a key."""
    if not key or any(name.lower() == KEY_HEADER for name in headers):
        return headers
    return {**headers, KEY_HEADER: key}
