"""The sockets that workers share: how they inherit them, and which worker accepts a connection.

The worker with more connections leaves a new one to the others for a moment.
"""

import asyncio
import json
import mmap
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hookgate.proxy.server.listener import readable

_VARIABLE = "HOOKGATE_WORKER"


@dataclass(frozen=True, slots=True)
class WorkerSockets:
    """The number of a worker, and the sockets that its process inherits."""

    number: int
    """From 1 to the number of workers."""
    listeners: list[socket.socket]
    """The sockets on which clients connect, which all workers share."""
    admin: socket.socket
    """The socket on which the supervisor connects."""
    lifeline: socket.socket
    """A connection to the supervisor, which is closed when the supervisor ends."""
    counts: int
    """The descriptor of a file for the number of connections of each worker."""

    @classmethod
    def of_process(cls) -> Self | None:
        """Return what this process has inherited, or None if it is not a worker. Call it once."""
        inherited = os.environ.pop(_VARIABLE, "")  # not for the programs of hooks
        if not inherited:
            return None
        fields = json.loads(inherited)
        clients = [_socket(number) for number in fields["listeners"]]
        os.set_inheritable(fields["counts"], False)
        admin, lifeline = _socket(fields["admin"]), _socket(fields["lifeline"])
        return cls(fields["number"], clients, admin, lifeline, fields["counts"])

    def environment(self) -> Mapping[str, str]:
        """Return the variable from which the worker learns of them."""
        fields = {
            "number": self.number,
            "listeners": [listener.fileno() for listener in self.listeners],
            "admin": self.admin.fileno(),
            "lifeline": self.lifeline.fileno(),
            "counts": self.counts,
        }
        return {_VARIABLE: json.dumps(fields)}

    def descriptors(self) -> list[int]:
        """Return the descriptors that the worker inherits."""
        return [each.fileno() for each in (*self.listeners, self.admin, self.lifeline)] + [self.counts]

    def report_ready(self) -> None:
        """Tell the supervisor that the worker accepts clients."""
        self.lifeline.send(b"\n")


def _socket(descriptor: int) -> socket.socket:
    opened = socket.socket(fileno=descriptor)
    opened.set_inheritable(False)
    opened.setblocking(False)
    return opened


_BYTES = 8
_PATIENCE = 0.005
"""Seconds that a worker leaves a new connection to those with fewer connections."""
_PAUSE = 0.001

_ABSENT = 2**64 - 1
"""The count of a worker that is not running. No other worker leaves a connection to it."""


class ConnectionCounts:
    """The open connections of each worker, in memory that they share."""

    def __init__(self, file: int, workers: int) -> None:
        """Map a file of `size_for` bytes."""
        self._memory = mmap.mmap(file, size_for(workers))
        self._counts = memoryview(self._memory).cast("Q")

    def set(self, number: int, connections: int) -> None:
        """Store the number of connections of the worker with this number."""
        self._counts[number - 1] = connections

    def set_absent(self, number: int) -> None:
        """Store that the worker with this number is not running."""
        self._counts[number - 1] = _ABSENT

    def is_least(self, number: int) -> bool:
        """Return whether no worker has fewer connections than the one with this number."""
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
            await readable(listener)
            deadline = loop.time() + _PATIENCE
            while not self._counts.is_least(self._number) and loop.time() < deadline:  # noqa: ASYNC110  # shared memory signals nothing
                await asyncio.sleep(_PAUSE)
            try:
                connection, address = listener.accept()
            except BlockingIOError:
                continue  # another worker has it
            connection.setblocking(False)
            return connection, address


def counts_file(workers: int) -> int:
    """Return the descriptor of a file for the counts, which has no name."""
    file = os.memfd_create("hookgate-connections")
    os.ftruncate(file, size_for(workers))
    return file
