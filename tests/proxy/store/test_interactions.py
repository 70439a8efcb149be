"""Interactions in a database: the same behavior with a file and with PostgreSQL."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hookgate.proxy.config import StoreSettings
from hookgate.proxy.store import Store
from hookgate.proxy.store import interactions as stored
from hookgate.proxy.store.interactions import MAX_CHAIN, InteractionTable, StoredInteraction

FIRST = StoredInteraction(
    key="alice",
    name="interactions/v1_1",
    session="s-1",
    revision="r-1",
    previous=None,
    continues_known=True,
    passed=False,
    counted=False,
    request=b'[{"role": "user"}]',
)


@asynccontextmanager
async def table(url: str | None, state: Path) -> AsyncIterator[InteractionTable]:
    async with Store(StoreSettings(url=url), state) as store:
        yield store.interactions()


def following(before: StoredInteraction, number: int) -> StoredInteraction:
    """The interaction that continues another one, with its answer."""
    return replace(
        FIRST, name=f"interactions/v1_{number}", previous=before.name, answer=b"[2]", request=b"[1]"
    )


async def test_a_stored_interaction_is_known_at_every_gateway_to_its_key_only(
    url: str | None, tmp_path: Path
) -> None:
    async with table(url, tmp_path) as one, table(url, tmp_path) as other:
        await one.keep(FIRST)
        assert await other.find("alice", FIRST.name) == FIRST
        assert await other.find("bob", FIRST.name) is None
        assert await other.find("alice", "projects/p/locations/l/interactions/v1_1") is None
        await other.pass_answer("bob", FIRST.name, counted=True, tokens=0, answer=b"[]")
        await other.forget("bob", FIRST.name)
        assert await one.find("alice", FIRST.name) == FIRST
        await other.pass_answer("alice", FIRST.name, counted=False, tokens=7, answer=b"[2]")
        assert await one.find("alice", FIRST.name) == replace(FIRST, passed=True, tokens=7, answer=b"[2]")
        counts = await asyncio.gather(*(each.count("alice", FIRST.name) for each in (one, other) * 5))
        assert sorted(counts) == [False] * 9 + [True]
        await one.forget("alice", FIRST.name)
        assert await other.find("alice", FIRST.name) is None


async def test_the_turns_of_a_chain_are_read_in_order_or_not_at_all(url: str | None, tmp_path: Path) -> None:
    async with table(url, tmp_path) as interactions:
        first = replace(FIRST, request=b"[0]", answer=b"[1]")
        second, third = following(first, 2), following(FIRST, 3)
        for each in (first, second, replace(third, previous=second.name, request=b"[3]", answer=b"[4]")):
            await interactions.keep(each)
        assert await interactions.turns("alice", third.name) == [
            b"[0]",
            b"[1]",
            b"[1]",
            b"[2]",
            b"[3]",
            b"[4]",
        ]
        assert await interactions.turns("bob", third.name) is None
        await interactions.forget("alice", second.name)
        assert await interactions.turns("alice", third.name) is None
        assert await interactions.turns("alice", first.name) == [b"[0]", b"[1]"]


async def test_a_chain_in_a_circle_or_of_many_bytes_is_not_read(url: str | None, tmp_path: Path) -> None:
    async with table(url, tmp_path) as interactions:
        itself = replace(FIRST, previous=FIRST.name, answer=b"[]")
        await interactions.keep(itself)
        assert await interactions.turns("alice", FIRST.name) is None
        large = b"[" + b" " * stored.MAX_CHAIN_BYTES + b"]"
        await interactions.keep(replace(FIRST, answer=large))
        assert await interactions.turns("alice", FIRST.name) is None
        await interactions.keep(following(FIRST, 2))
        assert await interactions.turns("alice", "interactions/v1_2") is None


async def test_a_long_chain_is_not_read(tmp_path: Path) -> None:
    async with table(None, tmp_path) as interactions:
        before = replace(FIRST, name="interactions/v1_0", answer=b"[]")
        await interactions.keep(before)
        for number in range(1, MAX_CHAIN + 1):
            before = following(before, number)
            await interactions.keep(before)
        assert await interactions.turns("alice", before.name) is None
        assert len(await interactions.turns("alice", before.previous or "") or ()) == 2 * MAX_CHAIN


async def test_old_ones_and_too_many_of_a_key_are_removed(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MAX_INTERACTIONS", 3)
    monkeypatch.setattr(stored, "_SWEEP_INSERTS", 1)
    now = int(time.time())
    async with table(url, tmp_path) as interactions:
        await interactions.keep(replace(FIRST, key="bob"))
        await interactions.keep(replace(FIRST, key="carol", created=now - 56 * 24 * 3600))
        for number in range(5):
            await interactions.keep(replace(FIRST, name=str(number), created=now - 10 + number))
        kept = [await interactions.find("alice", str(number)) is not None for number in range(5)]
        assert kept == [False, False, True, True, True]
        assert await interactions.find("bob", FIRST.name) is not None
        assert await interactions.find("carol", FIRST.name) is None


async def test_an_old_one_is_not_found_even_before_it_is_removed(url: str | None, tmp_path: Path) -> None:
    too_old = int(time.time()) - 56 * 24 * 3600
    async with table(url, tmp_path) as interactions:
        await interactions.keep(replace(FIRST, key="bob"))  # the next sweep is a minute away
        old, second = replace(FIRST, answer=b"[]", created=too_old), following(FIRST, 2)
        for each in (old, second):
            await interactions.keep(each)
        assert await interactions.find("alice", FIRST.name) is None
        assert await interactions.turns("alice", FIRST.name) is None
        assert await interactions.turns("alice", second.name) is None
        assert await interactions.find("alice", second.name) == second
        await interactions.keep(replace(old, created=int(time.time())))
        assert len(await interactions.turns("alice", second.name) or ()) == 4
