"""An event loop in a thread of its own, where a shim's transport lives.

Any thread and any loop may ask it: connections and hooks that are kept belong to one loop for good, however
many times the caller starts and ends loops of its own.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Host:
    """Starts when it is first needed, and again in a process forked since. Ends when it is let go."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        """`close` runs in the loop before it ends; it must not hold the host."""
        self._close = close
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._end: weakref.finalize[..., Host] | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result, waited for in the calling thread."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # of a caller that was interrupted; nothing otherwise
            raise

    def stop(self) -> None:
        """End the loop and its thread; what still runs there is cancelled. It may be started again."""
        with self._lock:
            end, self._loop, self._end = self._end, None, None
        if end is not None:
            end()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                thread = threading.Thread(
                    target=_run, args=(self._loop, self._close), name="hookgate-shim", daemon=True
                )
                thread.start()
                self._end = weakref.finalize(self, _stop, self._loop, thread, self._process)
            return self._loop


def _run(loop: asyncio.AbstractEventLoop, close: Callable[[], Awaitable[None]]) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_end(close))
    finally:
        loop.close()


async def _end(close: Callable[[], Awaitable[None]]) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await close()
    await asyncio.sleep(0)  # for what closed connections have still to do


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    if process != os.getpid():  # the thread is the parent's
        return
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join()
