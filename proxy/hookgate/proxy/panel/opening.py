"""The panel of a gateway while it runs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from hookgate.hooks.live import LiveEngine
from hookgate.proxy.config.reading import Effective
from hookgate.proxy.panel.access import Access
from hookgate.proxy.panel.api import Api
from hookgate.proxy.panel.calls import Calls, ReceivedCalls
from hookgate.proxy.panel.hooks import HookPanel
from hookgate.proxy.panel.live import Live
from hookgate.proxy.panel.panel import Panel
from hookgate.proxy.panel.tokens import token_of
from hookgate.proxy.panel.traffic import Traffic
from hookgate.proxy.records import Receipts
from hookgate.proxy.sources import Sources

log = logging.getLogger("hookgate")


@asynccontextmanager
async def paneled(
    effective: Effective, sources: Sources, live: LiveEngine, receipts: Receipts, store_url: str | None
) -> AsyncIterator[Panel | None]:
    """A panel for as long as the block runs; None without an admin listener.

    Raises ConfigError for a bad token file, StoreError when the audit cannot be read.
    """
    config = effective.config
    if config.admin.address is None:
        yield None
        return
    access = Access(config.admin.address, token_of(config.admin))
    if access.closed:
        log.info("no panel: admin.address is not on loopback, and admin.token_file is not set")
    hooks, traffic = HookPanel(live, sources), Traffic()
    async with AsyncExitStack() as stack:
        calls: Calls = ReceivedCalls(receipts)
        if config.audit.enabled:
            calls = await _audited(stack, receipts, store_url, sources.state)
        events = Live(receipts, hooks.health)
        stack.callback(events.close)
        receipts.watchers.append(traffic.add)
        stack.callback(receipts.watchers.remove, traffic.add)
        yield Panel(access, Api(hooks, calls, traffic, effective), events)


async def _audited(stack: AsyncExitStack, receipts: Receipts, url: str | None, state: Path) -> Calls:
    # Its libraries are loaded where there is an audit, and not otherwise.
    from hookgate.proxy.audit.reading import Reading  # noqa: PLC0415  # see above
    from hookgate.proxy.panel.audited import AuditedCalls  # noqa: PLC0415  # see above
    from hookgate.proxy.store.database import open_audit  # noqa: PLC0415  # see above

    database = await asyncio.to_thread(open_audit, url, state, writes=False)
    stack.push_async_callback(asyncio.to_thread, database.close)
    return AuditedCalls(Reading(database), receipts)
