"""The table of interactions that were judged. Every transaction runs in a thread."""

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, delete, func, literal, select, tuple_, update

from hookgate.proxy.store.database import Database
from hookgate.proxy.store.execution import DatabaseThreads
from hookgate.proxy.store.models import interactions

MAX_INTERACTIONS = 10_000
"""Interactions of each key; the oldest ones are removed."""

MAX_KEY_BYTES = 64 * 1024 * 1024
"""Bytes of turns that the interactions of each key may have; the oldest ones are removed."""

MAX_CHAIN = 200
"""The number of interactions whose turns are read for one that continues them."""

MAX_CHAIN_BYTES = 512 * 1024
"""Bytes of turns that are read for an interaction."""

_DAY_SECONDS = 24 * 3600
_SWEEP_SECONDS = 60.0
_SWEEP_INSERTS = 1000
"""Interactions are removed after so many seconds or new ones, whichever comes first."""


@dataclass(frozen=True, slots=True)
class StoredInteraction:
    """An interaction as it is stored."""

    key: str
    """The name of its caller's key."""
    name: str
    session: str
    revision: str
    """The policy revision under which its request was judged."""
    previous: str | None
    """The name of the interaction that it continues."""
    continues_known: bool
    """Whether all turns before it have passed."""
    passed: bool
    """Whether its own answer has passed."""
    counted: bool
    """Whether the tokens that it used were counted."""
    tokens: int = 0
    """The tokens of its conversation up to its answer, estimated until that has ended."""
    estimated_input: int = 0
    """The tokens of its request that limits have counted when it began in the background."""
    estimated_output: int = 0
    """The same for its answer."""
    request: bytes | None = None
    """The turns of its request, if they are stored."""
    answer: bytes | None = None
    """The turn of its answer, if it is stored."""
    created: int = field(default_factory=lambda: int(time.time()))
    """In seconds since 1970."""

    @property
    def has_passed(self) -> bool:
        """Whether all turns have passed, its own and those before it."""
        return self.passed and self.continues_known


_COLUMNS = interactions.c
_AT = (_COLUMNS.key == bindparam("of_key")) & (_COLUMNS.name == bindparam("of_name"))
_IS_KEPT = _COLUMNS.created >= bindparam("oldest", type_=Integer)
"""Whether an interaction is recent enough: those that are not may stay in the table for a while."""
_FIND = select(interactions).where(_AT, _IS_KEPT)
_COUNT = update(interactions).where(_AT, _COLUMNS.counted == 0).values(counted=1)
_FORGET = delete(interactions).where(_AT)


def _bytes_of(table: Any) -> Any:
    return func.coalesce(func.length(table.request), 0) + func.coalesce(func.length(table.answer), 0)


def _chain() -> Any:
    """Return the query for the turns of an interaction and of those before it, the newest first."""
    shown = (_COLUMNS.name, _COLUMNS.previous, _COLUMNS.request, _COLUMNS.answer)
    chain = (
        select(*shown, literal(1, Integer).label("depth"), _bytes_of(_COLUMNS).label("total"))
        .where(_AT, _IS_KEPT)
        .cte("chain", recursive=True)
    )
    earlier = select(*shown, chain.c.depth + 1, chain.c.total + _bytes_of(_COLUMNS)).where(
        _COLUMNS.key == bindparam("of_key"),
        _COLUMNS.name == chain.c.previous,
        _IS_KEPT,
        chain.c.depth < MAX_CHAIN,
        chain.c.total <= MAX_CHAIN_BYTES,
    )
    joined = chain.union_all(earlier)
    return select(joined).order_by(joined.c.depth)


_CHAIN = _chain()
# Statements are made once: to make one takes longer than to run it.


