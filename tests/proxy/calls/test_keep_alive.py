"""Slow hooks: the bytes that are sent before they decide, and the form of their verdict after that."""

import asyncio
import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, running_gateway, runs, says
from support.wire import SSE, STREAM, UNARY, Wire, connected, peer, post, prompt

from hookgate.proxy.config import Config, StreamSettings
from hookgate.proxy.server.connection import Request

HI = prompt("hi there my friend")
STREAMS = pytest.mark.parametrize("target", [SSE, STREAM], ids=["sse", "array"])
IMPATIENT = Config(streams=StreamSettings(header_timeout=0.05, keep_alive=0.05))
DENY = {"decision": "deny", "reason": "Not in this house."}
TWO_EVENTS = {"rules": [{"answer": {"chunks": ["one", "two"]}}]}
REDACT = {"hookSpecificOutput": {"llm_response": {"text": "**"}}}


def waits(for_it: asyncio.Event, output: dict[str, Any] | None = None) -> dict[str, Any]:
    """A hook that says what it has to say when the event is set."""

    async def action(_: dict[str, Any]) -> dict[str, Any] | None:
        await for_it.wait()
        return output

    return runs(action)


async def keeping_alive(wire: Wire, target: str = SSE, times: int = 3) -> bytes:
    """Take the headers of a 200, then nothing but keep-alives, and return these."""
    status, headers = await wire.head()
    assert status == 200
    assert headers["x-accel-buffering"] == "no"
    found = b"".join([await wire.chunk() for _ in range(times)])
    assert found == (b"data: " + b" " * (times - 1) if target == SSE else b"\r\n" * times)
    return found


async def rest(wire: Wire) -> bytes:
    body = b""
    while chunk := await wire.chunk():
        body += chunk
    return body


def texts(body: bytes, target: str) -> list[str]:
    """The texts of a body as clients read it, keep-alives included."""
    if target == SSE:
        events = [json.loads(line.removeprefix(b"data:")) for line in body.split(b"\r\n\r\n") if line]
    else:
        events = json.loads(body)
    assert events[-1]["candidates"][0]["finishReason"] == "STOP"
    return [event["candidates"][0]["content"]["parts"][0]["text"] for event in events]


@STREAMS
@pytest.mark.parametrize("event", ["BeforeModel", "BeforeToolSelection", "AfterModel"])
async def test_a_denial_after_the_headers_had_to_go_is_reported_as_text(target: str, event: str) -> None:
    decided = asyncio.Event()
    async with (
        running_gateway({event: [waits(decided, DENY)]}, config=IMPATIENT) as gateway,
        connected(gateway.url) as wire,
    ):
        await wire.post(target, HI)
        begun = await keeping_alive(wire, target)
        decided.set()
        assert texts(begun + await rest(wire), target) == ["Not in this house."]


@STREAMS
@pytest.mark.parametrize(
    ("event", "output", "expected"),
    [
        ("BeforeModel", None, ["one", "two"]),
        ("BeforeModel", {"continue": False, "stopReason": "Enough."}, ["Enough."]),
        ("BeforeModel", {"hookSpecificOutput": {"llm_response": {"text": "Mine."}}}, ["Mine."]),
        ("AfterModel", REDACT, ["**", "**"]),
    ],
    ids=["allow", "stop", "synthetic", "redact"],
)
async def test_any_other_verdict_is_reported_as_ever(
    target: str, event: str, output: Any, expected: list[str]
) -> None:
    decided = asyncio.Event()
    async with (
        running_gateway(
            {event: [{**waits(decided, output), "stream": "event"}]}, TWO_EVENTS, IMPATIENT
        ) as gateway,
        connected(gateway.url) as wire,
    ):
        await wire.post(target, HI)
        begun = await keeping_alive(wire, target)
        decided.set()
        found = texts(begun + await rest(wire), target)
        assert found == expected


@STREAMS
async def test_silence_of_the_upstream_is_broken_too(target: str) -> None:
    """As often as keep-alives are due: how long the headers may wait does not matter after them."""
    config = Config(streams=StreamSettings(header_timeout=60, keep_alive=0.05))
    script = {"rules": [{"answer": {"chunks": ["one", "two"], "chunk_delay_ms": 60_000}}]}
    async with (
        running_gateway({"AfterModel": [{**says(), "stream": "event"}]}, script, config) as gateway,
        connected(gateway.url) as wire,
    ):
        await wire.post(target, HI)
        assert (await wire.head())[0] == 200
        assert b"one" in await wire.chunk()
        alive = [b"data: ", b" ", b" "] if target == SSE else [b"\r\n"] * 3
        assert [await wire.chunk() for _ in range(3)] == alive


async def test_headers_are_sent_on_time_however_rare_keep_alives_are() -> None:
    decided = asyncio.Event()
    config = Config(streams=StreamSettings(header_timeout=0.05, keep_alive=60))
    async with (
        running_gateway({"BeforeModel": [waits(decided, DENY)]}, config=config) as gateway,
        connected(gateway.url) as wire,
    ):
        await wire.post(SSE, HI)
        begun = await keeping_alive(wire, times=1)
        decided.set()
        assert texts(begun + await rest(wire), SSE) == ["Not in this house."]


