"""Transports: how an event reaches its hooks. `Remote` posts it to a gateway."""

import asyncio
import contextlib
import json
import logging
import re
import ssl
from collections.abc import Mapping
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from hookgate.shim.decisions import Decision, EventRefused, Json, read_decision
from hookgate.shim.http import HttpError, HttpResponse, ResponseReader, post_request

log = logging.getLogger("hookgate.shim")

OnUnreachable = Literal["allow", "deny"]
"""The decision about events while the gateway is unreachable."""


class Transport(Protocol):
    """A way to the hooks. It is used in one event loop, that of `driver.Host`."""

    async def fire(self, event: str, document: Json, *, deliver: bool) -> Decision:
        """Return the decision about an event's input document.

        If `deliver` is true, a gateway adds the hooks' context to the session's next model call.
        """

    async def close(self) -> None:
        """Release connections and other resources."""


_SESSION_SUFFIX = re.compile(r"/s/([A-Za-z0-9][A-Za-z0-9._~-]{0,127})/?\Z")

TELLS = "x-hookgate-shim"
"""A header of model calls that lists what the shim reports: `session`, `turns`, `tools`."""

_RECEIPT = "x-hookgate-receipt"
_CONTEXT = "x-hookgate-context"


_MAX_IDLE = 8
"""The maximum number of idle connections. Further connections are closed after their response."""

_READ_SIZE = 64 * 1024
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Pool:
    """Connections to one server. Not thread-safe: a pool belongs to one event loop."""

    def __init__(self, url: str) -> None:
        """Parse the URL. Raises ValueError unless it is an http or https URL without a query or fragment."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"invalid gateway URL {url!r}: it must look like http(s)://host[:port][/path]")
        self._host, self._tls = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._authority = parts.netloc.rpartition("@")[2]
        self._idle: list[_Connection] = []
        self._inherited: list[_Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a POST request and return the response. Raises OSError.

        If a pooled connection turns out to be closed, the request is sent again on a new one.
        """
        request = post_request(self._authority, target, headers, body)
        if (idle := self._take_idle()) is not None:
            with contextlib.suppress(_ConnectionDead):
                return await self._exchange(idle, request)
        context = ssl.create_default_context() if self._tls else None
        connection = await asyncio.open_connection(self._host, self._port, ssl=context)
        return await self._exchange(connection, request)

    def close(self) -> None:
        while self._idle:
            _abort(self._idle.pop())

    def _take_idle(self) -> _Connection | None:
        loop = asyncio.get_running_loop()
        # In a forked process, closing the inherited connections would break the parent's.
        if loop is not self._loop:
            self._loop, self._inherited, self._idle = loop, self._idle, []
        while self._idle:
            reader, writer = connection = self._idle.pop()
            if not (reader.at_eof() or writer.is_closing()):
                return connection
            _abort(connection)
        return None

    async def _exchange(self, connection: _Connection, request: bytes) -> HttpResponse:
        try:
            response = await _response(connection, request)
        except BaseException:
            _abort(connection)
            raise
        if response.reusable and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            _abort(connection)
        return response


class _ConnectionDead(HttpError):  # noqa: N818  # a state of the connection
    """The connection was closed before any byte of a response: the request was most likely not read."""


async def _response(connection: _Connection, request: bytes) -> HttpResponse:
    reader, writer = connection
    parser = ResponseReader()
    try:
        writer.write(request)
        await writer.drain()
        while (response := parser.feed(await reader.read(_READ_SIZE))) is None:
            pass
    except (ConnectionError, HttpError) as error:
        if parser.begun:
            raise
        raise _ConnectionDead(str(error)) from None
    return response


def _abort(connection: _Connection) -> None:
    connection[1].transport.abort()


class _UnreachableError(Exception):
    """The gateway gave no usable answer; the message says why."""


class Remote:
    """A gateway at a base URL, which may end with `/s/{session}`."""

    def __init__(self, url: str, key: str | None, on_unreachable: OnUnreachable, timeout: float) -> None:
        """`timeout` is in seconds, for one event. Raises ValueError for an unusable URL or key."""
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError("invalid key: it must consist of printable ASCII characters")
        self._pool = _Pool(url)
        self._path = urlsplit(without_session(url)).path
        self._headers = {"content-type": "application/json", "accept": "application/json", **_key_header(key)}
        self._on_unreachable, self._timeout = on_unreachable, timeout
        self._unreachable = False

    async def fire(self, event: str, document: Json, *, deliver: bool) -> Decision:
        """Return the decision of the gateway's hooks, or `on_unreachable` if the gateway is unreachable.

        Raises EventRefused if the gateway rejects the event.
        """
        try:
            answer = await self._post(event, document, deliver=deliver)
            output = _parse_output(answer)
        except _UnreachableError as error:
            return self._fallback_decision(event, str(error))
        self._log_reachability(None)
        return read_decision(event, output, answer.headers.get(_RECEIPT, ""))

    async def close(self) -> None:
        self._pool.close()

    async def _post(self, event: str, document: Json, *, deliver: bool) -> HttpResponse:
        target = f"{self._path}/s/{document['session_id']}/hookgate/v1/events/{event}"
        headers = {**self._headers, _CONTEXT: "deliver"} if deliver else self._headers
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._pool.post(target, headers, json.dumps(document).encode())
        except TimeoutError:
            raise _UnreachableError(f"no response within {self._timeout:g} s") from None
        except OSError as error:
            raise _UnreachableError(str(error) or type(error).__name__) from None
        if 400 <= response.status < 500:
            self._log_reachability(None)
            raise EventRefused(response.status, _error_message(response.body))
        if response.status != 200:
            raise _UnreachableError(f"it answered with status {response.status}")
        return response

    def _fallback_decision(self, event: str, cause: str) -> Decision:
        self._log_reachability(cause)
        if self._on_unreachable == "allow":
            return Decision(event)
        reason = f"The gateway is unreachable: {cause}"
        if event == "AfterAgent":  # a denial would only make the agent retry
            return read_decision(event, {"continue": False, "stopReason": reason})
        return read_decision(event, {"decision": "deny", "reason": reason})

    def _log_reachability(self, reason: str | None) -> None:
        """Log the beginning of an outage once, and its end once."""
        if reason is not None and not self._unreachable:
            effect = "allowed" if self._on_unreachable == "allow" else "denied"
            log.warning("the gateway is unreachable, so all events are %s: %s", effect, reason)
        elif reason is None and self._unreachable:
            log.info("the gateway is reachable again")
        self._unreachable = reason is not None


def session_from(url: str) -> str | None:
    """Return the session ID at the end of a base URL, or None."""
    match = _SESSION_SUFFIX.search(url)
    return match[1] if match else None


def without_session(url: str) -> str:
    """Return a gateway's base URL without the session ID at its end."""
    return _SESSION_SUFFIX.sub("", url).rstrip("/")


def _key_header(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    return {"authorization": key} if key.startswith("Bearer ") else {"x-goog-api-key": key}


def _parse_output(answer: HttpResponse) -> Json:
    try:
        output = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise _UnreachableError("its answer is not JSON") from None
    if not isinstance(output, dict):
        raise _UnreachableError("its answer is not a JSON object")
    return output


def _error_message(body: bytes) -> str:
    """Return the message of an error in Google's format, or else the beginning of the body."""
    try:
        error: Any = json.loads(body)
        return str(error["error"]["message"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]
