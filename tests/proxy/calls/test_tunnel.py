"""Live sessions that an operator forwards: a WebSocket tunnel in both directions."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from support.gateway.live import LIVE, live
from support.gateway.loopback import gateway_before
from support.wire import KEY, ask

from hookgate.proxy.calls.pacing import CallSteps, LongSteps, LoopSlices
from hookgate.proxy.calls.websockets import Side, relay
from hookgate.proxy.config import Config, LimitSettings, RouteSettings
from hookgate.proxy.server.bodies import BodyWorker

OPEN = Config(routes=RouteSettings(unhooked=("live",)))
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
}
VERTEX = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"


@asynccontextmanager
async def client(
    upstream: str, target: str = LIVE, **options: Any
) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
    """A client's WebSocket to a gateway that lets Live through; nothing may take longer than ten seconds."""
    async with (
        asyncio.timeout(10),
        gateway_before(upstream, config=OPEN) as url,
        aiohttp.ClientSession(headers=KEY) as http,
        http.ws_connect(url + target, autoping=False, max_msg_size=0, **options) as socket,
    ):
        yield socket


async def echo(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        match message.type:
            case WSMsgType.TEXT:
                await socket.send_str(message.data)
            case WSMsgType.BINARY:
                await socket.send_bytes(message.data)
            case WSMsgType.PING:
                await socket.pong(message.data)


@pytest.mark.parametrize("target", [LIVE, VERTEX, f"/s/abc{LIVE}"])
async def test_messages_pass_both_ways(target: str) -> None:
    async with live(echo) as upstream, client(upstream, target) as socket:
        await socket.send_str("é" * 1000)
        assert (await socket.receive()).data == "é" * 1000
        await socket.send_bytes(bytes(100_000))
        assert (await socket.receive()).data == bytes(100_000)
        await socket.ping(b"there?")
        assert (await socket.receive())[:2] == (WSMsgType.PONG, b"there?")


async def test_keys_and_the_protocol_are_passed_on_and_nothing_of_the_connection() -> None:
    seen: list[web.BaseRequest] = []
    target = f"{LIVE}Constrained?access_token=test-key"
    async with (
        live(echo, seen) as upstream,
        client(upstream, target, protocols=["live.v1", "live.v2"]) as socket,
    ):
        assert socket.protocol == "live.v2"
    [request] = seen
    assert request.raw_path == target
    assert request.headers["x-goog-api-key"] == KEY["x-goog-api-key"]
    assert request.headers["Sec-WebSocket-Protocol"].replace(" ", "") == "live.v1,live.v2"


async def test_a_cookie_of_the_upstream_is_not_sent_with_the_next_client_s_websocket() -> None:
    seen: list[web.BaseRequest] = []
    async with (
        asyncio.timeout(10),
        live(echo, seen) as upstream,
        # By name, since from a bare address no client keeps cookies.
        gateway_before(upstream.replace("127.0.0.1", "localhost"), config=OPEN) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
    ):
        for caller in ("one", "another"):
            async with http.ws_connect(url + LIVE, headers={"x-goog-api-key": caller}):
                pass
    assert [request.headers.get("Cookie") for request in seen] == [None, None]


async def test_a_key_in_the_query_is_forwarded_as_a_header() -> None:
    seen: list[web.BaseRequest] = []
    async with live(echo, seen) as upstream, client(upstream, f"{LIVE}?key=test-key"):
        pass
    assert (seen[0].raw_path, seen[0].headers["x-goog-api-key"]) == (LIVE, "test-key")


@pytest.mark.parametrize("code", [1000, 1007, 1011, 4321])
async def test_the_upstreams_end_is_the_clients(code: int) -> None:
    async def end(socket: web.WebSocketResponse) -> None:
        await socket.close(code=code, message=b"over quota")

    async with live(end) as upstream, client(upstream) as socket:
        message = await socket.receive()
        assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, code, "over quota")


