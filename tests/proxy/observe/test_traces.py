"""Traces of calls through a gateway on loopback, as a collector receives them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.gateway.counted import Counted
from support.gateway.life import gateway_with, until
from support.gateway.loopback import running_upstream, runs
from support.hooks.policies import no_rockets, redact
from support.operating.collector import Collector, Span, collecting
from support.programs.program import environment, serving
from support.wire import KEY, SSE, UNARY, peer, post, prompt

from hookgate.proxy.config import TracingSettings
from hookgate.proxy.observe import otlp
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.tracing import open_tracing

Json = dict[str, Any]
ID, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{ID}-{SPAN}-01", "tracestate": "vendor=1"}
SERVER, CLIENT = 2, 3


@dataclass
class Traced:
    """A gateway whose traces go to a collector; they are there when the block has ended."""

    url: str
    upstream_url: str
    recorded: Any
    metrics: Metrics


@asynccontextmanager
async def traced(
    collector_url: str, hooks: Json | None = None, script: Any = None, **settings: Any
) -> AsyncIterator[Traced]:
    metrics = Metrics()
    reported = TracingSettings(endpoint=collector_url, **settings)
    async with (
        running_upstream(script) as (upstream_url, recorded),
        open_tracing(reported, metrics, {"gemini": upstream_url}) as traces,
        gateway_with(upstream_url, hooks, metrics=metrics, traces=traces) as url,
    ):
        yield Traced(url, upstream_url, recorded, metrics)


async def spans_after(
    hooks: Json, target: str, body: Json, headers: Json | None = None, **more: Any
) -> Collector:
    """What has arrived after one call."""
    async with collecting() as collector:
        async with traced(collector.url, hooks, **more) as gateway:
            await post(gateway.url, target, body, {**KEY, **(headers or {})})
        return collector


async def test_a_call_is_a_span_with_its_hooks_and_upstream_requests_below() -> None:
    hooks = {"BeforeModel": [runs(no_rockets, name="guard")], "AfterModel": [runs(redact, name="redact")]}
    config = {"temperature": 0.5, "maxOutputTokens": 100, "topK": "odd", "stopSequences": ["x"]}
    async with collecting() as collector, traced(collector.url, hooks, service_name="edge") as gateway:
        body = prompt("hi", generationConfig=config)
        answer = await post(gateway.url, UNARY, body, {**KEY, **PARENT, "x-hookgate-session": "s-1"})
        [sent] = gateway.recorded
    [call] = collector.named("generate_content gemini-2.5-flash")
    [before], [after] = collector.named("hook BeforeModel guard"), collector.named("hook AfterModel redact")
    [upstream] = collector.named("upstream generateContent")
    assert len(collector.spans) == 4
    assert collector.services == {"edge"}
    assert {span.trace for span in collector.spans} == {ID}
    assert (call.parent, call.kind) == (SPAN, SERVER)
    assert {span.parent for span in (before, after, upstream)} == {call.id}
    assert upstream.kind == CLIENT
    assert sent.headers["traceparent"] == f"00-{ID}-{upstream.id}-01"
    assert sent.headers["tracestate"] == "vendor=1"
    assert call.begin <= before.begin <= before.end <= upstream.begin <= upstream.end <= call.end
    reported = call.attributes
    assert reported["gen_ai.operation.name"] == "generate_content"
    assert reported["gen_ai.provider.name"] == "gcp.gemini"
    assert reported["gen_ai.request.model"] == "gemini-2.5-flash"
    assert reported["gen_ai.conversation.id"] == "s-1"
    assert (reported["gen_ai.request.temperature"], reported["gen_ai.request.max_tokens"]) == (0.5, 100)
    assert "gen_ai.request.top_k" not in reported
    used = answer.json["usageMetadata"]
    assert reported["gen_ai.usage.input_tokens"] == used["promptTokenCount"]
    assert reported["gen_ai.usage.output_tokens"] == used["candidatesTokenCount"]
    assert reported["gen_ai.response.finish_reasons"] == ["STOP"]
    assert reported["gen_ai.response.model"] == answer.json["modelVersion"]
    assert reported["gen_ai.response.id"] == answer.json["responseId"]
    assert (reported["http.response.status_code"], reported["hookgate.outcome"]) == (200, "answered")
    assert reported["hookgate.receipt"] == answer.headers["x-hookgate-receipt"]
    assert before.attributes["hookgate.hook.decisions"] == ["allow"]
    assert not any(span.failed for span in collector.spans)


async def test_a_hook_that_judges_every_event_of_a_stream_is_one_span() -> None:
    hooks = {"AfterModel": [runs(lambda _: None, name="look", stream="event")]}
    script = {"rules": [{"answer": {"text": "one two three four", "chunk_delay_ms": 20}}]}
    collector = await spans_after(hooks, SSE, prompt("hi"), script=script)
    [hook] = collector.named("hook AfterModel look")
    [call] = collector.named("generate_content")
    assert hook.attributes["hookgate.hook.runs"] > 1
    assert call.begin <= hook.begin < hook.end <= call.end


async def test_a_denied_call_has_no_span_upstream_and_tells_why_by_its_outcome() -> None:
    collector = await spans_after(
        {"BeforeModel": [runs(no_rockets, name="guard")]}, UNARY, prompt("a rocket")
    )
    [call, hook] = sorted(collector.spans, key=lambda span: span.parent)
    assert (call.parent, hook.parent) == ("", call.id)
    assert (call.attributes["hookgate.outcome"], call.failed) == ("denied", False)
    assert hook.attributes["hookgate.hook.decisions"] == ["deny"]


async def test_an_upstream_that_is_away_is_a_failed_span() -> None:
    async with (
        collecting() as collector,
        open_tracing(TracingSettings(endpoint=collector.url), Metrics()) as traces,
        gateway_with("http://127.0.0.1:1", traces=traces) as url,
    ):
        await post(url, UNARY, prompt("hi"))
        await until(lambda: len(collector.spans) == 2)
    failed = {span.name for span in collector.spans if span.failed}
    assert failed == {"generate_content gemini-2.5-flash", "upstream generateContent"}


async def test_calls_that_no_hook_judges_are_traced_as_well() -> None:
    collector = await spans_after({}, "/v1beta/models/gemini-2.5-flash:countTokens", prompt("hi"), PARENT)
    [call] = collector.named("judged countTokens")
    [upstream] = collector.named("upstream countTokens")
    assert (call.trace, upstream.parent) == (ID, call.id)
    assert "gen_ai.operation.name" not in call.attributes


# ---- content and keys

SAID = {"systemInstruction": {"parts": [{"text": "canary-system"}]}}


@pytest.mark.parametrize(
    "hooks", [pytest.param({}, id="no hooks"), pytest.param({"AfterModel": [runs(redact)]}, id="hooks")]
)
async def test_content_is_in_spans_only_when_asked_for(hooks: Json) -> None:
    script = {"rules": [{"answer": {"text": "canary-answer"}}]}
    without = await spans_after(hooks, UNARY, prompt("canary-prompt", **SAID), script=script)
    assert without.named("generate_content")
    assert b"canary" not in without.received
    with_it = await spans_after(hooks, UNARY, prompt("canary-prompt", **SAID), script=script, content=True)
    reported = with_it.named("generate_content")[0].attributes
    asked = [{"role": "user", "parts": [{"type": "text", "content": "canary-prompt"}]}]
    assert json.loads(reported["gen_ai.input.messages"]) == asked
    assert json.loads(reported["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "canary-system"}
    ]
    [answer] = json.loads(reported["gen_ai.output.messages"])
    assert (answer["role"], answer["finish_reason"]) == ("assistant", "stop")
    assert answer["parts"] == [{"type": "text", "content": "canary-answer"}]


async def test_no_key_is_in_any_span() -> None:
    hooks = {"AfterModel": [runs(redact)]}
    in_query = f"{UNARY}?key=canary-key"
    for target, headers in (
        (UNARY, {"x-goog-api-key": "canary-key"}),
        (in_query, {"x-goog-api-key": "canary-key"}),
    ):
        collector = await spans_after(hooks, target, prompt("hi"), headers, content=True)
        assert collector.named("generate_content")
        assert b"canary" not in collector.received


# ---- the collector


async def test_calls_continue_and_spans_are_counted_while_the_collector_is_down() -> None:
    async with traced("http://127.0.0.1:1") as gateway:
        for _ in range(3):
            assert (await post(gateway.url, UNARY, prompt("hi"))).status == 200
    found = Counted(gateway.metrics.page())
    assert found.total("hookgate_spans_total", result="dropped") == 6
    assert found.total("hookgate_spans_total", result="exported") == 0
    assert found.total("hookgate_spans_queued") == 0


async def test_a_collector_that_never_answers_holds_up_neither_calls_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "_MAX_QUEUED", 1)
    monkeypatch.setattr(otlp, "_PAUSE_SECONDS", 60)
    monkeypatch.setattr(otlp, "_TIMEOUT_SECONDS", 0.2)
    async with asyncio.timeout(15), peer(stays=asyncio.Event()) as silent, traced(silent.url) as gateway:
        for _ in range(3):
            assert (await post(gateway.url, UNARY, prompt("hi"))).status == 200
        while_it_waits = Counted(gateway.metrics.page())
    assert while_it_waits.total("hookgate_spans_queued") == 2
    assert while_it_waits.total("hookgate_spans_total", result="dropped") == 4
    assert Counted(gateway.metrics.page()).total("hookgate_spans_total", result="dropped") == 6


async def test_what_a_collector_refuses_is_counted() -> None:
    async with collecting() as collector:
        collector.status = 400
        async with traced(collector.url) as gateway:
            await post(gateway.url, UNARY, prompt("hi"))
    assert collector.spans == []
    assert Counted(gateway.metrics.page()).total("hookgate_spans_total", result="dropped") == 2


async def test_calls_that_are_not_sampled_leave_no_span_and_pass_the_trace_on() -> None:
    async with collecting() as collector, traced(collector.url, sample=0.0) as gateway:
        await post(gateway.url, UNARY, prompt("hi"))
        [sent] = gateway.recorded
    assert collector.spans == []
    assert sent.headers["traceparent"].endswith("-00")


# ---- the command


async def test_the_gateway_as_a_program_sends_its_last_spans_when_it_stops(tmp_path: Path) -> None:
    async with collecting() as collector, running_upstream() as (upstream_url, _):
        env = {"HOOKGATE_TRACING__ENDPOINT": collector.url}
        flags = ["--listen", "127.0.0.1:0", "--upstream", upstream_url, "--state", str(tmp_path)]
        async with serving("serve", *flags, env=env) as server:
            assert (await post(server.url, UNARY, prompt("hi"))).status == 200
            server.signal(15)
            assert await server.ended() == 0
    assert collector.services == {"hookgate"}
    assert _names(collector.spans) == ["generate_content gemini-2.5-flash", "upstream generateContent"]


def _names(spans: list[Span]) -> list[str]:
    return sorted(span.name for span in spans)


async def test_without_a_collector_the_clients_header_goes_through_as_it_came() -> None:
    async with (
        running_upstream() as (upstream_url, recorded),
        gateway_with(upstream_url, {"AfterModel": [runs(redact)]}) as url,
    ):
        await post(url, UNARY, prompt("hi"), {**KEY, **PARENT})
        [sent] = recorded
    assert {name: sent.headers[name] for name in PARENT} == PARENT


async def test_without_a_collector_nothing_of_opentelemetry_is_imported() -> None:
    script = "import hookgate.proxy.app, sys; print([m for m in sys.modules if 'opentelemetry' in m])"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out == b"[]\n"


@pytest.mark.parametrize("missing", ["opentelemetry", "requests"])
async def test_a_missing_extra_is_named(tmp_path: Path, missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; from hookgate.proxy.__main__ import main; main()"
    env = environment({"HOOKGATE_TRACING__ENDPOINT": "http://127.0.0.1:1", "HOOKGATE_ADMIN__ADDRESS": "off"})
    flags = ("serve", "--listen", "127.0.0.1:0", "--state", str(tmp_path))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *flags, env=env, stderr=pipe)
    _, err = await process.communicate()
    assert b"install hookgate with its extra otel" in err
