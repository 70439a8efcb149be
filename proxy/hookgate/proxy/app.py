"""The gateway: creates it from its configuration, routes its requests, and stops it gracefully."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import hdrs, web

from hookgate.hooks import Configuration, Engine, Engines
from hookgate.hooks.live_engine import LiveEngine
from hookgate.hooks.runners.cleanup import adopting_orphans
from hookgate.hooks.runners.process import ENOUGH, raised_descriptor_limit
from hookgate.hooks.settings import EVENTS
from hookgate.proxy import policy
from hookgate.proxy.admin.listener import running_admin
from hookgate.proxy.admin.panel import open_panel
from hookgate.proxy.call.batches import BATCHED, Batches
from hookgate.proxy.call.context import CallContext, GatewayServices, RecordingEngine
from hookgate.proxy.call.events import EventService
from hookgate.proxy.call.exchange import Exchange
from hookgate.proxy.call.input_only import InputOnlyCalls
from hookgate.proxy.call.passthrough import forward_unread, tunnel
from hookgate.proxy.config import Config, EffectiveConfig, LimitSettings, ListenSettings
from hookgate.proxy.config.reading import Sources, find_sources
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import ApiError
from hookgate.proxy.http.body_worker import Pacer
from hookgate.proxy.http.client import Upstreams
from hookgate.proxy.http.connection import Request, check_head, error_response
from hookgate.proxy.http.descriptors import Budget, descriptors_for, descriptors_of_hooks
from hookgate.proxy.http.listener import CLIENTS, accepting, url_of
from hookgate.proxy.http.tls import Certificate
from hookgate.proxy.identity.callers import check_credentials
from hookgate.proxy.observe import logs
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.record import NO_RECEIPT, Receipts
from hookgate.proxy.observe.tracing import Traces, open_tracing
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.routing.table import UnhookedRoutes, match
from hookgate.proxy.store import Store
from hookgate.translator import INPUTS
from hookgate.translator.strictjson import dumps

if TYPE_CHECKING:  # it imports SQLAlchemy, which only an enabled audit needs
    from hookgate.proxy.audit import Audit

_call_log = logging.getLogger("hookgate.gateway")
_startup_log = logging.getLogger("hookgate")


async def serve(effective: EffectiveConfig) -> None:
    """Run the gateway until interrupted. Raises SettingsError, ValueError or OSError if it cannot start."""
    interrupted, config = catch_interrupts(), effective.config
    logs.configure(config.logs)
    sources = find_sources(config.hooks)
    prices = read_prices(config.prices.file)
    metrics = Metrics(config.metrics.models, prices)
    async with Store(config.store, sources.state) as store:
        live = policy.load_policy(sources, store=store, prices=prices)
        for_hooks = descriptors_of_hooks(live.current.configuration)
        most = max(ENOUGH, descriptors_for(config.limits, for_hooks))
        # Adopt the processes that hooks leave behind; hooks do not inherit the raised limit.
        with (
            logs.written_in_background(),
            adopting_orphans(),
            raised_descriptor_limit(most) as descriptors,
        ):
            url = store.url() if config.audit.enabled else None
            budget = Budget(descriptors, for_hooks)
            await _serve(effective, sources, live, metrics, url, interrupted, budget)


async def _serve(  # noqa: PLR0913, PLR0917  # what a gateway is made of
    effective: EffectiveConfig,
    sources: Sources,
    live: LiveEngine,
    metrics: Metrics,
    store_url: str | None,
    interrupted: asyncio.Event,
    budget: Budget,
) -> None:
    # This import configures loggers, so it must follow logs.configure().
    from hookgate.proxy.audit.trail import open_audit_trail  # noqa: PLC0415  # see above

    config = effective.config
    certificate, limits = _certificate(config.listen), budget.bounded(config.limits)
    live.watchers.append(lambda _: budget.check(live.current.configuration))
    async with (
        policy.running_policy(live, sources.state),
        running_admin(live, certificate, metrics, config.admin.address, config.admin.hosts) as admin,
        Upstreams(config.upstream, limits.connections) as upstreams,
        open_tracing(config.tracing, metrics, upstreams.origins) as traces,
        open_audit_trail(config.audit, store_url, sources.state) as audit,
    ):
        live.watchers.append(lambda _: _warn_of_open_hooks(live.current.configuration))
        gateway = Gateway(live, upstreams, config, metrics, traces, audit=audit)
        admin.audit = audit
        if audit is not None:
            metrics.watch_audit(audit.writer)
            live.watchers.append(audit.record_policy)
        address = host_and_port(config.listen.address)
        async with (
            open_panel(effective, sources, live, gateway.receipts, store_url, admin.url) as admin.panel,
            serve_on(gateway.handle, *address, limits, certificate) as url,
        ):
            _tune_interpreter()
            admin.receipts, admin.live = gateway.receipts, live
            budget.log_limits(config.limits)
            _log_start(live.current, sources, f"listening on {url}, upstream {config.upstream.gemini}")
            if admin.panel is not None and admin.panel.invitation:
                _startup_log.info("%s", admin.panel.invitation)
            await interrupted.wait()
            admin.draining = True
            _startup_log.info("stopping: waiting for calls in progress; interrupt again to abort them")


_SWITCH_INTERVAL = 0.0002
"""Seconds after which a thread must release the GIL to the event loop; Python's default is 5 ms.

