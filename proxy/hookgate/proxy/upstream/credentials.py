"""The gateway's own credentials: which of them a call is sent with, in which order, and how.

Secrets leave this module only as headers of a request to the upstream, together with their mask's text.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache

from hookgate.proxy.config import CredentialSettings, UpstreamSettings
from hookgate.proxy.config.values import api_key, read_secret
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.callers import KEY_HEADER
from hookgate.proxy.routes.table import Api, Route
from hookgate.proxy.routes.vertex import is_stateless, on_vertex

if TYPE_CHECKING:  # it needs google-auth
    from hookgate.proxy.upstream.google_tokens import GoogleToken

_OF_CALLERS = re.compile(r"authorization|x-goog-(?:api-key|user-project|iam-.*|authenticated-user-.*)", re.I)
"""The headers with which a caller authenticates, or says on whose account it calls."""

_AVOIDED_SECONDS = 10.0
"""How long a credential is avoided that has failed, if the answer does not say."""
_MAX_AVOIDED_SECONDS = 60.0
_MAX_AVOIDED = 1000

_NO_GOOGLE_AUTH = (
    "needs google-auth, which is not installed; install the extra google: pip install '.[google]' in a "
    "checkout of hookgate"
)
_NONE = (
    "This gateway has no credential of its own for {api} that {team} may use, so keys that it has issued "
    "cannot be used there. Ask its operator to add one to [credentials.NAME], or use another API."
)


class CredentialsError(ValueError):
    """Raised for credentials that cannot be used. `problems` are pairs of a setting and a message."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(message for _, message in problems))


@dataclass(frozen=True, slots=True, eq=False)
class Credential:
    """One credential: an API key, or a source of access tokens."""

    name: str
    api: Api
    project: str
    locations: tuple[str, ...]
    """The locations of Vertex AI; a single empty one for a credential without a project."""
    serves: frozenset[str]
    teams: frozenset[str]
    api_key: str
    token: "GoogleToken | None" = None

    def is_for(self, route: Route) -> bool:
        """Return whether calls of the route's API and team are sent with it."""
        return route.api in self.serves and (not self.teams or route.credential_team in self.teams)

    def route_in(self, route: Route, location: str) -> Route:
        """Return the route to call with it. Raises ApiError if its API does not have such a route."""
        return on_vertex(route, self.project, location) if self.api == "vertex" else route

    async def secret(self) -> str:
        """Return the key, or an access token. Raises ApiError (503) if there is no token in time."""
        return self.api_key if self.token is None else await self.token.get()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A credential, with the location and the route with which a call can be sent."""

    credential: Credential
    location: str
    route: Route

    async def authenticated(self, headers: Mapping[str, str]) -> tuple[dict[str, str], str]:
        """Return the headers with the secret in place of the caller's credentials, and the secret.

        The answer must not be compressed, because the secret could not be masked in it. Raises ApiError (503)
        if there is no access token.
        """
        kept = {name: value for name, value in headers.items() if not _OF_CALLERS.fullmatch(name)}
        secret = await self.credential.secret()
        # The Gemini API's OpenAI-compatible path accepts a key as OpenAI's clients send it, and nowhere else.
        is_openai = self.route.api == "gemini" and "/openai" in self.route.template
        as_bearer = self.credential.token is not None or is_openai
        sent = {"Authorization": f"Bearer {secret}"} if as_bearer else {KEY_HEADER: secret}
        return {**kept, "Accept-Encoding": "identity", **sent}, secret


class GatewayCredentials:
    """All credentials of the gateway, in the order in which they are tried."""

    def __init__(
        self,
        upstream: UpstreamSettings,
        tables: Mapping[str, CredentialSettings],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read all keys. `now` returns seconds.

        Raises CredentialsError with every problem, and without any key.
        """
        problems: list[tuple[str, str]] = []
        self._held: list[Credential] = []
        for setting, name, settings in _configured(upstream, tables):
            try:
                self._held.append(_read(setting, name, settings, upstream))
            except _UnusableError as error:
                problems.append((setting, f"{error.place}: {error}"))
        if problems:
            raise CredentialsError(problems)
        self._now = now
        self._avoided: LRUCache[tuple[str, str, str], float] = LRUCache(_MAX_AVOIDED)

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Refresh access tokens ahead of their expiry while the block runs."""
        async with AsyncExitStack() as stack:
            for credential in self._held:
                if credential.token is not None:
                    await stack.enter_async_context(credential.token.kept_fresh())
            yield

    @property
    def tokens(self) -> Iterator["GoogleToken"]:
        """The sources of access tokens."""
        return (each.token for each in self._held if each.token is not None)

    def candidates(self, route: Route) -> list[Candidate]:
        """Return the candidates for a call, in the order in which to try them; at least one.

        A call that depends on what is stored in a project has one candidate, always the same. Raises ApiError
        if there is none.
        """
        held = [each for each in self._held if each.is_for(route)]
        found: list[Candidate] = []
        problem: ApiError | None = None
        for credential in held:
            for location in credential.locations:
                try:
                    found.append(Candidate(credential, location, credential.route_in(route, location)))
                except ApiError as error:
                    problem = problem or error
        if not found:
            raise problem or _missing(route)
        if len(found) > 1:
            if not is_stateless(route):
                return found[:1]
            now = self._now()
            found.sort(key=lambda each: self._avoided.get(_quota_key(each), 0.0) > now)
        return found

    def avoid(self, candidate: Candidate, retry_after: str = "") -> None:
        """Try a failed candidate last, for as long as its answer asks for, or for ten seconds.

        `retry_after` is the value of the answer's header, in seconds; a date counts as none.
        """
        named = float(retry_after) if re.fullmatch(r"[0-9]{1,9}", retry_after) else _AVOIDED_SECONDS
        self._avoided[_quota_key(candidate)] = self._now() + min(named, _MAX_AVOIDED_SECONDS)


def _quota_key(candidate: Candidate) -> tuple[str, str, str]:
    """Return what a quota of Google applies to: a credential's project, a location, and a model."""
    return candidate.credential.name, candidate.location, candidate.route.model


