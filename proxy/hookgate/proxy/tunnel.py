"""A WebSocket that nobody looks at, carried both ways."""

import asyncio

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, hdrs, web

from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import to_upstream
from hookgate.proxy.protocol import Request
from hookgate.proxy.routes import Route
from hookgate.proxy.upstream import Upstreams

MAX_MESSAGE = 16 * 1024 * 1024
"""The largest message of either side, in bytes."""

_NO_CODE = 1005

_Socket = aiohttp.ClientWebSocketResponse[bool] | web.WebSocketResponse[bool]


async def tunnel(request: Request, route: Route, upstreams: Upstreams) -> web.StreamResponse:
    """Connect the client's WebSocket to the upstream's until either closes. Raises ApiError before that."""
    if not web.WebSocketResponse().can_prepare(request):
        raise ApiError(400, "This path takes a WebSocket alone.")
    headers = to_upstream(request.headers, "identity")
    offered = [name.strip() for name in request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "").split(",")]
    wanted = [name for name in offered if name]
    with request.record.asking() as asked:
        async with upstreams.connect(route, asked.headers(headers), wanted, MAX_MESSAGE) as there:
            asked.begun(101)
            here = web.WebSocketResponse(
                protocols=[there.protocol] if there.protocol else (),
                autoclose=False,
                autoping=False,
                compress=False,
                max_msg_size=MAX_MESSAGE,
            )
            await here.prepare(request)
            await _join(here, there)
    return here


async def _join(here: _Socket, there: _Socket) -> None:
    """Copy both ways until one side has ended, then end both with its code."""
    ways = [asyncio.create_task(_copy(here, there)), asyncio.create_task(_copy(there, here))]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    code, reason = done.pop().result()
    await asyncio.gather(*(side.close(code=code, message=reason) for side in (here, there)))


async def _copy(source: _Socket, target: _Socket) -> tuple[int, bytes]:
    """Copy messages until either side ends; gives the code and the reason to end with."""
    try:
        while True:
            message = await source.receive()
            match message.type:
                case WSMsgType.TEXT:
                    await target.send_str(message.data)
                case WSMsgType.BINARY:
                    await target.send_bytes(message.data)
                case WSMsgType.PING:
                    await target.ping(message.data)
                case WSMsgType.PONG:
                    await target.pong(message.data)
                case WSMsgType.CLOSE:
                    return _sendable(message.data), (message.extra or "").encode()
                case WSMsgType.ERROR if isinstance(message.data, aiohttp.WebSocketError):
                    return message.data.code, b""
                case _:
                    return _sendable(source.close_code), b""
    except ConnectionError:
        return WSCloseCode.GOING_AWAY, b""


def _sendable(code: int | None) -> int:
    """The code to close with; those that stand for no code, or no close at all, cannot be sent."""
    if code in (None, WSCloseCode.ABNORMAL_CLOSURE):
        return WSCloseCode.GOING_AWAY
    return WSCloseCode.OK if code in (0, _NO_CODE) else int(code)
