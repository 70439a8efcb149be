"""The shim if the gateway is slow, misbehaves or is down, and its automatic recovery."""

import asyncio
import logging
import multiprocessing
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.gateway.loopback import running_gateway, says

from hookgate.shim import Denied, EventRefused, Shim, ShimError, Stopped, ToolDenied

Json = dict[str, Any]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@asynccontextmanager
async def service(serve: Serve, port: int = 0) -> AsyncIterator[str]:
    """A server of bytes; gives its base URL."""
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


async def read(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """One request: its head, its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
    return head, await reader.readexactly(int(length.partition(":")[2]))


def always(*answers: bytes) -> Serve:
    """Answer each request of a connection with these bytes in turn, then close it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read(reader)
            writer.write(answer)
            await writer.drain()

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read(reader)
    await reader.read()


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read(reader)
    for _ in range(100):
        writer.write(b"H")
        await asyncio.sleep(0.02)


async def run_tool(shim: Shim) -> str:
    session = shim.session("s-1")
    async with session.tool("glob", {}) as call:
        return str(await call.result("done"))


AWAY = {
    "silent": silent,
    "dripping": dripping,
    "closing": always(b""),
    "500": always(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"),
    "503": always(b"HTTP/1.1 503 Oh\r\ncontent-length: 2\r\n\r\n{}"),
    "a redirection": always(b"HTTP/1.1 302 There\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"),
    "no JSON": always(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}}"),
    "no object": always(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]"),
    "no HTTP": always(b"SSH-2.0-OpenSSH\r\n\r\n"),
    "half a head": always(b"HTTP/1.1 200 OK\r\ncontent-le"),
    "half a body": always(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{}"),
    "an endless head": always(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000),
    "no number": always(b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n{}"),
    "less than nothing": always(b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}"),
    "too deep": always(b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"[" * 200_000),
    "half a chunk": always(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{"),
}


@pytest.mark.parametrize("how", AWAY)
async def test_without_an_answer_the_shim_decides_within_its_time(how: str) -> None:
    async with service(AWAY[how]) as url:
        begin = time.monotonic()
        async with Shim(url, timeout=0.2) as shim:
            assert await run_tool(shim) == "done"
        async with Shim(url, timeout=0.2, on_unreachable="deny") as shim:
            with pytest.raises(ToolDenied, match="gateway is unreachable"):
                await run_tool(shim)
    assert time.monotonic() - begin < 2


async def test_no_gateway_at_all() -> None:
    async with service(silent) as url:
        pass
    async with Shim(url) as shim:
        assert await run_tool(shim) == "done"
    async with Shim(url, on_unreachable="deny") as shim:
        with pytest.raises(Denied, match="gateway is unreachable"):
            async with shim.session():
                pass
        with pytest.raises(Denied, match="gateway is unreachable"):
            async with shim.session().turn("Go."):
                pass


async def test_an_answer_that_cannot_be_judged_stops_the_turn() -> None:
    """Another try of the agent's would not bring the gateway back."""
    async with running_gateway() as gateway:
        shim = Shim(gateway.url, on_unreachable="deny")
        session = shim.session()
        attempts = session.attempts("Go.")
        attempt = await anext(attempts)
    attempt.answer("Done.")
    with pytest.raises(Stopped, match="gateway is unreachable"):
        await anext(attempts)
    await shim.aclose()


async def test_an_outage_is_reported_once_and_the_shim_recovers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hookgate.shim")
    async with service(always(OK, OK)) as url:
        port = int(url.rpartition(":")[2])
        shim = Shim(url, on_unreachable="deny", timeout=1)
        assert await run_tool(shim) == "done"
    for _ in range(3):
        with pytest.raises(ToolDenied):
            await run_tool(shim)
    async with service(always(OK, OK), port):
        assert await run_tool(shim) == "done"
    await shim.aclose()
    reported = [record.getMessage() for record in caplog.records if record.name == "hookgate.shim"]
    assert [text.split(":")[0] for text in reported] == [
        "the gateway is unreachable, so all events are denied",
        "the gateway is reachable again",
    ]


async def test_the_end_of_a_real_gateway_in_a_session() -> None:
    hooks = {"BeforeTool": [says({"decision": "deny", "reason": "Hooks say no."})]}
    async with running_gateway(hooks) as gateway, Shim(gateway.url) as shim, shim.session() as session:
        with pytest.raises(ToolDenied, match="Hooks say no"):
            async with session.tool("glob", {}):
                pass
    assert await run_tool(shim) == "done"  # a shim that was closed opens again
    await shim.aclose()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"error": {"code": 403, "message": "No such key.", "status": "PERMISSION_DENIED"}}',
            "No such key.",
        ),
        (b"<html>", "<html>"),
        (b"[1]", r"\[1\]"),
    ],
)
async def test_a_refusal_is_the_callers_to_see(body: bytes, message: str) -> None:
    answer = b"HTTP/1.1 403 No\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    async with service(always(answer)) as url, Shim(url, on_unreachable="allow") as shim:
        with pytest.raises(EventRefused, match=f"403: {message}$") as refused:
            await run_tool(shim)
    assert refused.value.status == 403
    assert isinstance(refused.value, ShimError)


async def test_a_real_gateways_refusal() -> None:
    async with running_gateway() as gateway, Shim(gateway.url) as shim:
        with pytest.raises(EventRefused, match="400"):
            await shim.session(cwd="/" * 10_000).notify("info", "Hello.")


async def test_what_is_sent_and_every_framing_of_an_answer() -> None:
    heads: list[str] = []
    answers = [
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\n{\r\n1\r\n}\r\n0\r\nt: u\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-hookgate-receipt: r-1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}",
    ]
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while answers:
            heads.append((await read(reader))[0])
            writer.write(answers.pop(0))

    async with service(serve) as url, Shim(f"{url}/gate/s/abc/", "a-key") as shim:
        session = shim.session()
        receipts = [(await session.notify("info", "Hello.")).receipt for _ in range(4)]
    assert receipts == ["", "", "r-1", ""]
    assert connections == 1
    assert {head.split("\r\n")[0] for head in heads} == {
        "POST /gate/s/abc/hookgate/v1/events/Notification HTTP/1.1"
    }
    assert "\r\nx-goog-api-key: a-key\r\n" in heads[0]
    assert "x-hookgate-context" not in heads[0]


