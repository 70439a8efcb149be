"""Line ends of Unicode in answers: clients that split a stream at them get whole events all the same."""

import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, says
from support.wire import SSE, STREAM, STREAM_HEAD, UNARY, peer, post, prompt

from hookgate.translator.strictjson import with_escaped_line_ends

LINES = "one\u2028two\u2029three\x85four\x0b\x0c\x1c\x1d\x1efive"
CHAT, RESPONSES, INTERACTIONS = (
    "/v1beta/openai/chat/completions",
    "/v1beta/openai/responses",
    "/v1beta/interactions",
)
MODEL = {"model": "gemini-2.5-flash"}
CALLS = {
    "sse": (SSE, prompt("hi")),
    "array": (STREAM, prompt("hi")),
    "unary": (UNARY, prompt("hi")),
    "code assist": (
        "/v1internal:streamGenerateContent?alt=sse",
        {**MODEL, "request": prompt("hi")},
    ),
    "chat": (CHAT, {**MODEL, "messages": [{"role": "user", "content": "hi"}]}),
    "chat, streamed": (CHAT, {**MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True}),
    "responses": (RESPONSES, {**MODEL, "input": "hi"}),
    "responses, streamed": (RESPONSES, {**MODEL, "input": "hi", "stream": True}),
    "interactions": (INTERACTIONS, {**MODEL, "input": "hi"}),
    "interactions, streamed": (INTERACTIONS, {**MODEL, "input": "hi", "stream": True}),
}
EDITS = {
    "edited": {"AfterModel": [says(llm_response={"text": LINES})]},
    "synthetic": {"BeforeModel": [says({"decision": "deny"}, llm_response={"text": LINES})]},
    "stopped": {"BeforeModel": [says({"continue": False, "stopReason": LINES})]},
    "denied": {"BeforeModel": [says({"decision": "deny", "reason": LINES})]},
    "denied late": {"AfterModel": [says({"decision": "deny", "reason": LINES})]},
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("hooks", EDITS)
async def test_what_hooks_write_into_an_answer_has_no_raw_line_ends(call: str, hooks: str) -> None:
    target, body = CALLS[call]
    async with running_gateway(EDITS[hooks]) as gateway:
        answer = await post(gateway.url, target, body)
    text = answer.body.decode()
    assert len(text.splitlines()) == len(answer.body.splitlines())
    assert json.dumps(LINES)[1:-1] in text


async def test_an_event_that_is_not_edited_keeps_its_bytes_but_for_line_ends() -> None:
    candidate = {"content": {"parts": [{"text": LINES}]}, "finishReason": "STOP"}
    event = json.dumps({"candidates": [candidate]}, ensure_ascii=False)
    data = b"data: " + event.encode() + b"\r\n\r\n"
    hooks: dict[str, Any] = {"AfterModel": [says()]}
    async with peer(STREAM_HEAD + data) as upstream, gateway_before(upstream.url, hooks) as url:
        assert (await post(url, SSE, prompt("hi"))).body == with_escaped_line_ends(data) != data
