"""Who may see the panel: who has shown the admin token, from this machine too, since agents run there."""

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

from aiohttp import hdrs, web

from hookgate.proxy.errors import ApiError
from hookgate.translator.strictjson import dumps

HEADER = "X-Hookgate-Panel"
"""What every POST has to carry: no page of another origin can send it without being asked for leave.

With a cookie it has to be the session's proof, which `/api/live` takes in its query: a cookie goes to every
port of a machine, such as one where a guarded agent serves pages, and the proof is the panel's page's alone.
"""

SESSION_SECONDS = 12 * 3600.0
MAX_SESSIONS = 100

_WARNING_SECONDS = 60.0
_OTHER_PAGE = "Another page has made your browser ask for this; open the panel itself."
_OWN_SITES = ("none", "same-origin")
"""What browsers say of requests that no other page has made; programs say nothing."""

_NO_SIGN_IN = "Show the admin token: sign in, or send it as Authorization: Bearer."

log = logging.getLogger("hookgate")


@dataclass(frozen=True, slots=True)
class _SignedIn:
    """A browser's session: when it ends, and what its page has to show beside the cookie."""

    until: float
    proof: str


class Access:
    """Checks requests to the admin listener on `port`. `clock` gives seconds that never go back.

    Wrong tokens lock nobody out: many clients may share one address, and a token is too long to be guessed.
    """

    def __init__(self, port: int, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._clock = token, clock
        # Cookies of one machine's ports are one jar: each gateway has a name of its own.
        self._cookie = f"hookgate-panel-{port}"
        self._sessions: OrderedDict[str, _SignedIn] = OrderedDict()
        self._wrong, self._warn_at = 0, clock()

    def check(self, request: web.BaseRequest) -> None:
        """Whether what the gateway knows may be had. Raises ApiError (401 or 403)."""
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
        """Whether a POST comes from the panel, or a program, and from no page of another origin.

        Raises ApiError (403).
        """
        site = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get(hdrs.ORIGIN)
        same = origin is None or urlsplit(origin).netloc.lower() == request.headers.get(hdrs.HOST, "").lower()
        if not request.headers.get(HEADER) or site not in _OWN_SITES or not same:
            raise ApiError(403, f"Changes are for the panel itself, or a program that sends {HEADER}: 1.")

    def sign_in(self, request: web.BaseRequest, token: str) -> web.Response:
        """An answer with the cookie of a new session, and its proof. Raises ApiError (401)."""
        self._compare(request, token)
        session, proof = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._sessions[session] = _SignedIn(self._clock() + SESSION_SECONDS, proof)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        response = web.Response(body=dumps({"proof": proof}), content_type="application/json")
        response.headers[hdrs.CACHE_CONTROL] = "no-store"
        response.set_cookie(
            self._cookie, session, max_age=int(SESSION_SECONDS), httponly=True, samesite="Strict", path="/"
        )
        return response

    def sign_out(self, request: web.BaseRequest) -> web.Response:
        """An answer that ends the session."""
        self._sessions.pop(request.cookies.get(self._cookie, ""), None)
        response = web.Response(body=b"{}", content_type="application/json")
        response.del_cookie(self._cookie, httponly=True, samesite="Strict", path="/")
        return response

    def _in_session(self, request: web.BaseRequest) -> bool:
        # A dict finds by hash, of 256 random bits: its time tells nothing of other sessions.
        session = request.cookies.get(self._cookie, "")
        known = self._sessions.get(session)
        if known is None:
            return False
        if known.until <= self._clock():
            del self._sessions[session]
            return False
        given = request.headers.get(HEADER) or dict(parse_qsl(urlsplit(request.raw_path).query)).get(
            "proof", ""
        )
        return _equal(given, known.proof)

    def _compare(self, request: web.BaseRequest, given: str) -> None:
        if _equal(given, self._token):
            return
        self._wrong += 1
        if self._clock() >= self._warn_at:
            self._warn_at = self._clock() + _WARNING_SECONDS
            log.warning("wrong admin tokens so far: %d, the last from %s", self._wrong, request.remote)
        raise ApiError(401, "This is not the admin token.")


def _equal(given: str, right: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), right.encode())


def is_loopback(host: str) -> bool:
    """Whether it is this machine's own name, or an address that nobody else reaches."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
