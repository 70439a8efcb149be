"""Sessions in a database: a process reads the changes of another."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Table, event, func, select, update
from support.gateway.databases import cut, postgres
from support.programs.processes import eventually

from hookgate.hooks import SessionContext
from hookgate.proxy.errors import ApiError
from hookgate.proxy.sessions import memory, shared
from hookgate.proxy.sessions import table as stored
from hookgate.proxy.sessions.memory import HookEffect
from hookgate.proxy.sessions.sessions import OpenSession, SessionState, text_fingerprint
from hookgate.proxy.sessions.shared import SharedSessions
from hookgate.proxy.sessions.table import SessionRows, mark_of_session, open_session_store
from hookgate.proxy.store import models

ALICE = SessionContext("s", key="alice")


@asynccontextmanager
async def process(url: str | None, state: Path) -> AsyncIterator[SharedSessions]:
    """The sessions as one process has them."""
    store = open_session_store(url, state, hours=1)
    try:
        yield SharedSessions(store)
    finally:
        await store.close()


@asynccontextmanager
async def two(url: str | None, state: Path) -> AsyncIterator[tuple[SharedSessions, SharedSessions]]:
    async with process(url, state) as one, process(url, state) as other:
        yield one, other


def stop(state: SessionState) -> None:
    state.stopped = "enough"


def remember(identity: str, text: str) -> Callable[[SessionState], None]:
    return lambda state: state.memory.remember(identity, HookEffect({"text": text}))


async def rows(sessions: SharedSessions, table: Table) -> int:
    """The number of rows in a table."""

    def count(rows: SessionRows) -> int:
        return rows._connection.execute(select(func.count()).select_from(table)).scalar_one()

    return await sessions._store.read(count)


async def test_a_change_applies_to_the_next_call_at_another_process(url: str | None, tmp_path: Path) -> None:
    async with two(url, tmp_path) as (one, other):
        assert not await other.exist()
        assert not (await other.open(ALICE)).is_known
        await one.change(ALICE, stop)
        assert await other.exist()
        known = await other.open(ALICE)
        assert (known.state.stopped, known.is_known) == ("enough", True)
        await other.change(ALICE, SessionState.begin_turn)
        assert (await one.open(ALICE)).state.stopped is None


async def test_a_change_is_marked_before_another_process_can_read_it_and_again_after_it(
    tmp_path: Path,
) -> None:
    async with two(None, tmp_path) as (one, other):
        await one.change(ALICE, stop)
        mark = mark_of_session((ALICE.key, ALICE.session_id))
        numbers = [other._store.number(mark)]

        def note(_: object) -> None:
            numbers.append(other._store.number(mark))

        event.listen(Engine, "commit", note)
        try:
            await one.change(ALICE, SessionState.begin_turn)
        finally:
            event.remove(Engine, "commit", note)
        numbers.append(other._store.number(mark))
    assert len(set(numbers)) == 3


async def test_whether_there_are_sessions_is_not_asked_again_once_there_was_one(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(url, tmp_path) as (one, other):
        await one.change(ALICE, stop)
        assert await other.exist()
        asked: list[object] = []
        for sessions in (one, other):
            monkeypatch.setattr(sessions._store, "read", asked.append)
        assert await one.exist()
        assert await other.exist()
        assert asked == []


async def test_every_part_of_a_state_is_stored(url: str | None, tmp_path: Path) -> None:
    def fill(state: SessionState) -> None:
        state.note_event("BeforeAgent")
        state.stopped = "enough"
        state.refused = "never"
        state.add_context("more")
        state.turn, state.transcript_turns = "t", 3
        state.count_announcement("sh", runs=True)
        state.count_announcement("ls", runs=False)
        state.memory.start(("context",))
        state.memory.note_turn("t", "t-hooks", ("added",), is_question=False)
        state.memory.note_turn("q", "q-hooks", (), is_question=True)
        state.memory.remember("r", HookEffect({"name": "sh", "response": {"output": "é"}}))

    async with two(url, tmp_path) as (one, other):
        _, state = await one.change(ALICE, fill)
        assert (await other.open(ALICE)).state == state


async def test_changes_at_two_processes_are_not_lost(url: str | None, tmp_path: Path) -> None:
    async with two(url, tmp_path) as (one, other):
        step = lambda state: state.count_announcement("sh", runs=True)  # noqa: E731  # for both
        await asyncio.gather(*(sessions.change(ALICE, step) for sessions in (one, other) for _ in range(20)))
        assert (await one.open(ALICE)).state.announced["sh"] == 40


async def test_effects_are_read_once_and_new_ones_in_addition(url: str | None, tmp_path: Path) -> None:
    async with two(url, tmp_path) as (one, other):
        for number in range(3):
            await one.change(ALICE, remember(f"r-{number}", "hidden"))
            effects = (await other.open(ALICE)).state.memory.effects
            assert list(effects) == [f"r-{n}" for n in range(number + 1)]
        before = (await other.open(ALICE)).state
        assert (await other.open(ALICE)).state is before  # nothing was decoded again


async def test_the_first_effect_on_a_result_is_joined_by_later_context(
    url: str | None, tmp_path: Path
) -> None:
    async with two(url, tmp_path) as (one, other):
        await one.change(ALICE, lambda state: state.memory.remember("t", HookEffect(None, ("a",))))
        await other.change(ALICE, lambda state: state.memory.remember("t", HookEffect(None, ("b",))))
        effect = (await one.open(ALICE)).state.memory.effect_on("t")
        assert effect == HookEffect(None, ("a", "b"))


async def test_what_two_calls_judge_at_once_is_kept_as_the_first_one_judged_it(
    url: str | None, tmp_path: Path
) -> None:
    def judged(name: str) -> Callable[[SessionState], None]:
        def step(state: SessionState) -> None:
            state.memory.remember_results({"r": HookEffect({"by": name}, (name,))})
            state.memory.note_turn("t", "t-hooks", (name,), is_question=False)

        return step

    async with two(url, tmp_path) as (one, other):
        await one.change(ALICE, judged("one"))
        await other.change(ALICE, judged("other"))
        conversation = (await one.open(ALICE)).state.memory
        assert conversation.effect_on("r") == HookEffect({"by": "one"}, ("one",))
        assert conversation.effect_on("t") == HookEffect(None, ("one",))


async def test_the_oldest_effects_of_a_session_are_forgotten(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "KEPT_RESULTS", 3)
    async with two(url, tmp_path) as (one, other):
        for number in range(6):
            await (one, other)[number % 2].change(ALICE, remember(str(number), "x"))
        assert list((await one.open(ALICE)).state.memory.effects) == ["3", "4", "5"]
        assert await rows(one, models.session_effects) == 3


async def test_effects_that_take_too_much_room_are_not_kept(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_EFFECT_BYTES", 500)
    monkeypatch.setattr(stored, "MAX_SESSION_BYTES", 700)
    async with two(url, tmp_path) as (one, other):
        for name, size in (("large", 600), ("a", 300), ("b", 300), ("c", 300)):
            await one.change(ALICE, remember(name, "x" * size))
        assert list((await other.open(ALICE)).state.memory.effects) == ["b", "c"]


async def test_effects_are_kept_up_to_the_last_byte_that_a_session_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(None, tmp_path) as (one, other):
        for name in ("a", "b"):
            await one.change(ALICE, remember(name, "x" * 300))
        size = select(func.sum(func.length(models.session_effects.c.document)))
        room = await one._store.read(lambda rows: rows._connection.execute(size).scalar_one())
        monkeypatch.setattr(stored, "MAX_SESSION_BYTES", room)
        await one.change(ALICE, remember("c", "x" * 300))
        assert list((await other.open(ALICE)).state.memory.effects) == ["b", "c"]


@pytest.mark.parametrize("levels", [100, 300, 5000])
async def test_an_effect_that_could_not_be_read_again_is_not_kept(
    levels: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise no process could read the session, and each of its calls would be refused."""

    def nested(levels: int) -> HookEffect:
        value: Any = []
        for _ in range(levels):
            value = [value]
        return HookEffect({"output": value})

    async with two(None, tmp_path) as (one, other):
        await one.change(ALICE, lambda state: state.memory.remember("deep", nested(levels)))
        await one.change(ALICE, lambda state: state.memory.remember("flat", nested(90)))
        [message] = caplog.messages
        assert message.endswith(
            "could not be stored, so the result will be judged again: it nests deeper than 100 levels"
        )
        assert list((await one.open(ALICE)).state.memory.effects) == ["flat"]
        assert list((await other.open(ALICE)).state.memory.effects) == ["flat"]


