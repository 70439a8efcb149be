"""The one connection pool to the one fixed upstream; its failures become answers here and nowhere else."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from hookgate.proxy import GEMINI_API
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes import Route

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=300)


class UpstreamError(Exception):
    """The upstream's answer ended before it was complete."""

    def as_api_error(self) -> ApiError:
        """What a client is told that has received nothing of it."""
        return ApiError(502, f"The upstream's answer broke off ({self}).", "UPSTREAM_BROKE")


def parse_origin(text: str) -> str:
    """An upstream's base URL, checked. Raises ValueError naming what is wrong with it."""
    if re.search(r"[\s?#@\\]", text):
        raise ValueError(f"{text!r} holds more than scheme, host, port and path")
    try:
        url = URL(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a base URL: {error}; give one like {GEMINI_API}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{text!r} is not a base URL; give one like {GEMINI_API}")
    return text.rstrip("/")


class Upstream:
    """Opens calls to the upstream. Use as an async context manager: it owns a connection pool."""

    def __init__(self, origin: str) -> None:
        self.origin = parse_origin(origin)

    async def __aenter__(self) -> "Upstream":
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=_TIMEOUT,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @asynccontextmanager
    async def open(
        self, method: str, route: Route, headers: Mapping[str, str], data: Any, *, decompress: bool
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and give its answer, headers read, body not.

        Leaving the context before the body was read to its end closes the connection, which ends the call
        upstream too. Raises ApiError when no answer came, UpstreamError when reading one fails.
        """
        # Built from the fixed origin and the checked path; a join or a re-encoding could lead elsewhere.
        query = f"?{route.query}" if route.query else ""
        url = URL(f"{self.origin}{route.path}{query}", encoded=True)
        try:
            response = await self._session.request(
                method, url, headers=headers, data=data, allow_redirects=False, auto_decompress=decompress
            )
        except TimeoutError:
            raise ApiError(504, "The upstream did not answer in time.", "UPSTREAM_TIMEOUT") from None
        except (aiohttp.ClientError, OSError) as error:
            what = type(error).__name__
            raise ApiError(502, f"The upstream cannot be reached ({what}).", "UPSTREAM_UNREACHABLE") from None
        try:
            yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UpstreamError(type(error).__name__) from None
        finally:
            response.close()
