"""The entry point for agents: sessions at a gateway, or with hooks in the agent's own process."""

import asyncio
import os
import re
import uuid
from typing import TYPE_CHECKING, Self

from hookgate.shim.conversation import Conversation
from hookgate.shim.driver import Asker, Context, Driver, Host
from hookgate.shim.sessions import Session, SyncSession
from hookgate.shim.transports import OnUnreachable, Remote, Transport, session_from

if TYPE_CHECKING:
    from hookgate.hooks import Engine

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
"""Matches the ID of a session, as the gateway accepts it."""


class Shim:
    """Create sessions and fire their events.

    Threads and event loops may share one shim. Close it after the last session has ended.
    """

    def __init__(  # noqa: PLR0913  # settings, passed by keyword
        self,
        at: "str | Engine",
        key: str | None = None,
        *,
        on_unreachable: OnUnreachable = "allow",
        timeout: float = 5.0,
        ask: Asker | None = None,
        attempts: int = 3,
    ) -> None:
        """Connect to a gateway or an engine.

        `at` is a gateway's base URL, or an engine, which the shim closes. `key` is the key that the agent
        calls the model with, or `Bearer …` for a token. `timeout` is how many seconds an event may take at
        the gateway, hooks included, before `on_unreachable` decides. `ask` asks the user whether a tool may
        run when a hook requires it; without `ask`, the tool is denied. `attempts` is how many
        answers to one prompt `turns` allows. Raises ValueError for an unusable URL or key.
        """
        self.url = at if isinstance(at, str) else None
        self._transport: Transport
        if isinstance(at, str):
            self._transport = Remote(at, key, on_unreachable, timeout)
        else:
            from hookgate.shim.local import Local  # noqa: PLC0415  # needs hookgate.hooks, which a remote shim does not

            self._transport = Local(at)
        self._ask, self._attempts = ask, attempts
        self._host = Host(self._transport.close)

    def session(
        self,
        session_id: str | None = None,
        cwd: str | None = None,
        source: str = "startup",
        *,
        context: Context = "returned",
    ) -> Session:
        """Return a session to enter with `async with`.

        Without `session_id`, its ID is the one in the base URL, or else a new one. `source` is reported in
        SessionStart. `context` says who passes on what hooks add for the model: the caller ("returned") or
        the gateway ("delivered"). Raises ValueError for an ID that a gateway does not accept.
        """
        return Session(self._driver(session_id, cwd, context), source)

    def sync_session(
        self,
        session_id: str | None = None,
        cwd: str | None = None,
        source: str = "startup",
        *,
        context: Context = "returned",
    ) -> SyncSession:
        """Return a session to enter with `with`. Each event blocks the calling thread."""
        return SyncSession(self._driver(session_id, cwd, context), source)

    def close(self) -> None:
        """Close all connections, and the engine if there is one."""
        self._host.stop()

    async def aclose(self) -> None:
        """Close the shim without blocking the calling event loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _driver(self, session_id: str | None, cwd: str | None, context: Context) -> Driver:
        name = session_id or (self.url and session_from(self.url)) or str(uuid.uuid4())
        if not SESSION_ID.fullmatch(name):
            raise ValueError(
                f"invalid session id {name!r}: use a letter or digit, then up to 127 letters, digits or ._~-"
            )
        conversation = Conversation(name, self._attempts)
        return Driver(self._transport, self._host, conversation, cwd or os.getcwd(), context, self._ask)
