"""Laws of the policy `limits` for calls and hooks in any order."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st
from support.hooks.limits import FLASH, PRO, Clock, Limited, caller, end

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.counters import MemoryCounters
from hookgate.hooks.session import ExpectedUse


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


def expecting(tokens: int) -> SessionContext:
    """Return the session of a call that is expected to use so many tokens."""
    session = caller()
    session.call_state.expected = ExpectedUse(tokens // 2, tokens - tokens // 2)
    return session


@given(
    most=st.integers(1, 100),
    expected=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    measure=st.sampled_from(["tokens", "cost"]),
    seed=st.integers(0, 2**32),
    seconds=st.integers(0, 1200),
)
@example(most=1, expected=[3, 1], measure="cost", seed=362, seconds=0)
def test_at_most_one_of_concurrent_calls_exceeds_a_limit(
    most: int, expected: list[int], measure: str, seed: int, seconds: int
) -> None:
    """Calls use no more than is expected of them; those that pass fit the limit without the last one."""

    async def run() -> None:
        clock = Clock()
        rule = {"per": "key", "window": "day", measure: most if measure == "tokens" else most / 1_000_000}
        limited = Limited([rule], Slow(clock, seed), clock)
        clock.move(seconds=seconds)
        sessions = [expecting(tokens) for tokens in expected]
        denials = await asyncio.gather(*map(limited.begin, sessions))
        passed = [tokens for tokens, denial in zip(expected, denials, strict=True) if denial is None]
        assert passed
        assert sum(passed) - max(passed) < most
        for session, tokens, denial in zip(sessions, expected, denials, strict=True):
            end(session, output_tokens=tokens if denial is None else 0, cost=tokens / 1_000_000)
            if denial is not None:
                end(session)
        if denials.count(None) == len(expected):
            assert (await limited.begin() is None) == (sum(expected) < most)

    asyncio.run(run())


@given(used=st.lists(st.integers(0, 30), max_size=12), most=st.integers(1, 100))
def test_calls_one_after_another_are_limited_by_what_they_used(used: list[int], most: int) -> None:
    """However much was held for a call, it does not count once the call has ended."""

    async def run() -> None:
        limited = Limited([{"per": "key", "window": "day", "tokens": most}])
        total = 0
        for tokens in used:
            session = expecting(5000)
            assert (await limited.begin(session) is None) == (total < most)
            if total < most:
                total += tokens
                end(session, output_tokens=tokens)

    asyncio.run(run())


async def test_a_denial_says_how_much_is_held_for_calls_in_progress() -> None:
    limited = Limited([{"per": "key", "window": "day", "tokens": 15}])
    running = expecting(8200)
    assert await limited.begin(running) is None
    denied = expecting(10)
    assert "8,200 of 15 tokens of this key have been used today, of which 8,200 are held" in str(
        await limited.begin(denied)
    )
    end(running, output_tokens=3)
    assert await limited.begin(denied) is None


async def test_what_a_killed_gateway_held_expires() -> None:
    limited = Limited([{"per": "key", "window": "month", "tokens": 15}])
    assert await limited.begin(expecting(8200)) is None
    limited.clock.move(minutes=9)
    assert await limited.begin() is not None
    limited.clock.move(minutes=11)
    assert await limited.begin() is None


async def test_a_live_session_holds_its_next_turn_and_not_its_earlier_ones() -> None:
    limited = Limited([{"per": "key", "window": "month", "tokens": 100}])
    session = expecting(90)
    for _ in range(3):
        assert await limited.begin(session) is None
        end(session, output_tokens=20, continues=True)
        limited.clock.move(minutes=11)
    assert await limited.begin(caller()) is not None
    assert await limited.begin(session) is None
    end(session)
    assert await limited.begin(caller()) is None
