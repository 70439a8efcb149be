"""Access to the panel, over real connections."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.gateway.loopback import says
from support.gateway.panel import BEARER, TOKEN, panel_gateway
from support.wire import HI, UNARY, Answer, ask, connected, post, request_bytes

from hookgate.proxy.admin.access import (
    SESSION_SECONDS,
    Access,
    KnownHosts,
    admin_token_source,
    create_token,
    find_token,
    panel_link,
)
from hookgate.proxy.admin.roles import Person
from hookgate.proxy.admin.sessions import PanelSessions
from hookgate.proxy.config import ConfigError
from hookgate.proxy.config.models import AdminSettings
from hookgate.proxy.config.values import is_loopback
from hookgate.proxy.errors import ApiError
from hookgate.proxy.store.database import open_panel_sessions
from hookgate.proxy.store.models import panel_sessions

SAME = {"X-Hookgate-Panel": "1", "Content-Type": "application/json"}
GUARD = {"BeforeModel": [{**says({}), "name": "one"}]}
SWITCH = {"name": "one", "on": False}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def get(url: str, path: str, host: str, method: str = "GET", **headers: str) -> Answer:
    """The answer to a request for a host of one's choice."""
    head = request_bytes(method, path, b"", headers).replace(b"Host: localhost", f"Host: {host}".encode())
    async with connected(url) as wire:
        await wire.write(head)
        return await wire.answer()


ADDRESSES = [{}, {"address": "0.0.0.0:9787"}, {"token": TOKEN}, {"token": TOKEN, "address": "0.0.0.0:9787"}]


@pytest.mark.parametrize("admin", ADDRESSES, ids=str)
async def test_a_token_is_asked_for_everywhere(admin: dict[str, str], tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, GUARD, admin=admin) as gateway:
        assert (await ask(gateway.admin, "GET", "/")).status == 200
        assert (await ask(gateway.admin, "GET", "/panel/main.js")).status == 200
        for path in ("hooks", "overview", "live", "calls", "calls/" + "0" * 32, "policy", "traffic"):
            assert (await ask(gateway.admin, "GET", f"/api/{path}", {})).status == 401, path
        assert (await ask(gateway.admin, "GET", f"/receipts/{'0' * 32}")).status == 401
        before = gateway.settings.read_text()
        for headers in (SAME, {**SAME, **bearer("x")}):
            assert (await post(gateway.admin, "/api/hooks/switch", SWITCH, headers)).status == 401
        assert gateway.settings.read_text() == before
        token = (
            admin.get("token") or (tmp_path / "state" / f"admin-token-{port_of(gateway.admin)}").read_text()
        )
        for path in ("/api/hooks", "/api/calls"):
            assert (await ask(gateway.admin, "GET", path, bearer(token))).status == 200
            assert (await ask(gateway.admin, "GET", path, bearer(token + "x"))).status == 401
        assert (await ask(gateway.admin, "GET", f"/receipts/{'0' * 32}", bearer(token))).status == 404
        answer = await post(gateway.admin, "/api/hooks/switch", SWITCH, {**SAME, **bearer(token)})
        assert answer.status == 200


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


# ---- the token that a gateway makes


async def test_a_token_is_made_for_its_owner_alone_and_ends_with_the_gateway(tmp_path: Path) -> None:
    tokens = []
    for _ in range(2):
        async with panel_gateway(tmp_path, admin={}) as gateway:
            file = tmp_path / "state" / f"admin-token-{port_of(gateway.admin)}"
            tokens.append(file.read_text())
            assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
            assert gateway.panel.invitation == f"open the panel: {gateway.admin}/#token={tokens[-1]}"
        assert not file.exists()
    assert len(set(tokens)) == 2
    assert min(map(len, tokens)) >= 43  # 256 bits


async def test_json_logs_contain_no_link_and_no_log_contains_a_configured_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "hookgate")
    async with panel_gateway(tmp_path, admin={}, logs={"format": "json"}) as gateway:
        file = tmp_path / "state" / f"admin-token-{port_of(gateway.admin)}"
        assert gateway.panel.invitation == f"the panel requires the token in {file}"
        assert file.read_text() not in caplog.text
    async with panel_gateway(tmp_path, admin={"token": TOKEN}) as gateway:
        assert gateway.panel.invitation == ""
        assert TOKEN not in caplog.text
        assert list((tmp_path / "state").glob("admin-token*")) == []


