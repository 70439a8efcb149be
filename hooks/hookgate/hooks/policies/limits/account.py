"""What one call takes of the limits: a request as it begins, tokens and cost as it ends."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hookgate.hooks.kinds.builtin import Counters
from hookgate.hooks.policies.limits.counts import Count, counts_of
from hookgate.hooks.policies.limits.options import Rule
from hookgate.hooks.policies.limits.windows import Clock
from hookgate.hooks.session import CallEnd, Session

log = logging.getLogger("hookgate.hooks")


@dataclass(frozen=True, slots=True)
class Full:
    """A count with no room for the call, and how much of it others have used."""

    count: Count
    used: float


@dataclass(slots=True)
class _Held:
    """A request that was counted: the total it made, and which policies it was counted for."""

    count: Count
    total: float
    holders: set[object] = field(default_factory=set)


class Account:
    """One call's, shared by all policies that it passes: each number is added to once, whoever asks."""

    def __init__(self, counters: Counters, session: Session, clock: Clock) -> None:
        self._counters, self._session, self._clock = counters, session, clock
        self._began = clock()  # a hook that runs again in the next minute must not count in both
        self._lock = asyncio.Lock()
        self._held: dict[str, _Held] = {}
        self._rules: set[Rule] = set()
        session.call.at_end.append(self._end)

    async def take(self, holder: object, rules: Sequence[Rule], model: str) -> Full | None:
        """Count the call as a request for one policy, or find the first count that is full, and count it not.

        Whoever runs again for the call asks again: what was counted then and is no more about the model is
        given back. Raises what counters raise.
        """
        async with self._lock:
            self._rules.update(rules)
            about = [rule for rule in rules if rule.is_about(model)]
            counts = list(counts_of(about, self._session, self._began))
            await self._give_back(holder, but={count.key for count in counts})
            full = await self._full(counts) or await self._added(holder, counts)
            if full:
                await self._give_back(holder)
            return full

    async def _full(self, counts: Iterable[Count]) -> Full | None:
        """The first count that is full already: looked at first, as a denied call should write nothing."""
        others = [count for count in counts if count.key not in self._held]
        used = await self._counters.read({count.key for count in others})
        over = (count for count in others if used.get(count.key, 0) >= count.most)
        return next((Full(count, used[count.key]) for count in over), None)

    async def _added(self, holder: object, counts: Iterable[Count]) -> Full | None:
        """Add the request. Of two calls that see the last place one gets it, as no total comes twice."""
        for count in counts:
            if count.measure != "requests":
                continue
            held = self._held.get(count.key)
            if held is None:
                total = await self._counters.add(count.key, 1, count.ends)
                held = self._held[count.key] = _Held(count, total)
            held.holders.add(holder)
            if held.total > count.most:
                return Full(count, held.total - 1)
        return None

    async def _give_back(self, holder: object, but: Iterable[str] = ()) -> None:
        """Take back what was counted for a policy and for no other, except some."""
        for key in self._held.keys() - set(but):
            held = self._held[key]
            held.holders.discard(holder)
            if not held.holders:
                del self._held[key]
                await self._counters.add(key, -1, held.count.ends)

    def _end(self, end: CallEnd) -> None:
        """Count what was used, in the windows that the call ends in: those it began in may be over."""
        about = [rule for rule in self._rules if rule.is_about(end.model)]
        tokens = end.input_tokens + end.output_tokens
        if tokens and end.cost is None and any(rule.cost for rule in about):
            log.warning(
                "the cost of a call to %r is not counted: the price table does not know it", end.model
            )
        used = {"tokens": tokens, "cost": end.cost or 0}
        counts = {count.key: count for count in counts_of(about, self._session, self._clock())}
        for key, count in counts.items():
            if amount := used.get(count.measure):
                self._counters.add_later(key, amount, count.ends)
