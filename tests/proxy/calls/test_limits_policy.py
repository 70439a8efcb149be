"""The policy `limits` at a whole gateway, with its store."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.gateway.databases import postgres
from support.gateway.loopback import (
    RunningGateway,
    gateway_before,
    running_upstream,
    says,
    upstreams_at,
    write_settings,
)
from support.programs.program import run, serving
from support.wire import (
    HI,
    KEY,
    SSE,
    STREAM,
    STREAM_HEAD,
    UNARY,
    Answer,
    ask,
    connected,
    ok,
    peer,
    post,
    sse,
)

from hookgate.proxy import policy
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config, PriceSettings, StoreSettings
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.store import Store

Json = dict[str, Any]

OTHER = {"x-goog-api-key": "another-key"}
PRICES = '[models."gemini-*"]\ninput = 1\noutput = 1\n'


def limits(*rules: Json, **more: Any) -> Json:
    return {"type": "builtin", "builtin": "limits", "name": "limits", "options": {"rules": rules}, **more}


@asynccontextmanager
async def gateway(
    folder: Path, *hooks: Json, url: str | None = None, prices: Path | None = None
) -> AsyncIterator[RunningGateway]:
    """A gateway with a store, as `serve` makes it."""
    settings = write_settings(folder, {"BeforeModel": list(hooks)})
    sources = Sources(policy=(settings,), state=folder / "state")
    config = Config(prices=PriceSettings(file=prices))
    async with Store(StoreSettings(url=url), sources.state) as store, running_upstream() as (there, recorded):
        live = policy.load_policy(sources, store=store, prices=read_prices(prices))
        async with (
            upstreams_at(there) as upstreams,
            serve_on(Gateway(live, upstreams, config).handle, "127.0.0.1", 0) as here,
        ):
            yield RunningGateway(here, there, recorded)
        await live.close()


def denial(answer: Answer) -> str:
    """Why the call was denied, as its client is told."""
    assert answer.status == 403
    return str(answer.error["message"])


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "streamed"])
async def test_a_call_over_a_limit_is_denied_and_never_sent(target: str, tmp_path: Path) -> None:
    rule = limits({"name": "trial", "per": "key", "window": "month", "requests": 2})
    async with gateway(tmp_path, rule) as running:
        answers = [await post(running.url, target, HI, KEY) for _ in range(3)]
        other = await post(running.url, target, HI, OTHER)
    assert [answer.status for answer in [*answers, other]] == [200, 200, 403, 200]
    assert (
        "The limit 'trial' has been reached: 2 of 2 requests of this key have been used this month"
        in denial(answers[2])
    )
    assert len(running.generated) == 3


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "streamed"])
async def test_a_caller_is_warned_before_a_limit_is_reached(target: str, tmp_path: Path) -> None:
    """The header names the limit of which most is used."""
    prices = tmp_path / "prices.toml"
    prices.write_text(f'currency = "USD\\n€"\n{PRICES}')
    rules = [
        {"per": "everyone", "window": "day", "cost": 1000},
        {"per": "key", "window": "month", "requests": 5},
    ]
    async with gateway(tmp_path, limits(*rules), prices=prices) as running:
        answers = [await post(running.url, target, HI, KEY) for _ in range(6)]
        other = await post(running.url, target, HI, OTHER)
    budgets = [answer.headers.get("x-hookgate-budget") for answer in [*answers, other]]
    assert budgets == [
        *(None,) * 4,
        "requests 80% of 5 per month; by key",
        "requests 100% of 5 per month; by key",  # with the denial
        None,
    ]


async def test_a_budget_in_money_is_shown_in_its_currency(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(f'currency = "USD\\n€"\n{PRICES.replace("1", "100000")}')
    rule = limits({"name": "the team's", "per": "team", "window": "day", "cost": 0.01})
    async with gateway(tmp_path, rule, prices=prices) as running:
        answers = [await post(running.url, UNARY, HI, KEY) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 403]
    assert re.fullmatch(r"cost \d{3,}% of 0.01 USD per day; by team", answers[1].headers["x-hookgate-budget"])


async def test_a_hook_that_edits_before_does_not_have_the_call_counted_twice(tmp_path: Path) -> None:
    edits = {"type": "builtin", "builtin": "models", "options": {"set": {"temperature": 0}}}
    rule = limits({"per": "key", "window": "month", "requests": 2})
    async with gateway(tmp_path, edits, rule) as running:
        answers = [await post(running.url, UNARY, HI, KEY) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 403]


async def test_gateways_with_one_server_count_together(tmp_path: Path) -> None:
    rule = limits({"per": "everyone", "window": "month", "requests": 2})
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    with postgres() as url:
        async with gateway(folders[0], rule, url=url) as one, gateway(folders[1], rule, url=url) as two:
            answers = [await post(each.url, UNARY, HI, KEY) for each in (one, two, one, two)]
    assert [answer.status for answer in answers] == [200, 200, 403, 403]


@pytest.mark.parametrize(
    ("on_error", "status"),
    [pytest.param({}, 403, id="as it is"), pytest.param({"on_error": "allow"}, 200, id="allow")],
)
async def test_a_store_that_cannot_be_used_denies_calls(
    on_error: Json, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = limits({"per": "key", "window": "month", "requests": 9}, **on_error)
    async with gateway(tmp_path, rule) as running:
        assert (await post(running.url, UNARY, HI, KEY)).status == 200
        with closing(sqlite3.connect(tmp_path / "state" / "hookgate.db", isolation_level=None)) as file:
            file.execute("DROP TABLE counters")
        answer = await post(running.url, UNARY, HI, KEY)
    assert answer.status == status
    if status == 403:
        assert "The hook 'limits' failed; see the gateway's log." in denial(answer)
    assert "the store of limits cannot be used: no such table: counters" in caplog.text


async def test_a_model_without_a_price_is_denied_under_a_limit_on_cost(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n' + PRICES)
    rule = limits({"per": "key", "window": "month", "cost": 1})
    async with gateway(tmp_path, rule, prices=prices) as running:
        known = await post(running.url, UNARY, HI, KEY)
        unknown = await post(running.url, UNARY.replace("gemini-2.5-flash", "gemma"), HI, KEY)
    assert known.status == 200
    assert "the price table has no price for the model 'gemma'" in denial(unknown)


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "streamed"])
@pytest.mark.parametrize("most", [{"tokens": 3}, {"cost": 0.000_003}], ids=["tokens", "cost"])
async def test_what_a_call_used_is_counted_when_it_has_ended(most: Json, target: str, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n' + PRICES)
    async with gateway(tmp_path, limits({"per": "key", "window": "month", **most}), prices=prices) as running:
        answers = [await post(running.url, target, HI, KEY) for _ in range(2)]
        other = await post(running.url, target, HI, OTHER)
    assert [answer.status for answer in [*answers, other]] == [200, 403, 200]
    assert f" {next(iter(most))} of this key" in denial(answers[1]) or " EUR of this key" in denial(
        answers[1]
    )


async def test_what_is_cached_counts_as_a_prompt() -> None:
    cache = {"model": "models/gemini-2.5-flash", "contents": [{"parts": [{"text": "word " * 400}]}]}
    written = ok(json.dumps({"name": "cachedContents/c", "usageMetadata": {"totalTokenCount": 500}}).encode())
    hooks = {"BeforeModel": [limits({"per": "key", "window": "month", "tokens": 600})]}
    async with peer(written) as upstream, gateway_before(upstream.url, hooks) as url:
        statuses = [(await post(url, "/v1beta/cachedContents", cache, KEY)).status for _ in range(4)]
        counted = await post(url, UNARY.replace("generateContent", "countTokens"), HI, OTHER)
    assert statuses == [200, 200, 403, 403]
    assert counted.status == 200


async def test_the_tokens_of_a_cache_are_held_by_calls_that_use_it() -> None:
    cache = {"model": "models/gemini-2.5-flash", "contents": [{"parts": [{"text": "hi"}]}]}
    written = ok(json.dumps({"name": "cachedContents/c", "usageMetadata": {"totalTokenCount": 500}}).encode())
    hooks = {"BeforeModel": [limits({"per": "key", "window": "month", "tokens": 1_200})]}
    small = {**HI, "cachedContent": "cachedContents/c", "generationConfig": {"maxOutputTokens": 1}}
    async with peer(0.5, written) as upstream, gateway_before(upstream.url, hooks) as url:
        assert (await post(url, "/v1beta/cachedContents", cache, KEY)).status == 200
        answers = await asyncio.gather(*(post(url, UNARY, small, OTHER) for _ in range(6)))
    assert sorted(answer.status for answer in answers) == [200] * 3 + [403] * 3


async def test_a_gateway_without_limits_opens_no_store(tmp_path: Path) -> None:
    hook = {"type": "builtin", "builtin": "models", "options": {}}
    async with gateway(tmp_path, hook) as running:
        assert (await post(running.url, UNARY, HI, KEY)).status == 200
    assert not (tmp_path / "state").exists()


# ---- the command


def configured(folder: Path, *rules: Json, **toml: str) -> tuple[str, ...]:
    """The flags of a gateway with these rules."""
    settings = write_settings(folder, {"BeforeModel": [limits(*rules)]})
    file = folder / "hookgate.toml"
    file.write_text("".join(f"[{section}]\n{text}\n" for section, text in toml.items()))
    files = ("--config", str(file), "--policy", str(settings))
    return (*files, "--state", str(folder / "state"), "--listen", "127.0.0.1:0")


async def test_counts_outlive_the_gateway(tmp_path: Path) -> None:
    flags = configured(tmp_path, {"per": "key", "window": "month", "requests": 1})
    async with running_upstream() as (upstream, _):
        statuses = []
        for _ in range(2):
            async with serving("serve", *flags, "--upstream", upstream) as server:
                statuses.append((await post(server.url, UNARY, HI, KEY)).status)
                server.signal(15)
                assert await server.ended() == 0
    assert statuses == [200, 403]


async def test_a_gateway_does_not_start_without_its_store(tmp_path: Path) -> None:
    flags = configured(tmp_path, {"per": "key", "window": "month", "requests": 1})
    (tmp_path / "state" / "hookgate.db").mkdir(parents=True)
    ended = await run("serve", *flags)
    assert ended.code == 1
    assert "hookgate.db cannot be opened: Is a directory; name another folder with --state" in ended.complaint


async def test_a_limit_on_cost_uses_the_list_prices(tmp_path: Path) -> None:
    flags = configured(tmp_path, {"per": "key", "window": "month", "cost": 1})
    assert "hooks: BeforeModel 1" in (await run("config", "check", *flags)).out


async def test_the_price_table_in_use_is_printed_to_be_copied(tmp_path: Path) -> None:
    shipped = await run("config", "prices")
    (tmp_path / "prices.toml").write_text(shipped.out.replace("input = 0.30", "input = 0.5"))
    flags = configured(tmp_path, {"per": "key", "window": "month", "cost": 1}, prices='file = "prices.toml"')
    assert "input = 0.5" in (await run("config", "prices", *flags)).out
    assert read_prices(tmp_path / "prices.toml").cost("gemini-2.5-flash", 10**6, 0) == 0.5


async def test_check_reads_the_price_table_and_makes_no_store(tmp_path: Path) -> None:
    flags = configured(tmp_path, {"per": "key", "window": "month", "cost": 1}, prices='file = "prices.toml"')
    ended = await run("config", "check", *flags)
    assert f"prices.file: {tmp_path}/prices.toml: cannot be read" in ended.complaint
    (tmp_path / "prices.toml").write_text(PRICES)
    ended = await run("config", "check", *flags)
    assert f"{tmp_path}/prices.toml: currency: is missing" in ended.complaint
    (tmp_path / "prices.toml").write_text('currency = "EUR"\n' + PRICES)
    assert (await run("config", "check", *flags)).code == 0
    for command in ("doctor", "test"):
        event = ("BeforeModel",) if command == "test" else ()
        ended = await run("hooks", command, *event, *flags[:-2])
        assert ended.code == 0, ended.err + ended.out
    assert not (tmp_path / "state").exists()


async def test_the_password_of_a_store_is_never_shown(tmp_path: Path) -> None:
    url = "postgresql+psycopg://gate:canary-77@127.0.0.1:1/limits"
    rule = {"per": "key", "window": "month", "requests": 1}
    flags = configured(tmp_path, rule, store=f"url = {json.dumps(url)}", logs='level = "debug"')
    shown = await run("config", "show", "--json", *flags)
    assert json.loads(shown.out)["store.url"]["value"] == url.replace("gate:canary-77", "***")
    ended = await run("serve", *flags)
    assert "gate:***@127.0.0.1:1/limits cannot be opened: " in ended.err
    assert "canary" not in shown.out + ended.err


COUNTED = {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1}}


async def test_what_an_aborted_stream_has_used_is_counted() -> None:
    event = {"candidates": [{"content": {"parts": [{"text": "So"}]}}], **COUNTED}
    rule = limits({"per": "key", "window": "month", "tokens": 10})
    stays = asyncio.Event()
    async with (
        peer(STREAM_HEAD, *sse(event), stays=stays) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [rule]}) as url,
    ):
        async with connected(url) as client:
            await client.post(SSE, HI, KEY)
            await client.head()
            assert b"So" in await client.chunk()
        answers = [await post(url, UNARY, HI, KEY) for _ in range(50)]  # the client must be found gone first
        stays.set()
    assert "tokens of this key" in denial(answers[-1])


TEXT = {"candidates": [{"content": {"role": "model", "parts": [{"text": "So"}]}}]}
END = {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}
FEW = {"per": "key", "window": "month", "tokens": 15}


@pytest.mark.parametrize(
    "last",
    [{"usageMetadata": {"trafficType": "ON_DEMAND"}}, {"usageMetadata": {}}, {}],
    ids=["traffic type", "empty", "none"],
)
@pytest.mark.parametrize("framing", [SSE, STREAM], ids=["events", "array"])
async def test_a_last_usage_without_counts_erases_none(framing: str, last: Json) -> None:
    counts = {"promptTokenCount": "10", "candidatesTokenCount": 7.0}
    events = [{**TEXT, "usageMetadata": counts}, {**END, **last}]
    whole = sse(*events) if framing == SSE else [json.dumps(events).encode()]
    async with (
        peer(STREAM_HEAD, *whole) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [limits(FEW)]}) as url,
    ):
        answers = [await post(url, framing, HI, KEY) for _ in range(2)]
        receipt = f"/hookgate/v1/receipts/{answers[0].headers['x-hookgate-receipt']}"
        used = (await ask(url, "GET", receipt, KEY)).json["usage"]
    assert "17 of 15 tokens of this key have been used this month; it resets" in denial(answers[1])
    assert (used["input_tokens"], used["output_tokens"]) == (10, 7)


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "streamed"])
async def test_of_calls_at_once_only_one_may_exceed_the_limit(target: str) -> None:
    stays = asyncio.Event()
    async with (
        peer(stays=stays) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [limits(FEW)]}) as url,
    ):
        calls = [asyncio.create_task(post(url, target, HI, KEY)) for _ in range(9)]
        denied = [await each for each in islice(asyncio.as_completed(calls), 8)]
        stays.set()
        await asyncio.wait(calls)
        assert all("of 15 tokens of this key" in denial(answer) for answer in denied)
        assert all("of which 8,194 are held for calls in progress" in denial(answer) for answer in denied)
        assert len(upstream.heard) == 1
        assert (await post(url, target, HI, KEY)).status == 502  # the first one has used nothing


def result(text: str) -> Json:
    """A request with a tool's result, whose field is named like that of a file."""
    part = {"functionResponse": {"name": "read", "response": {"data": text}}}
    return {"contents": [{"role": "user", "parts": [part]}]}


