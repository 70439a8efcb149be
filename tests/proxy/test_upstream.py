"""The upstream's address, and calls that get no answer or half of one."""

import asyncio

import aiohttp
import pytest
from support.wire import ok, peer, response

from hookgate.proxy import upstream as module
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes import match
from hookgate.proxy.upstream import Upstream, UpstreamError, parse_origin

ROUTE = match("POST", "/v1/models/m:generateContent?key=a%2Fb")


async def get(origin: str) -> bytes:
    async with (
        Upstream(origin) as upstream,
        upstream.open("POST", ROUTE, {}, b"{}", decompress=True) as answer,
    ):
        return await answer.read()


@pytest.mark.parametrize(
    "origin",
    [
        "https://generativelanguage.googleapis.com",
        "http://127.0.0.1:8788",
        "http://[::1]:80",
        "https://host/base/path",
    ],
)
def test_an_origin_is_taken_with_or_without_a_last_slash(origin: str) -> None:
    assert parse_origin(origin) == parse_origin(f"{origin}/") == origin


@pytest.mark.parametrize(
    "text", ["", "host", "host:80", "ftp://host", "//host", "http://", "http:///path", "file:///etc"]
)
def test_what_is_no_base_url_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a base URL; give one like https://"):
        parse_origin(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://u:p@host",
        "http://@host",
        "http://host?",
        "http://host/?a=b",
        "http://host#",
        "http://host/#f",
        "http://host ",
        "http://ho st",
        "http://host\n",
        "http://host\\@evil",
    ],
)
def test_what_would_lead_calls_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="holds more than scheme, host, port and path"):
        parse_origin(text)


@pytest.mark.parametrize("text", ["http://host:99999", "http://[::1", "http://host:port"])
def test_a_host_or_port_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Upstream(text)


async def test_a_path_in_the_origin_stands_before_the_routes_own_and_the_query_is_untouched() -> None:
    async with peer(ok(b"{}")) as other:
        await get(f"{other.url}/base/")
    assert other.heard[0].startswith(b"POST /base/v1/models/m:generateContent?key=a%2Fb HTTP/1.1\r\n")


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    async with peer(ok(b"{}")) as other:
        assert await get(other.url) == b"{}"


async def test_cookies_of_one_client_do_not_reach_another() -> None:
    cookie = response(200, b"{}", {"Set-Cookie": "session=1"})
    async with (
        peer(cookie) as other,
        Upstream(other.url) as upstream,
    ):
        for _ in range(2):
            async with upstream.open("POST", ROUTE, {}, b"{}", decompress=True) as answer:
                await answer.read()
    assert len(other.heard) == 2
    assert b"session" not in other.heard[1]


async def test_an_answer_that_breaks_off_is_told_apart_from_one_that_never_came() -> None:
    async with peer(ok(b"{}" * 9)[:-3]) as other:
        with pytest.raises(UpstreamError) as broken:
            await get(other.url)
    assert broken.value.as_api_error().code == 502
    assert broken.value.as_api_error().reason == "UPSTREAM_BROKE"


async def test_an_upstream_that_does_not_answer_in_time_is_a_504(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", aiohttp.ClientTimeout(sock_read=0.05))
    never = asyncio.Event()

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await never.wait()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ApiError) as late:
            await get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        never.set()
    assert (late.value.code, late.value.reason) == (504, "UPSTREAM_TIMEOUT")
