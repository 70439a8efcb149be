"""HTTP hooks: real services on loopback and unix sockets, those that misbehave, and whom a hook may ask."""

import asyncio
import gzip
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from support.kinds import (
    GREETING,
    KEPT_HERE,
    KEY,
    Handler,
    ask,
    documented,
    hook_of,
    peer,
    read_request,
    response,
    running,
    service,
)
from support.programs import eventually, nothing_left_behind

from hookgate.hooks import HookError, SettingsError
from hookgate.hooks.kinds.http import MAX_ANSWER
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.settings import Hook, HttpConfig

DENY = {"decision": "deny", "reason": "no"}
CANARY = "canary-7d1f"


@pytest.fixture(autouse=True)
async def _clean() -> AsyncIterator[None]:
    """Nothing is left behind, and nothing went wrong where only the loop would tell."""
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with nothing_left_behind(uuid4().hex):
        yield
    assert troubles == []


def http(url: str, name: str = "guard", **more: Any) -> Hook:
    return hook_of(HttpConfig(type="http", url=url, **more), name=name)


def answering(*args: Any, **more: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(*args, **more)

    return handler


async def echo(request: web.Request) -> web.Response:
    """Answers with what was asked, and how."""
    call = await request.json()
    how = [request.method, request.path_qs, request.content_type, dict(request.headers)]
    return web.json_response({"reason": json.dumps([call, *how])})


async def asked(url: str, **more: Any) -> Any:
    """What a service saw of one event."""
    async with running(http(url, **more)) as runner:
        return json.loads((await ask(runner, text="hi é"))["reason"])


# ---- the request


async def test_an_event_is_posted_as_json_and_the_answer_is_the_output() -> None:
    async with service(echo) as url:
        call, method, path, content_type, _ = await asked(f"{url}/hooks/before?team=a%20b")
    assert call == {"text": "hi é"}
    assert (method, path, content_type) == ("POST", "/hooks/before?team=a%20b", "application/json")


async def test_localhost_is_this_machine_by_name() -> None:
    async with service(echo) as url:
        assert (await asked(url.replace("127.0.0.1", "localhost")))[0] == {"text": "hi é"}


@pytest.mark.parametrize(
    ("path", "seen"), [pytest.param("", "/", id="none"), pytest.param(":/a/b?c=d", "/a/b?c=d", id="given")]
)
async def test_a_unix_socket_is_asked_with_a_path_or_without(path: str, seen: str, tmp_path: Path) -> None:
    async with service(echo, tmp_path / "hook.sock") as url:
        assert (await asked(url + path))[:3] == [{"text": "hi é"}, "POST", seen]


async def test_headers_hold_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", CANARY)
    headers = {"Authorization": "Bearer $TOKEN", "X-Both": "<${TOKEN}>", "X-Price": "5$ $1"}
    async with service(echo) as url:
        seen = (await asked(url, headers=headers))[4]
    assert (seen["Authorization"], seen["X-Both"], seen["X-Price"]) == (
        f"Bearer {CANARY}",
        f"<{CANARY}>",
        "5$ $1",
    )


async def test_two_hundred_calls_at_once_get_their_own_answers() -> None:
    async with service(echo) as url, running(http(url)) as runner:
        outputs = await asyncio.gather(*(ask(runner, n=n) for n in range(200)))
    assert [json.loads(output["reason"])[0]["n"] for output in outputs] == list(range(200))


async def test_a_connection_is_kept_for_the_next_event() -> None:
    connections = set()

    async def handler(request: web.Request) -> web.Response:
        connections.add(request.transport)
        return web.Response()

    async with service(handler) as url, running(http(url)) as runner:
        for _ in range(5):
            await ask(runner)
    assert len(connections) == 1


async def test_a_cookie_is_not_kept() -> None:
    cookies = []

    async def handler(request: web.Request) -> web.Response:
        cookies.append(request.headers.get("Cookie"))
        return web.Response(headers={"Set-Cookie": "session=of-another"})

    async with (
        service(handler) as url,
        # By name, since from a bare address no client keeps cookies.
        running(http(url.replace("127.0.0.1", "localhost"))) as runner,
    ):
        for _ in range(2):
            await ask(runner)
    assert cookies == [None, None]


async def test_a_proxy_of_the_environment_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service(answering(status=500)) as proxy, service(echo) as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        assert (await asked(url))[0] == {"text": "hi é"}


# ---- the answer


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        pytest.param({"status": 204}, None, id="no content"),
        pytest.param({"status": 200}, None, id="empty"),
        pytest.param({"text": " \n"}, None, id="blank"),
        pytest.param({"text": json.dumps(DENY), "status": 201}, DENY, id="created"),
        pytest.param({"text": json.dumps(DENY), "content_type": "text/html"}, DENY, id="any content type"),
        pytest.param({"text": '{"decision": "approve"}'}, {"decision": "allow"}, id="alias"),
        pytest.param({"text": '{"reason": "\\ud83d"}'}, {"reason": "�"}, id="half a character"),
        pytest.param({"body": json.dumps(DENY).ljust(MAX_ANSWER).encode()}, DENY, id="a megabyte"),
    ],
)
async def test_an_answer_is_an_output_or_nothing(answer: Any, output: Any) -> None:
    async with service(answering(**answer)) as url, running(http(url)) as runner:
        assert await ask(runner) == output


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param({"text": "deny"}, "answered with what is not JSON", id="prose"),
        pytest.param({"text": '{"n": NaN}'}, "answered with what is not JSON", id="NaN"),
        pytest.param({"text": "[" * 100_000}, "answered with what is not JSON", id="depth"),
        pytest.param({"body": b'{"reason": "\xff"}'}, "answered with what is not JSON", id="not UTF-8"),
        pytest.param({"text": "[]"}, "answered with JSON that is not an object", id="list"),
        pytest.param({"text": "null"}, "answered with JSON that is not an object", id="null"),
        pytest.param({"text": '{"reason": 5}'}, "output.reason: Input should be a valid string", id="type"),
        pytest.param({"text": json.dumps(DENY), "status": 500}, "answered with the status 500", id="500"),
        pytest.param({"text": json.dumps(DENY), "status": 404}, "answered with the status 404", id="404"),
        pytest.param({"status": 304}, "answered with the status 304", id="304"),
        pytest.param({"body": b" " * (MAX_ANSWER + 1)}, "answered with more than 1048576 bytes", id="size"),
        pytest.param(
            {"body": gzip.compress(bytes(200_000_000), 1), "headers": {"Content-Encoding": "gzip"}},
            "answered with more than 1048576 bytes",
            id="bomb",
        ),
        pytest.param(
            {"body": b"{}", "headers": {"Content-Encoding": "gzip"}},
            "closed the connection before its answer was complete",
            id="not gzip",
        ),
    ],
)
async def test_any_other_answer_fails_the_hook(answer: Any, error: str) -> None:
    async with service(answering(**answer)) as url, running(http(url)) as runner:
        with pytest.raises(HookError) as raised:
            await ask(runner)
    assert str(raised.value) == error


