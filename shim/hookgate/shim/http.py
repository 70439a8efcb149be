"""A minimal HTTP/1.1 client for the gateway: POST over pooled connections."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_MAX_IDLE = 8
"""The maximum number of idle connections. Further connections are closed after their response."""


class HttpError(Exception):
    """There was no complete response; the message says why."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response; its header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Pool:
    """Connections to one server. Not thread-safe: a pool belongs to one event loop."""

    def __init__(self, url: str) -> None:
        """Raises ValueError unless `url` is an http or https URL without a query or fragment."""
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
        """Send a POST request and return the response. Raises HttpError and OSError.

        If a pooled connection turns out to be closed, the request is sent once more on a new one.
        """
        request = self._request(target, headers, body)
        if (idle := self._take_idle()) is not None:
            with contextlib.suppress(_ConnectionDead):
                return await self._exchange(idle, request)
        try:
            return await self._exchange(await self._connect(), request)
        except _ConnectionDead as error:
            raise HttpError(str(error)) from None

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _request(self, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"POST {target} HTTP/1.1", f"host: {self._authority}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def _take_idle(self) -> "_Connection | None":
        loop = asyncio.get_running_loop()
        # In a forked process, closing the inherited connections would break the parent's.
        if loop is not self._loop:
            self._loop, self._inherited, self._idle = loop, self._idle, []
        while self._idle:
            if (connection := self._idle.pop()).alive:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "_Connection":
        context = ssl.create_default_context() if self._tls else None
        return _Connection(*await asyncio.open_connection(self._host, self._port, ssl=context))

    async def _exchange(self, connection: "_Connection", request: bytes) -> HttpResponse:
        try:
            response, reusable = await connection.send(request)
        except BaseException:
            connection.close()
            raise
        if reusable and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return response


class _ConnectionDead(Exception):  # noqa: N818  # a state of the connection
    """The connection was closed before any byte of a response: the request was most likely not read."""


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def alive(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        self._writer.transport.abort()

    async def send(self, request: bytes) -> tuple[HttpResponse, bool]:
        """Send a request; return the response, and whether the connection can be reused."""
        try:
            self._writer.write(request)
            await self._writer.drain()
            head = await _Head.read(self._reader)
        except ConnectionError as error:
            raise _ConnectionDead(str(error)) from None
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise HttpError("the response ended within its header") from None
            raise _ConnectionDead("the connection was closed without a response") from None
        try:
            body = await self._body(head)
        except asyncio.IncompleteReadError:
            raise HttpError("the response is incomplete") from None
        return HttpResponse(head.status, head.headers, body), head.reusable

    async def _body(self, head: "_Head") -> bytes:
        if "chunked" in head.headers.get("transfer-encoding", "").lower():
            return b"".join([chunk async for chunk in self._chunks()])
        if (length := head.headers.get("content-length")) is not None:
            return await self._reader.readexactly(_number(length, 10))
        return await self._reader.read()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := _number((await self._reader.readuntil(b"\n")).partition(b";")[0].decode("latin-1"), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readuntil(b"\n")
        while (await self._reader.readuntil(b"\n")).strip():
            pass  # trailers


@dataclass(frozen=True, slots=True)
class _Head:
    status: int
    headers: Mapping[str, str]
    reusable: bool

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Self:
        """Read the header of the final response, skipping those with status 1xx."""
        while True:
            try:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            except asyncio.LimitOverrunError:
                raise HttpError("the response header is too long") from None
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1."):
                raise HttpError(f"the response is not HTTP/1.1: {lines[0][:40]!r}")
            status = _number(rest[:3], 10)
            pairs = (line.partition(":") for line in lines[1:] if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            if status >= 200:
                has_length = "content-length" in headers or "transfer-encoding" in headers
                closes = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
                return cls(status, headers, has_length and not closes)


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise HttpError(f"the response has {text[:20]!r} instead of a number")
    return number