async def test_a_token_and_the_wish_to_have_context_delivered() -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.append((await read(reader))[0])
            writer.write(OK)

    async with (
        service(serve) as url,
        Shim(url, "Bearer abc") as shim,
        shim.session(context="delivered") as session,
        session.turn("Go."),
    ):
        await session.notify("info", "Hello.")
    assert all("\r\nauthorization: Bearer abc\r\n" in head for head in heads)
    asked = [head.split(" ")[1].rpartition("/")[2] for head in heads if "x-hookgate-context: deliver" in head]
    assert asked == ["SessionStart", "BeforeAgent"]


async def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    async with service(always(OK)) as url, Shim(url, on_unreachable="deny") as shim:
        for _ in range(3):
            await shim.session().notify("info", "Hello.")
            assert await run_tool(shim) == "done"


async def test_a_caller_that_is_cancelled_waits_no_longer() -> None:
    async with service(silent) as url, Shim(url, timeout=60) as shim:
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await run_tool(shim)
    assert time.monotonic() - begin < 5


def _in_a_fork(shim: Shim, message: Any) -> None:
    with shim.sync_session("s-1").tool("glob", {}) as call:
        message.send(call.result("done"))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
async def test_a_forked_process_has_connections_of_its_own() -> None:
    async with service(always(*[OK] * 9)) as url, Shim(url, on_unreachable="deny", timeout=5) as shim:
        assert await run_tool(shim) == "done"
        here, there = multiprocessing.Pipe()
        fork = multiprocessing.get_context("fork").Process(target=_in_a_fork, args=(shim, there))
        fork.start()
        assert await asyncio.to_thread(here.poll, 10)
        assert here.recv() == "done"
        await asyncio.to_thread(fork.join, 10)
        assert fork.exitcode == 0
        assert await run_tool(shim) == "done"


def test_a_remote_shim_imports_little() -> None:
    code = "import sys; from hookgate.shim import Shim; Shim('http://127.0.0.1:9')\n"
    code += (
        "print([name for name in ('pydantic', 'orjson', 'aiohttp', 'hookgate.hooks') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
