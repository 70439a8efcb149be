"""The table of approvals. Every method is one short transaction, and may block.

Gateways with the same database share it, so a call is asked about once, and an approval that is for one call
is used once, whichever of them it reaches.
"""

import math
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from sqlalchemy import Connection, and_, delete, func, insert, literal, or_, select, update

from hookgate.proxy.approvals.requests import (
    ApprovalDecision,
    ApprovalRequest,
    AskedCall,
    DecisionError,
    State,
    read_row,
    row_of,
)
from hookgate.proxy.errors import StoreError
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

_LOCK_SECONDS = 3
"""How long a gateway waits for this lock, and how long one that hangs can hold it."""

_UNNAMED_KEY = re.compile(r"[0-9a-f]{24}|")
_REMOVED = "There is no such request: it was removed."
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

    def ask(
        self, calls: Sequence[AskedCall], now: int, lifetime: int, persons: int, ends: float = math.inf
    ) -> list[Standing]:
        """Return for each call whether it may pass. If all may, approvals for one call are used up.

        The calls are of one key and session. For those about which nobody was asked yet, requests are
        created, which expire after `lifetime` milliseconds, and which so many persons must approve. If all
        that is not done when the monotonic clock shows `ends`, raises StoreError and changes nothing: nobody
        waits for it any more.
        """
        self._check_time(ends)
        # Arguments are hashed and serialized before other gateways have to wait.
        drafts = [
            ApprovalRequest.about(asked, secrets.token_hex(16), now, now + lifetime, persons)
            for asked in calls
        ]
        with self._changing() as connection:
            _expire(connection, now)
            standings, used = _known_standings(calls, _about(connection, calls, now))
            if None in standings:
                room = _room(connection, calls[0].key, now)
                standings, new = _with_new(standings, drafts, room)
                if new:
                    connection.execute(insert(approvals), [row_of(request) for request in new])
            found = [each for each in standings if each is not None]
            if all(each.result == "approved" for each in found):
                _use_up(connection, used)
            self._check_time(ends)
            return found

    def _check_time(self, ends: float) -> None:
        if time.monotonic() > ends:
            raise StoreError(f"{self._subject} cannot be used: the database is too slow")

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """Begin a transaction beside which no other one, of any gateway, creates or decides requests."""
        with self._transaction() as connection:
            if not self._database.is_file:  # a file has one such transaction at a time
                for timeout in ("lock_timeout", "idle_in_transaction_session_timeout"):
                    connection.execute(select(func.set_config(timeout, f"{_LOCK_SECONDS}s", True)))
                connection.execute(select(func.pg_advisory_xact_lock(_CHANGING)))
            yield connection

    def withdraw(self, ids: Collection[str]) -> None:
        """Remove requests about which nobody was told."""
        with self._changing() as connection:
            connection.execute(delete(approvals).where(approvals.c.id.in_(ids)))

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
                raise DecisionError(_REMOVED)
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
            stores = update(approvals).where(approvals.c.id == id_).values(changed)
            if not connection.execute(stores).rowcount:
                raise DecisionError(_REMOVED)
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


def _known_standings(
    calls: Sequence[AskedCall], known: Sequence[ApprovalRequest]
) -> tuple[list[Standing | None], set[str]]:
    """Return what people have decided about each call, or None, and the IDs of approvals for one call.

    Each of these is for another one of the calls.
    """
    used: set[str] = set()
    standings: list[Standing | None] = []
    results: tuple[Result, ...] = ("denied", "approved", "pending")
    for asked in calls:
        about = [each for each in known if each.id not in used and _is_about(each, asked)]
        found = (Standing(result, each) for result in results for each in about if each.state == result)
        standing = next(found, None)
        standings.append(standing)
        approved = standing.request if standing and standing.result == "approved" else None
        if approved is not None and approved.scope == "once":
            used.add(approved.id)
    return standings, used


def _is_about(request: ApprovalRequest, asked: AskedCall) -> bool:
    if request.state == "approved" and request.scope == "tools":
        return fnmatchcase(asked.tool, request.tools)
    return (request.session, request.digest) == (asked.session, asked.digest)


def _with_new(
    standings: Sequence[Standing | None], drafts: Sequence[ApprovalRequest | None], room: int
) -> tuple[list[Standing | None], list[ApprovalRequest]]:
    """Return the standings with those of new requests in place of None, and these requests: at most `room`.

    Equal calls share one. A draft is None if people could not read the arguments.
    """
    new: dict[bytes, ApprovalRequest] = {}
    completed: list[Standing | None] = []
    for standing, draft in zip(standings, drafts, strict=True):
        if standing is not None:
            completed.append(standing)
        elif draft is None:
            completed.append(Standing("too large"))
        elif draft.digest in new:
            completed.append(Standing("pending", new[draft.digest]))
        elif len(new) >= room:
            completed.append(Standing("full"))
        else:
            new[draft.digest] = draft
            completed.append(Standing("pending", draft, is_new=True))
    return completed, [*new.values()]


def _use_up(connection: Connection, ids: Collection[str]) -> None:
    """Use up approvals that are for one call. Raises StoreError if one of them is not there any more."""
    unused = and_(approvals.c.id.in_(ids), approvals.c.state == "approved")
    if ids and connection.execute(update(approvals).where(unused).values(state="used")).rowcount != len(ids):
        raise StoreError("an approval was removed at this moment")


def _about(connection: Connection, calls: Sequence[AskedCall], now: int) -> list[ApprovalRequest]:
    """Return the requests that may decide about calls: those about the same ones, and those about tools."""
    columns, first = approvals.c, calls[0]
    is_same = and_(columns.session == first.session, columns.digest.in_({asked.digest for asked in calls}))
    is_tools = and_(columns.key != "", columns.scope == "tools", columns.state == "approved")
    query = select(approvals).where(
        columns.key == first.key,
        columns.state.in_(("pending", "approved", "denied")),
        columns.expires > now,
        or_(is_same, is_tools),
    )
    found = connection.execute(query.order_by(columns.created)).mappings()
    return [read_row(dict(row)) for row in found]


def _room(connection: Connection, key: str, now: int) -> int:
    """Return how many further requests of a key may be created."""
    columns = approvals.c
    opened = select(columns.key, func.count().label("open")).where(
        columns.state.in_(("pending", "denied")), columns.expires > now
    )
    by_key = Counter[str]()
    for row in connection.execute(opened.group_by(columns.key)):
        by_key["" if _UNNAMED_KEY.fullmatch(row.key) else row.key] += row.open
    share = "" if _UNNAMED_KEY.fullmatch(key) else key
    return min(MAX_OPEN - by_key[share], MAX_OPEN_OF_ALL - by_key.total())


def _waits_elsewhere(connection: Connection, request: ApprovalRequest) -> bool:
    """Return whether another request about the same call is pending."""
    columns = approvals.c
    query = select(columns.id).where(
        columns.key == request.key,
        columns.session == request.session,
        columns.digest == request.digest,
        columns.state == "pending",
        columns.id != request.id,
    )
    return connection.execute(query).first() is not None
