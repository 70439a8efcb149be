"""An upstream that fails: clients get a clear error, or detect the broken answer."""

import asyncio
import json
import logging
import re
import socket
from dataclasses import dataclass
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, runs, says
from support.wire import HI, KEY, SSE, STREAM, UNARY, Answer, ask, connected, ok, peer, post, response

WATCHED = {"BeforeModel": [says()], "AfterModel": [{**says(), "stream": "event"}]}
BEFORE_ONLY = {"BeforeModel": [says()]}
EVERY_WAY = pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["unary", "sse", "array"])
STREAMS = pytest.mark.parametrize("target", [SSE, STREAM], ids=["sse", "array"])
EVERY_PATH = pytest.mark.parametrize("hooks", [{}, BEFORE_ONLY, WATCHED], ids=["none", "before", "after"])

EVENT = b'{"candidates":[{"content":{"parts":[{"text":"so far"}]}}]}'


@pytest.fixture(autouse=True)
def quiet_log(caplog: pytest.LogCaptureFixture) -> Any:
    """A failing upstream is no failure of the gateway: its log holds no error and no traceback."""
    yield
    loud = [r for r in caplog.records if r.levelno >= logging.ERROR or r.exc_info]
    assert [r.getMessage() for r in loud if r.name.startswith(("hookgate", "aiohttp"))] == []


# ---- no answer


@EVERY_WAY
@EVERY_PATH
async def test_an_upstream_that_cannot_be_reached_is_a_502(target: str, hooks: Any) -> None:
    with socket.socket() as held:  # bound, so that no other test gets the port, but not listening
        held.bind(("127.0.0.1", 0))
        async with gateway_before(f"http://127.0.0.1:{held.getsockname()[1]}", hooks) as url:
            answer = await post(url, target, HI)
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")
    assert answer.error["details"][0]["reason"] == "UPSTREAM_UNREACHABLE"


@EVERY_PATH
async def test_an_upstream_that_hangs_up_without_a_word_is_a_502(hooks: Any) -> None:
    async with peer() as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")
    assert len(upstream.heard) == 1  # a call may cost money: it is not made twice


@EVERY_PATH
async def test_an_upstream_that_does_not_speak_http_is_a_502(hooks: Any) -> None:
    async with peer(b"SSH-2.0-OpenSSH\r\n\r\n") as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")


async def test_redirects_are_not_followed() -> None:
    away = response(302, b"", {"Location": "http://127.0.0.1:1/"})
    async with peer(away) as upstream, gateway_before(upstream.url, WATCHED) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, "location" in answer.headers) == (302, False)


# ---- half an answer


@STREAMS
@EVERY_PATH
async def test_a_stream_cut_midway_looks_broken_to_the_client(target: str, hooks: Any) -> None:
    begun = b"data: " + EVENT + b"\r\n\r\n" if target == SSE else b"[" + EVENT
    cut = asyncio.Event()
    async with (
        peer(ok(begun + b"never")[: -len(b"never")], stays=cut) as upstream,
        gateway_before(upstream.url, hooks) as url,
        connected(url) as wire,
    ):
        await wire.post(target, HI)
        status, headers = await wire.head()
        first = await wire.received(len(begun), headers)
        assert (status, first) == (200, begun)
        cut.set()
        assert await wire.ended()  # without the end of a body that a whole one has


@STREAMS
@pytest.mark.parametrize("hooks", [BEFORE_ONLY, WATCHED], ids=["before", "after"])
async def test_a_stream_cut_before_its_first_event_is_a_502(target: str, hooks: Any) -> None:
    script = {"rules": [{"answer": {"text": "never", "cut_after": 0}}]}
    async with running_gateway(hooks, script) as gateway:
        answer = await post(gateway.url, target, HI)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_BROKE")


@pytest.mark.parametrize("hooks", [BEFORE_ONLY, WATCHED], ids=["before", "after"])
async def test_a_whole_answer_cut_midway_is_a_502(hooks: Any) -> None:
    async with peer(ok(EVENT)[:-5]) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_BROKE")


async def test_a_truncated_unary_answer_looks_broken_if_it_is_not_judged() -> None:
    async with peer(ok(EVENT)[:-5]) as upstream, gateway_before(upstream.url) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.body, answer.complete) == (200, EVENT[:-5], False)


async def test_an_error_cut_midway_is_a_502() -> None:
    error = response(429, b'{"error": {}}', {"Content-Type": "application/json"})
    async with peer(error[:-5]) as upstream, gateway_before(upstream.url, WATCHED) as url:
        assert (await post(url, SSE, HI)).status == 502


# ---- an answer that cannot be judged

HTML = b"<html><body>Sign in to the hotel's network</body></html>\n\n"


