"""Limits and usage of issued keys, at a whole gateway."""

import asyncio
import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.gateway.counted import Counted
from support.gateway.keys import (
    ACCEPTING,
    denial_reason,
    id_of,
    issue,
    issuing_gateway,
    key_header,
    key_table,
)
from support.gateway.life import until
from support.gateway.loopback import listens
from support.wire import HI, SSE, UNARY, ask, connected, ok, peer, post, request_bytes, spoken, sse

from hookgate.hooks import CallEnd
from hookgate.proxy.config import Config, StoreSettings
from hookgate.proxy.keys import issued as issued_keys
from hookgate.proxy.keys.issued import open_issued_keys
from hookgate.proxy.keys.secrets import create_key
from hookgate.proxy.keys.table import KeyTable
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.store import Store, StoreError

EMBED = UNARY.replace("generateContent", "embedContent")
OWN = "AIza-the-callers-own"


def limited(**rule: Any) -> dict[str, Any]:
    return {"limits": [{"per": "key", "window": "month", **rule}]}


async def test_gateways_count_the_calls_of_a_key_together(url: str | None, tmp_path: Path) -> None:
    seen: list[Any] = []
    hooks = {"BeforeModel": [listens(seen)]}
    key, other = (issue(tmp_path, url, limited(requests=2)) for _ in range(2))
    async with (
        issuing_gateway(tmp_path, hooks, url=url) as one,
        issuing_gateway(tmp_path, hooks, url=url) as two,
    ):
        answers = [await post(each.url, UNARY, HI, key_header(key)) for each in (one, two, one, two)]
        assert (
            await post(one.url, UNARY, HI, key_header(other))
        ).status == 200  # although its owner is the same
        assert (len(one.recorded), len(two.recorded)) == (2, 1)
    assert [answer.status for answer in answers] == [200, 200, 403, 403]
    assert denial_reason(answers[2]) == "KEY_LIMIT_REACHED"
    name = f"The key {id_of(key)} of alice"
    assert (
        answers[2]
        .error["message"]
        .startswith(f"{name} has used 2 of 2 requests in this month; it resets at ")
    )
    assert len(seen) == 3


PRICES = """currency = "EUR"
[models."gemini-*"]
input = 100000
output = 100000
"""


@pytest.mark.parametrize("target", [UNARY, SSE])
@pytest.mark.parametrize("rule", [{"tokens": 3}, {"cost": 0.2}], ids=["tokens", "cost"])
@pytest.mark.parametrize("hooks", [{}, {"AfterModel": [listens([])]}], ids=["unread", "judged"])
async def test_tokens_and_cost_are_counted_when_a_call_ends(
    hooks: Any, rule: Any, target: str, tmp_path: Path
) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    prices = read_prices(tmp_path / "prices.toml")
    key = key_header(issue(tmp_path, scope=limited(**rule)))
    section = {"file": tmp_path / "prices.toml"}
    async with issuing_gateway(tmp_path, hooks, known_prices=prices, prices=section) as gateway:
        assert (await post(gateway.url, target, HI, key)).status == 200
        refused = await post(gateway.url, target, HI, key)
        assert denial_reason(refused) == "KEY_LIMIT_REACHED"
        assert f" {'tokens' if 'tokens' in rule else 'EUR'} in this month" in refused.error["message"]
        unpriced = await post(gateway.url, target.replace("gemini-2.5", "gemma-4"), HI, key)
        assert ("no price for the model 'gemma-4-flash'" in unpriced.error["message"]) == ("cost" in rule)


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_of_chat_completions_count_if_no_hook_judges_them(stream: bool, tmp_path: Path) -> None:
    key = issue(tmp_path, scope=limited(tokens=3))
    body = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    async with issuing_gateway(tmp_path) as gateway:
        path, headers = "/v1beta/openai/chat/completions", {"Authorization": f"Bearer {key}"}
        answer = await post(gateway.url, path, body, headers)
        assert (answer.status, b"usage" in answer.body) == (200, not stream)
        assert denial_reason(await post(gateway.url, path, body, headers)) == "KEY_LIMIT_REACHED"
        sent_key = gateway.recorded[0].headers["authorization"]
    assert sent_key.startswith("Bearer ")
    assert key not in sent_key


OPENAI_BODIES = {
    "/v1beta/openai/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1beta/openai/responses": {"input": "hi"},
}


