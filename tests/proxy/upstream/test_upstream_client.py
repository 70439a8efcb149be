"""The upstream's address, and calls without a complete answer."""

import asyncio
import contextlib
import errno
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.client_reqrep import ConnectionKey
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from support.gateway.life import until
from support.gateway.live import LIVE, live
from support.gateway.loopback import running_upstream, upstreams_at
from support.hooks.http import peer as talking
from support.wire import ok, peer, response

from hookgate.proxy.calls.answer_reading import read_whole
from hookgate.proxy.config import UpstreamSettings
from hookgate.proxy.config.values import parse_origin, parse_proxy
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import UpstreamAttempt
from hookgate.proxy.observe.trace_context import trace_of
from hookgate.proxy.routes.table import Route, match
from hookgate.proxy.upstream.client import (
    NoAnswerError,
    UpstreamError,
    Upstreams,
    describe_connection_error,
    expired_authorities,
)
from hookgate.proxy.upstream.connection import HostNotFoundError, ProxyError
from hookgate.proxy.upstream.websockets import as_os_error

ROUTE = match("POST", "/v1/models/m:generateContent?alt=js%6Fn&key=a%2Fb")


def _attempt() -> UpstreamAttempt:
    """An attempt of a call that no trace follows."""
    return UpstreamAttempt(None)


async def get(upstreams: Upstreams, route: Route = ROUTE) -> bytes:
    async with (
        upstreams,
        upstreams.exchange(_attempt(), "POST", route, {}, b"{}", decompress=True) as answer,
    ):
        return await read_whole(answer.chunks())


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
def test_an_invalid_base_url_is_refused_with_an_example(text: str) -> None:
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
def test_a_base_url_with_more_than_a_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="contains more than a scheme, host, port and path"):
        parse_origin(text)


@pytest.mark.parametrize("text", ["http://host:99999", "http://[::1", "http://host:port"])
def test_an_invalid_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_origin(text)


async def test_a_path_in_the_origin_precedes_the_route_s_and_the_query_is_unchanged() -> None:
    async with peer(ok(b"{}")) as other:
        await get(upstreams_at(f"{other.url}/base/"))
    assert other.heard[0].startswith(b"POST /base/v1/models/m:generateContent?alt=js%6Fn HTTP/1.1\r\n")
    assert b"\r\nx-goog-api-key: a/b\r\n" in other.heard[0]


@pytest.mark.parametrize(
    ("target", "api"),
    [
        ("/v1/models/m:generateContent", "gemini"),
        ("/v1/publishers/google/models/m:generateContent", "vertex"),
        ("/v1internal:generateContent", "code_assist"),
    ],
)
async def test_each_api_has_its_own_upstream(target: str, api: str) -> None:
    async with peer(ok(b"{}")) as other:
        nowhere = dict.fromkeys(["gemini", "vertex", "code_assist"], "http://127.0.0.1:1")
        assert (
            await get(Upstreams(UpstreamSettings(**{**nowhere, api: other.url})), match("POST", target))
            == b"{}"
        )
    assert target.encode() in other.heard[0]


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    async with peer(ok(b"{}")) as other:
        assert await get(upstreams_at(other.url)) == b"{}"


async def test_cookies_of_one_client_do_not_reach_another() -> None:
    cookie = response(200, b"{}", {"Set-Cookie": "session=1"})
    async with (
        peer(cookie) as other,
        # By name: a jar would not keep the cookies of an address.
        upstreams_at(other.url.replace("127.0.0.1", "localhost")) as upstream,
    ):
        for _ in range(2):
            async with upstream.exchange(
                UpstreamAttempt(None), "POST", ROUTE, {}, b"{}", decompress=True
            ) as answer:
                await read_whole(answer.chunks())
    assert len(other.heard) == 2
    assert b"session" not in other.heard[1]


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    """A call, and its key, goes to the configured origin alone."""
    async with peer(ok(b"{}")) as elsewhere:
        away = response(302, b"", {"Location": f"{elsewhere.url}/v1/models"})
        async with (
            peer(away) as other,
            upstreams_at(other.url) as upstream,
            upstream.exchange(_attempt(), "POST", ROUTE, {}, b"{}", decompress=True) as answer,
        ):
            assert answer.status == 302
    assert elsewhere.heard == []


