"""Threads that callers use in turns, so that none of them can keep the others waiting."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from hookgate.hooks.fair_queue import FairQueue

R = TypeVar("R")

QueueKey = tuple[str, str]
"""Who waits: a caller's key, and the session. Keys take turns, and so do the sessions of each."""


async def run_holding(held: ExitStack, threads: ThreadPoolExecutor, step: Callable[[], R]) -> R:
    """Run a step in a thread, and return its result. `held` is closed as soon as the step has ended.

    It may end later than this returns: if the call leaves, the thread goes on.
    """
    running = asyncio.get_running_loop().run_in_executor(threads, step)
    kept = held.pop_all()
    running.add_done_callback(lambda _: kept.close())
    try:
        return await asyncio.shield(running)
    finally:
        del running  # its exception refers to this frame: together, they would keep the body


class SharedThread:
    """A thread that callers use in turns."""

    def __init__(self, name: str) -> None:
        self._thread, self._queue = ThreadPoolExecutor(1, name), FairQueue(1)

    async def run(self, queue_key: QueueKey, step: Callable[[], R]) -> R:
        """Run a step when it is the caller's turn, and return its result."""
        key, session_id = queue_key
        await self._queue.acquire(session_id, key)
        with ExitStack() as held:
            held.callback(self._queue.release)
            return await run_holding(held, self._thread, step)

    def close(self) -> None:
        """Wait until the step that runs has ended. Blocks."""
        self._thread.shutdown()
