"""Sessions of browsers in the panel. Gateways with the same database share them.

A browser has a random cookie, and its page a random proof. The database contains only hashes of both, so a
copy of it does not allow anyone to sign in. The hash of the cookie depends on the admin token, so access to
the database is not enough to add a session.
"""

import asyncio
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, cast

from hookgate.proxy.admin.roles import Person, Role
from hookgate.proxy.admin.session_table import PanelTable, StoredSession
from hookgate.proxy.errors import ApiError, StoreError
from hookgate.proxy.store.database import open_panel_sessions
from hookgate.proxy.store.execution import DatabaseThreads

T = TypeVar("T")

_THREADS = 2
"""The number of threads. Requests without a session may wait for them, but calls never do."""

_TOKEN_LENGTH = 43
"""The length of a cookie and a proof: 256 random bits in base64. Others are not looked up."""

_UNAVAILABLE = (
    "The panel's sessions cannot be read or written ({}). Programs can still send the admin token as "
    "Authorization: Bearer."
)


@dataclass(frozen=True, slots=True)
class NewSession:
    """What a browser is given when a session begins."""

    cookie: str
    proof: str


class PanelSessions:
    """The sessions of browsers. Every coroutine raises ApiError (503) if the database cannot be used."""

    def __init__(
        self, url: str | None, state: Path, token: str, clock: Callable[[], float] = time.time
    ) -> None:
        """Sessions are kept in the database at the URL, or else in a file, which are opened on first use.

        They are valid at all gateways with the same database and admin token. `clock` returns seconds since
        1970.
        """
        self._url, self._state, self._token, self._clock = url, state, token.encode(), clock
        self._threads = DatabaseThreads("the panel's sessions", "hookgate-panel", _THREADS)
        self._opening = threading.Lock()
        self._table: PanelTable | None = None

    async def find(self, cookie: str, proof: str) -> Person | None:
        """Return who is signed in with a cookie and its proof, or None."""
        if not len(cookie) == len(proof) == _TOKEN_LENGTH:
            return None
        digest, now = self._digest(cookie), self._now()
        session = await self._run(lambda table: table.find(digest, now))
        if session is None or not hmac.compare_digest(session.proof, _hash(proof)):
            return None
        return Person(session.name, cast("Role", session.role), session.subject)

    async def begin(self, person: Person, seconds: float, replaced: str) -> NewSession:
        """Begin a session, which ends the one with the cookie `replaced`.

        If the person's role has changed, it ends all their sessions.
        """
        new = NewSession(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        now = self._now()
        session = StoredSession(
            digest=self._digest(new.cookie),
            proof=_hash(new.proof),
            subject=person.subject,
            name=person.name,
            role=person.role,
            ends=now + int(seconds * 1000),
        )

        def step(table: PanelTable) -> None:
            table.remove(self._digest(replaced))
            if person.subject:
                table.remove_person(person.subject, unless=person.role)
            table.add(session, now)

        await self._run(step)
        return new

    async def end(self, cookie: str) -> None:
        """End the session with a cookie, if there is one."""
        if cookie:
            await self._run(lambda table: table.remove(self._digest(cookie)))

    async def end_person(self, subject: str) -> None:
        """End all sessions of a person."""
        await self._run(lambda table: table.remove_person(subject))

    async def flow_key(self) -> bytes:
        """Return the key with which the flows of sign-in are checked, at whichever gateway they end."""
        return await self._run(PanelTable.flow_key)

    async def close(self) -> None:
        """Finish what has begun, and close the database."""
        await asyncio.to_thread(self._threads.close)
        if self._table is not None:
            await asyncio.to_thread(self._table.close)

    def _digest(self, cookie: str) -> bytes:
        # With the random cookie as the key, the hash does not help to guess the token.
        return hmac.digest(cookie.encode(errors="replace"), self._token, "sha256")

    def _now(self) -> int:
        return int(self._clock() * 1000)

    async def _run(self, step: Callable[[PanelTable], T]) -> T:
        try:
            return await self._threads.run(self._run_now, step)
        except StoreError as error:
            raise ApiError(503, _UNAVAILABLE.format(error)) from None

    def _run_now(self, step: Callable[[PanelTable], T]) -> T:
        with self._opening:
            if self._table is None:
                self._table = PanelTable(open_panel_sessions(self._url, self._state))
        return step(self._table)


def _hash(text: str) -> bytes:
    return sha256(text.encode(errors="replace")).digest()
