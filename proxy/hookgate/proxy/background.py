"""Tasks that run beside a block of code."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running_beside(*coroutines: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run coroutines as tasks while the block runs, then cancel them and wait for their end."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