@pytest.mark.parametrize("hooks", ["BeforeModel", "AfterModel"])
async def test_nothing_is_put_into_an_event_that_comes_in_pieces(hooks: str) -> None:
    event = b'data: {"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}]}\r\n\r\n'
    rest_of_it = asyncio.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + event[:50])
        await rest_of_it.wait()
        writer.write(event[50:])
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    decided = asyncio.Event()
    slow = {"BeforeModel": [waits(decided)], hooks: [waits(decided)]}
    async with server, gateway_before(url, slow, IMPATIENT) as gateway, connected(gateway) as wire:
        await wire.post(SSE, HI)
        await keeping_alive(wire)
        decided.set()
        if hooks == "BeforeModel":  # copied as it comes: the first piece is all there is for now
            while (piece := await wire.chunk()) == b" ":
                pass
            assert piece == event[5:50]
            with pytest.raises(TimeoutError):  # six times the silence that any other stream may have
                await asyncio.wait_for(wire.chunk(), 0.3)
            rest_of_it.set()
            assert await rest(wire) == event[50:]
        else:
            await asyncio.sleep(0)
            rest_of_it.set()
            assert (await rest(wire)).lstrip() == event.removeprefix(b"data: ")


async def test_an_upstream_error_after_the_headers_ends_the_stream_as_an_error() -> None:
    decided = asyncio.Event()
    script = {"rules": [{"answer": {"error": {"status": 429, "message": "quota"}}}]}
    async with (
        running_gateway({"BeforeModel": [waits(decided)]}, script, IMPATIENT) as gateway,
        connected(gateway.url) as wire,
    ):
        await wire.post(SSE, HI)
        begun = await keeping_alive(wire)
        decided.set()
        event = begun + await wire.chunk()
        assert json.loads(event.removeprefix(b"data: "))["error"]["code"] == 429
        with pytest.raises(asyncio.IncompleteReadError):
            await wire.chunk()


@pytest.mark.parametrize("output", [None, DENY], ids=["allow", "deny"])
async def test_a_call_that_does_not_stream_waits_for_the_verdict(output: Any) -> None:
    decided = asyncio.Event()
    # A stream beside it shows that there was time enough for keep-alives.
    hooks = {"BeforeModel": [waits(decided, output)]}
    async with (
        running_gateway(hooks, config=IMPATIENT) as gateway,
        connected(gateway.url) as unary,
        connected(gateway.url) as stream,
    ):
        await unary.post(UNARY, HI)
        await stream.post(SSE, HI)
        await keeping_alive(stream)
        decided.set()
        answer = await unary.answer()
        await rest(stream)
    assert answer.status == (403 if output else 200)
    assert answer.body.startswith(b"{")


@STREAMS
async def test_keep_alives_end_with_the_answer(target: str) -> None:
    async def wait_if_told(event: dict[str, Any]) -> None:
        if "wait" in event["llm_request"]["messages"][0]["content"]:
            await asyncio.Event().wait()

    slow = prompt("wait")
    async with (
        running_gateway({"BeforeModel": [runs(wait_if_told)]}, config=IMPATIENT) as gateway,
        connected(gateway.url) as wire,
        connected(gateway.url) as clock,
    ):
        await wire.post(target, HI)
        first = await wire.answer()
        await clock.post(target, slow)
        await keeping_alive(clock, target)  # time enough for a stray one on the other connection
        await wire.post(target, HI)
        again = await wire.answer()
    # On a busy machine an answer may begin with keep-alives of its own.
    assert again.status == 200
    assert b"".join(again.body.split()) == b"".join(first.body.split())


@STREAMS
async def test_a_denial_before_the_headers_had_to_go_is_an_error(target: str) -> None:
    async with (
        running_gateway({"BeforeModel": [says(DENY)]}) as gateway,
        connected(gateway.url) as wire,
    ):
        await wire.post(target, HI)
        assert (await wire.answer()).status == 403


@STREAMS
@pytest.mark.parametrize(
    ("output", "expected"),
    [(DENY, "Not in this house."), ({"hookSpecificOutput": {"llm_response": {"text": "Mine."}}}, "Mine.")],
    ids=["deny", "synthetic"],
)
async def test_headers_that_are_slow_to_go_come_before_the_verdict(
    target: str, output: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    beginning = asyncio.Event()
    prepare = Request._prepare_hook

    async def slowly(request: Request, response: Any) -> None:  # as when the start is recorded first
        beginning.set()
        await asyncio.sleep(0.2)
        await prepare(request, response)

    monkeypatch.setattr(Request, "_prepare_hook", slowly)
    hooks = {"BeforeModel": [waits(beginning, output)]}
    async with running_gateway(hooks, config=IMPATIENT) as gateway, connected(gateway.url) as wire:
        await wire.post(target, HI)
        status, _ = await wire.head()
        assert status == 200
        assert texts(await rest(wire), target) == [expected]


async def test_a_stream_has_one_content_type_whatever_the_upstreams_spelling() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    event = (
        b'data: {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}\r\n\r\n'
    )
    hooks = {"AfterModel": [says()]}
    async with peer(head + event) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, SSE, HI)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.body == event
