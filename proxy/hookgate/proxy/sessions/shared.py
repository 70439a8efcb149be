"""Sessions that several processes share, in a database.

A session is one row with its state, and one for each effect of hooks. A call reads the row, whose version
shows which effects it has to read: a process remembers the effects of the sessions that it used last. On one
machine, a call does not even read the row of a session that no process has changed since it was last read.
"""

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from cachetools import LRUCache, TTLCache

from hookgate.hooks import SessionContext
from hookgate.hooks.session_notes import Notes, SessionKey
from hookgate.proxy.errors import ApiError, StoreUse
from hookgate.proxy.keys.callers import KEPT_KEYS, AcceptedKeys
from hookgate.proxy.sessions import memory
from hookgate.proxy.sessions.memory import (
    ConversationMemory,
    HookEffect,
    StartClaim,
    effect_of,
    take_new_effects,
)
from hookgate.proxy.sessions.sessions import (
    OpenSession,
    Sessions,
    SessionState,
    session_key,
    text_fingerprint,
)
from hookgate.proxy.sessions.table import (
    ANY_SESSION,
    SessionRow,
    SessionRows,
    SessionStore,
    mark_of_names,
    mark_of_session,
)
from hookgate.translator.strictjson import dumps, loads

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_REFUSED = (
    "hookgate cannot read or write the state of sessions, so it refuses calls. "
    "Ask the operator of this gateway; it accepts calls again as soon as its store can be used."
)

CACHE_BYTES = 64 * 1024 * 1024
"""Bytes of sessions that a process remembers."""

_CHECK_SECONDS = 1.0
"""Seconds after which `are_usable` tries the database again."""

ACCEPT_SECONDS = 24 * 3600.0
"""Seconds after which the acceptance of a key is written again."""

MAX_RESOLVED = 10_000
"""Calls without a session's name whose session a process remembers."""

MAX_TEXTS = 16
"""Texts in the last turn of such a call; the session of a call with more is looked up each time."""

