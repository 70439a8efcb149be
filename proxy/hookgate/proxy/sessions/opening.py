"""Opening of the sessions: those of one process, or those that several share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hookgate.proxy.config import Config
from hookgate.proxy.sessions.sessions import LocalSessions, Sessions


@asynccontextmanager
async def open_sessions_of(config: Config, url: str | None, state: Path) -> AsyncIterator[Sessions]:
    """Open the sessions: in the database if several processes share them, else in memory.

    Raises StoreError if the database cannot be opened.
    """
    if not config.store.is_server and config.listen.workers == 1:
        yield LocalSessions()
        return
    # Imported only if there is a database.
    from hookgate.proxy.sessions.shared import SharedSessions  # noqa: PLC0415  # see above
    from hookgate.proxy.sessions.table import open_session_store  # noqa: PLC0415  # see above

    store = await asyncio.to_thread(open_session_store, url, state, config.store.session_hours)
    try:
        yield SharedSessions(store)
    finally:
        await store.close()
