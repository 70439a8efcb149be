"""Interactions that are read later: whole, streamed, resumed, or in the background."""

import json
from typing import Any

import pytest
from support.bodies.interactions import (
    ANSWER,
    CREATED,
    HI,
    PATH,
    TEXT_STEP,
    Json,
    called,
    completed,
    delta,
    events_of,
    no_shell,
    started,
    stopped,
    streamed,
    text,
    text_of,
)
from support.bodies.planting import SECRET
from support.gateway.dialects import BOTH, REDACT
from support.gateway.loopback import gateway_before, listens, running_gateway, runs
from support.wire import KEY, UNARY, ask, ok, peer, post, prompt, response


async def test_an_interaction_that_is_read_or_cancelled_is_judged() -> None:
    said = {**ANSWER, "steps": [{"type": "model_output", "content": [text(SECRET)]}]}
    for method, target in (("GET", f"{PATH}/v1_1?include_input=true"), ("POST", f"{PATH}/v1_1/cancel")):
        async with (
            peer(ok(json.dumps(said).encode())) as upstream,
            gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
        ):
            answer = await ask(url, method, target)
        assert answer.json["steps"][0]["content"][0]["text"] == "[AWS_ACCESS_KEY]"
        assert answer.json["usage"] == ANSWER["usage"]


async def test_a_body_of_a_cancel_request_is_not_passed_on() -> None:
    async with peer(ok(json.dumps(ANSWER).encode())) as upstream, gateway_before(upstream.url, BOTH) as url:
        await post(url, f"{PATH}/v1_1/cancel", {"input": "a rocket"})
    assert b"rocket" not in upstream.heard[0]
    assert b"content-length: 0" in upstream.heard[0].lower()


async def test_a_tool_call_in_an_interaction_that_is_read_is_judged() -> None:
    call = {"type": "function_call", "id": "c0", "name": "shell", "arguments": {"command": "cat /etc/passwd"}}
    said = {**ANSWER, "status": "requires_action", "steps": [call]}
    async with (
        peer(ok(json.dumps(said).encode())) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(no_shell)]}) as url,
    ):
        answer = await ask(url, "GET", f"{PATH}/v1_1")
    assert b"passwd" not in answer.body
    assert answer.json["status"] == "completed"


async def test_a_condition_on_the_model_applies_to_an_interaction_that_is_read() -> None:
    group = {"AfterModel": [{**REDACT, "when": {"models": ["gemini-2.5-*"]}}]}
    said = {**ANSWER, "steps": [{"type": "model_output", "content": [text(SECRET)]}]}
    async with peer(ok(json.dumps(said).encode())) as upstream, gateway_before(upstream.url, group) as url:
        answer = await ask(url, "GET", f"{PATH}/v1_1")
    assert SECRET.encode() not in answer.body


async def test_steps_of_an_unfinished_interaction_are_not_sent() -> None:
    said = {"type": "model_output", "content": [text(f"the key is {SECRET[:12]}")]}
    asked = {"type": "user_input", "content": [text("hi")]}
    body = {**ANSWER, "status": "in_progress", "steps": [asked, said], "output_text": SECRET[:12]}
    async with peer(ok(json.dumps(body).encode())) as upstream, gateway_before(upstream.url, BOTH) as url:
        answer = await ask(url, "GET", f"{PATH}/v1_1?include_input=true")
    assert answer.json == {**ANSWER, "status": "in_progress", "steps": [asked]}


async def test_an_interaction_is_not_read_in_a_session_that_was_stopped() -> None:
    hooks = {"AfterTool": [runs(lambda _: {"continue": False, "stopReason": "enough"})]}
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        fields = {"tool_name": "t", "tool_input": {}, "tool_response": {}}
        await post(url, "/s/s-1/hookgate/v1/events/AfterTool", fields)
        answer = await ask(url, "GET", f"/s/s-1{PATH}/v1_1")
    assert (answer.status, answer.error["message"], upstream.heard) == (403, "enough", [])


async def test_an_error_in_place_of_an_interaction_is_redacted() -> None:
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    data = json.dumps({"error": {"code": 404, "message": f"no {SECRET}"}}).encode()
    async with peer(head, data) as upstream, gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url:
        answer = await ask(url, "GET", f"{PATH}/v1_1")
    assert (answer.status, answer.json["error"]["message"]) == (404, "no [AWS_ACCESS_KEY]")


