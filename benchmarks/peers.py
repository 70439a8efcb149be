"""What the gateway is measured against: a canned upstream, a copying proxy, and the naive way to run a hook.

python -m benchmarks.peers upstream|waiting|copying|naive PORT [UPSTREAM]
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import aiohttp
import orjson
from aiohttp import web
from benchmarks.bodies import answer_event, answer_stream

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def upstream(waits: bool) -> Handler:
    """Answers at once, from memory; of a stream that waits only the first event."""
    whole = orjson.dumps(answer_event(1, last=True))
    events = [b"data: " + data + b"\r\n\r\n" for data in answer_stream()]

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        async for _ in request.content.iter_any():
            pass  # of whatever size
        if "stream" not in request.path:
            return web.Response(body=whole, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events[:1] if waits else events:
            await response.write(event)
        if waits:
            await asyncio.Event().wait()
        await response.write_eof()
        return response

    return handle


def proxy(session: aiohttp.ClientSession, origin: str, *, parse: bool) -> Handler:
    """Sends the body on and the answer back; with `parse` through orjson both ways and a hook that looks."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if parse:
            value = orjson.loads(body)
            assert value["contents"]
            body = orjson.dumps(value)
            del value
        url = origin + request.path_qs
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
            response = web.StreamResponse(headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(_parsed(chunk) if parse else chunk)
            await response.write_eof()
        return response

    return handle


def _parsed(chunk: bytes) -> bytes:
    if not chunk.startswith(b"data: "):
        return orjson.dumps(orjson.loads(chunk))
    events = [event for event in chunk.split(b"\r\n\r\n") if event]
    return b"".join(b"data: " + orjson.dumps(orjson.loads(event[6:])) + b"\r\n\r\n" for event in events)


async def main(kind: str, port: int, origin: str = "") -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        handler = (
            upstream(waits=kind == "waiting")
            if kind in ("upstream", "waiting")
            else proxy(session, origin, parse=kind == "naive")
        )

        def request(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]  # aiohttp's own
            loop = asyncio.get_running_loop()
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=1 << 26)

        runner = web.ServerRunner(web.Server(handler, request_factory=request, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
