"""HTTP hooks whose service is missing, hangs, breaks off, or closes a reused connection."""

import asyncio
import errno
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.hooks.http import BROKEN_OFF, echo, http, peer, read_request, response, service
from support.hooks.kinds import ask, running

from hookgate.hooks import HookError
from hookgate.hooks.runners import service_client as services

pytestmark = pytest.mark.usefixtures("tidy")


# ---- services that fail


async def test_a_service_that_is_not_there_cannot_be_reached() -> None:
    async with service(echo) as url:
        pass
    async with running(http(url)) as runner:
        with pytest.raises(HookError, match=r"^cannot be reached: 127\.0\.0\.1:\d+: Connection refused$"):
            await ask(runner)


async def test_a_socket_that_is_not_there_cannot_be_reached(tmp_path: Path) -> None:
    async with running(http(f"unix:{tmp_path}/none.sock")) as runner:
        with pytest.raises(HookError, match=r"^cannot be reached: .*none\.sock: No such file or directory$"):
            await ask(runner)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 20", id="half a status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", id="half a body"),
    ],
)
async def test_a_service_that_hangs_is_left_in_time(said: bytes) -> None:
    left = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        await reader.read()
        left.set()

    async with peer(talk) as url, running(http(url, timeout=100)) as runner:
        with pytest.raises(HookError, match=r"^timed out after 100 ms$"):
            await ask(runner)
        await asyncio.wait_for(left.wait(), 5)


async def test_a_cancelled_call_closes_its_connection() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        begun.set()
        await reader.read()
        left.set()

    async with peer(talk) as url, running(http(url)) as runner:
        call = asyncio.create_task(ask(runner))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(left.wait(), 5)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(b"", BROKEN_OFF, id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", BROKEN_OFF, id="half a head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", BROKEN_OFF, id="half a body"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", "answered with invalid HTTP: ClientResponseError", id="not HTTP"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
            "answered with invalid HTTP: ClientResponseError",
            id="endless header",
        ),
    ],
)
async def test_a_broken_answer_fails_the_hook_and_is_not_asked_for_again(said: bytes, error: str) -> None:
    requests = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(said)

    async with peer(talk) as url, running(http(url)) as runner:
        with pytest.raises(HookError) as raised:
            await ask(runner)
    assert (str(raised.value), len(requests)) == (error, 1)


# ---- a kept connection that the service closes


class Closing:
    """Answers the first request of a connection; at the second it says `last`, and closes."""

    def __init__(self, last: bytes = b"", always: bool = False) -> None:
        self.last, self.always = last, always
        self.requests: list[Any] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not (self.always and self.requests):
            self.requests.append(json.loads(await read_request(reader)))
            writer.write(response(b"{}"))
        self.requests.append(json.loads(await read_request(reader)))
        writer.write(self.last)


async def test_an_event_is_sent_again_when_a_kept_connection_was_closed_before_any_answer() -> None:
    talk = Closing()
    async with peer(talk) as url, running(http(url)) as runner:
        assert [await ask(runner, n=n) for n in range(2)] == [{}, {}]
    assert talk.requests == [{"n": 0}, {"n": 1}, {"n": 1}]


@pytest.mark.parametrize(
    ("error", "unanswered"),
    [
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), True),
        (aiohttp.ClientOSError(errno.EPIPE, "closed"), True),
        (aiohttp.ClientOSError(errno.EHOSTUNREACH, "unreachable"), False),
        (aiohttp.ServerDisconnectedError(), True),
        (aiohttp.ClientPayloadError("half of it"), False),
    ],
)
def test_only_a_connection_that_the_service_closed_was_never_answered(
    error: aiohttp.ClientError, unanswered: bool
) -> None:
    assert services._closed_before_answering(error) is unanswered


async def test_an_event_is_sent_again_once_and_not_more() -> None:
    talk = Closing(always=True)
    async with peer(talk) as url, running(http(url)) as runner:
        await ask(runner, n=0)
        with pytest.raises(HookError, match=BROKEN_OFF):
            await ask(runner, n=1)
    assert talk.requests == [{"n": 0}, {"n": 1}, {"n": 1}]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(b"H", id="a byte"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="a status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", id="half a body"),
    ],
)
async def test_an_event_is_not_sent_again_once_an_answer_has_begun(last: bytes) -> None:
    talk = Closing(last)
    async with peer(talk) as url, running(http(url)) as runner:
        await ask(runner, n=0)
        with pytest.raises(HookError, match=BROKEN_OFF):
            await ask(runner, n=1)
    assert talk.requests == [{"n": 0}, {"n": 1}]
