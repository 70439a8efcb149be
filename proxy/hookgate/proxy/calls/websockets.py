"""WebSockets between a client and the upstream: both connections, and the messages from one to the other."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, hdrs, web

from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.pacing import CallSteps
from hookgate.proxy.errors import request_refused
from hookgate.proxy.server.websocket_frames import MAX_MESSAGE, Receive
from hookgate.proxy.upstream.client import to_upstream
from hookgate.proxy.upstream.key_mask import KeyMask
from hookgate.proxy.upstream.websockets import leave

_NO_CODE = 1005
_CLOSE_CODES = range(1000, 5000)
_LONGEST_FAREWELL = 1.0
"""The seconds in which the client may answer that the WebSocket is closed. What it sends is discarded."""
_MAX_PINGS = 100
"""The number of pings of one side that are remembered until they are answered."""

UpstreamSocket = aiohttp.ClientWebSocketResponse[bool]
Socket = UpstreamSocket | web.WebSocketResponse[bool]

Close = tuple[int, bytes]
"""The code and the reason with which a WebSocket is closed."""


async def tunnel(call: Call) -> web.StreamResponse:
    """Connect the client's WebSocket to the upstream's until either closes. Raises ApiError if refused."""
    async with open_sockets(call, offers_protocols=True) as (client, upstream, mask):
        client_side, upstream_side = Side(client), Side(upstream)
        receive = call.request.incoming.counted(make_copier(upstream))
        inward = relay(call.steps, client_side, upstream_side, receive)
        outward = relay(call.steps, upstream_side, client_side, make_copier(client, mask), mask)
        await run_until_closed(call, client, upstream, inward, outward)
    return client


@asynccontextmanager
async def open_sockets(
    call: Call, *, offers_protocols: bool
) -> AsyncIterator[tuple[web.WebSocketResponse[bool], UpstreamSocket, KeyMask | None]]:
    """Yield the WebSocket of the client and that to the upstream, with the mask for what the latter sends.

    `offers_protocols` says whether the client's offers of subprotocols, which could be any text, are passed
    on. Raises ApiError if there is no connection.
    """
    request, upstreams = call.request, call.services.upstreams
    if not web.WebSocketResponse().can_prepare(request):
        raise request_refused("This path requires a WebSocket.")
    headers = to_upstream(request.headers, "identity") | upstreams.named_headers(request.headers)
    offered = [name.strip() for name in request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "").split(",")]
    wanted = [name for name in offered if name and offers_protocols]
    await call.services.record_start(call.record)
    call.record.note_sending()
    with call.record.attempt() as attempt:
        async with upstreams.connect(attempt, call.route, headers, wanted, MAX_MESSAGE) as (
            upstream,
            mask,
        ):
            client = web.WebSocketResponse(
                timeout=_LONGEST_FAREWELL,
                protocols=[upstream.protocol] if upstream.protocol else (),
                autoclose=False,
                autoping=False,
                compress=False,
                max_msg_size=MAX_MESSAGE,
            )
            await client.prepare(request)
            try:
                yield client, upstream, mask
            finally:
                request.incoming.stop()


async def run_until_closed(
    call: Call, client: Socket, upstream: UpstreamSocket, *directions: Coroutine[Any, Any, Close]
) -> None:
    """Run both directions until one of them ends, then close both sides with its code.

    Both sides are also closed if there is no memory for what the client sends, and once the client's key is
    withdrawn, if it was issued.
    """
    tasks = [asyncio.create_task(direction) for direction in (*directions, _memory_refusal(call))]
    if call.caller.issued is not None:
        tasks.append(asyncio.create_task(_withdrawal(call)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        code, reason = next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(client.close(code=code, message=reason), leave(upstream, code, reason))


async def _withdrawal(call: Call) -> Close:
    """Wait until the client's key is withdrawn. Returns the close code and the reason."""
    await call.key_withdrawn()
    return WSCloseCode.POLICY_VIOLATION, b"The key was revoked or replaced, or has expired."