@EVERY_WAY
@pytest.mark.parametrize(
    "body",
    [HTML, b"\x1f\x8b\x08\x00junk", b'"text"', b"[[]]", b'["text", {}]', b'[{"text": "half', b"data: {]\n\n"],
)
async def test_an_answer_that_no_hook_can_read_is_a_502(target: str, body: bytes) -> None:
    async with peer(ok(body, "text/html")) as upstream, gateway_before(upstream.url, WATCHED) as url:
        answer = await post(url, target, HI)
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")
    assert answer.error["details"][0]["reason"] == "UPSTREAM_UNREADABLE"
    assert b"hotel" not in answer.body


async def test_a_whole_answer_that_ends_in_the_middle_of_a_tool_call_is_a_502() -> None:
    tool_call = {"name": "f", "willContinue": True}
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": tool_call}]}}]}
    async with (
        peer(ok(json.dumps(answer).encode())) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [says()]}) as url,
    ):
        refused = await post(url, UNARY, HI)
    assert refused.status == 502
    assert refused.error["details"][0]["reason"] == "UPSTREAM_UNREADABLE"


@pytest.mark.parametrize("body", [EVENT, b"[" + EVENT + b"]"])
async def test_an_answer_in_another_framing_does_not_slip_past_the_hooks(body: bytes) -> None:
    # Some clients read a line without `data:` as an event all the same.
    async with peer(ok(body + b"\n\n")) as upstream, gateway_before(upstream.url, WATCHED) as url:
        assert (await post(url, SSE, HI)).status == 502


@pytest.mark.parametrize("end", ["\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("name", ["", "event", "id", "retry"])
async def test_nothing_that_some_clients_parse_as_an_event_bypasses_the_hooks(name: str, end: str) -> None:
    # They end lines also where Unicode does, as Python's splitlines() and Node's readline.
    body = b"data: {}\n\n" + f"{name}: {{{end}data: ".encode() + EVENT + b"\n\n"
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, WATCHED) as url:
        answer = await post(url, SSE, HI)
    assert b"so far" not in answer.body
    assert b"cannot be judged" in answer.body


async def test_an_event_within_the_data_of_another_does_not_slip_past_the_hooks() -> None:
    # Gemini CLI leaves out lines that begin with `data:` and no space behind it.
    body = b'data:{"x":\ndata: ' + EVENT + b"\ndata:}\n\n"
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, WATCHED) as url:
        answer = await post(url, SSE, HI)
    assert answer.body == b'data: {"x": ' + EVENT + b" }\r\n\r\n"


async def test_an_object_where_an_array_belongs_is_a_502() -> None:
    async with peer(ok(EVENT)) as upstream, gateway_before(upstream.url, WATCHED) as url:
        assert (await post(url, STREAM, HI)).status == 502


# ---- an error in the middle of an answer

REDACTED = {
    "AfterModel": [
        {"type": "builtin", "builtin": "redact", "options": {"detect": ["personal"], "action": "mask"}}
    ]
}
JUDGED = pytest.mark.parametrize("hooks", [WATCHED, REDACTED], ids=["hook", "policy"])
ERROR = (
    b'{\n "error": {"code": 503, "message": "Overloaded. Mail bob.smith@example.com.",'
    b' "status": "UNAVAILABLE"}\n}\n'
)
CHAT, RESPONSES = "/v1beta/openai/chat/completions", "/v1beta/openai/responses"
INTERACTIONS = "/v1beta/interactions"


@dataclass
class Streamed:
    """How a dialect streams an answer: the request, and an event with a text."""

    target: str
    body: Any
    begun: bytes

    def framed(self, data: bytes) -> bytes:
        """Return one more element of the stream."""
        return b"\r\n,\r\n" + data if self.target == STREAM else b"data: " + data + b"\r\n\r\n"


def _framed(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


_STEP = {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}
_DELTA = {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "so far. "}}
_ITEM = {"type": "message", "id": "m", "role": "assistant", "content": []}
DIALECTS = {
    "sse": Streamed(SSE, HI, b"data: " + EVENT + b"\r\n\r\n"),
    "array": Streamed(STREAM, HI, b"[" + EVENT),
    "chat": Streamed(
        CHAT,
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]},
        _framed({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "so far. "}}]}),
    ),
    "responses": Streamed(
        RESPONSES,
        {"model": "m", "stream": True, "store": False, "input": "hi"},
        _framed(
            {"type": "response.created", "response": {"id": "r", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": _ITEM},
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "item_id": "m",
                "delta": "so far. ",
            },
        ),
    ),
    "interactions": Streamed(
        INTERACTIONS,
        {"model": "m", "stream": True, "store": False, "input": "hi"},
        _framed(
            {"event_type": "interaction.created", "interaction": {"id": "i", "model": "m"}}, _STEP, _DELTA
        ),
    ),
}
EVERY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)


async def outcome(url: str, answer: Answer) -> str:
    """Return the outcome of a call, as its receipt has it."""
    path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
    return str((await ask(url, "GET", path, KEY)).json["outcome"])