async def test_an_upstream_without_an_interaction_s_end_is_a_502() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    async with peer(head, b"{") as upstream, gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url:
        answer = await ask(url, "GET", f"{PATH}/v1_1")
    assert answer.status == 502


# ---- streams


def numbered(events: list[Json]) -> list[Json]:
    return [{**event, "event_id": f"e{number}"} for number, event in enumerate(events)]


TELLS_A_SECRET = numbered(
    [
        *(CREATED, started(TEXT_STEP), delta("The key is "), delta(SECRET[:7]), delta(SECRET[7:12])),
        *(delta(f"{SECRET[12:]}, and "), delta("so on."), stopped()),
        *(*called(['{"command": "cat /e', 'tc/passwd"}'], 1, "shell"), completed("requires_action")),
    ]
)


@pytest.mark.parametrize("hooks", [{}, BOTH, {**BOTH, "BeforeTool": [runs(no_shell)]}])
async def test_a_stream_that_is_resumed_anywhere_continues_at_that_event(hooks: Json) -> None:
    async with (
        peer(*streamed(TELLS_A_SECRET)) as upstream,
        gateway_before(upstream.url, {**hooks, "SessionStart": [listens([])]}) as url,
    ):
        whole = await ask(url, "GET", f"{PATH}/v1_1?stream=true")
        after = [event["event_id"] for event in TELLS_A_SECRET]
        resumed = [await ask(url, "GET", f"{PATH}/v1_1?stream=true&last_event_id={each}") for each in after]
    assert (SECRET in text_of(whole)) == (not hooks)
    assert (b"passwd" in whole.body) == ("BeforeTool" not in hooks)
    sent = events_of(whole)
    places = {event["event_id"]: place for place, event in enumerate(sent, 1) if "event_id" in event}
    assert len(places) == sum("event_id" in event for event in sent)
    for each, answer in zip(after, resumed, strict=True):
        if each in places:
            assert events_of(answer) == sent[places[each] :]
        else:  # an event that hooks removed, which no client has received
            assert events_of(answer) in [sent[place:] for place in range(len(sent))]
        assert answer.body.endswith(b"event: done\ndata: [DONE]\n\n")


