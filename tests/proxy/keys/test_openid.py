"""Documents that an OpenID provider publishes: when they are read."""

import asyncio

import pytest

from hookgate.proxy.keys.openid import FETCH_SECONDS, MAX_AGE_SECONDS, Published


class Provider:
    """A provider that answers when told to, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.answers = asyncio.Event()
        self.fails = False
        self.published = Published("a document", self._read, lambda: self.now)

    async def _read(self) -> int:
        self.asked += 1
        await self.answers.wait()
        if self.fails:
            raise ConnectionError
        return self.asked


async def test_a_reading_continues_after_the_call_that_began_it_was_cancelled() -> None:
    provider = Provider()
    first = asyncio.create_task(provider.published.current())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(provider.published.current())
    await asyncio.sleep(0)
    provider.answers.set()
    assert await second == 1


async def test_an_old_document_that_could_not_be_read_is_tried_again_soon() -> None:
    provider = Provider()
    provider.answers.set()
    assert await provider.published.current() == 1
    provider.now += MAX_AGE_SECONDS
    provider.fails = True
    assert await provider.published.current() == 1
    provider.fails = False
    assert await provider.published.current() == 1
    assert provider.asked == 2
    provider.now += FETCH_SECONDS
    assert await provider.published.current() == 3
