"""Time limits that pause while the event loop stalls, and that never discard a result that has arrived.

asyncio's timers measure wall time. If something blocks the loop for longer than a hook's timeout, the timer
fires although the hook may have answered in time, and asyncio cancels a task even if what it awaits is done.
A client that can stall the loop could thus make hooks fail.
"""

import asyncio
from types import TracebackType

_BEAT = 0.02
"""The interval, in seconds, at which the loop's lateness is measured while a deadline is open."""

_LATE = 0.005
"""The lateness of a timer, in seconds, that does not count as a stall: rounding, and other callbacks."""

_LAST_ITERATIONS = 4
"""Iterations of the loop before a timer takes effect: one reads what is ready, the others deliver it."""


class StallClock:
    """Measures how long the running event loop has stalled while deadlines of this clock are open."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadlines = 0
        self._beating = False
        self._due = 0.0
        self._stalled = 0.0

    def measure_stall(self) -> float:
        """Measure and return the seconds of stalls of the loop so far. Only differences are meaningful."""
        assert self._loop is not None  # noqa: S101  # for type checkers: a deadline calls `enter` first
        now = self._loop.time()
        if self._beating and now - self._due > _LATE:
            self._stalled += now - self._due
            self._due = now
        return self._stalled

    def enter(self) -> asyncio.AbstractEventLoop:
        """Start measuring for one more deadline, and return the running loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._beating, self._deadlines = loop, False, 0
        self._deadlines += 1
        if not self._beating:
            self._beating = True
            self._schedule(loop)
        return loop

    def leave(self) -> None:
        """Stop measuring for one deadline. Without open deadlines, the next beat is the last one."""
        self._deadlines -= 1

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + _BEAT
        loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        self.measure_stall()
        if self._deadlines > 0 and self._loop is not None:
            self._schedule(self._loop)
        else:
            self._beating = False


class Deadline:
    """A point in time that is postponed by as much as the loop stalls. Close it after use."""

    def __init__(self, clock: StallClock, seconds: float) -> None:
        self._clock, self._loop = clock, clock.enter()
        self._before = clock.measure_stall()
        self._at = self._loop.time() + seconds

    def remaining(self) -> float:
        """Return the seconds that are left; the number is negative if the deadline has passed."""
        return self._at + self._clock.measure_stall() - self._before - self._loop.time()

    def close(self) -> None:
        """Stop measuring stalls for this deadline."""
        self._clock.leave()


class TimeLimit:
    """A context manager that cancels its body at a deadline, and then raises TimeoutError.

    Before it cancels, it lets the loop deliver what is ready, so that a result that has arrived counts.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._timeout = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle | None = None

    async def __aenter__(self) -> "TimeLimit":
        await self._timeout.__aenter__()
        self._wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        """Return whether the body was cancelled by the deadline."""
        return self._timeout.expired()

    def _wait(self) -> None:
        remaining = max(self._deadline.remaining(), 0)
        if remaining < float("inf"):
            self._handle = self._loop.call_later(remaining, self._fire)

    def _fire(self) -> None:
        if self._deadline.remaining() > 0:  # the loop has stalled in the meantime
            self._wait()
        else:
            self._handle = self._loop.call_soon(self._last_iterations, _LAST_ITERATIONS)

    def _last_iterations(self, left: int) -> None:
        if left:
            self._handle = self._loop.call_soon(self._last_iterations, left - 1)
        else:
            self._timeout.reschedule(self._loop.time())


class StallAwareTimeout(TimeLimit):
    """A time limit that creates and closes its own deadline."""

    def __init__(self, clock: StallClock, seconds: float) -> None:
        super().__init__(Deadline(clock, seconds))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadline.close()
        await super().__aexit__(kind, error, trace)