def _missing(route: Route) -> ApiError:
    team = f"the team {route.credential_team}" if route.credential_team else "this key"
    return ApiError(403, _NONE.format(api=route.api, team=team), "UPSTREAM_KEY_MISSING")


# ---- reading


class _UnusableError(ValueError):
    """Raised for a credential that cannot be used. The message contains no secret."""

    def __init__(self, place: str, why: str) -> None:
        self.place = place
        super().__init__(why)


def _configured(
    upstream: UpstreamSettings, tables: Mapping[str, CredentialSettings]
) -> Iterator[tuple[str, str, CredentialSettings]]:
    """Yield the setting that names a file, the name and the settings of each credential, in order."""
    for api in ("gemini", "vertex"):
        key, file = getattr(upstream, f"{api}_key"), getattr(upstream, f"{api}_key_file")
        if key is not None or file is not None:
            name = f"upstream.{api}_key"
            settings = CredentialSettings.model_validate({"api": api, "key": key, "key_file": file})
            yield f"{name}_file", name, settings
    for name, settings in tables.items():
        yield f"credentials.{name}", name, settings


def _read(setting: str, name: str, settings: CredentialSettings, upstream: UpstreamSettings) -> Credential:
    key, token = "", None
    if settings.has_tokens:
        try:
            from hookgate.proxy.upstream.google_tokens import GoogleToken  # noqa: PLC0415  # an extra
        except ImportError:
            raise _UnusableError(setting, _NO_GOOGLE_AUTH) from None
        try:
            token = GoogleToken(name, settings.service_account_file, upstream)
        except ValueError as error:
            raise _UnusableError(f"{setting}.service_account_file", str(error)) from None
    elif settings.key is not None:
        key = settings.key.get_secret_value()
    else:
        assert settings.key_file is not None  # noqa: S101  # the settings have been checked
        try:
            key = read_secret(settings.key_file, api_key)
        except ValueError as error:
            place = f"{setting}.key_file" if setting.endswith(name) else setting
            raise _UnusableError(place, str(error)) from None
    return Credential(
        name,
        settings.api,
        settings.project or "",
        settings.locations if settings.project else ("",),
        frozenset(settings.serves or (settings.api,)),
        frozenset(settings.teams),
        key,
        token,
    )
