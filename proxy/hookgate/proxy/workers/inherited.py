"""What a worker inherits from its supervisor: its number and its sockets."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

_VARIABLE = "HOOKGATE_WORKER"


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """The place of a worker beside the others. It outlives the process that fills it."""

    number: int
    """From 1 to the number of workers."""
    listeners: list[socket.socket]
    """The sockets on which clients connect, which all workers share."""
    admin: socket.socket
    """The socket on which the supervisor connects."""
    lifeline: socket.socket
    """A connection to the supervisor, which ends with it."""
    counts: int
    """The descriptor of a file for the number of connections of each worker."""

    @classmethod
    def of_process(cls) -> Self | None:
        """Return the place of this process, or None if it is not a worker. Call it once."""
        inherited = os.environ.pop(_VARIABLE, "")  # not for the programs of hooks
        if not inherited:
            return None
        fields = json.loads(inherited)
        clients = [_socket(number) for number in fields["listeners"]]
        os.set_inheritable(fields["counts"], False)
        admin, lifeline = _socket(fields["admin"]), _socket(fields["lifeline"])
        return cls(fields["number"], clients, admin, lifeline, fields["counts"])

    def environment(self) -> Mapping[str, str]:
        """Return the variable from which the worker learns its place."""
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
