"""An OpenID provider on loopback that signs in everyone, and can send false claims."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import unquote_plus, urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT, SECRET = "hookgate-panel", "the secret: a/b+c%"
RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


def public_jwk(key: Any, kid: str, algorithm: str = "RS256") -> dict[str, Any]:
    """The public key of a key set."""
    document = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key()))
    return {**document, "kid": kid, "use": "sig", "alg": algorithm}


def signed(claims: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", kid: str = "rsa") -> str:
    """An ID token; claims that are None are left out."""
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(present, key, algorithm, {"kid": kid})


@dataclass
class OpenIdProvider:
    """A provider with one client. Tests change its fields to change what it does."""

    issuer: str
    person: dict[str, Any] = field(default_factory=dict)
    """The claims of the person who is signed in here."""
    keys: list[dict[str, Any]] = field(default_factory=list)
    """The key set, if it is not the usual one."""
    asks: bool = False
    """Whether the person has to press a button."""
    sign: Callable[[dict[str, Any]], str] = signed
    """Makes an ID token of its claims."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Fields of the configuration that differ."""
    answers: dict[str, Callable[[], web.StreamResponse]] = field(default_factory=dict)
    """Answers in place of the usual ones, by path."""
    asked: list[str] = field(default_factory=list)
    """The paths of all requests."""
    used: dict[str, str] = field(default_factory=dict)
    """The parameters of the latest request for a token."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.answers:
            return self.answers[request.path]()
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(self._configuration())
            case "/keys":
                usual = [public_jwk(RSA, "rsa"), public_jwk(EC, "ec", "ES256")]
                return web.json_response({"keys": self.keys or usual})
            case "/authorize":
                return self._authorized(dict(request.query))
            case "/token":
                form = {name: str(value) for name, value in (await request.post()).items()}
                return self._token(request.headers.get("Authorization", ""), form)
        return web.Response(status=204 if request.path == "/favicon.ico" else 404)

    def _configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            **self.metadata,
        }

    def _authorized(self, query: dict[str, str]) -> web.Response:
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self._codes[code] = query
        back = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        if not self.asks:
            return web.Response(status=302, headers={"Location": back})
        text = f'<!doctype html><title>Provider</title><h1>Provider</h1><a href="{escape(back)}">Continue</a>'
        return web.Response(text=text, content_type="text/html")

    def _token(self, authorization: str, form: dict[str, str]) -> web.Response:
        self.used = form
        if authorization:
            pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            client = unquote_plus(pair.partition(":")[0]), unquote_plus(pair.partition(":")[2])
        else:
            client = form.get("client_id", ""), form.get("client_secret", "")
        begun = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if client not in ((CLIENT, SECRET), (CLIENT, "")):
            return web.json_response({"error": "invalid_client"}, status=401)
        if begun is None or (begun["redirect_uri"], begun["code_challenge"]) != (
            form["redirect_uri"],
            challenge,
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "subject-1",
            "iat": now,
            "exp": now + 300,
            "nonce": begun["nonce"],
            **self.person,
        }
        return web.json_response({"token_type": "Bearer", "access_token": "x", "id_token": self.sign(claims)})


@asynccontextmanager
async def openid_provider(**fields: Any) -> AsyncIterator[OpenIdProvider]:
    """A running provider. For a browser it is another site than what is at 127.0.0.1."""
    provider = OpenIdProvider("", **fields)
    runner = web.ServerRunner(web.Server(provider.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.issuer = f"http://localhost:{runner.addresses[0][1]}"
    try:
        yield provider
    finally:
        await runner.cleanup()