_ROW_BYTES = 1000  # about the memory of a session without effects


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A session as it was at a version. Its state is shared between calls, and never changed.

    It is current as long as the store gives its `number`; a snapshot without one has to be compared with the
    stored version. The version 0 stands for a session that is not stored.
    """

    version: int = 0
    state: SessionState = field(default_factory=SessionState)
    size: int = 0
    used: int = 0
    number: int | None = None


_NOTHING = _Snapshot()


class _Cache(Generic[K, V]):
    """A bounded cache that threads may use at the same time."""

    def __init__(self, size: int, size_of: Callable[[V], int]) -> None:
        self._lock = threading.Lock()
        self._values: LRUCache[K, V] = LRUCache(size, size_of)

    def get(self, key: K) -> V | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value


_Call = tuple[str, str, tuple[str, ...]]
"""What a call without a session's name shows: its key, its conversation, and the texts of its last turn."""


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The ID of the session of such a call, current as long as the store gives the number."""

    session: str
    number: int | None


_MAX_NOTED = 10_000
"""Sessions of which a process remembers the position of their last note."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """What a reader of all notes on a session gets, as long as the store gives the number."""

    notes: Notes
    number: int | None


@dataclass(frozen=True, slots=True)
class _Found:
    """The session of a call: its ID, and what is stored of it."""

    session: str
    snapshot: _Snapshot
    is_new_link: bool = False
    """Whether the conversation of the call has to be linked to the session."""


class SharedSessions(Sessions):
    """The sessions in a database. A change is visible to every call that begins after it.

    Where all processes mark their changes in shared memory, what was read is used until it is marked.
    """

    def __init__(self, store: SessionStore, keys: AcceptedKeys | None = None) -> None:
        super().__init__(keys)
        self._store = store
        self._use = StoreUse(lambda: ApiError(403, _REFUSED, "SESSIONS_UNAVAILABLE"))
        self._check: asyncio.Task[None] | None = None
        self._check_at = 0.0
        self._snapshots: _Cache[SessionKey, _Snapshot] = _Cache(
            CACHE_BYTES, lambda snapshot: snapshot.size + _ROW_BYTES
        )
        self._resolved: _Cache[_Call, _Resolved] = _Cache(MAX_RESOLVED, lambda _: 1)
        self._noted: _Cache[tuple[str, str, str], _Noted] = _Cache(_MAX_NOTED, lambda _: 1)
        self._written_keys: TTLCache[str, None] = TTLCache(KEPT_KEYS, ACCEPT_SECONDS)
        self._exist = False
        self._none_exist: int | None = None
        """The store's number when there was no session."""

    def are_usable(self) -> bool:
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + _CHECK_SECONDS
            self._check = asyncio.get_running_loop().create_task(self._try())
        return not self._use.failing

    async def _try(self) -> None:
        with contextlib.suppress(ApiError):  # it is noted
            await self._read(SessionRows.exist)

    async def exist(self) -> bool:
        """Return whether any session is known. Once there was one, the database is not asked again."""
        if self._exist or self._exists_none():
            return self._exist
        return await self._read(self._find_any)

    async def open(self, session: SessionContext, texts: Collection[str] | None = None) -> OpenSession:
        if not self._exist and self._exists_none():
            return OpenSession(self, session, SessionState(), is_known=False)
        call = None if texts is None else (session.key, session.session_id, tuple(texts))
        current = self._current(session, call)
        if current is None:
            current = await self._read(lambda rows: self._find(rows, session, call))
            if current.is_new_link:
                await self._write(lambda rows: rows.name(*session_key(session), current.session))
        resolved, snapshot = replace(session, session_id=current.session), current.snapshot
        return OpenSession(self, resolved, snapshot.state, is_known=snapshot.version > 0)

    async def change(
        self, session: SessionContext, step: Callable[[SessionState], T]
    ) -> tuple[T, SessionState]:
        key = session_key(session)

        def work(rows: SessionRows) -> tuple[T, _Snapshot]:
            known = self._snapshots.get(key) or _NOTHING
            row = rows.lock(key, known.version)
            before = _snapshot(row, known, None)
            state = _copied(before.state, row.document)
            result = step(state)
            document, effects, forgotten = _difference(before.state, state)
            if (document, effects, forgotten) == (row.document, {}, []):
                return result, before
            version = rows.write(key, row, document, effects=effects, forgotten=forgotten)
            size = before.size + sum(map(len, effects.values()))
            return result, _Snapshot(version, state, size, row.used)

        result, snapshot = await self._write(work)
        self._exist = True
        self._snapshots.put(key, snapshot)
        return result, snapshot.state

    async def read(self, session: SessionKey, name: str, since: int = 0) -> Notes:
        key, mark = (*session, name), mark_of_session(session)
        noted = self._noted.get(key)
        if noted and noted.notes.position == since and self._is_current(noted.number, mark):
            return noted.notes
        number = self._store.number(mark)
        notes = await self._read(lambda rows: rows.notes(session, name, since))
        nothing_new = Notes((), notes.position, is_whole=False, is_full=notes.is_full)
        self._noted.put(key, _Noted(nothing_new, number))
        return notes

    async def add(self, session: SessionKey, name: str, note: bytes) -> None:
        await self._write(lambda rows: rows.add_note(session, name, note))
        self._exist = True

    async def end(self, session: SessionContext) -> None:
        await self._write(lambda rows: rows.drop(session_key(session)))

    async def link_prompt(self, session: SessionContext, prompt: str) -> None:
        name = text_fingerprint(prompt)
        await self._write(lambda rows: rows.name(session.key, name, session.session_id))

    def accept(self, key: str) -> None:
        super().accept(key)
        if key not in self._written_keys:
            self._written_keys[key] = None
            self._store.write_later(lambda rows: rows.accept(key))

    # ---- lookups without a statement

    def _exists_none(self) -> bool:
        return self._is_current(self._none_exist, ANY_SESSION)

    def _current(self, session: SessionContext, call: _Call | None) -> _Found | None:
        """Return the session of a call if nothing has changed since it was read, else None."""
        session_id = session.session_id
        if call is not None:
            resolved = self._resolved.get(call)
            if resolved is None or not self._is_current(resolved.number, mark_of_names(session.key)):
                return None
            session_id = resolved.session
        key = session.key, session_id
        snapshot = self._snapshots.get(key)
        if snapshot is None or not self._is_current(snapshot.number, mark_of_session(key)):
            return None
        if snapshot.version and self._store.touch(key, snapshot.used):
            self._snapshots.put(key, replace(snapshot, used=int(time.time())))
        return _Found(session_id, snapshot)

    def _is_current(self, number: int | None, mark: str) -> bool:
        return number is not None and number == self._store.number(mark)

    # ---- statements, in threads. Each number is read before the data that it belongs to.

    def _find_any(self, rows: SessionRows) -> bool:
        number = self._store.number(ANY_SESSION)
        self._exist = rows.exist()
        self._none_exist = None if self._exist else number
        return self._exist

    def _find(self, rows: SessionRows, session: SessionContext, call: _Call | None) -> _Found:
        """Return the session of a call as it is stored. Without a `call`, the client names it."""
        if not (self._exist or self._find_any(rows)):
            return _Found(session.session_id, _NOTHING)
        session_id, is_new_link = session.session_id, False
        if call is not None:
            session_id, is_new_link = self._resolve(rows, call)
        key = session.key, session_id
        number = self._store.number(mark_of_session(key))
        known = self._snapshots.get(key) or _NOTHING
        row = rows.read(key, known.version)
        snapshot = _Snapshot(number=number) if row is None else _snapshot(row, known, number)
        if row is not None:
            self._store.touch(key, row.used)
        self._snapshots.put(key, snapshot)
        return _Found(session_id, snapshot, is_new_link)

    def _resolve(self, rows: SessionRows, call: _Call) -> tuple[str, bool]:
        """Return the ID of the session of a call, and whether that is not stored for its conversation yet."""
        key, conversation, texts = call
        number = self._store.number(mark_of_names(key))
        named = rows.named(key, [*texts, conversation])
        linked = named.get(conversation)
        found = next((named[text] for text in texts if text in named), None) or linked or conversation
        if len(texts) <= MAX_TEXTS:
            self._resolved.put(call, _Resolved(found, number))
        return found, found not in (linked, conversation)

    async def _read(self, step: Callable[[SessionRows], T]) -> T:
        with self._use.trying():
            return await self._store.read(step)

    async def _write(self, step: Callable[[SessionRows], T]) -> T:
        with self._use.trying():
            return await self._store.write(step)


