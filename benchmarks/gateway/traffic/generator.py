"""A load generator on uvloop that sends prepared bytes over persistent connections.

Unlike `wrk`, it can make calls at fixed times and measure the events of streams.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

import uvloop
from benchmarks.gateway.traffic.http1 import MessageReader

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function on uvloop."""

    async def waited() -> T:
        return await main()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(waited())


@dataclass
class Answer:
    """The bytes of an answer, with the times of their arrival in seconds of the monotonic clock.

    Attributes:
        began: The time at which the request was sent.
        reads: The time and the data of each read.
    """

    began: float
    reads: list[tuple[float, bytes]] = field(default_factory=list)

    def seconds(self) -> float:
        """Return the seconds from the request to the end of the answer."""
        return self.reads[-1][0] - self.began

    def first_event_seconds(self) -> float:
        """Return the seconds from the request to the first event of a stream."""
        return next(when for when, data in self.reads if b"data:" in data) - self.began

    def data(self) -> bytes:
        """Return all bytes, including the headers."""
        return b"".join(data for _, data in self.reads)


class Connection(asyncio.Protocol):
    """A client's connection, which makes one call after another."""

    def __init__(self) -> None:
        self._reader = MessageReader()
        self._ended: asyncio.Future[None] | None = None
        self._begun: asyncio.Future[None] | None = None
        self._answer = Answer(0)

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in (self._ended, self._begun):
            if waiting and not waiting.done():
                waiting.set_exception(ConnectionError(f"the proxy closed a connection during a call: {exc}"))
                waiting.exception()  # the other one is awaited

    def data_received(self, data: bytes) -> None:
        self._answer.reads.append((time.monotonic(), data))
        if self._begun and not self._begun.done() and b"data:" in data:
            self._begun.set_result(None)
        if self._reader.feed(data):
            head = self._reader.head
            self._reader.begin_next()
            if self._ended and not self._ended.done():
                if head.startswith(b"HTTP/1.1 200"):
                    self._ended.set_result(None)
                else:
                    self._ended.set_exception(AnswerError(self._answer.data().decode(errors="replace")))

    async def call(self, request: bytes) -> Answer:
        """Send a request and return the complete answer.

        Raises:
            AnswerError: The status of the answer is not 200.
        """
        self._send(request)
        assert self._ended
        await self._ended
        return self._answer

    async def open_stream(self, request: bytes) -> None:
        """Send a request and wait for the first event of its answer."""
        self._send(request)
        self._begun = asyncio.get_running_loop().create_future()
        await self._begun

    def close(self) -> None:
        """Close the connection, even in the middle of an answer."""
        self._transport.close()

    def _send(self, request: bytes) -> None:
        self._ended = asyncio.get_running_loop().create_future()
        self._answer = Answer(time.monotonic())
        self._transport.write(request)


class AnswerError(Exception):
    """Raised for an answer whose status is not 200. The message is the whole answer."""


async def connect(url: str) -> Connection:
    """Open a connection to the server at a URL."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, parts.hostname, parts.port)
    return connection


async def closed_loop(
    url: str,
    requests: Sequence[bytes],
    starts: Sequence[float],
    turns: Iterator[object],
    figure: Callable[[Answer], T],
) -> list[T]:
    """Run a closed loop of calls: each connection repeats one request, and waits for each answer.

    Args:
        url: The base URL of the server.
        requests: Complete requests, which are assigned to the connections in turn.
        starts: The delay of each connection before its first call, in seconds.
        turns: An iterator that is advanced before each call; when it is exhausted, no further calls begin.
        figure: Computes a figure from an answer.

    Returns:
        The figures of all answers.
    """
    figures: list[T] = []

    async def worker(start: float, request: bytes) -> None:
        connection = await connect(url)
        await asyncio.sleep(start)
        for _ in turns:
            answer = await connection.call(request)
            figures.append(figure(answer))
        connection.close()

    await asyncio.gather(*map(worker, starts, itertools.cycle(requests)))
    return figures


def for_seconds(seconds: float) -> Iterator[object]:
    """Return an iterator that is exhausted after the given time."""
    end = time.monotonic() + seconds
    return iter(lambda: time.monotonic() < end, False)


async def open_loop(url: str, requests: Sequence[bytes], rate: float, seconds: float) -> list[float]:
    """Begin calls at fixed times, whether or not earlier calls have ended.

    Args:
        url: The base URL of the server.
        requests: Complete requests, which are sent in turn.
        rate: The number of calls per second.
        seconds: The time for which calls begin.

    Returns:
        The duration of each call in seconds, measured from the time at which it was due.
    """
    idle = [await connect(url) for _ in range(8)]
    times: list[float] = []
    source = itertools.cycle(requests)
    begin = time.monotonic() + 0.05

    async def call(due: float, request: bytes) -> None:
        connection = idle.pop() if idle else await connect(url)
        answer = await connection.call(request)
        times.append(answer.began + answer.seconds() - due)
        idle.append(connection)

    async with asyncio.TaskGroup() as group:
        for due in _due_times(begin, rate, seconds):
            await asyncio.sleep(max(due - time.monotonic(), 0))
            group.create_task(call(due, next(source)))
    for connection in idle:
        connection.close()
    return times


def _due_times(begin: float, rate: float, seconds: float) -> Iterator[float]:
    return (begin + number / rate for number in range(int(rate * seconds)))
