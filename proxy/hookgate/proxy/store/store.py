"""The store of one gateway. The database and its libraries are loaded on first use."""

import asyncio
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hookgate.hooks.policy_environment import PinnedTools
from hookgate.proxy.config.models import StoreSettings
from hookgate.proxy.config.values import read_secret, store_url
from hookgate.proxy.errors import StoreError

if TYPE_CHECKING:
    from hookgate.proxy.store.counters import SqlCounters
    from hookgate.proxy.store.database import Database
    from hookgate.proxy.store.interactions import InteractionTable
    from hookgate.proxy.store.pins import SqlPins

_NO_DRIVER = "store.url: PostgreSQL requires psycopg; install hookgate with its extra postgres"


class Store:
    """Opens the database on first use, and closes it."""

    def __init__(self, settings: StoreSettings, state: Path) -> None:
        """Create a store. `state` is the folder of the database file, which is used without a URL."""
        self._settings, self._state = settings, state
        self._opening = threading.Lock()  # settings are read again in threads
        self._database: Database | None = None
        self._counters: SqlCounters | None = None
        self._pins: SqlPins | None = None
        self._interactions: InteractionTable | None = None

    def counters(self) -> "SqlCounters":
        """Return the counters in the database. Raises StoreError."""
        from hookgate.proxy.store.counters import SqlCounters  # noqa: PLC0415  # see the module's docstring

        with self._opening:
            if self._counters is None:
                self._counters = SqlCounters(self._open())
            return self._counters

    def pins(self) -> PinnedTools:
        """Return the pinned tools in the database. Raises StoreError."""
        from hookgate.proxy.store.pins import SqlPins  # noqa: PLC0415  # see the module's docstring

        with self._opening:
            if self._pins is None:
                self._pins = SqlPins(self._open())
            return self._pins

    def interactions(self) -> "InteractionTable":
        """Return the interactions in the database. Raises StoreError."""
        from hookgate.proxy.store.interactions import InteractionTable  # noqa: PLC0415  # see the module's docstring

        with self._opening:
            if self._interactions is None:
                self._interactions = InteractionTable(self._open(), self._settings.interaction_days)
            return self._interactions

    def _open(self) -> "Database":
        from hookgate.proxy.store.database import open_database  # noqa: PLC0415  # see the module's docstring

        if self._database is None:
            self._database = open_database(self.url(), self._state)
        return self._database

    def url(self) -> str | None:
        """The URL of a PostgreSQL database, or None for a file. Raises StoreError for a bad one."""
        file = self._settings.url_file
        try:
            url = read_secret(file, store_url) if file else self._settings.url
        except ValueError as error:
            raise StoreError(f"store.url_file: {error}") from None
        if url and find_spec("psycopg") is None:
            raise StoreError(_NO_DRIVER)
        return url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write the queued amounts, and close the database."""
        if self._counters is not None:
            await asyncio.to_thread(self._counters.close)
        if self._pins is not None:
            await asyncio.to_thread(self._pins.close)
        if self._interactions is not None:
            await asyncio.to_thread(self._interactions.close)
        if self._database is not None:
            await asyncio.to_thread(self._database.close)
