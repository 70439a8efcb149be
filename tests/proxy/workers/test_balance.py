"""Several workers that accept from one socket."""

import asyncio
import itertools
import os
import socket
from collections import Counter
from contextlib import ExitStack

from support.gateway.life import until

from hookgate.proxy.workers.sockets import BalancedAcceptor, ConnectionCounts, counts_file


async def accept_some(
    acceptor: BalancedAcceptor, listener: socket.socket, name: str, into: list[str]
) -> None:
    """Accept connections until cancelled, and keep them open."""
    with ExitStack() as stack:
        for count in itertools.count(1):
            stack.enter_context((await acceptor.accept(listener))[0])
            into.append(name)
            acceptor.note_open(count)


async def accepted_by(present: list[int], connections: int) -> Counter[str]:
    """How many of the connections each of the present workers, of three, accepts."""
    file = counts_file(3)
    counts = ConnectionCounts(file, 3)
    for number in (1, 2, 3):
        counts.set_absent(number)
    into: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        tasks, own = [], []
        for number in present:
            own.append(listener.dup())
            acceptor = BalancedAcceptor(counts, number)
            acceptor.note_open(0)
            tasks.append(asyncio.create_task(accept_some(acceptor, own[-1], str(number), into)))
        clients = [(await asyncio.open_connection(*listener.getsockname()))[1] for _ in range(connections)]
        await until(lambda: len(into) == connections)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients:
            client.close()
        for each_socket in own:
            each_socket.close()
    os.close(file)
    return Counter(into)


async def test_connections_are_shared_equally() -> None:
    assert await accepted_by([1, 2, 3], 30) == {"1": 10, "2": 10, "3": 10}


async def test_a_worker_that_is_not_running_takes_no_share() -> None:
    assert await accepted_by([1, 3], 20) == {"1": 10, "3": 10}


async def test_connections_are_accepted_although_a_worker_with_fewer_does_nothing() -> None:
    file = counts_file(2)
    counts = ConnectionCounts(file, 2)
    counts.set(2, 0)
    acceptor = BalancedAcceptor(counts, 1)
    acceptor.note_open(7)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        _, writer = await asyncio.open_connection(*listener.getsockname())
        connection, _ = await acceptor.accept(listener)
        connection.close()
        writer.close()
    os.close(file)
