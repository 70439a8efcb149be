"""Fail-over between two of the gateways' own keys, at three gateways with one database, behind nginx."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from support.clients.python_sdk import pieces, python_client, sdk_warnings
from support.gateway.keys import key_header
from support.hooks.http import service
from support.wire import HI, SSE, ask, post
from team import SETTINGS as DEPLOYED
from team import Team

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), sdk_warnings]

SECOND = "AIza-second"
EVENT = b'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok "}]}}]}\r\n\r\n'
LAST = EVENT.replace(b"]}}]", b']}, "finishReason": "STOP"}]')
CALLS, SDK_CALLS = 60, 15


@dataclass
class Upstream:
    """An API where the first key has no quota, or whose answers to it break off after their first event."""

    breaks_off: bool = False
    keys: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The keys with which each request was sent, in order, by its ID."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        key = request.headers["x-goog-api-key"]
        self.keys[request.headers["x-request-id"]].append(key)
        await request.read()
        if key != SECOND and not self.breaks_off:
            # With this header the key is tried first by the next call as well.
            return web.Response(status=429, headers={"Retry-After": "0"})
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        await answer.write(EVENT)
        if key == SECOND:
            await answer.write(LAST)
        else:
            assert request.transport is not None
            request.transport.close()
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[tuple[str, Upstream]]:
    api = Upstream()
    async with service(api.handle) as url:  # type: ignore[arg-type]  # a plain server's requests
        yield url, api


@pytest.fixture(scope="module")
def settings(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Those of a team with one more credential; the first one is that of `upstream.gemini_key_file`."""
    file = tmp_path_factory.mktemp("config") / "hookgate.toml"
    second = f'[credentials.second]\napi = "gemini"\nkey = "{SECOND}"\n'
    file.write_text(f"{(DEPLOYED / 'hookgate.toml').read_text()}\n{second}")
    return {**settings, "HOOKGATE_CONFIG": str(file)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def key(team: Team) -> str:
    return await team.gateways[0].command("keys", "create", "caller")


@pytest.fixture(autouse=True)
def _nothing_has_arrived(upstream: tuple[str, Upstream]) -> None:
    api = upstream[1]
    api.breaks_off = False
    api.keys.clear()


def both(team: Team) -> list[str]:
    """The keys in the order in which they are tried."""
    return [(team.secrets / "gemini-key").read_text().strip(), SECOND]


async def attempts(url: str, receipt: str, key: str) -> list[tuple[str, int]]:
    """The credentials and the statuses of a call's attempts, as a gateway shows them to its caller."""
    found = await ask(url, "GET", f"/hookgate/v1/receipts/{receipt}", key_header(key))
    assert found.status == 200, found.body
    return [(each["credential"], each["status"]) for each in found.json["attempts"]]


BOTH_ATTEMPTS = [("upstream.gemini_key", 429), ("second", 200)]


async def test_no_client_of_three_gateways_sees_that_one_of_two_keys_has_no_quota(
    team: Team, key: str, upstream: tuple[str, Upstream]
) -> None:
    """Each call is sent with both keys, and every gateway knows it, whichever has answered."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=key_header(key)) as client:

        async def call() -> str:
            async with client.post(team.url + SSE, json=HI) as answer:
                assert (answer.status, await answer.read()) == (200, EVENT + LAST)
                return answer.headers["x-hookgate-receipt"]

        async def sdk_call() -> None:
            async with python_client(team.url, key) as sdk:
                assert "".join(await pieces(sdk, "async stream", "hi")) == "ok ok "

        async with asyncio.TaskGroup() as tasks:
            called = [tasks.create_task(call()) for _ in range(CALLS)]
            for _ in range(SDK_CALLS):
                tasks.create_task(sdk_call())
    assert [*upstream[1].keys.values()] == [both(team)] * (CALLS + SDK_CALLS)
    for task in called:
        for gateway in team.gateways:
            assert await attempts(f"http://{gateway.address}", task.result(), key) == BOTH_ATTEMPTS


async def test_the_receipt_at_another_gateway_names_both_attempts(team: Team, key: str) -> None:
    urls = [f"http://{gateway.address}" for gateway in team.gateways]
    for at, url in enumerate(urls):
        answer = await post(url, SSE, HI, key_header(key))
        assert (answer.status, answer.complete) == (200, True)
        for other in urls[:at] + urls[at + 1 :]:
            assert await attempts(other, answer.headers["x-hookgate-receipt"], key) == BOTH_ATTEMPTS


async def test_no_gateway_tries_the_other_key_after_the_first_byte(
    team: Team, key: str, upstream: tuple[str, Upstream]
) -> None:
    upstream[1].breaks_off = True
    urls = [f"http://{gateway.address}" for gateway in team.gateways]
    for at, url in enumerate(urls):
        upstream[1].keys.clear()
        answer = await post(url, SSE, HI, key_header(key))
        assert (answer.status, answer.complete) == (200, False)
        assert answer.body.startswith(EVENT)
        assert [*upstream[1].keys.values()] == [both(team)[:1]]
        for other in urls[:at] + urls[at + 1 :]:
            tried = await attempts(other, answer.headers["x-hookgate-receipt"], key)
            assert tried == [("upstream.gemini_key", 200)]
