"""Balance between workers that accept from the same sockets: the one with more connections waits a moment."""

import asyncio
import mmap
import os
import socket
from typing import Any

_BYTES = 8
_PATIENCE = 0.005
"""Seconds that a worker leaves a new connection to those with fewer connections."""
_PAUSE = 0.001

_ABSENT = 2**64 - 1
"""The count of a worker that is not running, to which nobody leaves a connection."""


class ConnectionCounts:
    """The open connections of each worker, in memory that they share."""

    def __init__(self, file: int, workers: int) -> None:
        """Map a file of `size_for` bytes."""
        self._memory = mmap.mmap(file, size_for(workers))
        self._counts = memoryview(self._memory).cast("Q")

    def set(self, number: int, connections: int) -> None:
        """Note how many connections the worker with a number has."""
        self._counts[number - 1] = connections

    def set_absent(self, number: int) -> None:
        """Note that the worker with a number is not running."""
        self._counts[number - 1] = _ABSENT

    def is_least(self, number: int) -> bool:
        """Return whether no worker has fewer connections than the one with a number."""
        return self._counts[number - 1] <= min(self._counts)


def size_for(workers: int) -> int:
    """Return the size of the file in bytes."""
    return workers * _BYTES


class BalancedAcceptor:
    """Accepts connections for one of several workers."""

    def __init__(self, counts: ConnectionCounts, number: int) -> None:
        self._counts, self._number = counts, number

    def note_open(self, connections: int) -> None:
        """Note how many connections are open."""
        self._counts.set(self._number, connections)

    async def accept(self, listener: socket.socket) -> tuple[socket.socket, Any]:
        """Return the next connection and its address. Raises OSError."""
        loop = asyncio.get_running_loop()
        while True:
            await _readable(listener)
            deadline = loop.time() + _PATIENCE
            while not self._counts.is_least(self._number) and loop.time() < deadline:  # noqa: ASYNC110  # shared memory signals nothing
                await asyncio.sleep(_PAUSE)
            try:
                connection, address = listener.accept()
            except BlockingIOError:
                continue  # another worker has it
            connection.setblocking(False)
            return connection, address


async def _readable(listener: socket.socket) -> None:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(listener)


def counts_file(workers: int) -> int:
    """Return the descriptor of a file for the counts, which has no name."""
    file = os.memfd_create("hookgate-connections")
    os.ftruncate(file, size_for(workers))
    return file
