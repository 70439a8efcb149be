"""A bounded mapping whose room is shared fairly, such as among the addresses of clients or among callers."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FairMapping(Generic[K, V]):
    """A bounded mapping with fair shares: values by share and key, at most `maxsize` in all.

    When it is full, the largest share loses its least recently used value, so no share loses a value to a
    larger one. Every operation takes constant time.
    """

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._values: dict[str, OrderedDict[K, V]] = {}
        self._by_size: dict[int, dict[str, None]] = {}  # shares by size, in order of arrival
        self._largest = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def size_of(self, share: str) -> int:
        """Return the number of values in a share."""
        return len(self._values.get(share, ()))

    def items(self) -> Iterator[tuple[str, V]]:
        """Iterate over the values with their shares."""
        return ((share, value) for share, values in self._values.items() for value in values.values())

    def latest(self, share: str) -> Iterator[tuple[K, V]]:
        """Iterate over the keys and values of a share, from the one that was used last."""
        return reversed(self._values.get(share, {}).items())

    def get(self, share: str, key: K) -> V | None:
        """Return a value and mark it as used, or return None if there is none."""
        values = self._values.get(share)
        if values is None or key not in values:
            return None
        values.move_to_end(key)
        return values[key]

    def store(self, share: str, key: K, value: V) -> None:
        """Store a value, and drop the least recently used one of the largest share if there are too many."""
        values = self._values.setdefault(share, OrderedDict())
        before = len(values)
        values[key] = value
        values.move_to_end(key)
        self._update_size(share, before)
        if self._count > self._maxsize:
            self.drop_oldest()

    def drop(self, share: str, key: K) -> V | None:
        """Remove and return a value, or return None if there is none."""
        values = self._values.get(share)
        if values is None or key not in values:
            return None
        value = values.pop(key)
        self._update_size(share, len(values) + 1)
        return value

    def oldest(self, share: str | None = None) -> tuple[str, K] | None:
        """Return share and key of the value to drop next, of all shares or of the given one, or None."""
        if share is None and self._count:
            share = next(iter(self._by_size[self._largest]))
        if share is None or share not in self._values:
            return None
        return share, next(iter(self._values[share]))

    def drop_oldest(self) -> None:
        """Drop the value that is next in order, if there is one."""
        if (oldest := self.oldest()) is not None:
            self.drop(*oldest)

    def _update_size(self, share: str, before: int) -> None:
        """Update the index by size after a share's number of values changed by at most one."""
        size = len(self._values[share])
        if size == before:
            return
        self._count += size - before
        if before:
            del self._by_size[before][share]
            if not self._by_size[before]:
                del self._by_size[before]
        if size:
            self._by_size.setdefault(size, {})[share] = None
        else:
            del self._values[share]
        if size > self._largest or self._largest not in self._by_size:
            self._largest = size
