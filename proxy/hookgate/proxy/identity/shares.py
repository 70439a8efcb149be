"""Fair shares of what a gateway has: values in memory, and events per second, for each key."""

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class FairMapping(Generic[K, V]):
    """A bounded mapping that is fair between owners: values by owner and key, at most `most` in all.

    When it is full, the owner with the most values loses its least recently used one, so no owner loses a
    value to one that has more. Every operation takes constant time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, OrderedDict[K, V]] = {}
        self._by_size: dict[
            int, dict[str, None]
        ] = {}  # owners by their number of values, in order of arrival
        self._largest = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def held_by(self, owner: str) -> int:
        """Return the number of values that an owner has."""
        return len(self._values.get(owner, ()))

    def get(self, owner: str, key: K) -> V | None:
        """Return a value and mark it as used, or return None if there is none."""
        values = self._values.get(owner)
        if values is None or key not in values:
            return None
        values.move_to_end(key)
        return values[key]

    def store(self, owner: str, key: K, value: V) -> None:
        """Store a value, and drop the oldest one if there are too many."""
        values = self._values.setdefault(owner, OrderedDict())
        before = len(values)
        values[key] = value
        values.move_to_end(key)
        self._update_size(owner, before)
        if self._count > self._most:
            self.drop_oldest()

    def drop(self, owner: str, key: K) -> V | None:
        """Remove and return a value, or return None if there is none."""
        values = self._values.get(owner)
        if values is None or key not in values:
            return None
        value = values.pop(key)
        self._update_size(owner, len(values) + 1)
        return value

    def oldest(self, owner: str | None = None) -> tuple[str, K] | None:
        """Return owner and key of the value to drop next, of all or of one owner's, or None."""
        if owner is None and self._count:
            owner = next(iter(self._by_size[self._largest]))
        if owner is None or owner not in self._values:
            return None
        return owner, next(iter(self._values[owner]))

    def drop_oldest(self) -> None:
        """Drop the value that is next in order, if there is one."""
        if (oldest := self.oldest()) is not None:
            self.drop(*oldest)

    def _update_size(self, owner: str, before: int) -> None:
        """Update the index by size after an owner's number of values changed by at most one."""
        size = len(self._values[owner])
        if size == before:
            return
        self._count += size - before
        if before:
            del self._by_size[before][owner]
            if not self._by_size[before]:
                del self._by_size[before]
        if size:
            self._by_size.setdefault(size, {})[owner] = None
        else:
            del self._values[owner]
        if size > self._largest or self._largest not in self._by_size:
            self._largest = size


KEPT_KEYS = 10_000
"""Accepted keys that are remembered; the least recently used one is forgotten first."""

_UNPROVEN = ""
"""The owner that all callers without an accepted key share."""


class AcceptedKeys:
    """Distinguishes keys that work from invented ones.

    The gateway accepts any key and cannot check it. If each had a share of its own, a client could invent
    enough keys to crowd out all others. So a key gets its own share once the model has answered a call with
    it; until then all unproven keys use one share.
    """

    def __init__(self) -> None:
        self._accepted: LRUCache[str, None] = LRUCache(KEPT_KEYS)

    def accept(self, key: str) -> None:
        """Note that the model has answered a call with this key."""
        self._accepted[key] = None

    def owners(self, key: str) -> tuple[str, ...]:
        """Return the owners for a key's values: first the current one, then where older values may be."""
        return (key, _UNPROVEN) if key in self._accepted else (_UNPROVEN, key)


KEPT_BUCKETS = 10_000
"""Callers whose rates are remembered."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float = field(default_factory=time.monotonic)


class Rates:
    """A token bucket for each caller: `per_second` uses a second, and as many in one burst.

    When there are too many callers, the least recently used bucket is dropped; its caller gets a full one.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._buckets: LRUCache[str, _Bucket] = LRUCache(KEPT_BUCKETS)

    def try_acquire(self, caller: str) -> bool:
        """Take a token. Returns False if the caller has none left."""
        now = time.monotonic()
        bucket = self._buckets.setdefault(caller, _Bucket(self._per_second, now))
        bucket.left = min(self._per_second, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
