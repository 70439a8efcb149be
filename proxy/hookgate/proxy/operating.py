"""What stands beside the gateway for those who operate it: the admin listener, and reloads when told."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from hookgate.hooks.live import LiveEngine
from hookgate.proxy.admin import Admin, listening
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.metrics import Metrics
from hookgate.proxy.tls import Certificate

log = logging.getLogger("hookgate")


@asynccontextmanager
async def operated(
    live: LiveEngine,
    certificate: Certificate | None,
    metrics: Metrics,
    address: str | None,
    hosts: Iterable[str] = (),
) -> AsyncIterator[Admin]:
    """Operate a gateway for as long as the block runs. Raises OSError when `address` cannot be had.

    It is ready once `live` of what is given is set: when clients are listened to.
    """
    admin = Admin(metrics, hosts if address is None else (*hosts, host_and_port(address)[0]))
    metrics.watch_engine(live)
    async with AsyncExitStack() as stack:
        stack.enter_context(reloading(live, certificate))
        if certificate is not None:
            await stack.enter_async_context(_watched(certificate))
        if address is not None:
            url = await stack.enter_async_context(listening(admin, *host_and_port(address)))
            log.info("operators look at %s (panel, metrics, health)", url)
        yield admin


@contextmanager
def reloading(live: LiveEngine, certificate: Certificate | None) -> Iterator[None]:
    """Reload on SIGHUP, for as long as the block runs. Both say in the log what came of it."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[bool]] = set()

    def reload() -> None:
        if certificate is not None:
            certificate.reload()
        task = loop.create_task(live.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def _watched(certificate: Certificate) -> AsyncIterator[None]:
    task = asyncio.create_task(certificate.watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