async def test_a_redirect_is_not_followed() -> None:
    visited = []

    async def elsewhere(request: web.Request) -> web.Response:
        visited.append(request)
        return web.Response()

    async with (
        service(elsewhere) as other,
        service(answering(status=307, headers={"Location": other})) as url,
        running(http(url)) as runner,
    ):
        with pytest.raises(HookError, match=r"^answered with the status 307$"):
            await ask(runner)
    assert visited == []


# ---- services that fail


async def test_a_service_that_is_not_there_cannot_be_reached() -> None:
    async with service(echo) as url:
        pass
    async with running(http(url)) as runner:
        with pytest.raises(HookError, match=r"^cannot be reached: .*127\.0\.0\.1"):
            await ask(runner)


async def test_a_socket_that_is_not_there_cannot_be_reached(tmp_path: Path) -> None:
    async with running(http(f"unix:{tmp_path}/none.sock")) as runner:
        with pytest.raises(HookError, match=r"^cannot be reached: .*none\.sock .*No such file or directory"):
            await ask(runner)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 20", id="half a status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", id="half a body"),
    ],
)
async def test_a_service_that_hangs_is_left_in_time(said: bytes) -> None:
    left = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        await reader.read()
        left.set()

    async with peer(talk) as url, running(http(url, timeout=100)) as runner:
        with pytest.raises(HookError, match=r"^timed out after 100 ms$"):
            await ask(runner)
        await asyncio.wait_for(left.wait(), 5)


async def test_a_cancelled_call_closes_its_connection() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        begun.set()
        await reader.read()
        left.set()

    async with peer(talk) as url, running(http(url)) as runner:
        call = asyncio.create_task(ask(runner))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(left.wait(), 5)


BROKEN_OFF = "closed the connection before its answer was complete"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(b"", BROKEN_OFF, id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", BROKEN_OFF, id="half a head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", BROKEN_OFF, id="half a body"),
        pytest.param(
            b"SSH-2.0-x\r\n\r\n", "answered with what is not HTTP: ClientResponseError", id="not HTTP"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
            "answered with what is not HTTP: ClientResponseError",
            id="endless header",
        ),
    ],
)
async def test_a_broken_answer_fails_the_hook_and_is_not_asked_for_again(said: bytes, error: str) -> None:
    requests = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(said)

    async with peer(talk) as url, running(http(url)) as runner:
        with pytest.raises(HookError) as raised:
            await ask(runner)
    assert (str(raised.value), len(requests)) == (error, 1)


# ---- a kept connection that the service closes


class Closing:
    """Answers the first request of a connection; at the second it says `last`, and closes."""

    def __init__(self, last: bytes = b"", always: bool = False) -> None:
        self.last, self.always = last, always
        self.requests: list[Any] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not (self.always and self.requests):
            self.requests.append(json.loads(await read_request(reader)))
            writer.write(response(b"{}"))
        self.requests.append(json.loads(await read_request(reader)))
        writer.write(self.last)


async def test_an_event_is_sent_again_when_a_kept_connection_was_closed_before_any_answer() -> None:
    talk = Closing()
    async with peer(talk) as url, running(http(url)) as runner:
        assert [await ask(runner, n=n) for n in range(2)] == [{}, {}]
    assert talk.requests == [{"n": 0}, {"n": 1}, {"n": 1}]


