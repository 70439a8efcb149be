"""The panel of a gateway while it runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from hookgate.hooks.live import LiveEngine
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import Effective
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.panel.access import Access
from hookgate.proxy.panel.api import Api
from hookgate.proxy.panel.calls import Calls, ReceivedCalls
from hookgate.proxy.panel.hooks import HookPanel
from hookgate.proxy.panel.live import Live
from hookgate.proxy.panel.panel import Panel
from hookgate.proxy.panel.tokens import link_of, made_token, token_of
from hookgate.proxy.panel.traffic import Traffic
from hookgate.proxy.records import Receipts
from hookgate.proxy.sources import Sources


@asynccontextmanager
async def paneled(  # noqa: PLR0913, PLR0917  # what a panel is made of
    effective: Effective,
    sources: Sources,
    live: LiveEngine,
    receipts: Receipts,
    store_url: str | None,
    url: str | None,
) -> AsyncIterator[Panel | None]:
    """A panel for as long as the block runs; None without an admin listener, whose `url` it is.

    Raises ConfigError for a bad token file, StoreError when the audit cannot be read.
    """
    config = effective.config
    if url is None:
        yield None
        return
    hooks, traffic = HookPanel(live, sources), Traffic()
    async with AsyncExitStack() as stack:
        access, invitation = _access(stack, config, sources.state, url)
        calls: Calls = ReceivedCalls(receipts)
        if config.audit.enabled:
            calls = await _audited(stack, receipts, store_url, sources.state)
        events = Live(receipts, hooks.health)
        stack.callback(events.close)
        receipts.watchers.append(traffic.add)
        stack.callback(receipts.watchers.remove, traffic.add)
        yield Panel(access, Api(hooks, calls, traffic, effective), events, invitation)


def _access(stack: AsyncExitStack, config: Config, state: Path, url: str) -> tuple[Access, str]:
    """Access with the configured token, or with one that is made now, and what the log tells of that."""
    _, port = host_and_port(url.removeprefix("http://"))
    configured = token_of(config.admin)
    if configured is not None:
        return Access(port, configured), ""
    token, path = stack.enter_context(made_token(state, port))
    if config.logs.format == "text":
        return Access(port, token), f"open the panel: {link_of(url, token)}"
    # Lines of JSON are for those who collect them: a token is not.
    return Access(port, token), f"the panel asks for the token in {path}" if path else ""


async def _audited(stack: AsyncExitStack, receipts: Receipts, url: str | None, state: Path) -> Calls:
    # Its libraries are loaded where there is an audit, and not otherwise.
    from hookgate.proxy.audit.reading import Reading  # noqa: PLC0415  # see above
    from hookgate.proxy.panel.audited import AuditedCalls  # noqa: PLC0415  # see above
    from hookgate.proxy.store.database import open_audit  # noqa: PLC0415  # see above

    database = await asyncio.to_thread(open_audit, url, state, writes=False)
    stack.push_async_callback(asyncio.to_thread, database.close)
    return AuditedCalls(Reading(database), receipts)
