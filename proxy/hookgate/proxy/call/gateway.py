"""The entry point for requests: routes each request, judges or forwards it, and records its outcome."""

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from hookgate.hooks import Engine, Engines
from hookgate.proxy.call.context import CallContext, GatewayServices, RecordingEngine
from hookgate.proxy.call.events import EventService
from hookgate.proxy.call.generation import GenerationCall
from hookgate.proxy.call.kinds.batches import BATCHED, Batches
from hookgate.proxy.call.kinds.input_only import InputOnlyCalls
from hookgate.proxy.call.kinds.interactions import InteractionCalls
from hookgate.proxy.call.passthrough import forward_unread, tunnel
from hookgate.proxy.config import Config
from hookgate.proxy.errors import ApiError
from hookgate.proxy.http.bodies import Pacer
from hookgate.proxy.http.client import Upstreams
from hookgate.proxy.http.connection import Request, check_head, error_response
from hookgate.proxy.identity.callers import check_credentials, sent_credential
from hookgate.proxy.identity.sessions import Sessions
from hookgate.proxy.observe import logs
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.record import NO_RECEIPT, Receipts
from hookgate.proxy.observe.tracing import Traces
from hookgate.proxy.routing.envelopes import INTERACTIONS
from hookgate.proxy.routing.table import UnhookedRoutes, match
from hookgate.translator import INPUTS
from hookgate.translator.strictjson import dumps

if TYPE_CHECKING:  # it imports SQLAlchemy, which only an enabled audit needs
    from hookgate.proxy.audit import Audit
    from hookgate.proxy.identity.issued_keys import IssuedKeys

log = logging.getLogger("hookgate.gateway")