@pytest.mark.parametrize(
    ("body", "held"),
    [
        ({**HI, "generationConfig": {"maxOutputTokens": "40000"}}, "40,003"),
        ({**HI, "generationConfig": {"maxOutputTokens": 4e4}}, "40,002"),
        ({**HI, "generationConfig": {"candidateCount": "8"}}, "65,538"),
        ({**HI, "generationConfig": {"maxOutputTokens": "many", "candidateCount": True}}, "8,195"),
        (result("x" * 40_000), "18,195"),
    ],
    ids=["a string", "a float", "candidates", "no number", "a result"],
)
async def test_no_spelling_of_a_request_holds_less(body: Json, held: str) -> None:
    stays = asyncio.Event()
    async with (
        peer(stays=stays) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [limits(FEW)]}) as url,
    ):
        call = asyncio.create_task(post(url, UNARY, body, KEY))
        while not upstream.heard:  # noqa: ASYNC110  # the peer signals nothing
            await asyncio.sleep(0.002)
        denied = await post(url, UNARY, HI, KEY)
        stays.set()
        await asyncio.wait([call])
    assert f"of which {held} are held for calls in progress" in denial(denied)


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "streamed"])
async def test_a_client_that_leaves_before_the_answer_pays_what_was_held(target: str) -> None:
    body = {**HI, "generationConfig": {"maxOutputTokens": 20}}
    stays = asyncio.Event()
    async with (
        peer(stays=stays) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [limits(FEW)]}) as url,
    ):
        async with connected(url) as client:
            await client.post(target, body, KEY)
            while not upstream.heard:  # noqa: ASYNC110  # the peer signals nothing
                await asyncio.sleep(0.002)
        answers = [await post(url, UNARY, HI, KEY)]
        while "held" in denial(answers[-1]):  # until the gateway has noticed
            answers.append(await post(url, UNARY, HI, KEY))
        stays.set()
    assert "22 of 15 tokens of this key have been used this month; it resets" in denial(answers[-1])


