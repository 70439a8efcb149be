"""Where an agent's sessions begin: at a gateway, or at hooks in the agent's own process."""

import asyncio
import os
import re
import uuid
from typing import TYPE_CHECKING, Self

from hookgate.shim.conversation import Conversation
from hookgate.shim.driver import Asker, Context, Driver
from hookgate.shim.host import Host
from hookgate.shim.remote import Remote, session_of
from hookgate.shim.session import Session
from hookgate.shim.sync import SyncSession
from hookgate.shim.transport import OnUnreachable, Transport

if TYPE_CHECKING:
    from hookgate.hooks import Engine

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")


class Shim:
    """Fires an agent's events. Threads and event loops may share one; close it when the last has ended."""

    def __init__(  # noqa: PLR0913  # settings, each by its name
        self,
        at: "str | Engine",
        key: str | None = None,
        *,
        on_unreachable: OnUnreachable = "allow",
        timeout: float = 5.0,
        ask: Asker | None = None,
        attempts: int = 3,
    ) -> None:
        """`at` is a gateway's base URL, or an engine, which the shim closes.

        `key` is the one that the agent calls the model with, `Bearer …` for a token. `timeout` is how many
        seconds an event may take at the gateway, hooks included, before `on_unreachable` decides. `ask`
        asks the user about a tool where a hook wants that; without it such a tool is denied. `attempts` is
        how often `turns` lets the model answer one prompt. Raises ValueError for an unusable URL or key.
        """
        self.url = at if isinstance(at, str) else None
        self._transport: Transport
        if isinstance(at, str):
            self._transport = Remote(at, key, on_unreachable, timeout)
        else:
            from hookgate.shim.local import Local  # noqa: PLC0415  # its imports are for who has an engine

            self._transport = Local(at)
        self._asker, self._attempts = ask, attempts
        self._host = Host(self._transport.close)

    def session(
        self,
        session_id: str | None = None,
        cwd: str | None = None,
        source: str = "startup",
        *,
        context: Context = "returned",
    ) -> Session:
        """A session to enter with `async with`.

        Its name is the base URL's where that has one, else a new one. Raises ValueError for a name that a
        gateway does not take.
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
        """The same for `with`: each event is waited for in the calling thread."""
        return SyncSession(self._driver(session_id, cwd, context), source)

    def close(self) -> None:
        """End connections, and the hooks that an engine keeps."""
        self._host.stop()

    async def aclose(self) -> None:
        """The same, with the calling loop free meanwhile."""
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
        name = session_id or (self.url and session_of(self.url)) or str(uuid.uuid4())
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"a session's name is a letter or digit, then up to 127 of these and ._~-: {name!r}"
            )
        conversation = Conversation(name, self._attempts)
        return Driver(self._transport, self._host, conversation, cwd or os.getcwd(), context, self._asker)
