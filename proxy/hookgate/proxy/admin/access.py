"""Access to the panel: it needs the admin token and a known host name."""

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
from cachetools import TTLCache

from hookgate.proxy.config import AdminSettings, ConfigError
from hookgate.proxy.config.values import admin_token, host_and_port, is_loopback
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

With a cookie its value must be the session's proof, which `/api/live` takes in its query. A cookie is sent to
every port of a machine, such as one where an agent serves pages; only the panel's page knows the proof.
"""

SESSION_SECONDS = 12 * 3600.0
MAX_SESSIONS = 100

_WARNING_SECONDS = 60.0
_OTHER_PAGE = "Another page made your browser send this request; open the panel itself."
_OWN_SITES = ("none", "same-origin")
"""The values of Sec-Fetch-Site for requests that no other site has made; programs do not send the header."""

_NO_SIGN_IN = "The admin token is required: sign in, or send it as Authorization: Bearer."


class Access:
    """Checks requests to the admin listener on `port`. `clock` returns seconds and must be monotonic.

    Wrong tokens do not lock out an address: many clients may share it, and tokens are too long to be guessed.
    """

    def __init__(self, port: int, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._clock = token, clock
        # Browsers share cookies between all ports of a host, so the name contains the port.
        self._cookie = f"hookgate-panel-{port}"
        # The sessions of browsers, each with the proof that its page sends in addition to the cookie.
        self._proofs: TTLCache[str, str] = TTLCache(MAX_SESSIONS, SESSION_SECONDS, clock)
        self._wrong, self._warn_at = 0, clock()

    def check(self, request: web.BaseRequest) -> None:
        """Check that a request may read data. Raises ApiError (401 or 403)."""
        if request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
            raise ApiError(403, _OTHER_PAGE)
        if self._in_session(request):
            return
        scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() != "bearer":
            raise ApiError(401, _NO_SIGN_IN)
        self._compare(request, given.strip())

    @staticmethod
    def check_change(request: web.BaseRequest) -> None:
        """Check that a POST comes from the panel or a program. Raises ApiError (403) for other pages."""
        site = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get(hdrs.ORIGIN)
        same = origin is None or urlsplit(origin).netloc.lower() == request.headers.get(hdrs.HOST, "").lower()
        if not request.headers.get(HEADER) or site not in _OWN_SITES or not same:
            raise ApiError(403, f"Only the panel, or a program that sends {HEADER}: 1, can make changes.")

    def sign_in(self, request: web.BaseRequest, token: str) -> web.Response:
        """Return a response with the cookie and the proof of a new session. Raises ApiError (401)."""
        self._compare(request, token)
        session, proof = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._proofs[session] = proof
        response = web.Response(body=dumps({"proof": proof}), content_type="application/json")
        response.headers[hdrs.CACHE_CONTROL] = "no-store"
        response.set_cookie(
            self._cookie, session, max_age=int(SESSION_SECONDS), httponly=True, samesite="Strict", path="/"
        )
        return response

    def sign_out(self, request: web.BaseRequest) -> web.Response:
        """Return a response that ends the session."""
        self._proofs.pop(request.cookies.get(self._cookie, ""), None)
        response = web.Response(body=b"{}", content_type="application/json")
        response.del_cookie(self._cookie, httponly=True, samesite="Strict", path="/")
        return response

    def _in_session(self, request: web.BaseRequest) -> bool:
        # A lookup of 256 random bits by hash reveals nothing about other sessions by its timing.
        proof = self._proofs.get(request.cookies.get(self._cookie, ""))
        if proof is None:
            return False
        given = request.headers.get(HEADER) or dict(parse_qsl(urlsplit(request.raw_path).query)).get(
            "proof", ""
        )
        return _equal(given, proof)

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


def _equal(given: str, right: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), right.encode())


def admin_token_source(settings: AdminSettings) -> str | None:
    """Return the configured admin token, or None if there is none. Raises ConfigError."""
    if settings.token is not None:
        return settings.token.get_secret_value()
    if settings.token_file is None:
        return None
    try:
        return admin_token(settings.token_file.read_text(encoding="utf-8").strip())
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}; check the path"
    except ValueError as error:
        wrong = str(error)
    raise ConfigError([f"admin.token_file: {settings.token_file}: {wrong}"])


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
