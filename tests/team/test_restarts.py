"""Gateways of a team, and its database, that restart or are killed while clients call."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from support.clients.python_sdk import sdk_warnings
from support.gateway.audits import reading, report_of
from support.gateway.team_load import Load, load
from support.upstream.relay import Relay
from support.wire import HI, KEY, UNARY, ask, post
from team import Gateway, Team

pytestmark = [pytest.mark.asyncio(loop_scope="module"), sdk_warnings]


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)])
async def test_no_call_fails_or_is_cut_off_while_gateways_are_restarted(team: Team, rounds: int) -> None:
    restarted = team.gateways if rounds > 1 else team.gateways[:1]
    async with load(team.url) as clients:
        for _ in range(rounds):
            for gateway in restarted:
                await gateway.restart()
    assert [failure.why for failure in clients.failures] == []
    check_conversations(clients)
    print(f"{rounds * len(restarted)} restarts: {clients.streams} streams, {clients.edits} edits")


def check_conversations(clients: Load) -> None:
    """No conversation has lost what hooks did to it."""
    assert clients.forgotten == []
    assert clients.edits
    assert clients.stops


@pytest.mark.slow
async def test_a_gateway_that_is_killed_ends_its_own_calls_alone_and_each_is_recorded(
    team: Team, upstream: tuple[str, Any], tmp_path: Path
) -> None:
    """A call that fails without a receipt may not be recorded, but then it has not reached the upstream."""
    arrived = upstream[1]
    for number in range(5):
        arrived.clear()
        killed = team.gateways[number % len(team.gateways)]
        before = await interrupted(team, tmp_path)
        async with load(team.url) as clients:
            await until_streams(clients, 50)
            killed.send(signal.SIGKILL)
            await killed.ended()
            await until_streams(clients, clients.streams + 100)
            failed = len(clients.failures)
            await killed.start()
            await until_streams(clients, clients.streams + 100)
        assert len(clients.failures) == failed, (
            "a call failed although it was not in progress at that gateway"
        )
        check_conversations(clients)
        receipts = {failure.receipt for failure in clients.failures} - {None}
        ended = await all_recorded(team, tmp_path) - before
        assert receipts <= ended  # with calls whose answer was complete, but whose end was not on disk yet
        assert len(arrived) < arrived.maxlen
        recorded = await asyncio.to_thread(requests_on_record, team, tmp_path)
        assert {request.headers["x-request-id"] for request in arrived} <= recorded
        without = {failure.request for failure in clients.failures if failure.receipt is None} - {None}
        print(
            f"kill {number + 1}: {failed} calls failed, {len(without)} without a receipt, of which "
            f"{len(without - recorded)} had not begun; {len(ended)} recorded as interrupted; "
            f"{len(arrived)} requests at the upstream, each recorded"
        )


async def until_streams(clients: Load, count: int) -> None:
    async with asyncio.timeout(60):
        while clients.streams < count:  # noqa: ASYNC110  # clients in this process, which tell nobody
            await asyncio.sleep(0.05)


def url_of(team: Team) -> str:
    return (team.secrets / "store-url").read_text().strip()


async def interrupted(team: Team, state: Path) -> set[str]:
    """The receipts of all interrupted calls."""

    def read() -> set[str]:
        with reading(state, url_of(team)) as audit:
            return {call.id for call in audit.calls(10**6) if call.outcome == "interrupted"}

    return await asyncio.to_thread(read)


def requests_on_record(team: Team, state: Path) -> set[str]:
    """The IDs of the requests of all calls that are recorded."""
    with reading(state, url_of(team)) as audit:
        calls = audit.calls(limit=10**6)
    return {(call.start or call.body)["request_id"] for call in calls}


async def all_recorded(team: Team, state: Path) -> set[str]:
    """Wait until no call of a killed gateway is without its end, and return the interrupted ones."""

    def running() -> list[str]:
        with reading(state, url_of(team)) as audit:
            return [call.id for call in audit.running()]

    async with asyncio.timeout(60):
        while await asyncio.to_thread(running):  # noqa: ASYNC110  # a database
            await asyncio.sleep(0.5)
    return await interrupted(team, state)


# ---- the database


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 20], ids=["restarted", "cut off for 20 seconds"])
async def test_an_outage_of_the_database_loses_and_doubles_no_record(
    team: Team, relay: Relay, seconds: int, tmp_path: Path
) -> None:
    async with load(team.url, streams=20, sdks=5) as clients:
        await until_streams(clients, 20)
        if seconds:
            relay.cut()
            await asyncio.sleep(1)
            loop = asyncio.get_running_loop()
            began = loop.time()
            answer = await post(team.url, UNARY, HI, KEY)
            assert (answer.status, loop.time() - began < 12) == (403, True)
            await asyncio.sleep(seconds - 1)
            relay.restore()
        else:
            await team.postgres.restart()
        async with asyncio.timeout(60):
            while not all([await ready(gateway) for gateway in team.gateways]):  # noqa: ASYNC110  # processes
                await asyncio.sleep(0.2)
        failed = len(clients.failures)
        await until_streams(clients, clients.streams + 100)
        assert len(clients.failures) - failed <= 50, "calls that were refused before, and have ended since"
    check_conversations(clients)
    await all_recorded(team, tmp_path)
    report = await asyncio.to_thread(report_of, tmp_path, url_of(team))  # the relay runs in this loop
    assert report.problems == []

    def ends() -> list[str]:
        with reading(tmp_path, url_of(team)) as audit:
            return [call.id for call in audit.calls(limit=10**6)]

    recorded = await asyncio.to_thread(ends)
    assert len(recorded) == len({*recorded})
    assert {*clients.receipts} <= {*recorded}
    print(f"{clients.streams} streams, {len(clients.failures)} refused")


async def ready(gateway: Gateway) -> bool:
    return (await ask(f"http://{gateway.admin}", "GET", "/readyz")).status == 200
