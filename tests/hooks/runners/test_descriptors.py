"""The limit on descriptors: raised for the calling process, but not for the programs of hooks."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs.processes import run_process

from hookgate.hooks.runners.process import MAX_DESCRIPTORS, Program, raised_descriptor_limit


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit, with a soft limit of 300 below it while the test runs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def soft_limit_of_a_hook() -> int:
    line = "read -r first; ulimit -Sn"  # as every hook does: it reads its input first
    ended = await run_process(Program(["/bin/sh", "-c", line], {}, Path.cwd(), timeout=10), b"{}\n")
    return int(ended.stdout)


async def test_a_hook_has_the_limit_from_before_it_was_raised(hard: int) -> None:
    with raised_descriptor_limit() as limit:
        assert limit == min(hard, MAX_DESCRIPTORS) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert await soft_limit_of_a_hook() == 300
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, hard)
    assert await soft_limit_of_a_hook() == 300


async def test_it_is_raised_no_further_than_asked_for(hard: int) -> None:
    with raised_descriptor_limit(400) as limit:
        assert limit == 400 == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


async def test_a_limit_that_is_high_enough_stays_as_it_is(hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with raised_descriptor_limit() as limit:
        assert limit == hard
        assert await soft_limit_of_a_hook() == hard
