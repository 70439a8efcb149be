"""Requests that fail inside the gateway, or that it cannot read."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest
from aiohttp import web
from support.gateway.loopback import gateway_before, says
from support.wire import UNARY, connected, ok, peer, post, prompt

from hookgate.proxy.app import serve_on


@pytest.mark.parametrize("error", [KeyError("a defect"), TimeoutError()], ids=["defect", "timeout"])
async def test_a_failure_of_the_gateway_is_an_internal_error_with_a_traceback(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(_: Any) -> web.StreamResponse:
        raise error

    async with serve_on(handle, "127.0.0.1", 0) as url:
        answer = await post(url, UNARY, prompt("hi"))
    assert (answer.status, answer.json["error"]["details"][0]["reason"]) == (500, "INTERNAL_ERROR")
    [logged] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error


async def test_a_failure_after_the_beginning_of_an_answer_closes_the_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(request: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "10"})
        await response.prepare(request)
        await response.write(b"begun")
        raise KeyError

    async with serve_on(handle, "127.0.0.1", 0) as url, connected(url) as wire:
        await wire.post(UNARY, prompt("hi"))
        assert (await wire.rest()).endswith(b"\r\n\r\nbegun")
    assert "Traceback" in caplog.text
    assert "please report this" in caplog.text


async def test_a_client_that_leaves_is_no_failure_of_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    left = asyncio.Event()

    async def handle(_: Any) -> web.StreamResponse:
        left.set()
        raise ConnectionResetError

    async with serve_on(handle, "127.0.0.1", 0) as url, connected(url) as wire:
        await wire.post(UNARY, prompt("hi"))
        await left.wait()
        assert await wire.rest() == b""
    assert not [each for each in caplog.records if each.levelno == logging.ERROR]


@pytest.mark.parametrize("path", [UNARY, "/v1beta/elsewhere"], ids=["judged", "refused"])
@pytest.mark.parametrize(("size", "passes"), [(1, False), (16, False), (200, True)])
async def test_a_body_in_tiny_chunks_is_not_read_to_its_end(path: str, size: int, passes: bool) -> None:
    """Each chunk takes as long as a hundred bytes, so that a few connections would delay all other calls."""
    chunks = b"%x\r\n%b\r\n" % (size, b" " * size) * (400_000 // size)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    data = head + chunks + b"2\r\n{}\r\n0\r\n\r\n"
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [says()]}) as url,
        connected(url) as wire,
    ):
        with contextlib.suppress(ConnectionError):
            await wire.write(data)
        answer = await wire.answer()
        if not passes:
            assert await wire.rest() == b""
    if path != UNARY:
        assert answer.status == 403
    else:
        assert answer.status == (200 if passes else 400)
