"""Tokens of an identity provider, at a whole gateway."""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from support.gateway.keys import ACCEPTING, UPSTREAM_KEY, denial_reason, issue, issuing_gateway, key_header
from support.gateway.loopback import listens
from support.upstream.openid_provider import openid_provider
from support.wire import HI, UNARY, post

from hookgate.proxy.config import Config, ConfigError, read_config
from hookgate.proxy.config.reading import conflicts
from hookgate.proxy.keys import openid, tokens

ISSUER = "https://login.example.com/"
RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
PRIVATE: dict[str, Any] = {
    "RS256": RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.fixture(autouse=True)
def all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No log line of any level holds a token or its claims."""
    caplog.set_level(logging.DEBUG)
    yield
    assert "eyJ" not in caplog.text
    assert "canary" not in caplog.text


def jwk(key: Any, kid: str, algorithm: str = "RS256") -> dict[str, Any]:
    """The public key of a key set."""
    document = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key()))
    return {**document, "kid": kid, "use": "sig", "alg": algorithm}


def token(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "one", **claims: Any) -> str:
    """A token; a claim that is None is left out."""
    payload = {
        "iss": ISSUER,
        "aud": "hookgate",
        "sub": "alice@example.com",
        "groups": "search",
        "email": "canary@example.com",
        "exp": int(time.time()) + 600,
        **claims,
    }
    present = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(present, key, algorithm, {"kid": kid} if kid else None)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def settings(folder: Path, *keys: dict[str, Any], **more: Any) -> dict[str, Any]:
    file = folder / "jwks.json"
    file.write_text(json.dumps({"keys": keys or [jwk(RSA, "one")]}))
    return {"issuer": ISSUER, "audience": ["hookgate"], "jwks_file": file, "team_claim": "groups", **more}


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_caller_is_named_by_its_claims_and_its_token_goes_nowhere(
    algorithm: str, tmp_path: Path
) -> None:
    seen: list[Any] = []
    keys = settings(tmp_path, jwk(PRIVATE[algorithm], "one", algorithm))
    hook = {**listens(seen), "when": {"keys": ["alice@example.com"], "teams": ["search"]}}
    async with issuing_gateway(tmp_path, {"BeforeModel": [hook]}, tokens=keys) as gateway:
        text = token(PRIVATE[algorithm], algorithm)
        answer = await post(gateway.url, UNARY, HI, bearer(text))
        [request] = gateway.recorded
    assert (answer.status, len(seen)) == (200, 1)
    assert request.headers["x-goog-api-key"] == UPSTREAM_KEY
    stored = (tmp_path / "audit.db").read_bytes() + (tmp_path / "keys.db").read_bytes()
    assert text not in json.dumps([dict(request.headers), seen])
    assert text.encode() not in stored
    assert b"alice@example.com" in stored


async def test_a_token_is_valid_a_little_longer_because_clocks_differ(tmp_path: Path) -> None:
    text = token(exp=int(time.time()) - 5)
    async with issuing_gateway(tmp_path, tokens=settings(tmp_path)) as gateway:
        assert (await post(gateway.url, UNARY, HI, bearer(text))).status == 200


def unsigned() -> str:
    payload = token().split(".")[1]
    header = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').rstrip(b"=").decode()
    return f"{header}.{payload}.AAAA"


def signed_with_the_public_key() -> str:
    """The confusion of algorithms: the public key as the secret of an HMAC."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').rstrip(b"=").decode()
    signing = f"{head}.{token().split('.')[1]}"
    secret = json.dumps(jwk(RSA, "one")).encode()
    signature = jwt.get_algorithm_by_name("HS256").sign(signing.encode(), secret)
    return f"{signing}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda: token(exp=int(time.time()) - 60), "KEY_EXPIRED", id="expired"),
        pytest.param(lambda: token(exp=None), "KEY_UNKNOWN", id="never expires"),
        pytest.param(lambda: token(exp=float("inf")), "KEY_UNKNOWN", id="infinite"),
        pytest.param(lambda: token(aud="another"), "KEY_UNKNOWN", id="audience"),
        pytest.param(lambda: token(aud=None), "KEY_UNKNOWN", id="no audience"),
        pytest.param(lambda: token(nbf=int(time.time()) + 600), "KEY_UNKNOWN", id="not yet valid"),
        pytest.param(lambda: token(OTHER), "KEY_UNKNOWN", id="another key"),
        pytest.param(lambda: token(OTHER, kid="two"), "KEY_UNKNOWN", id="unknown key"),
        pytest.param(lambda: token(algorithm="RS512"), "KEY_UNKNOWN", id="another algorithm"),
        pytest.param(unsigned, "KEY_UNKNOWN", id="unsigned"),
        pytest.param(signed_with_the_public_key, "KEY_UNKNOWN", id="HMAC with the public key"),
        pytest.param(lambda: token()[:-4] + "AAAA", "KEY_UNKNOWN", id="changed signature"),
        pytest.param(lambda: token(sub=None), "KEY_UNKNOWN", id="no owner"),
        pytest.param(lambda: token(sub="x" * 201), "KEY_UNKNOWN", id="long owner"),
        pytest.param(lambda: token() + ",", "KEY_UNKNOWN", id="more"),
    ],
)
async def test_a_token_that_is_not_valid_is_denied_before_any_hook(
    make: Any, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    async with issuing_gateway(
        tmp_path, {"BeforeModel": [listens(seen)]}, tokens=settings(tmp_path)
    ) as gateway:
        answer = await post(gateway.url, UNARY, HI, bearer(make()))
        assert not gateway.recorded
    assert (denial_reason(answer), seen) == (reason, [])
    assert any(message.startswith("a token was refused: ") for message in caplog.messages) == (
        reason == "KEY_UNKNOWN"
    )


async def test_tokens_of_other_issuers_are_the_callers_own_credentials(tmp_path: Path) -> None:
    own = token(iss="https://accounts.google.com")
    async with issuing_gateway(tmp_path, tokens=settings(tmp_path)) as gateway:
        assert (await post(gateway.url, UNARY, HI, bearer(own))).status == 200
        assert (await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))).status == 200
        assert gateway.recorded[0].headers["authorization"] == f"Bearer {own}"
        assert gateway.recorded[1].headers["x-goog-api-key"] == UPSTREAM_KEY


