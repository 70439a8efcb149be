"""A client for the service of a hook or a policy that the operator allows: posts JSON, reads the answer."""

import errno
import json
import os
import re
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import aiohttp
from aiohttp.client_exceptions import UnixClientConnectorError
from yarl import URL

from hookgate.hooks.errors import (
    HookError,
    HookUnavailableError,
    InvalidOutputError,
    SettingsError,
    is_exhaustion,
)
from hookgate.hooks.runners.process import output_limit, too_long
from hookgate.hooks.settings.configs import shown_url
from hookgate.translator.strictjson import object_of_distinct_keys

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1"))
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")


def parse_targets(targets: Iterable[str]) -> list[URL]:
    """Return the URLs of `hooksConfig.http_targets`. Raises SettingsError if one is invalid."""
    return [_parse_target(number, target) for number, target in enumerate(targets, 1)]


def checked_url(text: str, allowed: Sequence[URL], *, may_be_local: bool = True) -> URL:
    """Return the URL if it is under an allowed one, or on this machine, unless that has to be allowed too.

    Raises ValueError, with the remedy, if it is not.
    """
    try:
        url = URL(text)
    except ValueError:
        raise ValueError("its url is not valid; write it like http://127.0.0.1:8080/path") from None
    if "@" in url.raw_authority:
        remedy = 'name them in `headers`, such as {"Authorization": "Bearer $TOKEN"}'
        raise ValueError(f"{shown_url(text)}: a URL must not contain credentials; {remedy}")
    if not ((may_be_local and is_local(url)) or any(_is_under(url, target) for target in allowed)):
        remedy = (
            f"add {url.origin()}/ to hooksConfig.http_targets in the user or system settings, "
            "or in a policy file (--policy)"
        )
        problem = "neither on this machine nor allowed" if may_be_local else "not allowed"
        raise ValueError(f"{shown_url(text)} is {problem}; {remedy}")
    return url


def is_local(url: URL) -> bool:
    """Return whether the URL is on this machine."""
    host = url.host or ""
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


def expanded_header(name: str, value: str) -> str:
    """Return a header's value with variables of the environment in place of `$NAME`.

    Raises ValueError, which omits the value, if the header is invalid.
    """
    missing = [m[1] or m[2] for m in _VARIABLE.finditer(value) if (m[1] or m[2]) not in os.environ]
    if missing:
        raise ValueError(f"headers.{name}: the environment variable {missing[0]} is not set; set it")
    value = _VARIABLE.sub(lambda m: os.environ[m[1] or m[2]], value)
    if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
        raise ValueError(
            f"headers.{name}: name or value is not valid; a value is one line of printable characters"
        )
    return value


_CLOSED_BY_PEER = frozenset({errno.ECONNRESET, errno.EPIPE})


class ServiceClient:
    """Posts JSON to the URLs of one service. Connections are kept; redirects are not followed."""

    def __init__(self, headers: Mapping[str, str], socket_path: str = "") -> None:
        """`headers` are sent with every request; `socket_path` is that of a Unix socket, if it has one."""
        self._socket, self._headers = socket_path, headers
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def post(self, url: URL, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the body of the response. If the service closes a reused connection, retry once.

        Raises HookError if the service does not answer with a status of success, or with too much. Its
        message contains nothing of what was sent or received.
        """
        connection = SimpleNamespace(reused=False)
        try:
            try:
                return await self._post(url, body, headers, connection)
            except aiohttp.ClientError as error:
                if not (connection.reused and _closed_before_answering(error)):
                    raise
            return await self._post(url, body, headers, connection)
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            if is_exhaustion(error):
                message = f"cannot be reached: {getattr(error, 'strerror', None) or error}"
                raise HookUnavailableError("no resources", message) from None
            if not isinstance(error, aiohttp.ClientError):
                raise
            raise HookError(describe_error(error), "not reached") from None

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _post(
        self, url: URL, body: bytes, headers: Mapping[str, str] | None, connection: SimpleNamespace
    ) -> bytes:
        request = self._client_session().post(
            url, data=BytesIO(body), headers=headers, allow_redirects=False, trace_request_ctx=connection
        )
        async with request as response:
            if not 200 <= response.status < 300:
                raise HookError(f"answered with the status {response.status}", f"status {response.status}")
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


async def _read_body(response: aiohttp.ClientResponse, input_bytes: int) -> bytes:
    body, limit = bytearray(), output_limit(input_bytes)
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise too_long("answered with", limit, input_bytes)
    return bytes(body)


def read_json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response. Raises HookError if it is anything else."""
    try:
        value = json.loads(body, parse_constant=_reject_constant, object_pairs_hook=object_of_distinct_keys)
    except (ValueError, RecursionError):
        raise InvalidOutputError("answered with invalid JSON") from None
    if not isinstance(value, dict):
        raise InvalidOutputError("answered with JSON that is not an object")
    return value


def _reject_constant(constant: str) -> Any:
    raise ValueError(constant)


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


def describe_error(error: aiohttp.ClientError) -> str:
    """Describe an error without aiohttp's message, which may contain the URL's query or the response."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached: {_describe_refusal(error)}"
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
        return "closed the connection before its answer was complete"
    return f"answered with invalid HTTP: {type(error).__name__}"


def _describe_refusal(error: aiohttp.ClientConnectorError) -> str:
    """Say where no connection could be made, and why. aiohttp's text speaks of TLS even if there is none."""
    place = error.path if isinstance(error, UnixClientConnectorError) else f"{error.host}:{error.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{place}: {error.certificate_error}"
    cause = error.os_error
    if isinstance(cause, ssl.SSLError | socket.gaierror) or cause.errno is None:
        return f"{place}: {cause.strerror or cause}"
    return f"{place}: {os.strerror(cause.errno)}"
