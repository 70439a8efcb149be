"""The sessions that several processes share, as rows. Every transaction runs in a thread."""

import asyncio
import logging
import mmap
import os
import random
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, bindparam, case, delete, func, select, tuple_, update

from hookgate.hooks.session_notes import MAX_NOTE_BYTES, NOTE_COST, Notes
from hookgate.proxy.config.session_bounds import MAX_KEY_BYTES, MAX_SESSION_BYTES, MAX_SESSIONS
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import FAILURES, Database, open_sessions, reason
from hookgate.proxy.store.execution import DatabaseThreads
from hookgate.proxy.store.models import (
    accepted_keys,
    session_effects,
    session_names,
    session_notes,
    sessions,
)

_NUMBERS = 1 << 14
_BYTES = 8


class ChangeMarks:
    """A number for each name, which changes when the name is marked. Names may share a number.

    A reader gets the number before it reads, and may use the result for as long as the number is the
    same. A writer marks a name before it commits a change and after it. Numbers are random, because two
    processes could count up to the same one.
    """

    def __init__(self, path: Path) -> None:
        """Map the file, which only its owner can read, and mark all names. Raises OSError.

        A process that died may have committed a change without marking it again.
        """
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(file, _NUMBERS * _BYTES)
            self._memory = mmap.mmap(file, _NUMBERS * _BYTES)
        finally:
            os.close(file)
        self._numbers = memoryview(self._memory).cast("Q")
        for index in range(_NUMBERS):
            self._numbers[index] = random.getrandbits(64)  # not a secret

    def number(self, name: str) -> int:
        """Return the current number of a name."""
        return self._numbers[_index(name)]

    def mark(self, name: str) -> None:
        """Change the number of a name."""
        self._numbers[_index(name)] = random.getrandbits(64)  # not a secret

    def close(self) -> None:
        """Unmap the file."""
        self._numbers.release()
        self._memory.close()


def mark_everything(state: Path) -> None:
    """Mark all names in the state folder, because sessions were removed. Raises OSError."""
    ChangeMarks(state / _MARKS_FILE).close()


def _index(name: str) -> int:
    return zlib.crc32(name.encode(errors="surrogatepass")) % _NUMBERS


log = logging.getLogger("hookgate.store")

T = TypeVar("T")

Place = tuple[str, str]
"""The name of a caller's key, and the ID of a session of that key."""

_SWEEP_SECONDS = 60.0
_SWEEP_INSERTS = 1000
"""Sessions are removed after so many seconds or new ones, whichever comes first."""

_TOUCH_SECONDS = 600
"""Seconds that may pass before the use of a session is written."""

_KEY_SECONDS = 30 * 24 * 3600
"""Seconds for which a key counts as accepted."""

_NAMES_AT_ONCE = 500

_MARKS_FILE = "sessions.marks"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as it is stored. `effects` are those that are newer than what the reader knows."""

    version: int
    document: bytes
    size: int
    used: int
    effects: list[tuple[str, bytes]]
    is_whole: bool
    """Whether `effects` are all effects of the session."""


ANY_SESSION = "any session"
"""The name of the mark that changes whenever a session is created."""


def mark_of_session(place: Place) -> str:
    """Return the name of the mark that changes with each change of a session."""
    return "\0".join(("session", *place))


def mark_of_names(key: str) -> str:
    """Return the name under which changes of the names of a key's sessions are marked."""
    return f"names\0{key}"


_EXIST = select(1).select_from(sessions).limit(1)

_AT = (sessions.c.key == bindparam("of_key")) & (sessions.c.id == bindparam("of_session"))
_OF = (session_effects.c.key == bindparam("of_key")) & (session_effects.c.session == bindparam("of_session"))

_SESSION = select(*sessions.columns).where(_AT)
_LOCKED_SESSION = _SESSION.with_for_update()
_NEWER_EFFECTS = (
    select(session_effects.c.identity, session_effects.c.document)
    .where(_OF, session_effects.c.version > bindparam("since"))
    .order_by(session_effects.c.version)
)
_SIZES = (
    select(session_effects.c.identity, func.length(session_effects.c.document).label("size"))
    .where(_OF)
    .order_by(session_effects.c.version.desc())
)
_FORGET = delete(session_effects).where(
    _OF, session_effects.c.identity.in_(bindparam("identities", expanding=True))
)
_CHANGE = (
    update(sessions)
    .where(_AT)
    .values({name: bindparam(name) for name in ("version", "document", "size", "used")})
)
_NOTES_OF = (session_notes.c.key == bindparam("of_key")) & (
    session_notes.c.session == bindparam("of_session")
)
_VERSIONS = select(sessions.c.first, sessions.c.version).where(_AT)
_NEWER_NOTES = (
    select(session_notes.c.note)
    .where(_NOTES_OF, session_notes.c.name == bindparam("name"), session_notes.c.version > bindparam("since"))
    .order_by(session_notes.c.version)
)
_NOTE_BYTES = select(func.max(session_notes.c.total)).where(_NOTES_OF)
_NOTED = update(sessions).where(_AT).values(version=bindparam("version"), used=bindparam("used"))
_TOUCH = update(sessions).where(_AT).values(used=bindparam("used"))
_DROP = delete(sessions).where(_AT)
_NAMED = select(session_names.c.name, session_names.c.session).where(
    session_names.c.key == bindparam("of_key"), session_names.c.name.in_(bindparam("names", expanding=True))
)
# Statements are made once: to make one takes longer than to run it.


