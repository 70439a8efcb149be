"""A server that stops finishes requests in flight, accepts no new ones, and shuts down in order."""

import asyncio
import contextlib
import json
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.gateway.audits import reading
from support.gateway.in_flight import in_flight
from support.gateway.life import gateway_with, until
from support.gateway.loopback import running_upstream, says, write_settings
from support.programs.program import serving
from support.wire import HI, KEY, UNARY, ask, connected, listens, post, request_bytes

from hookgate.proxy.config import LimitSettings

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])


async def until_refused(url: str) -> None:
    """Wait until nobody listens any more."""
    while True:
        try:
            async with connected(url):
                await asyncio.sleep(0.005)
        except ConnectionRefusedError:
            return


@SIGNALS
async def test_a_call_in_flight_is_finished_and_nothing_new_is_taken(number: int) -> None:
    async with in_flight(1) as call:
        call.server.signal(number)
        assert "waiting for calls in progress" in await call.server.next_line()
        await until_refused(call.server.url)
        await call.finish_all()
        assert await call.server.ended() == 0
    assert "Traceback" not in call.server.log


@SIGNALS
async def test_a_second_signal_drops_what_is_in_flight(number: int) -> None:
    async with in_flight(1) as call:
        call.server.signal(number)
        await call.server.next_line()
        call.server.signal(number)
        assert await call.server.ended() == 130
        assert await call.wires[0].ended()
    assert "Traceback" not in call.server.log


@pytest.mark.parametrize(
    ("env", "signals"),
    [
        pytest.param({}, 2, id="a second signal"),
        pytest.param({"HOOKGATE_LIMITS__DRAIN_TIMEOUT": "0.2"}, 1, id="the time is over"),
    ],
)
async def test_a_dropped_call_is_on_record_as_such(env: dict[str, str], signals: int, tmp_path: Path) -> None:
    async with in_flight(1, HOOKGATE_STATE=str(tmp_path), **env) as call:
        for _ in range(signals):
            call.server.signal(signal.SIGTERM)
            await call.server.next_line()
        await call.server.ended()
    with reading(tmp_path) as audit:
        [ended] = audit.calls()
    assert (ended.outcome, ended.body["client_gone"]) == ("interrupted", False)


@SIGNALS
@pytest.mark.parametrize("command", ["serve", "mock-upstream"])
async def test_an_idle_server_ends_at_once(number: int, command: str) -> None:
    async with (
        serving(command, "--listen", "127.0.0.1:0") as server,
        connected(server.url) as idle,
    ):
        server.signal(number)
        assert await server.ended() == 0
        assert await idle.ended()
    assert "Traceback" not in server.log


async def test_the_port_is_free_again_for_the_next_one() -> None:
    async with serving("serve", "--listen", "127.0.0.1:0") as first:
        async with connected(first.url):
            first.signal(signal.SIGTERM)
            assert await first.ended() == 0
        async with serving("serve", "--listen", first.url.removeprefix("http://")) as second:
            assert second.url == first.url


async def test_it_is_not_ready_while_it_finishes() -> None:
    async with in_flight(1, HOOKGATE_ADMIN__ADDRESS="127.0.0.1:0") as call:
        operators = re.search(r"admin listener on (\S+)", call.server.log)
        assert operators
        admin = operators[1]
        assert (await ask(admin, "GET", "/readyz")).json["status"] == "ready"
        call.server.signal(signal.SIGTERM)
        await call.server.next_line()
        ready = await ask(admin, "GET", "/readyz")
        assert (ready.status, ready.json["status"]) == (503, "draining")
        assert (await ask(admin, "GET", "/healthz")).status == 200
        call.finish.set()
        assert await call.server.ended() == 0


async def test_what_does_not_finish_in_time_is_dropped() -> None:
    async with in_flight(1, HOOKGATE_LIMITS__DRAIN_TIMEOUT="0.2") as call:
        call.server.signal(signal.SIGTERM)
        assert await call.server.ended() == 0
        assert "1 connections are still open after 0.2 seconds" in call.server.log
        assert await call.wires[0].ended()
    assert "Traceback" not in call.server.log


# ---- in this process: what is under way when the server stops


@dataclass(frozen=True)
class Stopping:
    """A gateway that can be told to stop, and the end of it."""

    url: str
    stop: asyncio.Event
    stopped: asyncio.Task[None]


@asynccontextmanager
async def stoppable(**limits: float) -> AsyncIterator[Stopping]:
    stop, started = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def run() -> None:
        async with (
            running_upstream() as (upstream_url, _),
            gateway_with(upstream_url, {"BeforeModel": [says()]}, limits=LimitSettings(**limits)) as url,
        ):
            started.set_result(url)
            await stop.wait()

    task = asyncio.create_task(run())
    yield Stopping(await started, stop, task)
    stop.set()
    await task