@pytest.mark.parametrize(
    "name", ["auth0|5f7c8", "a" * 33, "älice", "a\nb", "no-key", "token-", "token-5f7c8"]
)
async def test_a_claim_that_cannot_be_a_name_is_replaced_with_its_hash(name: str, tmp_path: Path) -> None:
    found = tokens.Tokens(_model(settings(tmp_path)))
    caller = await found.identify(token(sub=name))
    other = await found.identify(token(sub=name + "x"))
    assert caller is not None
    assert other is not None
    assert (caller.state, caller.owner[:6], len(caller.owner)) == ("valid", "token-", 30)
    assert name not in (caller.owner, other.owner)
    assert caller.owner != other.owner
    assert caller.owner == "token-" + sha256(name.encode()).hexdigest()[:24], "also after an upgrade"


def _model(section: dict[str, Any]) -> Any:
    return tokens.TokenSettings.model_validate(section)


# ---- the issuer's keys


@asynccontextmanager
async def issuer(*sets: Any) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that answers with each of these key sets in turn, then with the last; and what was asked."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        found = sets[min(len(asked), len(sets)) - 1]
        return found if isinstance(found, web.Response) else web.json_response({"keys": found})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}/jwks.json".format(*runner.addresses[0][:2]), asked
    finally:
        await runner.cleanup()


def from_url(url: str) -> dict[str, Any]:
    return {"issuer": ISSUER, "audience": ["hookgate"], "jwks_url": url}


async def test_entries_of_a_key_set_that_are_not_keys_for_signatures_are_skipped(tmp_path: Path) -> None:
    usable = jwk(RSA, "one")
    odd: list[Any] = [
        5,
        {**usable, "kid": 1},
        {**usable, "kid": ["one"]},
        {**usable, "kty": "odd", "kid": "two"},
    ]
    odd += [{**usable, "kid": "two", "use": "enc"}, {"kty": "oct", "k": "AAAA", "kid": "two"}]
    found = tokens.Tokens(_model(settings(tmp_path, *odd, usable)))
    states = [await found.identify(each) for each in (token(), token(kid=None), token(kid="two"))]
    assert [caller and caller.state for caller in states] == ["valid", "valid", "unknown"]


async def test_a_key_without_an_id_is_for_tokens_that_name_none(tmp_path: Path) -> None:
    unnamed = {name: value for name, value in jwk(RSA, "").items() if name not in ("kid", "use")}
    found = tokens.Tokens(_model(settings(tmp_path, unnamed)))
    states = [await found.identify(each) for each in (token(kid=None), token())]
    assert [caller and caller.state for caller in states] == ["valid", "unknown"]