async def test_a_session_that_ended_leaves_nothing_to_its_successor(url: str | None, tmp_path: Path) -> None:
    async with two(url, tmp_path) as (one, other):
        await one.change(ALICE, remember("old", "x"))
        await other.open(ALICE)
        await one.end(ALICE)
        assert not (await other.open(ALICE)).is_known
        await one.change(ALICE, remember("new", "x"))
        assert list((await other.open(ALICE)).state.memory.effects) == ["new"]


async def test_a_nameless_call_is_found_by_its_prompt_and_later_by_its_conversation(
    url: str | None, tmp_path: Path
) -> None:
    nameless = SessionContext("conversation", key="alice")
    async with two(url, tmp_path) as (one, other):
        await one.change(ALICE, stop)
        prompts = ["x", text_fingerprint("what now?")]
        for asked in ([], prompts):
            assert (await other.open(nameless, asked)).session == nameless
        await one.link_prompt(ALICE, "what now?")
        found = await other.open(nameless, prompts)
        assert (found.session.session_id, found.state.stopped) == ("s", "enough")
        assert (await one.open(nameless, [])).session.session_id == "s"
        assert (await one.open(nameless)).session == nameless  # a session that the client names
        stranger = SessionContext("conversation", key="bob")
        assert (await one.open(stranger, [text_fingerprint("what now?")])).session == stranger


