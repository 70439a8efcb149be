"""The memory that the bodies of requests take together: it grows as they arrive, and callers share it."""

import asyncio
import math
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.errors import ApiError

VALUE_BYTES = 128
"""The estimated memory of a parsed value in bytes, in addition to its text."""

_KEPT_SHARE = 4
"""The part of the memory, as a divisor, that is kept for addresses that do not have as much."""

_BUSY = (
    "hookgate already handles as many large requests as it has memory for, and none of them finished in "
    "time; try again later, or ask the operator to raise limits.memory."
)


class BodyMemory:
    """Counts the bytes that are reserved for the bodies of requests, and lets large bodies wait for room.

    Of those that wait, the address that has the least goes first, and of an address the key that has the
    least. Bodies keep what has arrived while they wait for more, so the first one in line may exceed the
    limit if no other one does: otherwise, they could wait for one another forever.
    """

    def __init__(self, limits: LimitSettings, small: int) -> None:
        """Bodies of up to `small` bytes are counted, but wait for nothing."""
        self.limits, self.small = limits, small
        self.reserved = 0
        """The number of bytes that are reserved now."""
        self._large: Counter[tuple[str, ...]] = (
            Counter()
        )  # of large bodies, by address, and by address and key
        self._waiting: dict[str, dict[str, OrderedDict[MemoryLease, _Wait]]] = {}  # by address and key
        self._exceeding: MemoryLease | None = None  # the body that may exceed the limit
        self._short_until = -math.inf  # on the monotonic clock

    @property
    def is_short(self) -> bool:
        """Whether more than half of the memory is reserved."""
        return 2 * self.reserved > self.limits.memory

    def is_contended(self, lease: "MemoryLease") -> bool:
        """Whether a body waits whose caller has no more than the lease's, or a message was just refused."""
        if (first := self._first_waiting()) is not None and self._rank(first.lease) <= self._rank(lease):
            return True
        return time.monotonic() < self._short_until

    def note_shortage(self) -> None:
        """Let the memory count as contended until all incomplete bodies and messages have been checked."""
        self._short_until = time.monotonic() + self.limits.body_timeout

    def may_grow(self, lease: "MemoryLease", by: int) -> bool:
        """Return whether a lease can have more bytes now, without making those wait longer who have less."""
        if lease is self._exceeding:
            return True
        first = self._first_waiting()
        return (first is None or self._rank(lease) < self._rank(first.lease)) and self._has_room(lease, by)

    async def wait(self, lease: "MemoryLease", size: int) -> None:
        """Wait until the lease has `size` bytes. Raises ApiError (403) if it takes `limits.body_timeout`."""
        wait = _Wait(lease, size, asyncio.get_running_loop().create_future())
        keys = self._waiting.setdefault(lease.address, {})
        keys.setdefault(lease.key, OrderedDict())[lease] = wait
        try:
            self._admit()
            async with asyncio.timeout(self.limits.body_timeout):
                await wait.admitted
        except TimeoutError:
            raise ApiError(403, _BUSY, "BODIES_BUSY") from None
        finally:
            if not wait.admitted.done() or wait.admitted.cancelled():
                self._remove(wait)
                self._admit()

    def resize(self, lease: "MemoryLease", size: int) -> None:
        """Set the number of reserved bytes of a lease, and admit waiting bodies that now fit."""
        less = size < lease.size
        self._set_size(lease, size)
        if less and self._waiting:
            self._admit()

    def _set_size(self, lease: "MemoryLease", size: int) -> None:
        before, lease.size = lease.size, size
        self.reserved += size - before
        if before <= self.small and size <= self.small:
            return
        by = (size if size > self.small else 0) - (before if before > self.small else 0)
        for name in ((lease.address,), (lease.address, lease.key)):
            self._large[name] += by
            if not self._large[name]:
                del self._large[name]
        if lease is self._exceeding and size <= self.small:
            self._exceeding = None

    def _admit(self) -> None:
        while (first := self._first_waiting()) is not None:
            lease, by = first.lease, first.size - first.lease.size
            if not self._has_room(lease, by):
                if self._exceeding is not None and not self._has_room(self._exceeding, 0):
                    return
                self._exceeding = lease
            self._remove(first)
            self._set_size(lease, first.size)
            first.admitted.set_result(None)

    def _has_room(self, lease: "MemoryLease", by: int) -> bool:
        memory = self.limits.memory
        kept = memory // _KEPT_SHARE if self._large[lease.address,] + by > memory // _KEPT_SHARE else 0
        return self.reserved + by <= memory - kept or self.reserved == lease.size

    def _rank(self, lease: "MemoryLease") -> tuple[int, int]:
        return self._large[lease.address,], self._large[lease.address, lease.key]

    def _first_waiting(self) -> "_Wait | None":
        if not self._waiting:
            return None
        address = min(self._waiting, key=lambda address: self._large[address,])
        keys = self._waiting[address]
        waits = keys[min(keys, key=lambda key: self._large[address, key])]
        return next(iter(waits.values()))

    def _remove(self, wait: "_Wait") -> None:
        lease = wait.lease
        keys = self._waiting[lease.address]
        del keys[lease.key][lease]
        if not keys[lease.key]:
            del keys[lease.key]
        if not keys:
            del self._waiting[lease.address]


class MemoryLease:
    """The memory reserved for one body, from its first byte to the end of its call.

    For a WebSocket, it is reserved for the client's messages that have not been processed.
    """

    def __init__(self, memory: BodyMemory, address: str = "") -> None:
        """The client has this address. Set `key` to the caller's key before anything is reserved."""
        self._memory = memory
        self.address, self.key = address, ""
        self.size = 0
        """The number of reserved bytes."""

    async def reserve(self, size: int) -> None:
        """Reserve `size` bytes in all, and wait for room if they are more than before and the body is large.

        Raises ApiError (403) if that takes too long.
        """
        if size <= self.size or size <= self._memory.small or self._memory.may_grow(self, size - self.size):
            self.resize(size)
        else:
            await self._memory.wait(self, size)

    def resize(self, size: int) -> None:
        """Set the number of reserved bytes, without waiting, even if it exceeds the limit."""
        self._memory.resize(self, size)

    def grow(self, size: int) -> bool:
        """Set the number of reserved bytes, unless they are more than before and do not fit now.

        Returns whether it was set.
        """
        grows = size > self.size and size > self._memory.small
        if grows and not self._memory.may_grow(self, size - self.size):
            self._memory.note_shortage()
            return False
        self.resize(size)
        return True

    @property
    def is_short(self) -> bool:
        """Whether more than half of the memory for all bodies is reserved."""
        return self._memory.is_short

    @property
    def contended(self) -> bool:
        """Whether a body of a caller who has no more waits for memory that others use."""
        return self._memory.is_contended(self)

    @property
    def fair_seconds(self) -> float:
        """The seconds for which memory may stay reserved for incomplete data while others wait."""
        return self._memory.limits.body_timeout / 2

    def release(self) -> None:
        """Release the memory: the call has ended."""
        self.resize(0)


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    """A body that waits until its lease has `size` bytes."""

    lease: MemoryLease
    size: int
    admitted: "asyncio.Future[None]"
