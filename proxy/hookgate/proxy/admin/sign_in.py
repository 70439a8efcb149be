"""Sign-in of people at an OpenID Connect provider: the authorization code flow with PKCE.

The panel's page begins the flow and, when the provider has sent the browser back, finishes it, both with
requests of its own. So requests from other pages have no effect. The page keeps the flow's random ID in its
storage, not in a cookie: pages on other ports of the same machine can neither read nor write it. State, nonce
and code verifier are derived from the ID with a key that gateways with the same database share. So flows take
no memory, starting many flows cannot evict those of others, and a flow may end at another gateway.
"""

import asyncio
import hmac
import json
import logging
import re
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus

import jwt
from cachetools import TTLCache
from yarl import URL

from hookgate.hooks.fair_queue import FairQueue
from hookgate.proxy.admin.access import client_secret_source
from hookgate.proxy.admin.roles import Person, Role, UnknownPersonError
from hookgate.proxy.config import SignInSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.openid import (
    INVALID_TOKEN,
    UNREACHABLE,
    KeySet,
    ProviderError,
    ProviderMetadata,
    Published,
    discover,
    failure_cause,
    fetch,
)

log = logging.getLogger("hookgate")

FLOW_SECONDS = 600
"""The time that somebody has to sign in at the provider."""

MAX_FINISHING = 8
"""Requests to the provider's token endpoint at the same time. Addresses of clients take turns."""

WAIT_SECONDS = 10.0
"""How long a sign-in waits for its turn."""

_MAX_USED = 10_000
_MAX_NAME = 200
_ALGORITHMS = ("RS256", "ES256")
_LEEWAY_SECONDS = 30
_MAX_VALUE = 4096
"""Characters of a code or a state."""

_NOT_BEGUN = (
    "This sign-in was not begun in this browser, was used already, or took more than ten minutes. "
    "Sign in again."
)
_UNAVAILABLE = (
    "The identity provider cannot be reached, or its answer is not valid. The gateway's log says why."
)
_BUSY = "Too many people are signing in at the moment. Sign in again."


@dataclass(frozen=True, slots=True)
class _Flow:
    """A flow of sign-in: its ID, which the browser knows, and the key from which the rest is derived."""

    id: str
    key: bytes

    def derived(self, purpose: str) -> str:
        text = f"{purpose}.{self.id}".encode(errors="replace")
        return _base64(hmac.digest(self.key, text, "sha256"))