class InteractionTable:
    """Interactions in a database. Every coroutine raises StoreError if the database cannot be used."""

    def __init__(self, database: Database, days: float) -> None:
        """Interactions are kept for some days after they were created."""
        self._seconds = days * _DAY_SECONDS
        self._reading, self._writing = database.reading, database.writing
        row = database.insert(interactions)
        values = {column.name: row.excluded[column.name] for column in interactions.columns}
        self._keep = row.on_conflict_do_update(index_elements=["key", "name"], set_=values)
        subject = f"the interactions in {database.name}"
        self._threads = DatabaseThreads(subject, "hookgate-interactions", database.threads)
        self._lock = threading.Lock()
        self._sweep_at, self._inserts = 0.0, 0

    async def find(self, key: str, name: str) -> StoredInteraction | None:
        """Return an interaction of a key, or None."""
        return await self._threads.run(self._find, _place(key, name))

    async def turns(self, key: str, name: str) -> list[bytes] | None:
        """Return the turns up to an interaction, the oldest first; None if not all of them are stored.

        Each is a JSON array of turns.
        """
        return await self._threads.run(self._turns, _place(key, name))

    async def keep(self, interaction: StoredInteraction) -> None:
        """Store an interaction, in place of an earlier one with this name."""
        await self._threads.run(self._insert, interaction)

    async def pass_answer(
        self, key: str, name: str, *, counted: bool, tokens: int, answer: bytes | None
    ) -> None:
        """Note that the answer of an interaction has passed; 0 `tokens` are unknown ones."""
        values = {"passed": 1, "answer": answer} | ({"counted": 1} if counted else {})
        values |= {"tokens": tokens} if tokens else {}
        await self._threads.run(
            self._write, update(interactions).where(_AT).values(values), _place(key, name)
        )

    async def count(self, key: str, name: str) -> bool:
        """Note that the tokens of an interaction are counted. Returns False if they were before."""
        return await self._threads.run(self._write, _COUNT, _place(key, name)) > 0

    async def forget(self, key: str, name: str) -> None:
        """Remove an interaction."""
        await self._threads.run(self._write, _FORGET, _place(key, name))

    def close(self) -> None:
        """Wait for the threads."""
        self._threads.close()

    def _find(self, place: dict[str, Any]) -> StoredInteraction | None:
        with self._reading.begin() as connection:
            row = connection.execute(_FIND, place | {"oldest": self._oldest()}).mappings().first()
        if row is None:
            return None
        flags = {name: bool(row[name]) for name in ("continues_known", "passed", "counted")}
        return StoredInteraction(**{**row, **flags})

    def _turns(self, place: dict[str, Any]) -> list[bytes] | None:
        with self._reading.begin() as connection:
            rows = connection.execute(_CHAIN, place | {"oldest": self._oldest()}).all()
        is_whole = bool(rows) and rows[-1].previous is None and rows[-1].total <= MAX_CHAIN_BYTES
        if not is_whole or any(row.request is None or row.answer is None for row in rows):
            return None
        return [bytes(turns) for row in reversed(rows) for turns in (row.request, row.answer)]

    def _insert(self, interaction: StoredInteraction) -> None:
        row = asdict(interaction)
        flags = {name: int(row[name]) for name in ("continues_known", "passed", "counted")}
        with self._writing.begin() as connection:
            connection.execute(self._keep, row | flags)
            if self._is_time_to_sweep():
                self._sweep(connection)

    def _write(self, statement: Any, place: dict[str, str]) -> int:
        with self._writing.begin() as connection:
            return int(connection.execute(statement, place).rowcount)

    def _oldest(self) -> int:
        """Return the earliest time of creation of interactions that are kept, in seconds since 1970."""
        return int(max(0.0, time.time() - self._seconds))

    def _is_time_to_sweep(self) -> bool:
        with self._lock:
            self._inserts += 1
            if time.monotonic() < self._sweep_at and self._inserts < _SWEEP_INSERTS:
                return False
            self._sweep_at, self._inserts = time.monotonic() + _SWEEP_SECONDS, 0
            return True

    def _sweep(self, connection: Connection) -> None:
        connection.execute(delete(interactions).where(_COLUMNS.created < self._oldest()))
        newest_first: Any = {"partition_by": _COLUMNS.key, "order_by": _COLUMNS.created.desc()}
        ranked = select(
            _COLUMNS.key,
            _COLUMNS.name,
            func.row_number().over(**newest_first).label("number"),
            func.sum(_bytes_of(_COLUMNS)).over(**newest_first).label("total"),
        ).subquery()
        excess = (ranked.c.number > MAX_INTERACTIONS) | (ranked.c.total > MAX_KEY_BYTES)
        place = tuple_(_COLUMNS.key, _COLUMNS.name)
        connection.execute(
            delete(interactions).where(place.in_(select(ranked.c.key, ranked.c.name).where(excess)))
        )


def _place(key: str, name: str) -> dict[str, str]:
    return {"of_key": key, "of_name": name}
