"""The client of receivers that the operator names: posts a body, and reads the start of the answer.

Redirects are not followed, cookies are not kept, and proxies of the environment are not used.
"""

import ssl
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
from yarl import URL

from hookgate.hooks.runners.service_client import describe_error
from hookgate.proxy import __version__

_IDLE_SECONDS = 2.0
"""Seconds after which a connection is not used again: the receiver may close it at the same moment."""


class PostAnswer(NamedTuple):
    """What a receiver has answered. `start` is as much of the body as was asked for."""

    status: int
    headers: Mapping[str, str]
    start: bytes


class PostClient:
    """A client of one receiver."""

    def __init__(self, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        """`seconds` is how long a request may take; `tls` is the context for TLS."""
        self._seconds, self._tls = seconds, tls
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: URL, body: bytes, headers: Mapping[str, str], size: int = 0) -> PostAnswer:
        """Post a body, and return the answer with up to `size` bytes of its body.

        Raises OSError or TimeoutError without an answer; messages contain nothing of what was sent.
        """
        try:
            request = self._client_session().post(url, data=body, headers=headers, allow_redirects=False)
            async with request as answer:
                return PostAnswer(answer.status, answer.headers, await _read_start(answer.content, size))
        except TimeoutError:
            raise
        except aiohttp.ClientError as error:
            raise OSError(describe_error(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _client_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=1, ssl=self._tls or True, keepalive_timeout=_IDLE_SECONDS
                ),
                headers={"User-Agent": f"hookgate/{__version__}"},
                timeout=aiohttp.ClientTimeout(total=self._seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


async def _read_start(content: aiohttp.StreamReader, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (chunk := await content.read(size - len(found))):
        found += chunk
    return bytes(found)
