"""The allowed targets of HTTP hooks, and secrets in URLs and headers that messages must not show."""

import asyncio
import logging
from typing import Any

import pytest
from aiohttp import web
from support.hooks.http import CANARY, http, peer, read_request, service
from support.hooks.kinds import ask, running

from hookgate.hooks import HookError, SettingsError
from hookgate.hooks.runner_factory import make_runners

pytestmark = pytest.mark.usefixtures("tidy")


# ---- whom a hook may ask


POLICY = "https://policy.example.com/hooks/"


@pytest.mark.parametrize(
    ("url", "targets"),
    [
        pytest.param("http://LOCALHOST:9/x", [], id="localhost"),
        pytest.param("https://127.8.9.1/x", [], id="127.0.0.0/8"),
        pytest.param("http://[::1]:80/x", [], id="::1"),
        pytest.param("http://[0:0::1]/x", [], id="::1 in full"),
        pytest.param("unix:/run/hook.sock", [], id="unix"),
        pytest.param(f"{POLICY}a?b=c", [POLICY], id="below"),
        pytest.param(POLICY, [POLICY], id="equal"),
        pytest.param("https://policy.example.com/hooks", [POLICY], id="without the slash"),
        pytest.param(f"{POLICY}a", ["https://policy.example.com/hooks"], id="target without the slash"),
        pytest.param("https://POLICY.example.com:443/x", ["https://policy.example.com"], id="port, case"),
        pytest.param("http://10.0.0.1:81/", ["http://10.0.0.1/", "http://10.0.0.1:81/"], id="second target"),
    ],
)
def test_this_machine_and_listed_targets_may_be_asked(url: str, targets: list[str]) -> None:
    assert make_runners([http(url)], http_targets=targets)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://policy.example.com/hooks/", id="scheme"),
        pytest.param("https://policy.example.com:444/hooks/", id="port"),
        pytest.param("https://policy.example.com.evil/hooks/", id="longer host"),
        pytest.param("https://a.policy.example.com/hooks/", id="subdomain"),
        pytest.param("https://policy.example.com/hooksmith", id="part of a segment"),
        pytest.param("https://policy.example.com/", id="above"),
        pytest.param("https://policy.example.com/hooks/../x", id="dots"),
        pytest.param("https://policy.example.com/hooks/%2e%2e/x", id="encoded dots"),
        pytest.param("https://policy.example.com/hooks/..%2fx", id="encoded slash"),
        pytest.param("https://policy.example.com/hooks/..%5cx", id="encoded backslash"),
        pytest.param("http://localhost.evil/", id="not localhost"),
        pytest.param("http://127.0.0.1.evil/", id="not an address"),
        pytest.param("http://127.1/", id="short address"),
        pytest.param("http://2130706433/", id="address as a number"),
        pytest.param("http://0.0.0.0/", id="any address"),
        pytest.param("http://[::ffff:169.254.169.254]/", id="mapped address"),
        pytest.param("http://169.254.169.254/", id="metadata"),
        pytest.param("http://evil/?127.0.0.1", id="loopback in the query"),
    ],
)
def test_any_other_host_is_refused_with_the_remedy(url: str) -> None:
    reported = (
        r"^/settings\.json: the http hook 'guard': http.* is neither .* allowed; .*hooksConfig\.http_targets"
    )
    with pytest.raises(SettingsError, match=reported):
        make_runners([http(url)], http_targets=[POLICY])


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"http://user:{CANARY}@127.0.0.1/", id="password"),
        pytest.param(f"http://{CANARY}@localhost/", id="user"),
        pytest.param(f"https://:{CANARY}@policy.example.com/hooks/", id="listed target"),
        pytest.param(f"https://evil/?key={CANARY}#{CANARY}", id="query"),
        pytest.param(f"http://[::1/?key={CANARY}", id="bad address"),
        pytest.param(f"http://h:99999/?key={CANARY}", id="bad port"),
        pytest.param(f"http://{CANARY}\\@127.0.0.1/", id="backslash"),
    ],
)
@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
def test_credentials_and_queries_of_a_url_are_refused_or_left_out_of_errors(url: str, named: bool) -> None:
    hook = http(url, "guard" if named else url)  # a hook without a name is called by its url
    with pytest.raises(SettingsError) as raised:
        make_runners([hook], http_targets=[POLICY])
    message = str(raised.value)
    assert message.startswith("/settings.json: the http hook ")
    assert CANARY not in message


