"""Gateways of a team behave as one: limits, revoked keys, conversations whose calls go to them in turn."""

import asyncio
import time
from collections import Counter

import aiohttp
import pytest
from support.team_load import HIDDEN, STOPPED, tool_turn, user
from support.wire import HI, KEY, UNARY, ask, post
from team import Team

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("window", ["day", pytest.param("minute", marks=pytest.mark.slow)])
async def test_a_limit_of_a_hundred_calls_admits_a_hundred_at_three_gateways(team: Team, window: str) -> None:
    limit = f"requests=100/{window}"
    key = await team.gateways[0].command("keys", "create", f"limited-{window}", "--limit", limit)
    while window == "minute" and time.time() % 60 > 30:  # noqa: ASYNC110  # all calls must be in one minute
        await asyncio.sleep(1)
    async with aiohttp.ClientSession() as client:

        async def call() -> int:
            async with client.post(team.url + UNARY, json=HI, headers={"x-goog-api-key": key}) as answer:
                await answer.read()
                return answer.status

        statuses = Counter(await asyncio.gather(*(call() for _ in range(150))))
    assert statuses == {200: 100, 403: 50}


async def test_a_revoked_key_is_refused_by_every_gateway_within_five_seconds(team: Team) -> None:
    key = await team.gateways[0].command("keys", "create", "leaving")
    sent = {"x-goog-api-key": key}
    urls = [f"http://{gateway.address}" for gateway in team.gateways]
    assert [(await post(url, UNARY, HI, sent)).status for url in urls] == [200] * 3
    await team.gateways[1].command("keys", "revoke", "leaving")
    revoked = time.monotonic()
    for url in urls:
        while (await post(url, UNARY, HI, sent)).status == 200:
            assert time.monotonic() < revoked + 5
            await asyncio.sleep(0.05)


async def test_what_hooks_did_to_a_conversation_holds_at_whichever_gateway_its_calls_arrive(
    team: Team,
) -> None:
    urls = [f"http://{gateway.address}" for gateway in team.gateways]
    session = {**KEY, "x-hookgate-session": "in-turn"}
    for url in (*urls, *urls):
        contents = tool_turn("secret", "the plan")
        answer = await post(url, UNARY, {"contents": contents}, session)
        assert HIDDEN in answer.body.decode()
        assert "the plan" not in answer.body.decode()
    ran = {"cwd": "/", "transcript_path": "/t", "tool_name": "last", "tool_input": {}, "tool_response": {}}
    other = {**KEY, "x-hookgate-session": "to-be-stopped"}
    await post(urls[0], UNARY, {"contents": [user("hi")]}, other)
    await post(urls[1], "/hookgate/v1/events/AfterTool", ran, other)
    for url in urls:
        assert STOPPED in (await post(url, UNARY, {"contents": [user("hi")]}, other)).body.decode()


async def test_the_receipt_of_each_gateway_is_found_through_the_balancer(team: Team) -> None:
    for gateway in team.gateways:
        answer = await post(f"http://{gateway.address}", UNARY, HI, KEY)
        receipt = answer.headers["x-hookgate-receipt"]
        for _ in team.gateways:
            found = await ask(team.url, "GET", f"/hookgate/v1/receipts/{receipt}")
            assert (found.status, found.json["receipt"]) == (200, receipt)
