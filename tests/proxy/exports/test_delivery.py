"""Each kind of receiver has every record, in the order of each writer, whatever happens to anybody."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.gateway.audits import opened
from support.gateway.life import until
from support.gateway.loopback import running_upstream
from support.operating.export_receivers import KINDS, RealReceiver, receiver_of, toml_of
from support.programs.program import Server, run, serving
from support.upstream.relay import Relay, relay_to
from support.wire import HI, UNARY, post

from hookgate.proxy.audit.chain import canonical_json
from hookgate.proxy.audit.stored import walk_records
from hookgate.proxy.audit.verifying import verify_lines

pytestmark = pytest.mark.e2e

PATIENCE = 90
"""Seconds within which records must arrive once nothing is in their way: longer than an export is held."""


def recorded(state: Path) -> list[tuple[str, int]]:
    """The records of the audit, as writers and numbers in their chains."""
    with opened(state) as database:
        pages = walk_records(database.engine.begin)
        return [(stored.record.writer, stored.record.seq) for page in pages for stored in page]


def arrived(receiver: RealReceiver) -> list[tuple[str, int]]:
    return [(each["writer"], each["seq"]) for each in receiver.received() if each["type"] != "writer"]


def assert_in_order(found: list[tuple[str, int]]) -> None:
    """Each record is first seen after the one before it in its chain; again only what was sent again."""
    last: dict[str, int] = {}
    for writer, seq in found:
        if seq > last.get(writer, 0):
            assert seq == last.get(writer, 0) + 1, (
                f"record {seq} of {writer} arrived before the one before it"
            )
            last[writer] = seq


@dataclass
class Calls:
    """Calls that are made one after the other."""

    url: str = ""
    made: int = 0
    slowest: float = 0.0
    statuses: set[int] = field(default_factory=set)

    async def make(self) -> None:
        while True:
            began = time.monotonic()
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):  # while there is no gateway
                self.statuses.add((await post(self.url, UNARY, HI)).status)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.made += 1
            await asyncio.sleep(0.03)


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[Calls]:
    calls = Calls(url)
    task = asyncio.create_task(calls.make())
    try:
        yield calls
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def exporting(
    tmp_path: Path, upstream: str, address: str, receiver: RealReceiver
) -> AsyncIterator[Server]:
    settings = {"interval": 0.1, **receiver.export(address)}
    config = toml_of(tmp_path, siem=settings)
    words = ("serve", "--config", str(config), "--upstream", upstream, "--listen", "127.0.0.1:0")
    async with serving(*words, env={"HOOKGATE_STATE": str(tmp_path / "state")}, patience=600) as server:
        yield server


async def until_all_arrived(tmp_path: Path, receiver: RealReceiver) -> None:
    """Wait until each record of now has arrived. Those of a gateway that has begun its end may follow."""
    expected = set(recorded(tmp_path / "state"))
    try:
        await until(lambda: expected <= set(arrived(receiver)), PATIENCE)
    except TimeoutError:
        missing = sorted(expected - set(arrived(receiver)))
        state = str(tmp_path / "state")
        listed = await run("exports", "list", "--config", str(tmp_path / "hookgate.toml"), "--state", state)
        some = f"{len(missing)} of {len(expected)} records are missing, such as {missing[:3]}"
        pytest.fail(f"{some}\n{listed.out}{listed.err}")


async def trouble(receiver: RealReceiver, relay: Relay, seconds: float, calls: Calls) -> None:
    """Kill the receiver twice, and cut it off for some seconds. Calls go on meanwhile.

    Over plain TCP a relay would acknowledge what it does not forward. There the receiver is stopped instead.
    """
    for _ in range(2):
        await receiver.kill()
        await asyncio.sleep(0.5)
        await receiver.start()
        await asyncio.sleep(0.5)
    made = calls.made
    receiver.pause() if receiver.address else relay.cut()
    await asyncio.sleep(seconds)
    receiver.resume() if receiver.address else relay.restore()
    assert calls.made - made > seconds  # at the very least, one a second


@pytest.mark.parametrize("kind", KINDS)
async def test_every_record_arrives_although_the_receiver_is_killed_and_cut_off(
    kind: str, tmp_path: Path
) -> None:
    receiver = receiver_of(kind, tmp_path / "receiver")
    await receiver.start()
    relay = Relay(f"127.0.0.1:{receiver.port}")
    try:
        async with (
            running_upstream() as (upstream, _),
            relay_to(relay),
            exporting(tmp_path, upstream, receiver.address or relay.address, receiver) as gateway,
        ):
            async with calling(gateway.url) as calls:
                await trouble(receiver, relay, 2, calls)
            assert calls.statuses == {200}
            await asyncio.sleep(0.5)
            await until_all_arrived(tmp_path, receiver)
        found = arrived(receiver)
        assert_in_order(found)
        if kind == "elastic":  # which knows the IDs of what it has
            assert len(found) == len(set(found))
    finally:
        await receiver.kill()


async def test_a_gateway_that_is_killed_sends_nothing_less(tmp_path: Path) -> None:
    receiver = receiver_of("webhook", tmp_path / "receiver")
    address = f"127.0.0.1:{receiver.port}"
    try:
        async with running_upstream() as (upstream, _):
            for is_up in (True, False, True):  # killed while the receiver is there, and while it is not
                await (receiver.start() if is_up else receiver.kill())
                async with (
                    exporting(tmp_path, upstream, address, receiver) as gateway,
                    calling(gateway.url) as calls,
                ):
                    await until(lambda calls=calls: calls.made >= 20)  # type: ignore[misc]  # of a lambda with a default
                    gateway.signal(signal.SIGKILL)
                    await gateway.ended()
            await receiver.kill()
            await receiver.start()
            async with exporting(tmp_path, upstream, address, receiver):
                await asyncio.sleep(1)
                await until_all_arrived(tmp_path, receiver)
        lines = [canonical_json(each) for each in receiver.received()]
        assert_in_order(arrived(receiver))
        # What has arrived is a proof as good as an export: each chain without a gap.
        report = verify_lines(list(dict.fromkeys(lines)), lambda done: None)
        assert report.problems == []
        assert report.records >= 3 * 2 * 20
    finally:
        await receiver.kill()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_every_record_arrives_after_a_minute_and_a_gateway_that_was_killed(
    kind: str, tmp_path: Path
) -> None:
    receiver = receiver_of(kind, tmp_path / "receiver")
    await receiver.start()
    relay = Relay(f"127.0.0.1:{receiver.port}")
    try:
        async with running_upstream() as (upstream, _), relay_to(relay):
            address = receiver.address or relay.address
            async with (
                exporting(tmp_path, upstream, address, receiver) as gateway,
                calling(gateway.url) as calls,
            ):
                await trouble(receiver, relay, 60, calls)
                gateway.signal(signal.SIGKILL)
                await gateway.ended()
            async with exporting(tmp_path, upstream, address, receiver) as gateway:
                async with calling(gateway.url) as more:
                    await trouble(receiver, relay, 5, more)
                await asyncio.sleep(0.5)
                await until_all_arrived(tmp_path, receiver)
        found = arrived(receiver)
        assert_in_order(found)
        twice = len(found) - len(set(found))
        print(
            f"{kind}: {len(set(found))} records, {twice} twice; the slowest call took {calls.slowest:.3f} s"
        )
        assert (calls.statuses, more.statuses) == ({200}, {200})
        assert calls.slowest < 10  # a sixth of the time for which nobody could be reached
    finally:
        await receiver.kill()
