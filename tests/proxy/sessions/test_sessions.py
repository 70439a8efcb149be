"""The memory of sessions and calls: no key displaces another, not even with invented keys."""

import asyncio
from types import SimpleNamespace

import pytest

from hookgate.hooks import CallState, SessionContext
from hookgate.proxy.calls import event_service
from hookgate.proxy.calls.event_service import Rates
from hookgate.proxy.config.session_bounds import MAX_SESSIONS
from hookgate.proxy.keys.callers import AcceptedKeys
from hookgate.proxy.observe import receipts as kept
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.record import AuditState, CallRecord
from hookgate.proxy.sessions import memory as effects
from hookgate.proxy.sessions import sessions as local
from hookgate.proxy.sessions.memory import HookEffect
from hookgate.proxy.sessions.sessions import (
    MAX_CONTEXT,
    MAX_TOOLS,
    LocalSessions,
    Sessions,
    SessionState,
    text_fingerprint,
)


def session(key: str, name: str) -> SessionContext:
    return SessionContext(name, key=key)


def answered_record(key: str) -> CallRecord:
    """The record of a call that the model has answered."""
    record = CallRecord(kind="judged", session=session(key, "s"), audit_state=AuditState.NOT_AUDITED)
    with record.attempt() as attempt:
        attempt.answer_began(200)
    record.end(200, 0)
    return record


def accepted(*names: str) -> AcceptedKeys:
    keys = AcceptedKeys()
    for name in names:
        keys.accept(name)
    return keys


async def stop(sessions: Sessions, where: SessionContext) -> None:
    def step(state: SessionState) -> None:
        state.stopped = "enough"

    await sessions.change(where, step)


async def stopped(sessions: Sessions, where: SessionContext) -> str | None:
    return (await sessions.open(where)).state.stopped


async def flood(sessions: Sessions, key: str) -> None:
    """Begin more sessions than are remembered, with one key, or with one for each if it has a number."""
    for number in range(MAX_SESSIONS + 200):
        one = session(key.format(number), f"s-{number}")
        await sessions.change(one, SessionState.begin_turn)
        await sessions.link_prompt(one, str(number))


async def test_one_keys_sessions_do_not_displace_those_of_another() -> None:
    sessions = LocalSessions(accepted("alice", "mallory"))
    await stop(sessions, session("alice", "mine"))
    await sessions.link_prompt(session("alice", "mine"), "what now?")
    await flood(sessions, "mallory")
    assert await stopped(sessions, session("alice", "mine")) == "enough"
    said = [text_fingerprint("what now?")]
    assert (await sessions.open(session("alice", "x"), said)).session.session_id == "mine"


async def test_invented_keys_do_not_displace_one_that_works() -> None:
    sessions = LocalSessions(accepted("alice"))
    for number in range(100):
        await stop(sessions, session("alice", f"mine-{number}"))
    await flood(sessions, "junk-{}")
    for number in range(100):
        assert await stopped(sessions, session("alice", f"mine-{number}"))


async def test_events_before_a_keys_first_answer_are_kept_after_it() -> None:
    sessions = LocalSessions()
    await stop(sessions, session("alice", "mine"))
    sessions.accept("alice")
    assert await stopped(sessions, session("alice", "mine")) == "enough"
    await flood(sessions, "junk-{}")
    assert await stopped(sessions, session("alice", "mine")) == "enough"
    await sessions.end(session("alice", "mine"))
    assert await stopped(sessions, session("alice", "mine")) is None


async def test_a_session_that_began_before_its_keys_first_answer_ends_as_well() -> None:
    sessions = LocalSessions()
    await stop(sessions, session("alice", "mine"))
    sessions.accept("alice")
    await sessions.end(session("alice", "mine"))
    assert await stopped(sessions, session("alice", "mine")) is None


