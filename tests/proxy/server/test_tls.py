"""The gateway's own TLS: real clients, a certificate that changes, and an unusable one."""

import asyncio
import logging
import ssl
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import trustme
from cryptography.hazmat.primitives import serialization as how
from google import genai
from google.genai import types
from support.gateway.life import gateway_with, nothing_left, until
from support.gateway.live import END, JUDGES, LIVE, SETUP, ScriptedModel, live
from support.gateway.loopback import running_upstream, says
from support.programs.processes import is_watched
from support.wire import KEY, connected

from hookgate.proxy.config import LimitSettings
from hookgate.proxy.server.tls import Certificate

HOOKS = {"BeforeModel": [says()], "AfterModel": [says()]}


def issue(folder: Path, expires: datetime | None = None) -> ssl.SSLContext:
    """Write a new certificate and its key; gives the context of a client that trusts it, and no other."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1", not_after=expires)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def certificate(folder: Path) -> Certificate:
    return Certificate(folder / "cert.pem", folder / "key.pem")


async def shakes_hands(url: str, context: ssl.SSLContext) -> bool:
    """Whether a client that trusts `context` can connect."""
    place = urlsplit(url)
    try:
        _, writer = await asyncio.open_connection(place.hostname, place.port, ssl=context)
    except ssl.SSLError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_the_python_sdk_speaks_https_with_it(tmp_path: Path, streamed: bool) -> None:
    context = issue(tmp_path)

    def ask(url: str) -> str:
        options = types.HttpOptions(base_url=url, client_args={"verify": context})
        client = genai.Client(api_key="any", http_options=options)
        try:
            asking: Any = {"model": "gemini-2.5-flash", "contents": "hi"}
            if streamed:
                return "".join(each.text or "" for each in client.models.generate_content_stream(**asking))
            return client.models.generate_content(**asking).text or ""
        finally:
            client.close()

    async with (
        running_upstream({"rules": [{"answer": {"text": "hello over tls"}}]}) as (upstream_url, _),
        gateway_with(upstream_url, HOOKS, certificate=certificate(tmp_path)) as url,
    ):
        assert url.startswith("https://")
        assert await asyncio.to_thread(ask, url) == "hello over tls"


async def test_a_live_session_over_tls_ends_without_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = issue(tmp_path)
    async with (
        asyncio.timeout(20),
        live(ScriptedModel({"realtimeInput": [END]})) as upstream,
        gateway_with(upstream, config=JUDGES, certificate=certificate(tmp_path)) as url,
        aiohttp.ClientSession(headers=KEY) as http,
    ):
        for _ in range(2):
            async with http.ws_connect(url + LIVE, ssl=context) as socket:
                await socket.send_json(SETUP)
                await socket.receive()
                await socket.send_json({"realtimeInput": {"text": "hi"}})
                await socket.receive()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_client_that_uses_https_without_need_is_logged_with_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with gateway_with("http://localhost:1") as url:
        assert not await shakes_hands(url, ssl.create_default_context())
    remedy = "if the client uses https://, use http:// or set listen.certificate"
    assert f"a connection from 127.0.0.1 is not HTTP; {remedy}" in caplog.text


async def test_new_connections_get_the_new_certificate(tmp_path: Path) -> None:
    before = issue(tmp_path)
    own = certificate(tmp_path)
    async with gateway_with("http://localhost:1", certificate=own) as url:
        assert await shakes_hands(url, before)
        after = issue(tmp_path)
        assert own.reload()
        assert await shakes_hands(url, after)
        assert not await shakes_hands(url, before)


async def test_it_detects_changes_of_the_files_automatically(tmp_path: Path) -> None:
    issue(tmp_path)
    own = certificate(tmp_path)
    first = own.context
    watching = asyncio.create_task(own.watch())
    await until(lambda: is_watched(tmp_path))  # else it could find the change at its start
    after = issue(tmp_path)
    await until(lambda: own.context is not first)
    async with gateway_with("http://localhost:1", certificate=own) as url:
        assert await shakes_hands(url, after)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize("broken", ["key", "text", "gone"])
async def test_a_certificate_that_cannot_be_used_leaves_the_last_good_one(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = issue(tmp_path)
    own = certificate(tmp_path)
    key = (tmp_path / "key.pem").read_bytes()
    async with gateway_with("http://localhost:1", certificate=own) as url:
        issue(tmp_path)
        match broken:
            case "key":
                (tmp_path / "key.pem").write_bytes(key)  # of the other certificate
            case "text":
                (tmp_path / "cert.pem").write_text("not a certificate")
            case _:
                (tmp_path / "cert.pem").unlink()
        assert not own.reload()
        assert await shakes_hands(url, context)
    assert (
        "the certificate cannot be loaded, so the last good one stays in use: listen.certificate"
        in caplog.text
    )


@pytest.mark.parametrize("content", [None, "", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_an_unusable_certificate_is_refused_by_its_setting_s_name(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "cert.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=r"listen\.certificate"):
        Certificate(file)


def test_an_encrypted_key_is_refused_without_asking(tmp_path: Path) -> None:
    issue(tmp_path)
    key = how.load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
    form = how.Encoding.PEM, how.PrivateFormat.PKCS8, how.BestAvailableEncryption(b"secret")
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*form))
    with pytest.raises(ValueError, match="encrypted"):
        certificate(tmp_path)


async def test_a_client_that_does_not_shake_hands_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    issue(tmp_path)
    limits = LimitSettings(header_timeout=0.2, connections=1)
    async with (
        nothing_left(),
        gateway_with("http://localhost:1", certificate=certificate(tmp_path), limits=limits) as url,
    ):
        place = urlsplit(url)
        for sent in (b"", b"GET / HTTP/1.1\r\n\r\n"):  # one after the other: there is room for one only
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(sent)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
    assert "failed before its first request" in caplog.text


async def test_tls_below_1_2_is_refused(tmp_path: Path) -> None:
    issue(tmp_path)
    assert certificate(tmp_path).context.minimum_version == ssl.TLSVersion.TLSv1_2


async def test_handshakes_that_do_not_come_keep_no_call_out(tmp_path: Path) -> None:
    context = issue(tmp_path)
    limits = LimitSettings(connections=2, header_timeout=60)
    async with (
        nothing_left(),
        running_upstream() as (upstream_url, _),
        gateway_with(upstream_url, certificate=certificate(tmp_path), limits=limits) as url,
        AsyncExitStack() as stack,
    ):
        silent = [await stack.enter_async_context(connected(url)) for _ in range(6)]
        assert await asyncio.wait_for(shakes_hands(url, context), 5)
        assert [await each.rest() for each in silent[:5]] == [b""] * 5


async def test_shaken_hands_alone_keep_no_call_out_either(tmp_path: Path) -> None:
    context = issue(tmp_path)
    async with (
        nothing_left(),
        running_upstream() as (upstream_url, _),
        gateway_with(
            upstream_url, certificate=certificate(tmp_path), limits=LimitSettings(connections=2)
        ) as url,
    ):
        place, silent = urlsplit(url), []
        for _ in range(6):
            connecting = asyncio.open_connection(place.hostname, place.port, ssl=context)
            silent.append(await asyncio.wait_for(connecting, 5))
        with suppress(OSError):  # the gateway is not polite when there is no place
            assert await asyncio.wait_for(silent[0][0].read(), 5) == b""
        for _, writer in silent:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def test_a_certificate_tells_when_it_expires(tmp_path: Path) -> None:
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    issue(tmp_path, later)
    assert certificate(tmp_path).expires() == later.timestamp()


def test_a_certificate_that_has_expired_is_a_problem(tmp_path: Path) -> None:
    issue(tmp_path, datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match=r"cert\.pem: certificate has expired; renew it"):
        certificate(tmp_path).expires()
