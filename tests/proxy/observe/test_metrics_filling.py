"""The metrics of calls through a gateway on loopback."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from support.gateway.audits import record_of
from support.gateway.counted import Counted, comes_to
from support.gateway.life import gateway_with, until
from support.gateway.loopback import running_upstream, runs, says
from support.hooks.builtins import SENSITIVE
from support.hooks.policies import answer_itself, no_rockets, stop_at_rockets
from support.wire import KEY, SSE, UNARY, ask, connected, peer, post, prompt

from hookgate.proxy.config import Config
from hookgate.proxy.keys.callers import hash_single_key
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.metric_names import DURATION
from hookgate.proxy.observe.metrics import Histograms, Metrics
from hookgate.proxy.observe.usage import read_prices

Json = dict[str, Any]
FLASH = "gemini-2.5-flash"


async def counted(hooks: Json, *calls: tuple[str, str], script: Any = None) -> Counted:
    """The metrics after these calls, each a path and what it says."""
    metrics = Metrics([FLASH])
    async with (
        running_upstream(script) as (upstream_url, _),
        gateway_with(upstream_url, hooks, metrics=metrics) as url,
    ):
        for path, text in calls:
            await post(url, path, prompt(text))
        await until(comes_to(metrics.page, "hookgate_calls_in_flight", 0))
        return Counted(metrics.page())


@pytest.mark.parametrize(
    ("hook", "outcome", "decision"),
    [
        pytest.param(no_rockets, "denied", "deny", id="denied"),
        pytest.param(stop_at_rockets, "stopped", "stop", id="stopped"),
        pytest.param(answer_itself, "synthetic", "answer", id="answered by a hook"),
    ],
)
async def test_calls_are_reported_separately_for_each_decision(
    hook: Any, outcome: str, decision: str
) -> None:
    found = await counted({"BeforeModel": [runs(hook, name="guard")]}, (UNARY, "a rocket"))
    assert found.total("hookgate_calls_total", outcome=outcome, route="judged") == 1
    assert found.total("hookgate_hook_decisions_total", hook="guard", mode="enforce", decision=decision) == 1
    assert found.total("hookgate_upstream_requests_total") == 0
    assert found.total("hookgate_overhead_seconds_count", route="judged") == 1


def quiet(_: Json) -> None:
    """A hook that says nothing."""


def fail(_: Json) -> None:
    """A hook that fails."""
    raise ValueError


async def test_runs_of_hooks_are_counted_by_hook_event_and_outcome() -> None:
    before = [
        runs(quiet, name="quiet"),
        runs(fail, name="broken", on_error="allow"),
        runs(no_rockets, name="guard"),
    ]
    after = [runs(lambda _: {"decision": "deny"}, name="watcher", mode="observe")]
    hooks = {"BeforeModel": before, "AfterModel": after}
    found = await counted(hooks, (UNARY, "hi"), (UNARY, "a rocket"))
    runs_of = {
        (hook, outcome): found.total("hookgate_hook_runs_total", hook=hook, outcome=outcome)
        for hook in ("quiet", "broken", "guard", "watcher")
        for outcome in ("allowed", "denied", "failed")
    }
    assert {key: value for key, value in runs_of.items() if value} == {
        ("quiet", "allowed"): 2,
        ("broken", "failed"): 2,
        ("guard", "allowed"): 1,
        ("guard", "denied"): 1,
        ("watcher", "denied"): 1,
    }
    assert found.total("hookgate_hook_decisions_total", mode="observe", decision="deny") == 1
    assert found.total("hookgate_hook_duration_seconds_count", event="BeforeModel", hook="guard") == 2


async def test_a_failure_that_denies_is_no_denial_of_the_hook() -> None:
    found = await counted({"BeforeModel": [runs(fail, name="strict", on_error="deny")]}, (UNARY, "hi"))
    assert found.total("hookgate_hook_runs_total", outcome="failed") == 1
    assert found.total("hookgate_hook_runs_total") == 1
    assert found.total("hookgate_hook_decisions_total", decision="deny") == 1


async def test_what_a_slow_hook_takes_is_overhead_and_the_upstreams_time_is_not() -> None:
    async def slow(_: Json) -> None:
        await asyncio.sleep(0.2)

    script = {"rules": [{"answer": {"text": "hi", "delay_ms": 400}}]}
    found = await counted({"BeforeModel": [runs(slow, name="slow")]}, (SSE, "hi"), script=script)
    hook, overhead = (found.total(f"hookgate_{name}_seconds_sum") for name in ("hook_duration", "overhead"))
    upstream = found.total("hookgate_upstream_duration_seconds_sum", model=FLASH)
    first = found.total("hookgate_first_token_seconds_sum", model=FLASH)
    assert 0.2 <= hook <= overhead
    assert upstream >= 0.4
    assert first == pytest.approx(overhead + upstream)


async def test_unknown_models_share_one_label() -> None:
    paths = [f"/v1beta/models/{name}:generateContent" for name in (FLASH, "made-up-1", "made-up-2")]
    found = await counted({"AfterModel": [says()]}, *((path, "hi") for path in paths))
    assert found.values("hookgate_upstream_requests_total", "model") == {FLASH, "other"}
    assert found.total("hookgate_upstream_requests_total", model="other", status_class="2xx") == 2


async def test_an_upstream_that_cannot_be_reached_is_reported_separately() -> None:
    metrics = Metrics()
    async with gateway_with("http://127.0.0.1:1", {"AfterModel": [says()]}, metrics=metrics) as url:
        assert (await post(url, UNARY, prompt("hi"))).status == 502
    found = Counted(metrics.page())
    assert found.total("hookgate_upstream_requests_total", status_class="none") == 1


PRICES = 'currency = "EUR"\n[models."gemini-*-flash"]\ninput = 1_000_000\noutput = 2_000_000\n'


async def test_tokens_and_cost_are_those_of_the_receipt_by_model_and_team(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    prices = read_prices(tmp_path / "prices.toml")
    metrics = Metrics((), prices)
    keys = {"anna": {"sha256": hash_single_key(KEY["x-goog-api-key"]), "team": "search"}}
    config = Config.model_validate({"keys": keys, "prices": {"file": str(tmp_path / "prices.toml")}})
    hooks = {"AfterModel": [says()]}
    async with (
        running_upstream() as (upstream_url, _),
        gateway_with(upstream_url, hooks, metrics=metrics, config=config) as url,
    ):
        answer = await post(url, UNARY, prompt("hi"))
        await post(url, UNARY, prompt("hi"), {"x-goog-api-key": "nobody's"})
        path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        used = (await ask(url, "GET", path)).json["usage"]
    found = Counted(metrics.page())
    labels = {"model": "gemini-*-flash", "team": "search"}
    assert found.total("hookgate_tokens_total", kind="input", **labels) == used["input_tokens"] > 0
    assert found.total("hookgate_tokens_total", kind="output", **labels) == used["output_tokens"] > 0
    assert found.total("hookgate_cost_total", currency="EUR", **labels) == used["cost"] > 0
    assert found.values("hookgate_cost_total", "team") == {"search", "none"}


async def test_denials_edits_and_findings_are_counted_by_team() -> None:
    metrics = Metrics()
    keys = {"anna": {"sha256": hash_single_key(KEY["x-goog-api-key"]), "team": "search"}}
    masks = {"type": "builtin", "builtin": "redact", "name": "masks", "options": SENSITIVE}
    hooks = {"BeforeModel": [masks, runs(no_rockets, name="guard")]}
    async with (
        running_upstream() as (upstream_url, _),
        gateway_with(
            upstream_url, hooks, metrics=metrics, config=Config.model_validate({"keys": keys})
        ) as url,
    ):
        await post(url, UNARY, prompt("write to ada@example.com and bob@example.com"))
        await post(url, UNARY, prompt("a rocket"))
    found = Counted(metrics.page())
    masked = {"event": "BeforeModel", "hook": "masks", "team": "search"}
    assert found.total("hookgate_findings_total", finding="EMAIL", **masked) == 2
    assert found.total("hookgate_hook_edits_total", mode="enforce", **masked) == 1
    assert found.total("hookgate_denials_total", outcome="denied", team="search") == 1


def test_kinds_of_findings_that_a_hook_invents_share_a_label() -> None:
    metrics = Metrics()
    tally = HookTally("BeforeModel", "guard", "command", "enforce", findings={f"k{n}": 1 for n in range(150)})
    metrics.note_end(record_of(hooks={"guard": tally}))
    found = Counted(metrics.page())
    assert found.total("hookgate_findings_total", finding="other") == 50
    assert len(found.values("hookgate_findings_total", "finding")) == 101


EVENT = b'data: {"candidates":[{"content":{"parts":[{"text":"0123456789"}],"role":"model"}}]}\r\n\r\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("hook", "held", "begun"),
    [
        pytest.param(runs(quiet, stream="event"), 0, 1, id="event"),
        pytest.param(runs(quiet, stream="window", window=25), 3, 1, id="window"),
        pytest.param(runs(quiet, stream="complete"), 4, 0, id="complete"),
        pytest.param(
            {"type": "builtin", "builtin": "redact", "options": SENSITIVE}, 4, 0, id="a policy's own"
        ),
    ],
)
async def test_what_hooks_hold_back_of_a_stream_is_reported_while_it_lasts(
    hook: Json, held: int, begun: int
) -> None:
    metrics, ended = Metrics(), asyncio.Event()
    async with (
        peer(HEAD + EVENT * 4, stays=ended) as upstream,
        gateway_with(upstream.url, {"AfterModel": [hook]}, metrics=metrics) as url,
        connected(url) as wire,
    ):
        await wire.post(SSE, prompt("hi"))
        await until(comes_to(metrics.page, "hookgate_streams_open", begun))
        await until(comes_to(metrics.page, "hookgate_streams_held_bytes", held * len(EVENT)))
        ended.set()
        await until(comes_to(metrics.page, "hookgate_calls_in_flight", 0))
    left = Counted(metrics.page())
    assert (left.total("hookgate_streams_open"), left.total("hookgate_streams_held_bytes")) == (0, 0)


async def test_a_client_that_leaves_is_counted_once() -> None:
    metrics = Metrics()
    async with (
        peer(b"", stays=asyncio.Event()) as upstream,
        gateway_with(upstream.url, metrics=metrics) as url,
    ):
        async with connected(url) as wire:
            await wire.post(UNARY, prompt("hi"))
            await until(comes_to(metrics.page, "hookgate_calls_in_flight", 1))
        await until(comes_to(metrics.page, "hookgate_calls_in_flight", 0))
    assert Counted(metrics.page()).total("hookgate_calls_total", status_class="left") == 1


def test_histograms_are_written_as_the_library_writes_its_own() -> None:
    ours, expected = CollectorRegistry(), CollectorRegistry()
    histograms = Histograms(DURATION)
    ours.register(histograms)
    library = Histogram(
        DURATION.name, DURATION.help, DURATION.labels, buckets=DURATION.buckets, registry=expected
    )
    for route, seconds in (("judged", 0.05), ("judged", 0.3), ("forwarded", 0.0), ("judged", 1000.0)):
        histograms.observe((route,), seconds)
        library.labels(route).observe(seconds)
    without_times = [line for line in generate_latest(expected).splitlines() if b"_created" not in line]
    assert generate_latest(ours).splitlines() == without_times
