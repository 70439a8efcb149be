"""Fixtures for the tests of runners."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.hooks.persistent import Starting, mark, start
from support.programs.processes import nothing_left_behind


@pytest.fixture
async def tidy() -> AsyncIterator[None]:
    """Nothing is left behind, and nothing went wrong where only the loop would tell."""
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with nothing_left_behind(mark):
        yield
    assert troubles == []


@pytest.fixture
def program(tmp_path: Path) -> Starting:
    """Starts persistent hooks in an empty project folder."""
    return partial(start, tmp_path)
