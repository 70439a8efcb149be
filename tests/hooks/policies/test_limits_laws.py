"""Laws of the policy `limits` for calls and hooks in any order."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.limits import FLASH, PRO, Clock, Limited, caller

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.counters import MemoryCounters


class Slow(MemoryCounters):
    """Counters as far away as a database: others get their turn meanwhile, in an order drawn by lot."""

    def __init__(self, clock: Clock, seed: int) -> None:
        super().__init__(clock)
        self._random = random.Random(seed)  # noqa: S311  # an order, not a secret

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        await self._wait()
        total = await super().add(key, amount, expires)
        await self._wait()
        return total

    async def read(self, keys: Iterable[str]) -> Mapping[str, float]:
        found = await super().read(keys)
        await self._wait()
        return found

    async def _wait(self) -> None:
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)


@given(
    most=st.integers(1, 4),
    calls=st.lists(st.tuples(st.sampled_from([FLASH, PRO]), st.integers(1, 3)), max_size=12),
    seed=st.integers(0, 2**32),
)
def test_never_more_requests_pass_than_are_allowed(
    most: int, calls: list[tuple[str, int]], seed: int
) -> None:
    """Whatever calls run at once, and however often the hook runs for each."""

    async def passed() -> list[str]:
        clock = Clock()
        few = {"per": "everyone", "window": "minute", "requests": 2, "models": "*-pro"}
        rules = [{"per": "key", "window": "minute", "requests": most}, few]
        limited = Limited(rules, Slow(clock, seed), clock)

        async def run(model: str, times: int) -> str | None:
            session = caller()
            denials = [await limited.begin(session, model) for _ in range(times)]
            return None if denials[-1] else model

        found = await asyncio.gather(*(run(*call) for call in calls))
        assert len([model for model in found if model]) <= most
        again = await limited.begin()
        assert (again is None) == (len([model for model in found if model]) < most)  # denials used nothing
        return [model for model in found if model]

    models = asyncio.run(passed())
    assert models.count(PRO) <= 2


@given(
    steps=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    most=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_each_minute_lets_as_many_pass_as_are_allowed(steps: list[int], most: int, seed: int) -> None:
    """Calls one after another, some seconds apart: a minute is full exactly when its number has passed."""

    async def run() -> None:
        clock = Clock()
        limited = Limited([{"per": "key", "window": "minute", "requests": most}], Slow(clock, seed), clock)
        passed: dict[datetime, int] = {}
        for seconds in steps:
            clock.move(seconds=seconds)
            minute = clock.now - timedelta(seconds=clock.now.second)
            denied = await limited.begin() is not None
            assert denied == (passed.get(minute, 0) >= most)
            passed[minute] = passed.get(minute, 0) + (not denied)

    asyncio.run(run())


async def test_two_policies_at_once_count_a_call_once() -> None:
    clock = Clock()
    rule = {"per": "key", "window": "day", "requests": 2}
    limited = Limited([rule], Slow(clock, 7), clock)
    other = Limited([rule], limited.counters, clock)

    async def call(session: SessionContext) -> list[str | None]:
        return list(await asyncio.gather(limited.begin(session), other.begin(session)))

    assert await call(caller()) == [None, None]
    assert await call(caller()) == [None, None]
    assert None not in await call(caller())


async def test_memory_keeps_so_many_numbers_and_forgets_the_oldest() -> None:
    clock = Clock()
    counters = MemoryCounters(clock, kept=2)
    soon, later = clock.now + timedelta(minutes=1), clock.now + timedelta(days=1)
    for key, expires in (("over", soon), ("a", later)):
        await counters.add(key, 1, expires)
    clock.move(minutes=1)
    await counters.add("b", 1, later)
    assert await counters.read(["over", "a", "b"]) == {"a": 1, "b": 1}
    await counters.add("a", 1, later)
    await counters.add("c", 1, later)
    assert await counters.read(["a", "b", "c"]) == {"a": 2, "c": 1}