class Gateway:
    """Routes each request: judges it, forwards it, or answers with a Google-style error."""

    def __init__(  # noqa: PLR0913  # the parts of a gateway
        self,
        engines: Engines,
        upstream: Upstreams,
        config: Config | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        *,
        audit: "Audit | None" = None,
        sessions: Sessions | None = None,
        issued_keys: "IssuedKeys | None" = None,
    ) -> None:
        self._engines = engines
        self._config = config or Config()
        self._unhooked = UnhookedRoutes(self._config.routes.unhooked)
        self._services = GatewayServices(upstream, self._config, audit, sessions, issued_keys)
        self._events = EventService(self._services)
        self._metrics = metrics or Metrics(self._config.metrics.models, self._services.prices)
        self._traces = traces
        self._pacer = Pacer()
        self._metrics.watch_unhooked(self._unhooked.counts)
        self._metrics.watch_bypasses(self._services.bypasses.counts)

    @property
    def sessions(self) -> Sessions:
        """The sessions of callers."""
        return self._services.sessions

    @property
    def receipts(self) -> Receipts:
        """Receipts of recent calls."""
        return self._services.receipts

    async def handle(self, request: Request) -> web.StreamResponse:
        """Handle one request, count it, and log one line."""
        await self._pacer.turn()
        call, record = logs.CallLine(request.id, request.method, receipt=request.record.id), request.record
        logs.begin_call(call)
        self._metrics.began(record)
        if self._traces is not None:
            record.trace = self._traces.begin(request.headers)
        try:
            response = await self._respond(request)
            await response.prepare(request)
            await response.write_eof()
            call.status = response.status
            return response
        finally:
            request.memory_lease.release()
            record.end(call.status, request.writer.output_size, dropped=request.dropped)
            self._services.settle(record)
            self._metrics.settled(record)
            if self._traces is not None:
                self._traces.settled(record)
            call.duration_ms = round(record.seconds * 1000, 1)
            call.bytes = record.answer_bytes
            logs.log_call(call)

    async def _respond(self, request: Request) -> web.StreamResponse:
        try:
            check_head(request)
            return await self._dispatch(request)
        except ApiError as error:
            self._services.note_error(request.record, error)
            return error_response(error)
        except ConnectionError:
            raise  # the client has disconnected; aiohttp closes its side
        except Exception:
            log.exception("a call failed inside hookgate; please report this")
            if request.writer.output_size:
                raise  # an answer has been started: aiohttp closes the connection
            failure = ApiError(500, "Internal error in hookgate; see the gateway's log.")
            self._services.note_error(request.record, failure)
            return error_response(failure)

    async def _dispatch(self, request: Request) -> web.StreamResponse:
        issued_keys, issued = self._services.issued_keys, None
        try:
            route = match(request.method, request.raw_path, self._unhooked.groups, self._config.routes.files)
            if issued_keys is not None:
                issued_keys.check_path(request.raw_path)
        except ApiError:
            logs.note_refused_path(request.raw_path)
            raise
        if issued_keys is not None:
            issued = await issued_keys.identify(sent_credential(route, request.headers))
        context = CallContext(request, route, self._services, issued)
        self._start_recording(context)
        check_credentials(request.headers, route.key, route.access_token)
        await context.admit()
        if route.unhooked:
            self._unhooked.note(request.method, route)
        if route.kind == "tunnel":
            return await tunnel(context)
        if route.kind == "receipt":
            return await self._receipt(context)
        await _send_continue(request)
        if route.kind == "forwarded":
            return await forward_unread(context)
        with self._engines.lease() as engine:
            try:
                return await self._answering(context, engine)
            finally:
                context.record.degraded = tuple(engine.health.degraded)

    def _start_recording(self, context: CallContext) -> None:
        """Record the route and the caller, and attach the observers."""
        request, route, record = context.request, context.route, context.record
        logs.note_route(route)
        record.session = context.caller.in_session(context.named_session)
        record.kind, record.route, record.model = route.kind, route.path, route.model
        record.issued_key = context.caller.issued.id if context.caller.issued else ""
        record.streamed, record.request_bytes = route.streamed, request.content_length or 0
        audit = self._services.audit
        if audit is not None:
            audit.watch(record, request.method, route)
            request.on_answer_start = lambda status: audit.answering(record, status)
        if record.content is not None:
            context.observers.append(record.content)
        if record.trace is not None:
            record.trace.api, record.trace.verb = route.api, route.verb
            if record.trace.sampled:
                context.observers.append(record.trace)

    def _answering(self, context: CallContext, engine: Engine) -> Awaitable[web.StreamResponse]:
        """Return the coroutine that judges a call, or forwards it if nothing needs its content.

        This is not a coroutine itself, because each chunk of an answer would resume it, too.
        """
        recorded = RecordingEngine(engine, context.record)
        if context.route.kind == "event":
            return self._events.run(context, recorded)
        if not (engine.configuration.groups or self._needs_content(context)):
            return self._forward_unless_followed(context, recorded)
        return self._judging(context, recorded)

    async def _forward_unless_followed(
        self, context: CallContext, engine: RecordingEngine
    ) -> web.StreamResponse:
        """Forward a call without hooks, or process it if there are sessions to be followed."""
        if await self._services.sessions.exist():
            return await self._judging(context, engine)
        return await forward_unread(context)

    @staticmethod
    def _judging(context: CallContext, recorded: RecordingEngine) -> Awaitable[web.StreamResponse]:
        """Return the coroutine that judges a call, which depends on the API's method."""
        verb = context.route.verb
        if verb in BATCHED:
            return Batches(context, recorded).run()
        if verb in INPUTS:
            return InputOnlyCalls(context, recorded).run()
        if verb in INTERACTIONS:
            return InteractionCalls(context, recorded).run()
        return GenerationCall(context, recorded).run()

    def _needs_content(self, context: CallContext) -> bool:
        """Return whether the audit, transcripts, traces or the caller's key need the content of the call.

        So does a call that may be sent again with another credential: its body must be complete.
        """
        if context.record.content is not None or self._services.transcripts is not None:
            return True
        trace, issued = context.record.trace, context.caller.issued
        if issued is not None:  # bodies may name models, too
            held = self._services.upstreams.held
            if issued.restricts_models or len(held.candidates(context.route)) > 1:
                return True
        return trace is not None and trace.keeps_content

    async def _receipt(self, context: CallContext) -> web.Response:
        """Return the receipt of a call to the key that made it. Raises ApiError (404) if there is none."""
        id_ = context.route.path.rpartition("/")[2]
        receipt = await self._services.receipt_for(id_, context.caller.key)
        if receipt is None:
            raise ApiError(404, NO_RECEIPT)
        return web.json_response(receipt, dumps=lambda value: dumps(value).decode())


async def _send_continue(request: web.BaseRequest) -> None:
    """Send `100 Continue` if the client expects it; without it curl waits for a second."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # these bytes are not part of the answer
