"""Many small items in one body: their number is limited, and they neither stall other calls nor cost much."""

import asyncio
import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, runs
from support.wire import HI, KEY, UNARY, ok, peer, post, prompt

from hookgate.proxy.calls import pacing
from hookgate.proxy.config import Config, LimitSettings
from hookgate.proxy.server.bodies import SMALL_BODY

EMBEDDINGS = "/v1beta/models/gemini-embedding-001:batchEmbedContents"
OPENAI_EMBEDDINGS = "/v1beta/openai/embeddings"
BATCH = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
TURN = HI["contents"][0]

FEW = Config(limits=LimitSettings(items=5, inputs=1))


def embeddings(number: int) -> dict[str, Any]:
    item = {"model": "models/gemini-embedding-001", "content": TURN}
    return {"requests": [item] * number}


def texts(number: int) -> dict[str, Any]:
    return {"model": "gemini-embedding-001", "input": ["hi"] * number}


def batch(number: int) -> dict[str, Any]:
    requests = [{"request": prompt(f"hi {at}")} for at in range(number)]
    return {"batch": {"inputConfig": {"requests": {"requests": requests}}}}


def calling(number: int) -> bytes:
    parts = [{"functionCall": {"name": "f", "args": {"at": f"{at:060}"}}} for at in range(number)]
    return json.dumps({"candidates": [{"content": {"role": "model", "parts": parts}}]}).encode()


@pytest.mark.parametrize(
    ("target", "body", "place", "setting"),
    [
        pytest.param(UNARY, {"contents": [TURN] * 4}, "contents[1].parts", "limits.items", id="parts"),
        pytest.param(UNARY, {**HI, "tools": [{"googleSearch": {}}] * 6}, "tools", "limits.items", id="tools"),
        pytest.param(
            "/v1beta/openai/chat/completions",
            {"model": "m", "messages": [{"role": "user", "content": "a"}] * 6},
            "messages",
            "limits.items",
            id="chat",
        ),
        pytest.param(
            "/v1beta/openai/responses",
            {"model": "m", "input": [{"role": "user", "content": "a"}] * 6},
            "input",
            "limits.items",
            id="responses",
        ),
        pytest.param(
            "/v1beta/interactions",
            {"model": "m", "input": [{"type": "text", "text": "a"}] * 6},
            "input",
            "limits.items",
            id="interactions",
        ),
        pytest.param(BATCH, batch(6), "batch.inputConfig.requests.requests", "limits.items", id="batch"),
        pytest.param(EMBEDDINGS, embeddings(2), "requests", "limits.inputs", id="embeddings"),
        pytest.param(OPENAI_EMBEDDINGS, texts(2), "input", "limits.inputs", id="OpenAI's embeddings"),
    ],
)
async def test_too_many_items_are_refused_with_their_place_and_the_setting(
    target: str, body: Any, place: str, setting: str
) -> None:
    hooks = {"BeforeModel": [listens(seen := [])]}
    async with peer() as upstream, gateway_before(upstream.url, hooks, FEW) as url:
        answer = await post(url, target, body)
    assert (answer.status, upstream.heard, seen) == (413, [], [])
    assert f" {place}: " in answer.error["message"]
    assert answer.error["message"].endswith(f"or ask the operator to raise {setting}")


@pytest.mark.parametrize(("target", "body"), [(EMBEDDINGS, embeddings(2)), (OPENAI_EMBEDDINGS, texts(3))])
async def test_as_many_texts_as_the_limit_are_judged(target: str, body: Any) -> None:
    hooks = {"BeforeModel": [listens(seen := [])]}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, target, body)
    assert (answer.status, len(upstream.heard)) == (200, 1)
    assert len(seen) == len(body.get("requests") or body["input"])


async def test_an_answer_with_too_many_items_cannot_be_judged() -> None:
    hooks = {"AfterModel": [listens([])]}
    async with peer(ok(calling(6))) as upstream, gateway_before(upstream.url, hooks, FEW) as url:
        answer = await post(url, UNARY, HI)
    assert answer.status == 502
    assert "candidates[0].content.parts" in answer.error["message"]


async def test_a_small_body_with_many_values_is_processed_in_a_thread(steps_in_threads: list[Any]) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "a"}]}] * 1_000}
    hooks = {"BeforeModel": [listens([])]}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        assert len(json.dumps(body)) < SMALL_BODY / 2
        assert (await post(url, UNARY, body)).status == 200
        many = len(steps_in_threads)
        assert (await post(url, UNARY, prompt("a" * 60_000))).status == 200
    assert (many > 0, len(steps_in_threads)) == (True, many)


async def test_small_calls_of_tools_in_a_large_answer_take_no_thread_each(
    steps_in_threads: list[Any],
) -> None:
    hooks = {"BeforeTool": [listens(seen := [])]}
    async with peer(ok(calling(4_000))) as upstream, gateway_before(upstream.url, hooks) as url:
        assert (await post(url, UNARY, HI)).status == 200
    assert len(seen) == 4_000
    assert len(steps_in_threads) < 20


async def test_other_calls_go_on_while_the_calls_of_an_answer_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    seen: list[int] = []

    async def judge(event: dict[str, Any]) -> None:
        seen.append(turns)

    others = asyncio.create_task(take_turns())
    hooks = {"BeforeTool": [runs(judge)]}
    async with peer(ok(calling(100))) as upstream, gateway_before(upstream.url, hooks) as url:
        assert (await post(url, UNARY, HI)).status == 200
    others.cancel()
    assert (len(seen), len(set(seen))) == (100, 100)


@pytest.mark.parametrize(
    ("target", "body"), [(EMBEDDINGS, embeddings(3)), (OPENAI_EMBEDDINGS, texts(3)), (BATCH, batch(3))]
)
async def test_the_requests_of_a_body_belong_to_one_session(target: str, body: Any) -> None:
    hooks = {"BeforeModel": [listens(seen := [])]}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        assert (await post(url, target, body, KEY)).status == 200
    assert len({event["session_id"] for event in seen}) == 1


LIMITED = {
    "type": "builtin",
    "builtin": "limits",
    "options": {"rules": [{"per": "key", "window": "month", "requests": 5}]},
}


@pytest.mark.parametrize(
    ("target", "make"), [(EMBEDDINGS, embeddings), (OPENAI_EMBEDDINGS, texts), (BATCH, batch)]
)
async def test_a_limit_without_room_for_all_requests_of_a_body_counts_none(target: str, make: Any) -> None:
    hooks = {"BeforeModel": [LIMITED]}
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        answers = [await post(url, target, make(number)) for number in (3, 3, 2, 1)]
    assert [answer.status for answer in answers] == [200, 403, 200, 403]
    assert "3 of 5 requests" in answers[1].error["message"]
    assert "5 of 5 requests" in answers[3].error["message"]
