"""Tokens of an identity provider: JWTs that callers send in place of keys, verified with its public keys."""

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import jwt

from hookgate.proxy.config import TokenSettings
from hookgate.proxy.config.values import key_name
from hookgate.proxy.errors import describe_os_error
from hookgate.proxy.identity.callers import TOKEN, IssuedKey, KeyState
from hookgate.proxy.identity.key_scopes import KeyScope

log = logging.getLogger("hookgate.keys")

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a key pair only: with a shared secret, the public key could be used to sign."""

_INVALID = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
"""The errors of tokens. Some claims and nested JSON raise errors that the library does not convert."""

_JWT = re.compile(r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LEEWAY_SECONDS = 30
_FETCH_SECONDS = 30.0
"""The shortest time between two attempts to read the keys, whatever tokens arrive."""
_MAX_AGE_SECONDS = 3600.0
_TIMEOUT = aiohttp.ClientTimeout(total=3)
_MAX_BYTES = 1024 * 1024
_MAX_OWNER = 200


class Tokens:
    """Identifies callers by the tokens of one issuer."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._scope = KeyScope.model_validate({})
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._read_at = -_MAX_AGE_SECONDS
        self._reading = asyncio.Lock()

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
            key = await self._key(jwt.get_unverified_header(sent).get("kid"))
            if key is None and not self._keys:
                return _refused(digest, "unavailable")
            verified = self._verified(sent, key)
        except jwt.ExpiredSignatureError:  # its signature is valid
            return _refused(digest, "expired")
        except _INVALID as error:
            log.warning("a token was refused: %s", type(error).__name__)  # messages may quote the token
            return _refused(digest, "unknown")
        return self._caller(verified, digest)

    def _verified(self, token: str, key: jwt.PyJWK | None) -> Mapping[str, Any]:
        """Return the claims of a token that this key has signed. Raises one of `_INVALID`."""
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
        return IssuedKey(TOKEN, _name(owner), named_team, "valid", digest, self._scope, int(claims["exp"]))

    # ---- the issuer's keys

    async def _key(self, kid: str | None) -> jwt.PyJWK | None:
        """Return the issuer's key with an ID, or its only key if the token names none.

        The keys are read again if they are old, or if this one is not among them, but not too often.
        """
        known = self._known(kid)
        if known is not None and time.monotonic() < self._read_at + _MAX_AGE_SECONDS:
            return known
        async with self._reading:  # also waits for another call that reads them
            now = time.monotonic()
            if now >= self._read_at + _FETCH_SECONDS:
                self._read_at = now
                await self._read()
        return self._known(kid)

    def _known(self, kid: str | None) -> jwt.PyJWK | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid) if isinstance(kid, str) else None

    async def _read(self) -> None:
        """Read the issuer's keys. If that fails, the previous ones stay in use."""
        try:
            if self._settings.jwks_file is not None:
                data = await asyncio.to_thread(Path(self._settings.jwks_file).read_bytes)
            else:
                data = await self._fetch(str(self._settings.jwks_url))
            self._keys = _usable_keys(json.loads(data))
        except (OSError, TimeoutError, aiohttp.ClientError, *_INVALID) as error:
            why = describe_os_error(error) if isinstance(error, OSError) else type(error).__name__
            log.error("the keys of the issuer of tokens cannot be read: %s", why)

    @staticmethod
    async def _fetch(url: str) -> bytes:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            response.raise_for_status()
            data = await response.content.read(_MAX_BYTES + 1)
            while len(data) <= _MAX_BYTES and (more := await response.content.read(_MAX_BYTES)):
                data += more
        if response.status != 200 or len(data) > _MAX_BYTES:
            raise ValueError("not a key set")
        return data


def _issuer_of(token: str) -> object:
    """Return the issuer that a token names, without verifying it, or None."""
    try:
        return jwt.decode(token, options={"verify_signature": False}).get("iss")
    except _INVALID:
        return None


def _usable_keys(document: Any) -> dict[str | None, jwt.PyJWK]:
    """Return the keys for signatures in a JWKS by their IDs. Raises ValueError if it is not one."""
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("not a key set")
    keys: dict[str | None, jwt.PyJWK] = {}
    for each in document["keys"]:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
            continue
        if not isinstance(each.get("kid"), str | None):
            continue
        try:
            keys[each.get("kid")] = jwt.PyJWK.from_dict(each)
        except jwt.PyJWTError:
            continue  # of a kind that is not supported
    return keys


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
