"""The tables of sessions in the panel. Every function is one short transaction, and may block."""

import secrets
from dataclasses import asdict, dataclass

from sqlalchemy import delete, insert, select

from hookgate.proxy.store.database import Database
from hookgate.proxy.store.execution import StoredTable
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
