"""Access tokens of Google Cloud: refreshed before their expiry, one at a time, and never shown."""

import asyncio
import json
import logging
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from google.auth.compute_engine import _metadata
from support.gateway.audits import reading
from support.gateway.counted import Counted
from support.gateway.keys import issue, issuing_gateway, key_header
from support.gateway.loopback import listens
from support.operating.collector import collecting
from support.upstream.google_cloud import PROJECT_ID, TOKEN, WORKLOAD, GoogleCloud, google_cloud, vertex
from support.wire import HI, SSE, UNARY, ask, post

from hookgate.proxy.config import CredentialSettings, TracingSettings, UpstreamSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.tracing import open_tracing
from hookgate.proxy.upstream import google_tokens
from hookgate.proxy.upstream.credentials import CredentialsError, GatewayCredentials
from hookgate.proxy.upstream.google_tokens import GoogleToken

BACKUP = {"api": "gemini", "key": "AIza-canary-backup"}


@pytest.fixture(autouse=True)
def no_secret_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert "canary" not in caplog.text
    assert "PRIVATE KEY" not in caplog.text


def token_of(cloud: GoogleCloud, folder: Path, **upstream: Any) -> GoogleToken:
    return GoogleToken("cloud", cloud.key_file(folder), UpstreamSettings(**upstream))


async def test_a_token_is_refreshed_ahead_of_its_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(google_tokens, "_MARGIN_SECONDS", 0)
    monkeypatch.setattr(google_tokens, "_RETRY_SECONDS", 0.01)
    async with google_cloud() as cloud:
        cloud.lifetime = 3
        token = token_of(cloud, tmp_path)
        async with token.kept_fresh():
            assert await token.get() == f"{TOKEN}-1"
            await cloud.until_asked(2)  # although no call needs one
            first, second = cloud.granted
            assert second < first + cloud.lifetime
            async with asyncio.timeout(10):
                while await token.get() == f"{TOKEN}-1":  # noqa: ASYNC110  # the answer is on its way
                    await asyncio.sleep(0.01)
    assert token.results == {"refreshed": 2}


async def test_calls_at_the_same_time_wait_for_one_refresh(tmp_path: Path) -> None:
    async with google_cloud() as cloud:
        cloud.open.clear()
        token = token_of(cloud, tmp_path)
        async with token.kept_fresh():
            calls = [asyncio.create_task(token.get()) for _ in range(20)]
            await asyncio.sleep(0)
            cloud.open.set()
            assert set(await asyncio.gather(*calls)) == {f"{TOKEN}-1"}
            assert not token._wanted.is_set()  # no further refresh follows
        assert cloud.asked == 1


async def test_a_token_stays_in_use_when_it_cannot_be_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = _Clock(monkeypatch)
    async with google_cloud() as cloud:
        token = token_of(cloud, tmp_path)
        async with token.kept_fresh():
            first = await token.get()
            cloud.refuses = True
            token._wanted.set()  # as if it were time
            await cloud.until_asked(2)
            async with asyncio.timeout(10):
                while not token.results["failed"]:  # noqa: ASYNC110  # the answer is on its way
                    await asyncio.sleep(0.01)
            assert await token.get() == first
            clock.skip(3600)
            with pytest.raises(ApiError, match="credential cloud has no access token"):
                await token.get()
    assert (
        "credential cloud: no access token: the token service refused: invalid_grant; the previous one is "
        "used until it expires"
    ) in caplog.text


