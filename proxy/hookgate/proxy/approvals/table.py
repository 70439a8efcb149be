"""The table of approvals. Every method is one short transaction, and may block.

Gateways with the same database share it, so a call is asked about once, and an approval that is for one call
is used once, whichever of them it reaches.
"""

import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, literal, or_, select, update

from hookgate.proxy.approvals.requests import (
    ApprovalDecision,
    ApprovalRequest,
    AskedCall,
    DecisionError,
    State,
    read_row,
    row_of,
)
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.execution import StoredTable
from hookgate.proxy.store.models import approvals

MAX_OPEN = 20
"""The requests of one key that people have not approved, and whose time is not over.

An agent must not be able to flood people with requests. Keys without a name share these: anybody can send
another one.
"""

MAX_OPEN_OF_ALL = 1000
"""The same for all keys together."""

_CHANGING = 0x617070726F766521
"""The key of the lock of a server under which requests are created and decided: `approve!` in ASCII."""

_UNNAMED_KEY = re.compile(r"[0-9a-f]{24}|")
_DAY = 24 * 3600 * 1000

_NO_ARGUMENTS = (
    *(column for column in approvals.c if column.name != "arguments"),
    literal("{}").label("arguments"),
)

Result = Literal["approved", "denied", "pending", "full", "too large"]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known about a call that is made: whether it may pass now, and the request about it."""

    result: Result
    request: ApprovalRequest | None = None
    is_new: bool = False
    """Whether the request has just been created, so that people have to be told."""


class ApprovalTable(StoredTable):
    """Requests in a database. Every method raises StoreError if the database cannot be used."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "approvals")

    # ---- calls

    def ask(self, calls: Sequence[AskedCall], now: int, lifetime: int, persons: int) -> list[Standing]:
        """Return for each call whether it may pass. If all may, approvals for one call are used up.

        For calls about which nobody was asked yet, requests are created, which expire after `lifetime`
        milliseconds, and which so many persons must approve.
        """
        with self._changing() as connection:
            _expire(connection, now)
            standings: list[Standing] = []
            used: set[str] = set()
            for asked in calls:
                standing = _standing(connection, asked, now, used) or _create(
                    connection, asked, now, now + lifetime, persons
                )
                standings.append(standing)
                if standing.result == "approved" and standing.request and standing.request.scope == "once":
                    used.add(standing.request.id)
            if used and all(each.result == "approved" for each in standings):
                is_used = approvals.c.id.in_(used)
                connection.execute(update(approvals).where(is_used).values(state="used"))
            return standings

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """Begin a transaction beside which no other one, of any gateway, creates or decides requests."""
        with self._transaction() as connection:
            if not self._database.is_file:  # a file has one such transaction at a time
                connection.execute(select(func.pg_advisory_xact_lock(_CHANGING)))
            yield connection

    def withdraw(self, ids: Collection[str]) -> None:
        """Remove requests about which nobody was told."""
        self._write(delete(approvals).where(approvals.c.id.in_(ids)))

    def states(self, ids: Collection[str]) -> dict[str, State]:
        """Return the states of requests by their IDs."""
        query = select(approvals.c.id, approvals.c.state).where(approvals.c.id.in_(ids))
        return {row["id"]: row["state"] for row in self._select(query)}

    # ---- people

    def pending(self, now: int) -> int:
        """Return how many requests wait for a decision."""
        query = select(func.count().label("waiting")).where(
            approvals.c.state == "pending", approvals.c.expires > now
        )
        return int(self._select(query)[0]["waiting"])

    def latest(
        self, limit: int, states: Collection[str] = (), *, with_arguments: bool = True
    ) -> list[ApprovalRequest]:
        """Return the latest requests, the newest first; with `states`, only those in one of them.

        Without `with_arguments`, these have none, because they may be large.
        """
        columns = approvals.c if with_arguments else _NO_ARGUMENTS
        query = select(*columns).order_by(approvals.c.created.desc(), approvals.c.id).limit(limit)
        if states:
            query = query.where(approvals.c.state.in_(states))
        return [read_row(row) for row in self._select(query)]

    def find(self, id_: str) -> ApprovalRequest | None:
        """Return the request whose ID begins with some digits, or None if there is none or several."""
        if not re.fullmatch(r"[0-9a-f]{4,32}", id_):
            return None
        query = select(approvals).where(approvals.c.id.startswith(id_)).limit(2)
        found = self._select(query)
        return read_row(found[0]) if len(found) == 1 else None

    def decide(
        self, id_: str, decision: ApprovalDecision, check: Callable[[ApprovalRequest], None] = lambda _: None
    ) -> ApprovalRequest:
        """Store a decision, and return the request as it is then.

        `check` may raise DecisionError for the request. Raises DecisionError if it is not possible.
        """
        with self._changing() as connection:
            query = select(approvals).where(approvals.c.id == id_)
            row = connection.execute(query).mappings().first()
            if row is None:
                raise DecisionError("There is no such request: it was removed.")
            request = read_row(dict(row))
            check(request)
            new = request.after(decision)
            if new.state == "pending" and _waits_elsewhere(connection, request):
                raise DecisionError(
                    "The same call was asked about again meanwhile; decide about that request."
                )
            stored = row_of(new)
            changed = {
                name: stored[name] for name in ("state", "decisions", "scope", "tools", "expires", "pending")
            }
            connection.execute(update(approvals).where(approvals.c.id == id_).values(changed))
            return new

    def sweep(self, now: int, days: float) -> int:
        """Remove requests whose time has been over for so many days. Returns how many were removed."""
        with self._changing() as connection:
            _expire(connection, now)
            over = delete(approvals).where(approvals.c.expires < now - int(days * _DAY))
            return connection.execute(over).rowcount


