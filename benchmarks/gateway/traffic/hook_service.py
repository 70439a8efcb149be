"""A hook that is an HTTP service, on a bare asyncio.Protocol like the upstream.

python -m benchmarks.gateway.traffic.hook_service PORT
"""

import asyncio
import sys

import uvloop
from benchmarks.gateway.traffic.http1 import MessageReader
from benchmarks.payloads import FORBIDDEN

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


class HookService(asyncio.Protocol):
    """A connection of the gateway."""

    def __init__(self) -> None:
        self._reader = MessageReader()
        self._denied = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._denied = self._denied or FORBIDDEN.encode() in data
        if self._reader.feed(data):
            output = b'{"decision":"deny","reason":"forbidden"}' if self._denied else b"{}"
            self._transport.write(_HEAD % (len(output), output))
            self._reader.begin_next()
            self._denied = False


async def serve(port: int) -> None:
    """Serve until the process is terminated."""
    server = await asyncio.get_running_loop().create_server(HookService, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