class SessionStatements:
    """The statements that depend on the kind of database."""

    def __init__(self, make: Callable[[Table], Any]) -> None:
        self.create = make(sessions).on_conflict_do_nothing()
        self.effect = _upsert(make(session_effects), ["key", "session", "identity"], ["version", "document"])
        self.note = make(session_notes)
        self.name = _upsert(make(session_names), ["key", "name"], ["session", "used"])
        self.accept = _upsert(make(accepted_keys), ["key"], ["used"])


def _upsert(row: Any, keys: list[str], values: list[str]) -> Any:
    return row.on_conflict_do_update(
        index_elements=keys, set_={name: getattr(row.excluded, name) for name in values}
    )


class SessionRows:
    """The rows of sessions, in one transaction. Every method may raise database errors."""

    def __init__(self, connection: Connection, statements: SessionStatements) -> None:
        self._connection, self._statements = connection, statements
        self.inserted = 0
        self.changed: set[str] = set()
        """The marks of the changes, as `mark_of_session` and similar functions return them."""

    def exist(self) -> bool:
        """Return whether there are any sessions."""
        return self._connection.execute(_EXIST).first() is not None

    def read(self, place: Place, known: int = 0) -> SessionRow | None:
        """Return a session, or None. `known` is the version whose effects the caller has."""
        row = self._connection.execute(_SESSION, _place_values(place)).first()
        return None if row is None else self._with_effects(place, row, known)

    def lock(self, place: Place, known: int = 0) -> SessionRow:
        """Return a session, and keep others from changing it until the transaction ends.

        A session that does not exist is created, with an empty document.
        """
        return self._with_effects(place, self._locked(place), known)

    def _locked(self, place: Place) -> Any:
        key, id_ = place
        while (row := self._connection.execute(_LOCKED_SESSION, _place_values(place)).first()) is None:
            first = time.time_ns()
            values = {"first": first, "version": first, "document": b"", "size": 0, "used": int(time.time())}
            self._connection.execute(self._statements.create, {"key": key, "id": id_, **values})
            self.inserted += 1
            self.changed |= {ANY_SESSION, mark_of_session(place)}
        return row

    def write(
        self,
        place: Place,
        row: SessionRow,
        document: bytes,
        *,
        effects: Mapping[str, bytes],
        forgotten: Sequence[str],
    ) -> int:
        """Write a locked session, with new effects and without forgotten ones. Returns its version."""
        version = row.version + max(1, len(effects))
        self._forget(place, forgotten)
        # Each effect has a version of its own, which keeps them in order.
        for number, (identity, data) in enumerate(effects.items(), row.version + 1):
            values = {"key": place[0], "session": place[1], "identity": identity}
            self._connection.execute(self._statements.effect, {**values, "version": number, "document": data})
        size = row.size + sum(map(len, effects.values()))
        if size > MAX_SESSION_BYTES:
            size = self._trim(place)
        changed = {"version": version, "document": document, "size": size, "used": int(time.time())}
        self._connection.execute(_CHANGE, {**_place_values(place), **changed})
        self.changed.add(mark_of_session(place))
        return version

    def notes(self, place: Place, name: str, since: int) -> Notes:
        """Return the notes on a session that were added after a version (see `SessionNotes`)."""
        row = self._connection.execute(_VERSIONS, _place_values(place)).first()
        if row is None:
            return Notes((), 0, is_whole=True, is_full=False)
        is_whole = not row.first <= since <= row.version
        values = {"name": name, "since": 0 if is_whole else since}
        added = self._connection.execute(_NEWER_NOTES, {**_place_values(place), **values})
        notes = [each.note for each in added]
        return Notes(notes, row.version, is_whole, is_full=self._note_bytes(place) > MAX_NOTE_BYTES)

    def add_note(self, place: Place, name: str, note: bytes) -> None:
        """Add a note on a session, which is created if it does not exist."""
        version, before = self._locked(place).version + 1, self._note_bytes(place)
        if before > MAX_NOTE_BYTES:
            return
        total = before + len(note) + NOTE_COST
        if total > MAX_NOTE_BYTES:
            total, note = MAX_NOTE_BYTES + 1, b""
        values = {"key": place[0], "session": place[1], "version": version, "name": name}
        self._connection.execute(self._statements.note, {**values, "note": note, "total": total})
        used = {"version": version, "used": int(time.time())}
        self._connection.execute(_NOTED, {**_place_values(place), **used})
        self.changed.add(mark_of_session(place))

    def _note_bytes(self, place: Place) -> int:
        """Return the bytes of the notes on a session, or more than they may have if one did not fit."""
        total: int = self._connection.execute(_NOTE_BYTES, _place_values(place)).scalar() or 0
        return total

    def touch(self, place: Place) -> None:
        """Note that a session is used."""
        self._connection.execute(_TOUCH, {**_place_values(place), "used": int(time.time())})

    def drop(self, place: Place) -> None:
        """Remove a session."""
        self._connection.execute(_DROP, _place_values(place))
        self.changed.add(mark_of_session(place))

    def named(self, key: str, names: Iterable[str]) -> dict[str, str]:
        """Return the IDs of the sessions with these names, by name."""
        found: dict[str, str] = {}
        for some in _portions(list(dict.fromkeys(names))):
            rows = self._connection.execute(_NAMED, {"of_key": key, "names": some})
            found |= {row.name: row.session for row in rows}
        return found

    def name(self, key: str, name: str, session: str) -> None:
        """Give a name to a session."""
        values = {"key": key, "name": name, "session": session, "used": int(time.time())}
        self._connection.execute(self._statements.name, values)
        self.changed.add(mark_of_names(key))

    def accept(self, key: str) -> None:
        """Give a key a share of its own."""
        self._connection.execute(self._statements.accept, {"key": key, "used": int(time.time())})

    def sweep(self, seconds: float) -> None:
        """Remove sessions that were not used for `seconds`, and those that exceed the share of their key."""
        now = int(time.time())
        for table in (sessions, session_names):
            self._connection.execute(delete(table).where(table.c.used < now - seconds))
        self._connection.execute(delete(accepted_keys).where(accepted_keys.c.used < now - _KEY_SECONDS))
        place = tuple_(sessions.c.key, sessions.c.id)
        self._connection.execute(delete(sessions).where(place.in_(_excess_sessions())))
        name = tuple_(session_names.c.key, session_names.c.name)
        self._connection.execute(delete(session_names).where(name.in_(_excess_names())))

    def _with_effects(self, place: Place, row: Any, known: int) -> SessionRow:
        since = known if row.first <= known <= row.version else 0
        effects: list[tuple[str, bytes]] = []
        if since != row.version:
            newer = self._connection.execute(_NEWER_EFFECTS, {**_place_values(place), "since": since})
            effects = [(each.identity, each.document) for each in newer]
        return SessionRow(row.version, row.document, row.size, row.used, effects, not since)

    def _trim(self, place: Place) -> int:
        """Remove the oldest effects of a session that has too many bytes. Returns how many are left."""
        total = 0
        gone: list[str] = []
        for identity, size in self._connection.execute(_SIZES, _place_values(place)).all():
            if total + size > MAX_SESSION_BYTES:
                gone.append(identity)
            else:
                total += size
        self._forget(place, gone)
        return total

    def _forget(self, place: Place, identities: Sequence[str]) -> None:
        for some in _portions(identities):
            self._connection.execute(_FORGET, {**_place_values(place), "identities": some})


