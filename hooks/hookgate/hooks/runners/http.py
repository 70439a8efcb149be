"""HTTP hooks: send each event as a POST request to a service that the operator allows."""

import errno
import json
import os
import re
from collections.abc import Iterable
from io import BytesIO
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import aiohttp
from yarl import URL

from hookgate.hooks.clock import StallAwareTimeout, StallClock
from hookgate.hooks.errors import HookError, HookUnavailableError, SettingsError, is_exhaustion
from hookgate.hooks.events.base import Document
from hookgate.hooks.output import Output, read_output
from hookgate.hooks.runners.process import MIN_OUTPUT_LIMIT, output_limit, too_long
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import Hook, HttpConfig
from hookgate.hooks.settings.configs import shown_url

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1"))
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")


def service(hook: Hook, config: HttpConfig, targets: Iterable[str]) -> tuple[str, URL]:
    """Return the path of the Unix socket, or "", and the URL. Raises SettingsError if it is not allowed."""
    allowed = [_parse_target(number, target) for number, target in enumerate(targets, 1)]
    if config.url.startswith("unix:"):
        socket, _, path = config.url.removeprefix("unix:").partition(":")
        return socket, URL(f"http://localhost{path}")
    try:
        url = URL(config.url)
    except ValueError:
        raise _error(hook, "its url is not valid; write it like http://127.0.0.1:8080/path") from None
    if "@" in url.raw_authority:
        remedy = 'name them in `headers`, such as {"Authorization": "Bearer $TOKEN"}'
        raise _error(hook, f"{shown_url(config.url)}: a URL must not contain credentials; {remedy}")
    if not (_is_loopback(url.host or "") or any(_is_under(url, target) for target in allowed)):
        remedy = (
            f"add {url.origin()}/ to hooksConfig.http_targets in the user or system settings, "
            "or in a policy file (--policy)"
        )
        raise _error(hook, f"{shown_url(config.url)} is neither on this machine nor allowed; {remedy}")
    return "", url


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return any(address in network for network in _LOOPBACK)


def _parse_target(number: int, prefix: str) -> URL:
    try:
        url = URL(prefix)
        if url.scheme in ("http", "https") and url.host and shown_url(prefix) == prefix:
            return url
    except ValueError:
        pass
    raise SettingsError(
        f"hooksConfig.http_targets: entry {number} must be a URL like https://policy.example.com/hooks/, "
        "without user, query or fragment"
    )


def _is_under(url: URL, target: URL) -> bool:
    """Return whether scheme, host and port are equal, and the URL's path is the target's path or below it."""
    same_origin = (url.scheme, url.raw_host, url.port) == (target.scheme, target.raw_host, target.port)
    if not same_origin or ".." in re.split(r"[/\\]", unquote(url.raw_path)):
        return False
    folder = target.raw_path.removesuffix("/")
    return url.raw_path == folder or url.raw_path.startswith(f"{folder}/")


def header(hook: Hook, name: str, value: str) -> str:
    """Return a header's expanded value. Raises SettingsError, which omits the value, if it is invalid."""
    missing = [m[1] or m[2] for m in _VARIABLE.finditer(value) if (m[1] or m[2]) not in os.environ]
    if missing:
        raise _error(hook, f"headers.{name}: the environment variable {missing[0]} is not set; set it")
    value = _VARIABLE.sub(lambda m: os.environ[m[1] or m[2]], value)
    if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
        message = f"headers.{name}: name or value is not valid; a value is one line of printable characters"
        raise _error(hook, message)
    return value


def _error(hook: Hook, message: str) -> SettingsError:
    name = shown_url(hook.name) if hook.name == hook.target else hook.name  # a default name is the URL
    return SettingsError(f"{hook.source}: the http hook {name!r}: {message}")


MAX_RESPONSE = MIN_OUTPUT_LIMIT
"""The maximum size of a response in bytes, after decompression. A large input raises it."""

_CLOSED_BY_PEER = frozenset({errno.ECONNRESET, errno.EPIPE})


