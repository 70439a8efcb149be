"""The entry point for requests: routes each request, judges or forwards it, and records its outcome."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from hookgate.hooks import Engine, EngineSource
from hookgate.hooks.policies.limits import describe_use
from hookgate.proxy.calls.agent_events import AgentEvents
from hookgate.proxy.calls.batches import BATCH_READS, read_batch
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.event_service import EventService
from hookgate.proxy.calls.forward import forward_unjudged
from hookgate.proxy.calls.generation import GenerationCall
from hookgate.proxy.calls.guardrail_service import GuardrailService
from hookgate.proxy.calls.interactions import call_interactions, forward_interaction
from hookgate.proxy.calls.items import ItemsCall
from hookgate.proxy.calls.live import LiveSession
from hookgate.proxy.calls.pacing import Pacer
from hookgate.proxy.calls.services import GatewayServices
from hookgate.proxy.calls.uploads import UploadCalls
from hookgate.proxy.calls.websockets import tunnel
from hookgate.proxy.config import Config
from hookgate.proxy.errors import ApiError, not_a_route
from hookgate.proxy.keys.callers import (
    KEY_HEADER,
    SESSION_HEADER,
    check_credentials,
    sent_credential,
    with_guardrail_key,
)
from hookgate.proxy.observe import logs
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.receipts import NO_RECEIPT, RECEIPT_HEADER, Receipts
from hookgate.proxy.observe.record import BUDGET_HEADER, CallRecord
from hookgate.proxy.observe.tracing import Traces
from hookgate.proxy.routes.cross_origin import allow_call, allowed_origin, is_preflight, readable_by
from hookgate.proxy.routes.table import GUARDRAIL, Route, Routes, without_prefix
from hookgate.proxy.routes.uploads import UPLOAD
from hookgate.proxy.server.connection import Request, check_head, error_response, internal_error
from hookgate.proxy.sessions.interactions import KnownInteractions, id_in_path
from hookgate.proxy.sessions.sessions import Sessions
from hookgate.proxy.upstream.client import Upstreams
from hookgate.translator import ITEM_METHODS
from hookgate.translator.strictjson import encode_answer

if TYPE_CHECKING:  # they import SQLAlchemy, which only an enabled audit, approvals or issued keys need
    from hookgate.proxy.approvals.asking import Approvals
    from hookgate.proxy.audit.trail import Audit
    from hookgate.proxy.keys.issued import IssuedKeys

log = logging.getLogger("hookgate.gateway")
unhooked_log = logging.getLogger("hookgate.unhooked")

_WEBSOCKETS = ("live", "tunnel")
"""The kinds of routes that take WebSockets."""
_NO_WEBSOCKET = (
    "hookgate serves WebSockets for Live sessions only (BidiGenerateContent): hooks could not judge the "
    "messages of this one. Send requests without Upgrade: websocket here."
)


class Gateway:
    """Routes each request: judges it, forwards it, or answers with a Google-style error."""

    def __init__(  # noqa: PLR0913  # the parts of a gateway
        self,
        engines: EngineSource,
        upstream: Upstreams,
        config: Config | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        *,
        audit: "Audit | None" = None,
        sessions: Sessions | None = None,
        issued_keys: "IssuedKeys | None" = None,
        interactions: KnownInteractions | None = None,
        approvals: "Approvals | None" = None,
    ) -> None:
        self._engines = engines
        self._config = config or Config()
        routes = self._config.routes
        self._unhooked = UnhookedRoutes()
        self._routes = Routes(frozenset(routes.unhooked), routes.files, routes.live)
        self._services = GatewayServices(
            upstream,
            self._config,
            audit=audit,
            sessions=sessions,
            issued_keys=issued_keys,
            interactions=interactions,
            approvals=approvals,
        )
        self._events = EventService(self._services)
        self._agent_events = AgentEvents(self._events, self._services)
        self._guardrail = GuardrailService(self._services, self._events.admit)
        self._metrics = metrics or Metrics(self._config.metrics.models, self._services.prices)
        self._traces = traces
        self._pacer = Pacer()
        self._metrics.expose_unhooked(self._unhooked.counts)
        self._metrics.expose_bypasses(self._services.bypasses.counts)

    @property
    def sessions(self) -> Sessions:
        """The sessions of callers."""
        return self._services.sessions

    @property
    def receipts(self) -> Receipts:
        """Receipts of recent calls."""
        return self._services.receipts

    async def handle(self, request: Request, record: CallRecord | None = None) -> web.StreamResponse:
        """Handle one request, count it, and log one line. What happens is recorded in `record`, if given."""
        record = record or CallRecord(request_id=request.id)
        await self._pacer.wait_turn()
        line = logs.CallLine(request.id, request.method, receipt=record.id)
        logs.begin_call(line)
        self._metrics.note_start(record)
        if self._traces is not None:
            record.trace = self._traces.begin(request.headers)
        try:
            response = await self._respond(request, record)
            await response.prepare(request)  # neither does anything for a streamed answer that has ended
            await response.write_eof()
            line.status = response.status
            return response
        finally:
            self._finish(request, record, line)

    # ---- the request

    async def _respond(self, request: Request, record: CallRecord) -> web.StreamResponse:
        """Answer a request; errors are answers, too. Raises ConnectionError if the client has left."""
        origin = allowed_origin(request.headers, self._config.clients.origins)
        request.on_answer_start = partial(self._begin_answer, record, origin)
        try:
            check_head(request, (KEY_HEADER, SESSION_HEADER))
            if is_preflight(request.method, request.headers):
                return web.Response(status=204, headers=allow_call(request.headers, origin))
            return await self._dispatch(request, record)
        except ApiError as error:
            if not record.route:
                record.refused_path = logs.masked_path(request.raw_path)
            self._services.note_error(record, error)
            return error_response(error)
        except ConnectionError:
            raise  # the client has disconnected; aiohttp closes its side
        except Exception:
            log.exception("a call failed inside hookgate; please report this")
            if request.writer.output_size:
                raise  # an answer has been started: aiohttp closes the connection
            failure = internal_error()
            self._services.note_error(record, failure)
            return error_response(failure)

    async def _dispatch(self, request: Request, record: CallRecord) -> web.StreamResponse:
        """Find the route and the caller, admit the call, and let what handles such calls answer it.

        Raises ApiError if the call is refused.
        """
        issued_keys, issued = self._services.issued_keys, None
        try:
            target = without_prefix(request.raw_path, self._config.listen.path_prefix)
            route = with_guardrail_key(self._routes.match(request.method, target), request.headers)
            if issued_keys is not None:
                issued_keys.check_path(request.raw_path)
            if route.kind not in _WEBSOCKETS and "websocket" in request.headers.get(hdrs.UPGRADE, "").lower():
                raise not_a_route(_NO_WEBSOCKET)
        except ApiError:
            logs.note_refused_path(request.raw_path)
            raise
        if issued_keys is not None:
            issued = await issued_keys.identify(sent_credential(route, request.headers))
        call = Call(request, record, route, self._services, issued)
        self._begin_record(call)
        check_credentials(request.headers, route.api_key, route.access_token)
        await call.admit()
        if route.unhooked:
            self._unhooked.note(request.method, route)
        if route.kind == "tunnel":
            return await tunnel(call)
        if route.kind == "receipt":
            return await self._receipt(call)
        await _send_continue(request)
        if route.kind == "forwarded":
            return await (forward_interaction(call) if id_in_path(route) else forward_unjudged(call))
        with self._engines.lease() as engine:
            try:
                return await self._judge_or_forward(call, engine)
            finally:
                call.record.degraded = tuple(engine.health.degraded)

    def _begin_record(self, call: Call) -> None:
        """Record the route and the caller, begin to audit the call, and attach its observers."""
        request, route, record = call.request, call.route, call.record
        logs.note_route(route)
        record.session = call.caller.in_session(call.named_session)  # as far as known if the call is refused
        record.kind, record.route, record.model = route.kind, route.path, route.model
        record.issued_key = call.caller.issued.id if call.caller.issued else ""
        record.streamed = route.streamed
        record.request_bytes = call.steps.work = request.content_length or 0
        self._services.decide_whether_audited(record, request.method, route)
        if record.content is not None:
            call.observers.append(record.content)
        if record.trace is not None:
            record.trace.api, record.trace.verb = route.api, route.verb
            if record.trace.sampled:
                call.observers.append(record.trace)

    # ---- what answers it

    def _judge_or_forward(self, call: Call, engine: Engine) -> Awaitable[web.StreamResponse]:
        """Return the coroutine that judges a call, or forwards it if nothing needs its content.

        Not itself a coroutine, so that one fewer coroutine is resumed for each chunk of an answer.
        """
        call.record.revision = engine.revision
        if call.route.verb == GUARDRAIL:
            return self._guardrail.run(call, engine)
        if call.route.kind == "event":
            events = self._agent_events if call.route.agent else self._events
            return events.run(call, engine)
        if call.route.kind == "live":
            return LiveSession(call, engine).run()
        if call.route.verb == UPLOAD:
            return UploadCalls(call, engine).run()
        if not (engine.configuration.groups or self._needs_content(call)):
            return self._forward_unless_sessions(call, engine)
        return self._judge(call, engine)

    def _needs_content(self, call: Call) -> bool:
        """Return whether anything besides hooks, such as the audit or the caller's key, needs the content."""
        if call.record.content is not None or self._services.transcripts is not None:
            return True
        if call.route.dialect == "interactions" and self._config.routes.unknown_interactions == "refuse":
            return True
        trace, issued = call.record.trace, call.caller.issued
        if issued is not None:
            if issued.restricts_models or issued.limits_usage or call.route.is_openai:
                # Bodies may name models and responses, show how many tokens a call may use, and say whether
                # tokens are reported.
                return True
            credentials = self._services.upstreams.credentials
            if len(credentials.candidates(call.route)) > 1:
                return True  # a call that may be sent again must have its whole body
        return trace is not None and trace.keeps_content

    async def _forward_unless_sessions(self, call: Call, engine: Engine) -> web.StreamResponse:
        """Forward a call without hooks; process it if any session is known.

        Such a session may be stopped or have context to add.
        """
        if await self._services.sessions.exist():
            return await self._judge(call, engine)
        return await forward_unjudged(call)

    @staticmethod
    def _judge(call: Call, engine: Engine) -> Awaitable[web.StreamResponse]:
        """Return the coroutine that judges a call, chosen by the API's method and dialect."""
        verb = call.route.verb
        if verb in ITEM_METHODS:
            return ItemsCall(call, engine).run()
        if verb in BATCH_READS:
            return read_batch(call, engine)
        if call.route.dialect == "interactions":
            return call_interactions(call, engine)
        return GenerationCall(call, engine).run()

    async def _receipt(self, call: Call) -> web.Response:
        """Return the receipt of a call to the key that made it. Raises ApiError (404) if there is none."""
        id_ = call.route.path.rpartition("/")[2]
        receipt = await self._services.receipt_for(id_, call.caller.key)
        if receipt is None:
            raise ApiError(404, NO_RECEIPT, "RECEIPT_UNKNOWN")
        return web.json_response(receipt, dumps=lambda value: encode_answer(value).decode())

    # ---- its answer and its end

    async def _begin_answer(self, record: CallRecord, origin: str, response: web.StreamResponse) -> None:
        """Make sure that the call's start is on disk, and complete the headers of its answer.

        `origin` is the origin of the web page whose script may read the answer; empty if there is none.
        """
        if self._services.audit is not None:
            await self._services.audit.ensure_start_recorded(record, response.status)
        response.headers[RECEIPT_HEADER] = record.id
        if (use := record.nearest_limit()) is not None:
            prices = self._services.prices
            response.headers[BUDGET_HEADER] = describe_use(use, prices.currency if prices else "")
        response.headers.update(readable_by(origin))
        record.first_seconds = record.elapsed()

    def _finish(self, request: Request, record: CallRecord, line: logs.CallLine) -> None:
        """Report the end of a call, even if a step fails."""
        steps: list[Callable[[], None]] = [
            partial(record.end, line.status, request.writer.output_size, dropped=request.dropped),
            partial(self._services.settle, record),
            partial(self._metrics.note_end, record),
            partial(_complete_line, line, record),
            lambda: logs.log_call(line, record.seconds, record.answer_bytes),
        ]
        if self._traces is not None:
            steps.append(partial(self._traces.export, record))
        for step in steps:
            try:
                step()
            except Exception:
                log.exception("the end of a call could not be reported completely; please report this")


async def _send_continue(request: web.BaseRequest) -> None:
    """Send `100 Continue` if the client expects it; without it curl waits for a second."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # these bytes are not part of the answer


def _complete_line(line: logs.CallLine, record: CallRecord) -> None:
    """Add to the line of a call that has ended whose it was, how it ended, and what hooks did."""
    if (session := record.session) is not None:
        line.key, line.team, line.client = session.key, session.team, session.client
        line.session = session.session_id or line.session
    line.issued_key, line.model, line.outcome = record.issued_key, record.model, record.outcome or ""
    line.answered_by = record.answered_by if record.was_rerouted else ""
    line.decided_by, line.found = record.deciding_hooks(), record.found_kinds()


class UnhookedRoutes:
    """Counts and logs the calls of unhooked routes that are forwarded."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """The number of forwarded calls by group."""

    def note(self, method: str, route: Route) -> None:
        """Count and log a call."""
        if not self.counts[route.unhooked]:
            unhooked_log.warning("routes.unhooked lists %r: no hook judges such calls", route.unhooked)
        self.counts[route.unhooked] += 1
        unhooked_log.info("unhooked %s call: %s %s", route.unhooked, method, route.path)