def _expire(connection: Connection, now: int) -> None:
    over = and_(approvals.c.state == "pending", approvals.c.expires <= now)
    connection.execute(update(approvals).where(over).values(state="expired", pending=None))


def _is_same(call: AskedCall | ApprovalRequest) -> ColumnElement[bool]:
    columns = approvals.c
    return and_(columns.key == call.key, columns.session == call.session, columns.digest == call.digest)


def _standing(connection: Connection, asked: AskedCall, now: int, used: Collection[str]) -> Standing | None:
    """Return what people have decided about a call, or None if nobody was asked.

    Approvals in `used` are for other calls.
    """
    known = [request for request in _about(connection, asked, now) if request.id not in used]
    results: tuple[Result, ...] = ("denied", "approved", "pending")
    return next(
        (Standing(result, request) for result in results for request in known if request.state == result),
        None,
    )


def _create(connection: Connection, asked: AskedCall, now: int, expires: int, persons: int) -> Standing:
    """Create a request about a call, unless the key has too many or people could not read it."""
    if _is_full(connection, asked.key, now):
        return Standing("full")
    new = ApprovalRequest.about(asked, secrets.token_hex(16), now, expires, persons)
    if new is None:
        return Standing("too large")
    connection.execute(insert(approvals).values(row_of(new)))
    return Standing("pending", new, is_new=True)


def _about(connection: Connection, asked: AskedCall, now: int) -> Sequence[ApprovalRequest]:
    """Return the requests that decide about a call: those about the same one, and those about its tool."""
    columns = approvals.c
    is_tools = and_(columns.key == asked.key, columns.key != "", columns.scope == "tools")
    query = select(approvals).where(
        columns.state.in_(("pending", "approved", "denied")),
        columns.expires > now,
        or_(_is_same(asked), and_(is_tools, columns.state == "approved")),
    )
    found = (read_row(dict(row)) for row in connection.execute(query.order_by(columns.created)).mappings())
    return [
        request
        for request in found
        if request.scope != "tools" or request.state != "approved" or fnmatchcase(asked.tool, request.tools)
    ]


def _is_full(connection: Connection, key: str, now: int) -> bool:
    """Return whether no further request of a key may be created."""
    columns = approvals.c
    opened = select(columns.key, func.count().label("open")).where(
        columns.state.in_(("pending", "denied")), columns.expires > now
    )
    by_key = Counter[str]()
    for row in connection.execute(opened.group_by(columns.key)):
        by_key["" if _UNNAMED_KEY.fullmatch(row.key) else row.key] += row.open
    share = "" if _UNNAMED_KEY.fullmatch(key) else key
    return by_key[share] >= MAX_OPEN or by_key.total() >= MAX_OPEN_OF_ALL


def _waits_elsewhere(connection: Connection, request: ApprovalRequest) -> bool:
    """Return whether another request about the same call is pending."""
    columns = approvals.c
    other = and_(_is_same(request), columns.state == "pending", columns.id != request.id)
    return connection.execute(select(columns.id).where(other)).first() is not None