class HttpRunner:
    """Runs an HTTP hook, whose service answers each event with an output or nothing. Connections are kept."""

    def __init__(self, hook: Hook, config: HttpConfig, targets: Iterable[str]) -> None:
        """Check URL and headers. Raises SettingsError, for example if no target allows the host."""
        self._hook = hook
        self._socket, self._url = service(hook, config, targets)
        self._headers = {name: header(hook, name, value) for name, value in config.headers.items()}
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._clock = StallClock()

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        try:
            async with StallAwareTimeout(self._clock, self._hook.timeout):
                return _parse_response(event, await self._fetch(document.json))
        except TimeoutError:
            raise HookError(f"timed out after {self._hook.timeout * 1000:g} ms") from None
        except (aiohttp.ClientError, OSError) as error:
            if is_exhaustion(error):
                message = f"cannot be reached: {getattr(error, 'strerror', None) or error}"
                raise HookUnavailableError("no resources", message) from None
            if not isinstance(error, aiohttp.ClientError):
                raise
            raise HookError(_describe_error(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _fetch(self, body: bytes) -> bytes:
        """Return the response's body. If the service closes a reused connection, retry once."""
        connection = SimpleNamespace(reused=False)
        try:
            return await self._post(body, connection)
        except aiohttp.ClientError as error:
            if not (connection.reused and _closed_before_answering(error)):
                raise
        return await self._post(body, connection)

    async def _post(self, body: bytes, connection: SimpleNamespace) -> bytes:
        request = self._client_session().post(
            self._url, data=BytesIO(body), allow_redirects=False, trace_request_ctx=connection
        )
        async with request as response:
            if not 200 <= response.status < 300:
                raise HookError(f"answered with the status {response.status}")
            return await _read_body(response, len(body))

    def _client_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise HookUnavailableError("closed", "is closed")
        if self._session is None:
            # The engine limits how many hooks run at once, so the connectors need no limit.
            self._session = aiohttp.ClientSession(
                connector=(
                    aiohttp.UnixConnector(self._socket, limit=0)
                    if self._socket
                    else aiohttp.TCPConnector(limit=0)
                ),
                headers={"Content-Type": "application/json", **self._headers},
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=None
                ),  # StallAwareTimeout enforces the hook's own
                trace_configs=[_reuse_tracing()],
                trust_env=False,
            )
        return self._session


# ---- the response


async def _read_body(response: aiohttp.ClientResponse, input_bytes: int) -> bytes:
    body, limit = bytearray(), output_limit(input_bytes)
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise too_long("answered with", limit, input_bytes)
    return bytes(body)


def _parse_response(event: str, body: bytes) -> Output | None:
    """Return the output in a response, or None if the body is empty. Raises HookError if it is invalid."""
    if not body.strip():
        return None
    try:
        value = json.loads(body, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise HookError("answered with invalid JSON") from None
    if not isinstance(value, dict):
        raise HookError("answered with JSON that is not an object")
    return read_output(value, event)


def _reject_constant(constant: str) -> Any:
    raise ValueError(constant)


# ---- connection errors


def _reuse_tracing() -> aiohttp.TraceConfig:
    """Return a tracing configuration that sets `reused` in the context of requests on reused connections."""

    async def set_reused(_: aiohttp.ClientSession, trace: SimpleNamespace, __: Any) -> None:
        trace.trace_request_ctx.reused = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(set_reused)
    return tracing


def _closed_before_answering(error: aiohttp.ClientError) -> bool:
    """Return whether the peer closed the connection before it sent a byte of the response."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # otherwise it is the part of the response that was read
    return isinstance(error, aiohttp.ClientOSError) and error.errno in _CLOSED_BY_PEER


def _describe_error(error: aiohttp.ClientError) -> str:
    """Describe an error without aiohttp's message, which may contain the URL's query or the response."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached: {error}"
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
        return "closed the connection before its answer was complete"
    return f"answered with invalid HTTP: {type(error).__name__}"
