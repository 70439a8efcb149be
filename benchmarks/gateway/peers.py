"""Two proxies to compare with, on aiohttp and uvloop: one copies, the other runs one hook in a naive way.

python -m benchmarks.gateway.peers copying|naive PORT UPSTREAM
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import uvloop
from aiohttp import web
from benchmarks.payloads import FORBIDDEN

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_SEPARATOR = b"\r\n\r\n"


def copying(session: aiohttp.ClientSession, origin: str) -> Handler:
    """Return a handler that forwards the request's body, and sends back the answer as it arrives."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        async with session.post(origin + request.path_qs, data=body, headers=_JSON) as answer:
            response = web.StreamResponse(headers={"Content-Type": answer.headers["Content-Type"]})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        return response

    return handle


def naive(session: aiohttp.ClientSession, origin: str) -> Handler:
    """Return a handler that also parses and serializes request and answer with orjson, and runs one hook."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        value = orjson.loads(await request.read())
        if await _hook(value["contents"][-1]):
            return web.json_response({"error": {"code": 403, "message": "The hook denied it."}}, status=403)
        body = orjson.dumps(value)
        del value  # memory that is held while the upstream thinks slows the process down, too
        async with session.post(origin + request.path_qs, data=body, headers=_JSON) as answer:
            if answer.content_type != "text/event-stream":
                return web.Response(body=await _judged(await answer.read()), content_type="application/json")
            response = web.StreamResponse(headers={"Content-Type": answer.headers["Content-Type"]})
            await response.prepare(request)
            rest = b""
            async for chunk in answer.content.iter_any():
                *events, rest = (rest + chunk).split(_SEPARATOR)
                judged = [b"data: " + await _judged(event[6:]) + _SEPARATOR for event in events]
                if judged:
                    await response.write(b"".join(judged))
            await response.write_eof()
        return response

    return handle


async def _judged(data: bytes) -> bytes:
    answer = orjson.loads(data)
    if await _hook(answer["candidates"][0]["content"]):
        raise web.HTTPForbidden
    return orjson.dumps(answer)


async def _hook(content: dict[str, Any]) -> bool:
    """Return whether the content is denied, by the same rule as that of the gateway's runtime hook."""
    return FORBIDDEN in content["parts"][-1].get("text", "")


_JSON = {"Content-Type": "application/json"}


async def serve(kind: str, port: int, origin: str) -> None:
    """Serve until the process is ended."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        handler = {"copying": copying, "naive": naive}[kind](session, origin)

        def request(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]  # aiohttp's own
            loop = asyncio.get_running_loop()
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=1 << 26)

        runner = web.ServerRunner(web.Server(handler, request_factory=request, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
