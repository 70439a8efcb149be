"""Who may see the panel: anybody on this machine, or who has shown the admin token."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import ApiError

HEADER = "X-Hookgate-Panel"
"""What every POST has to carry: no page of another origin can send it without being asked for leave."""

SESSION_SECONDS = 12 * 3600.0
MAX_SESSIONS = 100
MAX_FAILURES = 10
"""Wrong tokens of one address within a minute; then it has to wait."""

_FAILURE_SECONDS = 60.0
_MAX_ADDRESSES = 1000

_CLOSED = (
    "The admin listener is not on a loopback address and has no admin token, so it shows nothing of calls. "
    "Set admin.token_file (or HOOKGATE_ADMIN__TOKEN_FILE) to a file with a token, or admin.address to "
    "127.0.0.1:9787."
)
_WRONG_HOST = (
    "This name is none of this machine's own, so a page elsewhere may have made your browser ask. "
    "Use http://127.0.0.1 or http://localhost, or set an admin token."
)
_OTHER_PAGE = "Another page has made your browser ask for this; open the panel itself."
_OWN_SITES = ("none", "same-origin")
"""What browsers say of requests that no other page has made; programs say nothing."""

_NO_SIGN_IN = "Show the admin token: sign in, or send it as Authorization: Bearer."


class Access:
    """Checks requests to an admin listener. `clock` gives seconds that never go back."""

    def __init__(self, address: str, token: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        host, port = host_and_port(address)
        self._loopback, self._token, self._clock = is_loopback(host), token, clock
        # Cookies of one machine's ports are one jar: each gateway has a name of its own.
        self._cookie = f"hookgate-panel-{port}"
        self._sessions: OrderedDict[str, float] = OrderedDict()
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    @property
    def closed(self) -> bool:
        """Whether nobody is shown anything."""
        return self._token is None and not self._loopback

    @property
    def asks(self) -> bool:
        """Whether a token has to be shown."""
        return self._token is not None

    def check_page(self, request: web.BaseRequest) -> None:
        """Whether the page itself may be had, which holds nothing of anybody. Raises ApiError (403)."""
        if self._token is None:
            if self.closed:
                raise ApiError(403, _CLOSED)
            if not is_loopback(_host_of(request)):
                raise ApiError(403, _WRONG_HOST)

    def check(self, request: web.BaseRequest) -> None:
        """Whether what the gateway knows may be had. Raises ApiError (401, 403 or 429)."""
        self.check_page(request)
        if request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
            raise ApiError(403, _OTHER_PAGE)
        if self._token is None or self._in_session(request):
            return
        scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() != "bearer":
            raise ApiError(401, _NO_SIGN_IN)
        self._compare(request, given.strip())

    def check_change(self, request: web.BaseRequest) -> None:
        """Whether a POST comes from the panel, or a program, and from no page of another origin.

        Raises ApiError (403).
        """
        self.check_page(request)
        site = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get(hdrs.ORIGIN)
        same = origin is None or urlsplit(origin).netloc.lower() == request.headers.get(hdrs.HOST, "").lower()
        if request.headers.get(HEADER) != "1" or site not in _OWN_SITES or not same:
            raise ApiError(403, f"Changes are for the panel itself, or a program that sends {HEADER}: 1.")

    def sign_in(self, request: web.BaseRequest, token: str) -> web.Response:
        """An answer with the cookie of a new session. Raises ApiError (401 or 429)."""
        self._compare(request, token)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = self._clock() + SESSION_SECONDS
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        response = web.Response(body=b"{}", content_type="application/json")
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
        if self._sessions.get(session, 0.0) > self._clock():
            return True
        self._sessions.pop(session, None)
        return False

    def _compare(self, request: web.BaseRequest, given: str) -> None:
        address = request.remote or ""
        failures = [at for at in self._failures.pop(address, ()) if at > self._clock() - _FAILURE_SECONDS]
        right = secrets.compare_digest(given.encode(errors="replace"), (self._token or "").encode())
        limited = len(failures) >= MAX_FAILURES
        if not right and not limited:
            failures.append(self._clock())
        if failures:
            self._failures[address] = failures
        if len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
        if limited:
            raise ApiError(429, "There were too many wrong tokens; wait a minute.")
        if not right or self._token is None:
            raise ApiError(401, "This is not the admin token.")


def is_loopback(host: str) -> bool:
    """Whether it is this machine's own name, or an address that nobody else reaches."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(request: web.BaseRequest) -> str:
    """The host that the client has asked for, without its port."""
    try:
        return urlsplit(f"//{request.headers.get(hdrs.HOST, '')}").hostname or ""
    except ValueError:
        return ""
