"""The listening side: one handler for every request, and a server that finishes what is in flight."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import hdrs, web

from hookgate.hooks import Engines
from hookgate.proxy import logs
from hookgate.proxy.accepting import accepting, url_of
from hookgate.proxy.batches import BATCHED, Batches
from hookgate.proxy.caller import named_session
from hookgate.proxy.config import Config, Limits
from hookgate.proxy.errors import ApiError
from hookgate.proxy.events import EventService
from hookgate.proxy.exchange import Exchange
from hookgate.proxy.headers import check_credentials
from hookgate.proxy.heads import check_head
from hookgate.proxy.house import House
from hookgate.proxy.inputonly import InputOnly
from hookgate.proxy.metrics import Metrics
from hookgate.proxy.passthrough import copy_through
from hookgate.proxy.protocol import Request, error_response
from hookgate.proxy.records import Firing, Receipts
from hookgate.proxy.records.receipts import NO_RECEIPT
from hookgate.proxy.routes import Route, match
from hookgate.proxy.tls import Certificate
from hookgate.proxy.tracing.traces import Traces
from hookgate.proxy.tunnel import tunnel
from hookgate.proxy.unhooked import Unhooked
from hookgate.proxy.upstream import Upstreams
from hookgate.translator import INPUTS
from hookgate.translator.strictjson import dumps

if TYPE_CHECKING:  # its libraries are for a gateway that has one
    from hookgate.proxy.audit import Audit

log = logging.getLogger("hookgate.gateway")


class Gateway:
    """Answers every request: by its route, judged or copied through, with Google's error shape if neither."""

    def __init__(  # noqa: PLR0913  # what a gateway is made of
        self,
        engines: Engines,
        upstream: Upstreams,
        config: Config | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        *,
        audit: "Audit | None" = None,
    ) -> None:
        self._engines, self._upstream = engines, upstream
        self._config = config or Config()
        self._unhooked = Unhooked(self._config.routes.unhooked)
        self._house = House(upstream, self._config, audit=audit)
        self._events = EventService(self._house)
        self._metrics = metrics or Metrics(self._config.metrics.models, self._house.prices)
        self._traces = traces
        self._metrics.watch_unhooked(self._unhooked.counts)
        self._metrics.watch_bypasses(self._house.bypasses.counts)

    @property
    def receipts(self) -> Receipts:
        """What became of the latest calls."""
        return self._house.receipts

    async def handle(self, request: Request) -> web.StreamResponse:
        """Answer one request, count it, and tell of it in one line."""
        call, record = logs.Call(request.id, request.method, receipt=request.record.id), request.record
        logs.begin(call)
        self._metrics.began(record)
        if self._traces is not None:
            record.trace = self._traces.begin(request.headers)
        try:
            response = await self._answer(request)
            await response.prepare(request)
            await response.write_eof()
            call.status = response.status
            return response
        finally:
            request.room.leave()
            record.end(call.status, request.writer.output_size, dropped=request.dropped)
            self._house.settle(record)
            self._metrics.settled(record)
            if self._traces is not None:
                self._traces.settled(record)
            call.duration_ms = round(record.seconds * 1000, 1)
            call.bytes = record.answer_bytes
            logs.tell(call)

    async def _answer(self, request: Request) -> web.StreamResponse:
        try:
            check_head(request)
            return await self._dispatch(request)
        except ApiError as error:
            self._house.note_error(request.record, error)
            return error_response(error)
        except ConnectionError:
            raise  # the client left; aiohttp closes what is left of its connection
        except Exception:
            log.exception("a call failed inside hookgate; please report this")
            if request.writer.output_size:
                raise  # too late for an answer of our own: aiohttp closes the connection
            failure = ApiError(500, "hookgate failed inside; its log says how.")
            self._house.note_error(request.record, failure)
            return error_response(failure)

    async def _dispatch(self, request: Request) -> web.StreamResponse:
        route = match(request.method, request.raw_path, self._unhooked.groups, self._config.routes.files)
        self._note(request, route)
        check_credentials(request.headers, route.key, route.access_token)
        self._house.callers.admit(route, request.headers)
        if route.unhooked:
            self._unhooked.note(request.method, route)
        if route.kind == "tunnel":
            await self._house.begin(request.record)
            return await tunnel(request, route, self._upstream)
        if route.kind == "receipt":
            return self._receipt(request, route)
        await _say_continue(request)
        if route.kind == "forwarded":
            await self._house.begin(request.record)
            return await copy_through(request, route, self._upstream)
        return await self._judge(request, route)

    def _note(self, request: Request, route: Route) -> None:
        logs.note_route(route)
        record = request.record
        caller = self._house.callers.of(route, request.headers)
        record.session = caller.in_session(named_session(route, request.headers, ""))
        record.kind, record.route, record.model = route.kind, route.path, route.model
        record.streamed, record.request_bytes = route.streamed, request.content_length or 0
        audit = self._house.audit
        if audit is not None:
            audit.watch(record, request.method, route)
            request.answering = lambda status: audit.answering(record, status)
        if record.trace is not None:
            record.trace.api, record.trace.verb = route.api, route.verb

    async def _judge(self, request: Request, route: Route) -> web.StreamResponse:
        with self._engines.lease() as engine:
            firing = Firing(engine, request.record)
            if route.kind == "event":
                return await self._events.run(request, route, firing)
            if not (engine.configuration.groups or self._house.sessions or self._keeps(request)):
                await self._house.begin(request.record)
                return await copy_through(request, route, self._upstream)
            if route.verb in BATCHED:
                return await Batches(firing, self._house).run(request, route)
            if route.verb in INPUTS:
                return await InputOnly(firing, self._house).run(request, route)
            return await Exchange(firing, self._house).run(request, route)

    def _keeps(self, request: Request) -> bool:
        """Whether what is said in the call is wanted by somebody beside hooks."""
        record, trace = request.record, request.record.trace
        if record.content is not None or self._house.transcripts.kept:
            return True
        return trace is not None and trace.keeps_content

    def _receipt(self, request: Request, route: Route) -> web.Response:
        """What became of a call, for the key that made it."""
        key = self._house.callers.of(route, request.headers).key
        receipt = self._house.receipts.of(route.path.rpartition("/")[2], key)
        if receipt is None:
            raise ApiError(404, NO_RECEIPT)
        return web.json_response(receipt, dumps=lambda value: dumps(value).decode())


async def _say_continue(request: web.BaseRequest) -> None:
    """Let a client send its body that waits for leave to; without it curl waits a second."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # it is no part of the answer


@asynccontextmanager
async def listening(
    handler: Any, host: str, port: int, limits: Limits | None = None, certificate: Certificate | None = None
) -> AsyncIterator[str]:
    """Serve `handler` on an address; port 0 takes a free one. Gives the base URL.

    A client that leaves cancels its handler. On the way out nothing new is accepted and what is in flight
    is finished, for as long as `limits.drain_timeout`. Raises OSError when the address cannot be had.
    """
    limits, context = limits or Limits(), lambda: certificate.context if certificate else None
    async with accepting(handler, host, port, limits, context) as address:
        yield url_of("https" if certificate else "http", address)


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
