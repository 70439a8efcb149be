"""What an OpenID provider publishes: its endpoints (discovery) and its public keys, read when needed."""

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import aiohttp
import jwt
from yarl import URL

from hookgate.proxy.config.values import is_loopback
from hookgate.proxy.errors import describe_os_error

log = logging.getLogger("hookgate.keys")

INVALID_TOKEN = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
"""The errors of tokens and key sets. Some claims and nested JSON raise errors that PyJWT does not convert."""

UNREACHABLE = (OSError, TimeoutError, aiohttp.ClientError)
"""The errors of requests to a provider."""

FETCH_SECONDS = 30.0
"""The shortest time between two attempts to read a document, whatever tokens arrive."""
MAX_AGE_SECONDS = 3600.0
MAX_BYTES = 1024 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=3)

T = TypeVar("T")


class ProviderError(ValueError):
    """Raised for a provider's document that cannot be used. The message does not quote it."""


def failure_cause(error: BaseException) -> str:
    """Describe why a provider's document cannot be used, without quoting it."""
    if isinstance(error, ProviderError):
        return str(error)
    return describe_os_error(error) if isinstance(error, OSError) else type(error).__name__


class Published(Generic[T]):
    """A document that a provider publishes, read again when it is old or lacks something.

    If it cannot be read, the previous one stays in use.
    """

    def __init__(
        self, what: str, read: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`what` names the document in the log. `read` may raise UNREACHABLE and INVALID_TOKEN."""
        self._what, self._read, self._clock = what, read, clock
        self.known: T | None = None
        """The document that was read last."""
        self._read_at = self._tried_at = -math.inf  # when it was read, and when the last attempt began
        self._reading: asyncio.Task[None] | None = None

    async def current(self, suffices: Callable[[T], bool] = lambda _: True) -> T | None:
        """Return the document, or None if it could never be read.

        It is read again if it is old or does not suffice, but not too often.
        """
        is_fresh = self._clock() < self._read_at + MAX_AGE_SECONDS
        if is_fresh and self.known is not None and suffices(self.known):
            return self.known
        if self._reading is None and self._clock() >= self._tried_at + FETCH_SECONDS:
            self._tried_at = self._clock()
            # A task of its own: other calls need the document even if this one is cancelled.
            self._reading = asyncio.create_task(self._read_again())
        if self._reading is not None:
            await asyncio.shield(self._reading)
        return self.known

    async def _read_again(self) -> None:
        try:
            self.known = await self._read()
            self._read_at = self._clock()
        except (*UNREACHABLE, *INVALID_TOKEN) as error:
            log.error("%s cannot be read: %s", self._what, failure_cause(error))
        finally:
            self._reading = None


class KeySet:
    """The public keys of a provider."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], what: str) -> None:
        """`read` returns the key set's JSON; `what` names it in the log."""
        self._read = read
        self._published = Published(what, self._parsed)

    @property
    def is_known(self) -> bool:
        """Whether any key has been read."""
        return bool(self._published.known)

    async def key(self, kid: object) -> jwt.PyJWK | None:
        """Return the key with an ID, or the only key if `kid` is None. Returns None if there is none."""
        keys = await self._published.current(lambda known: _key_in(known, kid) is not None)
        return None if keys is None else _key_in(keys, kid)

    async def _parsed(self) -> Mapping[str | None, jwt.PyJWK]:
        return usable_keys(json.loads(await self._read()))


def _key_in(keys: Mapping[str | None, jwt.PyJWK], kid: object) -> jwt.PyJWK | None:
    if kid is None and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(kid) if isinstance(kid, str) else None


def usable_keys(document: Any) -> dict[str | None, jwt.PyJWK]:
    """Return the keys for signatures in a JWKS by their IDs. Raises ProviderError if it is not one."""
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ProviderError("it is not a key set")
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


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """The part of a provider's configuration that sign-in and tokens need."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    posts_secret: bool
    """Whether the token endpoint accepts the client's secret in the body only."""
    names_issuer: bool
    """Whether answers of the authorization endpoint name the issuer (RFC 9207)."""


async def discover(issuer: str) -> ProviderMetadata:
    """Read a provider's configuration. Raises UNREACHABLE, and ValueError if it cannot be used."""
    url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    document = json.loads(await fetch(url))
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise ProviderError("it is not the configuration of this issuer")
    methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    return ProviderMetadata(
        authorization_endpoint=_endpoint(document, "authorization_endpoint", issuer),
        token_endpoint=_endpoint(document, "token_endpoint", issuer),
        jwks_uri=_endpoint(document, "jwks_uri", issuer),
        posts_secret="client_secret_post" in methods and "client_secret_basic" not in methods,
        names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _endpoint(document: Mapping[str, Any], name: str, issuer: str) -> str:
    """Return a URL of the configuration. Raises ProviderError unless it is https, or http on a loopback
    address for an issuer that is on one as well."""
    text = document.get(name)
    url = URL(text) if isinstance(text, str) else URL()
    plain = url.scheme == "http" and is_loopback(url.host or "") and is_loopback(URL(issuer).host or "")
    if not url.host or url.user or url.password or url.fragment or not (url.scheme == "https" or plain):
        raise ProviderError(f"{name} is not an https URL")
    return str(text)


async def fetch(
    url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return a document of a provider, from a GET request, or from a POST request with `form`.

    Raises UNREACHABLE or, if the status is not 200 or the document is too large, ProviderError. A `form` may
    also be answered with 400 or 401 and a document that describes the error, which is returned.
    """
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False) as session,
        session.request(
            "GET" if form is None else "POST",
            url,
            data=form,
            allow_redirects=False,
            headers={"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})},
        ) as response,
    ):
        data = await response.content.read(MAX_BYTES + 1)
        while len(data) <= MAX_BYTES and (more := await response.content.read(MAX_BYTES)):
            data += more
    if response.status != 200 and not (form is not None and response.status in (400, 401)):
        raise ProviderError(f"the status is {response.status}")
    if len(data) > MAX_BYTES:
        raise ProviderError("the document is too large")
    return data
