"""The notes of policies on sessions: none is lost, whichever process adds it, and they are bounded."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import update

from hookgate.hooks import SessionContext
from hookgate.hooks import session_notes as bounds
from hookgate.hooks.session_notes import MemoryNotes, SessionNotes
from hookgate.proxy.keys.callers import AcceptedKeys
from hookgate.proxy.sessions import sessions as local
from hookgate.proxy.sessions import table as stored
from hookgate.proxy.sessions.sessions import LocalSessions, Sessions, SessionState
from hookgate.proxy.sessions.shared import SharedSessions
from hookgate.proxy.sessions.table import SessionRows, open_session_store
from hookgate.proxy.store import models

ALICE = SessionContext("s", key="alice")
BOB = SessionContext("s", key="bob")

Opened = AbstractAsyncContextManager[tuple[Sessions, Sessions]]


@asynccontextmanager
async def alone() -> AsyncIterator[tuple[Sessions, Sessions]]:
    sessions = LocalSessions()
    yield sessions, sessions


@asynccontextmanager
async def two(url: str | None, state: Path) -> AsyncIterator[tuple[Sessions, Sessions]]:
    """The sessions of two processes that share a database."""
    stores = [open_session_store(url, state, hours=1) for _ in range(2)]
    try:
        yield SharedSessions(stores[0]), SharedSessions(stores[1])
    finally:
        for store in stores:
            await store.close()


@pytest.fixture(params=[True, False], ids=["memory", "shared"])
def opened(request: pytest.FixtureRequest, url: str | None, tmp_path: Path) -> Callable[[], Opened]:
    return alone if request.param else lambda: two(url, tmp_path)


async def all_notes(notes: SessionNotes, session: SessionContext = ALICE, name: str = "p") -> list[bytes]:
    return list((await notes.read(session.place, name)).added)


async def test_notes_are_read_in_order_by_name_and_session(opened: Callable[[], Opened]) -> None:
    async with opened() as (one, other):
        assert await all_notes(other) == []
        for at, sessions in enumerate((one, other, one)):
            await sessions.add(ALICE.place, "p", b"%d" % at)
        await one.add(ALICE.place, "q", b"of another policy")
        await one.add(BOB.place, "p", b"of another key")
        assert await all_notes(other) == [b"0", b"1", b"2"]
        assert await all_notes(other, name="q") == [b"of another policy"]
        assert await all_notes(one, BOB) == [b"of another key"]


async def test_a_reader_gets_what_was_added_since_it_read(opened: Callable[[], Opened]) -> None:
    async with opened() as (one, other):
        await one.add(ALICE.place, "p", b"old")
        first = await other.read(ALICE.place, "p")
        assert first.is_whole
        again = await other.read(ALICE.place, "p", first.position)
        assert (list(again.added), again.is_whole) == ([], False)
        await one.add(ALICE.place, "p", b"new")
        await one.change(ALICE, SessionState.begin_turn)
        newer = await other.read(ALICE.place, "p", again.position)
        assert (list(newer.added), newer.is_whole) == ([b"new"], False)
        assert list((await other.read(ALICE.place, "p", newer.position)).added) == []


async def test_no_note_is_lost_that_several_calls_add_at_once(opened: Callable[[], Opened]) -> None:
    async with opened() as (one, other):
        wanted = [b"%d" % number for number in range(40)]
        await asyncio.gather(
            *((one, other)[at % 2].add(ALICE.place, "p", note) for at, note in enumerate(wanted)),
            *((one, other)[at % 2].change(ALICE, SessionState.begin_turn) for at in range(10)),
        )
        assert sorted(await all_notes(one)) == sorted(wanted)


async def test_notes_that_do_not_fit_are_not_added_and_this_is_told(
    opened: Callable[[], Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (bounds, stored):
        monkeypatch.setattr(module, "MAX_NOTE_BYTES", 1000)
    async with opened() as (one, other):
        await one.add(ALICE.place, "p", b"x" * 300)
        before = await other.read(ALICE.place, "p")
        assert not before.is_full
        await one.add(ALICE.place, "p", b"y" * 700)
        after = await other.read(ALICE.place, "p", before.position)
        assert (b"".join(after.added), after.is_full) == (b"", True)
        await one.add(ALICE.place, "p", b"z")
        last = await other.read(ALICE.place, "p")
        assert (b"".join(last.added), last.is_full) == (b"x" * 300, True)


async def test_a_session_that_ended_leaves_no_notes_to_its_successor(opened: Callable[[], Opened]) -> None:
    async with opened() as (one, other):
        await one.add(ALICE.place, "p", b"old")
        known = await other.read(ALICE.place, "p")
        await one.end(ALICE)
        gone = await other.read(ALICE.place, "p", known.position)
        assert (list(gone.added), gone.is_whole) == ([], True)
        await one.add(ALICE.place, "p", b"new")
        again = await other.read(ALICE.place, "p", known.position)
        assert (list(again.added), again.is_whole) == ([b"new"], True)


async def test_reading_notes_makes_no_session(opened: Callable[[], Opened]) -> None:
    async with opened() as (one, other):
        await one.read(ALICE.place, "p")
        assert not await other.exist()
        await one.add(ALICE.place, "p", b"note")
        assert await one.exist()
        assert (await other.open(ALICE)).is_known


async def test_notes_count_towards_the_room_of_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_KEY_BYTES", 10_000)
    keys = AcceptedKeys()
    for name in ("alice", "mallory"):
        keys.accept(name)
    sessions = LocalSessions(keys)
    await sessions.add(ALICE.place, "p", b"mine")
    for number in range(50):
        await sessions.add(SessionContext(f"s-{number}", key="mallory").place, "p", b"x" * 1000)
    assert await all_notes(sessions) == [b"mine"]
    kept = [await all_notes(sessions, SessionContext(f"s-{at}", key="mallory")) for at in range(50)]
    assert 5 <= sum(map(len, kept)) <= 10
    assert kept[-1]


async def test_stored_notes_count_towards_the_room_of_a_key(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MAX_KEY_BYTES", 3000)

    def sweep(rows: SessionRows) -> None:
        for number in range(5):
            used = update(models.sessions).where(models.sessions.c.id == f"s-{number}")
            rows._connection.execute(used.values(used=int(time.time()) + number))
        rows.sweep(3600)

    async with two(url, tmp_path) as (one, other):
        for number in range(5):
            await one.add(SessionContext(f"s-{number}", key="alice").place, "p", b"x" * 1000)
        assert isinstance(one, SharedSessions)
        await one._store.write(sweep)
        kept = [await all_notes(other, SessionContext(f"s-{at}", key="alice")) for at in range(5)]
        assert sum(map(len, kept)) == 2


async def test_an_engine_of_its_own_keeps_the_notes_on_its_last_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "_MAX_SESSIONS", 2)
    notes = MemoryNotes()
    for name in ("a", "b", "a", "c"):
        await notes.add(SessionContext(name).place, "p", name.encode())
    assert [await all_notes(notes, SessionContext(name)) for name in "ac"] == [[b"a", b"a"], [b"c"]]
    assert await all_notes(notes, SessionContext("b")) == []