def _snapshot(row: SessionRow, known: _Snapshot, number: int | None) -> _Snapshot:
    """Return the stored session. `known` is the snapshot whose version was passed when it was read."""
    if row.version == known.version:
        return replace(known, used=row.used, number=number)
    state = _state_of(row.document)
    effects: OrderedDict[str, HookEffect]
    effects = OrderedDict() if row.is_whole else OrderedDict(known.state.memory.effects)
    for identity, data in row.effects:
        effects[identity] = effect_of(data)
    while len(effects) > memory.KEPT_RESULTS:  # another process has forgotten the oldest
        effects.popitem(last=False)
    state.memory.effects = effects
    return _Snapshot(row.version, state, row.size, row.used, number)


def _copied(state: SessionState, document: bytes) -> SessionState:
    """Return a copy of a state whose document is given."""
    copy = _state_of(document)
    copy.memory.effects = OrderedDict(state.memory.effects)
    return copy


def _difference(before: SessionState, after: SessionState) -> tuple[bytes, dict[str, bytes], list[str]]:
    """Return the document of a changed state, its new effects, and the identities that it has forgotten.

    Effects that cannot be stored are removed from the state, and logged.
    """
    old, new = before.memory.effects, after.memory.effects
    effects = take_new_effects(old, after.memory)
    return _document(after), effects, [identity for identity in old if identity not in new]


def _document(state: SessionState) -> bytes:
    """Return a state without the effects of hooks, in JSON."""
    conversation = state.memory
    claim = conversation.claim and [conversation.claim.claimant, conversation.claim.until]
    return dumps(
        {
            "reported": sorted(state.reported),
            "stopped": state.stopped,
            "refused": state.refused,
            "context": state.pending_context,
            "turn": state.turn,
            "recorded": state.transcript_turns,
            "announced": dict(state.announced),
            "denied": dict(state.denied),
            "started": conversation.started,
            "claim": claim,
            "judged_turn": conversation.turn,
            "judged_question": conversation.question,
            "waiting": list(conversation.waiting),
        }
    )


def _state_of(document: bytes) -> SessionState:
    """Return the state in a document; a new one if the document is empty."""
    if not document:
        return SessionState()
    fields = loads(document)
    conversation = ConversationMemory(
        started=fields["started"],
        claim=StartClaim(*fields["claim"]) if fields["claim"] else None,
        turn=fields["judged_turn"],
        question=fields["judged_question"],
        waiting=tuple(fields["waiting"]),
    )
    return SessionState(
        reported=set(fields["reported"]),
        stopped=fields["stopped"],
        refused=fields["refused"],
        pending_context=fields["context"],
        memory=conversation,
        turn=fields["turn"],
        transcript_turns=fields["recorded"],
        announced=dict(fields["announced"]),
        denied=dict(fields["denied"]),
    )
