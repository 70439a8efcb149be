"""Who may see the panel, as requests over a connection meet it."""

from pathlib import Path
from typing import Any

import pytest
from support.gateway import says
from support.panel import panel_gateway
from support.wire import Answer, ask, connected, post, request_bytes

from hookgate.proxy.config import ConfigError
from hookgate.proxy.config.models import Admin
from hookgate.proxy.panel.access import MAX_FAILURES, SESSION_SECONDS, Access, is_loopback
from hookgate.proxy.panel.tokens import token_of

TOKEN = "a-token-of-some-length"  # noqa: S105
ELSEWHERE = {"address": "0.0.0.0:9787"}
GUARDED = {"token": TOKEN}
SAME = {"X-Hookgate-Panel": "1", "Content-Type": "application/json"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def asked(url: str, path: str, host: str, method: str = "GET", **headers: str) -> Answer:
    """The answer to a request for a host of one's choice."""
    head = request_bytes(method, path, b"", headers).replace(b"Host: localhost", f"Host: {host}".encode())
    async with connected(url) as wire:
        await wire.write(head)
        return await wire.answer()


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9787", "127.8.9.10:80", "LOCALHOST"])
async def test_on_loopback_it_is_open_under_the_machine_s_own_names(host: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        assert (await asked(gateway.admin, "/", host)).status == 200
        assert (await asked(gateway.admin, "/api/hooks", host)).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:9787", "10.0.0.1", ""]
)
async def test_another_name_for_loopback_is_refused(host: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        for path in ("/", "/api/calls", "/api/live", "/panel/main.js", f"/receipts/{'0' * 32}"):
            answer = await asked(gateway.admin, path, host)
            assert (answer.status, "own" in answer.error["message"]) == (403, True), path
        assert (await asked(gateway.admin, "/healthz", host)).status == 200


async def test_off_loopback_without_a_token_only_programs_are_served(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, admin=ELSEWHERE) as gateway:
        for path in ("/", "/api/overview", "/api/live", "/panel/base.css", f"/receipts/{'0' * 32}"):
            answer = await ask(gateway.admin, "GET", path)
            assert (answer.status, "admin.token_file" in answer.error["message"]) == (403, True), path
        switched = await post(gateway.admin, "/api/hooks/switch", {"name": "x", "on": False}, SAME)
        assert switched.status == 403
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await ask(gateway.admin, "GET", path)).status == 200


@pytest.mark.parametrize("address", ["0.0.0.0:9787", "127.0.0.1:9787"])
async def test_a_token_is_asked_for_wherever_one_is_set(address: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, admin={"address": address, **GUARDED}) as gateway:
        assert (await ask(gateway.admin, "GET", "/")).status == 200
        assert (await ask(gateway.admin, "GET", "/panel/main.js")).status == 200
        for path in ("/api/hooks", "/api/live", "/api/calls/" + "0" * 32, f"/receipts/{'0' * 32}"):
            assert (await ask(gateway.admin, "GET", path, {})).status == 401, path
        assert (await ask(gateway.admin, "GET", "/api/hooks", bearer(TOKEN))).status == 200
        assert (await ask(gateway.admin, "GET", f"/receipts/{'0' * 32}", bearer(TOKEN))).status == 404
        assert (await ask(gateway.admin, "GET", "/api/hooks", bearer(TOKEN + "x"))).status == 401


async def test_signing_in_gives_a_cookie_until_one_signs_out(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, admin=GUARDED) as gateway:
        answer = await post(gateway.admin, "/api/sign-in", {"token": TOKEN}, SAME)
        cookie = answer.headers["set-cookie"]
        assert answer.status == 200
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
        shown = {"Cookie": cookie.partition(";")[0]}
        assert (await ask(gateway.admin, "GET", "/api/hooks", shown)).status == 200
        assert (await post(gateway.admin, "/api/sign-out", {}, {**SAME, **shown})).status == 200
        assert (await ask(gateway.admin, "GET", "/api/hooks", shown)).status == 401


async def test_wrong_tokens_are_limited_and_so_is_the_right_one_then(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, admin=GUARDED) as gateway:
        for _ in range(MAX_FAILURES):
            assert (await post(gateway.admin, "/api/sign-in", {"token": "wrong"}, SAME)).status == 401
        assert (await post(gateway.admin, "/api/sign-in", {"token": TOKEN}, SAME)).status == 429
        assert (await ask(gateway.admin, "GET", "/api/hooks", bearer(TOKEN))).status == 429


CROSS = {
    "without the header": {"Content-Type": "application/json"},
    "from another origin": {**SAME, "Origin": "http://evil.example"},
    "from another port": {**SAME, "Origin": "http://localhost:1"},
    "from an opaque origin": {**SAME, "Origin": "null"},
    "from another site": {**SAME, "Sec-Fetch-Site": "cross-site"},
    "from the same site": {**SAME, "Sec-Fetch-Site": "same-site"},
}


@pytest.mark.parametrize("headers", CROSS.values(), ids=list(CROSS))
async def test_a_change_that_another_page_may_have_sent_is_refused(
    headers: dict[str, str], tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, {"BeforeModel": [{**says({}), "name": "one"}]}) as gateway:
        before = gateway.settings.read_text()
        answer = await post(gateway.admin, "/api/hooks/switch", {"name": "one", "on": False}, headers)
        assert (answer.status, gateway.settings.read_text()) == (403, before)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_page_s_browser_is_shown_nothing(site: str, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        for path in ("/api/calls", "/api/live", f"/receipts/{'0' * 32}"):
            assert (await ask(gateway.admin, "GET", path, {"Sec-Fetch-Site": site})).status == 403
        assert (await ask(gateway.admin, "GET", "/", {"Sec-Fetch-Site": site})).status == 200


async def test_a_change_needs_the_session_too(tmp_path: Path) -> None:
    async with panel_gateway(
        tmp_path, {"BeforeModel": [{**says({}), "name": "one"}]}, admin=GUARDED
    ) as gateway:
        change = {"name": "one", "on": False}
        assert (await post(gateway.admin, "/api/hooks/switch", change, SAME)).status == 401
        answer = await post(gateway.admin, "/api/hooks/switch", change, {**SAME, **bearer(TOKEN)})
        assert answer.status == 200


async def test_a_large_body_is_refused(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        answer = await post(gateway.admin, "/api/hooks/switch", {"name": "x" * 9000, "on": True}, SAME)
        assert answer.status == 413


class Clock:
    """A time of one's own, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Asked:
    """What Access looks at of a request."""

    def __init__(self, cookies: dict[str, str] | None = None, remote: str = "10.0.0.1") -> None:
        self.headers: dict[str, str] = {}
        self.cookies, self.remote = cookies or {}, remote


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_session_ends_by_itself(clock: Clock) -> None:
    access = Access("127.0.0.1:1", TOKEN, clock)
    request: Any = Asked()
    cookie = access.sign_in(request, TOKEN).cookies
    signed_in: Any = Asked({name: each.value for name, each in cookie.items()})
    clock.now += SESSION_SECONDS - 1
    access.check(signed_in)
    clock.now += 1
    with pytest.raises(Exception, match="sign in"):
        access.check(signed_in)


def test_who_was_wrong_too_often_may_try_again_after_a_minute(clock: Clock) -> None:
    access = Access("127.0.0.1:1", TOKEN, clock)
    here: Any = Asked()
    there: Any = Asked(remote="10.0.0.2")
    for _ in range(MAX_FAILURES + 5):
        with pytest.raises(Exception, match="token"):
            access.sign_in(here, "wrong")
    access.sign_in(there, TOKEN)
    with pytest.raises(Exception, match="wait"):
        access.sign_in(here, TOKEN)
    clock.now += 61
    assert access.sign_in(here, TOKEN).status == 200


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104
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
    assert token_of(Admin(token_file=file)) == TOKEN
    file.write_text("short")
    with pytest.raises(ConfigError, match=r"admin\.token_file: .*16 to 256"):
        token_of(Admin(token_file=file))
    with pytest.raises(ConfigError, match="cannot be read"):
        token_of(Admin(token_file=tmp_path / "none"))


def test_a_token_is_never_shown() -> None:
    admin = Admin.model_validate({"token": TOKEN})
    assert TOKEN not in repr(admin)
    assert TOKEN not in admin.model_dump_json()