async def _memory_refusal(call: Call) -> Close:
    """Wait until there is no memory for a message of the client. Returns the close code and the reason."""
    return WSCloseCode.TRY_AGAIN_LATER, (await call.request.incoming.refusal()).encode()


def make_copier(target: Socket, mask: KeyMask | None = None) -> Receive:
    """Return a function that sends messages to `target`."""

    async def copy(data: str | bytes) -> None:
        if isinstance(data, str):
            await target.send_str(mask.text(data) if mask else data)
        else:
            await target.send_bytes(mask.data(data) if mask else data)

    return copy


class PassedPings:
    """Pings of one side that the other side has not answered. Of many, the older ones are forgotten.

    They are passed on with a number in place of their data, which may be text that no hook judges.
    """

    def __init__(self) -> None:
        self._count = 0
        self._data: dict[bytes, bytes] = {}

    def add(self, data: bytes) -> bytes:
        """Add a ping with this data, and return the data with which it is passed on."""
        self._count += 1
        number = b"%d" % self._count
        self._data[number] = data
        if len(self._data) > _MAX_PINGS:
            del self._data[next(iter(self._data))]
        return number

    def pop(self, number: bytes) -> bytes:
        """Return the data of the ping that a pong answers; empty if there is no such ping."""
        return self._data.pop(number, b"")


class Side:
    """One side of a session."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.pings = PassedPings()
        """Its pings that the other side has not answered."""
        self._next: asyncio.Task[Any] | None = None

    async def receive(self) -> Any:
        """Return its next message, of one of aiohttp's types of messages."""
        coming, self._next = self._next, None
        return await (self.socket.receive() if coming is None else coming)

    async def arrived(self, messages: int, size: int) -> list[str | bytes]:
        """Return the data of its next messages if they have arrived.

        There are up to `messages` of them, and none follows after `size` characters or bytes.
        """
        found: list[str | bytes] = []
        while len(found) < messages and size > 0:
            if self._next is None:
                self._next = asyncio.create_task(self.socket.receive())
            await asyncio.sleep(0)  # it returns at once what has arrived
            if not self._next.done() or self._next.exception():
                break
            message = self._next.result()
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                break
            found.append(message.data)
            size -= len(message.data)
            self._next = None
        return found

    def stop(self) -> None:
        """Stop waiting for a message."""
        if self._next is not None:
            self._next.cancel()


async def relay(
    steps: CallSteps, source: Side, target: Side, receive: Receive, mask: KeyMask | None = None
) -> Close:
    """Pass the data of messages to `receive`, and other messages to `target`, until either side closes.

    Messages that have arrived are received at once, so other calls run in between.
    """
    try:
        while True:
            await steps.pause()
            message = await source.receive()
            match message.type:
                case WSMsgType.TEXT | WSMsgType.BINARY:
                    await receive(message.data)
                case WSMsgType.PING:
                    await target.socket.ping(source.pings.add(bytes(message.data)))
                case WSMsgType.PONG:
                    await target.socket.pong(target.pings.pop(bytes(message.data)))
                case WSMsgType.CLOSE:
                    reason = message.extra or ""
                    return _sendable(message.data), (mask.text(reason) if mask else reason).encode()
                case WSMsgType.ERROR if isinstance(message.data, aiohttp.WebSocketError):
                    return message.data.code, b""
                case _:
                    return _sendable(source.socket.close_code), b""
    except ConnectionError:
        return WSCloseCode.GOING_AWAY, b""


def _sendable(code: int | None) -> int:
    """Return the close code to send; codes that stand for a missing code or close cannot be sent."""
    if code in (None, WSCloseCode.ABNORMAL_CLOSURE):
        return WSCloseCode.GOING_AWAY
    return int(code) if code != _NO_CODE and code in _CLOSE_CODES else WSCloseCode.OK
