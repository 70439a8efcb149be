"""Requests that nobody looks at, carried both ways as they are and never held in memory."""

import aiohttp
from aiohttp import hdrs, web

from hookgate.proxy.headers import to_client, to_upstream
from hookgate.proxy.reply import cut
from hookgate.proxy.routes import Route
from hookgate.proxy.upstream import Upstream, UpstreamError


async def copy_through(request: web.BaseRequest, route: Route, upstream: Upstream) -> web.StreamResponse:
    """Send the request on and its answer back. Raises ApiError while there is no answer yet."""
    headers = to_upstream(request.headers, request.headers.get(hdrs.ACCEPT_ENCODING, "identity"))
    data = request.content if request.body_exists else None
    response = web.StreamResponse()
    try:
        async with upstream.open(request.method, route, headers, data, decompress=False) as answer:
            response.set_status(answer.status, answer.reason)
            response.headers.update(_as_sent(answer))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
    except UpstreamError as error:
        if not response.prepared:
            raise error.as_api_error() from None
        cut(request)
    await response.write_eof()
    return response


def _as_sent(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The answer's headers; its bytes stay compressed, and as many, as they came."""
    as_they_are = (hdrs.CONTENT_ENCODING, hdrs.CONTENT_LENGTH)
    described = {name: answer.headers[name] for name in as_they_are if name in answer.headers}
    return to_client(answer.headers) | described
