"""A policy that is pushed to gateways of a team, and agents whose calls go to the gateways in turn."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.event_order import LAST, TURN, install, names
from support.node import GeminiCli
from support.one_policy import AGENTS, POLICY, Agent, check_policy
from support.pushed import document, hook
from support.python_sdk import pieces, python_client, sdk_warnings
from support.wire import HI, KEY, UNARY, ask
from team import Team

from hookgate.hooks.settings import EVENTS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), sdk_warnings]

Upstream = tuple[str, Any]

PUSHED_FIRST = "{}"


async def push(team: Team, folder: Path, text: str) -> int:
    """Push a policy, and give the number of its revision."""
    file = folder / "pushed.json"
    file.write_text(text)
    await team.gateways[0].command("policy", "push", str(file))
    history = await team.gateways[0].command("policy", "history")
    return sum(line.lstrip()[:1].isdigit() for line in history.splitlines())


async def runs_everywhere(team: Team, number: int) -> None:
    """Wait until every gateway reports the revision."""
    for gateway in team.gateways:
        url = f"http://{gateway.admin}"
        while (await ask(url, "GET", "/readyz")).json["policy"]["number"] != number:  # noqa: ASYNC110  # a process
            await asyncio.sleep(0.05)


@asynccontextmanager
async def pushed(team: Team, folder: Path, text: str) -> AsyncIterator[None]:
    """A policy is in force at all gateways while the block runs."""
    await runs_everywhere(team, await push(team, folder, text))
    try:
        yield
    finally:
        await runs_everywhere(team, await push(team, folder, "{}"))


async def calls(team: Team) -> list[float]:
    """The number of generating calls that each gateway has answered."""
    counts = []
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

    async with (
        pushed(team, tmp_path, policy("one")),
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
    team: Team, tmp_path: Path, writes: Callable[[str, Path], Awaitable[None]], end: list[str]
) -> None:
    file = tmp_path / "seen"
    config = {"type": "command", "name": "seen", "command": f"(cat; echo) >> {file}"}
    before = await calls(team)
    async with pushed(team, tmp_path, document(**dict.fromkeys(EVENTS, config))):
        await writes(team.url, tmp_path)
        seen = [json.loads(line) for line in file.read_text().splitlines() if line]
    expected = ["SessionStart", "BeforeAgent", *TURN, *LAST, *end]
    assert [name for name in names(seen) if name != "PreCompress"] == expected
    assert len({event["session_id"] for event in seen}) == 1
    assert sum(now > then for now, then in zip(await calls(team), before, strict=True)) > 1


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(agent, id=name, marks=() if name.startswith("google-genai") else pytest.mark.slow)
        for name, agent in AGENTS.items()
    ],
)
async def test_one_policy_holds_if_calls_go_to_the_gateways_in_turn(
    team: Team, folder: Path, agent: Agent, upstream: Upstream, tmp_path: Path
) -> None:
    recorded = upstream[1]
    before = await calls(team)
    recorded.clear()
    async with pushed(team, tmp_path, json.dumps(POLICY)):
        said = await agent(team.url, folder)
    sent = json.dumps([request.body for request in recorded])
    check_policy(said, folder / "victim", sent)
    assert sum(now > then for now, then in zip(await calls(team), before, strict=True)) > 1
