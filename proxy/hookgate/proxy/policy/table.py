"""The table of the pushed policy's revisions. Every function is one short transaction, and may block."""

import hashlib
import time
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.execution import StoredTable
from hookgate.proxy.store.models import policy_revisions
from hookgate.translator.fields import JsonObject


class RevisionName(NamedTuple):
    """What identifies a revision. The number alone would not if an old copy of the database was restored."""

    number: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class PolicyRevision:
    """One revision of the policy. Revisions are numbered from 1; `pushed` is in seconds since 1970."""

    number: int
    parent: int
    """The number of the revision on which it is based; 0 for the first one."""
    sha256: bytes
    """The hash of the document."""
    document: str
    """The text of a settings file."""
    pushed: int
    pushed_by: str
    message: str
    restores: int | None = None
    """The number of the revision whose document a rollback has pushed again."""

    @property
    def name(self) -> RevisionName:
        return RevisionName(self.number, self.sha256)

    @classmethod
    def after(cls, newest: "PolicyRevision | None", document: str, by: str, message: str) -> "PolicyRevision":
        """Return a new revision that is based on the newest one, if there is one."""
        parent = newest.number if newest else 0
        digest = document_hash(document)
        return cls(parent + 1, parent, digest, document, int(time.time()), by, message)

    def facts(self) -> JsonObject:
        """Return what the audit records about a push."""
        return {
            "number": self.number,
            "parent": self.parent,
            "sha256": self.sha256.hex(),
            "restores": self.restores,
            "message": self.message,
        }


class StaleRevisionError(StoreError):
    """Raised for a push that is based on a revision which is not the newest one."""


def document_hash(document: str) -> bytes:
    """Return the SHA-256 of a document, which is the same as that of its file in UTF-8."""
    return hashlib.sha256(document.encode()).digest()


class PolicyTable(StoredTable):
    """Revisions in a database. Every method raises StoreError if the database cannot be used."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "policy")

    def newest(self) -> RevisionName | None:
        """Return the name of the newest revision, or None if there is none. Reads one row of an index."""
        columns = policy_revisions.c
        query = select(columns.number, columns.sha256).order_by(columns.number.desc()).limit(1)
        found = self._select(query)
        return RevisionName(**found[0]) if found else None

    def find(self, number: int) -> PolicyRevision | None:
        """Return a revision, or None if there is none with this number.

        Also raises StoreError if its document does not match its hash.
        """
        found = self._select(select(policy_revisions).where(policy_revisions.c.number == number))
        if not found:
            return None
        revision = PolicyRevision(**found[0])
        if document_hash(revision.document) != revision.sha256:
            raise StoreError(
                f"revision {number} of the policy in {self._database.name} is damaged: its document does "
                "not match its hash; push the policy again"
            )
        return revision

    def all(self) -> list[PolicyRevision]:
        """Return all revisions, the newest first."""
        query = select(policy_revisions).order_by(policy_revisions.c.number.desc())
        return [PolicyRevision(**row) for row in self._select(query)]

    def add(self, revision: PolicyRevision) -> None:
        """Store a revision after its parent.

        Raises StaleRevisionError if the parent is not the newest revision, and stores nothing then.
        """
        columns = policy_revisions.c
        last = select(columns.number).order_by(columns.number.desc()).limit(1)
        with self._transaction() as connection:
            newest = connection.execute(last).scalar() or 0
            if newest != revision.parent:
                raise _stale(newest, revision.parent)
            try:
                connection.execute(insert(policy_revisions).values(asdict(revision)))
            except IntegrityError:  # another push has stored the same number since the query
                raise _stale(revision.number, revision.parent) from None


def _stale(newest: int, parent: int) -> StaleRevisionError:
    return StaleRevisionError(
        f"revision {newest} is the newest one, but this push is based on {parent or 'none'}; check "
        "`hookgate policy diff`, then push again"
    )
