"""As much of HTTP/1.1 as asking the gateway takes: POST over kept connections."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_KEPT = 8
"""Idle connections that are kept; more are made as they are needed, and closed after their answer."""


class HttpError(Exception):
    """There was no whole answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, its header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Pool:
    """Connections to one place. Everything here runs in one event loop."""

    def __init__(self, url: str) -> None:
        """Raises ValueError for what is no http or https URL."""
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname or place.query or place.fragment:
            raise ValueError(f"a gateway's URL is http(s)://host[:port][/path], not {url!r}")
        self._host, self._tls = place.hostname, place.scheme == "https"
        self._port = place.port or (443 if self._tls else 80)
        self._authority = place.netloc.rpartition("@")[2]
        self._idle: list[_Connection] = []
        self._inherited: list[_Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Raises HttpError and OSError. A kept connection that proves dead is replaced, once."""
        request = self._request(target, headers, body)
        if (kept := self._kept()) is not None:
            with contextlib.suppress(_Dead):
                return await self._exchange(kept, request)
        try:
            return await self._exchange(await self._connect(), request)
        except _Dead as error:
            raise HttpError(str(error)) from None

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _request(self, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"POST {target} HTTP/1.1", f"host: {self._authority}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def _kept(self) -> "_Connection | None":
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # in a forked process: to close its parent's would deafen the parent
            self._loop, self._inherited, self._idle = loop, self._idle, []
        while self._idle:
            if (connection := self._idle.pop()).alive:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "_Connection":
        context = ssl.create_default_context() if self._tls else None
        return _Connection(*await asyncio.open_connection(self._host, self._port, ssl=context))

    async def _exchange(self, connection: "_Connection", request: bytes) -> Answer:
        try:
            answer, reusable = await connection.ask(request)
        except BaseException:
            connection.close()
            raise
        if reusable and len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return answer


class _Dead(Exception):  # noqa: N818  # the connection is, not the exchange
    """The connection ended before any byte of an answer: the request was most likely never read."""


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def alive(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        self._writer.transport.abort()

    async def ask(self, request: bytes) -> tuple[Answer, bool]:
        """The answer, and whether the connection can be used again."""
        try:
            self._writer.write(request)
            await self._writer.drain()
            head = await _Head.read(self._reader)
        except ConnectionError as error:
            raise _Dead(str(error)) from None
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise HttpError("the answer ended within its head") from None
            raise _Dead("the connection was closed without an answer") from None
        try:
            body = await self._body(head)
        except asyncio.IncompleteReadError:
            raise HttpError("the answer ended before its end") from None
        return Answer(head.status, head.headers, body), head.keeps

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
    keeps: bool

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Self:
        """The head of the final answer: those with status 1xx are passed over."""
        while True:
            try:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            except asyncio.LimitOverrunError:
                raise HttpError("the answer has no end of its head") from None
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1."):
                raise HttpError(f"the answer is not HTTP/1.1: {lines[0][:40]!r}")
            status = _number(rest[:3], 10)
            pairs = (line.partition(":") for line in lines[1:] if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            if status >= 200:
                ends = "content-length" in headers or "transfer-encoding" in headers
                closes = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
                return cls(status, headers, ends and not closes)


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise HttpError(f"the answer has {text[:20]!r} where a number belongs")
    return number
