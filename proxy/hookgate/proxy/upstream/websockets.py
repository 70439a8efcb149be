"""WebSockets to the upstreams, with aiohttp's client. Errors are converted to those of `pool`."""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import aiohttp
from yarl import URL

from hookgate.proxy.errors import ApiError
from hookgate.proxy.upstream.connection import HostNotFoundError, ProxyError


class WebSockets:
    """A client for WebSockets. Use it as an async context manager."""

    def __init__(
        self,
        *,
        connect_timeout: float,
        header_timeout: float,
        proxy: URL | None,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        """Timeouts are in seconds. `proxy` and `ssl_context` are those of `UpstreamPool`."""
        # aiohttp starts sock_read after the request's last byte, so this limits the wait for the headers.
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout, sock_read=header_timeout)
        self._proxy, self._ssl_context = proxy, ssl_context

    async def __aenter__(self) -> "WebSockets":
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=self._ssl_context or True),
            timeout=self._timeout,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            trace_configs=[_no_redirects()],
            proxy=self._proxy,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @asynccontextmanager
    async def connect(
        self, url: str, headers: Mapping[str, str], protocols: Iterable[str], max_message: int
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
        """Open a WebSocket.

        Raises ApiError if the upstream refuses it, and TimeoutError or OSError if it does not answer.
        """
        try:
            socket = await self._session.ws_connect(
                URL(url, encoded=True),
                headers=headers,
                protocols=protocols,
                autoclose=False,
                autoping=False,
                max_msg_size=max_message,
            )
        except aiohttp.WSServerHandshakeError as error:
            message = f"The upstream refused the WebSocket ({error.status})."
            raise ApiError(502, message, "UPSTREAM_REFUSED") from None
        except (aiohttp.ClientError, OSError) as error:
            raise as_os_error(error) from None
        try:
            yield socket
        finally:
            await leave(socket, aiohttp.WSCloseCode.GOING_AWAY)  # does nothing if it is closed already


_LONGEST_FAREWELL = 0.05
"""The seconds in which the upstream may answer that the WebSocket is closed."""


async def leave(socket: aiohttp.ClientWebSocketResponse[bool], code: int, message: bytes = b"") -> None:
    """Close a WebSocket to the upstream, which may go on sending instead of answering.

    aiohttp would read these messages as long as they arrive, without a pause.
    """
    with suppress(TimeoutError):  # the connection is closed then, too
        async with asyncio.timeout(_LONGEST_FAREWELL):
            await socket.close(code=code, message=message)


def as_os_error(error: Exception) -> OSError:
    """Return the OSError that corresponds to aiohttp's error, without its message, which may contain URLs."""
    match error:
        case TimeoutError():
            return TimeoutError()
        case aiohttp.ClientConnectorDNSError():
            return HostNotFoundError(error.host)
        case aiohttp.ClientProxyConnectionError():
            return ProxyError("the proxy cannot be reached")
        case aiohttp.ClientHttpProxyError():
            return ProxyError(f"the proxy answered {error.status}")
        case aiohttp.ClientConnectorCertificateError():
            return ssl.SSLCertVerificationError()
        case aiohttp.ClientSSLError():
            return ssl.SSLError()
        case OSError(errno=int(number)):
            return OSError(number, errno.errorcode.get(number, ""))
        case _:
            return ConnectionError()


def _no_redirects() -> aiohttp.TraceConfig:
    """Return a trace configuration that raises on redirects: `ws_connect` has no option to refuse them."""

    async def refuse(*_: object) -> None:
        raise aiohttp.ClientError("redirected")

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    return config
