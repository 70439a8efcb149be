"""Descriptors are reserved: hooks run and operators get answers, whatever clients open."""

import asyncio
import json
import os
import re
import resource
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.gateway.life import until
from support.gateway.loopback import running_upstream
from support.programs.program import Server, run, serving
from support.wire import UNARY, ask, connected, post, prompt, request_bytes

from hookgate.hooks import load_settings
from hookgate.proxy.config import LimitSettings
from hookgate.proxy.server.descriptors import ADMIN, OWN, Budget, DescriptorError, descriptors_of_hooks

GUARD = "grep -q forbidden && { echo no >&2; exit 2; }; exit 0"
TOKEN = {"Authorization": "Bearer operators-of-this-gateway", "X-Hookgate-Panel": "1"}


@dataclass(frozen=True)
class Guarded:
    """A gateway with the guard of the README, started with few descriptors."""

    server: Server
    admin: str
    recorded: Any

    async def holds(self) -> None:
        """It denies and allows as ever, and operators are answered."""
        assert (await ask(self.admin, "GET", "/healthz")).status == 200
        assert (await ask(self.admin, "GET", "/readyz")).status == 200
        for _ in range(3):
            assert (await post(self.server.url, UNARY, prompt("forbidden"))).status == 403
        assert (await post(self.server.url, UNARY, prompt("hello"))).status == 200
        assert not [each for each in self.recorded if "forbidden" in json.dumps(each.body)]

    def open(self) -> int:
        """How many descriptors it has open."""
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))


@asynccontextmanager
async def guarded(
    folder: Path, descriptors: tuple[int, int], guard: str = GUARD, *, on_error: str = "", **env: str
) -> AsyncIterator[Guarded]:
    settings = folder / "settings.json"
    hook = {"type": "command", "command": guard, **({"on_error": on_error} if on_error else {})}
    settings.write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": [hook]}]}}))
    own = {
        "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0",
        "HOOKGATE_ADMIN__TOKEN": "operators-of-this-gateway",
        **env,
    }
    async with running_upstream() as (upstream_url, recorded):
        arguments = ("serve", "--listen", "127.0.0.1:0", "--upstream", upstream_url, "--hooks", str(settings))
        async with serving(*arguments, env=own, descriptors=descriptors) as server:
            found = re.search(r"admin listener on (http://127\.0\.0\.1:\d+)", server.log)
            assert found
            reading = asyncio.create_task(server.ended())  # or its log would fill the pipe
            try:
                yield Guarded(server, found[1], recorded)
            finally:
                reading.cancel()


async def connect(stack: ExitStack, url: str, number: int, sends: Sequence[bytes]) -> None:
    """Open connections that each send one of these and nothing more."""
    place, loop = urlsplit(url), asyncio.get_running_loop()
    for at in range(number):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        await loop.sock_connect(client, (place.hostname, place.port))
        if data := sends[at % len(sends)]:
            await loop.sock_sendall(client, data)


NOTHING, BEGUN = b"", b"P"
ANSWERED = request_bytes("GET", "/nowhere", b"", {})


@pytest.mark.parametrize(
    "sends", [[NOTHING], [NOTHING, BEGUN, ANSWERED]], ids=["silent", "silent, begun, answered"]
)
async def test_idle_connections_use_no_descriptors_of_hooks_operators_and_new_calls(
    tmp_path: Path, sends: list[bytes]
) -> None:
    async with guarded(tmp_path, (1024, 1024)) as gateway:
        await gateway.holds()
        before = gateway.open()
        with ExitStack() as stack:
            await connect(stack, gateway.server.url, 1100, sends)
            await gateway.holds()
        await until(lambda: gateway.open() <= before + 2, 10)  # two may be kept for later


LIVE = request_bytes("GET", "/api/live", b"", TOKEN)
UNFINISHED = request_bytes("POST", "/api/hooks/switch", b"{", {**TOKEN, "Content-Length": "100"})


@pytest.mark.parametrize(
    "sends", [[NOTHING], [BEGUN], [LIVE], [UNFINISHED]], ids=["silent", "head", "live", "body"]
)
async def test_nothing_keeps_operators_from_knowing_whether_it_is_well(
    tmp_path: Path, sends: list[bytes]
) -> None:
    async with guarded(tmp_path, (512, 512)) as gateway:
        with ExitStack() as stack:
            await connect(stack, gateway.admin, 200, sends)
            await gateway.holds()