async def test_the_same_name_below_another_key_is_another_session() -> None:
    sessions = LocalSessions()
    await stop(sessions, session("alice", "s"))
    assert await stopped(sessions, session("bob", "s")) is None


@pytest.mark.parametrize(
    ("kind", "statuses", "answered"),
    [
        ("judged", [200], True),
        ("judged", [400, 200], True),
        ("judged", [400], False),
        ("judged", [], False),
        ("forwarded", [200], False),
    ],
)
def test_only_an_answer_of_the_model_proves_a_key(kind: str, statuses: list[int], answered: bool) -> None:
    record = CallRecord(kind=kind, session=session("junk", "s"), audit_state=AuditState.NOT_AUDITED)
    for status in statuses:
        with record.attempt() as attempt:
            attempt.answer_began(status)
    assert record.was_answered_by_model is answered


def test_a_key_has_a_share_of_its_own_once_it_is_accepted() -> None:
    keys = AcceptedKeys()
    assert keys.shares("junk") == (*keys.shares("other")[:1], "junk")
    keys.accept("junk")
    assert keys.shares("junk")[0] == "junk"


def test_one_keys_receipts_do_not_displace_those_of_another() -> None:
    receipts = Receipts()
    first = answered_record("alice")
    receipts.add(first)
    for _ in range(kept.KEPT_RECEIPTS + 200):
        receipts.add(CallRecord(session=session("mallory", "s"), call_state=CallState()))
    last = answered_record("alice")
    receipts.add(last)
    assert receipts.receipt_for(first.id, "alice") is not None
    assert receipts.receipt_for(first.id, "mallory") is None
    ids = [each["receipt"] for each in receipts.latest()]
    assert (ids[0], ids[-1], len(ids)) == (last.id, first.id, kept.KEPT_RECEIPTS)


def test_a_caller_has_so_many_events_a_second_and_no_more_after_a_quiet_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr(event_service, "time", clock)
    rates = Rates(per_second=3)

    def allowed_at(seconds: float) -> int:
        clock.monotonic = lambda: seconds
        return sum(rates.try_acquire("alice") for _ in range(10))

    assert [allowed_at(seconds) for seconds in (0.0, 0.5, 3600.0)] == [3, 1, 3]
    assert rates.try_acquire("bob")


def test_a_tool_that_is_counted_already_is_counted_on_when_no_other_one_is() -> None:
    state = SessionState()
    for number in range(MAX_TOOLS):
        state.count_announcement(f"tool-{number}", runs=True)
    state.count_announcement("one-more", runs=True)
    state.count_announcement("tool-0", runs=True)
    assert [state.use_announcement("tool-0", ran=True) for _ in range(3)] == [True, True, False]
    assert not state.use_announcement("one-more", ran=True)


def test_the_latest_context_is_kept_if_there_is_too_much() -> None:
    state = SessionState()
    state.add_context("first " * MAX_CONTEXT)
    state.add_context("last")
    kept_context = state.take_context()
    assert len(kept_context) == MAX_CONTEXT
    assert kept_context.endswith("first \nlast")
    assert state.take_context() == ""


ALL = {"session", "turns", "tools"}


@pytest.mark.parametrize(
    ("events", "claimed", "kinds"),
    [
        ([], "", set()),
        (["SessionStart"], "", {"session"}),
        (["BeforeAgent"], "", ALL),
        (["AfterAgent"], "", ALL),
        (["BeforeTool"], "", {"tools"}),
        (["AfterTool"], "", {"tools"}),
        (["SessionStart", "AfterTool"], "", {"session", "tools"}),
        (["PreCompress"], "", set()),
        ([], "session, tools", {"session", "tools"}),
        ([], "turns", {"turns"}),
        ([], "everything", set()),
        (["BeforeTool"], "session", {"session", "tools"}),
    ],
)
def test_what_a_shim_reports_is_known_by_its_events_and_its_claim(
    events: list[str], claimed: str, kinds: set[str]
) -> None:
    state = SessionState()
    for event in events:
        state.note_event(event)
    assert state.reported_kinds(claimed) == kinds