@pytest.mark.parametrize("code", [1000, 4321])
async def test_the_clients_end_is_the_upstreams(code: int) -> None:
    codes: asyncio.Queue[int | None] = asyncio.Queue()

    async def wait(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        codes.put_nowait(socket.close_code)

    async with live(wait) as upstream, client(upstream) as socket:
        await socket.close(code=code)
        assert await codes.get() == code


async def test_a_client_that_disconnects_closes_the_upstreams_side() -> None:
    codes: asyncio.Queue[int | None] = asyncio.Queue()

    async def wait(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        codes.put_nowait(socket.close_code)

    async with live(wait) as upstream, client(upstream) as socket:
        socket.get_extra_info("socket").shutdown(2)
        async with asyncio.timeout(1):
            assert await codes.get() == 1001


async def test_an_upstream_that_disconnects_closes_the_clients_side() -> None:
    async def vanish(socket: web.WebSocketResponse) -> None:
        socket.get_extra_info("socket").shutdown(2)

    async with live(vanish) as upstream, client(upstream) as socket:
        message = await socket.receive()
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1001)


async def test_a_message_beyond_the_limit_ends_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgate.proxy.calls.websockets.MAX_MESSAGE", 1000)
    codes: asyncio.Queue[int | None] = asyncio.Queue()

    async def wait(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        codes.put_nowait(socket.close_code)

    async with live(wait) as upstream, client(upstream) as socket:
        await socket.send_bytes(bytes(2000))
        assert (await socket.receive()).data == 1009
        assert await codes.get() in (1009, 1001)  # the client may be gone before the upstream is told


# ---- no session


async def test_live_is_refused_unless_it_is_listed() -> None:
    async with live(echo) as upstream, gateway_before(upstream) as url:
        answer = await ask(url, "GET", LIVE)
    assert answer.status == 403
    assert 'set routes.unhooked = ["live"] in hookgate.toml' in answer.error["message"]


async def test_a_request_that_is_not_a_websocket_is_refused() -> None:
    async with (
        live(echo) as upstream,
        gateway_before(upstream, config=OPEN) as url,
    ):
        assert (await ask(url, "GET", LIVE)).status == 400


@pytest.mark.parametrize("status", [302, 401, 500])
async def test_an_upstream_that_refuses_is_reported_and_a_redirect_is_not_followed(status: int) -> None:
    paths: list[str] = []

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    runner = web.ServerRunner(web.Server(refuse))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with gateway_before("http://{}:{}".format(*runner.addresses[0][:2]), config=OPEN) as url:
            answer = await ask(url, "GET", LIVE, {**KEY, **UPGRADE})
    finally:
        await runner.cleanup()
    expected = "UPSTREAM_UNREACHABLE" if status == 302 else "UPSTREAM_REFUSED"
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, expected)
    assert (f"({status})" in answer.error["message"]) is (status != 302)
    assert paths == [LIVE]


class Flood:
    """A side from which many messages have arrived, and that takes all that it is sent at once."""

    close_code = 1000

    def __init__(self, kind: WSMsgType) -> None:
        self._kind, self._left = kind, 5000

    async def receive(self) -> aiohttp.WSMessage:
        self._left -= 1
        return aiohttp.WSMessage(self._kind if self._left else WSMsgType.CLOSED, b"", "")  # type: ignore[no-any-return,call-overload]  # aiohttp types each kind

    async def take(self, _: bytes) -> None:
        pass

    ping = pong = take


@pytest.mark.parametrize("kind", [WSMsgType.PING, WSMsgType.PONG, WSMsgType.BINARY])
async def test_other_calls_run_while_many_messages_are_passed_on(kind: WSMsgType) -> None:
    iterations = 0

    async def run() -> None:
        nonlocal iterations
        while True:
            iterations += 1
            await asyncio.sleep(0)

    steps = CallSteps(BodyWorker(LimitSettings()), LongSteps(), LoopSlices(), ("", ""))
    flood: Any = Flood(kind)
    other = asyncio.create_task(run())
    await relay(steps, Side(flood), Side(flood), flood.take)
    other.cancel()
    assert iterations >= 3