BATCHED = {"batch": {"inputConfig": {"requests": {"requests": [{"request": HI}]}}}}
EMBEDDED = {"content": {"parts": [{"text": "word " * 20}]}}


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("batchGenerateContent", BATCHED),
        ("embedContent", EMBEDDED),
        (
            "asyncBatchEmbedContent",
            {"batch": {"inputConfig": {"requests": {"requests": [{"request": EMBEDDED}]}}}},
        ),
    ],
)
@pytest.mark.parametrize("begins", [False, True], ids=["before the answer", "in the answer"])
async def test_a_client_that_leaves_a_call_with_several_requests_pays_what_was_held(
    method: str, body: Any, begins: bool
) -> None:
    """Otherwise it could create batches without a limit, and read them later."""
    stays = asyncio.Event()
    answer = (
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",)
        if begins
        else ()
    )
    async with (
        peer(*answer, stays=stays) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [limits(FEW)]}) as url,
    ):
        async with connected(url) as client:
            await client.post(UNARY.replace("generateContent", method), body, KEY)
            while not upstream.heard:  # noqa: ASYNC110  # the peer signals nothing
                await asyncio.sleep(0.002)
        answers = [await post(url, UNARY, HI, KEY)]
        while "held" in denial(answers[-1]):  # until the gateway has noticed
            answers.append(await post(url, UNARY, HI, KEY))
        stays.set()
    assert "of 15 tokens of this key have been used this month; it resets" in denial(answers[-1])