@pytest.mark.parametrize("path", OPENAI_BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_cost_is_limited_by_the_model_that_a_body_names(
    stream: bool, path: str, tmp_path: Path
) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    prices = read_prices(tmp_path / "prices.toml")
    key = issue(tmp_path, scope=limited(cost=0.2))
    body = {**OPENAI_BODIES[path], "model": "gemini-2.5-flash", "stream": stream}
    section = {"file": tmp_path / "prices.toml"}
    async with issuing_gateway(tmp_path, known_prices=prices, prices=section) as gateway:
        unpriced = await post(gateway.url, path, {**body, "model": "gemma-4"}, key_header(key))
        assert denial_reason(unpriced) == "KEY_LIMIT_REACHED"
        assert "no price for the model 'gemma-4'" in unpriced.error["message"]
        assert (await post(gateway.url, path, body, key_header(key))).status == 200
        assert denial_reason(await post(gateway.url, path, body, key_header(key))) == "KEY_LIMIT_REACHED"
        assert len(gateway.recorded) == 1
        await gateway.keys.flush()
    with key_table(tmp_path) as table:
        assert table.usage()[id_of(key)].cost > 0.2


COUNTED = {
    **spoken("ok", finishReason="STOP"),
    "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 5},
}
OPENAI_CHAT = "/v1beta/openai/chat/completions"
CHAT_BODY = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}]}
CHAT_ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gemini-2.5-flash",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [listens([])]}], ids=["unread", "judged"])
@pytest.mark.parametrize(
    ("body", "answered", "factor"),
    [
        ({**HI, "serviceTier": "standard"}, {}, 1),
        ({**HI, "serviceTier": "SERVICE_TIER_FLEX"}, {}, 1),
        ({**HI, "serviceTier": "priority"}, {}, 2),
        ({**HI, "service_tier": "SERVICE_TIER_PRIORITY"}, {}, 2),
        ({**HI, "serviceTier": 3}, {}, 2),
        ({**HI, "serviceTier": "priority"}, {"x-gemini-service-tier": "standard"}, 1),
        (HI, {"x-gemini-service-tier": "priority"}, 2),
        ({**CHAT_BODY, "service_tier": "default"}, {}, 1),
        ({**CHAT_BODY, "service_tier": "priority"}, {}, 2),
    ],
)
async def test_a_service_tier_that_costs_more_counts_more(
    body: Any, answered: dict[str, str], factor: int, hooks: Any, tmp_path: Path
) -> None:
    path, document = (OPENAI_CHAT, CHAT_ANSWER) if "messages" in body else (UNARY, COUNTED)
    answer = ok(json.dumps(document).encode(), **answered)
    (tmp_path / "prices.toml").write_text(PRICES)
    prices = read_prices(tmp_path / "prices.toml")
    key, section = issue(tmp_path, scope=limited(cost=100)), {"file": tmp_path / "prices.toml"}
    async with (
        peer(answer) as upstream,
        issuing_gateway(
            tmp_path, hooks, upstream_url=upstream.url, known_prices=prices, prices=section
        ) as gateway,
    ):
        assert (await post(gateway.url, path, body, key_header(key))).status == 200
        await gateway.keys.flush()
    with key_table(tmp_path) as table:
        assert table.usage()[id_of(key)].cost == pytest.approx(factor * 0.5)


