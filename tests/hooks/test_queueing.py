"""Concurrent hooks: the limit is never exceeded, none is forgotten, and sessions take turns."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.hooks.settings import asking, parallel

from hookgate.hooks import Configuration, Engine, SessionContext
from hookgate.hooks.fair_queue import FairQueue
from hookgate.hooks.settings import EngineLimits


async def served(
    limit: int,
    sessions: Sequence[str],
    cancelled: frozenset[int] = frozenset(),
    keys: Sequence[str] | None = None,
) -> list[int]:
    """The order in which callers of these sessions are served, all of them waiting behind a full queue."""
    keys = keys or [""] * len(sessions)
    queue, order, free = FairQueue(limit), [], asyncio.Event()
    at_once = 0

    async def call(number: int, session: str, key: str = "") -> None:
        nonlocal at_once
        await queue.acquire(session, key)
        at_once += 1
        assert at_once <= limit
        order.append(number)
        await free.wait()
        await asyncio.sleep(0)
        at_once -= 1
        queue.release()

    blockers = [asyncio.create_task(call(-1, "blocker")) for _ in range(limit)]
    await asyncio.sleep(0)
    assert not queue.free
    tasks = [asyncio.create_task(call(at, *each)) for at, each in enumerate(zip(sessions, keys, strict=True))]
    await asyncio.sleep(0)
    for number in cancelled:
        tasks[number].cancel()
    await asyncio.sleep(0)
    assert queue.waiting == len(sessions) - len(cancelled)
    free.set()
    await asyncio.gather(*blockers, *tasks, return_exceptions=True)
    assert queue.free
    return [number for number in order if number >= 0]


def test_the_time_to_leave_does_not_depend_on_how_many_wait() -> None:
    """Four times as many may take eight times as long; if each looked for its place, it would be 16 times."""

    async def seconds(runs: int) -> float:
        queue = FairQueue(0)
        tasks = [asyncio.create_task(queue.acquire("a session")) for _ in range(runs)]
        await asyncio.sleep(0)
        for task in reversed(tasks):
            task.cancel()
        begin = time.process_time()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert queue.waiting == 0
        return time.process_time() - begin

    asyncio.run(seconds(1000))
    # Of a machine that is busy with something else the best of a few tells.
    assert any(asyncio.run(seconds(8000)) < 8 * asyncio.run(seconds(2000)) for _ in range(3))


SESSIONS = st.lists(st.sampled_from("abc"), max_size=12)


@given(st.integers(1, 4), SESSIONS)
def test_everyone_is_served_and_each_session_in_its_own_order(limit: int, sessions: list[str]) -> None:
    order = asyncio.run(served(limit, sessions))
    assert sorted(order) == list(range(len(sessions)))
    for session in set(sessions):
        own = [number for number in order if sessions[number] == session]
        assert own == sorted(own)


@given(st.integers(1, 30), st.integers(1, 5))
def test_a_session_with_many_hooks_waiting_keeps_no_other_waiting_longer_than_one_of_them(
    storm: int, others: int
) -> None:
    sessions = ["storm"] * storm + [f"other {n}" for n in range(others)]
    order = asyncio.run(served(1, sessions))
    assert all(order.index(storm + n) <= others for n in range(others))


@given(st.integers(1, 30), st.integers(1, 5))
def test_a_key_with_many_sessions_waiting_keeps_no_other_waiting_longer_than_one_of_them(
    storm: int, others: int
) -> None:
    sessions = [f"storm {n}" for n in range(storm)] + ["own"] * others
    keys = ["storm"] * storm + [f"other {n}" for n in range(others)]
    order = asyncio.run(served(1, sessions, keys=keys))
    assert all(order.index(storm + n) <= others for n in range(others))


@given(st.integers(1, 3), SESSIONS, st.data())
def test_a_waiter_that_gives_up_does_not_lose_the_turn_of_another(
    limit: int, sessions: list[str], data: st.DataObject
) -> None:
    gone = frozenset(n for n in range(len(sessions)) if data.draw(st.booleans()))
    order = asyncio.run(served(limit, sessions, gone))
    assert sorted(order) == [n for n in range(len(sessions)) if n not in gone]


async def test_a_turn_that_comes_as_its_caller_gives_up_is_passed_on() -> None:
    queue, leave = FairQueue(1), asyncio.Event()

    async def hold() -> None:
        await queue.acquire("first")
        await leave.wait()
        queue.release()

    async def want(session: str) -> str:
        await queue.acquire(session)
        queue.release()
        return session

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0)
    second, third = (asyncio.create_task(want(session)) for session in ("second", "third"))
    await asyncio.sleep(0)
    leave.set()
    await holder  # its turn goes to the second, which is cancelled before it runs
    second.cancel()
    assert await asyncio.wait_for(third, 1) == "third"
    assert queue.free


async def test_an_event_that_waits_in_the_queue_is_denied_at_its_deadline() -> None:
    """Also one with a single hook whose own time limit is shorter: that does not run while it waits."""

    async def never_ends(_: Any) -> None:
        await asyncio.Event().wait()

    hooks = {"BeforeModel": (parallel(never_ends, timeout=40),)}
    judge = Engine(Configuration(hooks, EngineLimits(deadline=0.05, concurrency=1)))
    outcomes = await asyncio.gather(*(judge.fire(asking("hi"), SessionContext("s")) for _ in range(4)))
    assert getattr(outcomes[-1].runs[0].failure, "cause", "") == "overload"
    assert outcomes[-1].verdict.denied