The event loop releases the GIL at each system call, and waits up to this long to reacquire it.
"""


def _tune_interpreter() -> None:
    """Keep threads and garbage collection from delaying the event loop.

    A full collection would traverse all objects created at startup, which takes 50 to 100 ms and frees
    nothing.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()


def _log_start(engine: Engine, sources: Sources, where: str) -> None:
    """Log that the gateway is running, and its hooks."""
    _warn_of_open_hooks(engine.configuration)
    # Settings files that configure no hook are probably a mistake.
    judges = bool(engine.configuration.groups)
    level = logging.WARNING if sources.places() and not judges else logging.INFO
    _startup_log.log(level, "%s, %s", where, describe_hooks(engine.configuration))
    for hook, reason in engine.untrusted_hooks():
        _startup_log.warning("%s hook %r %s", hook.event, hook.name, reason)


def _warn_of_open_hooks(configuration: Configuration) -> None:
    for warning in fail_open_warnings(configuration):
        _startup_log.warning("%s", warning)


def describe_hooks(configuration: Configuration) -> str:
    """Return a summary of the hooks that run."""
    counts = {
        event: sum(len(group.hooks) for group in groups) for event, groups in configuration.groups.items()
    }
    listed = ", ".join(f"{event} {counts[event]}" for event in EVENTS if event in counts)
    hooks = f"hooks: {listed}" if listed else "no hooks: calls are forwarded unchanged"
    return f"{hooks}; revision {configuration.revision}"


def fail_open_warnings(configuration: Configuration) -> list[str]:
    """Return a warning about hooks that fail open, and one about those that do so on exit codes only."""
    remedy = 'to deny such calls, set "on_error": "deny"'
    hooks_by_warning = {
        "these hooks fail open (a call passes if they fail)": configuration.failing_open("always"),
        "these hooks fail open when they exit with a code other than 0 and 2": configuration.failing_open(
            "on exit codes"
        ),
    }
    return [
        f"{warning}: {', '.join(names)}; {remedy}" for warning, names in hooks_by_warning.items() if names
    ]


def _certificate(listen: ListenSettings) -> Certificate | None:
    return Certificate(listen.certificate, listen.key) if listen.certificate else None


