"""A call that hooks deny or stop: the client's answer, and the call upstream."""

import asyncio
import json
from typing import Any

import pytest
from support.gateway.loopback import RunningGateway, listens, running_gateway, runs, says
from support.wire import HI, SSE, STREAM, UNARY, Answer, connected, post, prompt

DECLARED = {"tools": [{"functionDeclarations": [{"name": "f"}]}]}
TOOL_TURN: dict[str, Any] = {
    "contents": [
        *HI["contents"],
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]},
    ],
    **DECLARED,
}
JSON_TURN = {**HI, "generationConfig": {"responseMimeType": "application/json"}}
EVERY_WAY = pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["unary", "sse", "array"])
STREAMS = pytest.mark.parametrize("target", [SSE, STREAM], ids=["sse", "array"])

DENY = says({"decision": "deny", "reason": "Not in this house."})
STOP = says({"continue": False, "stopReason": "Enough."})
CHUNKS = {"rules": [{"answer": {"chunks": ["one", "two", "three"], "chunk_delay_ms": 20}}]}


def spoken(answer: Answer, target: str) -> str:
    """The text of an answer that is one whole answer: complete, with STOP, in the framing asked for."""
    assert (answer.status, answer.complete) == (200, True)
    found = answer.events if target == SSE else answer.json if target == STREAM else [answer.json]
    assert found[-1]["candidates"][0]["finishReason"] == "STOP"
    texts = [part["text"] for body in found for part in body["candidates"][0]["content"]["parts"]]
    return "|".join(texts)


def denial(answer: Answer) -> tuple[str, str]:
    """Message and event of a 403 that clients show once."""
    assert (answer.status, answer.error["code"], answer.error["status"]) == (403, 403, "PERMISSION_DENIED")
    info = answer.error["details"][0]
    assert (info["reason"], info["domain"]) == ("POLICY_DENIED", "hookgate")
    return answer.error["message"], info["metadata"]["event"]


def denies(word: str) -> dict[str, Any]:
    """An AfterModel hook that denies the event with this word."""
    verdict = {"decision": "deny", "reason": "Not in this house."}
    return runs(lambda event: verdict if word in event["llm_response"]["text"] else None, stream="event")


async def until_aborted(gateway: RunningGateway) -> None:
    async with asyncio.timeout(1):
        while not gateway.recorded[-1].aborted:  # noqa: ASYNC110  # a record is plain data, it signals nothing
            await asyncio.sleep(0.001)


# ---- before the model


@EVERY_WAY
@pytest.mark.parametrize("event", ["BeforeModel", "BeforeToolSelection"])
async def test_a_users_turn_is_denied_with_an_error(target: str, event: str) -> None:
    async with running_gateway({event: [DENY]}) as gateway:
        assert denial(await post(gateway.url, target, HI)) == ("Not in this house.", event)
        assert not gateway.recorded


@EVERY_WAY
async def test_a_tools_turn_is_denied_with_text(target: str) -> None:
    async with running_gateway({"BeforeModel": [DENY]}) as gateway:
        assert spoken(await post(gateway.url, target, TOOL_TURN), target) == "Not in this house."
        assert not gateway.recorded


@EVERY_WAY
@pytest.mark.parametrize("hook", [DENY, STOP], ids=["deny", "stop"])
async def test_a_call_for_json_is_never_answered_with_prose(target: str, hook: Any) -> None:
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        assert denial(await post(gateway.url, target, JSON_TURN))[1] == "BeforeModel"
        assert not gateway.recorded


@EVERY_WAY
async def test_a_stop_is_said_as_text(target: str) -> None:
    async with running_gateway({"BeforeModel": [STOP]}) as gateway:
        assert spoken(await post(gateway.url, target, HI), target) == "Enough."
        assert not gateway.recorded


@EVERY_WAY
async def test_a_hook_answers_in_the_models_place(target: str) -> None:
    seen: list[Any] = []
    hooks = {"BeforeModel": [says(llm_response={"text": "Mine."})], "AfterModel": [listens(seen)]}
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, target, HI)
        assert spoken(answer, target) == "Mine."
        assert not gateway.recorded
    assert seen == []
    one_line = json.dumps(answer.events[0], separators=(",", ":")) if target == SSE else ""
    assert target != SSE or answer.body == f"data: {one_line}\r\n\r\n".encode()
    assert answer.headers["content-type"].startswith(
        "text/event-stream" if target == SSE else "application/json"
    )


async def test_a_program_that_exits_with_2_denies() -> None:
    hook = {"type": "command", "command": "echo 'Never.' >&2; exit 2"}
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        assert denial(await post(gateway.url, UNARY, HI)) == ("Never.", "BeforeModel")


@pytest.mark.parametrize(("on_error", "status"), [("allow", 200), ("deny", 403)])
async def test_a_hook_that_fails_decides_as_it_is_configured(on_error: str, status: int) -> None:
    hook = {"type": "command", "command": "exit 1", "name": "broken", "on_error": on_error}
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        answer = await post(gateway.url, UNARY, HI)
        assert answer.status == status
        assert len(gateway.recorded) == (status == 200)
    assert status == 200 or "broken" in denial(answer)[0]


# ---- after the model


@EVERY_WAY
async def test_an_answer_denied_at_once_is_an_error(target: str) -> None:
    async with running_gateway({"AfterModel": [DENY]}, CHUNKS) as gateway:
        answer = await post(gateway.url, target, HI)
    assert denial(answer) == ("Not in this house.", "AfterModel")
    assert b"one" not in answer.body


@EVERY_WAY
async def test_an_answer_stopped_at_once_is_text(target: str) -> None:
    async with running_gateway({"AfterModel": [STOP]}, CHUNKS) as gateway:
        assert spoken(await post(gateway.url, target, HI), target) == "Enough."


@STREAMS
@pytest.mark.parametrize("body", [HI, TOOL_TURN, JSON_TURN], ids=["user", "tool", "json"])
async def test_a_stream_denied_midway_ends_with_the_reason_as_text(target: str, body: Any) -> None:
    async with running_gateway({"AfterModel": [denies("two")]}, CHUNKS) as gateway:
        answer = await post(gateway.url, target, body)
    assert spoken(answer, target) == "one|Not in this house."


@STREAMS
async def test_a_denial_midway_ends_the_call_upstream(target: str) -> None:
    script = {"rules": [{"answer": {"chunks": ["one", "two", "three"], "chunk_delay_ms": 300}}]}
    async with running_gateway({"AfterModel": [denies("two")]}, script) as gateway:
        await post(gateway.url, target, HI)
        await until_aborted(gateway)


async def test_a_redaction_before_a_denial_keeps_the_array_whole() -> None:
    def redact_then_deny(event: dict[str, Any]) -> dict[str, Any]:
        if event["llm_response"]["text"] == "one":
            return {"hookSpecificOutput": {"llm_response": {"text": "1"}}}
        return {"decision": "deny", "reason": "No."}

    async with running_gateway({"AfterModel": [runs(redact_then_deny, stream="event")]}, CHUNKS) as gateway:
        assert spoken(await post(gateway.url, STREAM, HI), STREAM) == "1|No."


async def test_a_connection_serves_the_next_call_after_a_denial() -> None:
    once = runs(lambda event: {"decision": "deny"} if "no" in str(event["llm_request"]["messages"]) else None)
    no = prompt("no")
    async with running_gateway({"BeforeModel": [once]}) as gateway, connected(gateway.url) as wire:
        await wire.post(SSE, no)
        assert (await wire.answer()).status == 403
        await wire.post(SSE, HI)
        assert spoken(await wire.answer(), SSE) == "You |said: |hi"