@pytest.mark.parametrize("head", ["101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade", "600 Odd"])
async def test_a_status_that_ends_no_call_is_no_answer(head: str) -> None:
    async with peer(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode()) as other:
        with pytest.raises(ApiError, match="is not a final status") as raised:
            await get(upstreams_at(other.url))
    assert (raised.value.code, raised.value.reason) == (502, "UPSTREAM_UNREADABLE")


async def test_a_truncated_answer_is_distinguished_from_a_missing_one() -> None:
    async with peer(ok(b"{}" * 9)[:-3]) as other:
        with pytest.raises(UpstreamError) as broken:
            await get(upstreams_at(other.url))
    assert broken.value.as_api_error().code == 502
    assert broken.value.as_api_error().reason == "UPSTREAM_BROKE"


# ---- time


@asynccontextmanager
async def slow(*pauses_and_data: Any) -> AsyncIterator[str]:
    """A server that says bytes with pauses before them, in seconds, once it has the whole request."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"0\r\n\r\n" if b"chunked" in head else b"{}")
        for step in pauses_and_data:
            if isinstance(step, bytes):
                writer.write(step)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(), step)  # which ends when the other side leaves

    async with talking(talk) as url:
        yield url


async def test_an_upstream_that_does_not_answer_in_time_is_a_504() -> None:
    async with slow(60) as url:
        with pytest.raises(ApiError) as late:
            await get(upstreams_at(url, UpstreamSettings(header_timeout=0.05)))
    assert (late.value.code, late.value.reason) == (504, "UPSTREAM_TIMEOUT")


async def test_the_time_for_headers_does_not_count_while_the_request_is_sent() -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(0.1)
            yield b"x"

    async with (
        slow(ok(b"{}")) as url,
        upstreams_at(url, UpstreamSettings(header_timeout=0.2)) as upstreams,
        upstreams.exchange(_attempt(), "POST", ROUTE, {}, body(), decompress=True) as answer,
    ):
        assert await read_whole(answer.chunks()) == b"{}"


@pytest.mark.parametrize(("header_timeout", "idle_timeout"), [(0.1, 60), (60, 0.1)])
async def test_an_answer_that_has_begun_has_a_time_of_its_own(
    header_timeout: float, idle_timeout: float
) -> None:
    whole = ok(b"{}")
    async with slow(whole[:-1], 0.4, whole[-1:]) as url:
        upstreams = upstreams_at(
            url, UpstreamSettings(header_timeout=header_timeout, idle_timeout=idle_timeout)
        )
        if idle_timeout > 1:
            assert await get(upstreams) == b"{}"
        else:
            with pytest.raises(UpstreamError):
                await get(upstreams)


# ---- never twice


@pytest.mark.parametrize("data", [b"{}", None])
async def test_a_call_is_never_sent_twice_even_on_a_connection_that_went_stale(data: bytes | None) -> None:
    heard = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        while (await reader.readuntil(b"\r\n\r\n")).startswith(b"POST"):
            heard += 1
            if data:
                await reader.readexactly(len(data))
            if heard > 1:
                break  # closed without an answer, as a server that restarts does
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with talking(talk) as url, upstreams_at(url) as upstreams:
        async with upstreams.exchange(_attempt(), "POST", ROUTE, {}, data, decompress=True) as answer:
            assert await read_whole(answer.chunks()) == b"{}"
        with pytest.raises(ApiError) as broken:
            async with upstreams.exchange(_attempt(), "POST", ROUTE, {}, data, decompress=True):
                pass
    assert broken.value.code == 502
    assert heard == 2


# ---- a proxy, and certificates


async def test_a_proxy_is_used_and_its_password_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with peer(ok(b"{}")) as proxy:
        through = proxy.url.replace("://", "://user:canary@")
        upstreams = upstreams_at("http://upstream.invalid", UpstreamSettings(proxy=through))
        assert await get(upstreams) == b"{}"
    assert proxy.heard[0].startswith(b"POST http://upstream.invalid/v1/models/m:generateContent")
    assert b"\r\nProxy-Authorization: Basic dXNlcjpjYW5hcnk=\r\n" in proxy.heard[0]
    with pytest.raises(ApiError) as gone:
        await get(upstreams_at("http://upstream.invalid", UpstreamSettings(proxy=through)))
    assert "canary" not in gone.value.message + caplog.text


async def test_https_asks_the_proxy_for_a_tunnel() -> None:
    refusal = response(407, b"no", {})
    async with peer(refusal) as proxy:
        through = proxy.url.replace("://", "://user:canary@")
        with pytest.raises(ApiError) as refused:
            await get(upstreams_at("https://upstream.invalid", UpstreamSettings(proxy=through)))
    assert proxy.heard[0].startswith(b"CONNECT upstream.invalid:443 ")
    assert b"\r\nProxy-Authorization: Basic dXNlcjpjYW5hcnk=\r\n" in proxy.heard[0]
    assert (refused.value.code, "canary" in refused.value.message) == (502, False)


@pytest.mark.parametrize(
    "text", ["proxy:3128", "https://proxy", "socks5://u:canary@p", "http://u:canary@p/x"]
)
def test_an_invalid_proxy_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"upstream\.proxy") as refused:
        parse_proxy(text)
    assert "canary" not in str(refused.value)


def test_a_bundle_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(ValueError, match=r"upstream\.ca_bundle: .*empty\.pem contains no PEM certificates"):
        Upstreams(UpstreamSettings(ca_bundle=tmp_path / "empty.pem"))
    with pytest.raises(OSError, match=r"upstream\.ca_bundle: .*none\.pem: cannot be read: No such file"):
        Upstreams(UpstreamSettings(ca_bundle=tmp_path / "none.pem"))


# ---- words for what went wrong


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ECONNREFUSED, "to 10.0.0.1"), "connection refused"),
        (OSError("to 10.0.0.1"), "the connection was lost"),
        (HostNotFoundError("upstream.invalid"), "the host name upstream.invalid cannot be resolved"),
        (ssl.SSLCertVerificationError("x"), "its TLS certificate is not trusted"),
        (ssl.SSLError(1, "x"), "the TLS handshake failed"),
        (ProxyError("the proxy answered 407"), "the proxy answered 407"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection reset by peer"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "it took too long"),
    ],
    ids=repr,
)
def test_errors_are_described_in_words(error: OSError, expected: str) -> None:
    assert describe_connection_error(error) == expected


ADDRESS = ConnectionKey("upstream.invalid", 443, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            aiohttp.ClientConnectorError(ADDRESS, OSError(errno.ECONNREFUSED, "x")),
            "connection refused",
            id="refused",
        ),
        pytest.param(
            aiohttp.ClientConnectorDNSError(ADDRESS, OSError(-2, "x")),
            "the host name upstream.invalid cannot be resolved",
            id="name",
        ),
        pytest.param(
            aiohttp.ClientConnectorCertificateError(ADDRESS, ssl.CertificateError("x")),
            "its TLS certificate is not trusted",
            id="certificate",
        ),
        pytest.param(
            aiohttp.ClientConnectorSSLError(ADDRESS, OSError(1, "x")), "the TLS handshake failed", id="TLS"
        ),
        pytest.param(
            aiohttp.ClientProxyConnectionError(ADDRESS, OSError(errno.ECONNREFUSED, "x")),
            "the proxy cannot be reached",
            id="proxy",
        ),
        pytest.param(aiohttp.ServerDisconnectedError("x"), "the connection was lost", id="disconnected"),
        pytest.param(aiohttp.ConnectionTimeoutError("x"), "it took too long", id="time"),
    ],
)
def test_web_socket_errors_are_described_in_words(error: Exception, expected: str) -> None:
    assert describe_connection_error(as_os_error(error)) == expected


async def test_a_web_socket_is_part_of_its_call_s_trace_and_its_answer_is_noted() -> None:
    attempt, seen = UpstreamAttempt(trace_of({}, 1.0, content=False)), []

    async def stay(socket: web.WebSocketResponse) -> None:
        await socket.receive()

    route = match("GET", f"{LIVE}?key=k", live="judge")
    async with live(stay, seen) as url, upstreams_at(url) as upstreams:
        async with upstreams.connect(attempt, route, {}, ["live.v2"], 1000) as opened:
            socket, mask = opened
            assert (socket.protocol, mask) == ("live.v2", None)
        assert attempt.status == 101
    assert f"{attempt.span:016x}" in seen[0].headers["traceparent"]
    assert seen[0].headers["x-goog-api-key"] == "k"


async def test_few_connections_are_kept_for_later_after_many_were_in_use() -> None:
    async with AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(running_upstream()))[0] for _ in range(3)]
        settings = UpstreamSettings(gemini=urls[0], vertex=urls[1], code_assist=urls[2])
        upstreams = await stack.enter_async_context(Upstreams(settings, max_connections=16))
        routes = [replace(ROUTE, api=api) for api in ("gemini", "vertex", "code_assist")]
        before = descriptors()

        async def ask(route: Route, all_here: asyncio.Barrier) -> None:
            async with upstreams.exchange(
                UpstreamAttempt(None), "POST", route, {}, b"{}", decompress=True
            ) as answer:
                await all_here.wait()
                await read_whole(answer.chunks())

        for route in routes:
            all_here = asyncio.Barrier(16)
            await asyncio.gather(*(ask(route, all_here) for _ in range(16)))
        # Both ends of a connection are in this process: an eighth of 16 for each upstream.
        await until(lambda: descriptors() <= before + 3 * 2 * 2)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- checking without a call


@pytest.mark.parametrize("status", [404, 407])  # without a proxy, 407 is an answer like any other
async def test_an_upstream_that_answers_anything_can_be_reached_without_a_key(status: int) -> None:
    async with peer(response(status, b"", {})) as upstream, upstreams_at(upstream.url) as upstreams:
        await upstreams.check("gemini")
    assert upstream.heard[0].startswith(b"HEAD / HTTP/1.1\r\n")
    assert b"key" not in upstream.heard[0].lower()


async def test_a_proxy_that_refuses_is_distinguished_from_an_upstream() -> None:
    async with (
        peer(response(407, b"", {})) as proxy,
        upstreams_at("http://upstream.invalid", UpstreamSettings(proxy=proxy.url)) as upstreams,
    ):
        with pytest.raises(NoAnswerError) as caught:
            await upstreams.check("gemini")
    assert caught.value.why == "the proxy answered 407"


def test_certificate_authorities_that_have_expired_are_counted(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    now = datetime.now(UTC)
    bundle.write_bytes(_authority(now + timedelta(days=1)) + _authority(now - timedelta(days=1)))
    assert expired_authorities(bundle) == (1, 2)


def _authority(expires: datetime) -> bytes:
    """A certificate authority's certificate in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"until {expires}")])
    authority = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(expires - timedelta(days=10))
        .not_valid_after(expires)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return authority.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


async def test_an_upstream_in_a_path_is_checked_there() -> None:
    async with (
        peer(response(200, b"", {})) as upstream,
        upstreams_at(f"{upstream.url}/gemini") as upstreams,
    ):
        await upstreams.check("gemini")
    assert upstream.heard[0].startswith(b"HEAD /gemini HTTP/1.1\r\n")


async def test_a_check_leaves_its_connection_to_others() -> None:
    async with peer(response(404, b"", {})) as upstream:
        settings = UpstreamSettings(gemini=upstream.url, connect_timeout=2)
        async with Upstreams(settings, max_connections=1) as upstreams:
            await upstreams.check("gemini")
            await upstreams.check("gemini")
