"""Requests that fail inside the gateway, or that it cannot read."""

import asyncio
import logging
from typing import Any

import pytest
from aiohttp import web
from support.wire import UNARY, connected, post, prompt

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
