"""Issued keys with limits in Live sessions: a connection is a call, and the tokens of each turn count."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.gateway.keys import Issuing, issue, issuing_gateway, key_header, key_table
from support.gateway.live import LIVE, ScriptedModel, live

Json = dict[str, Any]
SETUP = {"setup": {"model": "models/gemini-live"}}
SAID = {"clientContent": {"turns": [{"role": "user", "parts": [{"text": "hi"}]}], "turnComplete": True}}
SPOKEN = {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": "AAAA"}}}
ANSWER = [
    {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": "hello"}]}}},
    {
        "serverContent": {"turnComplete": True},
        "usageMetadata": {"promptTokenCount": 80, "responseTokenCount": 20},
    },
]


@asynccontextmanager
async def gateway(
    state: Path, routes: Json | None = None, answer: Sequence[Json] = ANSWER
) -> AsyncIterator[Issuing]:
    """A gateway whose model answers in the same way, by default with 100 tokens, whatever it is told."""
    model = ScriptedModel({"clientContent": answer, "realtimeInput": answer})
    async with (
        asyncio.timeout(20),
        live(model) as upstream,
        issuing_gateway(state, upstream_url=upstream, routes=routes or {"live": "judge"}) as issuing,
    ):
        yield issuing


def key_with(state: Path, **limit: Any) -> str:
    """A key for Live sessions with one limit per month."""
    rule = {"per": "key", "window": "month", **limit}
    return issue(state, scope={"routes": ["live", "generate"], "limits": [rule]})


@asynccontextmanager
async def session(url: str, key: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
    async with aiohttp.ClientSession(headers=key_header(key)) as http, http.ws_connect(url + LIVE) as socket:
        await socket.send_json(SETUP)
        assert json.loads((await socket.receive()).data) == {"setupComplete": {}}
        yield socket


async def expect_answer(
    socket: aiohttp.ClientWebSocketResponse[bool], message: Json, answer: Sequence[Json] = ANSWER
) -> None:
    await socket.send_json(message)
    assert [json.loads((await socket.receive()).data) for _ in answer] == [*answer]


async def refused(url: str, key: str) -> aiohttp.WSServerHandshakeError:
    async with aiohttp.ClientSession(headers=key_header(key)) as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await http.ws_connect(url + LIVE)
    return refusal.value


@pytest.mark.parametrize("message", [SAID, SPOKEN], ids=["text", "speech"])
async def test_a_session_ends_after_the_turn_that_reaches_a_limit_of_tokens(
    message: Json, tmp_path: Path
) -> None:
    key = key_with(tmp_path, tokens=150)
    async with gateway(tmp_path) as issuing:
        async with session(issuing.url, key) as socket:
            await expect_answer(socket, message)
            await expect_answer(socket, message)
            end = await socket.receive()
        assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 1008)
        assert "has used 200 of 150 tokens in this month" in end.extra
        assert (await refused(issuing.url, key)).status == 403


async def test_sessions_that_are_open_at_once_share_the_limit(tmp_path: Path) -> None:
    used = {"usageMetadata": {"promptTokenCount": 80, "responseTokenCount": 19_920}}
    answer = [ANSWER[0], {**ANSWER[1], **used}]
    key = key_with(tmp_path, tokens=30_000)
    async with (
        gateway(tmp_path, answer=answer) as issuing,
        session(issuing.url, key) as one,
        session(issuing.url, key) as other,
    ):
        await expect_answer(one, SAID, answer)
        await expect_answer(other, SAID, answer)
        assert (await other.receive()).data == 1008
        await one.send_json(SAID)
        end = await one.receive()
        assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 1008)


async def test_each_session_is_one_request(tmp_path: Path) -> None:
    key = key_with(tmp_path, requests=1)
    async with gateway(tmp_path) as issuing:
        async with session(issuing.url, key) as socket:
            for _ in range(3):
                await expect_answer(socket, SAID)
        assert (await refused(issuing.url, key)).status == 403


async def test_a_limit_on_cost_needs_a_price_for_the_model(tmp_path: Path) -> None:
    key = key_with(tmp_path, cost=1.0)
    async with (
        gateway(tmp_path) as issuing,
        aiohttp.ClientSession(headers=key_header(key)) as http,
        http.ws_connect(issuing.url + LIVE) as socket,
    ):
        await socket.send_json(SETUP)
        end = await socket.receive()
    assert (end.data, "no price for the model 'gemini-live'" in (end.extra or "")) == (1008, True)


async def test_sessions_that_are_not_judged_are_refused_if_their_tokens_would_have_to_be_counted(
    tmp_path: Path,
) -> None:
    limited, counted = key_with(tmp_path, tokens=150), key_with(tmp_path, requests=9)
    async with gateway(tmp_path, {"unhooked": ["live"]}) as issuing:
        assert (await refused(issuing.url, limited)).status == 403
        async with session(issuing.url, counted) as socket:
            await expect_answer(socket, SAID)


async def test_the_tokens_of_a_session_are_in_the_usage_of_its_key_once(tmp_path: Path) -> None:
    key = key_with(tmp_path, tokens=1000)
    async with gateway(tmp_path) as issuing, session(issuing.url, key) as socket:
        await expect_answer(socket, SAID)
        await expect_answer(socket, SAID)
    with key_table(tmp_path) as table:  # the usage is written when the gateway stops
        [used] = table.usage().values()
    assert (used.calls, used.input_tokens, used.output_tokens) == (1, 160, 40)
