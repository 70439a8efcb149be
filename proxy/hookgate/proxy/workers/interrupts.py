"""The signals that stop a command."""

import asyncio
import signal


def catch_interrupts() -> asyncio.Event:
    """Return an event that the first SIGINT or SIGTERM sets; a second one cancels the calling task."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    return stop