class Gateway:
    """Routes each request: judges it, forwards it, or answers with a Google-style error."""

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
        self._unhooked = UnhookedRoutes(self._config.routes.unhooked)
        self._services = GatewayServices(upstream, self._config, audit=audit)
        self._events = EventService(self._services)
        self._metrics = metrics or Metrics(self._config.metrics.models, self._services.prices)
        self._traces = traces
        self._pacer = Pacer()
        self._metrics.watch_unhooked(self._unhooked.counts)
        self._metrics.watch_bypasses(self._services.bypasses.counts)

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
            _call_log.exception("a call failed inside hookgate; please report this")
            if request.writer.output_size:
                raise  # an answer has been started: aiohttp closes the connection
            failure = ApiError(500, "Internal error in hookgate; see the gateway's log.")
            self._services.note_error(request.record, failure)
            return error_response(failure)

    async def _dispatch(self, request: Request) -> web.StreamResponse:
        try:
            route = match(request.method, request.raw_path, self._unhooked.groups, self._config.routes.files)
        except ApiError:
            logs.note_refused_path(request.raw_path)
            raise
        context = CallContext(request, route, self._services)
        self._start_recording(context)
        check_credentials(request.headers, route.key, route.access_token)
        self._services.callers.admit(route, request.headers)
        if route.unhooked:
            self._unhooked.note(request.method, route)
        if route.kind == "tunnel":
            return await tunnel(context)
        if route.kind == "receipt":
            return self._receipt(context)
        await _say_continue(request)
        if route.kind == "forwarded":
            return await forward_unread(context)
        with self._engines.lease() as engine:
            try:
                return await self._judge(context, engine)
            finally:
                context.record.degraded = tuple(engine.health.degraded)

    def _start_recording(self, context: CallContext) -> None:
        """Record the route and the caller, and attach the observers."""
        request, route, record = context.request, context.route, context.record
        logs.note_route(route)
        record.session = context.caller.in_session(context.named_session)
        record.kind, record.route, record.model = route.kind, route.path, route.model
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

    async def _judge(self, context: CallContext, engine: Engine) -> web.StreamResponse:
        recorded, verb = RecordingEngine(engine, context.record), context.route.verb
        if context.route.kind == "event":
            return await self._events.run(context, recorded)
        has_sessions = len(self._services.sessions) > 0
        if not (engine.configuration.groups or has_sessions or self._needs_content(context)):
            return await forward_unread(context)
        if verb in BATCHED:
            return await Batches(context, recorded).run()
        if verb in INPUTS:
            return await InputOnlyCalls(context, recorded).run()
        return await Exchange(context, recorded).run()

    def _needs_content(self, context: CallContext) -> bool:
        """Return whether the audit, transcripts or traces need the content of the call."""
        if context.record.content is not None or self._services.transcripts is not None:
            return True
        trace = context.record.trace
        return trace is not None and trace.keeps_content

    def _receipt(self, context: CallContext) -> web.Response:
        """Return the receipt of a call to the key that made it. Raises ApiError (404) if there is none."""
        id_ = context.route.path.rpartition("/")[2]
        receipt = self._services.receipts.receipt_for(id_, context.caller.key)
        if receipt is None:
            raise ApiError(404, NO_RECEIPT)
        return web.json_response(receipt, dumps=lambda value: dumps(value).decode())


async def _say_continue(request: web.BaseRequest) -> None:
    """Send `100 Continue` if the client expects it; without it curl waits for a second."""
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # it is not part of the answer


@asynccontextmanager
async def serve_on(
    handler: Any,
    host: str,
    port: int,
    limits: LimitSettings | None = None,
    certificate: Certificate | None = None,
) -> AsyncIterator[str]:
    """Serve `handler` on an address; port 0 selects a free port. Yields the base URL.

    When a client disconnects, its handler is cancelled. At the end, calls in progress have up to
    `limits.drain_timeout` seconds to finish. Raises OSError if the address cannot be bound.
    """
    limits, context = limits or LimitSettings(), lambda: certificate.context if certificate else None
    async with accepting(handler, host, port, limits, context, CLIENTS) as address:
        yield url_of("https" if certificate else "http", address)


def catch_interrupts() -> asyncio.Event:
    """Return an event that the first SIGINT or SIGTERM sets; a second one cancels the calling task."""
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
