"""Threads in which calls read and write files: apart from those of the event loop, which look up hosts."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

R = TypeVar("R")

_THREADS = ThreadPoolExecutor(4, "hookgate-files")


async def run_in_file_thread(step: Callable[..., R], /, *args: Any) -> R:
    """Call a function that reads or writes files for a call, and return its result."""
    run = partial(copy_context().run, step, *args)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, run)