def test_a_stop_ends_with_the_turn() -> None:
    state = SessionState(turn="t-1", stopped="enough")
    state.update_turn("t-1")
    assert state.stopped == "enough"
    state.update_turn("t-2")
    assert (state.stopped, state.turn) == (None, "t-2")


def test_refusal_of_session_lasts_until_it_starts_again() -> None:
    state = SessionState(turn="t-1", stopped="turn", refused="session")
    state.update_turn("t-2")
    assert (state.stopped, state.refused, state.refusal) == (None, "session", "session")
    state.begin_session()
    assert (state.stopped, state.refused, state.refusal) == (None, None, None)


def test_each_run_of_a_tool_is_announced_and_used_once() -> None:
    state = SessionState()
    for runs in (True, True, False):
        state.count_announcement("sh", runs=runs)
    used = [state.use_announcement("sh", ran=ran) for ran in (True, True, True, False, False)]
    assert used == [True, True, False, True, False]
    assert not state.use_announcement("ls", ran=True)
    assert (state.announced, state.denied) == ({}, {})


def test_long_names_of_tools_take_no_more_memory_than_short_ones() -> None:
    state, tool = SessionState(), "t" * 1_000_000
    for runs in (True, False):
        state.count_announcement(tool, runs=runs)
        assert max(map(len, [*state.announced, *state.denied])) <= 64
        assert not state.use_announcement(tool + "x", ran=runs)
        assert state.use_announcement(tool, ran=runs)


def test_context_is_kept_in_lines_until_it_is_taken() -> None:
    state = SessionState()
    state.add_context("one")
    state.add_context("two")
    assert (state.take_context(), state.take_context()) == ("one\ntwo", "")


async def test_the_second_of_two_calls_that_begin_a_session_waits_for_the_first() -> None:
    sessions = LocalSessions()
    context, order, go = SessionContext("s-1"), [], asyncio.Event()

    async def begin(name: str, *, starts: bool) -> None:
        known = await sessions.open(context)
        async with known.starting() as judges:
            order.append((name, judges))
            await go.wait()
            if starts:
                await known.change(lambda state: state.memory.start(()))

    calls = [
        asyncio.create_task(begin(name, starts=name != "first")) for name in ("first", "second", "third")
    ]
    for _ in range(20):
        await asyncio.sleep(0)
    assert order == [("first", True)]
    go.set()
    await asyncio.gather(*calls)
    assert order == [("first", True), ("second", True), ("third", False)]  # the first one was refused


async def edit(sessions: Sessions, where: SessionContext, name: str, size: int) -> None:
    effect = HookEffect({"output": "x" * size})
    await sessions.change(where, lambda state: state.memory.remember(name, effect))


async def test_edits_of_tool_results_take_limited_room_in_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effects, "MAX_EFFECT_BYTES", 500)
    monkeypatch.setattr(local, "MAX_SESSION_BYTES", 700)
    sessions = LocalSessions()
    for name, size in (("large", 600), ("a", 300), ("b", 300), ("c", 300), ("b", 310)):
        await edit(sessions, session("alice", "s"), name, size)
    assert list((await sessions.open(session("alice", "s"))).state.memory.effects) == ["b", "c"]


async def test_the_key_with_the_most_bytes_of_edits_loses_its_oldest_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "MAX_KEY_BYTES", 2000)
    sessions = LocalSessions(accepted("alice", "mallory"))
    await edit(sessions, session("alice", "mine"), "result", 900)
    for number in range(20):
        await edit(sessions, session("mallory", f"s-{number}"), "result", 400)
    known = [(await sessions.open(session("mallory", f"s-{number}"))).is_known for number in range(20)]
    assert known == [False] * 18 + [True] * 2
    assert (await sessions.open(session("alice", "mine"))).is_known