async def started(known: OpenSession, judged: list[str], name: str) -> None:
    async with known.starting() as is_first:
        if is_first:
            await asyncio.sleep(0)  # a hook runs
            judged.append(name)
            await known.change(lambda state: state.memory.start((name,)))
    assert known.state.memory.waiting == (judged[0],)


async def test_one_of_several_processes_judges_the_start_of_a_session(
    url: str | None, tmp_path: Path
) -> None:
    judged: list[str] = []
    async with two(url, tmp_path) as (one, other):
        calls = [
            started(await sessions.open(ALICE), judged, name)
            for sessions, name in ((one, "one"), (one, "again"), (other, "other"))
        ]
        await asyncio.gather(*calls)
    assert len(judged) == 1


async def test_a_start_that_was_refused_is_judged_again(url: str | None, tmp_path: Path) -> None:
    async with two(url, tmp_path) as (one, other):
        with suppress(LookupError):
            async with (await one.open(ALICE)).starting() as is_first:
                assert is_first
                raise LookupError
        async with (await other.open(ALICE)).starting() as is_first:
            assert is_first


async def test_a_call_that_is_cancelled_while_it_claims_the_start_does_not_block_the_session(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming, cancelled = threading.Event(), threading.Event()
    claim_start = memory.ConversationMemory.claim_start

    def claim(*values: Any) -> bool:
        claiming.set()
        cancelled.wait()
        return claim_start(*values)

    monkeypatch.setattr(memory.ConversationMemory, "claim_start", claim)
    async with two(url, tmp_path) as (one, other), asyncio.timeout(30):
        call = asyncio.create_task(started(await one.open(ALICE), [], "one"))
        await asyncio.to_thread(claiming.wait)
        call.cancel()
        asyncio.get_running_loop().call_soon(cancelled.set)
        with pytest.raises(asyncio.CancelledError):
            await call
        async with (await other.open(ALICE)).starting() as is_first:
            assert is_first


async def test_the_claim_of_a_process_that_died_lapses(tmp_path: Path) -> None:
    async with two(None, tmp_path) as (one, other):
        past = time.time() - memory.CLAIM_SECONDS - 1
        await one.change(ALICE, lambda state: state.memory.claim_start("dead", past))
        async with (await other.open(ALICE)).starting() as is_first:
            assert is_first


async def test_each_accepted_key_has_a_share_and_all_others_have_one(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MAX_SESSIONS", 2)
    async with process(url, tmp_path) as sessions:
        sessions.accept("alice")
        for number in range(4):
            await sessions.change(SessionContext(f"s-{number}", key="alice"), stop)
            await sessions.change(SessionContext("s", key=f"junk-{number}"), stop)

        def age(rows: SessionRows) -> None:
            now = int(time.time())
            for number in range(4):
                used = update(models.sessions).values(used=now - 10 + number)
                rows._connection.execute(used.where(models.sessions.c.id == f"s-{number}"))
                rows._connection.execute(used.where(models.sessions.c.key == f"junk-{number}"))
            rows.sweep(3600)

        await sessions._store.write(age)
        for number in range(4):
            kept = number >= 2
            assert (await sessions.open(SessionContext(f"s-{number}", key="alice"))).is_known is kept
            assert (await sessions.open(SessionContext("s", key=f"junk-{number}"))).is_known is kept


async def test_sessions_that_were_not_used_for_long_are_removed(url: str | None, tmp_path: Path) -> None:
    async with process(url, tmp_path) as sessions:
        await sessions.change(ALICE, remember("r", "x"))
        await sessions.link_prompt(ALICE, "what now?")
        await sessions._store.write(lambda rows: rows.sweep(-1))
        for table in (models.sessions, models.session_effects, models.session_names):
            assert await rows(sessions, table) == 0


def noted_use(rows: SessionRows) -> int:
    return rows._connection.execute(select(func.max(models.sessions.c.used))).scalar_one()


async def test_a_session_in_use_is_not_removed(url: str | None, tmp_path: Path) -> None:
    async with process(url, tmp_path) as sessions:
        await sessions.change(ALICE, stop)
        await sessions._store.write(
            lambda rows: rows._connection.execute(update(models.sessions).values(used=0))
        )
        await sessions.open(ALICE)
        async with asyncio.timeout(10):  # the use is noted in another thread
            while not await sessions._store.read(noted_use):  # noqa: ASYNC110  # a thread sets no event
                await asyncio.sleep(0.01)
        await sessions._store.write(lambda rows: rows.sweep(3600))
        assert (await sessions.open(ALICE)).is_known


async def test_the_use_of_a_session_is_noted_every_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that find the session in memory count as well, but not each of them costs a statement."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    async with process(None, tmp_path) as sessions:
        await sessions.change(ALICE, stop)
        noted: list[object] = []
        monkeypatch.setattr(sessions._store, "write_later", noted.append)
        for _ in range(30):
            await sessions.open(ALICE)
            now += 60
        assert len(noted) == 2
        for _ in range(3):
            assert not (await sessions.open(SessionContext("new", key="alice"))).is_known
        assert len(noted) == 2


async def test_calls_are_refused_while_the_store_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with process(None, tmp_path) as sessions:
        await sessions.change(ALICE, stop)
        rename = "ALTER TABLE {} RENAME TO {}"
        await sessions._store.write(
            lambda rows: rows._connection.exec_driver_sql(rename.format("sessions", "away"))
        )
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: sessions.open(ALICE),
            lambda: sessions.change(ALICE, stop),
            lambda: sessions.end(ALICE),
        ]
        for attempt in attempts:
            with pytest.raises(ApiError, match="cannot read or write the state of sessions") as raised:
                await attempt()
            assert raised.value.reason == "SESSIONS_UNAVAILABLE"
            assert "no such table" not in raised.value.message
        assert caplog.text.count("no such table") == 1
        await sessions._store.write(
            lambda rows: rows._connection.exec_driver_sql(rename.format("away", "sessions"))
        )
        assert (await sessions.open(ALICE)).state.stopped == "enough"


async def test_sessions_are_not_usable_while_the_store_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_CHECK_SECONDS", 0)

    async def execute(statement: str) -> None:
        await sessions._store.write(lambda rows: rows._connection.exec_driver_sql(statement))

    async with process(None, tmp_path) as sessions:
        assert sessions.are_usable()
        await execute("ALTER TABLE sessions RENAME TO away")
        await eventually(lambda: not sessions.are_usable())
        await execute("ALTER TABLE away RENAME TO sessions")
        await eventually(sessions.are_usable)


async def test_a_restart_of_the_server_is_not_noticed(tmp_path: Path) -> None:
    with postgres() as server:
        async with process(server, tmp_path) as sessions:
            await sessions.change(ALICE, stop)
            cut(server.rpartition("/")[2])
            assert (await sessions.open(ALICE)).state.stopped == "enough"


async def test_the_sessions_of_a_key_fill_its_room_to_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with process(None, tmp_path) as one:
        of_key = [SessionContext(f"s-{number}", key="alice") for number in range(3)]
        for session in of_key:
            await one.change(session, stop)

        def sweep(rows: SessionRows) -> None:
            now, size = int(time.time()), 500
            for number in range(3):
                aged = update(models.sessions).values(used=now - 10 + number, size=size)
                rows._connection.execute(aged.where(models.sessions.c.id == f"s-{number}"))
            monkeypatch.setattr(stored, "MAX_KEY_BYTES", 2 * size)
            rows.sweep(3600)

        await one._store.write(sweep)
        assert [(await one.open(session)).is_known for session in of_key] == [False, True, True]
