"""The process of the gateway: creates it from its configuration, runs it, and stops it gracefully."""

import asyncio
import contextlib
import gc
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.runners.cleanup import adopting_orphans
from hookgate.hooks.runners.process import MAX_DESCRIPTORS, raised_descriptor_limit
from hookgate.proxy import policy
from hookgate.proxy.admin.listener import AdminListener, running_admin
from hookgate.proxy.admin.panel import open_panel
from hookgate.proxy.audit.earlier_use import EarlierUse
from hookgate.proxy.audit.trail import open_audit_trail
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config, ConfigError, EffectiveConfig, LimitSettings, ListenSettings
from hookgate.proxy.config.reading import Sources, conflicts, find_sources, settings_warnings
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.exports.threads import holding_retention, running_exports
from hookgate.proxy.observe import logs
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.tracing import open_tracing
from hookgate.proxy.observe.usage import Prices, read_prices
from hookgate.proxy.policy import PushedPolicy
from hookgate.proxy.policy.unmet_conditions import warn_of_unmet_conditions
from hookgate.proxy.replay.comparisons import PolicyComparisons
from hookgate.proxy.replay.trials import HookTrials
from hookgate.proxy.server.descriptors import Budget, descriptors_for, descriptors_of_hooks
from hookgate.proxy.server.listener import CLIENTS, accepting, bind_listeners, url_of
from hookgate.proxy.server.tls import Certificate
from hookgate.proxy.sessions.interactions import KnownInteractions
from hookgate.proxy.sessions.opening import open_sessions_of
from hookgate.proxy.store import Store
from hookgate.proxy.upstream.access_tokens import PolicyTokens
from hookgate.proxy.upstream.client import Upstreams
from hookgate.proxy.workers.interrupts import catch_interrupts
from hookgate.proxy.workers.sockets import BalancedAcceptor, ConnectionCounts, WorkerSockets
from hookgate.proxy.workers.supervisor import supervise
from hookgate.proxy.workers.worker import Feed, running_worker_admin, stopping_without_supervisor

if TYPE_CHECKING:
    from hookgate.proxy.approvals.asking import Approvals
    from hookgate.proxy.audit.trail import Audit
    from hookgate.proxy.keys.issued import IssuedKeys

log = logging.getLogger("hookgate")


