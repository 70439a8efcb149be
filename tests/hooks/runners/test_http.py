"""HTTP hooks: the request to the service, and the meaning of its answer, over TCP and Unix sockets."""

import asyncio
import gzip
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.hooks.http import (
    BROKEN_OFF,
    CANARY,
    answering,
    echo,
    http,
    peer,
    read_request,
    seen_input,
    service,
)
from support.hooks.kinds import GREETING, KEPT_HERE, KEY, ask, documented, running
from support.programs.processes import eventually

from hookgate.hooks import HookError

pytestmark = pytest.mark.usefixtures("tidy")

DENY = {"decision": "deny", "reason": "no"}
MEGABYTE = 1024 * 1024  # what a response may have in any case


# ---- the request


async def test_an_event_is_posted_as_json_and_the_answer_is_the_output() -> None:
    async with service(echo) as url:
        call, method, path, content_type, _ = await seen_input(f"{url}/hooks/before?team=a%20b")
    assert call == {"text": "hi é"}
    assert (method, path, content_type) == ("POST", "/hooks/before?team=a%20b", "application/json")


async def test_localhost_is_this_machine_by_name() -> None:
    async with service(echo) as url:
        assert (await seen_input(url.replace("127.0.0.1", "localhost")))[0] == {"text": "hi é"}


@pytest.mark.parametrize(
    ("path", "seen"), [pytest.param("", "/", id="none"), pytest.param(":/a/b?c=d", "/a/b?c=d", id="given")]
)
async def test_a_unix_socket_is_asked_with_a_path_or_without(path: str, seen: str, tmp_path: Path) -> None:
    async with service(echo, tmp_path / "hook.sock") as url:
        assert (await seen_input(url + path))[:3] == [{"text": "hi é"}, "POST", seen]


async def test_headers_contain_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", CANARY)
    headers = {"Authorization": "Bearer $TOKEN", "X-Both": "<${TOKEN}>", "X-Price": "5$ $1"}
    async with service(echo) as url:
        seen = (await seen_input(url, headers=headers))[4]
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
        assert (await seen_input(url))[0] == {"text": "hi é"}


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
        pytest.param({"body": json.dumps(DENY).ljust(MEGABYTE).encode()}, DENY, id="a megabyte"),
    ],
)
async def test_an_answer_is_an_output_or_nothing(answer: Any, output: Any) -> None:
    async with service(answering(**answer)) as url, running(http(url)) as runner:
        assert await ask(runner) == output


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param({"text": "deny"}, "answered with invalid JSON", id="prose"),
        pytest.param({"text": '{"n": NaN}'}, "answered with invalid JSON", id="NaN"),
        pytest.param({"text": "[" * 100_000}, "answered with invalid JSON", id="depth"),
        pytest.param({"body": b'{"reason": "\xff"}'}, "answered with invalid JSON", id="not UTF-8"),
        pytest.param({"text": "[]"}, "answered with JSON that is not an object", id="list"),
        pytest.param({"text": "null"}, "answered with JSON that is not an object", id="null"),
        pytest.param({"text": '{"reason": 5}'}, "output.reason: must be a string, not 5", id="type"),
        pytest.param({"text": json.dumps(DENY), "status": 500}, "answered with the status 500", id="500"),
        pytest.param({"text": json.dumps(DENY), "status": 404}, "answered with the status 404", id="404"),
        pytest.param({"status": 304}, "answered with the status 304", id="304"),
        pytest.param({"body": b" " * (MEGABYTE + 1)}, "answered with more than 1048576 bytes", id="size"),
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


# ---- the documented service


def accepts(path: Path) -> bool:
    """Whether a program accepts connections at a path; the file exists a moment earlier."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


async def test_the_documented_service_runs_as_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "guard.sock"
    shown = documented("service.py")
    source = shown.replace('host="127.0.0.1", port=8099', f"path={str(path)!r}")
    assert source != shown, "the test would take a port that may be taken"
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.DEVNULL)  # noqa: ASYNC220  # quick
    try:
        await eventually(lambda: accepts(path))
        async with running(http(f"unix:{path}:/before-model")) as runner:
            long = {"messages": [{"role": "user", "content": "x" * 2_000_000}, *KEY["messages"]]}
            assert await ask(runner, llm_request=long) == KEPT_HERE
            assert await ask(runner, llm_request=GREETING) is None
    finally:
        process.kill()
        process.wait()


# ---- closing, and aiohttp


async def test_a_closed_hook_sends_no_request() -> None:
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
    ("hook", "before", "expected"),
    [
        pytest.param({"type": "command", "command": "true"}, "", "False", id="no http hook"),
        pytest.param({"type": "http", "url": "http://127.0.0.1/"}, "", "True", id="an http hook"),
        pytest.param(
            {"type": "http", "url": "http://127.0.0.1/"},
            "sys.modules['aiohttp'] = None  # as if it were not installed",
            "{file}: http hooks need aiohttp; install hookgate with its extra proxy",
            id="no aiohttp",
        ),
    ],
)
def test_only_http_hooks_need_aiohttp(hook: Any, before: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": [hook]}]}}))
    argv = [sys.executable, "-c", LOADS.format(before=before), str(file)]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == expected.format(file=file)