class SignIn:
    """Signs people in at one provider. `clock` returns seconds since 1970."""

    def __init__(
        self,
        settings: SignInSettings,
        flow_key: Callable[[], Awaitable[bytes]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the client's secret. Raises ConfigError.

        `flow_key` returns a random key, the same at all gateways at which a flow may begin or end.
        """
        self._settings, self._flow_key, self._clock = settings, flow_key, clock
        self._issuer, self._client = str(settings.issuer), str(settings.client_id)
        self._secret = client_secret_source(settings)
        self._redirect = f"{str(settings.url).rstrip('/')}/sign-in"
        self._metadata = Published("the configuration of the identity provider", self._discover)
        self._keys = KeySet(self._read_keys, "the keys of the identity provider")
        # The provider refuses a code that was used at another gateway.
        self._used: TTLCache[str, bool] = TTLCache(_MAX_USED, FLOW_SECONDS, clock)
        self._finishing = FairQueue(MAX_FINISHING)

    @property
    def provider(self) -> str:
        """The provider's host name, for people."""
        return URL(self._issuer).host or self._issuer

    @property
    def session_seconds(self) -> float:
        return self._settings.session_hours * 3600

    async def begin(self) -> tuple[str, str]:
        """Return the URL at the provider where a new flow continues, and the ID of the flow.

        Raises ApiError if the provider cannot be reached.
        """
        provider = await self._provider()
        flow = _Flow(f"{int(self._clock())}.{secrets.token_urlsafe(32)}", await self._flow_key())
        scopes = dict.fromkeys(("openid", *self._settings.scopes))
        challenge = sha256(flow.derived("verifier").encode()).digest()
        url = URL(provider.authorization_endpoint).update_query(
            response_type="code",
            client_id=self._client,
            redirect_uri=self._redirect,
            scope=" ".join(scopes),
            state=flow.derived("state"),
            nonce=flow.derived("nonce"),
            code_challenge=_base64(challenge),
            code_challenge_method="S256",
        )
        return str(url), flow.id

    async def finish(self, answer: Mapping[str, Any], address: str) -> Person:
        """Return the person whom the provider has sent back. Raises ApiError.

        Args:
            answer: The ID of the `flow`, and the parameters with which the provider has sent the browser.
            address: The client's address, one of those that take turns.
        """
        flow = self._checked_flow(answer, await self._flow_key())
        provider = await self._provider()
        issuer = answer.get("iss")
        if issuer != self._issuer and (issuer is not None or provider.names_issuer):
            log.warning("a sign-in was refused: the response came from a different issuer")
            raise ApiError(403, _NOT_BEGUN)
        code = answer.get("code")
        if not isinstance(code, str) or not 0 < len(code) <= _MAX_VALUE:
            raise ApiError(403, f"The identity provider did not sign you in{_error_code(answer)}.")
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._finishing.acquire("", address)
        except TimeoutError:
            raise ApiError(429, _BUSY) from None
        try:
            token = await self._exchange(provider, code, flow.derived("verifier"))
            claims = await self._verified(token, flow)
        except jwt.PyJWTError as error:  # its message may quote the token
            log.warning("a sign-in was refused: the ID token is not valid: %s", type(error).__name__)
            raise ApiError(403, _UNAVAILABLE) from None
        except (*UNREACHABLE, *INVALID_TOKEN) as error:
            log.warning("a sign-in failed at the identity provider: %s", failure_cause(error))
            raise ApiError(403, _UNAVAILABLE) from None
        finally:
            self._finishing.release()
        return self._person(claims)

    def _checked_flow(self, answer: Mapping[str, Any], key: bytes) -> _Flow:
        """Return the flow, if this browser has begun it and not used it. Raises ApiError (403)."""
        flow, state = answer.get("flow"), answer.get("state")
        if (
            not isinstance(state, str)
            or not isinstance(flow, str)
            or max(len(state), len(flow)) > _MAX_VALUE
            or not hmac.compare_digest(
                state.encode(errors="replace"), _Flow(flow, key).derived("state").encode()
            )
            or self._clock() > int(flow.partition(".")[0]) + FLOW_SECONDS
            or flow in self._used
        ):
            log.warning("a sign-in was refused: not begun in this browser, already used, or too late")
            raise ApiError(403, _NOT_BEGUN)
        self._used[flow] = True
        return _Flow(flow, key)

    async def _provider(self) -> ProviderMetadata:
        provider = await self._metadata.current()
        if provider is None:
            raise ApiError(502, _UNAVAILABLE)
        return provider

    async def _discover(self) -> ProviderMetadata:
        return await discover(self._issuer)

    async def _read_keys(self) -> bytes:
        return await fetch((await self._provider()).jwks_uri)

    async def _exchange(self, provider: ProviderMetadata, code: str, verifier: str) -> str:
        """Return the ID token for a code. Raises UNREACHABLE and ValueError."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "code_verifier": verifier,
        }
        headers: dict[str, str] = {}
        if self._secret is None:
            form["client_id"] = self._client
        elif provider.posts_secret:
            form |= {"client_id": self._client, "client_secret": self._secret}
        else:
            pair = f"{quote_plus(self._client)}:{quote_plus(self._secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        answer = json.loads(await fetch(provider.token_endpoint, form, headers))
        if not isinstance(answer, dict) or not isinstance(answer.get("id_token"), str):
            raise ProviderError(f"there is no ID token{_error_code(answer)}")
        return str(answer["id_token"])

    async def _verified(self, token: str, flow: _Flow) -> Mapping[str, Any]:
        """Return the claims of an ID token of this flow. Raises one of INVALID_TOKEN."""
        key = await self._keys.key(jwt.get_unverified_header(token).get("kid"))
        if key is None:
            raise jwt.InvalidKeyError
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name] if key.algorithm_name in _ALGORITHMS else [],
            audience=self._client,
            issuer=self._issuer,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "iss", "aud", "sub", "nonce"]},
        )
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._client) != self._client:
            raise jwt.InvalidAudienceError
        nonce = claims["nonce"]
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode(errors="replace"), flow.derived("nonce").encode()
        ):
            raise jwt.InvalidTokenError
        return claims

    def _person(self, claims: Mapping[str, Any]) -> Person:
        """Return the person with these claims. Raises ApiError (403) without a role."""
        subject, email = claims["sub"], _verified_email(claims)
        if not isinstance(subject, str) or not re.fullmatch(r"[ -~]{1,255}", subject):
            log.warning("a sign-in was refused: the claim sub is not a text of printable characters")
            raise ApiError(403, _UNAVAILABLE)
        name = _name(claims, self._settings.name_claim) or email or subject
        role = self._role(claims, email)
        if role is None:
            log.warning("a sign-in of %s was refused: it has no role in sign_in", name)
            raise UnknownPersonError(
                f"{name} has no role at this gateway. Ask its operator for one: sign_in.viewers, "
                "sign_in.auditors and sign_in.admins name the people who have one.",
                subject,
            )
        log.info("%s has signed in to the panel as %s", name, role)
        return Person(name, role, subject)

    def _role(self, claims: Mapping[str, Any], email: str) -> Role | None:
        """Return the highest role of the claims' values and a verified email address."""
        given = claims.get(self._settings.roles_claim)
        values = {each for each in (given if isinstance(given, list) else [given]) if isinstance(each, str)}
        members: tuple[tuple[Role, Iterable[str]], ...] = (
            ("admin", self._settings.admins),
            ("auditor", self._settings.auditors),
            ("viewer", self._settings.viewers),
        )
        for role, names in members:
            if any(name in values or (email and name.lower() == email) for name in names):
                return role
        return None


def _name(claims: Mapping[str, Any], claim: str | None) -> str:
    """Return the configured name of a person, or an empty string if it is not a short text on one line."""
    name = claims.get(claim) if claim else None
    return name if isinstance(name, str) and len(name) <= _MAX_NAME and name.isprintable() else ""


def _verified_email(claims: Mapping[str, Any]) -> str:
    """Return the email address in lower case, or an empty string if there is none that is verified.

    Addresses beyond ASCII do not count: some of their letters have ASCII letters as their lower case.
    """
    email = claims.get("email")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        return ""
    return email.lower() if re.fullmatch(r"[!-~]{1,200}", email) and "@" in email else ""


def _error_code(answer: Any) -> str:
    """Return the error code of a provider for a message. Its description may be anybody's text."""
    code = answer.get("error") if isinstance(answer, dict) else None
    return f" ({code})" if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,60}", code) else ""


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
