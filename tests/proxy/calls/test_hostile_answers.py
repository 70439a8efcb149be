"""Answers of a hostile upstream: what they cost other callers, and errors that hide a secret."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from support.gateway import gateway_before, says
from support.wire import (
    SSE,
    STREAM,
    STREAM_HEAD,
    UNARY,
    ok,
    peer,
    post,
    prompt,
    response,
    spoken,
    sse,
)

from hookgate.proxy.calls import answer_stages, pacing
from hookgate.proxy.calls.answer_stages import CitedTexts
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.server.bodies import MAX_ERROR, SMALL_BODY, stream_slices

HI = prompt("hi")
KIB = 1024
JSON = {"Content-Type": "application/json"}
SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
ESCAPED = "".join(f"\\u{ord(character):04x}" for character in SECRET)
REDACT = {"AfterModel": [{"type": "builtin", "builtin": "redact"}]}

COUNT = "/v1beta/models/gemini-2.5-flash:countTokens"
EMBED = "/v1beta/models/gemini-embedding-001:embedContent"
BATCH = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
BODIES = {
    UNARY: HI,
    SSE: HI,
    COUNT: HI,
    EMBED: {"content": HI["contents"][0]},
    BATCH: {"batch": {"displayName": "b", "inputConfig": {"requests": {"requests": [{"request": HI}]}}}},
}
"""A request for each kind of call whose errors reach a client."""


# ---- time

SPOKEN = json.dumps(spoken("a")).encode()
TINY = {
    "texts": (SSE, b"data: " + SPOKEN + b"\n\n"),
    "empty events": (SSE, b"data:{}\n\n"),
    "comments": (SSE, b":\n\n"),
    "blank lines": (SSE, b"\r\r"),
    "elements": (STREAM, b"{},"),
    "lists in an element": (STREAM, b"[],"),
}


@pytest.mark.parametrize("tiny", TINY)
@pytest.mark.parametrize(
    "hooks",
    [{"BeforeModel": [says()]}, {"AfterModel": [says()]}],
    ids=["copied", "judged"],
)
async def test_other_calls_go_on_while_many_tiny_events_arrive_at_once(
    monkeypatch: pytest.MonkeyPatch, tiny: str, hooks: Any
) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    target, event = TINY[tiny]
    start = b"[" if target == STREAM else b""
    events_by_turn: Counter[int] = Counter()
    turn, feed = 0, AnswerMeter.feed

    async def take_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(meter: AnswerMeter, chunk: bytes) -> None:
        events_by_turn[turn] += len(chunk) // len(event)
        feed(meter, chunk)

    monkeypatch.setattr(AnswerMeter, "feed", noted)
    async with (
        peer(STREAM_HEAD + start + event * (200 * KIB // len(event))) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        others = asyncio.create_task(take_turns())
        await post(url, target, HI)
        others.cancel()
    assert 0 < max(events_by_turn.values()) < 1_100


@pytest.mark.parametrize(
    "data", [b"\n" * 100_000, b"\r\n" * 50_000, b"{}," * 30_000, b"[" * 100_000, b"a" * 300_000, b"a\n", b""]
)
def test_slices_of_a_stream_are_small_and_complete(data: bytes) -> None:
    slices = stream_slices(data)
    assert b"".join(slices) == data
    assert all(len(each) <= 64 * KIB and each.count(b"\n") * 128 <= SMALL_BODY for each in slices)
    assert len(slices) > 1 or len(data) < 3


# ---- memory

MAY_BEGIN = spoken(f"The key is {SECRET[:12]}")
FOLLOWING: dict[str, Any] = {
    "events without text": {"candidates": [{}]},
    "thoughts": {"candidates": [{"content": {"parts": [{"text": "", "thought": True}]}}]},
    "function calls": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}}]},
    "errors": {"error": {"code": 500}},
}


@pytest.mark.parametrize("following", FOLLOWING)
async def test_what_follows_text_that_is_held_back_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, following: str
) -> None:
    monkeypatch.setattr(answer_stages, "MAX_ANSWER", 64 * KIB)
    first, event = sse(MAY_BEGIN, FOLLOWING[following])
    async with (
        peer(STREAM_HEAD, first, 0.1, event * 300) as upstream,
        gateway_before(upstream.url, REDACT) as url,
    ):
        answer = await post(url, SSE, HI)
    assert b"bytes of memory" in answer.body
    assert SECRET[:12].encode() not in answer.body


async def test_blank_lines_and_comments_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_stages, "MAX_ANSWER", 64 * KIB)
    first, last = sse(MAY_BEGIN, spoken("!", finishReason="STOP"))
    between = b"\r\n\r\n:\r\n\r\n" * 300
    async with (
        peer(STREAM_HEAD, first, 0.1, between, last) as upstream,
        gateway_before(upstream.url, REDACT) as url,
    ):
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.complete) == (200, True)
    assert b'"STOP"' in answer.body


def test_texts_are_not_kept_for_citations_beyond_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_stages, "_MAX_CITED", 10)
    texts = CitedTexts()
    for _ in range(100):
        texts.note_original(spoken("a"))
    assert texts.size == 11


# ---- errors


@pytest.mark.parametrize(
    "hooks", [REDACT, {"BeforeModel": [says()]}, {}], ids=["judged", "copied", "forwarded"]
)
async def test_an_error_that_claims_to_be_a_success_is_recorded_as_a_failure(
    caplog: pytest.LogCaptureFixture, hooks: Any
) -> None:
    error = b'{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}'
    async with peer(ok(error)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.body) == (200, error)
    assert "the answer has an error: 503 UNAVAILABLE" in caplog.text


UNREADABLE = {
    "escaped, and not valid JSON": b'{"error": {"message": "%s"},}' % ESCAPED.encode(),
    "escaped, with a repeated key": b'{"error": {"message": "%s", "message": ""}}' % ESCAPED.encode(),
    "escaped, in an event": b'data: {"error": {"message": "%s"}}\r\n\r\n' % ESCAPED.encode(),
    "UTF-16": json.dumps({"error": {"message": SECRET}}).encode("utf-16"),
    "Latin-1": json.dumps({"error": {"message": f"é {ESCAPED}"}}, ensure_ascii=False).encode("latin-1"),
}


@pytest.mark.parametrize("error", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_error_that_may_hide_a_secret_is_not_forwarded(error: bytes) -> None:
    async with peer(response(429, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")
    assert "its error is n" in answer.error["message"]


@pytest.mark.parametrize("target", BODIES)
@pytest.mark.parametrize(
    "text", [SECRET, ESCAPED, f"{ESCAPED} \\ud800"], ids=["plain", "escaped", "surrogate"]
)
async def test_a_secret_in_an_error_is_masked_whatever_was_asked(target: str, text: str) -> None:
    error = b'{"error": {"code": 429, "message": "%s"}}' % text.encode()
    async with peer(response(429, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, target, BODIES[target])
    assert answer.status == 429
    assert "[AWS_ACCESS_KEY]" in answer.error["message"]


@pytest.mark.parametrize("target", BODIES)
async def test_an_error_without_secrets_keeps_its_bytes(target: str) -> None:
    error = b"<html><title>503</title> Try again at <b>noon</b>.</html>"
    async with peer(response(503, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, target, BODIES[target])
    assert (answer.status, answer.body) == (503, error)


@pytest.mark.parametrize("target", BODIES)
async def test_an_error_that_hooks_block_is_refused(target: str) -> None:
    blocking = {"type": "builtin", "builtin": "redact", "options": {"actions": {"AWS_ACCESS_KEY": "block"}}}
    error = json.dumps({"error": {"message": SECRET}}).encode()
    async with (
        peer(response(429, error, JSON)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [blocking]}) as url,
    ):
        answer = await post(url, target, BODIES[target])
    assert (answer.status, answer.error["status"]) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize("target", BODIES)
async def test_a_very_large_error_is_not_buffered(target: str) -> None:
    error = b'{"error": [' + b"1," * (MAX_ERROR // 2) + b"1]}"
    async with peer(response(500, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, target, BODIES[target])
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")
