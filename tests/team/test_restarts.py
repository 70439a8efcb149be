"""Gateways of a team that are restarted, or killed, while clients call."""

import asyncio
import signal
import time

import pytest
from support.audits import reading, report_of
from support.python_sdk import sdk_warnings
from support.team_load import load
from team import Team

from hookgate.proxy.audit.reading import RecordFilter

pytestmark = [pytest.mark.asyncio(loop_scope="module"), sdk_warnings]




@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)])
async def test_no_call_fails_or_is_cut_off_while_gateways_are_restarted(team: Team, rounds: int) -> None:
    restarted = team.gateways if rounds > 1 else team.gateways[:1]
    async with load(team.url) as clients:
        for _ in range(rounds):
            for gateway in restarted:
                before = clients.streams
                t = time.time()
                await gateway.restart()
                print(gateway.log.stem, time.time() - t, clients.streams - before, clients.edits, clients.stops)
    assert [failure.why for failure in clients.failures] == []
    assert clients.forgotten == []
    assert clients.edits
    assert clients.stops
