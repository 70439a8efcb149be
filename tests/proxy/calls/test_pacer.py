"""A burst of tasks starts a few at a time, and long ones take turns, so that the loop stays responsive."""

import asyncio
import threading

import pytest
from support.gateway.life import until

from hookgate.hooks.threads import run_in_file_thread
from hookgate.proxy.calls import pacing
from hookgate.proxy.calls.pacing import CallSteps, LongSteps, LoopSlices, Pacer
from hookgate.proxy.config import LimitSettings
from hookgate.proxy.server.bodies import BodyWorker


def call_steps(slices: LoopSlices, key: str, session_id: str) -> CallSteps:
    return CallSteps(BodyWorker(LimitSettings()), LongSteps(), slices, (key, session_id))


async def test_a_burst_begins_in_order_and_over_many_iterations() -> None:
    pacer, began = Pacer(), list[int]()

    async def begin(number: int) -> None:
        await pacer.wait_turn()
        began.append(number)

    tasks = [asyncio.create_task(begin(number)) for number in range(40)]
    most, before = 0, 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        most, before = max(most, len(began) - before), len(began)
    assert began == list(range(40))
    assert most <= 8  # those of one iteration, and those whose turn came in it


async def test_a_waiter_that_left_does_not_use_the_turn_of_another() -> None:
    pacer = Pacer()
    tasks = [asyncio.create_task(pacer.wait_turn()) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(each is None for each in ended) >= 10


async def test_one_alone_does_not_wait() -> None:
    pacer = Pacer()
    for _ in range(3):
        turn = asyncio.ensure_future(pacer.wait_turn())
        await asyncio.sleep(0)
        assert turn.done()
        await asyncio.sleep(0)


async def test_one_caller_s_many_long_calls_get_every_other_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    slices, ran = LoopSlices(), list[str]()

    async def run(key: str, session_id: str) -> None:
        own = call_steps(slices, key, session_id)
        for _ in range(5):
            await own.pause()
            ran.append(key)

    many = [asyncio.create_task(run("many", f"s-{number}")) for number in range(20)]
    await asyncio.sleep(0)
    one = asyncio.create_task(run("one", "s"))
    await one
    assert ran.count("many") <= 7  # its first turn may follow one of the others, and some were under way
    await asyncio.gather(*many)
    assert ran.count("many") == 100


async def test_one_slice_runs_in_each_iteration_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    slices, ran = LoopSlices(), 0

    async def run(session_id: str) -> None:
        nonlocal ran
        own = call_steps(slices, "key", session_id)
        for _ in range(10):
            await own.pause()
            ran += 1

    tasks = [asyncio.create_task(run(f"s-{number}")) for number in range(8)]
    most, before = 0, 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        most, before = max(most, ran - before), ran
    assert (ran, most) == (80, 1)


async def test_a_call_that_leaves_while_it_waits_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    slices = LoopSlices()
    waiting = [asyncio.create_task(call_steps(slices, "key", "s").pause()) for _ in range(10)]
    await asyncio.sleep(0)
    for task in waiting[::2]:
        task.cancel()
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(each is None for each in ended) == 5


async def test_a_call_whose_slice_has_not_ended_goes_on_at_once() -> None:
    slices = LoopSlices()
    waiting = asyncio.ensure_future(call_steps(slices, "key", "s").pause())
    await asyncio.sleep(0)
    assert waiting.done()


async def test_long_steps_run_one_after_another_and_callers_take_turns() -> None:
    steps, running, most, ran = LongSteps(), list[str](), 0, list[str]()

    def step(key: str) -> None:
        nonlocal most
        running.append(key)
        most = max(most, len(running))
        ran.append(key)
        running.remove(key)

    await asyncio.gather(
        *(steps.run(("many", f"s-{number}"), step, "many") for number in range(20)),
        steps.run(("one", "s"), step, "one"),
    )
    assert most == 1
    assert ran.index("one") <= 2


async def test_a_very_long_step_keeps_no_other_caller_waiting() -> None:
    steps, end = LongSteps(), threading.Event()
    long = asyncio.create_task(steps.run(("many", "s"), end.wait))
    async with asyncio.timeout(5):
        for number in range(3):
            assert await steps.run(("one", "s"), abs, -number) == number
    end.set()
    assert await long


async def test_of_each_key_one_step_runs_at_a_time_and_two_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a client could fill the threads with long steps, and others would wait for all of them."""
    monkeypatch.setattr(pacing, "_LONG_STEP", 0)
    steps, end, running = LongSteps(), threading.Event(), list[str]()

    def step(key: str) -> None:
        running.append(key)
        end.wait()

    many = [asyncio.create_task(steps.run(("many", f"s-{number}"), step, "many")) for number in range(10)]
    await until(lambda: running)
    async with asyncio.timeout(5):
        assert await steps.run(("one", "s"), abs, -1) == 1
    assert running == ["many"]
    other = [asyncio.create_task(steps.run((f"{number}", "s"), step, "other")) for number in range(3)]
    await until(lambda: "other" in running)
    for _ in range(10):  # in which a third one would have begun
        await asyncio.sleep(0)
    assert running == ["many", "other"]
    end.set()
    await asyncio.gather(*many, *other)


async def test_long_steps_keep_no_lookup_and_no_file_waiting() -> None:
    """These use the threads of the event loop and others, which a client must not fill."""
    steps, end = LongSteps(), threading.Event()
    long = [asyncio.create_task(steps.run((f"{number}", "s"), end.wait)) for number in range(40)]
    async with asyncio.timeout(5):
        assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
        assert await run_in_file_thread(abs, -1) == 1
    end.set()
    await asyncio.gather(*long)


async def test_a_step_whose_call_has_left_runs_on_and_then_makes_room_for_the_next_one() -> None:
    steps, began, end = LongSteps(), threading.Event(), threading.Event()

    def step() -> None:
        began.set()
        end.wait()

    left = asyncio.create_task(steps.run(("many", "s"), step))
    waiting = asyncio.create_task(steps.run(("many", "s"), end.wait))
    await until(began.is_set)
    left.cancel()
    waiting.cancel()
    await asyncio.gather(left, waiting, return_exceptions=True)
    after = asyncio.create_task(steps.run(("many", "t"), abs, -1))
    async with asyncio.timeout(5):
        assert await steps.run(("one", "s"), abs, -1) == 1
        assert not after.done()
        end.set()
        assert await after == 1
