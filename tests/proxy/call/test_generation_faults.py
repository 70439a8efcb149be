"""An upstream that fails: clients get a clear error, or detect the broken answer."""

import asyncio
import logging
import socket
from typing import Any

import pytest
from support.gateway import gateway_before, running_gateway, runs, says
from support.wire import HI, SSE, STREAM, UNARY, connected, ok, peer, post, response

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


async def test_a_stream_that_turns_unreadable_ends_with_a_word_about_it() -> None:
    body = b"data: " + EVENT + b"\r\n\r\ndata: {broken\r\n\r\n"
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, WATCHED) as url:
        answer = await post(url, SSE, HI)
    first, last = answer.events
    assert first["candidates"][0]["content"]["parts"] == [{"text": "so far"}]
    assert "cannot be judged" in last["candidates"][0]["content"]["parts"][0]["text"]
    assert last["candidates"][0]["finishReason"] == "STOP"


async def test_a_byte_at_a_time_is_judged_by_whole_events() -> None:
    seen: list[str] = []
    note = runs(lambda event: seen.append(event["llm_response"]["text"]))
    stream = (b"data: " + EVENT + b"\r\n\r\n") * 2
    drip = (ok(stream)[i : i + 1] for i in range(len(ok(stream))))
    async with peer(*drip) as upstream, gateway_before(upstream.url, {"AfterModel": [note]}) as url:
        answer = await post(url, SSE, HI)
    assert (answer.body, "".join(seen)) == (stream, "so far" * 2)