async def test_a_request_that_is_still_being_sent_is_served() -> None:
    body = json.dumps(HI).encode()
    whole = request_bytes("POST", UNARY, body, KEY)
    for at in (10, len(whole) - 5):  # in the head, in the body
        async with stoppable() as gateway, connected(gateway.url) as wire:
            await wire.write(whole[:at])
            await until(wire.taken)
            gateway.stop.set()
            await until(lambda: not listens(gateway.url))
            await wire.write(whole[at:])
            answer = await wire.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await wire.ended()
            await gateway.stopped


@pytest.mark.parametrize("sent", [10, -5], ids=["head", "body"])
async def test_a_request_that_is_not_sent_to_its_end_does_not_hold_it_up(sent: int) -> None:
    whole = request_bytes("POST", UNARY, json.dumps(HI).encode(), KEY)
    limits = {"header_timeout": 0.2, "body_timeout": 0.2, "drain_timeout": 60}
    async with stoppable(**limits) as gateway, connected(gateway.url) as wire:
        await wire.write(whole[:sent])
        await until(wire.taken)
        gateway.stop.set()
        assert (await wire.answer()).status == 400
        await gateway.stopped


async def test_a_body_that_drips_does_not_hold_it_up_for_longer_than_a_silent_one() -> None:
    limits = {"body_timeout": 0.3, "drain_timeout": 60}
    async with stoppable(**limits) as gateway, connected(gateway.url) as wire:
        await wire.write(request_bytes("POST", UNARY, b"", {**KEY, "Content-Length": "1000000"}))
        answer = asyncio.create_task(wire.answer())
        await until(wire.taken)
        gateway.stop.set()
        while not answer.done():
            with contextlib.suppress(ConnectionError):
                await wire.write(b" ")
            await asyncio.sleep(0.02)
        assert (await answer).status == 400
        await gateway.stopped


async def test_a_connection_between_two_requests_is_closed() -> None:
    async with stoppable() as gateway, connected(gateway.url) as wire:
        await wire.post(UNARY, HI)
        assert (await wire.answer()).status == 200
        gateway.stop.set()
        assert await wire.ended()
        await gateway.stopped


# ---- with limits.drain_delay


async def test_it_accepts_connections_for_some_time_and_answers_once_on_each() -> None:
    async with stoppable(drain_delay=0.5) as gateway, connected(gateway.url) as idle:
        await idle.post(UNARY, HI)
        assert "connection" not in (await idle.answer()).headers
        gateway.stop.set()
        await asyncio.sleep(0)
        async with connected(gateway.url) as new:
            for wire in (idle, new):
                await wire.post(UNARY, HI)
                answer = await wire.answer()
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert await wire.ended()
        await until(lambda: not listens(gateway.url))
        await gateway.stopped


async def test_a_connection_that_waits_to_be_accepted_when_the_listener_closes_is_served() -> None:
    for delay in (0, 0.2):
        async with stoppable(drain_delay=delay) as gateway:
            address = gateway.url.removeprefix("http://").split(":")
            # Connected by the kernel, without the event loop: nobody has accepted it when the gateway stops.
            waiting = [socket.create_connection((address[0], int(address[1]))) for _ in range(20)]
            for each in waiting:
                each.sendall(request_bytes("POST", UNARY, json.dumps(HI).encode(), KEY))
            gateway.stop.set()
            for each in waiting:
                reader, writer = await asyncio.open_connection(sock=each)
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                writer.close()
            await gateway.stopped


async def test_an_answer_that_has_promised_another_one_keeps_its_connection_for_the_delay() -> None:
    async with in_flight(1, HOOKGATE_LIMITS__DRAIN_DELAY="0.3") as call:
        call.server.signal(signal.SIGTERM)
        await until_refused(call.server.url)
        await call.finish_all()  # its headers have not announced that the connection closes
        [wire] = call.wires
        await wire.post(UNARY, HI)
        answer = await wire.answer()
        assert answer.headers["connection"] == "close"
        assert await call.server.ended() == 0


async def test_an_idle_connection_is_closed_when_the_delay_is_over() -> None:
    async with stoppable(drain_delay=0.2) as gateway, connected(gateway.url) as wire:
        await wire.post(UNARY, HI)
        await wire.answer()
        gateway.stop.set()
        assert await wire.ended()
        await gateway.stopped


# ---- SIGHUP


async def test_sighup_reads_the_hooks_settings_again_and_says_what_came_of_it(tmp_path: Path) -> None:
    file = write_settings(tmp_path, {})
    async with serving("serve", "--listen", "127.0.0.1:0", "--hooks", str(file)) as server:
        server.signal(signal.SIGHUP)
        assert "unchanged" in await server.next_line()
        file.write_text("{")
        server.signal(signal.SIGHUP)
        assert "cannot be used" in await server.next_line()
        assert (await post(server.url, "/nowhere", HI)).status == 403
    assert "Traceback" not in server.log
