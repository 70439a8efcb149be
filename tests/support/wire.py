"""HTTP as bytes: the exact data on a connection, on the client's and the upstream's side."""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

KEY = {"x-goog-api-key": "test-key"}
UNARY = "/v1beta/models/gemini-2.5-flash:generateContent"
STREAM = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
SSE = f"{STREAM}?alt=sse"


def prompt(text: str, **more: Any) -> dict[str, Any]:
    """The body of a request with one turn of its user; further fields are the body's."""
    return {"contents": [{"role": "user", "parts": [{"text": text}]}], **more}


HI = prompt("hi")


@dataclass(frozen=True)
class Answer:
    """One response. `complete` is false when the connection ended before the body did."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes
    complete: bool = True

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The error object of Google's error shape."""
        assert self.headers["content-type"].startswith("application/json")
        assert self.json.keys() == {"error"}
        return self.json["error"]

    @property
    def events(self) -> list[Any]:
        """The events of a server-sent stream, each exactly one `data:` line and a blank line."""
        *events, rest = self.body.split(b"\r\n\r\n")
        assert rest == b"", "a stream has to end with a blank line"
        events = [event.removeprefix(b"\r\n") for event in events]
        assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
        return [json.loads(event.removeprefix(b"data: ")) for event in events]


class Wire:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def post(self, target: str, body: Any, headers: dict[str, str] | None = None) -> None:
        """Send a POST; a body that is not bytes goes as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.write(request_bytes("POST", target, data, KEY if headers is None else headers))

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next response."""
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert len(headers) == len(lines), f"a header is sent twice: {lines}"
        return int(first.split()[1]), headers

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    async def received(self, size: int, headers: dict[str, str]) -> bytes:
        """The first bytes of a body, as many as that."""
        if headers.get("transfer-encoding") != "chunked":
            return await self._reader.readexactly(size)
        body = b""
        while len(body) < size and (chunk := await self.chunk()):
            body += chunk
        return body

    async def answer(self) -> Answer:
        """The next response, whole or as far as it came."""
        status, headers = await self.head()
        body = b""
        try:
            if headers.get("transfer-encoding") == "chunked":
                while chunk := await self.chunk():
                    body += chunk
            else:
                body = await self._reader.readexactly(int(headers["content-length"]))
        except asyncio.IncompleteReadError as error:
            return Answer(status, headers, body + error.partial, complete=False)
        return Answer(status, headers, body)

    async def ended(self) -> bool:
        """Whether the other side closed the connection and sent nothing more."""
        return await self._reader.read() == b""

    async def finish(self) -> None:
        """Say that nothing more will come."""
        self._writer.write_eof()

    @property
    def socket(self) -> Any:
        """The connection's socket."""
        return self._writer.get_extra_info("socket")

    async def rest(self) -> bytes:
        """All that is still to come until the other side closes, or resets, the connection."""
        data = b""
        with contextlib.suppress(ConnectionError):
            while more := await self._reader.read(65536):
                data += more
        return data

    def taken(self) -> bool:
        """Whether the other side, on this machine, has read all that was written."""
        here, there = (_place(*address) for address in (self.socket.getsockname(), self.socket.getpeername()))
        waiting = {tuple(line.split()[1:3]): line.split()[4] for line in _connections()}
        unsent, unread = waiting[here, there].split(":")[0], waiting[there, here].split(":")[1]
        return int(unsent, 16) == int(unread, 16) == 0

    async def leave(self) -> None:
        """Close the connection, whatever is under way."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):  # the other side was faster
            await self._writer.wait_closed()


def listens(url: str) -> bool:
    """Whether anything on this machine takes connections there."""
    place = urlsplit(url)
    assert place.hostname
    own = _place(place.hostname, place.port or 0)
    return any(line.split()[1] == own and line.split()[3] == "0A" for line in _connections())


def _connections() -> list[str]:
    """The lines of Linux's table: number, place here, place there, state, bytes not sent and not read."""
    return Path("/proc/net/tcp").read_text().splitlines()[1:]


def _place(host: str, port: int) -> str:
    """An address as that table writes it."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def request_bytes(method: str, target: str, body: bytes, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not any(name.lower() in ("content-length", "transfer-encoding") for name in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Wire]:
    """A connection to the server at `url`; what takes minutes on it hangs, however busy the machine is."""
    place = urlsplit(url)
    async with asyncio.timeout(150):
        wire = Wire(*await asyncio.open_connection(place.hostname, place.port))
        try:
            yield wire
        finally:
            await wire.leave()


async def post(url: str, target: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
    """The answer to one POST on a connection of its own."""
    async with connected(url) as wire:
        await wire.post(target, body, headers)
        return await wire.answer()


async def ask(url: str, method: str, target: str, headers: dict[str, str] | None = None) -> Answer:
    """The answer to one request without a body."""
    async with connected(url) as wire:
        await wire.write(request_bytes(method, target, b"", KEY if headers is None else headers))
        if method != "HEAD":
            return await wire.answer()
        status, headers = await wire.head()
        return Answer(status, headers, b"")


# ---- the upstream's side


@dataclass
class Peer:
    """A server that says its lines to whoever asks, and what it was asked."""

    url: str
    heard: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def peer(*says: bytes | float, stays: asyncio.Event | None = None) -> AsyncIterator[Peer]:
    """A server that answers every connection's first request with these bytes, one write each, and closes.

    A number is a pause in seconds. With `stays` it closes only when that is set, or when the other side has
    closed.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            here.heard.append(await _request(reader))
            for data in says:
                if isinstance(data, float):
                    await asyncio.sleep(data)
                else:
                    writer.write(data)
                    await writer.drain()
            if stays:
                await _first(stays.wait(), reader.read())
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # a gateway that has heard enough may leave
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    here = Peer(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        yield here


async def _first(*either: Any) -> None:
    """Wait for the one that ends first."""
    tasks = [asyncio.ensure_future(each) for each in either]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    low = head.lower()
    if b"content-length: " in low:
        return head + await reader.readexactly(int(low.split(b"content-length: ")[1].split(b"\r\n")[0]))
    return head + (await reader.readuntil(b"0\r\n\r\n") if b"chunked" in low else b"")


def ok(body: bytes, content_type: str = "application/json; charset=UTF-8", **headers: str) -> bytes:
    """The bytes of a 200 with this body."""
    return response(200, body, {"Content-Type": content_type, **headers})


def sse(*events: Any) -> list[bytes]:
    """A stream's events, one write each; the whole stream after its head."""
    return [b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n" for event in events]


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
"""The head of a stream that ends with its connection."""


def spoken(text: str, index: int = 0, **more: Any) -> dict[str, Any]:
    """An event of one text; further fields are the candidate's."""
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": index, **more}]}


def response(status: int, body: bytes, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "Connection: close", "", ""]).encode() + body
