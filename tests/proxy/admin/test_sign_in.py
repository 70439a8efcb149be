"""Sign-in at an OpenID Connect provider, over real connections, and attacks on it."""

import asyncio
import base64
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import jwt
import pytest
from aiohttp import web
from support.gateway.loopback import says
from support.gateway.panel import BEARER, Paneled, panel_gateway
from support.programs.processes import eventually
from support.upstream.openid_provider import (
    CLIENT,
    EC,
    OTHER,
    RSA,
    SECRET,
    OpenIdProvider,
    openid_provider,
    public_jwk,
    signed,
)
from support.wire import Answer, ask, post

from hookgate.hooks.fair_queue import FairQueue
from hookgate.proxy.admin import access, sign_in
from hookgate.proxy.admin import sessions as panel_table
from hookgate.proxy.config import Config, ConfigError, SignInSettings
from hookgate.proxy.config.reading import conflicts
from hookgate.proxy.keys import openid

SAME = {"X-Hookgate-Panel": "1", "Content-Type": "application/json"}
HOOKS = {"BeforeModel": [{**says({}), "name": "one"}]}
ROLES = {"viewers": ["everyone"], "auditors": ["audit"], "admins": ["admins", "Ada@Example.com"]}
ADA = {"email": "ada@example.com", "email_verified": True}


@dataclass(frozen=True)
class Place:
    """A gateway, and the provider at which people sign in to its panel."""

    gateway: Paneled
    provider: OpenIdProvider

    @property
    def admin(self) -> str:
        return self.gateway.admin

    async def begin(self) -> tuple[str, str]:
        """Where the provider asks, and the flow that the browser has begun."""
        answer = await post(self.admin, "/api/sign-in/begin", {}, SAME)
        assert answer.status == 200, answer.body
        assert "set-cookie" not in answer.headers
        return answer.json["url"], answer.json["flow"]

    async def visit(self, url: str) -> dict[str, str]:
        """What the provider sends the browser back with."""
        async with aiohttp.ClientSession() as client, client.get(url, allow_redirects=False) as answer:
            place = answer.headers["Location"]
        assert place.startswith(f"{self.admin}/sign-in?")
        return dict(parse_qsl(urlsplit(place).query))

    async def finish(self, flow: Any, sent: dict[str, Any], headers: dict[str, str] = SAME) -> Answer:
        return await post(self.admin, "/api/sign-in/finish", {"flow": flow, **sent}, headers)

    async def sign_in(self, headers: dict[str, str] = SAME) -> Answer:
        url, flow = await self.begin()
        return await self.finish(flow, await self.visit(url), headers)

    async def session(self, **claims: Any) -> dict[str, str]:
        """The headers of a browser in which a person with these claims has signed in."""
        self.provider.person = claims
        return page_headers(await self.sign_in())

    async def whose(self, browser: dict[str, str]) -> tuple[str | None, str | None]:
        told = (await ask(self.admin, "GET", "/api/session", browser)).json
        return told["name"], told["role"]


def page_headers(answer: Answer) -> dict[str, str]:
    """What the page of a session sends."""
    assert answer.status == 200, answer.body
    return {
        **SAME,
        "Cookie": answer.headers["set-cookie"].partition(";")[0],
        "X-Hookgate-Panel": answer.json["proof"],
    }


@asynccontextmanager
async def place(
    folder: Path, provider: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Place]:
    async with openid_provider(**(provider or {})) as running:
        configured = {
            "issuer": running.issuer, "client_id": CLIENT, "client_secret": SECRET, **ROLES, **settings,
        }  # fmt: skip
        async with panel_gateway(folder, HOOKS, sign_in=configured) as gateway:
            yield Place(gateway, running)


# ---- signing in