async def test_an_event_is_sent_again_once_and_not_more() -> None:
    talk = Closing(always=True)
    async with peer(talk) as url, running(http(url)) as runner:
        await ask(runner, n=0)
        with pytest.raises(HookError, match=BROKEN_OFF):
            await ask(runner, n=1)
    assert talk.requests == [{"n": 0}, {"n": 1}, {"n": 1}]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(b"H", id="a byte"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="a status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", id="half a body"),
    ],
)
async def test_an_event_is_not_sent_again_once_an_answer_has_begun(last: bytes) -> None:
    talk = Closing(last)
    async with peer(talk) as url, running(http(url)) as runner:
        await ask(runner, n=0)
        with pytest.raises(HookError, match=BROKEN_OFF):
            await ask(runner, n=1)
    assert talk.requests == [{"n": 0}, {"n": 1}]


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
    told = (
        r"^/settings\.json: the http hook 'guard': http.* is neither .* allowed; .*hooksConfig\.http_targets"
    )
    with pytest.raises(SettingsError, match=told):
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
    told = str(raised.value)
    assert told.startswith("/settings.json: the http hook ")
    assert CANARY not in told


@pytest.mark.parametrize("url", ["http://127.0.0.1@evil/", "http://localhost:80@evil/"])
def test_loopback_as_a_user_name_is_not_this_machine(url: str) -> None:
    with pytest.raises(SettingsError, match=r"http://evil/: a url must not hold credentials; .*headers"):
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
def test_a_target_that_could_never_match_is_told(target: str) -> None:
    with pytest.raises(SettingsError, match=r"^hooksConfig\.http_targets: entry 2 has to be like ") as raised:
        make_runners([http("http://127.0.0.1/")], http_targets=[POLICY, target])
    assert CANARY not in str(raised.value)


# ---- secrets


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        pytest.param(
            {"X-Key": "$CANARY $NO_SUCH"}, "headers.X-Key: the environment has no NO_SUCH", id="unset"
        ),
        pytest.param({"X-Key": "${CANARY}\n"}, "headers.X-Key: a header takes one line", id="new line"),
        pytest.param({"X Key": "$CANARY"}, "headers.X Key: a header takes one line", id="name"),
    ],
)
def test_a_header_that_cannot_be_sent_is_told_without_its_value(
    headers: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    with pytest.raises(SettingsError) as raised:
        make_runners([http("http://127.0.0.1/", headers=headers)])
    assert told in str(raised.value)
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
async def test_no_failure_tells_what_a_header_held(
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


# ---- the documented service


async def test_the_documented_service_runs_as_it_is_shown(tmp_path: Path) -> None:
    socket = tmp_path / "guard.sock"
    shown = documented("service.py")
    source = shown.replace('host="127.0.0.1", port=8099', f"path={str(socket)!r}")
    assert source != shown, "the test would take a port that may be taken"
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.DEVNULL)  # noqa: ASYNC220  # quick
    try:
        await eventually(socket.exists)
        async with running(http(f"unix:{socket}:/before-model")) as runner:
            long = {"messages": [{"role": "user", "content": "x" * 2_000_000}, *KEY["messages"]]}
            assert await ask(runner, llm_request=long) == KEPT_HERE
            assert await ask(runner, llm_request=GREETING) is None
    finally:
        process.kill()
        process.wait()


# ---- closing, and aiohttp


async def test_a_closed_hook_asks_nobody() -> None:
    async with service(echo) as url, running(http(url)) as runner:
        await ask(runner)
        await runner.close()
        with pytest.raises(HookError, match=r"^is closed$"):
            await ask(runner)


async def test_closing_ends_a_call_in_flight() -> None:
    begun = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        begun.set()
        await reader.read()

    async with peer(talk) as url, running(http(url)) as runner:
        call = asyncio.create_task(ask(runner))
        await begun.wait()
        await runner.close()
        with pytest.raises(HookError, match=BROKEN_OFF):
            await call


LOADS = """
import sys
from pathlib import Path
{before}
from hookgate.hooks import Engine, SettingsError, load_settings
try:
    Engine(load_settings([Path(sys.argv[1])]))
    print("aiohttp" in sys.modules)
except SettingsError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("hook", "before", "told"),
    [
        pytest.param({"type": "command", "command": "true"}, "", "False", id="no http hook"),
        pytest.param({"type": "http", "url": "http://127.0.0.1/"}, "", "True", id="an http hook"),
        pytest.param(
            {"type": "http", "url": "http://127.0.0.1/"},
            "sys.modules['aiohttp'] = None  # as if it were not installed",
            "{file}: http hooks need aiohttp; install it with: pip install 'hookgate[proxy]'",
            id="no aiohttp",
        ),
    ],
)
def test_aiohttp_is_needed_by_http_hooks_alone(hook: Any, before: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": [hook]}]}}))
    argv = [sys.executable, "-c", LOADS.format(before=before), str(file)]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == told.format(file=file)