async def test_it_denies_while_there_are_no_descriptors_at_all_and_recovers(tmp_path: Path) -> None:
    async with guarded(tmp_path, (1024, 1024), on_error="deny") as gateway:
        await gateway.holds()
        pid, url = gateway.server.pid, gateway.server.url
        async with connected(url) as client, connected(gateway.admin) as operator:
            await client.post(UNARY, prompt("hello"))
            assert (await client.answer()).status == 200
            await operator.write(request_bytes("GET", "/healthz", b"", {}))
            assert (await operator.answer()).status == 200
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (5, 1024))  # as if something else had taken all
            async with connected(url) as unheard:
                await unheard.post(UNARY, prompt("hello"))
                answer = asyncio.create_task(unheard.answer())
                for text in ("forbidden", "hello"):
                    await client.post(UNARY, prompt(text))
                    assert (await client.answer()).status == 403
                await operator.write(request_bytes("GET", "/healthz", b"", {}))
                assert (await operator.answer()).status == 200
                assert not answer.done()
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, 1024))
                assert (await answer).status == 200
        await gateway.holds()
    assert "Traceback" not in gateway.server.log


async def test_the_gateway_has_the_hard_limit_and_hooks_have_the_soft_one(tmp_path: Path) -> None:
    guard = f"cat > /dev/null; ulimit -Sn > {tmp_path}/soft; ulimit -Hn > {tmp_path}/hard"
    async with guarded(tmp_path, (256, 900), guard) as gateway:
        assert (await post(gateway.server.url, UNARY, prompt("hello"))).status == 200
        assert resource.prlimit(gateway.server.pid, resource.RLIMIT_NOFILE) == (900, 900)
    assert ((tmp_path / "soft").read_text(), (tmp_path / "hard").read_text()) == ("256\n", "900\n")


async def test_fewer_connections_than_configured_are_reported_at_the_start(tmp_path: Path) -> None:
    async with guarded(tmp_path, (1024, 1024)) as gateway:
        assert "limits.connections is 227 instead of 10000" in gateway.server.log
    async with guarded(tmp_path, (1024, 1024), HOOKGATE_LIMITS__CONNECTIONS="200") as gateway:
        assert "limits.connections" not in gateway.server.log
    async with guarded(tmp_path, (8192, 8192)) as gateway:  # more than a team needs
        assert "limits.connections" not in gateway.server.log


async def test_too_few_descriptors_for_any_gateway_are_an_error_with_a_remedy() -> None:
    ended = await run("serve", "--listen", "127.0.0.1:0", descriptors=(256, 256))
    assert ended.code == 1
    assert "256 open descriptors" in ended.complaint
    assert "ulimit -Hn" in ended.complaint


def test_descriptors_are_reserved_for_every_kind_of_hook(tmp_path: Path) -> None:
    def needed(*hooks: dict[str, Any]) -> int:
        file = tmp_path / "settings.json"
        file.write_text(
            json.dumps({"hooksConfig": {"concurrency": 10}, "hooks": {"BeforeModel": [{"hooks": hooks}]}})
        )
        return descriptors_of_hooks(load_settings([file]))

    command, kept = {"type": "command", "command": "true"}, {"persistent": True, "workers": 3}
    assert needed(command) == needed(command, {**command, "name": "b"}) == 10 * 4 + 8
    assert needed({**command, **kept}) == 10 * 4 + 8 + 3 * 4
    assert needed({"type": "http", "url": "http://127.0.0.1:1/"}) == 10 * 4 + 8 + 10


def test_clients_may_use_the_descriptors_that_are_not_reserved() -> None:
    assert Budget(100_000, 264).bounded(LimitSettings()) == LimitSettings()
    budget = Budget(1024, 264)
    assert budget.bounded(LimitSettings()).connections == (1024 - OWN - ADMIN - 264) * 2 // 5
    with pytest.raises(DescriptorError, match="496 are needed, 264 of them for hooks"):
        Budget(495, 264).bounded(LimitSettings())
    assert Budget(496, 264).bounded(LimitSettings()).connections == 16