def _place_values(place: Place) -> dict[str, str]:
    return {"of_key": place[0], "of_session": place[1]}


def _portions(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return the names in portions that one statement can take."""
    return (names[at : at + _NAMES_AT_ONCE] for at in range(0, len(names), _NAMES_AT_ONCE))


def _share(key: Any) -> Any:
    """Return the share of a key: its own if it is accepted, or else the one of all other keys."""
    return case((key.in_(select(accepted_keys.c.key)), key), else_="")


def _excess_sessions() -> Any:
    share = {"partition_by": _share(sessions.c.key), "order_by": sessions.c.used.desc()}
    of_session = (session_notes.c.key == sessions.c.key) & (session_notes.c.session == sessions.c.id)
    note_bytes = select(func.coalesce(func.max(session_notes.c.total), 0)).where(of_session)
    ranked = select(
        sessions.c.key,
        sessions.c.id,
        func.row_number().over(**share).label("number"),
        func.sum(sessions.c.size + note_bytes.scalar_subquery()).over(**share).label("total"),
    ).subquery()
    excess = (ranked.c.number > MAX_SESSIONS) | (ranked.c.total > MAX_KEY_BYTES)
    return select(ranked.c.key, ranked.c.id).where(excess)


def _excess_names() -> Any:
    share = {"partition_by": _share(session_names.c.key), "order_by": session_names.c.used.desc()}
    ranked = select(
        session_names.c.key, session_names.c.name, func.row_number().over(**share).label("number")
    ).subquery()
    return select(ranked.c.key, ranked.c.name).where(ranked.c.number > 2 * MAX_SESSIONS)


class _Transactions:
    """The transactions of one kind. For a file, whose threads are alone, the connection is kept open."""

    def __init__(self, engine: Engine, *, keeps: bool) -> None:
        self._engine, self._keeps = engine, keeps
        self._kept: Connection | None = None

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction. Raises database errors."""
        connection, self._kept = self._kept or self._engine.connect(), None
        try:
            with connection.begin():
                yield connection
            if self._keeps:
                self._kept = connection
        finally:
            if self._kept is None:
                connection.close()

    def close(self) -> None:
        """Close the connection."""
        if self._kept is not None:
            self._kept.close()


class SessionStore:
    """Runs transactions on sessions in threads, and removes old sessions now and then."""

    def __init__(self, database: Database, hours: float, marks: ChangeMarks | None = None) -> None:
        """Sessions are kept for some hours after their last use.

        Changes are marked in `marks`, which all processes that use the database must share.
        """
        self._marks = marks
        self._database, self._seconds = database, hours * 3600
        self._statements = SessionStatements(database.insert)
        self._reading = _Transactions(database.reading, keeps=database.is_file)
        self._writing = _Transactions(database.engine, keeps=database.is_file)
        # For a file, there is one thread that writes, and one that reads meanwhile.
        self._readers, self._writers = (
            DatabaseThreads("the store of sessions", name, database.threads)
            for name in ("hookgate-sessions-read", "hookgate-sessions")
        )
        self._sweep_at, self._inserts = 0.0, 0
        self._failing = False

    async def read(self, step: Callable[[SessionRows], T]) -> T:
        """Return the result of a step that only reads. Raises StoreError."""

        def work() -> T:
            with self._reading.begin() as connection:
                return step(SessionRows(connection, self._statements))

        return await self._readers.run(work)

    async def write(self, step: Callable[[SessionRows], T]) -> T:
        """Return the result of a step. Raises StoreError."""
        return await self._writers.run(self._write, step)

    def write_later(self, step: Callable[[SessionRows], object]) -> None:
        """Run a step soon. A failure is only logged, once until a step succeeds."""

        def work() -> None:
            try:
                self._write(step)
                self._failing = False
            except FAILURES as error:
                if not self._failing:
                    log.warning("the store %s cannot be written: %s", self._database.name, reason(error))
                self._failing = True

        self._writers.run_later(work)

    def touch(self, place: Place, used: int) -> bool:
        """Note soon that a session is used, unless `used`, when that was noted, is not long ago."""
        is_due = used < time.time() - _TOUCH_SECONDS
        if is_due:
            self.write_later(lambda rows: rows.touch(place))
        return is_due

    def number(self, mark: str) -> int | None:
        """Return a number that is the same as long as nothing is marked.

        Returns None if processes on other machines may change what is stored.
        """
        return None if self._marks is None else self._marks.number(mark)

    async def close(self) -> None:
        """Finish what has begun, and close the database."""
        for threads in (self._readers, self._writers):
            await asyncio.to_thread(threads.close)
        for transactions in (self._reading, self._writing):
            transactions.close()
        await asyncio.to_thread(self._database.close)
        if self._marks is not None:
            self._marks.close()

    def _write(self, step: Callable[[SessionRows], T]) -> T:
        with self._writing.begin() as connection:
            rows = SessionRows(connection, self._statements)
            result = step(rows)
            self._mark(rows)
        self._mark(rows)
        self._inserts += rows.inserted
        if time.monotonic() >= self._sweep_at or self._inserts >= _SWEEP_INSERTS:
            self._sweep_at, self._inserts = time.monotonic() + _SWEEP_SECONDS, 0
            self._sweep()
        return result

    def _mark(self, rows: SessionRows) -> None:
        """Mark the changes: before they can be read, and again once they can."""
        if self._marks is not None:
            for name in rows.changed:
                self._marks.mark(name)

    def _sweep(self) -> None:
        try:
            with self._writing.begin() as connection:
                SessionRows(connection, self._statements).sweep(self._seconds)
        except FAILURES as error:  # another process may sweep at the same time
            log.warning("old sessions cannot be removed now: %s", reason(error))


def open_session_store(url: str | None, state: Path, hours: float) -> SessionStore:
    """Open the sessions at a URL, or else in a file. Raises StoreError."""
    database = open_sessions(url, state)
    if not database.is_file:
        return SessionStore(database, hours)
    path = state / _MARKS_FILE
    try:
        return SessionStore(database, hours, ChangeMarks(path))
    except OSError as error:
        database.close()
        raise StoreError(
            f"{path}: cannot be used: {error.strerror}; name another folder with --state"
        ) from None
