"""A bounded memory that several owners share: whoever holds most of it gives way first."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Shares(Generic[K, V]):
    """Values by owner and key, `most` of them in all.

    For one too many, the owner with most values loses the one that was not used for longest. So nobody loses
    a value to an owner that holds more, however many that one brings. Each step takes the same time whatever
    is held.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, OrderedDict[K, V]] = {}
        self._by_size: dict[int, dict[str, None]] = {}  # the owners of so many values, in order of arrival
        self._largest = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def held_by(self, owner: str) -> int:
        """How many values are the owner's."""
        return len(self._values.get(owner, ()))

    def get(self, owner: str, key: K) -> V | None:
        """A value, which counts as used by that."""
        values = self._values.get(owner)
        if values is None or key not in values:
            return None
        values.move_to_end(key)
        return values[key]

    def keep(self, owner: str, key: K, value: V) -> None:
        """Keep a value, in place of another if it takes that."""
        values = self._values.setdefault(owner, OrderedDict())
        before = len(values)
        values[key] = value
        values.move_to_end(key)
        self._resized(owner, before)
        if self._count > self._most:
            self.drop_oldest()

    def drop(self, owner: str, key: K) -> V | None:
        """Forget a value; gives it, or None when there is none."""
        values = self._values.get(owner)
        if values is None or key not in values:
            return None
        value = values.pop(key)
        self._resized(owner, len(values) + 1)
        return value

    def oldest(self, owner: str | None = None) -> tuple[str, K] | None:
        """Owner and key of the value to go next, of all or of one owner's; None when there is none."""
        if owner is None and self._count:
            owner = next(iter(self._by_size[self._largest]))
        if owner is None or owner not in self._values:
            return None
        return owner, next(iter(self._values[owner]))

    def drop_oldest(self) -> None:
        """Forget the value to go next."""
        if (oldest := self.oldest()) is not None:
            self.drop(*oldest)

    def _resized(self, owner: str, before: int) -> None:
        """Move an owner to those of its new size, which is at most one away from the one before."""
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
