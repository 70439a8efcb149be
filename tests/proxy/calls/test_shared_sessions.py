"""Gateways that share their sessions: a conversation may arrive at any of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.conversation import answer_text, tool_turns, user_turn
from support.gateway.audits import audited_gateway
from support.gateway.loopback import gateway_before, running_upstream, runs, says
from support.wire import HI, KEY, UNARY, Answer, ask, post

from hookgate.proxy.config import Config, ToolCallSettings
from hookgate.proxy.sessions.shared import SharedSessions
from hookgate.proxy.sessions.table import open_session_store

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
SESSION = {**KEY, "x-hookgate-session": "s-1"}
DELIVER = {**SESSION, "x-hookgate-context": "deliver"}
EVENT = {"cwd": "/", "transcript_path": "/t"}


@dataclass(frozen=True)
class Pair:
    """The URLs of two gateways, and the requests that reached their upstream."""

    one: str
    other: str
    recorded: Any

    @property
    def last_contents(self) -> list[Json]:
        contents: list[Json] = self.recorded[-1].body["contents"]
        return contents


@asynccontextmanager
async def pair(
    url: str | None, state: Path, hooks: Json, config: Config | None = None
) -> AsyncIterator[Pair]:
    """Two gateways with the same hooks, each with its own connection to the database."""
    stores = [open_session_store(url, state, hours=1) for _ in range(2)]
    try:
        async with (
            running_upstream() as (upstream, recorded),
            gateway_before(upstream, hooks, config, sessions=SharedSessions(stores[0])) as one,
            gateway_before(upstream, hooks, config, sessions=SharedSessions(stores[1])) as other,
        ):
            yield Pair(one, other, recorded)
    finally:
        for store in stores:
            await store.close()


async def tell(url: str, event: str, headers: dict[str, str] = SESSION, **fields: Any) -> Answer:
    answer = await post(url, f"/hookgate/v1/events/{event}", {**EVENT, **fields}, headers)
    assert answer.status == 200, answer.json
    return answer


async def say(url: str, *contents: Json, headers: dict[str, str] = SESSION) -> Answer:
    return await post(url, UNARY, {"contents": list(contents)}, headers)


STOPS = {"AfterTool": [says({"continue": False, "stopReason": "enough"})]}
RAN = {"tool_name": "t", "tool_input": {}, "tool_response": {}}


async def test_a_stop_applies_at_every_gateway_until_a_new_turn_at_any(
    url: str | None, tmp_path: Path
) -> None:
    async with pair(url, tmp_path, STOPS) as gateways:
        assert answer_text((await say(gateways.other, user_turn("hi"))).json) == "You said: hi"
        await tell(gateways.one, "AfterTool", **RAN)
        for gateway in (gateways.other, gateways.one):
            assert answer_text((await say(gateway, user_turn("hi"))).json) == "enough"
        await tell(gateways.other, "BeforeAgent", prompt="go on")
        assert answer_text((await say(gateways.one, user_turn("go on"))).json) == "You said: go on"


async def test_a_stop_applies_to_a_call_without_hooks_at_another_gateway(
    url: str | None, tmp_path: Path
) -> None:
    async with pair(url, tmp_path, {}) as without, pair(url, tmp_path, STOPS) as gateways:
        await say(without.one, user_turn("hi"))
        await tell(gateways.one, "AfterTool", **RAN)
        answer = await say(without.one, *tool_turns("t", "x"))
        assert answer_text(answer.json) == "enough"


async def test_a_nameless_call_belongs_to_the_session_that_another_gateway_knows(
    url: str | None, tmp_path: Path
) -> None:
    async with pair(url, tmp_path, STOPS) as gateways:
        await tell(gateways.one, "BeforeAgent", prompt="hi")
        await tell(gateways.one, "AfterTool", **RAN)
        for gateway in (gateways.other, gateways.one):
            assert answer_text((await say(gateway, user_turn("hi"), headers=KEY)).json) == "enough"


async def test_a_result_that_was_hidden_at_one_gateway_stays_hidden_at_the_other(
    url: str | None, tmp_path: Path
) -> None:
    seen: list[Json] = []

    def hide(event: Json) -> Json:
        seen.append(event)
        return {"decision": "deny", "reason": f"hidden {len(seen)}"}

    async with pair(url, tmp_path, {"AfterTool": [runs(hide)]}) as gateways:
        for gateway in (gateways.one, gateways.other, gateways.one):
            assert (await say(gateway, *tool_turns("t", "a secret"))).status == 200
            part = gateways.last_contents[-1]["parts"][0]
            assert part["functionResponse"]["response"] == {"output": "hidden 1"}
    assert len(seen) == 1


async def test_the_start_of_a_session_is_derived_once_although_both_see_first_calls(
    url: str | None, tmp_path: Path
) -> None:
    started: list[Json] = []

    async def start(event: Json) -> Json:
        started.append(event)
        await asyncio.sleep(0)
        return {"hookSpecificOutput": {"additionalContext": "the rules"}}

    async with pair(url, tmp_path, {"SessionStart": [runs(start)]}) as gateways:
        await asyncio.gather(
            *(say(url, user_turn("hi")) for url in (gateways.one, gateways.other) for _ in "123")
        )
        assert len(started) == 1
        for gateway in (gateways.one, gateways.other):  # the turn keeps its context
            await say(gateway, user_turn("hi"))
            assert gateways.last_contents[0]["parts"][1:] == [
                {"text": "<hook_context>the rules</hook_context>"}
            ]


async def test_context_waits_for_one_call_at_any_gateway(url: str | None, tmp_path: Path) -> None:
    adds = {"Notification": [], "BeforeTool": [says(additionalContext="careful")]}
    async with pair(url, tmp_path, adds) as gateways:
        await tell(gateways.one, "BeforeTool", DELIVER, tool_name="t", tool_input={})
        counts = []
        for gateway in (gateways.other, gateways.one):
            await say(gateway, user_turn("hi"))
            counts.append(len(gateways.last_contents[-1]["parts"]))
    assert counts == [2, 1]


async def test_a_tool_that_was_announced_at_one_gateway_is_known_at_the_other(
    url: str | None, tmp_path: Path
) -> None:
    config = Config(tools=ToolCallSettings(bypass="deny"))
    async with pair(url, tmp_path, {}, config) as gateways:
        await tell(gateways.one, "BeforeTool", tool_name="t", tool_input={})
        assert (
            answer_text((await say(gateways.other, *tool_turns("t", "a"))).json)
            == 'The tool t answered: {"output":"a"}'
        )
        bypassed = await say(gateways.one, *tool_turns("t", "b"))
        assert "ran without a BeforeTool event" in answer_text(bypassed.json)


async def test_the_session_of_another_key_is_not_reached(url: str | None, tmp_path: Path) -> None:
    async with pair(url, tmp_path, STOPS) as gateways:
        await tell(gateways.one, "AfterTool", **RAN)
        stranger = {**SESSION, "x-goog-api-key": "another"}
        assert (
            answer_text((await say(gateways.other, user_turn("hi"), headers=stranger)).json) == "You said: hi"
        )


async def test_the_receipt_of_one_gateway_is_found_at_the_other(url: str | None, tmp_path: Path) -> None:
    hooks = {"BeforeModel": [says()]}
    async with (
        running_upstream() as (upstream, _),
        audited_gateway(upstream, tmp_path / "one", hooks, store=url) as one,
        audited_gateway(upstream, tmp_path / ("one" if url is None else "other"), hooks, store=url) as other,
    ):
        told = await post(one.url, "/hookgate/v1/events/BeforeTool", {**RAN, **EVENT}, SESSION)
        for answer in (await post(one.url, UNARY, HI, KEY), told):
            path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
            there = await ask(other.url, "GET", path, headers=KEY)
            here = await ask(one.url, "GET", path, headers=KEY)
            assert there.status == here.status == 200
            for name in ("receipt", "route", "session", "model", "outcome", "status", "hooks"):
                assert there.json[name] == here.json[name]
            stranger = await ask(other.url, "GET", path, headers={"x-goog-api-key": "another"})
            assert stranger.status == 404
        unknown = f"/hookgate/v1/receipts/{'0' * 32}"
        assert (await ask(other.url, "GET", unknown, headers=KEY)).status == 404


# ---- the law: which gateway a call or an event reaches makes no difference


def noting(seen: list[Json]) -> Json:
    """Hooks that note what they are shown, add context, hide results, and stop after the tool `last`."""

    def act(event: Json) -> Json:
        seen.append({name: value for name, value in event.items() if name not in ("timestamp", "cwd")})
        match event["hook_event_name"]:
            case "SessionStart" | "BeforeAgent" as name:
                return {"hookSpecificOutput": {"additionalContext": f"context of {name} {len(seen)}"}}
            case "AfterTool" if event["tool_name"] == "last":
                return {"continue": False, "stopReason": "enough"}
            case "AfterTool" if "secret" in str(event["tool_response"]):
                return {"decision": "deny", "reason": f"hidden {len(seen)}"}
        return {}

    return {event: [runs(act)] for event in ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool")}


CALLS = ("turn", "again", "secret", "result", "last")
EVENTS: dict[str, Json] = {
    "SessionStart": {"source": "resume"},
    "BeforeAgent": {},
    "BeforeTool": {"tool_name": "secret", "tool_input": {}},
    "AfterTool": {"tool_name": "last", "tool_input": {}, "tool_response": {}},
    "SessionEnd": {"reason": "exit"},
}


def conversation(seed: int) -> list[tuple[str, str]]:
    """What an agent sends: calls of one conversation, and events of its shim, if it has one."""
    rng = Random(seed)  # noqa: S311  # no secret
    kinds = (*CALLS, *EVENTS) if seed % 2 else CALLS
    steps = [("turn", "turn 0")]
    for number in range(1, 15):
        kind = rng.choice(kinds)
        steps.append((kind, f"turn {number}"))
        if kind == "BeforeAgent":  # the call follows
            steps.append(("turn", f"turn {number}"))
    return steps


async def converse(urls: list[str], seed: int) -> list[Any]:
    """The answers to a conversation whose requests go to the gateways in turn."""
    name = {"x-hookgate-session": f"named-{seed}"} if seed % 4 < 2 else {}
    contents: list[Json] = [user_turn(f"conversation {seed}")]
    answers: list[Any] = []
    for number, (kind, text) in enumerate(conversation(seed)):
        url = urls[number % len(urls)]
        if kind in EVENTS:
            shim = name or {"x-hookgate-session": f"of-shim-{seed}"}
            prompt = {"prompt": text} if kind == "BeforeAgent" else {}
            answers.append((await tell(url, kind, {**KEY, **shim}, **EVENTS[kind], **prompt)).json)
            continue
        if kind == "turn":
            contents += [{"role": "model", "parts": [{"text": "said"}]}, user_turn(text)]
        elif kind != "again":
            called = {"role": "model", "parts": [{"functionCall": {"name": kind, "args": {"n": number}}}]}
            result = {"functionResponse": {"name": kind, "response": {"output": f"{kind} {text}"}}}
            contents += [called, {"role": "user", "parts": [result]}]
        answer = await say(url, *contents, headers={**KEY, **name})
        answers.append(answer_text(answer.json))
    return answers


async def test_a_conversation_is_judged_alike_at_one_gateway_and_at_two_alternating_ones(
    url: str | None, tmp_path: Path
) -> None:
    seen_alone: list[Json] = []
    seen_by_both: list[Json] = []
    async with (
        running_upstream() as (upstream, recorded),
        gateway_before(upstream, noting(seen_alone)) as alone,
        pair(url, tmp_path, noting(seen_by_both)) as gateways,
    ):
        for seed in range(8):
            answers = await converse([alone], seed)
            assert await converse([gateways.one, gateways.other], seed) == answers, seed
            assert seen_by_both == seen_alone, seed
            assert [each.body for each in gateways.recorded] == [each.body for each in recorded], seed
