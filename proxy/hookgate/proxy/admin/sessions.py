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
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, cast

from sqlalchemy import delete, insert, select

from hookgate.proxy.admin.roles import Person, Role
from hookgate.proxy.errors import ApiError, StoreUse
from hookgate.proxy.store.database import Database, open_panel_sessions
from hookgate.proxy.store.execution import DatabaseThreads, StoredTable
from hookgate.proxy.store.models import panel_keys, panel_sessions

MAX_SESSIONS = 1000
MAX_SESSIONS_OF_PERSON = 50
"""If there are more, those that end first are removed. The holders of the admin token count as one person."""

_FLOWS = "sign-in"
"""The name of the key with which flows of sign-in are checked."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A browser that is signed in. Only the browser has the values from which the hashes were made."""

    digest: bytes
    proof: bytes
    subject: str
    name: str
    role: str
    ends: int
    """In milliseconds since 1970, like all times here."""


class PanelTable(StoredTable):
    """Sessions in a database. Every method raises StoreError if the database cannot be used."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "panel's sessions")

    def find(self, digest: bytes, now: int) -> StoredSession | None:
        """Return the session with a hash, or None if there is none, or it has ended."""
        columns = panel_sessions.c
        query = select(panel_sessions).where(columns.digest == digest, columns.ends > now)
        found = self._select(query)
        return StoredSession(**found[0]) if found else None

    def add(self, session: StoredSession, now: int) -> None:
        """Store a session, and remove sessions that have ended or exceed the limits."""
        columns = panel_sessions.c
        of_person = columns.subject == session.subject
        latest = select(columns.digest).order_by(columns.ends.desc(), columns.digest)
        # PostgreSQL and SQLite evaluate a subquery with a limit once.
        kept_of_person = latest.where(of_person).limit(MAX_SESSIONS_OF_PERSON - 1)
        kept = latest.limit(MAX_SESSIONS - 1)
        with self._transaction() as connection:
            connection.execute(delete(panel_sessions).where(columns.ends <= now))
            connection.execute(delete(panel_sessions).where(of_person, columns.digest.not_in(kept_of_person)))
            connection.execute(delete(panel_sessions).where(columns.digest.not_in(kept)))
            connection.execute(insert(panel_sessions).values(asdict(session)))

    def remove(self, digest: bytes) -> None:
        """Remove the session with a hash."""
        self._write(delete(panel_sessions).where(panel_sessions.c.digest == digest))

    def remove_person(self, subject: str, unless: str = "") -> None:
        """Remove all sessions of a person, except those with the role `unless`."""
        columns = panel_sessions.c
        self._write(delete(panel_sessions).where(columns.subject == subject, columns.role != unless))

    def flow_key(self) -> bytes:
        """Return the key with which flows of sign-in are checked. The first process creates it."""
        new = {"name": _FLOWS, "key": secrets.token_bytes(32)}
        query = select(panel_keys.c.key).where(panel_keys.c.name == _FLOWS)
        if not (found := self._select(query)):
            self._write(self._database.insert(panel_keys).on_conflict_do_nothing().values(new))
            found = self._select(query)
        return bytes(found[0]["key"])


T = TypeVar("T")

_THREADS = 2
"""The number of threads. Requests without a session may wait for them, but calls never do."""

_TOKEN_LENGTH = 43
"""The length of a cookie and a proof: 256 random bits in base64. Others are not looked up."""

_UNAVAILABLE = (
    "The panel's sessions cannot be read or written; the gateway's log says why. Programs can still send the "
    "admin token as Authorization: Bearer."
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
        self._use = StoreUse(lambda: ApiError(503, _UNAVAILABLE))
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
        with self._use.trying():
            return await self._threads.run(self._run_now, step)

    def _run_now(self, step: Callable[[PanelTable], T]) -> T:
        with self._opening:
            if self._table is None:
                self._table = PanelTable(open_panel_sessions(self._url, self._state))
        return step(self._table)


def _hash(text: str) -> bytes:
    return sha256(text.encode(errors="replace")).digest()