@pytest.mark.parametrize("url", ["http://127.0.0.1@evil/", "http://localhost:80@evil/"])
def test_loopback_as_a_user_name_is_not_this_machine(url: str) -> None:
    with pytest.raises(SettingsError, match=r"http://evil/: a URL must not contain credentials; .*headers"):
        make_runners([http(url)])


def test_a_nameless_hook_is_called_by_its_url_without_the_query() -> None:
    hook = http(url := f"unix:/run/hook.sock:/x?{CANARY}", url, headers={"X-Key": "$NO_SUCH_VARIABLE"})
    with pytest.raises(SettingsError, match=r"the http hook 'unix:/run/hook\.sock:/x': headers\.X-Key: "):
        make_runners([hook])


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("policy.example.com", id="no scheme"),
        pytest.param("ftp://policy.example.com/", id="another scheme"),
        pytest.param("https://", id="no host"),
        pytest.param(f"https://user:{CANARY}@policy.example.com/", id="credentials"),
        pytest.param(f"https://policy.example.com/?{CANARY}", id="query"),
        pytest.param("*", id="wildcard"),
    ],
)
def test_a_target_that_could_never_match_is_reported(target: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^hooksConfig\.http_targets: entry 2 must be a URL like "
    ) as raised:
        make_runners([http("http://127.0.0.1/")], http_targets=[POLICY, target])
    assert CANARY not in str(raised.value)


# ---- secrets


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(
            {"X-Key": "$CANARY $NO_SUCH"},
            "headers.X-Key: the environment variable NO_SUCH is not set",
            id="unset",
        ),
        pytest.param({"X-Key": "${CANARY}\n"}, "headers.X-Key: name or value is not valid", id="new line"),
        pytest.param({"X Key": "$CANARY"}, "headers.X Key: name or value is not valid", id="name"),
    ],
)
def test_a_header_that_cannot_be_sent_is_reported_without_its_value(
    headers: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    with pytest.raises(SettingsError) as raised:
        make_runners([http("http://127.0.0.1/", headers=headers)])
    assert expected in str(raised.value)
    assert CANARY not in str(raised.value)


async def reflect(request: web.Request) -> web.Response:
    """What a careless service does: shows the request's headers in its error page."""
    key = request.headers["X-Key"]
    return web.Response(status=500, reason=f"bad {key}", text=f"{key}")


async def reflect_not_json(request: web.Request) -> web.Response:
    return web.Response(text=f"key {request.headers['X-Key']}")


async def reflect_not_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.readuntil(b"\r\n\r\n")).partition(b"X-Key: ")[2])


async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await read_request(reader)


@pytest.mark.parametrize(
    "serving",
    [
        pytest.param(service(reflect), id="status"),
        pytest.param(service(reflect_not_json), id="not JSON"),
        pytest.param(peer(reflect_not_http), id="not HTTP"),
        pytest.param(peer(say_nothing), id="closes"),
    ],
)
async def test_no_failure_shows_the_value_of_a_header(
    serving: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    caplog.set_level(logging.DEBUG)
    async with serving as url, running(http(f"{url}/?key={CANARY}", headers={"X-Key": "$CANARY"})) as runner:
        with pytest.raises(HookError) as raised:
            await ask(runner)
    # The access log of the service under test runs in this process too.
    logged = [record.getMessage() for record in caplog.records if record.name != "aiohttp.access"]
    assert CANARY not in f"{raised.value}{logged}{runner!r}"
