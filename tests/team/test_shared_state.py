"""Gateways of a team behave as one: limits, keys, conversations, the pushed policy, agents."""

import asyncio
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.clients.node import GeminiCli
from support.clients.one_policy import AGENTS, POLICY, Agent, check_policy
from support.clients.python_sdk import pieces, python_client, sdk_warnings
from support.conversation import tool_turns, user_turn
from support.gateway.event_order import LAST, TURN, install, names
from support.gateway.pushed import document, hook
from support.gateway.team_load import HIDDEN, STOPPED
from support.hooks.settings import write_file
from support.wire import HI, KEY, UNARY, ask, post
from team import Team

from hookgate.hooks.settings import EVENTS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), sdk_warnings]

Upstream = tuple[str, Any]

PUSHED_FIRST = "{}"


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
        contents = tool_turns("secret", "the plan")
        answer = await post(url, UNARY, {"contents": contents}, session)
        assert HIDDEN in answer.body.decode()
        assert "the plan" not in answer.body.decode()
    ran = {"cwd": "/", "transcript_path": "/t", "tool_name": "last", "tool_input": {}, "tool_response": {}}
    other = {**KEY, "x-hookgate-session": "to-be-stopped"}
    await post(urls[0], UNARY, {"contents": [user_turn("hi")]}, other)
    await post(urls[1], "/hookgate/v1/events/AfterTool", ran, other)
    for url in urls:
        assert STOPPED in (await post(url, UNARY, {"contents": [user_turn("hi")]}, other)).body.decode()


async def test_the_receipt_of_each_gateway_is_found_through_the_balancer(team: Team) -> None:
    for gateway in team.gateways:
        answer = await post(f"http://{gateway.address}", UNARY, HI, KEY)
        receipt = answer.headers["x-hookgate-receipt"]
        for _ in team.gateways:
            found = await ask(team.url, "GET", f"/hookgate/v1/receipts/{receipt}")
            assert (found.status, found.json["receipt"]) == (200, receipt)


# ---- a pushed policy


async def push(team: Team, folder: Path, text: str) -> int:
    """Push a policy, and give the number of its revision."""
    file = folder / "pushed.json"
    file.write_text(text)
    said = await team.gateways[0].command("policy", "push", str(file))
    return int(re.search(r"[Rr]evision (\d+)", said)[1])  # type: ignore[index]  # otherwise the test fails


async def runs_everywhere(team: Team, number: int) -> None:
    """Wait until every gateway reports the revision."""
    for gateway in team.gateways:
        url = f"http://{gateway.admin}"
        while (await ask(url, "GET", "/readyz")).json["policy"]["number"] != number:  # noqa: ASYNC110  # a process
            await asyncio.sleep(0.05)


async def runs_in_files(team: Team, file: Path, text: str) -> None:
    """Write the settings file of all gateways, and wait until it is in force at each."""
    before = await revisions(team)
    write_file(file.parent, text)
    while before & await revisions(team):  # noqa: ASYNC110  # processes
        await asyncio.sleep(0.05)


async def revisions(team: Team) -> set[str]:
    """The revisions of the settings that are in force."""
    urls = [f"http://{gateway.admin}" for gateway in team.gateways]
    return {(await ask(url, "GET", "/readyz")).json["revision"] for url in urls}


async def calls(team: Team) -> list[float]:
    """The number of generating calls that each gateway has answered."""
    counts = []
    await asyncio.sleep(1.1)  # a gateway shares its metrics among all who ask within a second
    for gateway in team.gateways:
        text = (await ask(f"http://{gateway.admin}", "GET", "/metrics")).body.decode()
        lines = [line for line in text.splitlines() if line.startswith("hookgate_calls_total{")]
        counts.append(sum(float(line.rpartition(" ")[2]) for line in lines))
    return counts