@pytest.mark.parametrize("planted", ["readable", "symlink"])
def test_a_file_in_place_of_the_token_is_replaced(planted: str, tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "admin-token-1", tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    if planted == "readable":
        path.write_text("known")
        path.chmod(0o666)
    else:
        path.symlink_to(elsewhere)
    with create_token(tmp_path, 1) as (token, file):
        assert file == path
        assert (path.read_text(), path.is_symlink()) == (token, False)
        assert path.stat().st_mode & 0o777 == 0o600
    assert elsewhere.read_text() == "kept"


def test_a_token_that_cannot_be_kept_is_reported_and_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("no folder")
    with create_token(tmp_path / "state", 1) as (token, file):
        assert (bool(token), file) == (True, None)
    assert "cannot be saved" in caplog.text
    assert "admin.token_file" in caplog.text


def test_a_generated_token_is_shown_to_this_machine_only(tmp_path: Path) -> None:
    with create_token(tmp_path, 9787) as (token, _):
        assert find_token(tmp_path, ("127.0.0.1", 9787)) == token
        assert find_token(tmp_path, ("elsewhere.example", 9787)) is None
        assert find_token(tmp_path, ("127.0.0.1", 9788)) is None


def test_a_link_is_one_that_a_browser_can_open() -> None:
    assert panel_link("http://0.0.0.0:9787", "t") == "http://127.0.0.1:9787/#token=t"
    assert panel_link("http://[::]:9787", "t") == "http://127.0.0.1:9787/#token=t"
    assert panel_link("http://[::1]:9787", "t") == "http://[::1]:9787/#token=t"


# ---- what is told without a token

KNOWN = [
    "localhost:1", "127.0.0.1", "[::1]:9787", "10.0.0.1:80", "LOCALHOST", "", "hookgate:9787",
    "hookgate.team.svc", "hookgate.team.svc.cluster.local:9787", "host.docker.internal", "panel.example",
]  # fmt: skip
UNKNOWN = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example:9787",
    "a.svc.evil.example",
    "[",
    "@",
]


@pytest.mark.parametrize("host", KNOWN)
def test_programs_ask_by_addresses_and_names_that_no_page_can_have(host: str) -> None:
    assert KnownHosts(["panel.example"]).knows(host)


