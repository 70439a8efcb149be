"""The process of the gateway: creates it from its configuration, runs it, and stops it gracefully."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hookgate.hooks import Configuration, Engine
from hookgate.hooks.live_engine import LiveEngine
from hookgate.hooks.runners.cleanup import adopting_orphans
from hookgate.hooks.runners.process import ENOUGH, raised_descriptor_limit
from hookgate.hooks.settings import EVENTS
from hookgate.proxy import policy
from hookgate.proxy.admin.listener import running_admin
from hookgate.proxy.admin.panel import open_panel
from hookgate.proxy.call.gateway import Gateway
from hookgate.proxy.config import EffectiveConfig, LimitSettings, ListenSettings
from hookgate.proxy.config.reading import Sources, find_sources
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.http.client import Upstreams
from hookgate.proxy.http.descriptors import Budget, descriptors_for, descriptors_of_hooks
from hookgate.proxy.http.listener import CLIENTS, accepting, url_of
from hookgate.proxy.http.tls import Certificate
from hookgate.proxy.observe import logs
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.tracing import open_tracing
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.store import Store

log = logging.getLogger("hookgate")


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
                log.info("%s", admin.panel.invitation)
            await interrupted.wait()
            admin.draining = True
            log.info("stopping: waiting for calls in progress; interrupt again to abort them")


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
    log.log(level, "%s, %s", where, describe_hooks(engine.configuration))
    for hook, reason in engine.untrusted_hooks():
        log.warning("%s hook %r %s", hook.event, hook.name, reason)


def _warn_of_open_hooks(configuration: Configuration) -> None:
    for warning in fail_open_warnings(configuration):
        log.warning("%s", warning)


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
    limits = limits or LimitSettings()
    async with accepting(handler, host, port, limits, certificate, CLIENTS) as address:
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
