"""The listening side: one handler for every request, and a server that finishes what is in flight."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import ContentEncodingError

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection, Engines
from hookgate.proxy.errors import ApiError
from hookgate.proxy.exchange import Exchange
from hookgate.proxy.passthrough import copy_through
from hookgate.proxy.reply import Patience
from hookgate.proxy.routes import match
from hookgate.proxy.upstream import Upstream

log = logging.getLogger("hookgate.gateway")

MAX_BODY = 64 * 1024 * 1024
"""The largest request body a hook is shown, in bytes: room for inline images."""

FINISH_WITHIN = 60.0
"""Seconds that calls in flight are given to finish when the server stops."""

EVENTS = (BeforeModel.name, BeforeToolSelection.name, AfterModel.name)
"""The events that the gateway fires."""


class _Protocol(web.RequestHandler):
    """One connection. What is not HTTP gets Google's error shape as well."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        # aiohttp would log, and answer with, the request line: that may hold a key.
        log.info("a connection from %s failed: %s", request.remote, type(exc).__name__)
        if request.writer.output_size:
            raise ConnectionError("an answer has begun already")
        code = 415 if isinstance(exc, ContentEncodingError) else 400
        response = _error_response(
            ApiError(code, f"This is not a valid HTTP request ({type(exc).__name__}).")
        )
        response.force_close()
        return response


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


class Gateway:
    """Answers every request: by its route, judged or copied through, with Google's error shape if neither."""

    def __init__(self, engines: Engines, upstream: Upstream, patience: Patience | None = None) -> None:
        self._engines, self._upstream = engines, upstream
        self._patience = patience or Patience()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._dispatch(request)
        except ApiError as error:
            return _error_response(error)
        except ConnectionError:
            raise  # the client left; aiohttp closes what is left of its connection
        except Exception:
            log.exception("a call failed inside hookgate; please report this")
            if request.writer.output_size:
                raise  # too late for an answer of our own: aiohttp closes the connection
            return _error_response(ApiError(500, "hookgate failed inside; its log says how."))

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        route = match(request.method, request.raw_path)
        if route.kind == "health":
            return web.json_response({"status": "ok"})
        await _say_continue(request)
        if route.kind != "judged":
            return await copy_through(request, route, self._upstream)
        with self._engines.lease() as engine:
            if not any(engine.listens_to(event) for event in EVENTS):
                return await copy_through(request, route, self._upstream)
            return await Exchange(engine, self._upstream, self._patience).run(request, route)


async def _say_continue(request: web.BaseRequest) -> None:
    """Let a client send its body that waits for leave to; without it curl waits a second."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # it is no part of the answer


def _error_response(error: ApiError) -> web.Response:
    return web.Response(status=error.code, body=error.body(), content_type="application/json")


@asynccontextmanager
async def listening(handler: Any, host: str, port: int) -> AsyncIterator[str]:
    """Serve `handler` on an address; port 0 takes a free one. Gives the base URL.

    A client that leaves cancels its handler. On the way out nothing new is accepted and what is in flight
    is finished. Raises OSError when the address cannot be had.
    """
    server = _Server(
        handler,
        request_factory=_request,
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=75,
    )
    runner = web.ServerRunner(server, shutdown_timeout=FINISH_WITHIN)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error.strerror}; name another address") from None
        yield _url(runner.addresses[0])
    finally:
        await runner.cleanup()


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)


def _url(address: tuple[Any, ...]) -> str:
    host, port = address[0], address[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def catch_interrupts() -> asyncio.Event:
    """An event that the first SIGINT or SIGTERM sets, from now on.

    A second one cancels the calling task: it does not wait for calls in flight.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    return stop
