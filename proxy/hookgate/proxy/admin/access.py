"""Access to the panel: it needs the admin token or a session of somebody who has signed in."""

import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from aiohttp import hdrs, web

from hookgate.proxy.admin.roles import ROUTES, TOKEN_HOLDER, Person
from hookgate.proxy.admin.sessions import PanelSessions
from hookgate.proxy.config import AdminSettings, ConfigError, SignInSettings
from hookgate.proxy.config.values import admin_token, client_secret, host_and_port, is_loopback, read_secret
from hookgate.proxy.errors import ApiError
from hookgate.translator.strictjson import dumps

log = logging.getLogger("hookgate")

_PRIVATE = (".localhost", ".svc", ".cluster.local", ".internal")
"""Domains that nobody can register: of this machine, of Kubernetes, and of private networks."""


class KnownHosts:
    """The host names of one listener: `names`, this machine's, and those that no public site can have."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in (*names, socket.gethostname())}

    def knows(self, header: str) -> bool:
        """Return True if a request with this Host may be answered. Browsers always send a Host."""
        try:
            host = _plain(urlsplit(f"//{header}").hostname or "")
        except ValueError:
            return False
        if not header or host in self._names or host.endswith(_PRIVATE):
            return True
        return bool(host) and ("." not in host or _is_address(host))


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


HEADER = "X-Hookgate-Panel"
"""The header that every POST must have: pages of other origins cannot send it without a CORS preflight.

With a cookie its value must be the session's proof, which `/api/live` and downloads take in their query. A
cookie is sent to every port of a machine, such as one where an agent serves pages; only the panel's page
knows the proof.
"""

PROOF = "proof"
"""The parameter with the proof, in requests for which a page cannot set a header."""

SESSION_SECONDS = 12 * 3600.0
"""The lifetime in seconds of a session that begins with the admin token."""

_WARNING_SECONDS = 60.0
_OTHER_PAGE = "Another page made your browser send this request; open the panel itself."
_OWN_SITES = ("none", "same-origin")
"""The values of Sec-Fetch-Site for requests that no other site has made; programs do not send the header."""

_NO_SIGN_IN = "The admin token is required: sign in, or send it as Authorization: Bearer."


class Access:
    """Checks requests to the admin listener on `port`. `clock` returns seconds and must be monotonic.

    Wrong tokens do not lock out an address: many clients may share it, and tokens are too long to be guessed.
    """

    def __init__(
        self,
        port: int,
        token: str,
        sessions: PanelSessions,
        clock: Callable[[], float] = time.monotonic,
        origin: str = "",
    ) -> None:
        """`origin` is the panel's configured origin; a proxy before it may replace the header Host."""
        self._token, self._clock, self._origin = token, clock, origin
        # Browsers share cookies between all ports of a host, so the name contains the port.
        self._port = port
        self.sessions = sessions
        self._wrong, self._warn_at = 0, clock()

    async def authorize(self, request: web.BaseRequest, route: str) -> Person | None:
        """Return who makes a request, or None if its route is open to all. Raises ApiError (401 or 403)."""
        role = ROUTES[route]
        if role is None:
            return None
        person = await self.authenticate(request)
        if not person.may(role):
            raise ApiError(403, f"This needs the role {role}. Your role is {person.role}.")
        return person

    async def authenticate(self, request: web.BaseRequest) -> Person:
        """Return the person who made a request.

        Raises ApiError (401 or 403; 503 if sessions cannot be read).
        """
        if request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
            raise ApiError(403, _OTHER_PAGE)
        person = await self.sessions.find(self._cookie(request), _proof(request))
        if person is not None:
            return person
        scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() != "bearer":
            raise ApiError(401, _NO_SIGN_IN)
        self._compare(request, given.strip())
        return TOKEN_HOLDER

    def check_change(self, request: web.BaseRequest) -> None:
        """Check that a POST comes from the panel or a program. Raises ApiError (403) for other pages."""
        site = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get(hdrs.ORIGIN)
        same = (
            origin is None
            or origin.lower() == self._origin
            or origin.lower().partition("://")[2] == request.headers.get(hdrs.HOST, "").lower()
        )
        if not request.headers.get(HEADER) or site not in _OWN_SITES or not same:
            raise ApiError(403, f"Only the panel, or a program that sends {HEADER}: 1, can make changes.")

    async def sign_in(self, request: web.BaseRequest, token: str) -> web.Response:
        """Return the response that begins a session with the admin token. Raises ApiError (401)."""
        self._compare(request, token)
        return await self.begin_session(request, TOKEN_HOLDER, SESSION_SECONDS)

    async def begin_session(self, request: web.BaseRequest, person: Person, seconds: float) -> web.Response:
        """Return a response with the cookie and the proof of a new session, which ends the browser's old one.

        If the person's role has changed, it ends all their sessions.
        """
        new = await self.sessions.begin(person, seconds, replaced=self._cookie(request))
        response = web.Response(body=dumps({"proof": new.proof}), content_type="application/json")
        response.headers[hdrs.CACHE_CONTROL] = "no-store"
        self._set_cookie(response, request, new.cookie, int(seconds))
        return response

    async def sign_out(self, request: web.BaseRequest) -> web.Response:
        """Return a response that ends the session."""
        await self.sessions.end(self._cookie(request))
        response = web.Response(body=b"{}", content_type="application/json")
        self._set_cookie(response, request, "", 0)
        return response

    def _set_cookie(self, response: web.Response, request: web.BaseRequest, value: str, seconds: int) -> None:
        """Set the cookie of a session. It is never sent over plain HTTP if the page was loaded with https."""
        secure = _is_secure(request)
        response.set_cookie(
            self._cookie_name(secure=secure),
            value,
            max_age=seconds,
            secure=secure,
            httponly=True,
            samesite="Strict",
            path="/",
        )

    def _cookie(self, request: web.BaseRequest) -> str:
        """Return the cookie of a request, or an empty string."""
        names = (self._cookie_name(secure=secure) for secure in (True, False))
        return next((request.cookies[name] for name in names if name in request.cookies), "")

    def _cookie_name(self, *, secure: bool) -> str:
        # Browsers accept the prefix only from this host, over https: no other host of the domain can set it.
        return f"{'__Host-' if secure else ''}hookgate-panel-{self._port}"

    def _compare(self, request: web.BaseRequest, given: str) -> None:
        if _equal(given, self._token):
            return
        self._wrong += 1
        if self._clock() >= self._warn_at:
            self._warn_at = self._clock() + _WARNING_SECONDS
            log.warning(
                "requests with a wrong admin token so far: %d, the last from %s", self._wrong, request.remote
            )
        raise ApiError(401, "This is not the admin token.")


