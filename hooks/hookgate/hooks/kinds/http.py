"""HTTP hooks: each event as a POST to a service, on this machine or where the operator allows it.

Nothing that a header holds, nor a url's query, is part of an error: both may be secrets.

This module needs aiohttp, which the base install lacks: it is imported once an http hook is configured.
"""

import errno
import json
from collections.abc import Iterable
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import aiohttp

from hookgate.hooks.clock import OwnLimit, StallClock
from hookgate.hooks.document import Document
from hookgate.hooks.errors import HookError, HookUnavailableError
from hookgate.hooks.exhaustion import is_exhaustion
from hookgate.hooks.kinds.sizes import BASE, output_limit, too_long
from hookgate.hooks.kinds.targets import header, service
from hookgate.hooks.output import Output, read_output
from hookgate.hooks.session import Session
from hookgate.hooks.settings import Hook, HttpConfig

MAX_ANSWER = BASE
"""Bytes, after decompression, unless the input is large."""

_CLOSED_BY_PEER = frozenset({errno.ECONNRESET, errno.EPIPE})


class HttpRunner:
    """A service that answers each event with an output, or with nothing. Connections are kept alive."""

    def __init__(self, hook: Hook, config: HttpConfig, targets: Iterable[str]) -> None:
        """Check url and headers. Raises SettingsError, also for a host that no target allows."""
        self._hook = hook
        self._socket, self._url = service(hook, config, targets)
        self._headers = {name: header(hook, name, value) for name, value in config.headers.items()}
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._clock = StallClock()

    async def run(self, event: str, session: Session, document: Document) -> Output | None:
        try:
            async with OwnLimit(self._clock, self._hook.timeout):
                return _output(event, await self._answer(document.json))
        except TimeoutError:
            raise HookError(f"timed out after {self._hook.timeout * 1000:g} ms") from None
        except (aiohttp.ClientError, OSError) as error:
            if is_exhaustion(error):
                message = f"cannot be asked: {getattr(error, 'strerror', None) or error}"
                raise HookUnavailableError("no resources", message) from None
            if not isinstance(error, aiohttp.ClientError):
                raise
            raise HookError(_told(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _answer(self, body: bytes) -> bytes:
        """The answer's body. A kept connection may be closed just as it is used: that is tried once more."""
        connection = SimpleNamespace(reused=False)
        try:
            return await self._post(body, connection)
        except aiohttp.ClientError as error:
            if not (connection.reused and _closed_before_answering(error)):
                raise
        return await self._post(body, connection)

    async def _post(self, body: bytes, connection: SimpleNamespace) -> bytes:
        call = self._kept_session().post(
            self._url, data=BytesIO(body), allow_redirects=False, trace_request_ctx=connection
        )
        async with call as response:
            if not 200 <= response.status < 300:
                raise HookError(f"answered with the status {response.status}")
            return await _body(response, len(body))

    def _kept_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise HookUnavailableError("closed", "is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=(
                    aiohttp.UnixConnector(
                        self._socket, limit=0
                    )  # the engine bounds how many hooks run at once
                    if self._socket
                    else aiohttp.TCPConnector(limit=0)
                ),
                headers={"Content-Type": "application/json", **self._headers},
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the hook's own rules
                trace_configs=[_noting_reuse()],
                trust_env=False,
            )
        return self._session


# ---- the answer


async def _body(response: aiohttp.ClientResponse, input_bytes: int) -> bytes:
    body, limit = bytearray(), output_limit(input_bytes)
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise too_long("answered with", limit, input_bytes)
    return bytes(body)


def _output(event: str, body: bytes) -> Output | None:
    """The output of an answer; an empty one is no opinion. Raises HookError."""
    if not body.strip():
        return None
    try:
        value = json.loads(body, parse_constant=_not_json)
    except (ValueError, RecursionError):
        raise HookError("answered with what is not JSON") from None
    if not isinstance(value, dict):
        raise HookError("answered with JSON that is not an object")
    return read_output(value, event)


def _not_json(constant: str) -> Any:
    raise ValueError(constant)


# ---- what goes wrong on the way


def _noting_reuse() -> aiohttp.TraceConfig:
    """Notes in a request's own namespace whether its connection had served before."""

    async def note(_: aiohttp.ClientSession, trace: SimpleNamespace, __: Any) -> None:
        trace.trace_request_ctx.reused = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(note)
    return tracing


def _closed_before_answering(error: aiohttp.ClientError) -> bool:
    """Whether the peer closed the connection without a byte of the answer."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # otherwise it holds what has been read of the answer
    return isinstance(error, aiohttp.ClientOSError) and error.errno in _CLOSED_BY_PEER


def _told(error: aiohttp.ClientError) -> str:
    """The error in words of our own: aiohttp's may hold the url's query or what the service wrote."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached: {error}"
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
        return "closed the connection before its answer was complete"
    return f"answered with what is not HTTP: {type(error).__name__}"
