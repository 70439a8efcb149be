"""Counters in this process's memory, where nobody gave others."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime

from hookgate.hooks.policies.limits.windows import Clock

KEPT = 10_000
"""Numbers that are kept; the one that was added to longest ago is forgotten for a new one."""


class MemoryCounters:
    """Numbers that end with the process."""

    def __init__(self, clock: Clock, kept: int = KEPT) -> None:
        self._clock, self._most = clock, kept
        self._totals: OrderedDict[str, tuple[float, datetime]] = OrderedDict()

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        """The new total."""
        self.add_later(key, amount, expires)
        return self._totals[key][0]

    def add_later(self, key: str, amount: float, expires: datetime) -> None:
        """At once, in fact."""
        total, _ = self._totals.get(key, (0.0, expires))
        self._totals[key] = total + amount, expires
        self._totals.move_to_end(key)
        if len(self._totals) > self._most:
            self._forget()

    async def read(self, keys: Iterable[str]) -> Mapping[str, float]:
        """The totals that there are."""
        return {key: self._totals[key][0] for key in keys if key in self._totals}

    def _forget(self) -> None:
        now = self._clock()
        over = [key for key, (_, expires) in self._totals.items() if expires <= now]
        for key in over or [next(iter(self._totals))]:
            del self._totals[key]