def _is_secure(request: web.BaseRequest) -> bool:
    """Return True if the page that makes a request was loaded with https, as its browser says."""
    return request.headers.get(hdrs.ORIGIN, "").lower().startswith("https://")


def _proof(request: web.BaseRequest) -> str:
    """Return the proof that a page sends in addition to its cookie, or another text."""
    given = request.headers.get(HEADER)
    return given or dict(parse_qsl(request.raw_path.partition("?")[2])).get(PROOF, "")


def _equal(given: str, right: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), right.encode())


def admin_token_source(settings: AdminSettings) -> str | None:
    """Return the configured admin token, or None if there is none. Raises ConfigError."""
    if settings.token is not None:
        return settings.token.get_secret_value()
    if settings.token_file is None:
        return None
    try:
        return read_secret(settings.token_file, admin_token)
    except ValueError as error:
        raise ConfigError([f"admin.token_file: {error}"]) from None


def client_secret_source(settings: SignInSettings) -> str | None:
    """Return the configured secret of the client, or None if there is none. Raises ConfigError."""
    if settings.client_secret is not None:
        return settings.client_secret.get_secret_value()
    if settings.client_secret_file is None:
        return None
    try:
        return read_secret(settings.client_secret_file, client_secret)
    except ValueError as error:
        raise ConfigError([f"sign_in.client_secret_file: {error}"]) from None


@contextmanager
def create_token(state: Path, port: int) -> Iterator[tuple[str, Path | None]]:
    """Create a token, and yield it with the file that contains it while the block runs.

    The file is None if it cannot be written. Each start creates a new token, so that old ones are useless.
    """
    token, path = secrets.token_urlsafe(32), _file(state, port)
    try:
        _write(path, token)
    except OSError as error:
        log.warning(
            "the admin token cannot be saved in %s: %s; set admin.token_file, or another folder with --state",
            path,
            error.strerror,
        )
        yield token, None
        return
    try:
        yield token, path
    finally:
        with contextlib.suppress(OSError):
            if path.read_text(encoding="utf-8") == token:  # else it is another gateway's by now
                path.unlink()


def find_token(state: Path, address: tuple[str, int]) -> str | None:
    """Return the token of a gateway on this machine, for a loopback address only, or None.

    Raises ValueError if the file cannot be read.
    """
    host, port = address
    if not is_loopback(host):
        return None
    path = _file(state, port)
    try:
        return admin_token(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read: {error.strerror}; run this command as the user who runs the gateway"
        ) from None


def panel_link(url: str, token: str) -> str:
    """Return the URL that signs a browser in. The part after `#` is never sent to a server or as Referer."""
    host, port = host_and_port(url.removeprefix("http://"))
    if host in ("0.0.0.0", "::"):  # noqa: S104  # to be replaced, since no browser goes there
        url = f"http://127.0.0.1:{port}"
    return f"{url}/#token={token}"


def _file(state: Path, port: int) -> Path:
    return state / f"admin-token-{port}"


def _write(path: Path, token: str) -> None:
    """Replace the file with a new one that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(token)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
