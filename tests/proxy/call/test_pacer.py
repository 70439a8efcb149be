"""A burst of tasks starts a few at a time, so that the event loop stays responsive."""

import asyncio

from hookgate.proxy.call.gateway import Pacer


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