async def test_a_batch_counts_what_it_may_use_when_it_is_created() -> None:
    item = {"request": {**HI, "generationConfig": {"maxOutputTokens": 20}}}
    batch = {"batch": {"inputConfig": {"requests": {"requests": [item]}}}}
    async with (
        peer(ok(b'{"name": "batches/1"}')) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [limits(FEW)]}) as url,
    ):
        path = UNARY.replace("generateContent", "batchGenerateContent")
        answers = [await post(url, path, batch, KEY) for _ in range(2)]
    assert "22 of 15 tokens" in denial(answers[1])


async def test_an_upstream_that_fails_uses_nothing() -> None:
    head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"
    async with (
        peer(head) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [limits({**FEW, "tokens": 1})]}) as url,
    ):
        assert [(await post(url, UNARY, HI, KEY)).status for _ in range(3)] == [503] * 3


async def test_an_answer_that_a_hook_denies_counts_what_has_passed() -> None:
    denies = says({"decision": "deny", "reason": "No."})
    hooks = {"BeforeModel": [limits(FEW)], "AfterModel": [denies]}
    async with (
        peer(STREAM_HEAD, *sse(TEXT, END)) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await post(url, SSE, HI, KEY)
        receipt = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        recorded = (await ask(url, "GET", receipt, KEY)).json
    assert recorded["outcome"] == "denied"
    assert recorded["usage"]["estimated"] == {"input_tokens": 2, "output_tokens": 0}