async def serve(effective: EffectiveConfig) -> None:
    """Run the gateway until interrupted. Raises SettingsError, ValueError or OSError if it cannot start."""
    config, sockets = effective.config, WorkerSockets.of_process()
    if problems := [f"{effective.places[name]}: {problem}" for name, problem in conflicts(config)]:
        raise ConfigError(problems)
    if sockets is None and config.listen.workers > 1:
        await supervise(effective)
        return
    interrupted = catch_interrupts()
    logs.configure(config.logs)
    found = find_sources(config.hooks)
    prices = read_prices(config.prices.file)
    metrics = Metrics(config.metrics.models, prices)
    async with Store(config.store, found.state) as store, contextlib.AsyncExitStack() as stack:
        sources, pushed = stack.enter_context(policy.open_pushed_policy(config, found))
        tokens = PolicyTokens(config.credentials)
        begin_counts = None
        if config.audit.enabled:
            earlier = EarlierUse(store.url(), found.state)
            stack.push_async_callback(asyncio.to_thread, earlier.close)
            begin_counts = earlier.counters
        reloader = policy.load_policy(
            sources, store=store, prices=prices, access_tokens=tokens, begin_counts=begin_counts
        )
        for_hooks = descriptors_of_hooks(reloader.current.configuration)
        limit = max(MAX_DESCRIPTORS, descriptors_for(config.limits, for_hooks))
        # Adopt the processes that hooks leave behind; hooks do not inherit the raised limit.
        with (
            logs.written_in_background(),
            adopting_orphans(),
            raised_descriptor_limit(limit) as descriptors,
        ):
            url = store.url() if config.audit.enabled or config.store.is_server else None
            budget = Budget(descriptors, for_hooks)
            parts = _Parts(effective, sources, pushed, reloader, metrics, store, url, prices, budget, tokens)
            if sockets is None:
                await _serve_alone(parts, interrupted)
            else:
                await _serve_as_worker(parts, interrupted, sockets)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts from which a gateway is created."""

    effective: EffectiveConfig
    sources: Sources
    pushed: PushedPolicy | None
    reloader: EngineReloader
    metrics: Metrics
    store: Store
    store_url: str | None
    prices: Prices
    budget: Budget
    access_tokens: PolicyTokens

    @property
    def config(self) -> Config:
        return self.effective.config

    def log_limits(self) -> None:
        """Log that there are fewer descriptors than connections need, if so."""
        is_set = "connections" in self.config.limits.model_fields_set
        self.budget.log_limits(self.share, is_set=is_set)

    @property
    def share(self) -> LimitSettings:
        """The limits of one process: of connections and memory it has its share."""
        limits, workers = self.config.limits, self.config.listen.workers
        shares = {name: ceil(getattr(limits, name) / workers) for name in ("connections", "memory")}
        return limits.model_copy(update=shares)

    @property
    def limits(self) -> LimitSettings:
        """The limits of one process, as far as its descriptors allow. Raises DescriptorError."""
        return self.budget.bounded(self.share)


async def _serve_alone(parts: _Parts, interrupted: asyncio.Event) -> None:
    """Run the only process of a gateway."""
    config, reloader, sources = parts.config, parts.reloader, parts.sources
    certificate = _certificate(config.listen)
    async with (
        policy.running_policy(reloader, sources.state, parts.pushed),
        running_admin(
            reloader, certificate, parts.metrics, config.admin.address, config.admin.hosts
        ) as admin,
        _open_gateway(parts, admin) as gateway,
    ):
        address = host_and_port(config.listen.address)
        async with (
            open_panel(
                parts.effective,
                sources,
                reloader,
                gateway.receipts,
                parts.store_url,
                admin.url,
                pushed=parts.pushed,
                record=None if admin.audit is None else admin.audit.record_change,
                readiness=admin.readiness,
                sessions=gateway.sessions,
                try_hooks=HookTrials(reloader, sources.state, parts.prices, parts.access_tokens).run,
                comparisons=PolicyComparisons(config, sources, parts.pushed, parts.store_url),
            ) as admin.panel,
            serve_on(gateway.handle, *address, parts.limits, certificate) as url,
        ):
            _tune_interpreter()
            admin.receipts, admin.reloader = gateway.receipts, reloader
            parts.log_limits()
            policy.log_start(
                reloader.current, sources, f"listening on {url}, upstream {config.upstream.gemini}"
            )
            warn_of_unmet_conditions(reloader.current.configuration, config)
            for warning in settings_warnings(parts.effective):
                log.warning("%s", warning)
            if admin.panel is not None and admin.panel.invitation:
                log.info("%s", admin.panel.invitation)
            await interrupted.wait()
            admin.draining = True
            log.info("stopping: waiting for calls in progress; interrupt again to abort them")


async def _serve_as_worker(parts: _Parts, interrupted: asyncio.Event, sockets: WorkerSockets) -> None:
    """Run one of several processes of a gateway."""
    reloader, certificate = parts.reloader, _certificate(parts.config.listen)
    async with (
        policy.running_policy(reloader, None, parts.pushed),
        running_worker_admin(sockets, reloader, certificate, parts.metrics) as admin,
        _open_gateway(parts, admin, sockets.number) as gateway,
    ):
        admin.feed = Feed(reloader, gateway.receipts, gateway.sessions.keys)
        with contextlib.closing(admin.feed), stopping_without_supervisor(sockets, interrupted):
            counts = ConnectionCounts(sockets.counts, parts.config.listen.workers)
            acceptor = BalancedAcceptor(counts, sockets.number)
            async with accepting(
                gateway.handle, sockets.listeners, parts.limits, certificate, CLIENTS, acceptor
            ):
                acceptor.note_open(0)
                _tune_interpreter()
                admin.reloader = reloader
                sockets.report_ready()
                parts.log_limits()
                log.info("worker %d is ready", sockets.number)
                await interrupted.wait()
                admin.draining = True


@asynccontextmanager
async def _open_gateway(parts: _Parts, admin: AdminListener, worker: int = 0) -> AsyncIterator[Gateway]:
    """Open the resources that calls need, and make them available to `admin`.

    `worker` is the number of this process, if there are several.
    """
    config, reloader, metrics, state = parts.config, parts.reloader, parts.metrics, parts.sources.state
    reloader.watchers.append(lambda _: parts.budget.check(reloader.current.configuration))
    async with (
        Upstreams(config.upstream, parts.limits.connections, config.credentials) as upstreams,
        open_tracing(config.tracing, metrics, upstreams.origins) as traces,
        holding_retention(config.exports, parts.store_url, state) as first_needed,
        open_audit_trail(config.audit, parts.store_url, state, first_needed) as audit,
        running_exports(config.exports, parts.store_url, state) as exports,
        open_sessions_of(config, parts.store_url, state) as sessions,
        _open_issued_keys(parts) as issued_keys,
        _open_alerting(parts, audit, worker),
        _open_approvals(parts, audit) as approvals,
    ):
        parts.access_tokens.upstreams = upstreams
        reloader.watchers.append(lambda _: policy.warn_of_hooks(reloader.current.configuration))
        reloader.watchers.append(lambda _: warn_of_unmet_conditions(reloader.current.configuration, config))
        gateway = Gateway(
            reloader,
            upstreams,
            config,
            metrics,
            traces,
            audit=audit,
            sessions=sessions,
            issued_keys=issued_keys,
            interactions=KnownInteractions(
                parts.store.interactions, keeps_content=config.store.interaction_content
            ),
            approvals=approvals,
        )
        admin.audit, admin.sessions, admin.pushed = audit, sessions, parts.pushed
        if parts.pushed is not None:
            metrics.expose_pushed_policy(parts.pushed)
        metrics.expose_tokens(tuple(upstreams.credentials.tokens))
        if audit is not None:
            metrics.expose_audit(audit.writer)
            reloader.watchers.append(audit.record_policy)
        metrics.expose_exports(exports)
        yield gateway


@asynccontextmanager
async def _open_issued_keys(parts: _Parts) -> AsyncIterator["IssuedKeys | None"]:
    """Open the keys that the gateway issues, if it is configured to accept them. Raises StoreError."""
    if not parts.config.clients.issued_keys:
        yield None
        return
    # Imported only if it is needed.
    from hookgate.proxy.keys.issued import open_issued_keys  # noqa: PLC0415  # see above

    counters = await asyncio.to_thread(parts.store.counters)
    url, state = parts.store.url(), parts.sources.state
    async with open_issued_keys(parts.config, url, state, counters, parts.prices) as keys:
        yield keys


@asynccontextmanager
async def _open_alerting(parts: _Parts, audit: "Audit | None", worker: int) -> AsyncIterator[None]:
    """Evaluate the rules of alerts, if there are any and an audit. Raises StoreError and ConfigError."""
    if audit is None or not parts.config.alerts.rules:
        yield
        return
    # Imported only if it is needed.
    from hookgate.proxy.alerts.running import open_alerting  # noqa: PLC0415  # see above

    name = f"{socket.gethostname()}/{worker}" if worker else socket.gethostname()
    writer, url, state = audit.writer, parts.store_url, parts.sources.state
    async with open_alerting(
        parts.config.alerts, url, state, name, lambda: writer.refusal_reason
    ) as alerting:
        parts.metrics.expose_alerts(alerting)
        yield


@asynccontextmanager
async def _open_approvals(parts: _Parts, audit: "Audit | None") -> AsyncIterator["Approvals | None"]:
    """Have people asked about tool calls, if the configuration says so. Raises StoreError, ConfigError."""
    if not parts.config.approvals.are_enabled:
        yield None
        return
    # Imported only if it is needed.
    from hookgate.proxy.approvals.asking import open_approvals_of  # noqa: PLC0415  # see above

    record = None if audit is None else audit.record_change
    url, state = parts.store.url(), parts.sources.state
    async with open_approvals_of(parts.config, url, state, record) as approvals:
        if approvals is not None:
            parts.metrics.expose_approvals(approvals)
        yield approvals


_SWITCH_INTERVAL = 0.0002
"""Seconds after which a thread must release the GIL to the event loop; Python's default is 5 ms.

The event loop releases the GIL at each system call, and waits up to this long to reacquire it.
"""


def _tune_interpreter() -> None:
    """Keep threads, garbage collection and asyncio's list of asynchronous generators from costing calls time.

    A full collection would traverse all objects created at startup, which takes 50 to 100 ms and frees
    nothing worth that. The list is for closing generators when the event loop ends: those of calls have ended
    with their tasks by then.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.freeze()
    sys.set_asyncgen_hooks(firstiter=None)


def _certificate(listen: ListenSettings) -> Certificate | None:
    return Certificate(listen.certificate, listen.key) if listen.certificate else None


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
    listeners = await bind_listeners(host, port, CLIENTS)
    url = url_of("https" if certificate else "http", listeners[0].getsockname())
    async with accepting(handler, listeners, limits or LimitSettings(), certificate, CLIENTS):
        yield url
