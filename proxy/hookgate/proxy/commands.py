"""What the commands `serve` and `upstream` do: load, listen, say so, and stop in good order."""

import asyncio
import gc
import logging
import sys
from pathlib import Path

from hookgate.hooks import Configuration, Engine
from hookgate.hooks.kinds.descriptors import ENOUGH, raised_descriptor_limit
from hookgate.hooks.kinds.orphans import adopting_orphans
from hookgate.hooks.live import LiveEngine
from hookgate.hooks.settings import EVENTS
from hookgate.proxy import embedded, logs, policy
from hookgate.proxy.config import Effective, Listen
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.descriptors import Budget, descriptors_for, descriptors_of_hooks
from hookgate.proxy.metrics import Metrics
from hookgate.proxy.operating import operated
from hookgate.proxy.panel.opening import paneled
from hookgate.proxy.prices import read_prices
from hookgate.proxy.server import Gateway, catch_interrupts, listening
from hookgate.proxy.sources import Sources, sources_of
from hookgate.proxy.store import Store
from hookgate.proxy.tls import Certificate
from hookgate.proxy.tracing.traces import tracing
from hookgate.proxy.upstream import Upstreams

log = logging.getLogger("hookgate")


async def serve(effective: Effective) -> None:
    """Run the gateway until it is interrupted. Raises SettingsError, ValueError or OSError at the start."""
    interrupted, config = catch_interrupts(), effective.config
    logs.configure(config.logs)
    sources = sources_of(config.hooks)
    prices = read_prices(config.prices.file)
    metrics = Metrics(config.metrics.models, prices)
    async with Store(config.store, sources.state) as store:
        live = policy.load(sources, store=store, prices=prices)
        for_hooks = descriptors_of_hooks(live.current.configuration)
        most = max(ENOUGH, descriptors_for(config.limits, for_hooks))
        # What hooks leave behind becomes this process's to end; descriptors are for it alone.
        with adopting_orphans(), raised_descriptor_limit(most) as descriptors:
            url = store.url() if config.audit.enabled else None
            budget = Budget(descriptors, for_hooks)
            await _serve(effective, sources, live, metrics, url, interrupted, budget)


async def _serve(  # noqa: PLR0913, PLR0917  # what a gateway is made of
    effective: Effective,
    sources: Sources,
    live: LiveEngine,
    metrics: Metrics,
    store_url: str | None,
    interrupted: asyncio.Event,
    budget: Budget,
) -> None:
    # Its libraries say what they do as they are loaded: not before the log is set up.
    from hookgate.proxy.audit.opening import audited  # noqa: PLC0415  # see above

    config = effective.config
    certificate, limits = _certificate(config.listen), budget.bounded(config.limits)
    live.watchers.append(lambda _: budget.check(live.current.configuration))
    async with (
        policy.kept(live, sources.state),
        operated(live, certificate, metrics, config.admin.address, config.admin.hosts) as admin,
        Upstreams(config.upstream, limits.connections) as upstreams,
        tracing(config.tracing, metrics, upstreams.origins) as traces,
        audited(config.audit, store_url, sources.state) as audit,
    ):
        live.watchers.append(lambda _: _warn_of_open_hooks(live.current.configuration))
        gateway = Gateway(live, upstreams, config, metrics, traces, audit=audit)
        admin.audit = audit
        if audit is not None:
            metrics.watch_audit(audit.writer)
            live.watchers.append(audit.tell_policy)
        address = host_and_port(config.listen.address)
        async with (
            paneled(effective, sources, live, gateway.receipts, store_url, admin.url) as admin.panel,
            listening(gateway.handle, *address, limits, certificate) as url,
        ):
            _favour_the_loop()
            admin.receipts, admin.live = gateway.receipts, live
            budget.tell(config.limits)
            _tell(live.current, sources, f"listening on {url}, upstream {config.upstream.gemini}")
            if admin.panel is not None and admin.panel.invitation:
                log.info("%s", admin.panel.invitation)
            await interrupted.wait()
            admin.draining = True
            log.info("stopping: finishing the calls in flight (interrupt again to drop them)")


_SWITCH_INTERVAL = 0.001
"""Seconds after which a thread hands the interpreter to the event loop; Python's own default is 5 ms."""


def _favour_the_loop() -> None:
    """Keep the event loop from waiting for threads and for the garbage collector.

    A full collection would walk everything that the start has made, for some 50 to 100 ms, and find nothing.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()


def _tell(engine: Engine, sources: Sources, where: str) -> None:
    """Say that the gateway runs, and with which hooks."""
    _warn_of_open_hooks(engine.configuration)
    # Files that configure nothing for the gateway are more likely a mistake than a wish.
    judges = bool(engine.configuration.groups)
    level = logging.WARNING if sources.places() and not judges else logging.INFO
    log.log(level, "%s, %s", where, described(engine.configuration))
    for hook, reason in engine.refused():
        log.warning("%s hook %r %s", hook.event, hook.name, reason)


def _warn_of_open_hooks(configuration: Configuration) -> None:
    for warning in fail_open_warnings(configuration):
        log.warning("%s", warning)


async def serve_embedded(address: str, script: Path | None) -> None:
    """Run the embedded upstream until it is interrupted. Raises ScriptError, ValueError or OSError."""
    interrupted = catch_interrupts()
    listen = host_and_port(address)
    async with embedded.running(embedded.load_script(script) if script else None, *listen) as upstream:
        log.info("embedded upstream (not a model) on %s", upstream.url)
        await interrupted.wait()


def described(configuration: Configuration) -> str:
    """Which hooks run."""
    counts = {
        event: sum(len(group.hooks) for group in groups) for event, groups in configuration.groups.items()
    }
    listed = ", ".join(f"{event} {counts[event]}" for event in EVENTS if event in counts)
    told = f"hooks: {listed}" if listed else "no hooks: calls are copied through"
    return f"{told}; revision {configuration.revision}"


def fail_open_warnings(configuration: Configuration) -> list[str]:
    """Return a line on the hooks whose failures let calls pass, and one on those whose exit codes do."""
    remedy = 'to refuse such calls, write "on_error": "deny"'
    told = {
        "these hooks fail open, a call passes when they fail": configuration.failing_open("always"),
        "these hooks fail open when they exit with a code other than 0 and 2": configuration.failing_open(
            "on exit codes"
        ),
    }
    return [f"{what}: {', '.join(names)}; {remedy}" for what, names in told.items() if names]


def _certificate(listen: Listen) -> Certificate | None:
    return Certificate(listen.certificate, listen.key) if listen.certificate else None