@EVERY_DIALECT
@JUDGED
@pytest.mark.parametrize("framing", ["framed", "bare"])
async def test_an_error_after_the_first_event_stays_an_error(
    dialect: str, hooks: Any, framing: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoken = DIALECTS[dialect]
    error = spoken.framed(json.dumps(json.loads(ERROR)).encode()) if framing == "framed" else ERROR
    async with peer(ok(spoken.begun + error)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, spoken.target, spoken.body, KEY)
        assert await outcome(url, answer) == "failed"
    assert answer.status == 200
    assert b'"so ' in answer.body
    assert b'"code"' in answer.body
    assert b"UNAVAILABLE" in answer.body
    assert not re.search(rb'"(STOP|stop|completed)"', answer.body)
    assert (b"bob.smith" in answer.body) is (hooks is WATCHED)
    assert "the answer has an error: 503 UNAVAILABLE" in caplog.text


@EVERY_DIALECT
@JUDGED
@pytest.mark.parametrize(
    "tail",
    [
        HTML,
        b'data: {"candidates": [{"content": {"parts": [{"text": "half',
        b"data: {broken\r\n\r\n",
        b'{"error": {"message": "a\xe2\x80\xa8data: {}"}}',
        b'{"error": {"details": [\n{"candidates": [{"content": {"parts": [{"text": "half"}]}}]}\n]}}',
    ],
    ids=["HTML", "half an event", "no JSON", "odd line end", "an event within"],
)
async def test_a_tail_that_cannot_be_judged_breaks_the_stream(
    dialect: str, hooks: Any, tail: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    spoken = DIALECTS[dialect]
    if dialect == "array" and tail.startswith(b'{"error"'):
        pytest.skip("it is an element of the array")
    async with peer(ok(spoken.begun + tail)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, spoken.target, spoken.body, KEY)
        assert await outcome(url, answer) == "failed"
    if answer.status == 200:  # otherwise, all of it arrived at once
        assert (answer.complete, b'"so ' in answer.body) == (False, True)
    assert b"hotel" not in answer.body
    assert b"half" not in answer.body
    assert not re.search(rb'"(STOP|stop|completed)"', answer.body)
    assert "the upstream's answer failed: UPSTREAM_UNREADABLE" in caplog.text


@EVERY_DIALECT
@pytest.mark.parametrize("hooks", [{}, WATCHED, REDACTED], ids=["none", "hook", "policy"])
async def test_a_stream_without_its_end_is_recorded_as_failed(dialect: str, hooks: Any) -> None:
    spoken = DIALECTS[dialect]
    kind = "application/json" if dialect == "array" else "text/event-stream"
    async with peer(ok(spoken.begun, kind)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, spoken.target, spoken.body, KEY)
        assert await outcome(url, answer) == "failed"
    assert b'"so ' in answer.body


@JUDGED
@pytest.mark.parametrize("target", [SSE, STREAM])
async def test_a_denial_by_a_hook_stays_a_text(hooks: Any, target: str) -> None:
    denies = {"AfterModel": [*hooks["AfterModel"], says({"decision": "deny", "reason": "No."})]}
    stream = DIALECTS["sse" if target == SSE else "array"]
    async with peer(ok(stream.begun + ERROR)) as upstream, gateway_before(upstream.url, denies) as url:
        answer = await post(url, target, HI, KEY)
    assert (answer.complete, b"No." in answer.body) == (True, True)


@pytest.mark.parametrize("dialect", ["sse", "array", "chat"])
@pytest.mark.parametrize("blank", [b"", b"\r\n\r\n"], ids=["no blank line", "blank line"])
async def test_a_secret_that_a_stream_without_length_ends_in_is_not_shown(dialect: str, blank: bytes) -> None:
    """The end of the connection may be the end of the answer, or may cut it off."""
    event = DIALECTS[dialect].begun.replace(b"so far", b"so far, bob.smith@exa")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    stream = head + event.rstrip() + (b"" if dialect == "array" else blank)
    stream = stream.replace(b"@exa. ", b"@exa")
    async with peer(stream) as upstream, gateway_before(upstream.url, REDACTED) as url:
        answer = await post(url, DIALECTS[dialect].target, DIALECTS[dialect].body, KEY)
    assert b'"so ' in answer.body
    assert b"bob.smith" not in answer.body


async def test_a_byte_at_a_time_is_judged_by_whole_events() -> None:
    seen: list[str] = []
    note = runs(lambda event: seen.append(event["llm_response"]["text"]))
    stream = (b"data: " + EVENT + b"\r\n\r\n") * 2
    drip = (ok(stream)[i : i + 1] for i in range(len(ok(stream))))
    async with peer(*drip) as upstream, gateway_before(upstream.url, {"AfterModel": [note]}) as url:
        answer = await post(url, SSE, HI)
    assert (answer.body, "".join(seen)) == (stream, "so far" * 2)
