"""Tokens of an identity provider: JWTs that callers send in place of keys, verified with its public keys."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt

from hookgate.proxy.config import TokenSettings
from hookgate.proxy.config.values import key_name
from hookgate.proxy.keys.openid import INVALID_TOKEN, KeySet, discover, fetch
from hookgate.proxy.keys.scopes import TOKEN, IssuedKey, KeyScope, KeyState

log = logging.getLogger("hookgate.keys")

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a key pair only: with a shared secret, the public key could be used to sign."""

_JWT = re.compile(r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LEEWAY_SECONDS = 30
"""How far the clocks of the issuer and the gateway may differ."""
_MAX_OWNER = 200


class Tokens:
    """Identifies callers by the tokens of one issuer."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._scope = KeyScope.model_validate({})
        self._keys = KeySet(self._read_keys, "the keys of the issuer of tokens")

    async def identify(self, credential: str) -> IssuedKey | None:
        """Return the caller of a token. Returns None for a credential that is not a token of this issuer."""
        found = _JWT.search(credential)
        if found is None or _issuer_of(found[0]) != self._settings.issuer:
            return None
        sent = found[0]
        digest = hashlib.sha256(sent.encode()).digest()
        try:
            if credential.rpartition(" ")[2] != sent:
                raise jwt.InvalidTokenError
            key = await self._keys.key(jwt.get_unverified_header(sent).get("kid"))
            if key is None and not self._keys.is_known:
                return _refused(digest, "unavailable")
            verified = self._verified(sent, key)
        except jwt.ExpiredSignatureError:  # its signature is valid
            return _refused(digest, "expired")
        except INVALID_TOKEN as error:
            log.warning("a token was refused: %s", type(error).__name__)  # messages may quote the token
            return _refused(digest, "unknown")
        return self._caller(verified, digest)

    def _verified(self, token: str, key: jwt.PyJWK | None) -> Mapping[str, Any]:
        """Return the claims of a token that this key has signed. Raises one of `INVALID_TOKEN`."""
        if key is None:
            raise jwt.InvalidKeyError
        return jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name] if key.algorithm_name in _ALGORITHMS else [],
            audience=list(self._settings.audience),
            issuer=self._settings.issuer,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["exp", "aud", "iss"]},
        )

    def _caller(self, claims: Mapping[str, Any], digest: bytes) -> IssuedKey:
        owner = claims.get(self._settings.owner_claim)
        if not isinstance(owner, str) or not 0 < len(owner) <= _MAX_OWNER:
            log.warning("a token was refused: its claim %r is not a name", self._settings.owner_claim)
            return _refused(digest, "unknown")
        team = claims.get(self._settings.team_claim) if self._settings.team_claim else None
        named_team = _name(team) if isinstance(team, str) and team else ""
        expires = int(claims["exp"]) + _LEEWAY_SECONDS
        return IssuedKey(TOKEN, _name(owner), named_team, "valid", digest, self._scope, expires)

    async def _read_keys(self) -> bytes:
        """Return the issuer's key set, from the configured place or from the one that it publishes."""
        settings = self._settings
        if settings.jwks_file is not None:
            return await asyncio.to_thread(Path(settings.jwks_file).read_bytes)
        if settings.jwks_url is not None:
            return await fetch(settings.jwks_url)
        return await fetch((await discover(str(settings.issuer))).jwks_uri)


def _issuer_of(token: str) -> object:
    """Return the issuer that a token names, without verifying it, or None."""
    try:
        return jwt.decode(token, options={"verify_signature": False}).get("iss")
    except INVALID_TOKEN:
        return None


def _name(claim: str) -> str:
    """Return a claim as the name of an owner or team: itself if it can be one, or else its hash."""
    try:
        if not claim.startswith("token-"):  # which could be the name of another one
            return key_name(claim)
    except ValueError:
        pass
    return f"token-{hashlib.sha256(claim.encode(errors='surrogatepass')).hexdigest()[:24]}"


def _refused(digest: bytes, state: KeyState) -> IssuedKey:
    """Return the caller of a token that is not accepted, named by its hash."""
    return IssuedKey(TOKEN, digest.hex()[:24], "", state)
