"""Services that judge calls at a gateway: whole answers, streams, and what clients see of failures."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hooks.guardrails import (
    KEY,
    POLICIES,
    TOKEN,
    armor_result,
    clean_filters,
    guarded_gateway,
    guardrail,
)
from support.wire import HI, SSE, STREAM_HEAD, UNARY, Answer, ok, peer, post, prompt, spoken, sse

ALL = pytest.mark.parametrize("policy", POLICIES)
TARGETS = pytest.mark.parametrize("target", [UNARY, SSE])

TEXT = "Write to anna@example.com, she knows the sea. " + "The sea is wide and blue. " * 20
CLEAN = TEXT.replace("anna@example.com", "[EMAIL_ADDRESS]")


def pieces(text: str, size: int) -> list[Any]:
    events = [spoken(text[at : at + size]) for at in range(0, len(text), size)]
    return [*events, spoken("", finishReason="STOP")]


def answer_text(answer: Answer) -> str:
    """The text of an answer, streamed or not."""
    events = answer.events if b"data: " in answer.body else [answer.json]
    parts = [
        part.get("text", "")
        for event in events
        for candidate in event.get("candidates", [])
        for part in candidate.get("content", {}).get("parts", [])
    ]
    return "".join(parts)


async def stream_answer(
    folder: Path, policy: str, text: str, size: int, hook: Any, **options: Any
) -> tuple[Answer, list[str]]:
    """What a client gets of a stream of this text, in pieces of this size, and what the service was asked."""
    writes: list[Any] = [STREAM_HEAD]
    for event in sse(*pieces(text, size)):
        writes += [event, 0.001]
    async with (
        guardrail(policy) as guard,
        peer(*writes) as upstream,
        guarded_gateway(folder, policy, guard, upstream.url, hook, **options) as url,
    ):
        return await post(url, SSE, HI), guard.texts


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(policy=st.sampled_from(POLICIES), size=st.integers(3, 200))
def test_a_streamed_text_is_sanitised_wherever_it_is_split(policy: str, size: int, tmp_path: Path) -> None:
    hook = {"window": 40}
    answer, _ = asyncio.run(stream_answer(tmp_path, policy, TEXT, size, hook, edit=True))
    assert answer_text(answer) == CLEAN


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(policy=st.sampled_from(POLICIES), size=st.integers(1, 200), before=st.integers(0, 300))
def test_nothing_that_is_denied_leaves_a_stream(policy: str, size: int, before: int, tmp_path: Path) -> None:
    text = f"{TEXT[60 : 60 + before]} a rocket. {TEXT[60:]}"
    answer, _ = asyncio.run(stream_answer(tmp_path, policy, text, size, {"window": 40}))
    assert "rocket. " not in answer_text(answer)
    assert "rocket " not in answer_text(answer)


@ALL
async def test_a_stream_is_sent_while_later_text_arrives(policy: str, tmp_path: Path) -> None:
    text = "The sea is wide. " * 60
    answer, asked = await stream_answer(tmp_path, policy, text, 50, {"window": 100})
    assert answer_text(answer) == text
    assert max(map(len, asked)) < 1000  # windows, not all of it


@ALL
@TARGETS
async def test_a_request_and_an_answer_are_denied_with_the_reason(
    policy: str, target: str, tmp_path: Path
) -> None:
    text = "All about a rocket."
    body = ok(json.dumps(spoken(text)).encode())
    stream = [STREAM_HEAD, *sse(*pieces(text, 5))]
    async with (
        guardrail(policy) as guard,
        peer(*(stream if target == SSE else [body])) as upstream,
        guarded_gateway(tmp_path, policy, guard, upstream.url) as url,
    ):
        denied = await post(url, target, prompt("of a rocket"))
        assert denied.status == 403
        assert not upstream.heard
        answer = await post(url, target, HI)
        assert "rocket." not in answer_text(answer) if answer.status == 200 else answer.status == 403


FAILURES = {
    "slow": lambda usual: None,
    "down": lambda usual: lambda body: web.Response(status=503),
    "malformed": lambda usual: lambda body: {"unexpected": TOKEN[:4]},
    "partial": lambda usual: lambda body: armor_result("NO_MATCH_FOUND", clean_filters(), "PARTIAL"),
    "not JSON": lambda usual: lambda body: web.Response(text=f"<html>{TOKEN} {KEY}</html>"),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("on_error", [None, "allow"])
@ALL
@TARGETS
async def test_a_failing_service_denies_the_call_unless_on_error_allows_it(  # noqa: PLR0917  # the dimensions
    target: str,
    policy: str,
    on_error: str | None,
    failure: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook = {"timeout": 60, **({"on_error": on_error} if on_error else {})}
    text = "The sea is wide."
    body = ok(json.dumps(spoken(text)).encode())
    stream = [STREAM_HEAD, *sse(*pieces(text, 50))]
    async with guardrail(policy) as guard, peer(*(stream if target == SSE else [body])) as upstream:
        usual = guard.answer

        def answer(sent: Any) -> Any:
            return usual(sent) if "hi" in json.dumps(sent) else FAILURES[failure](usual)(sent)

        guard.answer = answer
        if failure == "slow":
            guard.answer = usual
            guard.open.clear()
        with caplog.at_level(logging.DEBUG):
            async with guarded_gateway(tmp_path, policy, guard, upstream.url, hook) as url:
                result = await post(url, target, HI)
    if on_error == "allow":
        assert answer_text(result) == text
    else:
        assert "sea" not in result.body.decode()
        assert "The hook 'armor' failed; see the gateway's log." in result.body.decode()
    for secret in (TOKEN, KEY):
        assert secret not in caplog.text + result.body.decode()
