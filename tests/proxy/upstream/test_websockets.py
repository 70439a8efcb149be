"""WebSockets to the upstream: how they end."""

import asyncio
import time

from aiohttp import WSCloseCode, web

from hookgate.proxy.upstream.websockets import WebSockets, leave


async def test_an_upstream_that_goes_on_sending_does_not_keep_the_gateway_reading() -> None:
    async def flood(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoclose=False)
        await socket.prepare(request)
        for _ in range(1_000_000):
            try:
                await socket.send_str("{}")
            except ConnectionError:
                break
        left.set()
        return socket

    left = asyncio.Event()
    app = web.Application()
    app.router.add_get("/", flood)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"ws://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        async with (
            WebSockets(connect_timeout=5, header_timeout=5, proxy=None, ssl_context=None) as sockets,
            sockets.connect(url, {}, (), 1024) as socket,
        ):
            await socket.receive()
            begun = time.monotonic()
            await leave(socket, WSCloseCode.GOING_AWAY)
            assert time.monotonic() - begun < 2
            assert socket.closed
            await asyncio.wait_for(left.wait(), 5)
    finally:
        await runner.cleanup()