@pytest.mark.parametrize(
    ("claims", "name", "role"),
    [
        ({"groups": "everyone"}, "subject-1", "viewer"),
        ({"groups": ["everyone", "audit"]}, "subject-1", "auditor"),
        ({"groups": ["admins", "everyone"], "email": "x@example.com"}, "subject-1", "admin"),
        ({**ADA, "email": "ADA@example.com"}, "ada@example.com", "admin"),
        ({"groups": ["everyone"], "aud": [CLIENT, "x"], "azp": CLIENT}, "subject-1", "viewer"),
    ],
    ids=["a text", "the highest counts", "a list", "a verified address", "several audiences"],
)
async def test_a_person_has_the_role_of_their_claims(
    claims: dict[str, Any], name: str, role: str, tmp_path: Path
) -> None:
    async with place(tmp_path) as here:
        browser = await here.session(**claims)
        assert await here.whose(browser) == (name, role)
        assert (await ask(here.admin, "GET", "/api/calls", browser)).status == 200
        assert (await post(here.admin, "/api/sign-out", {}, browser)).status == 200
        assert await here.whose(browser) == (None, None)


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"groups": "Everyone"},
        {"groups": {"everyone": True}},
        {"groups": [["everyone"], 1, None]},
        {"email": "ada@example.com"},
        {"email": "ada@example.com", "email_verified": "true"},
        {"email": "ada@example.com", "email_verified": False},
        {"email": "ada@example.com.evil.example", "email_verified": True},
        {"email": ["ada@example.com"], "email_verified": True},
        {"preferred_username": "ada@example.com", "name": "admins"},
    ],
    ids=str,
)
async def test_a_person_without_a_role_is_refused_by_name(claims: dict[str, Any], tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.provider.person = claims
        answer = await here.sign_in()
        assert answer.status == 403
        assert "has no role at this gateway. Ask its operator" in answer.error["message"]
        assert "set-cookie" not in answer.headers


async def test_a_letter_that_only_looks_like_ascii_is_no_other_person(tmp_path: Path) -> None:
    async with place(tmp_path, admins=["kim@example.com"]) as here:
        here.provider.person = {"email": "\u212aim@example.com", "email_verified": True}  # the Kelvin sign
        assert "\u212aim@example.com".lower() == "kim@example.com"
        assert (await here.sign_in()).status == 403


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
async def test_the_client_authenticates_as_its_provider_wants(method: str, tmp_path: Path) -> None:
    metadata = {"token_endpoint_auth_methods_supported": [method]}
    secret = {"client_secret": None} if method == "none" else {}
    async with place(tmp_path, {"metadata": metadata}, **secret) as here:
        await here.session(**ADA)
        in_form = {name for name in here.provider.used if name.startswith("client_")}
    expected = {"client_secret_basic": set(), "client_secret_post": {"client_id", "client_secret"}}
    assert in_form == expected.get(method, {"client_id"})


async def test_a_key_of_an_elliptic_curve_signs_too(tmp_path: Path) -> None:
    async with place(tmp_path, {"sign": lambda claims: signed(claims, EC, "ES256", "ec")}) as here:
        assert await here.whose(await here.session(**ADA)) == ("ada@example.com", "admin")


async def test_what_the_provider_is_asked_for(tmp_path: Path) -> None:
    async with place(tmp_path, scopes=["email", "groups"]) as here:
        url, _ = await here.begin()
        query = dict(parse_qsl(urlsplit(url).query))
    assert url.startswith(f"{here.provider.issuer}/authorize?")
    assert query["scope"] == "openid email groups"
    assert query["redirect_uri"] == f"{here.admin}/sign-in"
    assert min(len(query[name]) for name in ("state", "nonce", "code_challenge")) == 43
    assert len({query[name] for name in ("state", "nonce", "code_challenge")}) == 3


async def test_cookies_are_for_the_panel_s_own_page_and_for_https_if_it_came_by_it(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.provider.person = ADA
        for scheme, prefix in (("https", "__Host-hookgate-panel-"), ("http", "hookgate-panel-")):
            answer = await here.sign_in({**SAME, "Origin": f"{scheme}://localhost"})
            cookie, *flags = answer.headers["set-cookie"].split("; ")
            assert cookie.startswith(prefix)
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
            assert ("Secure" in flags) == (scheme == "https")
            assert await here.whose(page_headers(answer)) == ("ada@example.com", "admin")


async def test_a_proxy_may_hide_the_host_of_the_panel_s_page(tmp_path: Path) -> None:
    async with place(tmp_path, url="https://panel.example.com/hookgate/") as here:
        own = {**SAME, "Origin": "https://panel.example.com"}
        answer = await post(here.admin, "/api/sign-in/begin", {}, own)
        query = dict(parse_qsl(urlsplit(answer.json["url"]).query))
        assert query["redirect_uri"] == "https://panel.example.com/hookgate/sign-in"
        for origin in ("https://panel.example.com.evil.example", "http://panel.example.com", "null"):
            other = {**SAME, "Origin": origin}
            assert (await post(here.admin, "/api/sign-in/begin", {}, other)).status == 403


async def test_a_claim_can_name_people(tmp_path: Path) -> None:
    async with place(tmp_path, name_claim="preferred_username") as here:
        browser = await here.session(groups="everyone", preferred_username="Ada Byron")
        assert (await here.whose(browser))[0] == "Ada Byron"
        for name in ("a\nb", "\u202eadA", "", 1, "x" * 201):
            browser = await here.session(groups="everyone", preferred_username=name)
            assert (await here.whose(browser))[0] == "subject-1"


# ---- attacks on the flow


async def test_a_flow_of_another_browser_does_not_allow_signing_in(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.provider.person = ADA
        (mine, _), (_, theirs) = await here.begin(), await here.begin()
        sent = await here.visit(mine)
        for flow in (theirs, None, "", "x", ["x"], 7, "1.x"):
            assert_not_begun(await here.finish(flow, sent))
        assert "/token" not in here.provider.asked


@pytest.mark.parametrize(
    "state", [None, "", "x", 1, ["x"], "x" * 100_000, "\ud800"], ids=lambda state: repr(state)[:9]
)
async def test_another_state_is_refused(state: Any, tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.provider.person = ADA
        url, flow = await here.begin()
        answer = await here.finish(flow, {**await here.visit(url), "state": state})
        assert answer.status in (400, 403, 413)
        assert "/token" not in here.provider.asked


def assert_not_begun(answer: Answer) -> None:
    assert (answer.status, "was not begun in this browser" in answer.error["message"]) == (403, True)


async def test_a_flow_is_finished_once(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.provider.person = ADA
        url, flow = await here.begin()
        sent = await here.visit(url)
        assert (await here.finish(flow, sent)).status == 200
        assert_not_begun(await here.finish(flow, sent))
        assert_not_begun(await here.finish(flow, {**sent, "code": (await here.visit(url))["code"]}))
        assert here.provider.asked.count("/token") == 1


async def test_a_code_of_another_flow_is_worth_nothing(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.provider.person = ADA
        (mine, flow), (other, _) = await here.begin(), await here.begin()
        code = (await here.visit(other))["code"]
        answer = await here.finish(flow, {**await here.visit(mine), "code": code})
        assert (answer.status, "set-cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize("issuer", ["https://evil.example", ""])
async def test_the_answer_of_another_issuer_is_refused(issuer: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.provider.person = ADA
        url, flow = await here.begin()
        assert_not_begun(await here.finish(flow, {**await here.visit(url), "iss": issuer}))
        assert "/token" not in here.provider.asked


async def test_an_issuer_that_names_itself_must(tmp_path: Path) -> None:
    names = {"authorization_response_iss_parameter_supported": True}
    async with place(tmp_path, {"metadata": names}) as here:
        here.provider.person = ADA
        assert_not_begun(await here.sign_in())
        url, flow = await here.begin()
        sent = {**await here.visit(url), "iss": here.provider.issuer}
        assert (await here.finish(flow, sent)).status == 200


def test_a_flow_expires() -> None:
    now = [1000.0]
    configured = {"issuer": "https://a.example", "client_id": "c", "url": "https://b.example", **ROLES}

    async def flow_key() -> bytes:
        return b"key"

    flows = sign_in.SignIn(SignInSettings.model_validate(configured), flow_key, lambda: now[0])
    for seconds in (sign_in.FLOW_SECONDS - 1, sign_in.FLOW_SECONDS + 1):
        now[0] = 1000.0
        flow = f"1000.{seconds}"
        sent = {"flow": flow, "state": sign_in._Flow(flow, b"key").derived("state")}
        now[0] += seconds
        if seconds < sign_in.FLOW_SECONDS:
            flows._checked_flow(sent, b"key")
        else:
            with pytest.raises(Exception, match="took more than ten minutes"):
                flows._checked_flow(sent, b"key")


async def test_only_the_code_of_a_provider_s_error_is_shown(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        for code, told in {"access_denied": " (access_denied)", "<b>call 555-0100</b>": ""}.items():
            url, flow = await here.begin()
            state = (await here.visit(url))["state"]
            sent = {"error": code, "error_description": "call 555-0100", "state": state}
            answer = await here.finish(flow, sent)
            assert answer.error["message"] == f"The identity provider did not sign you in{told}."


@pytest.mark.parametrize("path", ["sign-in", "sign-in/begin", "sign-in/finish", "sign-out", "hooks/switch"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {**SAME, "Sec-Fetch-Site": "cross-site"},
        {**SAME, "Origin": "https://evil.example"},
    ],
    ids=["form", "cross-site", "origin"],
)
async def test_another_page_s_post_does_nothing(headers: dict[str, str], path: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        assert (await post(here.admin, f"/api/{path}", {}, headers)).status == 403
        assert here.provider.asked == []


async def test_a_link_to_the_page_or_to_the_api_does_nothing(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        url, flow = await here.begin()
        sent = "&".join(f"{name}={value}" for name, value in (await here.visit(url)).items())
        for path in (
            "/sign-in",
            "/?return=//evil.example",
            f"/sign-in?{sent}",
            "/sign-in?next=https://evil.example",
        ):
            answer = await ask(here.admin, "GET", path, SAME)
            assert (answer.status, "location" in answer.headers) == (200, False)
            assert "set-cookie" not in answer.headers
        for path in ("begin", "finish"):
            assert (await ask(here.admin, "GET", f"/api/sign-in/{path}?flow={flow}&{sent}", SAME)).status in (
                401,
                403,
            )
        assert "/token" not in here.provider.asked


# ---- ID tokens


def unsigned(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, None, "none", {"kid": "rsa"})


def signed_with_the_public_key(claims: dict[str, Any]) -> str:
    """The confusion of algorithms: the public key as the secret of an HMAC."""
    parts = [json.dumps(each).encode() for each in ({"alg": "HS256", "kid": "rsa", "typ": "JWT"}, claims)]
    head = b".".join(base64.urlsafe_b64encode(each).rstrip(b"=") for each in parts)
    signature = jwt.get_algorithm_by_name("HS256").sign(head, json.dumps(public_jwk(RSA, "rsa")).encode())
    return (head + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def changed(**different: Any) -> Any:
    return lambda claims: signed({**claims, **different})


NOW = int(time.time())
FORGED = {
    "nonce": changed(nonce="another"),
    "no nonce": changed(nonce=None),
    "odd nonce": changed(nonce=["x"]),
    "audience": changed(aud="another"),
    "no audience": changed(aud=None),
    "authorized party": changed(azp="another"),
    "several audiences": changed(aud=[CLIENT, "another"]),
    "issuer": changed(iss="https://evil.example"),
    "expired": changed(exp=NOW - 60, iat=NOW - 90),
    "never expires": changed(exp=None),
    "not yet": changed(iat=NOW + 600, exp=NOW + 900),
    "not issued": changed(iat=None),
    "nobody": changed(sub=None),
    "odd subject": changed(sub="a\nb"),
    "long subject": changed(sub="x" * 256),
    "unsigned": unsigned,
    "HMAC with the public key": signed_with_the_public_key,
    "another key": lambda claims: signed(claims, OTHER),
    "unknown key": lambda claims: signed(claims, OTHER, kid="two"),
    "another algorithm": lambda claims: signed(claims, algorithm="PS256"),
    "long algorithm": lambda claims: signed(claims, algorithm="RS512"),
    "no token": lambda _: "x",
    "nothing": lambda _: None,
    "deep": lambda _: (
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9." + base64.urlsafe_b64encode(b"[" * 90_000).decode() + ".AA"
    ),
}


@pytest.mark.parametrize("sign", FORGED.values(), ids=list(FORGED))
async def test_a_forged_token_does_not_allow_signing_in(
    sign: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with place(tmp_path, {"sign": sign, "person": ADA}) as here:
        answer = await here.sign_in()
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)
    assert "eyJ" not in caplog.text + answer.body.decode()


@pytest.mark.parametrize("algorithm", ["RS512", "PS256"])
async def test_other_algorithms_are_refused_even_if_the_provider_has_a_key_for_them(
    algorithm: str, tmp_path: Path
) -> None:
    keys = [public_jwk(RSA, "rsa", algorithm)]
    sign = partial(signed, key=RSA, algorithm=algorithm)
    async with place(tmp_path, {"sign": sign, "keys": keys, "person": ADA}) as here:
        assert (await here.sign_in()).status == 403


# ---- a provider that misbehaves

HUGE = b" " * (openid.MAX_BYTES + 1)
BROKEN = {
    "down": lambda: web.Response(status=503),
    "elsewhere": lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
    "too large": lambda: web.Response(body=HUGE + b"{}"),
    "compressed": lambda: web.Response(
        body=b"\x1f\x8b\x08" + b"x" * 64, headers={"Content-Encoding": "gzip"}
    ),
    "no JSON": lambda: web.Response(text="<html>"),
    "deep": lambda: web.Response(body=b"[" * 200_000),
    "another kind": lambda: web.json_response(["x"]),
    "long header": lambda: web.Response(text="{}", headers={"X-Long": "x" * 100_000}),
}


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
async def test_a_provider_that_misbehaves_cannot_sign_a_person_in(
    path: str, broken: Any, tmp_path: Path
) -> None:
    async with place(tmp_path, {"answers": {path: broken}, "person": ADA}) as here:
        began = await post(here.admin, "/api/sign-in/begin", {}, SAME)
        answer = began
        if began.status == 200:
            answer = await here.sign_in()
        assert answer.status in (403, 502)
        assert "identity provider cannot be reached, or its answer is not valid" in answer.error["message"]
        assert (await ask(here.admin, "GET", "/api/calls", BEARER)).status == 200


NO_DOCUMENT = {
    "too large": lambda _: web.Response(body=b" " * openid.MAX_BYTES + b"{}"),
    "redirected": lambda issuer: web.Response(status=302, headers={"Location": f"{issuer}/keys"}),
    "an error": lambda _: web.Response(status=500, text="{}"),
    "created": lambda _: web.Response(status=201, text="{}"),
}


@pytest.mark.parametrize("answer", NO_DOCUMENT.values(), ids=list(NO_DOCUMENT))
@pytest.mark.parametrize("form", [None, {"code": "x"}], ids=["GET", "POST"])
async def test_only_a_small_answer_of_the_address_itself_is_a_document(answer: Any, form: Any) -> None:
    async with openid_provider() as provider:
        provider.answers["/x"] = lambda: answer(provider.issuer)
        with pytest.raises(openid.ProviderError):
            await openid.fetch(f"{provider.issuer}/x", form)


async def test_a_compressed_answer_is_not_expanded() -> None:
    packed = gzip.compress(b" " * 100_000)
    async with openid_provider() as provider:
        provider.answers["/x"] = lambda: web.Response(body=packed, headers={"Content-Encoding": "gzip"})
        assert await openid.fetch(f"{provider.issuer}/x") == packed


def test_a_provider_elsewhere_cannot_name_endpoints_on_this_machine_without_tls() -> None:
    plain = {"jwks_uri": "http://127.0.0.1:8080/keys"}
    assert openid._endpoint(plain, "jwks_uri", "http://localhost:9000") == plain["jwks_uri"]
    with pytest.raises(openid.ProviderError):
        openid._endpoint(plain, "jwks_uri", "https://login.example.com")


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://user:secret@evil.example/"},
        {"authorization_endpoint": "//evil.example/"},
        {"authorization_endpoint": None},
        {"jwks_uri": 7},
    ],
    ids=str,
)
async def test_a_configuration_with_endpoints_elsewhere_is_not_used(
    metadata: dict[str, Any], tmp_path: Path
) -> None:
    async with place(tmp_path, {"metadata": metadata}) as here:
        assert (await post(here.admin, "/api/sign-in/begin", {}, SAME)).status == 502
        assert here.provider.asked == ["/.well-known/openid-configuration"]


async def test_people_at_a_slow_provider_do_not_wait_in_any_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MAX_FINISHING", 0)
    monkeypatch.setattr(sign_in, "WAIT_SECONDS", 0)
    async with place(tmp_path, {"person": ADA}) as here:
        answer = await here.sign_in()
    assert (answer.status, "Too many people" in answer.error["message"]) == (429, True)


async def test_addresses_take_turns_to_finish_a_sign_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def finish(address: str) -> None:
        url, flow = await here.begin()
        body = {"flow": flow, "state": dict(parse_qsl(urlsplit(url).query))["state"], "code": "x"}
        connector = aiohttp.TCPConnector(local_addr=(address, 0))
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.post(f"{here.admin}/api/sign-in/finish", json=body, headers=SAME) as answer,
        ):
            assert answer.status == 403
        order.append(address)

    order: list[str] = []
    stranger, person = "127.0.0.2", "127.0.0.3"
    queue = FairQueue(1)
    monkeypatch.setattr(sign_in, "FairQueue", lambda _: queue)
    async with place(tmp_path) as here:
        await queue.acquire("", "another")
        calls: list[asyncio.Task[None]] = []
        for address in (*[stranger] * 5, person):
            calls.append(asyncio.create_task(finish(address)))
            await eventually(lambda: queue.waiting == len(calls))
        queue.release()
        await asyncio.gather(*calls)
    assert order == [stranger, person, *[stranger] * 4]


# ---- sessions


async def test_a_cookie_without_the_page_s_proof_is_not_accepted(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        stolen = {**await here.session(**ADA), "X-Hookgate-Panel": "1"}
        assert await here.whose(stolen) == (None, None)
        assert (await ask(here.admin, "GET", "/api/calls", stolen)).status == 401
        switch = {"name": "one", "on": False}
        assert (await post(here.admin, "/api/hooks/switch", switch, stolen)).status == 401


async def test_a_lost_role_is_lost_in_every_browser_at_the_next_sign_in(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        first = await here.session(groups="admins")
        other = await here.session(groups="admins", sub="subject-2")
        second = await here.session(groups="everyone")
        assert [await here.whose(each) for each in (first, second, other)] == [
            (None, None),
            ("subject-1", "viewer"),
            ("subject-2", "admin"),
        ]
        here.provider.person = {"groups": "nothing"}
        assert (await here.sign_in()).status == 403
        assert await here.whose(second) == (None, None)


async def test_signing_in_again_ends_the_browser_s_session(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        first = await here.session(groups="admins")
        here.provider.person = {"groups": "everyone", "sub": "subject-2"}
        url, flow = await here.begin()
        second = page_headers(
            await here.finish(flow, await here.visit(url), {**SAME, "Cookie": first["Cookie"]})
        )
        assert await here.whose(first) == (None, None)
        assert await here.whose(second) == ("subject-2", "viewer")


async def test_sessions_are_bounded_for_each_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel_table, "MAX_SESSIONS_OF_PERSON", 2)
    async with place(tmp_path) as here:
        other = await here.session(groups="everyone", sub="subject-2")
        browsers = [await here.session(groups="everyone") for _ in range(3)]
        names = [(await here.whose(each))[0] for each in (other, *browsers)]
    assert names == ["subject-2", None, "subject-1", "subject-1"]


async def test_a_session_lasts_as_long_as_configured(tmp_path: Path) -> None:
    async with place(tmp_path, {"person": ADA}, session_hours=0.5) as here:
        answer = await here.sign_in()
    assert "Max-Age=1800" in answer.headers["set-cookie"].split("; ")


async def test_a_sign_in_may_begin_and_end_at_different_gateways(url: str | None, tmp_path: Path) -> None:
    """A load balancer sends each request of a browser to any of them."""
    async with openid_provider(person=ADA) as provider:
        configured = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": SECRET, **ROLES}
        async with (
            panel_gateway(tmp_path, HOOKS, sign_in=configured, store_url=url) as first,
            panel_gateway(
                tmp_path, HOOKS, sign_in={**configured, "url": first.admin}, store_url=url
            ) as second,
        ):
            one, other = Place(first, provider), Place(second, provider)
            at, flow = await one.begin()
            browser = page_headers(await other.finish(flow, await one.visit(at)))
            for gateway in (one, other):
                assert await gateway.whose(browser) == ("ada@example.com", "admin")
            assert (await post(one.admin, "/api/sign-out", {}, browser)).status == 200
            assert await other.whose(browser) == (None, None)


async def test_live_events_end_with_the_session(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        browser = await here.session(groups="everyone")
        headers = {name: browser[name] for name in ("Cookie", "X-Hookgate-Panel")}
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"{here.admin}/api/live", headers=headers) as live,
        ):
            assert await live.content.readline() == b"retry: 2000\n"
            assert (await post(here.admin, "/api/sign-out", {}, browser)).status == 200
            await post(here.admin, "/api/hooks/switch", {"name": "one", "on": False}, {**SAME, **BEARER})
            assert b"data" not in await live.content.read()


async def test_the_admin_token_stays_for_programs(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        told = (await ask(here.admin, "GET", "/api/session", BEARER)).json
        assert told == {"name": "admin token", "role": "admin", "provider": "localhost"}
        told = (await ask(here.admin, "GET", "/api/session", {})).json
        assert told == {"name": None, "role": None, "provider": "localhost"}
    async with panel_gateway(tmp_path) as gateway:
        assert (await ask(gateway.admin, "GET", "/api/session", {})).json["provider"] is None
        assert (await post(gateway.admin, "/api/sign-in/begin", {}, SAME)).status == 404
        assert (await post(gateway.admin, "/api/sign-in/finish", {}, SAME)).status == 404


# ---- settings


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"url": "https://a", **ROLES}, "client_id"),
        ({"client_id": "c", **ROLES}, "sign_in.url"),
        ({"client_id": "c", "url": "https://a"}, "nobody has a role"),
    ],
)
def test_a_gateway_at_which_no_one_could_sign_in_does_not_start(
    section: dict[str, Any], problem: str
) -> None:
    config = Config.model_validate({"sign_in": {"issuer": "https://login.example.com", **section}})
    [found] = [each for name, each in conflicts(config) if name == "sign_in.issuer"]
    assert problem in found


@pytest.mark.parametrize(
    "section",
    [
        {"issuer": "http://login.example.com"},
        {"url": "http://panel.example.com"},
        {"client_secret": "a", "client_secret_file": "b"},
        {"roles_claim": "email"},
    ],
    ids=str,
)
def test_settings_that_would_be_unsafe_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"https://|remove one|roles_claim"):
        SignInSettings.model_validate(section)


def test_a_secret_comes_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("canary-of-the-client\n")
    configured = SignInSettings.model_validate({"client_secret": "canary-of-the-client"})
    assert "canary" not in repr(configured) + configured.model_dump_json()
    assert access.client_secret_source(SignInSettings(client_secret_file=file)) == "canary-of-the-client"
    file.write_text("two\nlines")
    with pytest.raises(ConfigError, match=r"sign_in\.client_secret_file: .*nothing else"):
        access.client_secret_source(SignInSettings(client_secret_file=file))
    with pytest.raises(ConfigError, match="does not exist"):
        access.client_secret_source(SignInSettings(client_secret_file=tmp_path / "none"))