async def test_keys_are_read_again_for_an_unknown_one_but_not_often(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [jwk(RSA, "one")], [jwk(RSA, "one"), jwk(OTHER, "two")]
    async with issuer(first, second) as (url, asked):
        found = tokens.Tokens(_model(from_url(url)))

        async def state(text: str) -> str:
            caller = await found.identify(text)
            assert caller is not None
            return caller.state

        assert await state(token()) == "valid"
        for number in range(20):
            assert await state(token(OTHER, kid=f"guessed-{number}")) == "unknown"
        assert await state(token(OTHER, kid="two")) == "unknown"  # rotated since
        assert len(asked) == 1
        monkeypatch.setattr(openid, "FETCH_SECONDS", 0)
        assert await state(token(OTHER, kid="two")) == "valid"
        assert await state(token()) == "valid"
        assert len(asked) == 2


async def test_the_keys_of_an_issuer_with_discovery_need_no_setting() -> None:
    async with openid_provider(keys=[jwk(RSA, "one")]) as provider:
        found = tokens.Tokens(_model({"issuer": provider.issuer, "audience": ["hookgate"]}))
        for key, state in ((RSA, "valid"), (OTHER, "unknown")):
            caller = await found.identify(token(key, iss=provider.issuer))
            assert caller is not None
            assert caller.state == state
        assert provider.asked == ["/.well-known/openid-configuration", "/keys"]
    async with openid_provider(metadata={"issuer": "https://evil.example"}) as provider:
        found = tokens.Tokens(_model({"issuer": provider.issuer, "audience": ["hookgate"]}))
        caller = await found.identify(token(iss=provider.issuer))
        assert caller is not None
        assert caller.state == "unavailable"


async def test_calls_that_arrive_together_wait_for_one_reading() -> None:
    async with issuer([jwk(RSA, "one")]) as (url, asked):
        found = tokens.Tokens(_model(from_url(url)))
        callers = await asyncio.gather(*(found.identify(token()) for _ in range(10)))
    assert {caller and caller.state for caller in callers} == {"valid"}
    assert len(asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=500),
        web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        web.Response(text="no JSON"),
        web.Response(text='{"keys": 1}'),
        web.Response(body=b" " * (openid.MAX_BYTES + 1)),
    ],
    ids=["error", "redirect", "text", "no set", "too large"],
)
async def test_keys_that_cannot_be_read_refuse_tokens_and_keep_the_known_ones(
    answer: web.Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openid, "FETCH_SECONDS", 0)
    async with issuer(answer) as (url, _):
        caller = await tokens.Tokens(_model(from_url(url))).identify(token())
    assert caller is not None
    assert caller.state == "unavailable"
    async with issuer([jwk(RSA, "one")], answer) as (url, asked):
        found = tokens.Tokens(_model(from_url(url)))
        for text in (token(), token(OTHER, kid="two"), token()):
            caller = await found.identify(text)
        assert caller is not None
        assert (caller.state, len(asked)) == ("valid", 2)


def test_a_shared_secret_is_no_key() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "kid": "one", "alg": "HS256"}
    assert openid.usable_keys({"keys": [secret, {"kty": "odd"}, 1, {**jwk(RSA, "e"), "use": "enc"}]}) == {}


@pytest.mark.parametrize(
    ("section", "problems"),
    [
        ({}, ["tokens need tokens.audience", "must be an https:// URL"]),
        ({"audience": ["a"]}, ["must be an https:// URL"]),
        ({"audience": ["a"], "jwks_url": "https://a", "jwks_file": "b"}, ["tokens.jwks_url and"]),
        ({"audience": ["a"], "jwks_url": "https://a"}, []),
        ({"audience": ["a"], "issuer": "https://login.example.com/"}, []),
        ({"audience": ["a"], "issuer": "http://login.example.com/"}, ["must be an https:// URL"]),
    ],
    ids=["nothing", "no keys", "two sources", "enough", "discovery", "discovery over plain HTTP"],
)
def test_a_gateway_that_could_verify_nothing_does_not_start(section: Any, problems: list[str]) -> None:
    config = {**ACCEPTING, "tokens": {"issuer": "x", **section}}
    found = [problem for _, problem in conflicts(Config.model_validate(config))]
    assert len(found) == len(problems)
    assert all(f"tokens.issuer: {each}" in one for each, one in zip(problems, found, strict=True))
    without = {"tokens": {"issuer": "x", "audience": ["a"], "jwks_url": "https://a"}}
    assert (
        "tokens need clients.issued_keys" in dict(conflicts(Config.model_validate(without)))["tokens.issuer"]
    )


def test_keys_are_not_read_over_plain_http() -> None:
    environ = {"HOOKGATE_TOKENS__JWKS_URL": "http://login.example.com/keys"}
    with pytest.raises(ConfigError, match=r"tokens\.jwks_url: must be an https:// URL"):
        read_config({"config": "/dev/null"}, environ)
