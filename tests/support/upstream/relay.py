"""A TCP relay in front of a server. When it is cut off, it accepts data and forwards none."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Relay:
    """Passes connections on to a server, except while it is `cut`."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._connections: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.address = ""

    def cut(self) -> None:
        """Pass nothing on any more. Connections stay open, and new ones are accepted."""
        self._open.clear()

    def restore(self) -> None:
        """Reset the connections, and pass new ones on."""
        for writer in self._connections:
            writer.transport.abort()
        self._open.set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._connections.add(writer)
        try:
            if self._open.is_set():
                host, port = self.server.split(":")
                inner, outer = await asyncio.open_connection(host, int(port))
                self._connections.add(outer)
                await asyncio.gather(self._pass_on(reader, outer), self._pass_on(inner, writer))
            else:
                await reader.read(-1)
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._connections.discard(writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._open.is_set():  # otherwise what was sent is lost
                    writer.write(data)
                    await writer.drain()
        self._connections.discard(writer)
        writer.transport.abort()


@asynccontextmanager
async def relay_to(relay: Relay) -> AsyncIterator[Relay]:
    """The relay while the block runs, on a port that the system chooses."""
    server = await asyncio.start_server(relay.handle, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        relay.restore()
