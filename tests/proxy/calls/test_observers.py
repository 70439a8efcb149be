"""What observers of a call's content, such as the audit, receive for each kind of call."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import audited_gateway, reading
from support.gateway.loopback import gateway_before, runs, says
from support.wire import HI, SSE, STREAM_HEAD, UNARY, ask, ok, peer, post, prompt, spoken, sse

from hookgate.proxy.calls import answer_pipeline
from hookgate.proxy.config import Config, TranscriptSettings

Json = dict[str, Any]
COUNT = UNARY.replace("generateContent", "countTokens")
BATCH = UNARY.replace("generateContent", "batchGenerateContent")
BATCH_BODY = {"batch": {"inputConfig": {"requests": {"requests": [{"request": HI}]}}}}
EVENT = "/hookgate/v1/events/AfterTool"
EVENT_BODY = {"session_id": "s-1", "cwd": "/", "transcript_path": "/t", "tool_name": "t"}
EVENT_BODY |= {"tool_input": {}, "tool_response": {"llmContent": "x"}}
MASKED = {"contents": [{"role": "user", "parts": [{"text": "ho"}]}]}
SAID = spoken("ok", finishReason="STOP")
STATE = {"name": "batches/b-1"}


def say_ho(event: Json) -> Json:
    """A hook that changes each text of a request."""
    messages = [{**message, "content": "ho"} for message in event["llm_request"]["messages"]]
    return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}


CASES = {
    "unary": (UNARY, HI, [ok(json.dumps(SAID).encode())], MASKED, SAID),
    "stream": (SSE, HI, [STREAM_HEAD, *sse(SAID)], MASKED, SAID),
    "batch": (
        BATCH,
        BATCH_BODY,
        [ok(json.dumps(STATE).encode())],
        {"batch": {"inputConfig": {"requests": {"requests": [{"request": MASKED}]}}}},
        STATE,
    ),
    "count": (COUNT, HI, [ok(b'{"totalTokens": 1}')], MASKED, {"totalTokens": 1}),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_call_is_observed_from_its_request_to_its_answer(case: str, tmp_path: Path) -> None:
    target, body, writes, sent, answer = CASES[case]
    hooks = {"BeforeModel": [runs(say_ho)]}
    async with (
        peer(*writes) as upstream,
        audited_gateway(upstream.url, tmp_path, hooks, content="full") as gateway,
    ):
        receipt = (await post(gateway.url, target, body)).headers["x-hookgate-receipt"]
    with reading(tmp_path) as audit:
        detail = audit.call(receipt)
    assert detail is not None
    assert detail.start is not None
    assert detail.end is not None
    assert detail.end.content is not None
    assert detail.start.content == {"request": body}
    observed = {name: detail.end.content[name] for name in ("sent", "answer", "given")}
    assert observed == {"sent": sent, "answer": answer, "given": None}


async def test_the_answers_of_a_batch_are_observed_before_and_after_their_hooks(tmp_path: Path) -> None:
    inlined = {"inlinedResponses": {"inlinedResponses": [{"response": SAID}]}}
    hooks = {"AfterModel": [says(llm_response={"text": "**"})]}
    async with (
        peer(ok(json.dumps(STATE | {"response": inlined}).encode())) as upstream,
        audited_gateway(upstream.url, tmp_path, hooks, content="full") as gateway,
    ):
        answer = await ask(gateway.url, "GET", "/v1beta/batches/b-1")
    with reading(tmp_path) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    assert detail.end is not None
    assert detail.end.content is not None
    assert detail.end.content["answer"] == STATE | {"response": inlined}
    assert detail.end.content["given"] == answer.json != STATE | {"response": inlined}


async def test_an_event_is_observed_with_the_output_of_its_hooks(tmp_path: Path) -> None:
    hooks = {"AfterTool": [says(additionalContext="see")]}
    async with (
        peer() as upstream,
        audited_gateway(upstream.url, tmp_path, hooks, content="full") as gateway,
    ):
        answer = await post(gateway.url, EVENT, EVENT_BODY)
    with reading(tmp_path) as audit:
        detail = audit.call(answer.headers["x-hookgate-receipt"])
    assert detail is not None
    assert detail.end is not None
    assert detail.end.content == {"input": EVENT_BODY, "output": answer.json, "blocked": []}
    assert answer.json["hookSpecificOutput"]["additionalContext"] == "see"


# ---- transcripts


def transcript_lines(folder: Path) -> list[Json]:
    return [json.loads(line) for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines()]


@pytest.mark.parametrize("suppressed", [True, False])
async def test_a_message_that_a_hook_suppresses_is_in_no_transcript(suppressed: bool, tmp_path: Path) -> None:
    output = {"systemMessage": "psst", "suppressOutput": suppressed, "reason": "fine", "decision": "allow"}
    config = Config(transcripts=TranscriptSettings(enabled=True, folder=tmp_path))
    async with (
        peer() as upstream,
        gateway_before(upstream.url, {"AfterTool": [says(output)]}, config) as url,
    ):
        answer = await post(url, EVENT, EVENT_BODY)
    [line] = [each for each in transcript_lines(tmp_path) if each["type"] == "event"]
    assert (line["event"], line["input"]) == ("AfterTool", EVENT_BODY)
    assert answer.json["systemMessage"] == "psst"
    assert line["output"].get("systemMessage") == (None if suppressed else "psst")
    assert line["output"]["reason"] == "fine"


@pytest.mark.parametrize("target", [UNARY, SSE])
async def test_an_answer_that_is_too_large_for_a_transcript_is_sent_without_being_kept(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(transcripts=TranscriptSettings(enabled=True, folder=tmp_path))
    data = json.dumps(SAID).encode()
    writes = [ok(data)] if target == UNARY else [STREAM_HEAD, *sse(SAID)]
    for largest, fits in ((10_000, True), (100, False)):
        monkeypatch.setattr(answer_pipeline, "MAX_ANSWER", largest)
        async with peer(*writes) as upstream, gateway_before(upstream.url, {}, config) as url:
            answer = await post(url, target, prompt(f"fits: {fits}"))
        assert data in answer.body
        assert ("the answer is too large" in caplog.text) is not fits
    lines = [
        line for line in transcript_lines(tmp_path) if json.dumps(SAID["candidates"]) in json.dumps(line)
    ]
    assert len(lines) == 1