async def test_a_pushed_policy_is_in_force_within_five_seconds_and_no_call_sees_half_of_it(
    team: Team, tmp_path: Path, upstream: Upstream
) -> None:
    def policy(word: str) -> str:
        groups = [{"hooks": [hook(f"{at}", instruct=f"{at} says {word}")]} for at in ("first", "last")]
        return json.dumps({"hooks": {"BeforeModel": groups}})

    recorded, bodies, stopping = upstream[1], list[str](), False

    async def client(session: aiohttp.ClientSession) -> None:
        while not stopping:
            async with session.post(team.url + UNARY, json=HI, headers=KEY) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()
            while recorded:
                bodies.append(json.dumps(recorded.popleft().body))

    await runs_everywhere(team, await push(team, tmp_path, policy("one")))
    async with (
        aiohttp.ClientSession() as session,
        asyncio.timeout(60),
        asyncio.TaskGroup() as tasks,
    ):
        recorded.clear()
        for _ in range(9):
            tasks.create_task(client(session))
        number = await push(team, tmp_path, policy("two"))
        at = time.monotonic()
        await runs_everywhere(team, number)
        assert time.monotonic() - at < 5
        since = len(bodies) + 9  # calls in progress may still have the former one
        while len(bodies) < since + 30:  # noqa: ASYNC110  # clients of this test
            await asyncio.sleep(0.05)
        stopping = True
    seen = [
        tuple([word for word in ("one", "two") if f"{at} says {word}" in body] for at in ("first", "last"))
        for body in bodies
    ]
    assert seen[0] == (["one"], ["one"])
    assert {*map(str, seen)} == {str((["one"], ["one"])), str((["two"], ["two"]))}
    assert {*map(str, seen[since:])} == {str((["two"], ["two"]))}


# ---- agents


async def sdk_writes(url: str, folder: Path) -> None:
    """A google-genai script without a shim."""

    def write_file(file_path: str, content: str) -> str:
        """Write a file."""
        return f"wrote {len(content)} characters to {file_path}"

    async with python_client(url) as client:
        said = await pieces(client, "async", "write it", tools=[write_file])
    assert "".join(said).strip() == "It is written."


async def gemini_cli_writes(url: str, folder: Path, *, shim: bool = False) -> None:
    """Gemini CLI, which knows nothing of hooks unless there is a shim."""
    gemini = GeminiCli(folder)
    if shim:
        await install(url, folder)
    ran = await gemini.ask(url, "write it", "--approval-mode", "yolo")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "It is written."), ran.stderr


async def gemini_cli_with_shim_writes(url: str, folder: Path) -> None:
    """Gemini CLI whose own hooks tell the gateways of its events."""
    await gemini_cli_writes(url, folder, shim=True)


@pytest.mark.parametrize(
    ("writes", "end"),
    [
        pytest.param(sdk_writes, [], id="google-genai without a shim"),
        pytest.param(gemini_cli_writes, [], id="gemini-cli without a shim", marks=pytest.mark.slow),
        pytest.param(
            gemini_cli_with_shim_writes,
            ["SessionEnd"],
            id="gemini-cli with its own hooks",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_events_fire_in_order_if_calls_go_to_the_gateways_in_turn(
    team: Team,
    hooks_file: Path,
    tmp_path: Path,
    writes: Callable[[str, Path], Awaitable[None]],
    end: list[str],
) -> None:
    file = tmp_path / "seen"
    config = {"type": "command", "name": "seen", "command": f"(cat; echo) >> {file}"}
    before = await calls(team)
    await runs_in_files(team, hooks_file, document(**dict.fromkeys(EVENTS, config)))
    await writes(team.url, tmp_path)
    write_file(hooks_file.parent, {})
    seen = [json.loads(line) for line in file.read_text().splitlines() if line]
    expected = ["SessionStart", "BeforeAgent", *TURN, *LAST, *end]
    assert [name for name in names(seen) if name != "PreCompress"] == expected
    assert len({event["session_id"] for event in seen}) == 1
    assert sum(now > then for now, then in zip(await calls(team), before, strict=True)) > 1


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(agent, id=name, marks=() if name == "google-genai instrumented" else pytest.mark.slow)
        for name, agent in AGENTS.items()
    ],
)
async def test_one_policy_applies_if_calls_go_to_the_gateways_in_turn(
    team: Team, folder: Path, agent: Agent, upstream: Upstream, tmp_path: Path
) -> None:
    recorded = upstream[1]
    for name in ("home", "workspace"):  # each agent is a new user
        shutil.rmtree(folder / name, ignore_errors=True)
    before = await calls(team)
    recorded.clear()
    await runs_everywhere(team, await push(team, tmp_path, json.dumps(POLICY)))
    said = await agent(team.url, folder)
    sent = json.dumps([request.body for request in recorded])
    check_policy(said, folder / "victim", sent)
    assert sum(now > then for now, then in zip(await calls(team), before, strict=True)) > 1
