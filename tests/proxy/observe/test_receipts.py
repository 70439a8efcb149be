"""Receipts describe the outcome of each call, without its content."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, runs, says
from support.gateway.panel import BEARER, panel_gateway
from support.hooks.policies import answer_itself, no_rockets, redact, stop_at_rockets
from support.wire import HI, KEY, SSE, UNARY, ask, peer, post, prompt, sse

from hookgate.proxy.admin.listener import AdminListener
from hookgate.proxy.admin.listener import serve_admin as admin_listening
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.usage import Usage

Json = dict[str, Any]
OTHER = {"x-goog-api-key": "another-key"}


async def receipt(url: str, answer: Any, headers: Any = KEY) -> Any:
    path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
    return await ask(url, "GET", path, headers=headers)


async def test_a_receipt_tells_which_hooks_ran_on_how_much_and_what_they_did() -> None:
    script = {"rules": [{"answer": {"text": "Card 4111-1111-1111-1111."}}]}
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]}
    async with running_gateway(hooks, script) as gateway:
        answer = await post(gateway.url, UNARY, prompt("hello there"), KEY)
        reported = (await receipt(gateway.url, answer)).json
        [sent] = gateway.generated
    before, after = reported["hooks"]
    assert (before["event"], before["decisions"], before["edits"]) == ("BeforeModel", {"allow": 1}, [])
    assert before["bytes"] == reported["bytes"]["request"] > 0
    assert (after["event"], after["edits"], after["runs"]) == ("AfterModel", ["candidates"], 1)
    assert after["bytes"] > 0
    assert (reported["outcome"], reported["status"], reported["upstream_requests"]) == ("answered", 200, 1)
    assert reported["usage"]["input_tokens"] > 0
    assert reported["revision"]
    assert (
        reported["timings"]["before_ms"]
        <= reported["timings"]["first_byte_ms"]
        <= reported["timings"]["total_ms"]
    )
    assert sent.body["contents"]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
@pytest.mark.parametrize(
    ("selection", "edits"),
    [
        pytest.param({"tools": ["read"]}, ["tools"], id="tools"),
        pytest.param({"tool_config": {"mode": "NONE"}, "tools": None}, ["toolConfig"], id="toolConfig"),
        pytest.param({}, [], id="none"),
    ],
)
async def test_a_receipt_attributes_a_tool_selection_to_its_hook(
    selection: Json, edits: list[str], mode: str
) -> None:
    tools = [{"functionDeclarations": [{"name": "read"}, {"name": "write"}]}]
    hook = runs(lambda _: {"hookSpecificOutput": selection})
    async with running_gateway({"BeforeToolSelection": [{**hook, "mode": mode}]}) as gateway:
        answer = await post(gateway.url, UNARY, prompt("hi", tools=tools), KEY)
        reported = (await receipt(gateway.url, answer)).json
    assert [hook["edits"] for hook in reported["hooks"]] == [edits]


@pytest.mark.parametrize(
    ("hook", "outcome", "status"),
    [
        pytest.param(no_rockets, "denied", 403, id="denied"),
        pytest.param(stop_at_rockets, "stopped", 200, id="stopped"),
        pytest.param(answer_itself, "synthetic", 200, id="synthetic"),
    ],
)
async def test_a_receipt_tells_how_hooks_ended_a_call(hook: Any, outcome: str, status: int) -> None:
    async with running_gateway({"BeforeModel": [runs(hook)]}) as gateway:
        answer = await post(gateway.url, UNARY, prompt("a rocket"), KEY)
        reported = (await receipt(gateway.url, answer)).json
    assert (answer.status, reported["outcome"], reported["status"]) == (status, outcome, status)
    assert reported["upstream_requests"] == 0


async def test_a_receipt_contains_no_content_and_no_key() -> None:
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]}
    async with running_gateway(hooks, {"rules": [{"answer": {"text": "canary-answer"}}]}) as gateway:
        answers = [await post(gateway.url, UNARY, prompt(f"canary-prompt {t}"), KEY) for t in ("", "rocket")]
        reported = json.dumps([(await receipt(gateway.url, answer)).json for answer in answers])
    assert "canary" not in reported
    assert "Rockets" not in reported
    assert KEY["x-goog-api-key"] not in reported


async def test_a_receipt_is_for_the_key_that_made_the_call() -> None:
    async with running_gateway({"BeforeModel": [runs(no_rockets)]}) as gateway:
        answer = await post(gateway.url, UNARY, prompt("hi"), KEY)
        assert (await receipt(gateway.url, answer)).status == 200
        assert (await receipt(gateway.url, answer, OTHER)).status == 404
        assert (await receipt(gateway.url, answer, {})).status == 404


async def test_every_answer_names_a_receipt_including_errors_and_unjudged_ones() -> None:
    async with running_gateway() as gateway:
        answers = [
            await post(gateway.url, UNARY, prompt("hi"), KEY),
            await post(gateway.url, SSE, prompt("hi"), KEY),
            await post(gateway.url, UNARY, prompt("hi"), {**KEY, "Content-Encoding": "br"}),
            await ask(gateway.url, "GET", "/nowhere", headers=KEY),
            await ask(gateway.url, "GET", "/v1beta/models", headers=KEY),
        ]
        reported = [(await receipt(gateway.url, answer)).json for answer in answers[:2] + answers[4:]]
    assert len({answer.headers["x-hookgate-receipt"] for answer in answers}) == len(answers)
    assert [each["outcome"] for each in reported] == ["answered"] * 3


async def test_observed_hooks_tell_what_they_would_have_done() -> None:
    async with running_gateway({"BeforeModel": [{**runs(no_rockets), "mode": "observe"}]}) as gateway:
        answer = await post(gateway.url, UNARY, prompt("a rocket"), KEY)
        reported = (await receipt(gateway.url, answer)).json
    assert reported["outcome"] == "answered"
    assert (reported["hooks"][0]["mode"], reported["hooks"][0]["decisions"]) == ("observe", {"deny": 1})


async def test_usage_is_reported_of_a_stream_that_broke_off() -> None:
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}
    event = {"candidates": [{"content": {"parts": [{"text": "So"}]}}], "usageMetadata": usage}
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
    async with (
        peer(head, *sse(event)) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(no_rockets)]}) as url,
    ):
        answer = await post(url, SSE, prompt("hi"), KEY)
        reported = (await receipt(url, answer)).json
    cost = pytest.approx((7 * 0.3 + 5 * 2.5) / 1e6)  # by the list prices
    assert reported["usage"] == {"input_tokens": 7, "output_tokens": 5, "cached_tokens": 0, "cost": cost}
    assert reported["outcome"] == "failed"


async def test_operators_see_every_receipt(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        answer = await post(gateway.url, UNARY, prompt("hi"), KEY)
        name = answer.headers["x-hookgate-receipt"]
        found = await ask(gateway.admin, "GET", f"/receipts/{name}", BEARER)
        missing = await ask(gateway.admin, "GET", "/receipts/0123", BEARER)
    assert (found.status, found.json["receipt"]) == (200, name)
    assert missing.status == 404


async def test_before_there_is_a_token_there_are_no_receipts() -> None:
    admin = AdminListener(Metrics())
    record = CallRecord()
    record.end(200, 10)
    admin.receipts.add(record)
    async with admin_listening(admin, "127.0.0.1", 0) as url:
        assert (await ask(url, "GET", f"/receipts/{record.id}")).status == 404


def test_the_oldest_receipts_go() -> None:
    receipts = Receipts()
    records = [CallRecord() for _ in range(10_001)]
    for record in records:
        receipts.add(record)
    assert receipts.receipt_for(records[0].id) is None
    assert receipts.receipt_for(records[-1].id) is not None


USAGE = b'{"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "cachedContentTokenCount": 1}}'


@pytest.mark.parametrize("at", range(0, len(USAGE), 5))
def test_usage_is_read_however_the_bytes_are_split(at: int) -> None:
    meter = AnswerMeter()
    for chunk in (USAGE[:at], USAGE[at:]):
        meter.feed(chunk)
    meter.finish()
    assert meter.usage == Usage(5, 2, 1)


@pytest.mark.parametrize(
    ("expected", "counted"),
    [
        (b"9" * 5000, Usage()),
        (b"[" * 12_000 + b"]" * 12_000, Usage()),
        (b"9" * 30, Usage(2**31 - 1)),
        (b"-1", Usage()),
    ],
    ids=["digits", "depth", "huge", "negative"],
)
def test_invalid_usage_does_no_harm(expected: bytes, counted: Usage) -> None:
    meter = AnswerMeter()
    meter.feed(b'{"usageMetadata": {"promptTokenCount": ' + expected + b"}}")
    meter.finish()
    assert meter.usage == counted


def test_nothing_goes_upstream_before_the_start_of_its_call_is_on_record() -> None:
    record = CallRecord()
    with pytest.raises(RuntimeError, match="recorded"), record.attempt():
        pytest.fail("it went upstream")
    assert record.upstream_requests == 0


@pytest.mark.parametrize("findings", [["EMAIL"], {"EMAIL": "many"}, "EMAIL", {"EMAIL": -1}])
async def test_what_a_hook_says_under_findings_does_not_break_its_call(findings: Any) -> None:
    async with running_gateway({"BeforeModel": [says({"decision": "deny"}, findings=findings)]}) as gateway:
        answer = await post(gateway.url, UNARY, HI, KEY)
        [hook] = (await receipt(gateway.url, answer)).json["hooks"]
    assert answer.status == 403
    assert (hook["decisions"], hook["findings"]) == ({"deny": 1}, {})


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("EMAIL", []),
        (
            [1, None, {"kind": 1, "place": ["x"]}, {"kind": "EMAIL", "text": "a@b.example"}],
            [{}, {"kind": "EMAIL"}],
        ),
        ([{"place": "x" * 9999}], [{"place": "x" * 240}]),
        ([{"kind": "EMAIL"}] * 1000, [{"kind": "EMAIL"}] * 20),
    ],
    ids=["text", "other types", "long", "many"],
)
async def test_what_a_hook_says_it_has_found_is_bounded(found: Any, told: list[Json]) -> None:
    hook = says({}, findings={"EMAIL": 1000}, found=found)
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        answer = await post(gateway.url, UNARY, HI, KEY)
        [said] = (await receipt(gateway.url, answer)).json["hooks"]
    assert said["findings"] == {"EMAIL": 1000}
    assert said.get("found", []) == told


async def test_a_receipt_names_the_hooks_whose_last_run_failed() -> None:
    def fails(_: Json) -> None:
        raise ValueError("no")

    hooks = {"BeforeModel": [runs(fails, name="broken", on_error="allow")]}
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, UNARY, HI, KEY)
        assert (await receipt(gateway.url, answer)).json["degraded"] == ["broken"]


async def test_a_receipt_names_the_hooks_that_marked_the_answer_as_redacted() -> None:
    def marks(_: Json) -> Json:
        return {"hookSpecificOutput": {"redacted": True}}

    names = {"enforced": "enforce", "observed": "observe"}
    marking = [runs(marks, name=name, mode=mode) for name, mode in names.items()]
    async with running_gateway({"AfterModel": [*marking, runs(lambda _: {}, name="silent")]}) as gateway:
        answer = await post(gateway.url, UNARY, HI, KEY)
        assert (await receipt(gateway.url, answer)).json["redacted"] == ["enforced"]