class _Clock:
    """The clock by which tokens expire."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead, real = 0.0, google_tokens._now
        monkeypatch.setattr(google_tokens, "_now", lambda: real() + self._ahead)
        monkeypatch.setattr(google_tokens, "_RETRY_SECONDS", 0.01)

    def skip(self, seconds: float) -> None:
        self._ahead += seconds


async def test_a_call_after_a_long_sleep_of_the_machine_waits_for_a_new_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock(monkeypatch)
    async with google_cloud() as cloud:
        token = token_of(cloud, tmp_path)
        async with token.kept_fresh():
            assert await token.get() == f"{TOKEN}-1"
            clock.skip(3595)  # it is valid for five seconds, which are too few
            cloud.lifetime *= 3  # by the clock of the library, which did not skip anything
            assert await token.get() == f"{TOKEN}-2"


async def test_a_call_without_a_token_is_a_503_or_goes_to_the_next_credential(tmp_path: Path) -> None:
    async with google_cloud() as cloud:
        cloud.refuses = True
        for more, status in (({}, 503), ({"backup": BACKUP}, 200)):
            credentials = {"cloud": vertex(cloud, tmp_path), **more}
            state = tmp_path / str(status)
            gateway_for = issuing_gateway(state, upstream_url=cloud.url, upstream={}, credentials=credentials)
            async with gateway_for as gateway:
                key = key_header(issue(state))
                answer = await post(gateway.url, UNARY, HI, key)
                receipt = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
                told = (await ask(gateway.url, "GET", receipt, key)).json
                refreshes = Counted(gateway.metrics.page()).total(
                    "hookgate_token_refreshes_total", credential="cloud", result="failed"
                )
            assert refreshes >= 1
            assert answer.status == status
            assert [each["credential"] for each in told["attempts"]] == ["cloud", *more]
            if not more:
                assert answer.error["details"][0]["reason"] == "TOKEN_UNAVAILABLE"
                assert "credential cloud has no access token" in answer.error["message"]
                assert told["outcome"] == "failed"
        assert cloud.secrets == ["AIza-canary-backup"]


async def test_a_token_service_that_hangs_delays_a_call_only_until_its_deadline(tmp_path: Path) -> None:
    async with google_cloud() as cloud:
        cloud.open.clear()
        token = token_of(cloud, tmp_path, connect_timeout=0.2)
        async with token.kept_fresh():
            with pytest.raises(ApiError) as error:
                await token.get()
        cloud.open.set()
    assert error.value.code == 503


# ---- where a token must not be


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
async def test_a_token_is_in_no_record_hook_trace_metric_or_answer(target: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    hooks = {event: [listens(seen)] for event in ("BeforeModel", "AfterModel")}

    async with google_cloud() as cloud, collecting() as collector:

        def quotes(call: Any) -> web.Response:
            text = json.dumps({"candidates": [{"content": {"parts": [{"text": f"you are {call.secret}!"}]}}]})
            body = f"data: {text}\r\n\r\n" if "stream" in call.path else text
            kind = "text/event-stream" if "stream" in call.path else "application/json"
            return web.Response(text=body, content_type=kind, headers={"X-Gemini-Service-Tier": call.secret})

        cloud.answer = quotes
        gateway_for = issuing_gateway(
            tmp_path,
            hooks,
            upstream_url=cloud.url,
            upstream={},
            credentials={"cloud": vertex(cloud, tmp_path)},
        )
        settings = TracingSettings(endpoint=collector.url, content=True)
        async with gateway_for as gateway:
            async with open_tracing(settings, Metrics(), {}) as traces:
                gateway.gateway._traces = traces
                key = key_header(issue(tmp_path))
                answer = await post(gateway.url, target, HI, key)
            receipt = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
            told = await ask(gateway.url, "GET", receipt, key)
            page = gateway.metrics.page()
    assert cloud.secrets == [f"{TOKEN}-1"]
    assert b"you are ******" in answer.body
    assert answer.headers["x-gemini-service-tier"] == "*" * len(f"{TOKEN}-1")
    (span,) = collector.named("upstream")
    assert span.attributes["hookgate.credential"] == "cloud"
    assert len(seen) >= 2
    with reading(tmp_path) as audit:
        records = repr([(call.body, call.start) for call in audit.calls(10)])
    assert "'credential': 'cloud'" in records
    for where in (answer.body, collector.received, told.body, page, repr(seen).encode(), records.encode()):
        assert b"canary" not in where
        assert b"ya29" not in where


# ---- files, default credentials, networks


def problems_of(**tables: Any) -> list[str]:
    settings = {name: CredentialSettings.model_validate(each) for name, each in tables.items()}
    with pytest.raises(CredentialsError) as error:
        GatewayCredentials(UpstreamSettings(), settings)
    return [message for _, message in error.value.problems]


def test_files_that_are_not_keys_are_reported_together_and_without_their_texts(tmp_path: Path) -> None:
    cloud = GoogleCloud("http://127.0.0.1:1")
    texts = {
        "text": "canary",
        "list": '["canary"]',
        "user": '{"type": "authorized_user", "refresh_token": "canary"}',
        "other": '{"type": "canary"}',
        "part": '{"type": "service_account", "private_key": "canary"}',
        "key": cloud.key_file(tmp_path, private_key="-----BEGIN PRIVATE KEY-----\ncanary").read_text(),
    }
    tables: dict[str, Any] = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for name in (*texts, "missing"):
        file = tmp_path / name
        tables[name] = {"api": "vertex", "service_account_file": file, "project": PROJECT_ID}
    tables["short"] = {"api": "gemini", "key_file": tmp_path / "text"}
    found = problems_of(**tables)
    assert [message.split(f"{tmp_path}/")[1] for message in found] == [
        "text: is not JSON; download the service account's key again",
        "list: is not the key of a service account; name its JSON file",
        "user: is of the type authorized_user, not service_account; name it in the variable "
        "GOOGLE_APPLICATION_CREDENTIALS, and set default to true instead",
        "other: is not the key of a service account; name its JSON file",
        "part: is incomplete, or its private key cannot be read; download the key again",
        "key: is incomplete, or its private key cannot be read; download the key again",
        "missing: cannot be read: No such file or directory; check the path",
        "text: must be an API key: 8 to 512 letters, digits and symbols, without spaces",
    ]
    places = [f"credentials.{name}.service_account_file: " for name in tables]
    places[-1] = "credentials.short.key_file: "
    assert all(message.startswith(place) for place, message in zip(places, found, strict=True))
    assert "canary" not in "".join(found)


def test_a_missing_library_is_a_problem_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "hookgate.proxy.upstream.google_tokens")
    monkeypatch.setitem(sys.modules, "google.auth", None)
    (problem,) = problems_of(cloud={"api": "vertex", "default": True, "project": PROJECT_ID})
    assert problem.startswith(
        "credentials.cloud: needs google-auth, which is not installed; install the extra"
    )


def test_a_gateway_that_needs_no_tokens_does_not_import_google_auth() -> None:
    program = (
        "import sys; import hookgate.proxy.app; from hookgate.proxy.upstream.client import Upstreams; "
        "from hookgate.proxy.config import UpstreamSettings; "
        "Upstreams(UpstreamSettings(gemini_key='AIza-canary-of-it')); "
        "sys.exit('google.auth' in sys.modules or 'requests' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_default_credentials_are_those_that_the_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with google_cloud() as cloud:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(cloud.key_file(tmp_path)))
        token = GoogleToken("cloud", None, UpstreamSettings())
        async with token.kept_fresh():
            assert await token.get() == f"{TOKEN}-1"


async def test_default_credentials_may_be_those_of_a_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    (tmp_path / "proof").write_text(WORKLOAD)
    async with google_cloud() as cloud:
        pool = "//iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/pool/providers/ours"
        federation = {
            "type": "external_account",
            "audience": pool,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{cloud.url}/token",
            "credential_source": {"file": str(tmp_path / "proof")},
        }
        (tmp_path / "federation.json").write_text(json.dumps(federation))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "federation.json"))
        token = GoogleToken("cloud", None, UpstreamSettings())
        async with token.kept_fresh():
            assert await token.get() == f"{TOKEN}-1"
        assert cloud.asked == 1


async def test_default_credentials_are_those_of_the_metadata_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))  # where nothing is
    async with google_cloud() as cloud:
        place = cloud.url.removeprefix("http://")
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", place)
        monkeypatch.setenv("GCE_METADATA_IP", place)
        # A proxy for the upstreams is not asked for what is on this machine's own network.
        token = GoogleToken("cloud", None, UpstreamSettings(proxy="http://127.0.0.1:1"))
        async with token.kept_fresh():
            assert await token.get() == f"{TOKEN}-1"


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_token_service_is_trusted_as_the_upstreams_are(trusted: bool, tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    cloud = GoogleCloud()
    cloud.open.set()
    runner = web.ServerRunner(web.Server(cloud.handle))  # type: ignore[arg-type]  # any response will do
    await runner.setup()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        cloud.url = f"https://localhost:{runner.addresses[0][1]}"
        token = token_of(cloud, tmp_path, ca_bundle=tmp_path / "ca.pem" if trusted else None)
        async with token.kept_fresh():
            if trusted:
                assert await token.get() == f"{TOKEN}-1"
            else:
                with pytest.raises(ApiError):
                    await token.get()
