"""Pinned tools in a database: the same behavior with a file and with PostgreSQL, shared by all gateways."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Barrier

import pytest
from support.gateway.databases import cut, drop, postgres

from hookgate.hooks.policies.pins import MAX_TOOLS, Declared, Pins
from hookgate.proxy.config import StoreSettings
from hookgate.proxy.store import Store, StoreError, execution


@asynccontextmanager
async def gateway(url: str | None, state: Path) -> AsyncIterator[Pins]:
    """The pins of one gateway."""
    async with Store(StoreSettings(url=url), state) as store:
        yield Pins(store.pins())


def declared(name: str, text: str = "") -> Declared:
    return Declared(name, text, text)


async def test_a_pin_and_its_changes_hold_at_every_gateway_at_once(url: str | None, tmp_path: Path) -> None:
    async with gateway(url, tmp_path) as one, gateway(url, tmp_path) as other:
        assert not (await one.note([declared("read", "Reads.")], "s-1")).changed
        noted = await other.note([declared("read", "Reads, and tells.")], "s-2")
        assert (noted.changed, noted.new) == ({"read"}, {"read"})
        again = await one.note([declared("read", "Reads, and tells.")], "s-2")
        assert (again.changed, again.new) == ({"read"}, frozenset())
        assert await one.declares_changed("s-2", "read")
        assert not await other.declares_changed("s-1", "read")
        await other.accept("read", ["Reads, and tells."])
        assert not (await one.note([declared("read", "Reads, and tells.")], "s-2")).changed
        await one.forget(["read"])
        assert not (await one.note([declared("read", "Third.")], "s-3")).changed
        assert (await other.note([declared("read", "Reads.")], "s-1")).changed == {"read"}
    async with gateway(url, tmp_path) as later:
        assert (await later.note([declared("read", "Reads.")], "s-1")).changed == {"read"}


def test_one_of_several_simultaneous_first_declarations_is_pinned_everywhere(
    url: str | None, tmp_path: Path
) -> None:
    count = 4
    ready = Barrier(count)

    def gateway_declares(number: int) -> list[set[str]]:
        """What is refused of a gateway's own declarations, and later of those of each gateway."""

        async def declares() -> list[set[str]]:
            async with gateway(url, tmp_path) as pins:
                ready.wait(20)
                names = [f"tool-{at}" for at in range(10)]
                first = await pins.note([declared(name, f"of {number}") for name in names], f"s-{number}")
                ready.wait(20)
                later = [
                    await pins.note([declared(name, f"of {each}") for name in names], f"s-{each}")
                    for each in range(count)
                ]
            return [{*first.changed}, *({*noted.changed} for noted in later)]

        return asyncio.run(declares())

    with ThreadPoolExecutor(count) as threads:
        found = list(threads.map(gateway_declares, range(count)))
    refused = found[0][1:]
    assert [each[1:] for each in found] == [refused] * count  # all agree
    assert [each[0] for each in found] == refused  # from the first call on
    for at in range(10):
        assert sum(f"tool-{at}" not in names for names in refused) == 1


async def test_no_more_tools_are_stored_than_may_be_and_many_can_be_declared(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "ANSWER_SECONDS", 60.0)  # so many are more than a busy server reads in 5
    async with gateway(url, tmp_path) as one, gateway(url, tmp_path) as other:
        await one.note([declared(f"tool-{at}") for at in range(MAX_TOOLS - 1)], "s")
        noted = await other.note([declared(f"tool-{at}") for at in range(1, 70_000)], "s")
        assert len(noted.changed) == 70_000 - MAX_TOOLS
        assert len(await one.tools()) == MAX_TOOLS


async def test_a_name_that_a_server_cannot_store_counts_as_changed(url: str | None, tmp_path: Path) -> None:
    async with gateway(url, tmp_path) as pins:
        assert (await pins.note([declared("a\0b"), declared("read", "\0")], "s")).changed == {"a\0b"}
        assert not await pins.declares_changed("s", "a\0b")


async def test_connections_that_the_server_has_ended_are_replaced_and_a_lost_database_is_reported(
    tmp_path: Path,
) -> None:
    with postgres() as url:
        name = url.rpartition("/")[2]
        async with gateway(url, tmp_path) as pins:
            await pins.note([declared("read")], "s")
            cut(name)
            assert not (await pins.note([declared("read")], "s")).changed
            drop(name)
            with pytest.raises(StoreError, match=r"the pinned tools in .* cannot be used: "):
                await pins.note([declared("read")], "s")