@pytest.mark.parametrize(
    "query", ["stream=True", "%73tream=true", "stream=true&last_event_id=", "stream=tru%65"]
)
async def test_a_stream_is_always_read_from_its_beginning(query: str) -> None:
    async with (
        peer(*streamed(TELLS_A_SECRET)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
    ):
        answer = await ask(url, "GET", f"{PATH}/v1_1?include_input=true&{query}", {"Last-Event-ID": "e3"})
    assert "[AWS_ACCESS_KEY]" in text_of(answer)
    head = upstream.heard[0].split(b"\r\n")[0]
    assert head == f"GET {PATH}/v1_1?include_input=true&stream=true HTTP/1.1".encode()
    assert b"last-event-id" not in upstream.heard[0].lower()


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("stream=1", "stream"),
        ("stream=", "stream"),
        ("stream=true&stream=false", "repeated"),
        ("stream=true&last_event_id=e99", "last_event_id"),
        ("stream=true&last_event_id=e3%22", "last_event_id"),
    ],
)
async def test_a_stream_that_cannot_be_read_is_refused(query: str, place: str) -> None:
    async with (
        peer(*streamed(TELLS_A_SECRET)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
    ):
        answer = await ask(url, "GET", f"{PATH}/v1_1?{query}")
    assert answer.status == 400
    assert place in answer.error["message"]


async def test_a_stream_that_hooks_deny_is_denied_wherever_it_is_resumed() -> None:
    def no_key(event: Json) -> Json | None:
        return {"decision": "deny", "reason": "no keys"} if SECRET in str(event["llm_response"]) else None

    hooks = {"AfterModel": [runs(no_key, stream="complete")]}
    async with peer(*streamed(TELLS_A_SECRET)) as upstream, gateway_before(upstream.url, hooks) as url:
        for query in ("stream=true", "stream=true&last_event_id=e6"):
            answer = await ask(url, "GET", f"{PATH}/v1_1?{query}")
            assert (answer.status, answer.error["message"]) == (403, "no keys")


async def test_a_condition_on_the_model_applies_to_a_stream_that_is_read() -> None:
    group = {"AfterModel": [{**REDACT, "when": {"models": ["gemini-2.5-*"]}}]}
    async with peer(*streamed(TELLS_A_SECRET)) as upstream, gateway_before(upstream.url, group) as url:
        answer = await ask(url, "GET", f"{PATH}/v1_1?stream=true&last_event_id=e0")
    assert "[AWS_ACCESS_KEY]" in text_of(answer)
    async with peer(*streamed(TELLS_A_SECRET[1:])) as upstream, gateway_before(upstream.url, group) as url:
        answer = await ask(url, "GET", f"{PATH}/v1_1?stream=true")
    assert answer.status == 502
    assert SECRET[:7].encode() not in answer.body


async def test_an_answer_that_is_not_a_stream_is_not_passed_on() -> None:
    said = {**ANSWER, "steps": [{"type": "model_output", "content": [text(SECRET)]}]}
    async with (
        peer(ok(json.dumps(said).encode())) as upstream,
        gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
    ):
        answer = await ask(url, "GET", f"{PATH}/v1_1?stream=true")
    assert SECRET.encode() not in answer.body


async def test_an_upstream_error_is_passed_on_as_the_whole_answer() -> None:
    error = json.dumps({"error": {"code": 404, "message": f"no {SECRET}"}}).encode()
    async with (
        peer(response(404, error, {"Content-Type": "application/json"})) as upstream,
        gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
    ):
        answer = await ask(url, "GET", f"{PATH}/v1_1?stream=true&last_event_id=e3")
    assert (answer.status, answer.error["message"]) == (404, "no [AWS_ACCESS_KEY]")


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_a_stream_that_is_resumed_at_its_end_is_complete(end: bytes) -> None:
    head, data = streamed(TELLS_A_SECRET)
    async with (
        peer(head, b"\r\n", data.replace(b"\n", end)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [REDACT]}) as url,
    ):
        answer = await ask(url, "GET", f"{PATH}/v1_1?stream=true&last_event_id=e12")
    assert answer.body.replace(b"\r\n", b"\n") == b"event: done\ndata: [DONE]\n\n"


# ---- in the background


async def test_an_interaction_in_the_background_is_judged_when_it_is_read() -> None:
    ended: list[Json] = []
    script: Any = {"rules": [{"answer": {"chunks": [f"It is {SECRET}."]}}]}
    hooks = {"AfterModel": [REDACT], "AfterAgent": [listens(ended)]}
    async with running_gateway(hooks, script) as gateway:
        created = await post(gateway.url, PATH, {**HI, "background": True})
        place = f"{PATH}/{created.json['id']}"
        first, second = [await ask(gateway.url, "GET", place) for _ in range(2)]
    assert [each.json["status"] for each in (created, first, second)] == [
        *("in_progress", "in_progress", "completed"),
    ]
    assert "steps" not in created.json
    assert second.json["steps"][0]["content"][0]["text"] == "It is [AWS_ACCESS_KEY]."
    assert ended == []


async def test_what_an_unknown_interaction_has_used_counts_once() -> None:
    """Otherwise an agent could read with one key what it began in the background with another."""
    done = {**ANSWER, "usage": {"total_input_tokens": 300, "total_output_tokens": 200, "total_tokens": 500}}
    rule = {"per": "everyone", "window": "month", "tokens": 900}
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "limits", "options": {"rules": [rule]}}]}
    few = prompt("hi", generationConfig={"maxOutputTokens": 5})
    async with peer(ok(json.dumps(done).encode())) as upstream, gateway_before(upstream.url, hooks) as url:
        for _ in range(3):
            assert (await ask(url, "GET", f"{PATH}/v1_a", KEY)).status == 200
        assert (await post(url, UNARY, few, KEY)).status == 200
        assert (await ask(url, "GET", f"{PATH}/v1_b", KEY)).status == 200
        assert (await post(url, UNARY, few, KEY)).status == 403