@pytest.mark.parametrize("host", UNKNOWN)
async def test_a_page_s_name_for_this_machine_is_reported_nothing(host: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        for path in ("/readyz", "/metrics"):
            answer = await get(gateway.admin, path, host)
            assert (answer.status, "admin.hosts" in answer.error["message"]) == (403, True), path
        assert (await get(gateway.admin, "/healthz", host)).status == 200  # which tells nothing


# ---- a browser's session


async def test_signing_in_gives_a_cookie_until_one_signs_out(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        answer = await post(gateway.admin, "/api/sign-in", {"token": TOKEN}, SAME)
        cookie, proof = answer.headers["set-cookie"], answer.json["proof"]
        assert answer.status == 200
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
        assert proof not in cookie
        shown = {"Cookie": cookie.partition(";")[0], "X-Hookgate-Panel": proof}
        assert (await ask(gateway.admin, "GET", "/api/hooks", shown)).status == 200
        assert (await post(gateway.admin, "/api/sign-out", {}, shown)).status == 200
        assert (await ask(gateway.admin, "GET", "/api/hooks", shown)).status == 401


async def test_a_cookie_that_another_port_of_the_machine_was_sent_is_worth_nothing(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, GUARD) as gateway:
        answer = await post(gateway.admin, "/api/sign-in", {"token": TOKEN}, SAME)
        stolen = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        assert (await ask(gateway.admin, "GET", "/api/calls", stolen)).status == 401
        assert (await ask(gateway.admin, "GET", "/api/live", stolen)).status == 401
        assert (await ask(gateway.admin, "GET", "/api/live?proof=", stolen)).status == 401
        answer = await post(gateway.admin, "/api/hooks/switch", SWITCH, {**SAME, **stolen})
        assert answer.status == 401


async def test_an_agent_that_uses_the_admin_listener_gets_an_explanation(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, GUARD) as gateway:
        answer = await post(gateway.admin, UNARY, HI)
    assert answer.status == 403
    assert "agents must use the address of the gateway" in answer.error["message"]


async def test_no_number_of_wrong_tokens_locks_the_right_one_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with panel_gateway(tmp_path) as gateway:
        for _ in range(30):
            assert (await post(gateway.admin, "/api/sign-in", {"token": "wrong"}, SAME)).status == 401
            assert (await ask(gateway.admin, "GET", "/api/hooks", bearer("wrong"))).status == 401
        assert (await post(gateway.admin, "/api/sign-in", {"token": TOKEN}, SAME)).status == 200
        assert (await ask(gateway.admin, "GET", "/api/hooks", BEARER)).status == 200
    reported = [line for line in caplog.messages if "wrong admin token" in line]
    assert reported == [
        "requests with a wrong admin token so far: 1, the last from 127.0.0.1"
    ]  # then not for a minute


CROSS = {
    "without the header": {"Content-Type": "application/json"},
    "from another origin": {**SAME, "Origin": "http://evil.example"},
    "from another port": {**SAME, "Origin": "http://localhost:1"},
    "from an opaque origin": {**SAME, "Origin": "null"},
    "from what is no origin": {**SAME, "Origin": "http://[::1"},
    "from another site": {**SAME, "Sec-Fetch-Site": "cross-site"},
    "from the same site": {**SAME, "Sec-Fetch-Site": "same-site"},
}


@pytest.mark.parametrize("headers", CROSS.values(), ids=list(CROSS))
async def test_a_change_that_another_page_may_have_sent_is_refused(
    headers: dict[str, str], tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, {"BeforeModel": [{**says({}), "name": "one"}]}) as gateway:
        before = gateway.settings.read_text()
        answer = await post(
            gateway.admin, "/api/hooks/switch", {"name": "one", "on": False}, {**headers, **BEARER}
        )
        assert (answer.status, gateway.settings.read_text()) == (403, before)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_page_s_browser_is_shown_nothing(site: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        for path in ("/api/calls", "/api/live", f"/receipts/{'0' * 32}"):
            assert (await ask(gateway.admin, "GET", path, {"Sec-Fetch-Site": site, **BEARER})).status == 403
        assert (await ask(gateway.admin, "GET", "/", {"Sec-Fetch-Site": site})).status == 200


async def test_a_large_body_is_refused(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        answer = await post(
            gateway.admin, "/api/hooks/switch", {"name": "x" * 20_000, "on": True}, {**SAME, **BEARER}
        )
        assert answer.status == 413


class Clock:
    """A time of one's own, in seconds since 1970."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Asked:
    """What Access looks at of a request."""

    def __init__(self, cookies: dict[str, str] | None = None, remote: str = "10.0.0.1") -> None:
        self.headers: dict[str, str] = {}
        self.cookies, self.remote, self.raw_path = cookies or {}, remote, "/"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def access(url: str | None, state: Path, clock: Clock, token: str = TOKEN) -> Access:
    """The access check of one of several gateways with the same database."""
    return Access(1, token, PanelSessions(url, state, token, clock), clock)


def browser(answer: web.Response) -> Any:
    """The next request of a browser, whose page has begun a session with an answer."""
    assert isinstance(answer.body, bytes)
    request = Asked({name: each.value for name, each in answer.cookies.items()})
    request.headers["X-Hookgate-Panel"] = json.loads(answer.body)["proof"]
    return request


ADA = Person("ada", "viewer", "subject-1")


@pytest.mark.parametrize("seconds", [SESSION_SECONDS, 60.0])
async def test_a_session_expires_at_every_gateway(
    seconds: float, clock: Clock, url: str | None, tmp_path: Path
) -> None:
    one, other = (access(url, tmp_path, clock) for _ in range(2))
    request: Any = Asked()
    if seconds == SESSION_SECONDS:
        signed_in = browser(await one.sign_in(request, TOKEN))
    else:
        signed_in = browser(await one.begin_session(request, ADA, seconds))
    clock.now += seconds - 1
    for gateway in (one, other):
        await gateway.authenticate(signed_in)
    clock.now += 1
    for gateway in (one, other):
        with pytest.raises(ApiError, match="sign in"):
            await gateway.authenticate(signed_in)
        await gateway.sessions.close()


async def test_a_session_that_is_ended_at_one_gateway_has_ended_at_the_others(
    clock: Clock, url: str | None, tmp_path: Path
) -> None:
    one, other = (access(url, tmp_path, clock) for _ in range(2))
    nobody: Any = Asked()
    first, second = [browser(await one.begin_session(nobody, ADA, 60)) for _ in range(2)]
    await other.sign_out(first)
    with pytest.raises(ApiError, match="sign in"):
        await one.authenticate(first)
    assert await one.authenticate(second) == await other.authenticate(second) == ADA
    admin = browser(await other.begin_session(nobody, replace(ADA, role="admin"), 60))
    with pytest.raises(ApiError, match="sign in"):  # the role has changed
        await one.authenticate(second)
    await one.sessions.end_person(ADA.subject)
    with pytest.raises(ApiError, match="sign in"):
        await other.authenticate(admin)
    for gateway in (one, other):
        await gateway.sessions.close()


async def test_sessions_end_when_the_admin_token_changes(
    clock: Clock, url: str | None, tmp_path: Path
) -> None:
    """So nobody can add a session to the database without knowing the token."""
    before, after = (access(url, tmp_path, clock, token) for token in (TOKEN, f"{TOKEN}-2"))
    request: Any = Asked()
    holder = browser(await before.sign_in(request, TOKEN))
    person = browser(await before.begin_session(request, ADA, 60))
    for signed_in in (holder, person):
        await before.authenticate(signed_in)
        with pytest.raises(ApiError, match="sign in"):
            await after.authenticate(signed_in)
    for gateway in (before, after):
        await gateway.sessions.close()


async def test_a_copy_of_the_database_does_not_allow_signing_in(
    clock: Clock, url: str | None, tmp_path: Path
) -> None:
    gateway = access(url, tmp_path, clock)
    request: Any = Asked()
    signed_in = browser(await gateway.begin_session(request, ADA, 60))
    await gateway.sessions.close()
    database = open_panel_sessions(url, tmp_path)
    with database.engine.begin() as connection:
        [row] = connection.execute(panel_sessions.select()).all()
    database.close()
    known = {*signed_in.cookies.values(), signed_in.headers["X-Hookgate-Panel"]}
    assert not any(text.encode() in bytes(value) for text in known for value in (row.digest, row.proof))
    assert not known & {row.subject, row.name, row.role}


async def test_without_its_database_the_panel_says_so_and_programs_continue(
    clock: Clock, tmp_path: Path
) -> None:
    unreachable = access("postgresql+psycopg://gate:canary@127.0.0.1:1/none", tmp_path, clock)
    request: Any = Asked()
    with pytest.raises(ApiError, match="sessions cannot be read or written") as raised:
        await unreachable.sign_in(request, TOKEN)
    assert (raised.value.code, "canary" in raised.value.message) == (503, False)
    request.headers["Authorization"] = f"Bearer {TOKEN}"
    assert (await unreachable.authenticate(request)).role == "admin"
    await unreachable.sessions.close()


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104  # it is not bound
        ("::", False),
        ("192.168.0.1", False),
        ("localhost.example", False),
    ],
)
def test_which_addresses_are_the_machine_s_own(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_a_token_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert admin_token_source(AdminSettings(token_file=file)) == TOKEN
    file.write_text("short")
    with pytest.raises(ConfigError, match=r"admin\.token_file: .*16 to 256"):
        admin_token_source(AdminSettings(token_file=file))
    with pytest.raises(ConfigError, match="does not exist"):
        admin_token_source(AdminSettings(token_file=tmp_path / "none"))


def test_a_token_is_never_shown() -> None:
    admin = AdminSettings.model_validate({"token": TOKEN})
    assert TOKEN not in repr(admin)
    assert TOKEN not in admin.model_dump_json()