async def test_a_tier_that_a_repeated_header_asks_for_counts(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    prices = read_prices(tmp_path / "prices.toml")
    key, section = issue(tmp_path, scope=limited(cost=100)), {"file": tmp_path / "prices.toml"}
    tiers = "".join(f"x-vertex-ai-llm-shared-request-type: {tier}\r\n" for tier in ("flex", "priority"))
    head, _, body = request_bytes("POST", UNARY, json.dumps(HI).encode(), key_header(key)).partition(
        b"\r\n\r\n"
    )
    async with (
        peer(ok(json.dumps(COUNTED).encode())) as upstream,
        issuing_gateway(tmp_path, upstream_url=upstream.url, known_prices=prices, prices=section) as gateway,
    ):
        async with connected(gateway.url) as client:
            await client.write(head + b"\r\n" + tiers.encode() + b"\r\n" + body)
            assert (await client.answer()).status == 200
        await gateway.keys.flush()
    with key_table(tmp_path) as table:
        assert table.usage()[id_of(key)].cost == pytest.approx(1)


async def test_what_is_held_of_a_limit_on_cost_is_that_of_the_service_tier(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    prices = read_prices(tmp_path / "prices.toml")
    key, section = key_header(issue(tmp_path, scope=limited(cost=1500))), {"file": tmp_path / "prices.toml"}
    stays = asyncio.Event()
    async with (
        peer(stays=stays) as upstream,
        issuing_gateway(tmp_path, upstream_url=upstream.url, known_prices=prices, prices=section) as gateway,
        asyncio.TaskGroup() as calls,
    ):
        calls.create_task(post(gateway.url, UNARY, {**HI, "serviceTier": "priority"}, key))
        await until(lambda: upstream.heard)
        refused = await post(gateway.url, UNARY, HI, key)
        stays.set()
    assert "1,639.20 are held" in refused.error["message"]


async def test_a_caller_is_warned_before_a_limit_of_the_key_is_reached(tmp_path: Path) -> None:
    key = issue(tmp_path, None, limited(requests=5))
    async with issuing_gateway(tmp_path) as gateway:
        answers = [await post(gateway.url, UNARY, HI, key_header(key)) for _ in range(6)]
        scraped = gateway.metrics
    budgets = [answer.headers.get("x-hookgate-budget") for answer in answers]
    assert budgets[3:] == [None, "requests 80% of 5 per month; by key", None]  # the last one is denied
    near = {"measure": "requests", "window": "month", "team": "search"}
    assert Counted(scraped.page()).total("hookgate_calls_near_limits_total", **near) == 1


async def test_a_limit_for_some_models_counts_calls_whose_body_names_one(tmp_path: Path) -> None:
    path, body = next(iter(OPENAI_BODIES.items()))
    key = key_header(issue(tmp_path, scope=limited(requests=1, models=["gemini-2.5-*"])))
    async with issuing_gateway(tmp_path) as gateway:
        for model, status in (("gemini-3-flash", 200), ("gemini-2.5-flash", 200), ("gemini-2.5-pro", 403)):
            assert (await post(gateway.url, path, {**body, "model": model}, key)).status == status


async def test_a_call_counts_as_a_request_although_its_body_is_refused(tmp_path: Path) -> None:
    path, body = next(iter(OPENAI_BODIES.items()))
    key = key_header(issue(tmp_path, scope=limited(requests=1)))
    async with issuing_gateway(tmp_path) as gateway:
        assert (await post(gateway.url, path, {**body, "model": 7}, key)).status == 400
        assert denial_reason(await post(gateway.url, path, body, key)) == "KEY_LIMIT_REACHED"


async def test_a_limit_on_cost_without_prices_denies_every_call(tmp_path: Path) -> None:
    key = key_header(issue(tmp_path, scope=limited(cost=5)))
    async with issuing_gateway(tmp_path) as gateway:
        assert denial_reason(await post(gateway.url, UNARY, HI, key)) == "KEY_LIMIT_REACHED"
        assert (await ask(gateway.url, "GET", "/v1beta/models", key)).status == 200


async def test_a_store_that_cannot_count_denies_calls_of_limited_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limited_key, other = issue(tmp_path, scope=limited(requests=9)), issue(tmp_path)
    async with issuing_gateway(tmp_path) as gateway:
        with closing(sqlite3.connect(tmp_path / "hookgate.db", isolation_level=None)) as file:
            file.execute("DROP TABLE counters")
        assert (
            denial_reason(await post(gateway.url, UNARY, HI, key_header(limited_key))) == "KEYS_UNAVAILABLE"
        )
        assert "the store of limits cannot be used: no such table: counters" in caplog.text
        assert (await post(gateway.url, UNARY, HI, key_header(other))).status == 200


async def test_usage_is_summed_over_gateways_and_survives_outages(url: str | None, tmp_path: Path) -> None:
    key, unused = issue(tmp_path, url), issue(tmp_path, url)
    async with issuing_gateway(tmp_path, url=url) as one, issuing_gateway(tmp_path, url=url) as two:
        for gateway in (one, two, one):
            assert (await post(gateway.url, UNARY, HI, key_header(key))).status == 200
        assert (await post(one.url, EMBED, HI, key_header(create_key(id_of(key))[0]))).status == 403
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KeyTable, "add_usage", _fail)
            await one.keys.flush()
        await one.keys.flush()
    with key_table(tmp_path, url) as table:
        usage = table.usage()
    assert unused not in usage
    assert (usage[id_of(key)].calls, usage[id_of(key)].input_tokens > 0) == (3, True)
    assert time.time() - 60 < usage[id_of(key)].last_used <= time.time()


@pytest.mark.parametrize("target", [UNARY, SSE])
@pytest.mark.parametrize("hooks", [{}, {"AfterModel": [listens([])]}], ids=["unread", "judged"])
async def test_the_tokens_of_an_answer_that_breaks_off_count(hooks: Any, target: str, tmp_path: Path) -> None:
    key = issue(tmp_path)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
    [event] = sse({**spoken("so far"), "usageMetadata": usage})
    async with (
        peer(head, event if target == SSE else event.removeprefix(b"data: ")) as upstream,
        issuing_gateway(tmp_path, hooks, upstream_url=upstream.url) as gateway,
    ):
        await post(gateway.url, target, HI, key_header(key))
        await gateway.keys.flush()
    with key_table(tmp_path) as table:
        used = table.usage()[id_of(key)]
    assert (used.calls, used.input_tokens, used.output_tokens) == (1, 7, 5)


async def test_usage_that_is_being_written_when_the_gateway_ends_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, ending = threading.Event(), threading.Event()
    add_usage = KeyTable.add_usage

    def add_at_the_end(*values: Any) -> None:
        monkeypatch.setattr(KeyTable, "add_usage", add_usage)
        writing.set()
        ending.wait()
        raise StoreError("away")

    monkeypatch.setattr(issued_keys, "_FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(KeyTable, "add_usage", add_at_the_end)
    key, config = issue(tmp_path), Config.model_validate(ACCEPTING)
    async with (
        Store(StoreSettings(), tmp_path) as store,
        open_issued_keys(config, None, tmp_path, store.counters(), None) as keys,
    ):
        keys.note_use(id_of(key), CallEnd("gemini-2.5-flash", 1, 1, None))
        await asyncio.to_thread(writing.wait)
        asyncio.get_running_loop().call_soon(ending.set)
    with key_table(tmp_path) as table:
        assert table.usage()[id_of(key)].calls == 1


def _fail(*_: Any) -> None:
    raise StoreError("away")
